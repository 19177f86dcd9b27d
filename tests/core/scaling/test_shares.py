"""Shares of GPUs as demand: a share lives on one device, and a whole GPU is one that nothing shares."""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.model import PoolState
from receiver.core.model.pods import Pod, PodPhase, gpus_of
from receiver.core.model.policy import Pool
from receiver.core.model.shares import GPU_MEMORY, SPLIT, gpu_memory, share_of
from receiver.core.scaling.assign import assign
from receiver.core.scaling.demand import take
from tests.core.builders import GPU, a_node, a_pod, a_policy, a_pool, a_state, facts
from tests.core.worlds import LAWS

POOL = a_pool()
PAIRS = a_pool("pairs", resources={GPU: 2})
UNKNOWN: Mapping[str, int] = {}
L40S = {GPU_MEMORY: 46068}


def fraction(part: str, devices: int = 1) -> dict[str, int]:
    return {f"kai.scheduler/gpu-fraction={part}": devices}


def mib(amount: int) -> dict[str, int]:
    return {f"kai.scheduler/gpu-memory={amount}": 1}


def hami(memory: str, cores: int = 0, devices: int = 1) -> dict[str, int]:
    """A share of HAMi: *memory* is ``=MiB`` or ``-percentage=n``."""
    return {f"hami.io/gpumem{memory},gpucores={cores}": devices}


def waiting(*requests: dict[str, int]) -> list[Pod]:
    return [a_pod(f"share-{n}", requests=asked) for n, asked in enumerate(requests)]


def bought(
    *requests: dict[str, int], pool: Pool = POOL, state: PoolState | None = None, known: Mapping[str, int] = UNKNOWN
) -> int:
    """How many nodes are asked for; *known* of each GPU."""
    state = a_state(pool=pool.id, compute=known) if state is None else state
    found = assign(facts(state, waiting=waiting(*requests)), a_policy(pool))
    assert not found.misfits
    return found.pools[pool.id].for_demand


def why_not(*requests: dict[str, int], pool: Pool = POOL, known: Mapping[str, int] = UNKNOWN) -> str:
    """Why nothing is bought."""
    found = assign(facts(a_state(pool=pool.id, compute=known), waiting=waiting(*requests)), a_policy(pool))
    assert found.pools[pool.id].for_demand == 0
    [misfit] = found.misfits
    return misfit.detail


def running(name: str, requests: dict[str, int], *devices: str) -> Pod:
    return a_pod(name, requests=requests, phase=PodPhase.RUNNING, node="n1", devices=devices)


@pytest.mark.parametrize(
    ("parts", "nodes"),
    [(["0.5"], 1), (["0.5", "0.5"], 1), (["0.5"] * 3, 2), (["0.6", "0.6"], 2), (["0.6", "0.6", "0.4", "0.4"], 2)],
)
def test_fractions_share_a_gpu_while_one_device_has_room(parts: list[str], nodes: int) -> None:
    assert bought(*map(fraction, parts)) == nodes


def in_mode(mode: str, part: str = "0.5") -> dict[str, int]:
    return {f"kai.scheduler/gpu-fraction={part},mode={mode}": 1}


def test_no_device_is_shared_in_two_modes() -> None:
    sm = in_mode("sm-sharing")
    assert bought(sm, sm) == 1
    assert bought(sm, fraction("0.5")) == 2
    assert bought(sm, fraction("0.5"), sm, fraction("0.5"), pool=PAIRS) == 1


def test_a_share_of_another_mode_finds_no_room_beside_those_that_run() -> None:
    node = a_node(allocatable={GPU: 1}, pods=(running("a", in_mode("sm-sharing"), "group-a"),), idle_since=None)
    assert bought(in_mode("sm-sharing"), state=a_state(node)) == 0
    assert bought(fraction("0.5"), state=a_state(node)) == 1


def test_what_is_left_of_two_gpus_is_no_room_for_one_fraction() -> None:
    assert bought(fraction("0.6"), fraction("0.6"), fraction("0.5"), pool=PAIRS) == 2


def test_a_whole_gpu_is_one_that_nothing_shares() -> None:
    assert bought(fraction("0.1"), {GPU: 1}) == 2
    assert bought({GPU: 1}, fraction("0.1"), pool=PAIRS) == 1
    assert bought({GPU: 2}, fraction("0.1"), pool=PAIRS) == 2


def test_a_pod_with_several_fractions_needs_as_many_devices() -> None:
    assert bought(fraction("0.5", 2), fraction("0.5", 2), pool=PAIRS) == 1
    assert bought(fraction("0.5", 2), fraction("0.6", 2), pool=PAIRS) == 2
    assert why_not(fraction("0.5", 2)).endswith("it asks for 2 kai.scheduler/gpu-fraction=0.5, a node offers 1")


def test_a_gang_of_fractions_is_placed_whole_on_the_devices_that_it_needs() -> None:
    gang = [replace(pod, gang="ml/train") for pod in waiting(*[fraction("0.5")] * 4)]
    found = assign(facts(a_state(pool=PAIRS.id), waiting=gang), a_policy(PAIRS))
    assert found.pools[PAIRS.id].for_demand == 1


