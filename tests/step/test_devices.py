"""Claims and devices joined: what pods ask for, and what of a node is free."""

from dataclasses import replace
from typing import Any

import pytest

from receiver.core.model.devices import (
    CLAIMS,
    KIND,
    NO_SUCH_GPU,
    Claim,
    Device,
    DeviceRequest,
    NodeDevices,
    as_text,
    from_text,
    is_claim,
    put_claims,
)
from receiver.core.model.pods import CPU, Pod, PodPhase
from receiver.core.model.policy import Taint
from receiver.core.model.room_requests import NO_GPU
from receiver.core.scaling.demand import missing_pods, workloads
from receiver.ports import ClusterFacts, ClusterNode
from receiver.step.devices import TOGETHER, DeviceJoin, learnt
from tests.core.builders import GPU, a_pod
from tests.given.requests import booking_of, buffer_of, candidate_of

DRIVER = "gpu.nvidia.com"
TYPE = f"{DRIVER}/type"
ODD = Claim(key="ml/c", problem="odd")


class Judge:
    """Judges expressions such as ``gpu``, a driver's or type's name, and counts how often."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, expression: str, device: Device) -> bool | None:
        self.asked += 1
        return expression in (device.driver, device.attributes.get(TYPE, ("", ""))[1])


def a_device(name: str = "gpu-0", driver: str = DRIVER, **given: Any) -> Device:
    return Device(driver=driver, pool="n1", name=name, attributes={TYPE: ("string", "gpu")}, **given)


def devices(*found: Device) -> NodeDevices:
    return NodeDevices(devices=found or (a_device(),))


def a_claim(key: str = "ml/c", *selectors: str, count: int = 1, **given: Any) -> Claim:
    way = DeviceRequest(name="r", device_class="gpu", selectors=selectors or ("gpu",), count=count)
    return Claim(key=key, requests=((way,),), **given)


def claiming(name: str, *claims: Claim, **given: Any) -> Pod:
    return a_pod(name, **{"requests": {}, "claimed": claims, "compute": {CPU: 1000}, **given})


def joined(*pods: Pod, node: NodeDevices | None = None) -> dict[str, Pod]:
    shown = ClusterNode(name="n1", instance="i", ready=True, unschedulable=False, devices=node or devices())
    cluster = ClusterFacts(nodes=(shown,), pods=pods, dra_resources={})
    return {pod.name: pod for pod in DeviceJoin(Judge()).join(cluster, ()).pods}


def test_a_pod_asks_for_its_claims_as_one_resource() -> None:
    pod = joined(claiming("a", a_claim("ml/x", count=2), a_claim("ml/y")))["a"]
    [(resource, count)] = pod.requests.items()
    assert (is_claim(resource), count, pod.gpus) == (True, 3, 3)


def test_pods_with_equal_claims_ask_for_the_same() -> None:
    seen = joined(claiming("a", a_claim("ml/a")), claiming("b", a_claim("ml/b")))
    assert seen["a"].requests == seen["b"].requests


@pytest.mark.parametrize("requests", [{}, {GPU: 1}], ids=["claims alone", "a GPU beside"])
def test_a_claim_with_a_problem_is_no_demand(requests: dict[str, int]) -> None:
    pod = joined(claiming("a", ODD, requests=requests))["a"]
    assert (dict(pod.requests), pod.claiming.not_bought) == ({}, "odd")


def test_a_gang_waits_for_a_pod_of_it_that_no_node_is_bought_for() -> None:
    odd = claiming("a", ODD, gang="ml/g")
    pods = joined(odd, *(a_pod(name, gang="ml/g") for name in "bc")).values()
    (work,) = workloads(pods)
    assert (len(work.pods), missing_pods(work)) == (2, 1)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"claimed": ("nic",)}, id="it claims no GPU"),
        pytest.param({"not_bought": "claim c has its devices on node n1"}, id="it has its devices"),
    ],
)
def test_a_gang_needs_no_room_for_a_pod_of_it_that_needs_no_new_node(other: dict[str, Any]) -> None:
    claims = (a_claim("ml/c", "dra.net"),) if other.pop("claimed", ()) else ()
    pods = [claiming("a", *claims, gang="ml/g", gang_min=3, **other)]
    pods += [a_pod(name, gang="ml/g", gang_min=3) for name in "bc"]
    (work,) = workloads(joined(*pods, node=devices(a_device(), a_device("nic-0", "dra.net"))).values())
    assert (len(work.pods), missing_pods(work)) == (2, 0)


def announced(pod: Pod) -> ClusterFacts:
    """A cluster in which *pod* is announced by a buffer, a Workload with our check and a ProvisioningRequest."""
    shown = ClusterNode(
        name="n1",
        instance="i",
        ready=True,
        unschedulable=False,
        devices=devices(a_device(), a_device("nic-0", "dra.net")),
    )
    cluster = ClusterFacts(
        nodes=(shown,),
        pods=(pod,),
        requests=(buffer_of("ml/b", pod, 1), candidate_of("ml/w", [pod]), booking_of("ml/r", [pod])),
        dra_resources={},
    )
    return DeviceJoin(Judge()).join(cluster, ())


def test_pods_that_are_announced_ask_for_their_claims_too() -> None:
    found = announced(claiming("a", a_claim(count=2)))
    assert [pod.gpus for request in found.requests for pod in request.pods] == [2, 2, 2]


def test_what_is_announced_with_a_problem_is_neither_kept_nor_judged_nor_booked() -> None:
    found = announced(claiming("a", ODD))
    assert [(request.pods, request.problem) for request in found.requests] == [((), "odd")] * 3


def test_what_is_announced_and_claims_no_gpu_is_not_ours() -> None:
    found = announced(claiming("a", a_claim("ml/c", "dra.net")))
    assert [(request.pods, request.problem) for request in found.requests] == [((), NO_GPU)] * 3


def test_pods_that_share_a_claim_are_one_demand() -> None:
    shared = a_claim("ml/shared", shared=True)
    seen = joined(claiming("b", shared), claiming("a", shared, a_claim("ml/own")), claiming("c", a_claim("ml/other")))
    assert (seen["a"].gpus, seen["a"].compute) == (2, {CPU: 2000})
    assert (seen["b"].gpus, seen["b"].claiming.not_bought) == (0, f"{TOGETHER}ml/a")
    assert (seen["c"].gpus, seen["c"].claiming.not_bought) == (1, "")


@pytest.mark.parametrize("named", ["abc", "acb", "bac"])
def test_pods_that_share_claims_in_a_chain_are_one_demand(named: str) -> None:
    x, y = a_claim("ml/x", shared=True), a_claim("ml/y", shared=True)
    chain = ((x,), (x, y), (y,))
    seen = joined(*(claiming(name, *claims) for name, claims in zip(named, chain, strict=True)))
    assert {name: pod.gpus for name, pod in seen.items()} == {"a": 2, "b": 0, "c": 0}


def test_a_gang_needs_no_room_of_its_own_for_pods_that_share_a_claim() -> None:
    shared = a_claim("ml/shared", shared=True)
    pods = [claiming(name, shared, gang="ml/g", gang_min=3) for name in "ab"]
    other = a_pod("c", gang="ml/g", gang_min=3)
    assert {pod.gang_min for pod in joined(*pods, other).values()} == {2}


def test_a_pod_that_the_scheduler_has_not_tried_asks_for_itself_alone() -> None:
    shared = a_claim("ml/shared", shared=True)
    seen = joined(claiming("a", shared, phase=PodPhase.OTHER), claiming("b", shared))
    assert (seen["a"].compute, seen["b"].gpus) == ({CPU: 1000}, 1)


def test_a_pod_that_claims_no_gpu_is_no_demand_unless_it_asks_for_one_beside() -> None:
    node = devices(a_device(), a_device("nic-0", "dra.net"))
    nic = a_claim("ml/c", "dra.net")
    seen = joined(claiming("a", nic), claiming("b", nic, requests={GPU: 1}), node=node)
    assert (seen["a"].gpus, seen["a"].claiming.not_bought) == (0, NO_GPU)
    assert (len(seen["b"].requests), seen["b"].claiming.not_bought) == (2, "")


def test_a_claim_whose_selectors_fit_no_gpu_is_not_told_that_it_claims_no_gpu() -> None:
    """Its class is that of GPUs: the selectors are what has to change."""
    way = DeviceRequest(name="r", device_class=DRIVER, selectors=("one with 80Gi",), count=1)
    seen = joined(claiming("a", Claim(key="ml/c", requests=((way,),))), node=devices(a_device()))
    assert (seen["a"].gpus, seen["a"].claiming.not_bought) == (0, NO_SUCH_GPU)


def test_network_cards_beside_a_gpu_are_no_gpus() -> None:
    gpu, cards = (a_claim("ml/c", driver, count=n).requests[0] for driver, n in (("gpu", 1), ("dra.net", 8)))
    cards = tuple(replace(way, name="nic") for way in cards)
    node = devices(a_device(), *(a_device(f"nic-{n}", "dra.net") for n in range(8)))
    assert joined(claiming("a", Claim(key="ml/c", requests=(gpu, cards))), node=node)["a"].gpus == 1


def test_without_any_known_device_a_pod_stays_demand_so_that_each_pool_says_why_not() -> None:
    cluster = ClusterFacts(nodes=(), pods=(claiming("a", a_claim()),))
    [pod] = DeviceJoin(Judge()).join(cluster, ()).pods
    assert pod.gpus == 1


def test_without_claims_only_the_resources_that_dra_serves_are_counted() -> None:
    join = DeviceJoin(Judge())
    join.join(ClusterFacts(nodes=(), pods=(), dra_resources={GPU: ("gpu",)}), ())
    tainted = a_device("gpu-2", taints=(Taint(key="xid"),))
    node = devices(a_device(), a_device("gpu-1"), tainted)
    assert dict(join.free(node)) == {GPU: 2}
    assert dict(join.free(node, frozenset({(DRIVER, "n1", "gpu-1")}))) == {GPU: 1}


def test_gpus_that_serve_no_resource_count_as_claims() -> None:
    join = DeviceJoin(Judge())
    join.join(ClusterFacts(nodes=(), pods=(claiming("a", a_claim()),), dra_resources={}), ())
    free = join.free(devices(a_device(), a_device("gpu-1"), a_device("nic-0", "dra.net")))
    assert free[CLAIMS] == 2
    assert sorted(n for name, n in free.items() if name.startswith(KIND)) == [1, 2]


def test_devices_are_judged_once() -> None:
    judge = Judge()
    join, node = DeviceJoin(judge), devices()
    facts = ClusterFacts(
        nodes=(ClusterNode(name="n1", instance="i", ready=True, unschedulable=False, devices=node),),
        pods=(claiming("a", a_claim()),),
        dra_resources={GPU: ("gpu",)},
    )
    join.join(facts, ())
    first = join.free(node)
    asked = judge.asked
    join.join(facts, ())
    assert join.free(node) is first
    assert judge.asked == asked == 1


def test_what_could_not_be_judged_is_judged_again() -> None:
    judge = Judge()
    answers: list[bool | None] = [None, None, True]
    join, node = DeviceJoin(lambda *_: answers.pop(0) if answers else judge(*_)), devices()
    join.join(ClusterFacts(nodes=(), pods=(claiming("a", a_claim()),), dra_resources={}), ())
    [name] = joined(claiming("a", a_claim()))["a"].requests
    assert [put_claims(dict(join.free(node)), name) for _ in range(3)] == [False, False, True]


def test_the_next_node_is_expected_to_be_as_the_soundest() -> None:
    def shown(name: str, *found: Device) -> ClusterNode:
        return ClusterNode(name=name, instance=name, ready=True, unschedulable=False, devices=devices(*found))

    worn = shown("worn", a_device("of-worn", taints=(Taint(key="xid"),)), a_device("more"))
    sound = shown("sound", a_device("of-sound"), a_device("more"))
    assert [from_text(learnt(nodes)).devices[0].name for nodes in ([worn, sound], [worn])] == ["of-sound", "of-worn"]
    assert learnt([]) == ""
    assert from_text(as_text(devices())) is from_text(as_text(devices()))
