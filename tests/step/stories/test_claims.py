"""Stories of pods that claim devices, from an empty pool to an empty pool: each buys what it needs and no more.

The world is the simulator's, over HTTP: its scheduler allocates claims by the rules of resource.k8s.io.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import ClusterOptions, connect
from receiver.config.devices import DeviceSpec, devices_text
from receiver.core.model.model import Stage
from receiver.core.model.policy import Pool
from receiver.ports import MAY_WAIT, PROVISIONING_CLASS, Store
from simulator.manifests import pod_spec
from simulator.server import Simulator
from simulator.world import World
from tests.core.builders import HOUR, MINUTE, SECOND
from tests.expect import bought, living, published, titles
from tests.given.life import GPU, POOL, PRICE, SIZE, START, Life, a_policy
from tests.given.requests import EVERY_READER
from tests.simulator.builders import config

JSON = dict[str, Any]
GPU_CLASS, MIG_CLASS = "gpu.nvidia.com", "mig.nvidia.com"
TYPE = "device.attributes['gpu.nvidia.com'].type"


class WorldClock:
    """Follows the world, which a `Life` moves."""

    world: World | None = None

    def now(self) -> datetime:
        return START if self.world is None else self.world.now


def gpus(count: int) -> JSON:
    """A driver that shows *count* GPUs of a node."""
    return {"devices": [{"name": f"gpu-{n}", "attributes": {"type": {"string": "gpu"}}} for n in range(count)]}


def partitioned() -> JSON:
    """A driver that shows a GPU, and its two halves, of which one or the others can be used."""
    used = {"left": [0], "right": [1], "whole": [0, 1]}
    devices = [
        {
            "name": name,
            "attributes": {"type": {"string": "gpu" if name == "whole" else "mig"}},
            "consumesCounters": [
                {"counterSet": "gpu-0", "counters": {f"memory-slice-{n}": {"value": "1"} for n in parts}}
            ],
        }
        for name, parts in used.items()
    ]
    counters = [{"name": "gpu-0", "counters": {f"memory-slice-{n}": {"value": "1"} for n in (0, 1)}}]
    return {"devices": devices, "counters": counters, "slices": 2}


def of_the_pool(driver: JSON) -> str:
    """The devices of a node as the configuration names them."""
    specs = [
        DeviceSpec.model_validate(
            {
                "attributes": {"type": device["attributes"]["type"]["string"]},
                "uses": {
                    f"{used['counterSet']}/{name}": int(each["value"])
                    for used in device.get("consumesCounters", ())
                    for name, each in used["counters"].items()
                },
            }
        )
        for device in driver["devices"]
    ]
    counters = {f"{c['name']}/{name}": 1 for c in driver.get("counters", ()) for name in c["counters"]}
    return devices_text(specs, counters)


@dataclass
class ClaimLife(Life):
    """A life whose API server refuses the rights in *denied* (``list resourceclaims``)."""

    denied: set[str] = field(default_factory=set)
    custom: Any = None  # the simulator's custom resources
    name: str = ""
    figure: Callable[[str], None] = print


Begin = Callable[..., ClaimLife]


@pytest.fixture
def begin(
    store: Store, tmp_path: Path, request: pytest.FixtureRequest, figure: Callable[[str], None]
) -> Iterator[Begin]:
    """Begin a life with an empty pool whose devices a DRA driver shows, which the configuration names."""
    opened: list[Any] = []

    def started(
        driver: JSON, *, named: bool = True, size: int = 1, count: int = 0, slices: str = "0s", **pool: Any
    ) -> ClaimLife:
        clock, told = WorldClock(), config()
        [given, _] = told["pools"]
        timings = {**told["timings"], "slices": slices}
        spec = {"id": POOL, "size": SIZE, "resources": {GPU: size}, "count": count, "taints": [], **pool}
        spec = {**given, **({"devices": [driver]} if not pool.get("dra") else {}), **spec}
        served = config(pools=[spec], timings=timings, kubernetes={"daemonsets": False, "dra": "v1"})
        sim = Simulator(served, clock=clock).start()
        clock.world = sim.world
        kept = Pool(
            id=POOL,
            name="l40s",
            size=SIZE,
            resources={GPU: size},
            max_nodes=8,
            price_usd_per_hour=PRICE,
            labels=given["labels"],
            devices=of_the_pool(driver) if named else "",
        )
        policy = a_policy(kept)
        life = ClaimLife(world=sim.world, policy=policy, store=store, lock=sim.live.lock, denied=sim.live.denied)
        life.name, life.figure = request.node.name.removeprefix("test_").replace("_", " "), figure
        life.custom = sim.live.custom
        adapter = connect(
            str(sim.kubeconfig(tmp_path / "kubeconfig")),
            clock=clock,
            calls=Calls(timeouts=(60, 60)),
            options=ClusterOptions(readers=EVERY_READER),
        )
        life.cluster = adapter  # type: ignore[assignment]  # the product's own
        opened.extend((adapter.close, sim.stop))
        return life

    yield started
    for close in opened:
        close()


def request(count: int = 1, name: str = "gpu", of: str = GPU_CLASS, **exactly: Any) -> JSON:
    return {"name": name, "exactly": {"deviceClassName": of, "count": count, **exactly}}


def put(life: Life, kind: str, name: str, *requests: JSON, **devices: Any) -> None:
    spec: JSON = {"devices": {"requests": list(requests), **devices}}
    spec = spec if kind == "resourceclaims" else {"spec": spec}
    with life.lock:
        life.world.claims.put(kind, {"metadata": {"name": name, "namespace": "ml"}, "spec": spec})


def submit(
    life: Life,
    name: str,
    *,
    claim: str = "",
    template: str = "",
    cpu: str = "1",
    may_wait: str = "",
    annotations: Mapping[str, str] | None = None,
    **limits: str,
) -> None:
    """A pod of ten minutes that uses a claim, or one of its own by *template*."""
    named = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    claims = [{"name": "devices", **named}] if claim or template else []
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu, **{f"nvidia.com/{k}": v for k, v in limits.items()}}}
    annotations = {
        "simulator/duration-seconds": "600",
        **(annotations or {}),
        **({MAY_WAIT: may_wait} if may_wait else {}),
    }
    gates = [{"name": MAY_WAIT}] if may_wait else []
    manifest = {
        "metadata": {"name": name, "namespace": "ml", "annotations": annotations},
        "spec": {
            "containers": [{"name": "main", "resources": resources}],
            "resourceClaims": claims,
            "schedulingGates": gates,
        },
    }
    with life.lock:
        life.world.add_pod(pod_spec(manifest))


def to_the_end(life: ClaimLife, needed: int) -> None:
    """Run until the pool is empty again and a quarter of an hour longer; it bought exactly what was *needed*."""
    life.pass_time(SECOND)
    life.run(15 * MINUTE, tick=MINUTE)
    assert {vm.stage for vm in life.step().facts.pool(POOL).nodes} <= {Stage.USABLE}
    life.run_until(lambda: not living(life), tick=MINUTE, within=2 * HOUR)
    life.run(15 * MINUTE, tick=MINUTE)
    assert living(life) == []
    assert titles(life, "not usable") == titles(life, "offers other GPUs") == []
    assert life.step().facts.pool(POOL).backoffs.provisioning is None
    life.figure(f"{life.name}: {bought(life)} nodes bought, {needed} needed")
    assert bought(life) == needed


def events(life: Life, pod: str) -> list[str]:
    return [event.message for event in life.world.events if event.name == pod and "scheduler" not in event.component]


def test_a_claim_of_two_devices_gets_a_node_of_two(begin: Begin) -> None:
    life = begin(gpus(2), size=2)
    put(life, "resourceclaims", "train", request(2))
    submit(life, "train", claim="train")
    life.pass_time(SECOND)
    life.run(MINUTE)
    [waits] = published(life.store)["waiting"]
    assert waits["detail"].startswith("it claims 2 devices of class gpu.nvidia.com (claim train); node ")
    assert waits["resources"] == {"resource.k8s.io/claims": 2}
    to_the_end(life, 1)


def test_pods_of_one_template_fill_the_nodes(begin: Begin) -> None:
    life = begin(gpus(2), size=2)
    put(life, "resourceclaimtemplates", "one", request())
    for n in range(5):
        submit(life, f"train-{n}", template="one")
    to_the_end(life, 3)


def test_pods_that_share_a_claim_get_one_node(begin: Begin) -> None:
    life = begin(gpus(1))
    put(life, "resourceclaims", "shared", request())
    for n in range(3):
        submit(life, f"train-{n}", claim="shared", cpu="2")
    to_the_end(life, 1)


def test_a_provisioning_request_books_nodes_for_what_its_pods_claim_and_gives_them_back(begin: Begin) -> None:
    life = begin(gpus(2), size=2)
    put(life, "resourceclaimtemplates", "two", request(2))
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    claims = [{"name": "devices", "resourceClaimTemplateName": "two"}]
    spec = {"containers": [container], "resourceClaims": claims}
    sets = [{"podTemplateRef": {"name": "ppt"}, "count": 2}]
    book = {"provisioningClassName": PROVISIONING_CLASS, "podSets": sets}
    objects = (
        {"apiVersion": "v1", "kind": "PodTemplate", "template": {"metadata": {}, "spec": spec}},
        {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "spec": book},
    )
    named = [{**each, "metadata": {"namespace": "ml", "name": "ppt"}} for each in objects]
    life.custom.put(named, life.world.now)
    life.pass_time(SECOND)
    life.run(15 * MINUTE, tick=30 * SECOND)
    [found] = life.custom.objects("autoscaling.x-k8s.io", "provisioningrequests")
    said = {c["type"]: c["message"] for c in found["status"]["conditions"] if c["status"] == "True"}
    assert said["Provisioned"] == "booked for ten minutes: room for 2 pods in pool l40s"
    to_the_end(life, 2)


def test_of_alternatives_the_one_that_the_pool_has_counts(begin: Begin) -> None:
    life = begin(gpus(2), size=2)
    ways = [{"name": "slice", "deviceClassName": MIG_CLASS}, {"name": "gpus", "deviceClassName": GPU_CLASS, "count": 2}]
    put(life, "resourceclaimtemplates", "any", {"name": "any", "firstAvailable": ways})
    for n in range(2):
        submit(life, f"train-{n}", template="any")
    to_the_end(life, 2)


def test_all_devices_of_a_node_are_for_one_pod(begin: Begin) -> None:
    life = begin(gpus(2), size=2)
    every = {"name": "all", "exactly": {"deviceClassName": GPU_CLASS, "allocationMode": "All"}}
    put(life, "resourceclaimtemplates", "every", every)
    for n in range(2):
        submit(life, f"train-{n}", template="every")
    to_the_end(life, 2)


def test_slices_that_share_counters_fill_a_gpu(begin: Begin) -> None:
    life = begin(partitioned())
    put(life, "resourceclaimtemplates", "half", request(of=MIG_CLASS))
    put(life, "resourceclaimtemplates", "whole", request())
    for n in range(2):
        submit(life, f"half-{n}", template="half")
    submit(life, "whole", template="whole")
    to_the_end(life, 2)


@pytest.mark.parametrize("dra", [False, True], ids=["claims alone", "nvidia.com/gpu by DRA"])
def test_work_that_may_wait_gets_devices_that_are_paid_for(begin: Begin, dra: bool) -> None:
    life = begin(gpus(8), size=8, dra=dra)
    put(life, "resourceclaimtemplates", "one", request())
    submit(life, "first", template="one")
    submit(life, "patient", template="one", may_wait="5h")
    to_the_end(life, 1)
    [patient] = [pod for pod in life.world.pods.values() if pod.name == "patient"]
    assert patient.phase == "Succeeded"


def test_a_resource_that_dra_serves_and_a_claim_share_a_node(begin: Begin) -> None:
    life = begin(gpus(2), size=2, dra=True)
    put(life, "resourceclaimtemplates", "one", request())
    submit(life, "by-claim", template="one")
    submit(life, "by-resource", gpu="1")
    to_the_end(life, 1)


def test_a_resource_that_dra_serves_is_demand_as_ever(begin: Begin) -> None:
    life = begin(gpus(2), size=2, dra=True, named=False)
    for n in range(3):
        submit(life, f"train-{n}", gpu="1")
    to_the_end(life, 2)


def test_a_nomination_that_outlived_its_devices_adds_no_room_to_its_node(begin: Begin) -> None:
    """Its claim was given back when its binding failed; what `nominatedNodeName` still names is free, or another's."""
    life = begin(gpus(1), count=1, dra=True)
    slow = {"simulator/binds-in": "60", "simulator/binding-fails": "3", "simulator/keeps-nomination": "true"}
    life.run(5 * MINUTE)
    nominated = set()
    for name in ("first", "second"):
        submit(life, name, annotations=slow, gpu="1")
    for _ in range(30):
        node = life.step().facts.pool(POOL).nodes[0]
        nominated |= {pod.name for pod in node.pods if pod.reserved}
        assert node.allocatable[GPU] == 1
        life.pass_time(10 * SECOND)
    assert nominated == {"first", "second"}