def test_memory_counts_in_the_hundreds_of_mib_that_kai_uses() -> None:
    assert bought(mib(23_000), mib(23_000), known=L40S) == 1
    assert bought(mib(23_034), mib(23_034), known=L40S) == 2
    assert bought(mib(23_000), fraction("0.5"), known=L40S) == 1


def test_memory_may_be_known_from_a_label_of_the_pool() -> None:
    assert bought(mib(20_000), pool=a_pool(labels={GPU_MEMORY: "46068"})) == 1


def test_while_the_memory_of_a_gpu_is_not_known_no_node_is_bought_for_an_amount_of_it() -> None:
    why = why_not(mib(20_000), pool=a_pool(size="of another cloud"))
    assert why.endswith("the memory of a GPU is not known (label nvidia.com/gpu.memory, in MiB)")


def test_the_size_says_how_much_memory_a_gpu_of_a_pool_without_nodes_has() -> None:
    assert bought(mib(20_000)) == 1
    assert why_not(mib(80_000)).endswith("a GPU has 46000 MiB")


def test_as_much_memory_as_a_gpu_has_is_all_of_it() -> None:
    assert bought(mib(46_000), known=L40S) == 1
    assert bought(mib(46_000), fraction("0.1"), known=L40S) == 2


def test_more_memory_than_a_gpu_has_is_refused() -> None:
    assert why_not(mib(80_000), known=L40S).endswith("kai.scheduler/gpu-memory=80000, a GPU has 46000 MiB")


def test_a_share_that_is_not_understood_is_refused_with_what_was_written() -> None:
    assert why_not({'kai.scheduler/gpu-fraction="half"': 1}).endswith(
        'it asks for kai.scheduler/gpu-fraction="half", which is not understood'
    )


def test_hami_counts_memory_and_cores_of_a_device_apart() -> None:
    assert bought(hami("-percentage=80", 10), hami("-percentage=20", 90)) == 1
    assert bought(hami("=23034"), hami("=23034"), known=L40S) == 1
    assert bought(hami("-percentage=20", 60), hami("-percentage=20", 60)) == 2


def test_all_cores_of_hami_are_a_device_that_nothing_shares() -> None:
    assert bought(hami("-percentage=20", 100), hami("-percentage=20")) == 2
    assert bought(hami("-percentage=20"), hami("-percentage=20", 100)) == 2
    assert bought(hami("-percentage=20", 60), hami("-percentage=20", 40), hami("-percentage=20")) == 2


def test_hami_puts_a_limited_number_of_pods_on_a_device() -> None:
    assert bought(*[hami("-percentage=1")] * 11) == 2
    assert bought(*[hami("-percentage=1")] * 11, known={SPLIT: 20}) == 1


def test_a_new_share_fits_beside_those_that_run_on_the_same_device() -> None:
    pods = (running("a", fraction("0.6"), "group-a"), running("b", fraction("0.3"), "group-a"))
    node = a_node(allocatable={GPU: 1}, pods=pods, idle_since=None)
    assert bought(fraction("0.1"), state=a_state(node)) == 0
    assert bought(fraction("0.2"), state=a_state(node)) == 1


def test_shares_that_the_scheduler_spread_leave_no_whole_gpu() -> None:
    spread = (running("a", fraction("0.5"), "group-a"), running("b", fraction("0.5"), "group-b"))
    node = a_node(allocatable={GPU: 2}, pods=spread, idle_since=None)
    state = a_state(node, pool=PAIRS.id)
    assert bought({GPU: 1}, pool=PAIRS, state=state) == 1
    assert bought(fraction("0.5"), fraction("0.5"), pool=PAIRS, state=state) == 0


def test_where_it_is_not_known_which_device_pods_share_they_share_as_few_as_they_can() -> None:
    node = a_node(allocatable={GPU: 2}, pods=(running("a", fraction("0.5")), running("b", fraction("0.5"))))
    assert node.free[GPU] == 1


@pytest.mark.parametrize("devices", [("group-a",), ()])
def test_a_running_share_that_is_not_understood_holds_a_whole_gpu(devices: tuple[str, ...]) -> None:
    pods = (running("a", {'kai.scheduler/gpu-fraction="half"': 1}, *devices),)
    node = a_node(allocatable={GPU: 2}, pods=pods)
    assert (node.busy, dict(node.free)) == (True, {GPU: 1})


def test_a_running_share_that_no_device_can_hold_holds_a_whole_gpu() -> None:
    node = a_node(allocatable={GPU: 2}, pods=(running("a", mib(80_000)),), compute=L40S)
    assert node.free[GPU] == 1


def test_a_pod_may_have_a_whole_gpu_beside_a_share() -> None:
    both = {GPU: 1, **hami("-percentage=50")}
    node = a_node(allocatable={GPU: 4}, pods=(running("a", both),))
    assert node.free[GPU] == 2
    assert bought(both, pool=PAIRS) == 1


