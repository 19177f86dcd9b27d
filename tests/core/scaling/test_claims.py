"""Waiting pods that claim devices, over all pools: which pool serves them, whole gangs, room that is there."""

from typing import Any

from receiver.core.model.devices import CLAIMS, Claim, DeviceRequest, claim_name, kind_name, question_id
from receiver.core.model.model import PoolState
from receiver.core.model.pods import Pod
from receiver.core.scaling.assign import assign
from tests.core.builders import GPU, a_busy_node, a_node, a_pod, a_policy, a_pool, a_state, facts

GPUS, SLICES = ("gpu",), ("mig",)


def devices(count: int, *answered: tuple[str, ...], of: int | None = None) -> dict[str, int]:
    """What is free of a node of *of* devices that answer these questions, where *count* are free."""
    kind = kind_name(sorted(map(question_id, answered)), (), {}, (), {CLAIMS: 1}, count if of is None else of)
    return {kind: count, CLAIMS: count}


def claiming(name: str, count: int = 1, question: tuple[str, ...] = GPUS, **given: Any) -> Pod:
    way = DeviceRequest(name="r", device_class="gpu", selectors=question, count=count)
    claim = Claim(key=f"ml/{name}", requests=((way,),))
    return a_pod(name, requests={claim_name([claim]): count}, **given)


CLAIMED, OTHER = a_pool("claimed"), a_pool("other")


def new_nodes(*pods: Pod, claimed: PoolState | None = None) -> dict[str, int]:
    """The nodes that are bought in each pool, of which one has two devices a node."""
    state = claimed or a_state(pool=CLAIMED.id, devices=devices(2, GPUS))
    found = assign(facts(state, a_state(pool=OTHER.id), waiting=pods), a_policy(CLAIMED, OTHER))
    return {pool: wanted.within_limits for pool, wanted in found.pools.items() if wanted.within_limits}


def test_a_node_is_bought_in_the_pool_whose_devices_answer() -> None:
    assert new_nodes(claiming("a"), claiming("b"), claiming("c")) == {CLAIMED.id: 2}
    assert new_nodes(claiming("a", question=SLICES)) == {}
    assert new_nodes(claiming("a", 3)) == {}


def test_a_free_device_serves_a_claim() -> None:
    node = a_node(allocatable={}, devices=devices(2, GPUS))
    state = a_state(node, pool=CLAIMED.id, devices=devices(2, GPUS))
    assert new_nodes(claiming("a", 2), claimed=state) == {}
    assert new_nodes(claiming("a"), claiming("b", 2), claimed=state) == {CLAIMED.id: 1}


def test_a_device_that_a_pod_holds_is_no_room() -> None:
    node = a_busy_node(allocatable={GPU: 1}, devices=devices(0, GPUS, of=1))
    state = a_state(node, pool=CLAIMED.id, devices=devices(1, GPUS))
    assert new_nodes(claiming("a"), claimed=state) == {CLAIMED.id: 1}


def test_a_gang_that_claims_is_bought_whole_or_not_at_all() -> None:
    gang = [claiming(f"g{n}", gang="ml/g", gang_min=5) for n in range(5)]
    assert new_nodes(*gang) == {CLAIMED.id: 3}
    assert new_nodes(*gang[:4]) == {}
    too_many = [claiming(f"g{n}", 2, gang="ml/g", gang_min=9) for n in range(9)]  # the pool has eight nodes at most
    assert new_nodes(*too_many) == {}


def test_pods_with_and_without_claims_share_a_pool() -> None:
    state = a_state(pool=CLAIMED.id, devices={**devices(2, GPUS), GPU: 0})
    assert new_nodes(claiming("a"), a_pod("b"), claimed=state) == {CLAIMED.id: 1, OTHER.id: 1}
