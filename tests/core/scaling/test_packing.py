"""Which soft taints nodes should carry, so that one is filled before pods spread to others."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.model import CordonedBy, Node, Stage
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Objective, Packing, Taint
from receiver.core.scaling.packing import (
    FILL_OTHERS_FIRST,
    IDLE,
    LATER,
    SMALL_NODES_FIRST,
    SOFT_TAINTS,
    Survival,
    changes_at,
    compares,
    soft_taints,
)
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    HOUR,
    HOURLY,
    MINUTE,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    facts,
    run,
    with_fields,
)
from tests.core.worlds import LAWS, World, worlds

EIGHT = a_pool(resources={GPU: 8}, price_usd_per_hour=None)
IDLE_ONES = (FILL_OTHERS_FIRST, IDLE)
THEIRS = Taint(key="theirs", effect="PreferNoSchedule")


def a_big_node(name: str, held: int, **changes: object) -> Node:
    """A usable node of eight GPUs, *held* of which a pod holds."""
    pods = (a_pod(f"on-{name}", gpus=held, phase=PodPhase.RUNNING, node=name),) if held else ()
    return a_node(name, **{"allocatable": {GPU: 8}, "pods": pods, "idle_since": None if held else NOW, **changes})


def wanted(
    nodes: Iterable[Node], packing: Packing = Packing.FILL, lasted: Iterable[timedelta] = ()
) -> dict[str, tuple[Taint, ...]]:
    """The nodes to change by name, with what each should carry where workloads *lasted* that long."""
    found = facts(a_state(*nodes))
    policy = a_policy(EIGHT, packing=packing)
    return {node.name: taints for node, taints in soft_taints(found, policy, Survival.of(lasted))}


def one_that_runs(name: str, hours: float, held: int = 1, **changes: object) -> Node:
    """A node of eight GPUs, *held* of which a pod holds that was bound *hours* ago."""
    node = a_big_node(name, held, **changes)
    return replace(node, pods=tuple(with_fields(p, bound_at=NOW - timedelta(hours=hours)) for p in node.pods))


def test_one_node_in_use_with_room_carries_none_others_in_use_one_and_idle_ones_two() -> None:
    nodes = [a_big_node("idle", 0), a_big_node("some", 2), a_big_node("most", 6), a_big_node("full", 8)]
    assert wanted(nodes) == {"idle": IDLE_ONES, "some": (FILL_OTHERS_FIRST,)}


def test_the_node_whose_work_runs_longest_is_filled_first() -> None:
    nodes = [one_that_runs("young", 0.1, held=6), one_that_runs("old", 5)]
    assert wanted(nodes) == {"young": (FILL_OTHERS_FIRST,)}


def test_what_workloads_lasted_outweighs_their_age() -> None:
    nodes = [one_that_runs("young", 0.1), one_that_runs("old", 5)]
    lasted = [timedelta(hours=5.1)] * 100  # so the old one is about to end
    assert wanted(nodes, lasted=lasted) == {"old": (FILL_OTHERS_FIRST,)}


def test_a_node_with_more_work_is_likelier_to_stay_in_use() -> None:
    two = one_that_runs("two", 1)
    two = replace(two, pods=(*two.pods, *(replace(p, name="other", uid="other") for p in two.pods)))
    assert wanted([one_that_runs("one", 1, held=2), two]) == {"one": (FILL_OTHERS_FIRST,)}


def test_the_node_that_is_filled_stays_it_while_another_is_hardly_better() -> None:
    filled, other = one_that_runs("filled", 5), one_that_runs("other", 5.1, taints=(FILL_OTHERS_FIRST,))
    assert wanted([filled, other]) == {}
    assert wanted([filled, one_that_runs("other", 9, taints=(FILL_OTHERS_FIRST,))]) == {
        "filled": (FILL_OTHERS_FIRST,),
        "other": (),
    }


def test_of_two_nodes_as_good_the_fuller_then_the_older_is_filled_first() -> None:
    older = a_big_node("b", 4, created_at=NOW.replace(hour=1))
    assert wanted([a_big_node("a", 4), older]) == {"a": (FILL_OTHERS_FIRST,)}
    assert wanted([a_big_node("c", 5), older]) == {"b": (FILL_OTHERS_FIRST,)}


def test_a_node_that_is_to_be_filled_loses_what_it_carried() -> None:
    assert wanted([a_big_node("a", 4, taints=(*SOFT_TAINTS, THEIRS))]) == {"a": ()}


def test_a_node_that_carries_what_it_should_is_left_alone() -> None:
    idle = a_big_node("idle", 0, taints=(THEIRS, *IDLE_ONES))
    assert wanted([idle, a_big_node("used", 1)]) == {}


def test_nodes_that_take_no_work_are_left_alone() -> None:
    nodes = [
        a_big_node("cordoned", 0, cordoned_by=CordonedBy.US),
        a_big_node("theirs", 0, cordoned_by=CordonedBy.SOMEONE),
        a_big_node("closed", 0, closed_for="the budget of 2026-11"),
        a_big_node("installing", 0, stage=Stage.INSTALLING),
        a_big_node("gone", 0, registered=False),
    ]
    assert wanted(nodes) == {}


def test_a_full_node_in_use_is_not_called_idle_and_keeps_its_other_soft_taints() -> None:
    assert wanted([a_big_node("full", 8, taints=(THEIRS, *SOFT_TAINTS))]) == {
        "full": (FILL_OTHERS_FIRST, SMALL_NODES_FIRST)
    }
    assert wanted([a_big_node("full", 8, taints=(THEIRS, FILL_OTHERS_FIRST, SMALL_NODES_FIRST))]) == {}


def test_a_closed_node_in_use_is_not_called_idle() -> None:
    nodes = [
        a_big_node("cordoned", 1, cordoned_by=CordonedBy.SOMEONE, taints=IDLE_ONES),
        a_big_node("closed", 8, closed_for="the budget of 2026-11", taints=IDLE_ONES),
        a_big_node("gone", 1, registered=False, taints=IDLE_ONES),
    ]
    assert wanted(nodes) == {"cordoned": (FILL_OTHERS_FIRST,), "closed": (FILL_OTHERS_FIRST,)}


def test_a_full_node_without_a_pod_keeps_what_it_carries() -> None:
    assert wanted([a_big_node("sick", 0, allocatable={GPU: 0}, taints=IDLE_ONES)]) == {}


def test_the_scheduler_alone_decides_where_the_operator_says_so_and_what_we_put_on_goes() -> None:
    nodes = [a_big_node("idle", 0, taints=SOFT_TAINTS), a_big_node("used", 1), a_big_node("full", 8, taints=(IDLE,))]
    assert wanted(nodes, Packing.SCHEDULER) == {"idle": (), "full": ()}


def of_one_gpu(left: timedelta, **changes: object) -> Node:
    """An idle node of one GPU, *left* of whose paid hour is to come."""
    return a_node("n", **{"created_at": NOW - timedelta(hours=3) + left, "idle_since": NOW, **changes})


@pytest.mark.parametrize("minutes, carried", [(1, (IDLE,)), (20, (IDLE,)), (21, ()), (59, ())])
def test_where_nodes_hold_one_gpu_an_idle_one_whose_paid_hour_ends_soon_is_taken_last(
    minutes: int, carried: tuple[Taint, ...]
) -> None:
    found, policy = facts(a_state(of_one_gpu(timedelta(minutes=minutes)))), a_policy(a_pool(), billing=HOURLY)
    assert [taints for _, taints in soft_taints(found, policy, Survival())] == ([carried] if carried else [])


@pytest.mark.parametrize("gpus", [1, 2], ids=["full", "with a free GPU"])
def test_where_nodes_hold_one_gpu_one_in_use_is_not_called_idle(gpus: int) -> None:
    train = a_pod("train", phase=PodPhase.RUNNING, node="n")
    busy = of_one_gpu(MINUTE, idle_since=None, pods=(train,), allocatable={GPU: gpus}, taints=(IDLE,))
    policy = a_policy(a_pool(), billing=HOURLY)
    assert [taints for _, taints in soft_taints(facts(a_state(busy)), policy, Survival())] == [()]
    free = replace(busy, taints=())
    assert list(soft_taints(facts(a_state(free)), policy, Survival())) == []


@pytest.mark.parametrize("minutes, then", [(59, 39), (21, 1), (20, 20), (1, 1)])
def test_it_is_known_when_a_paid_hour_ends_soon_and_when_the_next_begins(minutes: int, then: int) -> None:
    found, policy = facts(a_state(of_one_gpu(timedelta(minutes=minutes)))), a_policy(a_pool(), billing=HOURLY)
    assert changes_at(found, policy) == NOW + timedelta(minutes=then)


@pytest.mark.parametrize(
    "changes",
    [{"billing": EVERY_SECOND}, {"packing": Packing.SCHEDULER}],
    ids=["billed by the second", "left to the scheduler"],
)
def test_an_idle_node_of_one_gpu_carries_none(changes: dict[str, Any]) -> None:
    found = facts(a_state(of_one_gpu(timedelta(minutes=1))))
    policy = a_policy(a_pool(), **{"billing": HOURLY, **changes})
    assert (list(soft_taints(found, policy, Survival())), changes_at(found, policy)) == ([], None)


def test_beside_larger_nodes_an_idle_node_of_one_gpu_carries_two() -> None:
    small, big = a_pool("small"), replace(EIGHT, id="big-id", name="big")
    found = facts(a_state(a_node("n1"), pool="small-id"), a_state(a_big_node("used", 1), pool="big-id"))
    assert [(n.name, t) for n, t in soft_taints(found, a_policy(small, big), Survival())] == [("n1", IDLE_ONES)]


def beside(objective: Objective) -> dict[str, tuple[Taint, ...]]:
    """The soft taints of small and wide nodes of one price per GPU, beside one another."""
    small = a_pool("small", price_usd_per_hour=Decimal(1))
    wide = replace(EIGHT, id="wide-id", name="wide", price_usd_per_hour=Decimal(8))
    nodes = (a_big_node("used", 1), a_big_node("other", 2), a_big_node("empty", 0))
    found = facts(a_state(a_node("small"), pool="small-id"), a_state(*nodes, pool="wide-id"))
    policy = a_policy(small, wide, objective=objective, billing=HOURLY)
    return {node.name: taints for node, taints in soft_taints(found, policy, Survival())}


def test_every_wide_node_fills_after_the_small_ones_beside_it() -> None:
    taints = beside(Objective.BALANCED)
    assert taints == {
        "small": (IDLE,),
        "used": (FILL_OTHERS_FIRST, SMALL_NODES_FIRST),
        "other": (FILL_OTHERS_FIRST, SMALL_NODES_FIRST),
        "empty": SOFT_TAINTS,
    }
    assert len(taints["small"]) < len(taints["used"]) < len(taints["empty"])


def test_where_waits_go_first_wide_nodes_fill_first() -> None:
    taints = beside(Objective.WAIT)
    assert taints == {"small": IDLE_ONES, "used": (FILL_OTHERS_FIRST,), "empty": IDLE_ONES}


@pytest.mark.parametrize("held, matters", [((), False), ((1,), False), ((1, 8, 0), False), ((1, 2), True)])
def test_how_long_workloads_last_matters_where_there_is_a_choice(held: tuple[int, ...], matters: bool) -> None:
    found = facts(a_state(*(a_big_node(f"n{i}", gpus) for i, gpus in enumerate(held))))
    assert compares(found, a_policy(EIGHT)) is matters
    assert not compares(found, a_policy(EIGHT, packing=Packing.SCHEDULER))


@LAWS
@given(worlds())
def test_law_soft_taints_change_no_decision(world: World) -> None:
    """They steer the scheduler, not us: what we count, buy and remove is the same with and without them."""
    found, policy = world
    marked = replace(
        found,
        pools=tuple(
            replace(s, nodes=tuple(replace(n, taints=(*n.taints, *SOFT_TAINTS)) for n in s.nodes)) for s in found.pools
        ),
    )
    before, after = run(found, policy)[1], run(marked, policy)[1]
    assert {p: (d.target, d.candidates) for p, d in before.items()} == {
        p: (d.target, d.candidates) for p, d in after.items()
    }


@LAWS
@given(worlds())
def test_law_what_soft_taints_should_be_they_stay(world: World) -> None:
    """Put on as wanted, nothing is left to change: no node is patched twice for the same facts."""
    found, policy = world
    changes = {node.instance: taints for node, taints in soft_taints(found, policy, Survival())}
    done = replace(
        found,
        pools=tuple(
            replace(s, nodes=tuple(replace(n, taints=changes.get(n.instance, n.taints)) for n in s.nodes))
            for s in found.pools
        ),
    )
    assert list(soft_taints(done, policy, Survival())) == []


lengths = st.lists(st.timedeltas(timedelta(0), timedelta(days=9)), max_size=30)
ages = st.timedeltas(timedelta(0), timedelta(days=9))


def test_with_nothing_known_what_has_run_longer_runs_on_longer() -> None:
    unknowing = Survival()
    chances = [unknowing.chance(age * HOUR, HOUR) for age in (0, 1, 10, 100)]
    assert chances == sorted(chances)
    assert chances[1] == pytest.approx(65 / 125)  # an hour and five minutes of two hours and five


def test_many_workloads_that_lasted_as_long_say_more_than_age() -> None:
    knowing = Survival.of([2 * HOUR] * 995)
    assert knowing.chance(HOUR, HOUR / 2) > 0.99
    assert knowing.chance(HOUR, HOUR) < 0.01


def test_workloads_that_ended_younger_say_nothing_of_one_that_got_older() -> None:
    assert Survival.of([HOUR / 2] * 300).chance(HOUR, HOUR) == Survival().chance(HOUR, HOUR)


def test_one_of_two_pods_goes_on_more_likely_than_one() -> None:
    pods = [a_pod("a"), a_pod("b")]
    one, two = (Survival().goes_on(some, NOW + HOUR) for some in (pods[:1], pods))
    assert one < two < 1


def test_a_pod_counts_from_when_it_got_its_node() -> None:
    waited = a_pod("a", created_at=NOW - 9 * HOUR, bound_at=NOW - HOUR)
    at_once = a_pod("b", created_at=NOW - HOUR)
    assert Survival().goes_on([waited], NOW) == Survival().goes_on([at_once], NOW)


@given(lasted=lengths, age=ages)
def test_law_a_chance_is_a_ratio_and_falls_with_time(lasted: list[timedelta], age: timedelta) -> None:
    survival = Survival.of(lasted)
    chances = [survival.chance(age, more) for more in LATER]
    assert all(0 < chance < 1 for chance in chances)
    assert chances == sorted(chances, reverse=True)
