"""Slices, classes and claims of resource.k8s.io, and what pods hold and ask for by them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from receiver.adapters.kubernetes.devices import by_node, claim_of, classes_from, devices_in, in_words, slice_from
from receiver.adapters.kubernetes.dra import Dra, gpu_nodes
from receiver.adapters.kubernetes.pods import DrainFate, SeenPod
from receiver.core.model.devices import CLAIMS, Claim, Constraint, DeviceRequest, Toleration
from receiver.core.model.pods import Nomination, Pod, PodPhase
from receiver.core.model.policy import Taint
from receiver.ports import SAFE_TO_EVICT_ANNOTATION, TryLater
from simulator.clocks import ManualClock
from tests.adapters.kubernetes.custom_objects import GPU
from tests.adapters.kubernetes.device_objects import (
    DRIVER,
    JSON,
    OF_DRIVER,
    a_claim_spec,
    a_claim_template,
    a_device_class,
    a_device_request,
    a_resource_claim,
)

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def a_slice(*devices: str | JSON, node: str = "n1", driver: str = DRIVER, **given: Any) -> JSON:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1, **given.pop("pool", {})}
    named = [{"name": d} if isinstance(d, str) else d for d in devices]
    return {"spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": named, **given}}


def a_pod(name: str = "p", node: str = "", limits: JSON | None = None, **claims: Any) -> SeenPod:
    """The pod ml/*name*: each of *claims* names a ResourceClaim, or in a list a template and what was made of it."""
    named, made = [], []
    for key, claim in claims.items():
        if isinstance(claim, str):
            named.append({"name": key, "resourceClaimName": claim})
            continue
        named.append({"name": key, "resourceClaimTemplateName": claim[0]})
        made += [{"name": key, **({"resourceClaimName": claim[1]} if claim[1] else {})}] if len(claim) > 1 else []
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return SeenPod(
        {
            "metadata": {"name": name, "namespace": "ml", "uid": name, "creationTimestamp": "2026-11-20T12:00:00Z"},
            "spec": {
                "containers": [{"name": "main", "resources": {"limits": limits or {}}}],
                "resourceClaims": named,
                **({"nodeName": node} if node else {}),
            },
            "status": {
                "phase": "Running" if node else "Pending",
                "resourceClaimStatuses": made,
                **({} if node else {"conditions": [refused]}),
            },
        }
    )


class Served:
    """Lists of what is served; a kind that is None is refused, one that is an exception fails."""

    def __init__(self, **lists: Any) -> None:
        self.lists = {"resourceslices": [a_slice("gpu-0", "gpu-1")], "deviceclasses": [a_device_class()], **lists}
        self.said: list[str] = []
        self.remarks = self
        self.dra = Dra(self, ManualClock(START))  # type: ignore[arg-type]  # the part of `Lists` that is asked

    def if_allowed(self, kind: Any, without: str, view: Any = lambda raw: raw, **_: Any) -> list[Any] | None:
        found = self.lists.get(kind.plural, [])
        if isinstance(found, Exception):
            raise found
        return None if found is None else list(map(view, found))

    def if_readable(self, kind: Any, without: str, view: Any) -> list[Any] | None:
        try:
            return self.if_allowed(kind, without, view)
        except TryLater:
            return None

    def warn(self, event: str, detail: str) -> None:
        self.said.append(f"{event}: {detail}")

    def see(self, *pods: SeenPod) -> dict[str, Pod]:
        served = self.dra.served()
        claims = self.dra.claims(served, pods)
        found = (claims.of(pod, pod.pod) if claims is not None else pod.pod for pod in pods)
        return {pod.name: pod for pod in found if pod is not None}

    def taken(self, *pods: SeenPod) -> Mapping[str, Mapping[tuple[str, str, str], datetime | None]]:
        claims = self.dra.claims(self.dra.served(), pods)
        assert claims is not None
        return claims.taken() or {}


def nodes_of(*slices: JSON) -> dict[str, list[str]]:
    found = by_node(map(slice_from, slices))
    return {node: [d.name for d in devices_in(parts).devices] for node, parts in found.items()}


def test_a_pool_counts_when_all_slices_of_its_newest_generation_are_there() -> None:
    two = {"resourceSliceCount": 2}
    assert nodes_of(a_slice("gpu-0", pool=two)) == {}
    assert nodes_of(a_slice("gpu-0", pool=two), a_slice("gpu-1", pool=two)) == {"n1": ["gpu-0", "gpu-1"]}
    newer = {"generation": 2, "resourceSliceCount": 2}
    assert nodes_of(a_slice("gpu-0"), a_slice("gpu-0", pool=newer)) == {}
    assert nodes_of(a_slice("old"), a_slice("gpu-0", pool=newer), a_slice("gpu-1", pool=newer)) == {
        "n1": ["gpu-0", "gpu-1"]
    }


def test_a_pool_with_a_device_twice_or_of_several_nodes_does_not_count() -> None:
    two = {"resourceSliceCount": 2}
    assert nodes_of(a_slice("gpu-0", pool=two), a_slice("gpu-0", pool=two)) == {}
    assert nodes_of(a_slice("gpu-0", node="", allNodes=True)) == {}
    assert nodes_of({}, {"spec": None}, a_slice()) == {}


def test_a_node_has_the_devices_of_all_its_drivers() -> None:
    assert nodes_of(a_slice("gpu-0"), a_slice("nic-0", driver="dra.net")) == {"n1": ["nic-0", "gpu-0"]}


def test_a_device_is_read_with_its_attributes_counters_and_taints() -> None:
    device = {
        "name": "gpu-0",
        "attributes": {
            "type": {"string": "gpu"},
            "cores": {"int": 4},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0"},
            "links": {"strings": ["a"]},
        },
        "capacity": {"memory": {"value": "48Gi"}},
        "consumesCounters": [{"counterSet": "set", "counters": {"slices": {"value": "1500m"}}}],
        "taints": [{"key": "xid", "effect": "NoSchedule"}, {"key": "info", "effect": "None"}, {"key": "new"}],
    }
    shared = [{"name": "set", "counters": {"slices": {"value": "7900m"}}}]
    [slice_] = [
        slice_from(a_slice(device, {"name": "shared", "allowMultipleAllocations": True}, sharedCounters=shared))
    ]
    [read] = slice_.devices
    assert read.attributes == {
        f"{DRIVER}/type": ("string", "gpu"),
        f"{DRIVER}/cores": ("int", 4),
        "resource.kubernetes.io/pcieRoot": ("string", "pci0"),
        f"{DRIVER}/links": ("list", ""),
    }
    assert (read.capacity, read.uses) == ({f"{DRIVER}/memory": "48Gi"}, {"n1/set/slices": 2})
    assert read.taints == (Taint(key="xid", effect="NoSchedule"),)
    assert slice_.counters == {"n1/set/slices": 7}


def test_the_older_version_of_the_api_is_read_too() -> None:
    basic = a_slice({"name": "gpu-0", "basic": {"attributes": {"type": {"string": "gpu"}}, "capacity": {"m": "1Gi"}}})
    [read] = slice_from(basic).devices
    assert (read.attributes, read.capacity) == ({f"{DRIVER}/type": ("string", "gpu")}, {f"{DRIVER}/m": "1Gi"})
    flat = a_claim_spec({"name": "gpu", "deviceClassName": DRIVER, "count": 2})
    [[way]] = claim_of("ml/c", flat, classes_from([a_device_class()]), shared=True).requests
    assert (way.count, way.selectors) == (2, (OF_DRIVER,))


def test_of_two_classes_for_one_resource_the_later_one_serves_it() -> None:
    early, late = a_device_class("b", GPU, of="early"), a_device_class("a", GPU, "2026-11-02T00:00:00Z", of="late")
    assert classes_from([late, early]).serving == {GPU: ("late",)}
    first, second = a_device_class("a", GPU, of="first"), a_device_class("b", GPU, of="second")
    assert classes_from([second, first]).serving == {GPU: ("first",)}


def test_a_claim_is_read_with_alternatives_tolerations_and_constraints() -> None:
    way = {"name": "small", "deviceClassName": DRIVER, "selectors": [{"cel": {"expression": "x"}}]}
    tolerates = [{"key": "xid", "operator": "Exists"}]
    spec = a_claim_spec(
        a_device_request(2, tolerations=tolerates),
        {"name": "any", "firstAvailable": [{**way, "allocationMode": "Strange"}, way]},
        {"name": "watch", "exactly": {"deviceClassName": DRIVER, "adminAccess": True}},
        constraints=[{"requests": ["gpu"], "matchAttribute": "a/b"}, {"distinctAttribute": "c/d"}],
    )
    read = claim_of("ml/c", spec, classes_from([a_device_class()]), shared=False)
    assert read.requests == (
        (
            DeviceRequest(
                name="gpu",
                device_class=DRIVER,
                selectors=(OF_DRIVER,),
                count=2,
                tolerations=(Toleration(key="xid", operator="Exists"),),
            ),
        ),
        (DeviceRequest(name="any/small", device_class=DRIVER, selectors=(OF_DRIVER, "x")),),
    )
    assert read.constraints == (
        Constraint(requests=("gpu",), attribute="a/b"),
        Constraint(requests=(), attribute="c/d", distinct=True),
    )
    assert in_words(read, "claim c") == f"2 devices of class {DRIVER}, 1 device of class {DRIVER} (claim c)"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            a_claim_spec({"name": "gpu"}),
            "request gpu: it has neither a device class nor alternatives that are understood",
        ),
        (
            a_claim_spec(a_device_request(), constraints=[{"matchSomething": "a/b"}]),
            "it has a constraint that is not known",
        ),
    ],
)
def test_a_form_that_is_not_known_is_a_problem(spec: JSON, problem: str) -> None:
    assert claim_of("ml/c", spec, classes_from([a_device_class()]), shared=True) == Claim(
        key="ml/c", shared=True, problem=problem
    )


def test_a_waiting_pod_asks_for_its_claims_and_templates() -> None:
    two, one = a_claim_spec(a_device_request(2)), a_claim_spec(a_device_request())
    lists = Served(resourceclaims=[a_resource_claim("shared", two), a_resource_claim("p-own-x", one)])
    lists.lists["resourceclaimtemplates"] = [a_claim_template("later", a_claim_spec(a_device_request(3)))]
    pod = lists.see(a_pod(a="shared", b=["own", "p-own-x"], c=["later"], d=["never", ""]))["p"]
    assert [(c.key, c.shared, c.requests[0][0].count) for c in pod.claiming.claims] == [
        ("ml/shared", True, 2),
        ("ml/p-own-x", False, 1),
        ("ml/later", False, 3),
    ]
    assert pod.claiming.words == (
        f"2 devices of class {DRIVER} (claim shared)",
        f"1 device of class {DRIVER} (template own)",
        f"3 devices of class {DRIVER} (template later)",
    )
    assert (pod.phase, dict(pod.requests)) == (PodPhase.WAITING, {})


def test_a_resource_that_only_a_class_serves_is_claimed() -> None:
    lists = Served(deviceclasses=[a_device_class(), a_device_class("nic", "example.com/nic", of="nic")])
    implicit = f"deviceclass.resource.kubernetes.io/{DRIVER}"
    pod = lists.see(a_pod(limits={implicit: "2", "example.com/nic": "1", "example.com/fpga": "1"}))["p"]
    assert [(c.requests[0][0].selectors, c.requests[0][0].count) for c in pod.claiming.claims] == [
        ((OF_DRIVER,), 2),
        (("nic",), 1),
    ]
    assert pod.claiming.words == (f"2 {implicit}", "1 example.com/nic")
    unknown = lists.see(a_pod(limits={"deviceclass.resource.kubernetes.io/none": "1"}))["p"]
    assert unknown.claiming.claims[0].problem == "there is no DeviceClass for deviceclass.resource.kubernetes.io/none"
    assert lists.see(a_pod(limits={"example.com/fpga": "1"})) == {}


def test_a_pod_whose_claim_has_devices_waits_for_their_node() -> None:
    pod = Served(resourceclaims=[a_resource_claim("c", None, "gpu-0", pods=["other"])]).see(a_pod(a="c"))["p"]
    assert (pod.claiming.claims, dict(pod.requests)) == ((), {})
    assert pod.claiming.not_bought == "claim c has its devices on node n1: it can only start there"


def test_a_pod_without_its_claim_or_with_admin_access_alone_is_no_demand() -> None:
    lists = Served(resourceclaims=[a_resource_claim("admin", a_claim_spec(a_device_request(adminAccess=True)))])
    seen = lists.see(a_pod("a", x="none"), a_pod("b", x="admin"))
    assert seen["a"].claiming.claims[0].problem == "there is no claim or template ml/none"
    assert (seen["b"].claiming.claims, seen["b"].claiming.not_bought) == (
        (),
        "it claims devices with admin access only, which takes none",
    )


@pytest.mark.parametrize("kind", ["deviceclasses", "resourceclaims", "resourceclaimtemplates"])
@pytest.mark.parametrize("answer", [None, TryLater("500")], ids=["refused", "fails"])
def test_without_one_of_the_lists_no_node_is_bought_and_the_pod_says_which(kind: str, answer: Exception | None) -> None:
    if kind == "deviceclasses" and answer is not None:
        return  # then what was read last counts, and without that the look fails
    pod = Served(**{kind: answer}).see(a_pod(a=["own"]))["p"]
    assert [claim.problem for claim in pod.claiming.claims] == [
        f"the list of {kind} (resource.k8s.io) is refused or fails"
    ]


def test_a_claim_that_was_made_for_a_pod_group_is_shared_by_its_pods() -> None:
    made = a_resource_claim("made")
    made["metadata"]["ownerReferences"] = [{"kind": "PodGroup", "name": "big", "uid": "g"}]
    pod = Served(resourceclaims=[made]).see(a_pod(a=["own", "made"]))["p"]
    assert [claim.shared for claim in pod.claiming.claims] == [True]


def test_what_was_read_last_counts_while_a_list_fails_or_is_refused() -> None:
    lists = Served(resourceclaims=[a_resource_claim("c", None, "gpu-0")])
    before = lists.taken()
    assert before == {"n1": {(DRIVER, "n1", "gpu-0"): None}}
    lists.lists["resourceclaims"] = TryLater("500")
    assert lists.taken() == before
    for answer in (TryLater("500"), None):
        lists.lists["resourceslices"] = answer
        assert gpu_nodes(lists.dra.served().devices) == {"n1"}


DELETED = "2026-11-20T12:05:00Z"


def leaving(pod: SeenPod, at: str = DELETED) -> SeenPod:
    pod.metadata["deletionTimestamp"] = at
    return pod


def test_devices_come_back_when_the_last_pod_of_their_claim_has_left() -> None:
    lists = Served(resourceclaims=[a_resource_claim("c", None, "gpu-0", pods=("p", "q"))])
    device = (DRIVER, "n1", "gpu-0")
    first, last = (leaving(a_pod(n, node="n1", a="c"), at) for n, at in (("p", DELETED), ("q", "2026-11-20T12:06:00Z")))
    assert lists.taken(first, last) == {"n1": {device: START.replace(minute=6)}}
    assert lists.taken(first, a_pod("q", node="n1", a="c")) == {"n1": {device: None}}


def test_a_claim_that_outlives_its_pod_gives_its_devices_back_when_it_is_deleted() -> None:
    claim = a_resource_claim("c", None, "gpu-0", pods=("gone",))
    assert Served(resourceclaims=[claim]).taken(a_pod()) == {"n1": {(DRIVER, "n1", "gpu-0"): None}}
    claim["metadata"]["deletionTimestamp"] = DELETED
    assert Served(resourceclaims=[claim]).taken(a_pod()) == {"n1": {(DRIVER, "n1", "gpu-0"): START.replace(minute=5)}}


def test_a_nominated_pod_holds_the_devices_that_its_claims_were_given() -> None:
    lists = Served(resourceclaims=[a_resource_claim("c", None, "gpu-0", pods=("p",))])
    pod = a_pod(a="c")
    pod.status = {**pod.status, "nominatedNodeName": "n1"}
    found = lists.see(pod)["p"]
    assert (found.phase, found.node, found.requests, found.claiming.not_bought) == (
        PodPhase.RESERVED,
        "n1",
        {GPU: 1},
        "",
    )


def test_a_nominated_pod_asks_for_the_devices_that_its_claims_were_not_given_yet() -> None:
    pod = a_pod(a="c")
    pod.status = {**pod.status, "nominatedNodeName": "n1"}
    found = Served(resourceclaims=[a_resource_claim("c")]).see(pod)["p"]
    assert (found.phase, found.node, len(found.claiming.claims)) == (PodPhase.RESERVED, "n1", 1)


def test_a_nomination_is_prepared_by_its_devices_and_keeps_since_when_it_is_known() -> None:
    lists = Served(resourceclaims=[a_resource_claim("p-extended-resources-x", None, "gpu-0", pods=["p"])])
    pod = a_pod(limits={GPU: "1"})
    pod.status = {**pod.status, "nominatedNodeName": "n1"}
    claims = lists.dra.claims(lists.dra.served(), [pod])
    assert claims is not None
    assert pod.pod is not None
    known = Nomination(node="n1", since=START.replace(minute=3))
    seen = claims.of(pod, replace(pod.pod, nomination=known))
    assert seen is not None
    assert seen.nomination == replace(known, prepared=True)


def test_a_rule_taints_the_devices_that_it_selects() -> None:
    def rule(selector: JSON | None, effect: str = "NoExecute") -> JSON:
        return {"spec": {"deviceSelector": selector, "taint": {"key": "repair", "effect": effect}}}

    lists = Served()

    def tainted(*rules: JSON) -> list[str]:
        lists.lists["devicetaintrules"] = list(rules)
        return [device.name for device in lists.dra.served().devices["n1"].devices if device.taints]

    assert tainted(rule({"driver": DRIVER, "pool": "n1", "device": "gpu-1"})) == ["gpu-1"]
    assert tainted(rule({})) == ["gpu-0", "gpu-1"]
    assert tainted(rule({"pool": "n2"}), rule(None), rule({}, "None")) == []
    lists.lists["devicetaintrules"] = TryLater("500")
    assert gpu_nodes(lists.dra.served().devices) == {"n1"}


def test_devices_are_the_same_object_while_their_slices_are() -> None:
    read = slice_from(a_slice("gpu-0"))  # as a watch keeps it
    lists = Served(deviceclasses=None)
    lists.if_allowed = lambda kind, *_, **__: [read] if kind.plural == "resourceslices" else None  # type: ignore[method-assign]
    assert lists.dra.served().devices["n1"] is lists.dra.served().devices["n1"]


def test_a_bound_pod_holds_the_devices_of_its_claims_as_gpus() -> None:
    mig = {"name": "mig-0", "attributes": {"type": {"string": "mig"}, "profile": {"string": "1g.12gb"}}}
    lists = Served(
        resourceslices=[a_slice("gpu-0", "gpu-1", mig), a_slice("nic-0", driver="dra.net")],
        resourceclaims=[a_resource_claim("c", None, "gpu-0", "gpu-1", "mig-0")],
    )
    assert dict(lists.see(a_pod(node="n1", a="c"))["p"].requests) == {GPU: 2, "nvidia.com/mig-1g.12gb": 1}


def test_network_cards_beside_gpus_are_no_gpus() -> None:
    cards = a_resource_claim("cards", None, "gpu-0")
    cards["status"]["allocation"]["devices"]["results"] += [
        {"request": "nic", "driver": "dra.net", "pool": "n1", "device": f"nic-{n}"} for n in range(8)
    ]
    only = a_resource_claim("only", None)
    only["status"]["allocation"] = {"devices": {"results": [{"driver": "dra.net", "pool": "n1", "device": "nic-9"}]}}
    pods = Served(resourceclaims=[cards, only]).see(
        a_pod("a", node="n1", x="cards"),
        a_pod("b", node="n1", limits={GPU: "8"}, x="only"),
        a_pod("c", node="n1", x="only"),
    )
    assert {name: dict(pod.requests) for name, pod in pods.items()} == {"a": {GPU: 1}, "b": {GPU: 8}, "c": {CLAIMS: 0}}


def test_pods_that_share_a_claim_hold_it_once_and_all_hold_the_node() -> None:
    lists = Served(resourceclaims=[a_resource_claim("c", None, "gpu-0", pods=["a", "b"])])
    seen = lists.see(a_pod("b", node="n1", x="c"), a_pod("a", node="n1", x="c"))
    assert {name: dict(pod.requests) for name, pod in seen.items()} == {"a": {GPU: 1}, "b": {GPU: 0}}


def test_a_pod_with_a_claim_is_not_moved_to_empty_its_node() -> None:
    pod = a_pod(node="n1", x="c")
    pod.metadata["annotations"] = {SAFE_TO_EVICT_ANNOTATION: "true"}
    assert pod.pod is not None
    assert not pod.pod.wishes.evictable


def test_a_claim_that_is_not_known_holds_a_device_and_admin_access_holds_none() -> None:
    lists = Served(resourceclaims=[a_resource_claim("admin", None, "gpu-0", admin=True)])
    seen = lists.see(a_pod("a", node="n1", x="unknown"), a_pod("b", node="n1", x="admin"))
    assert {name: dict(pod.requests) for name, pod in seen.items()} == {"a": {CLAIMS: 1}}
    assert lists.taken() == {}
    refused = Served(resourceclaims=None)
    assert dict(refused.see(a_pod("a", node="n1", x="c"))["a"].requests) == {CLAIMS: 1}
    unknown = refused.dra.claims(refused.dra.served(), ())
    assert unknown is not None
    assert unknown.taken() is None


def test_a_pod_with_admin_access_alone_keeps_no_node() -> None:
    """A monitor of devices on each node would keep all of them."""
    lists = Served(
        resourceclaims=[a_resource_claim("admin", None, "gpu-0", admin=True), a_resource_claim("c", None, "gpu-1")]
    )
    watches, works = a_pod("a", node="n1", x="admin"), a_pod("b", node="n1", x="admin", y="c")
    assert [pod.fate() for pod in (watches, works)] == [DrainFate.HOLDS_GPU] * 2
    lists.see(watches, works)
    assert [pod.fate() for pod in (watches, works)] == [DrainFate.GOES, DrainFate.HOLDS_GPU]
    again = a_pod("a", node="n1", x="admin")  # as it is read before a removal
    lists.dra.mark([again])
    assert again.pod is None


@pytest.mark.parametrize(("driver", "keeps"), [("compute-domain.nvidia.com", False), (DRIVER, True)])
def test_a_daemon_keeps_its_node_only_by_a_gpu_that_it_claims(driver: str, keeps: bool) -> None:
    """A driver's pod on each node that claims a device would keep all of them."""
    claim = a_resource_claim("c", None, "daemon")
    claim["status"]["allocation"]["devices"]["results"][0]["driver"] = driver
    pod = a_pod("a", node="n1", x="c")
    pod.metadata["ownerReferences"] = [{"kind": "DaemonSet", "name": "domain", "controller": True}]
    assert ("a" in Served(resourceclaims=[claim]).see(pod)) is keeps


def test_a_waiting_pod_wakes_the_loop_by_its_claim() -> None:
    assert a_pod(x="c").needs_node
    assert not a_pod(node="n1", x="c").needs_node
    assert not a_pod().needs_node


def test_a_pod_that_was_given_devices_a_moment_ago_is_no_demand_and_holds_their_node() -> None:
    given = a_resource_claim("p-extended-resources-x", None, "gpu-0", pods=["p"])
    lists = Served(resourceclaims=[given], deviceclasses=[a_device_class(resource=GPU)])
    waits = a_pod(limits={GPU: "1"})
    assert lists.see(waits)["p"].phase is PodPhase.OTHER
    claims = lists.dra.claims(lists.dra.served(), [waits])
    assert claims is not None
    assert list(claims.without_pod()) == [("ml/p-extended-resources-x", "n1")]
    bound = lists.dra.claims(lists.dra.served(), [a_pod(node="n1", limits={GPU: "1"})])
    assert bound is not None
    assert list(bound.without_pod()) == []


def test_nothing_more_is_listed_where_nothing_serves_or_claims_devices() -> None:
    lists = Served(resourceslices=[], deviceclasses=[], resourceclaims=AssertionError("listed"))
    assert lists.see(a_pod(limits={GPU: "1"}))["p"] == replace(a_pod(limits={GPU: "1"}).pod)  # type: ignore[type-var]
