"""resource.k8s.io over HTTP: slices, classes, claims and templates, and pods that claim devices."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import requests

from simulator.server import Simulator
from tests.manifests.built import mistakes
from tests.simulator.builders import GPU_POOL, Starter, config

JSON = dict[str, Any]
API = "/apis/resource.k8s.io"
KINDS = {
    "resourceslices": "ResourceSlice",
    "deviceclasses": "DeviceClass",
    "resourceclaims": "ResourceClaim",
    "resourceclaimtemplates": "ResourceClaimTemplate",
    "devicetaintrules": "DeviceTaintRule",
}
MIG = "device.attributes['gpu.nvidia.com'].type == 'mig'"
MEMORY = {"memory-slice-0": {"value": "1"}, "memory-slice-1": {"value": "1"}}


def a_slice_of_gpu(name: str, *slices: int) -> JSON:
    """A MIG device that uses these of two memory slices."""
    used = {f"memory-slice-{n}": {"value": "1"} for n in slices}
    return {
        "name": name,
        "attributes": {"type": {"string": "mig"}},
        "capacity": {"memory": {"value": f"{20 * len(slices)}Gi"}},
        "consumesCounters": [{"counterSet": "gpu-0", "counters": used}],
    }


PARTITIONED = {
    "devices": [a_slice_of_gpu("large", 0, 1), a_slice_of_gpu("left", 0), a_slice_of_gpu("right", 1)],
    "counters": [{"name": "gpu-0", "counters": MEMORY}],
    "slices": 2,
}


def a_gpu(number: int, **attributes: Any) -> JSON:
    return {"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}, **attributes}}


Begin = Callable[..., Simulator]


@pytest.fixture
def begin(start: Starter) -> Begin:
    """Start a cluster of one node whose GPUs a DRA driver serves, with changes of its pool and of the API."""

    def started(gpus: int = 2, kubernetes: JSON | None = None, **pool: Any) -> Simulator:
        gpu_pool, cpu_pool = config()["pools"]
        pool = {"dra": "devices" not in pool, "taints": [], "resources": {"nvidia.com/gpu": gpus}, **pool}
        pools = [{**gpu_pool, **pool}, cpu_pool]
        return start(pools=pools, kubernetes={"daemonsets": False, **(kubernetes or {})})

    return started


def put(sim: Simulator, kind: str, name: str, spec: JSON, **metadata: Any) -> None:
    """Create an object of resource.k8s.io/v1, in the namespace ml where its kind has one."""
    one = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    where = "" if kind in ("DeviceClass", "DeviceTaintRule") else "/namespaces/ml"
    plural = next(plural for plural, of in KINDS.items() if of == kind)
    answer = requests.post(f"{sim.url}{API}/v1{where}/{plural}", json=one, timeout=60)
    assert answer.status_code == 201, answer.text
    assert mistakes(answer.json(), "1.37") == ""


def asking(count: int | None = 1, name: str = "gpu", **exactly: Any) -> JSON:
    """A request for GPUs; *count* None asks for all."""
    mode = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com", **mode, **exactly}}


def claim(*requests_: JSON, **devices: Any) -> JSON:
    return {"devices": {"requests": list(requests_) or [asking()], **devices}}


def a_pod(name: str, claims: JSON, **resources: str) -> JSON:
    """A pod with *claims*: the name of a ResourceClaim, or a list with that of a template."""
    named = {
        n: {"resourceClaimName": c} if isinstance(c, str) else {"resourceClaimTemplateName": c[0]}
        for n, c in claims.items()
    }
    limits = {f"nvidia.com/{r.replace('_', '-')}": n for r, n in resources.items()}
    container = {"name": "main", "resources": {"limits": limits, "claims": [{"name": n} for n in named]}}
    spec = {"containers": [container], "resourceClaims": [{"name": n, **c} for n, c in named.items()]}
    return {"metadata": {"name": name}, "spec": spec}


def run(sim: Simulator, *pods: JSON, seconds: int = 5) -> dict[str, JSON]:
    """Create *pods*, let time pass, and return the pods of the namespace by name."""
    for pod in pods:
        answer = requests.post(f"{sim.url}/api/v1/namespaces/ml/pods", json=pod, timeout=60)
        assert answer.status_code == 201, answer.text
    sim.live.turn(timedelta(seconds=seconds))
    found = requests.get(f"{sim.url}/api/v1/namespaces/ml/pods", timeout=60).json()["items"]
    return {pod["metadata"]["name"]: pod for pod in found}


def every(sim: Simulator, plural: str, version: str = "v1") -> list[JSON]:
    """Return the objects of a kind as the API lists them."""
    answer = requests.get(f"{sim.url}{API}/{version}/{plural}", timeout=60)
    assert answer.status_code == 200, answer.text
    return [{"apiVersion": f"resource.k8s.io/{version}", "kind": KINDS[plural], **o} for o in answer.json()["items"]]


def devices_of(sim: Simulator) -> dict[str, list[str]]:
    """Return the names of the devices of each allocated claim."""
    found = {c["metadata"]["name"]: (c.get("status") or {}).get("allocation") for c in every(sim, "resourceclaims")}
    return {name: [r["device"] for r in given["devices"]["results"]] for name, given in found.items() if given}


def message(pod: JSON) -> str:
    [condition] = pod["status"]["conditions"]
    return f"{condition['reason']}: {condition['message']}"


def runs(pod: JSON) -> bool:
    return "nodeName" in pod["spec"]


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_every_object_is_valid_by_the_published_schema(begin: Begin, version: str) -> None:
    sim = begin(devices=[PARTITIONED], kubernetes={"dra": version})
    templates = {"spec": claim(asking(1), {"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": "x"}]})}
    rule = {"deviceSelector": {"driver": "none"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    request = asking(1, deviceClassName="mig.nvidia.com", tolerations=[{"operator": "Exists"}])
    with sim.moved() as world:
        for plural, spec in {
            "resourceclaimtemplates": templates,
            "resourceclaims": claim(request),
            "devicetaintrules": rule,
        }.items():
            namespace = {} if plural == "devicetaintrules" else {"namespace": "ml"}
            world.claims.put(plural, {"metadata": {"name": "one", **namespace}, "spec": spec})
    pods = run(sim, a_pod("p", {"gpu": "one"}), a_pod("q", {"gpu": ["one"]}))
    assert runs(pods["p"])
    objects = [
        o
        for plural in KINDS
        if not (plural == "devicetaintrules" and version == "v1beta1")
        for o in every(sim, plural, version)
    ]
    objects += [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods.values()]
    assert [found for o in objects if (found := mistakes(o, "1.37"))] == []
    assert {o["kind"] for o in objects} >= {"ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate"}


def test_a_pod_gets_the_device_of_its_claim_and_gives_it_back(begin: Begin) -> None:
    sim = begin()
    put(sim, "ResourceClaim", "one", claim())
    pods = run(sim, a_pod("p", {"gpu": "one"}))
    assert (runs(pods["p"]), devices_of(sim)) == (True, {"one": ["gpu-0"]})
    [found] = every(sim, "resourceclaims")
    assert [(h["resource"], h["name"]) for h in found["status"]["reservedFor"]] == [("pods", "p")]
    requests.delete(f"{sim.url}/api/v1/namespaces/ml/pods/p", timeout=60)
    run(sim)
    assert devices_of(sim) == {}


def test_a_pod_keeps_the_gpus_of_its_claim_busy(begin: Begin) -> None:
    sim = begin(gpus=2)
    put(sim, "ResourceClaim", "one", claim())
    run(sim, a_pod("p", {"gpu": "one"}), seconds=60)
    with sim.moved() as world:
        assert [sample.pod for sample in world.gpu_samples()] == [("ml", "p"), None]
        assert [sample.util for sample in world.gpu_samples()] == [0.9, 0.0]


def test_each_pod_of_a_template_gets_a_claim_of_its_own_that_goes_with_it(begin: Begin) -> None:
    sim = begin()
    put(sim, "ResourceClaimTemplate", "t", {"spec": claim()})
    pods = run(sim, *(a_pod(f"p{n}", {"gpu": ["t"]}) for n in range(3)))
    assert [runs(pod) for pod in pods.values()] == [True, True, False]
    assert message(pods["p2"]) == "Unschedulable: 0/1 nodes are available: 1 cannot allocate all claims."
    [named] = pods["p0"]["status"]["resourceClaimStatuses"]
    first = next(c for c in every(sim, "resourceclaims") if c["metadata"]["name"] == named["resourceClaimName"])
    assert first["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert first["metadata"]["ownerReferences"][0]["name"] == "p0"
    requests.delete(f"{sim.url}/api/v1/namespaces/ml/pods/p0", timeout=60)
    pods = run(sim)
    assert {name: runs(pod) for name, pod in pods.items()} == {"p1": True, "p2": True}
    assert len(every(sim, "resourceclaims")) == 2


def test_pods_share_a_claim_on_the_node_where_it_is_allocated(begin: Begin) -> None:
    sim = begin(gpus=1, count=2)
    put(sim, "ResourceClaim", "shared", claim())
    put(sim, "ResourceClaim", "own", claim())
    pods = run(sim, a_pod("a", {"gpu": "shared"}), a_pod("b", {"gpu": "shared"}))
    assert pods["a"]["spec"]["nodeName"] == pods["b"]["spec"]["nodeName"]
    pods = run(sim, a_pod("c", {"gpu": "own"}))
    assert pods["c"]["spec"]["nodeName"] != pods["a"]["spec"]["nodeName"]
    both = run(sim, a_pod("d", {"x": "shared", "y": "own"}))["d"]
    assert message(both).endswith("2 resourceclaim not available on the node.")
    requests.delete(f"{sim.url}/api/v1/namespaces/ml/pods/a", timeout=60)
    run(sim)
    assert devices_of(sim).keys() == {"shared", "own"}  # the other pod still uses it


def test_all_devices_are_given_together_or_not_at_all(begin: Begin) -> None:
    sim = begin(gpus=3)
    put(sim, "ResourceClaim", "all", claim(asking(None)))
    put(sim, "ResourceClaim", "one", claim())
    assert runs(run(sim, a_pod("one", {"gpu": "one"}))["one"])
    assert not runs(run(sim, a_pod("all", {"gpu": "all"}))["all"])
    requests.delete(f"{sim.url}/api/v1/namespaces/ml/pods/one", timeout=60)
    run(sim)
    assert devices_of(sim) == {"all": ["gpu-0", "gpu-1", "gpu-2"]}


def test_the_first_alternative_that_is_there_is_taken(begin: Begin) -> None:
    sim = begin(gpus=1)
    options = [
        {"name": "big", "deviceClassName": "gpu.nvidia.com", "count": 2},
        {"name": "small", "deviceClassName": "gpu.nvidia.com"},
    ]
    put(sim, "ResourceClaim", "either", claim({"name": "gpu", "firstAvailable": options}))
    run(sim, a_pod("p", {"gpu": "either"}))
    [found] = every(sim, "resourceclaims")
    assert [r["request"] for r in found["status"]["allocation"]["devices"]["results"]] == ["gpu/small"]


@pytest.mark.parametrize(
    ("constraint", "devices"), [("matchAttribute", ["gpu-0", "gpu-2"]), ("distinctAttribute", ["gpu-0", "gpu-1"])]
)
def test_constraints_choose_devices(begin: Begin, constraint: str, devices: list[str]) -> None:
    gpus = [a_gpu(n, rack={"int": rack}) for n, rack in enumerate([1, 2, 1])]
    sim = begin(devices=[{"devices": gpus}])
    put(sim, "ResourceClaim", "two", claim(asking(2), constraints=[{constraint: "gpu.nvidia.com/rack"}]))
    run(sim, a_pod("p", {"gpu": "two"}))
    assert devices_of(sim) == {"two": devices}


def test_selectors_choose_devices_and_one_that_fails_is_an_error_of_the_scheduler(begin: Begin) -> None:
    sim = begin(devices=[{"devices": [a_gpu(0), a_gpu(1, ecc={"bool": True})]}])
    of = "device.attributes['gpu.nvidia.com']."
    put(sim, "ResourceClaim", "bad", claim(asking(selectors=[{"cel": {"expression": f"{of}ecc == true"}}])))
    pods = run(sim, a_pod("p", {"gpu": "bad"}))
    assert message(pods["p"]).startswith('SchedulerError: running "DynamicResources" filter plugin: request gpu')
    type_of = [{"cel": {"expression": f"device.driver == 'gpu.nvidia.com' && {of}type == 'mig'"}}]
    put(sim, "ResourceClaim", "none", claim(asking(selectors=type_of)))
    assert message(run(sim, a_pod("q", {"gpu": "none"}))["q"]).endswith("1 cannot allocate all claims.")


def test_each_pod_of_a_gang_shows_the_error_of_a_selector_that_fails(begin: Begin) -> None:
    sim = begin(gpus=1)
    put(
        sim, "ResourceClaimTemplate", "bad", {"spec": claim(asking(selectors=[{"cel": {"expression": "device.oops"}}]))}
    )
    gang = [a_pod(name, {"gpu": ["bad"]}) for name in ("p", "q")]
    for pod in gang:
        pod["metadata"]["annotations"] = {"gpu-autoscaler.io/gang": "g"}
    reasons = {message(pod).partition(":")[0] for pod in run(sim, *gang).values()}
    assert reasons == {"SchedulerError"}


def test_admin_access_uses_no_device_and_needs_its_namespace(begin: Begin) -> None:
    sim = begin(gpus=1)
    admin = claim(asking(adminAccess=True))
    refused = requests.post(
        f"{sim.url}{API}/v1/namespaces/ml/resourceclaims", json={"metadata": {"name": "a"}, "spec": admin}, timeout=60
    )
    assert refused.status_code == 422
    labels = {"resource.kubernetes.io/admin-access": "true"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": labels}}
    requests.post(f"{sim.url}/_custom", json=space, timeout=60)
    put(sim, "ResourceClaim", "admin", admin)
    put(sim, "ResourceClaim", "one", claim())
    pods = run(sim, a_pod("p", {"gpu": "admin"}), a_pod("q", {"gpu": "one"}))
    assert [runs(pod) for pod in pods.values()] == [True, True]
    assert devices_of(sim) == {"admin": ["gpu-0"], "one": ["gpu-0"]}


def test_devices_that_share_counters_exclude_each_other(begin: Begin) -> None:
    sim = begin(devices=[PARTITIONED], resources={"nvidia.com/gpu": 1})
    slices = sorted(every(sim, "resourceslices"), key=lambda s: s["metadata"]["name"])
    assert ["sharedCounters" in s["spec"] for s in slices] == [True, False, False]
    assert {s["spec"]["pool"]["resourceSliceCount"] for s in slices} == {3}
    of_mig = asking(1, deviceClassName="mig.nvidia.com")
    for name in ("a", "b", "c"):
        put(sim, "ResourceClaim", name, claim(of_mig))
    pods = run(sim, *(a_pod(name, {"gpu": name}) for name in ("a", "b", "c")))
    assert devices_of(sim) == {"a": ["large"]}
    requests.delete(f"{sim.url}/api/v1/namespaces/ml/pods/a", timeout=60)
    pods = run(sim)
    assert devices_of(sim) == {"b": ["large"]}
    assert not runs(pods["c"])


def test_a_resource_of_a_class_becomes_a_claim_of_the_pod(begin: Begin) -> None:
    sim = begin()
    pods = run(sim, a_pod("p", {}, gpu="2"), a_pod("q", {}, gpu="1"))
    given = pods["p"]["status"]["extendedResourceClaimStatus"]
    assert given["requestMappings"] == [
        {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}
    ]
    assert devices_of(sim) == {given["resourceClaimName"]: ["gpu-0", "gpu-1"]}
    assert message(pods["q"]).endswith("1 cannot allocate all claims.")
    requests.delete(f"{sim.url}/api/v1/namespaces/ml/pods/p", timeout=60)
    assert runs(run(sim)["q"])
    assert len(every(sim, "resourceclaims")) == 1


def test_claims_and_resources_share_the_devices_of_a_node(begin: Begin) -> None:
    sim = begin(gpus=1)
    put(sim, "ResourceClaim", "one", claim())
    run(sim, a_pod("p", {"gpu": "one"}))
    assert not runs(run(sim, a_pod("q", {}, gpu="1"))["q"])


def test_where_no_class_answers_to_a_resource_it_is_short(begin: Begin) -> None:
    sim = begin(devices=[{"devices": [a_gpu(0)]}])
    assert message(run(sim, a_pod("p", {}, gpu="1"))["p"]).endswith("1 Insufficient nvidia.com/gpu.")


def test_a_pod_without_its_claim_is_not_tried_before_it_exists(begin: Begin) -> None:
    sim = begin()
    pods = run(sim, a_pod("p", {"gpu": "later"}), a_pod("q", {"gpu": ["later"]}))
    assert ["conditions" in pod["status"] for pod in pods.values()] == [False, False]
    put(sim, "ResourceClaim", "later", claim())
    put(sim, "ResourceClaimTemplate", "later", {"spec": claim()})
    assert [runs(pod) for pod in run(sim).values()] == [True, True]


def test_a_claim_that_is_deleted_while_its_pod_waits_is_missed(begin: Begin) -> None:
    sim = begin(gpus=1)
    put(sim, "ResourceClaim", "many", claim(asking(2)))
    run(sim, a_pod("p", {"gpu": "many"}))
    requests.delete(f"{sim.url}{API}/v1/namespaces/ml/resourceclaims/many", timeout=60)
    assert message(run(sim, seconds=20)["p"]).endswith('0/1 nodes are available: resourceclaim "many" not found.')
    put(sim, "ResourceClaim", "many", claim(asking(1)))
    assert runs(run(sim)["p"])


def test_a_class_that_does_not_exist_is_named(begin: Begin) -> None:
    sim = begin()
    put(sim, "ResourceClaim", "odd", claim(asking(deviceClassName="odd")))
    text = message(run(sim, a_pod("p", {"gpu": "odd"}))["p"])
    assert text.endswith("0/1 nodes are available: request gpu: device class odd does not exist.")
    put(sim, "DeviceClass", "odd", {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]})
    assert runs(run(sim)["p"])


def test_a_tainted_device_is_given_to_whoever_tolerates_it_and_evicts_others(begin: Begin) -> None:
    sim = begin(gpus=1)
    put(sim, "ResourceClaim", "plain", claim())
    put(sim, "ResourceClaim", "tolerant", claim(asking(tolerations=[{"key": "sick", "operator": "Exists"}])))
    [node] = {s["spec"]["nodeName"] for s in every(sim, "resourceslices")}
    assert runs(run(sim, a_pod("p", {"gpu": "plain"}))["p"])
    sim.fault(kind="taint_device", node=node, gpu=0, field="sick", effect="NoExecute")
    assert run(sim) == {}
    pods = run(sim, a_pod("q", {"gpu": "plain"}), a_pod("r", {"gpu": "tolerant"}))
    assert (runs(pods["q"]), runs(pods["r"])) == (False, True)
    assert {s["spec"]["pool"]["generation"] for s in every(sim, "resourceslices")} == {2}
    requests.delete(f"{sim.url}/api/v1/namespaces/ml/pods/r", timeout=60)
    sim.fault(kind="taint_device", node=node, gpu=0)
    assert runs(run(sim)["q"])


def test_a_rule_taints_the_devices_that_it_selects(begin: Begin) -> None:
    sim = begin()
    rule = {"deviceSelector": {"device": "gpu-0"}, "taint": {"key": "sick", "effect": "NoSchedule"}}
    put(sim, "DeviceTaintRule", "rule", rule)
    put(sim, "ResourceClaim", "one", claim())
    run(sim, a_pod("p", {"gpu": "one"}))
    assert devices_of(sim) == {"one": ["gpu-1"]}


def test_slices_come_one_by_one_and_devices_are_given_when_all_are_there(start: Starter) -> None:
    gpu_pool, _ = config()["pools"]
    pool = {**gpu_pool, "taints": [], "devices": [PARTITIONED], "count": 0}
    sim = start(pools=[pool], kubernetes={"daemonsets": False}, timings={**config()["timings"], "slices": "20s"})
    put(sim, "ResourceClaim", "one", claim(asking(deviceClassName="mig.nvidia.com")))
    with sim.moved() as world:
        world.resize(GPU_POOL, 1)
    pods = run(sim, a_pod("p", {"gpu": "one"}), seconds=145)
    assert (len(every(sim, "resourceslices")), runs(pods["p"])) == (2, False)
    assert runs(run(sim, seconds=20)["p"])


def test_a_pool_that_stays_incomplete_is_complete_after_a_restart_of_its_driver(start: Starter) -> None:
    gpu_pool, _ = config()["pools"]
    sim = start(pools=[{**gpu_pool, "taints": [], "dra": True, "count": 0}], kubernetes={"daemonsets": False})
    sim.fault(kind="slices_incomplete", pool=GPU_POOL)
    with sim.moved() as world:
        world.resize(GPU_POOL, 1)
    assert not runs(run(sim, a_pod("p", {}, gpu="1"), seconds=300)["p"])
    with sim.moved() as world:
        [node] = world.nodes
        assert world.lives[0].usable_at is None
    sim.fault(kind="lose_gpu", node=node)
    with sim.moved() as world:
        world.faults.recover(node)
    assert runs(run(sim)["p"])


def test_a_claim_in_use_is_deleted_when_its_pod_is_gone(begin: Begin) -> None:
    sim = begin()
    put(sim, "ResourceClaim", "one", claim())
    run(sim, a_pod("p", {"gpu": "one"}))
    path = f"{sim.url}{API}/v1/namespaces/ml/resourceclaims/one"
    requests.delete(path, timeout=60)
    assert "deletionTimestamp" in requests.get(path, timeout=60).json()["metadata"]
    requests.delete(f"{sim.url}/api/v1/namespaces/ml/pods/p", timeout=60)
    run(sim)
    assert requests.get(path, timeout=60).status_code == 404