def test_a_share_costs_its_part_of_a_gpu() -> None:
    assert gpus_of(fraction("0.25", 2), {}) == 0.5
    assert gpus_of(fraction("0.25"), {GPU_MEMORY: "46068"}) == 0.25
    assert gpus_of(mib(11_517), {GPU_MEMORY: "46068"}) == 0.25
    assert gpus_of(mib(11_517), {}) == 1.0
    assert gpus_of(hami("-percentage=20", 60), {}) == 0.6


@pytest.mark.parametrize("said", ["", "much", "-1", "٣", "0", "1" * 10])
def test_a_label_that_is_no_amount_of_memory_says_nothing(said: str) -> None:
    assert gpu_memory({GPU_MEMORY: said}) == 0


def test_a_label_may_say_as_much_memory_as_nine_digits_hold() -> None:
    assert gpu_memory({GPU_MEMORY: "1" * 9}) == 111_111_111


@pytest.mark.parametrize(
    "asked", [fraction("0.0"), mib(0), hami("=0"), hami("-percentage=0"), hami("-percentage=101"), hami("=1", 101)]
)
def test_none_of_a_gpu_and_more_than_one_are_no_shares(asked: dict[str, int]) -> None:
    assert [share_of(name) for name in asked] == [None]


def test_all_memory_is_a_share() -> None:
    assert take({GPU: 1}, hami("-percentage=100"))


def test_a_node_with_smaller_gpus_than_its_pool_holds_less() -> None:
    free = {GPU: 1, GPU_MEMORY: 1000}
    assert not take(free, mib(2000))
    assert not take({GPU: 1}, mib(1))
    assert free == {GPU: 1, GPU_MEMORY: 1000}


def test_a_share_takes_the_fullest_device_alone() -> None:
    free = {GPU: 2}
    assert all(take(free, fraction(part)) for part in ("0.5", "0.6", "0.4"))
    assert sorted(free.values()) == [0, 1]  # no whole GPU, and the device with a half left


def test_a_device_with_nothing_left_is_no_room() -> None:
    free = {GPU: 3}
    taken = [take(free, asks) for asks in (fraction("0.5", 2), fraction("0.5"), fraction("0.5"))]
    assert (taken, free) == ([True, True, True], {GPU: 1})
    assert take(free, hami("-percentage=20", 99))
    assert take(free, hami("-percentage=20", 1))
    assert free == {GPU: 0}


def test_scaling_pods_of_kai_are_no_demand_beside_the_pods_that_they_stand_for() -> None:
    stand_in = a_pod("scaling", namespace="kai-scale-adjust")
    found = assign(facts(a_state(pool=POOL.id), waiting=[stand_in, *waiting(fraction("0.5"))]), a_policy())
    assert found.pools[POOL.id].for_demand == 1


@LAWS
@given(st.lists(st.integers(1, 99), max_size=12), st.integers(0, 4))
def test_each_share_goes_to_the_fullest_device_that_has_room(percents: list[int], gpus: int) -> None:
    free, devices = {GPU: gpus}, [0] * gpus
    for percent in percents:
        fitting = [n for n, used in enumerate(devices) if used + percent <= 100]
        assert take(free, fraction(f"0.{percent:02}")) == bool(fitting)
        if fitting:
            devices[max(fitting, key=lambda n: devices[n])] += percent
    assert free[GPU] == devices.count(0)


MIXED = st.lists(
    st.one_of(
        st.sampled_from(["0.1", "0.25", "0.34", "0.5", "0.6", "0.75"]).map(fraction),
        st.sampled_from([{GPU: 1}, {GPU: 2}, fraction("0.5", 2), hami("-percentage=30", 40)]),
    ),
    max_size=9,
)


@LAWS
@given(MIXED, st.sets(st.integers(0, 8)), st.randoms(use_true_random=False))
def test_what_was_bought_for_is_not_bought_for_again(
    asked: list[dict[str, int]], together: set[int], dice: random.Random
) -> None:
    pods = [replace(p, gang="ml/g" if n in together else None) for n, p in enumerate(waiting(*asked))]
    found, policy = facts(a_state(pool=PAIRS.id), waiting=pods), a_policy(replace(PAIRS, max_nodes=99))
    first = assign(found, policy).pools[PAIRS.id].for_demand
    later = replace(found.pools[0], required=first)
    dice.shuffle(pods)
    again = assign(replace(found, pools=(later,), waiting=tuple(pods)), policy)
    assert again.pools[PAIRS.id].for_demand == 0


def test_a_pod_that_names_a_billion_devices_takes_those_of_its_node_and_no_longer_than_others() -> None:
    greedy = a_pod("greedy", phase=PodPhase.RUNNING, node="n1", requests=fraction("0.5", devices=10**9))
    assert a_node("n1", allocatable={GPU: 2}, pods=(greedy,)).free.get(GPU, 0) <= 0