def test_without_a_template_nothing_is_bought_until_a_node_shows_its_devices(begin: Begin) -> None:
    life = begin(gpus(1), named=False)
    put(life, "resourceclaimtemplates", "one", request())
    submit(life, "first", template="one")
    life.pass_time(SECOND)
    life.run(5 * MINUTE, tick=30 * SECOND)
    assert bought(life) == 0
    assert "it is not known which devices a node has" in events(life, "first")[0]
    life.set_override("floor", 1, lasts=10 * MINUTE)  # a person buys the first node
    life.run(10 * MINUTE, tick=30 * SECOND)
    submit(life, "second", template="one")
    life.run(5 * MINUTE, tick=30 * SECOND)
    assert bought(life) == 2
    life.run(3 * HOUR, tick=MINUTE)
    assert living(life) == []
    submit(life, "later", template="one")  # what a node showed is remembered
    life.run(10 * MINUTE, tick=30 * SECOND)
    assert bought(life) == 3


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ([request(of="none.example.com")], "request gpu: there is no DeviceClass none.example.com"),
        ([request(allocationMode="Some")], "request gpu: its allocation mode Some is not known"),
        (
            [request(capacity={"requests": {"memory": "10Gi"}})],
            "request gpu: it asks for a part of a device's capacity, which is not supported",
        ),
        ([request(3)], "it claims 3 devices of class gpu.nvidia.com, a node has 1 that match"),
        (
            [request(selectors=[{"cel": {"expression": "device.attributes['gpu.nvidia.com'].nvlink"}}])],
            "it claims devices of class gpu.nvidia.com, whose selectors cannot be judged for the devices of a node",
        ),
        ([request(adminAccess=True)], "it claims devices with admin access only, which takes none"),
    ],
    ids=["no class", "mode", "capacity", "too many", "selector", "admin"],
)
def test_what_cannot_be_served_buys_nothing_and_is_told(begin: Begin, requests: list[JSON], said: str) -> None:
    life = begin(gpus(1))
    put(life, "resourceclaims", "odd", *requests)
    submit(life, "odd", claim="odd")
    life.pass_time(SECOND)
    life.run(10 * MINUTE, tick=30 * SECOND)
    assert bought(life) == 0
    assert said in events(life, "odd")[0]


def test_a_node_whose_slices_come_in_parts_is_on_its_way_until_the_last(begin: Begin) -> None:
    life = begin(partitioned(), slices="1m")
    put(life, "resourceclaimtemplates", "half", request(of=MIG_CLASS))
    submit(life, "half", template="half")
    life.pass_time(SECOND)
    stages = []
    life.run(
        8 * MINUTE,
        tick=20 * SECOND,
        each=lambda: stages.append([n.stage for n in life.steps[-1].facts.pool(POOL).nodes] if life.steps else []),
    )
    assert [Stage.INSTALLING] in stages
    assert stages.index([Stage.INSTALLING]) < stages.index([Stage.USABLE])
    to_the_end(life, 1)


def test_a_new_node_whose_devices_are_tainted_buys_no_second_one(begin: Begin) -> None:
    life = begin(gpus(1), slices="1m")
    put(life, "resourceclaimtemplates", "one", request())
    submit(life, "train", template="one")
    life.pass_time(SECOND)

    def taint() -> None:
        for node in life.world.nodes:
            life.world.taint_device(node, "gpu-0", {"key": "example.com/burn-in", "effect": "NoSchedule"})

    life.run(4 * MINUTE, each=taint)
    life.run(12 * MINUTE, tick=30 * SECOND)
    assert bought(life) == 1
    assert "does not tolerate their taints" in events(life, "train")[-1]


@pytest.mark.parametrize(("after", "nodes"), [(20 * SECOND, 1), (3 * MINUTE, 2)], ids=["new", "at work for minutes"])
def test_a_taint_says_something_of_the_next_node_only_if_it_comes_with_a_new_one(
    begin: Begin, after: timedelta, nodes: int
) -> None:
    life = begin(gpus(1))
    put(life, "resourceclaimtemplates", "one", request())
    submit(life, "first", template="one")
    life.pass_time(SECOND)
    while not any(n.stage is Stage.USABLE for n in life.step().facts.pool(POOL).nodes):
        life.pass_time(5 * SECOND)
        assert life.now < START + 10 * MINUTE
    life.run(after, tick=10 * SECOND)
    [node] = life.world.nodes
    life.world.taint_device(node, "gpu-0", {"key": "example.com/burn-in", "effect": "NoSchedule"})
    submit(life, "second", template="one")
    life.run(2 * MINUTE)
    assert bought(life) == nodes


def test_a_node_whose_driver_starts_again_stays(begin: Begin) -> None:
    """A driver withdraws its slices when it ends, and publishes them as a new generation."""
    life = begin(gpus(1), count=1)
    put(life, "resourceclaimtemplates", "one", request())
    [node] = life.world.nodes
    life.run(MINUTE)
    life.world.faults.lose_gpu(node)
    life.run(MINUTE)
    submit(life, "train", template="one")
    life.pass_time(SECOND)
    life.run(MINUTE)
    assert bought(life) == 1
    life.world.faults.recover(node)
    life.run(5 * MINUTE)
    assert {p.node for p in life.world.pods.values() if p.name == "train"} == {node}
    assert bought(life) == 1


def test_without_the_right_to_read_claims_nothing_is_bought_and_running_work_keeps_its_node(begin: Begin) -> None:
    life = begin(gpus(1), count=1)
    put(life, "resourceclaimtemplates", "one", request())
    submit(life, "runs", template="one")
    life.pass_time(SECOND)
    life.run(MINUTE)
    life.denied |= {"list resourceclaims", "list resourceslices"}
    submit(life, "waits", template="one")
    life.run(9 * MINUTE, tick=30 * SECOND)
    assert [(n.stage, n.busy) for n in life.step().facts.pool(POOL).nodes] == [(Stage.USABLE, True)]
    assert bought(life) == 1
    assert "the list of resourceclaims (resource.k8s.io) is refused or fails" in events(life, "waits")[0]
    life.run(2 * HOUR, tick=MINUTE)
    assert titles(life, "not usable") == []
