"""Which nodes may go, in which order, and how many."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Because, Decision
from receiver.core.model.model import Backoff, CordonedBy, Node, PoolState, Spend, Stage
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Budget, Policy, Repair
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    MINUTE,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_removal,
    a_state,
    facts,
    run,
)
from tests.core.worlds import LAWS

PAIR = a_pool(resources={GPU: 2})


def idle(name: str = "idle", minutes: float = 57, **changes: Any) -> Node:
    """An idle node created so many *minutes* ago."""
    return a_node(name, **{"created_at": NOW - minutes * MINUTE, "allocatable": {GPU: 2}, **changes})


def dead(name: str = "dead", minutes: float = 30) -> Node:
    return idle(name, minutes, stage=Stage.BOOTING, idle_since=None, allocatable={})


def movable(name: str = "moved", minutes: float = 57) -> Node:
    pod = a_pod(f"on-{name}", phase=PodPhase.RUNNING, evictable=True, owner="ReplicaSet/web")
    return idle(name, minutes, pods=(pod,), idle_since=None)


def staying() -> Node:
    pod = a_pod("stays", phase=PodPhase.RUNNING)
    return idle("stays", pods=(pod,), idle_since=None)


def answer(state: PoolState, policy: Policy | None = None, **given: Any) -> Decision:
    return run(facts(state, **given), policy or a_policy(PAIR))[1]["l40s"]


def go(*nodes: Node, **changes: Any) -> list[str]:
    policy = changes.pop("policy", None)
    return [i.removeprefix("i-") for i in answer(a_state(*nodes, **changes), policy).candidates]


def test_the_dead_go_first_then_the_idle_then_the_busy_that_can_be_emptied() -> None:
    assert go(movable(), idle(), staying(), dead()) == ["dead", "idle", "moved"]


def test_among_alike_the_soonest_paid_unit_goes_first_then_the_name() -> None:
    assert go(idle("c", 56), idle("b", 58), idle("a", 56)) == ["b", "a", "c"]
    assert go(dead("c", 30), dead("b", 50), dead("a", 30)) == ["b", "a", "c"]


def test_never_more_go_than_are_asked_for() -> None:
    """Where fewer are asked for than live, Civo is about to take one itself."""
    assert go(idle("a"), idle("b"), dead(), required=2) == ["dead", "a"]
    assert go(idle("a"), idle("b"), required=0) == []


def test_a_node_whose_gpus_are_in_use_without_a_pod_stays() -> None:
    assert go(idle("used", unknown_since=NOW - timedelta(days=1)), idle("free")) == ["free"]


@pytest.mark.parametrize(
    ("standby", "gone"),
    [(0, ["a", "b", "c"]), (1, ["a", "b"]), (2, ["a"]), (3, [])],
)
def test_spare_nodes_are_kept(standby: int, gone: list[str]) -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=standby))
    assert go(idle("a"), idle("b"), idle("c"), policy=policy) == gone


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(idle("other", pods=(a_pod(),), idle_since=None), id="busy"),
        pytest.param(idle("other", cordoned_by=CordonedBy.SOMEONE), id="cordoned by somebody else"),
        pytest.param(dead("other", minutes=1), id="on its way"),
    ],
)
def test_a_node_is_no_spare_one_that_is(other: Node) -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1))
    assert go(idle("spare"), other, policy=policy) == []


def test_a_node_under_repair_is_no_spare_one() -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1, repair=Repair.REPLACE))
    sick = idle("sick", sick="1 of 2 unhealthy", partly_sick=True, sick_since=NOW - 11 * MINUTE)
    assert go(idle("spare"), sick, policy=policy) == ["sick"]


def test_a_back_off_that_a_clock_far_ahead_set_keeps_no_node() -> None:
    ahead = Backoff(failures=1, until=NOW + timedelta(days=30), reason="no", instances=("i-a",))
    assert go(idle("a"), removal_backoff=ahead) == ["a"]
    assert go(idle("a"), removal_backoff=replace(ahead, until=NOW + MINUTE)) == []


def test_of_equal_nodes_the_one_that_is_going_already_goes() -> None:
    """With billing by the second the paid units of two nodes end in turns."""
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1), billing=EVERY_SECOND)
    cordoned = idle("b", cordoned_by=CordonedBy.US, cordoned_for="retire-1")
    assert go(idle("a"), cordoned, policy=policy, open_action=a_removal("b", from_count=2)) == ["b"]


def test_a_spare_node_that_may_not_go_yet_lets_another_go() -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1))
    assert go(idle("due"), idle("young", 10), policy=policy) == ["due"]


def test_dead_and_emptied_nodes_are_no_spare_ones() -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1))
    assert go(dead(), idle("spare"), movable(), staying(), policy=policy) == ["dead", "moved"]


def test_at_the_budget_stop_no_spare_node_is_kept() -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1), budget=Budget(monthly_usd=Decimal(10)))
    stopped = answer(a_state(idle()), policy, spend=Spend(month="2026-11", usd=Decimal(10)))
    assert stopped.target == 0


# --- a node that we just emptied --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("because", "gone"),
    [(Because.CONSOLIDATED, ["idle"]), (Because.IDLE, [])],
)
def test_a_node_that_was_emptied_for_its_removal_need_not_rest(because: Because, gone: list[str]) -> None:
    assert go(idle(idle_since=NOW), open_action=a_removal("idle", because=because)) == gone


def test_a_node_that_was_emptied_stays_once_the_next_hour_is_paid() -> None:
    assert go(idle(minutes=60, idle_since=NOW), open_action=a_removal("idle", because=Because.CONSOLIDATED)) == []


def test_where_seconds_are_billed_an_emptied_node_goes_at_once() -> None:
    policy = a_policy(PAIR, billing=EVERY_SECOND)
    emptied = a_removal("idle", because=Because.CONSOLIDATED)
    assert go(idle(idle_since=NOW), open_action=emptied, policy=policy) == ["idle"]


# --- laws -------------------------------------------------------------------------------------------------


@LAWS
@given(
    dead_ones=st.integers(0, 3),
    idle_ones=st.integers(0, 4),
    young=st.integers(0, 2),
    busy=st.integers(0, 2),
    standby=st.integers(0, 3),
    asked=st.integers(-2, 0),
)
def test_how_many_go_and_that_the_dead_are_first(
    dead_ones: int, idle_ones: int, young: int, busy: int, standby: int, asked: int
) -> None:
    nodes = [
        *(a_busy_node(f"b{n}", allocatable={GPU: 2}) for n in range(busy)),
        *(idle(f"y{n}", 10) for n in range(young)),
        *(idle(f"i{n}") for n in range(idle_ones)),
        *(dead(f"d{n}") for n in range(dead_ones)),
    ]
    required = max(0, len(nodes) + asked)
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=min(standby, 8)))
    gone = go(*nodes, policy=policy, required=required)
    due = max(0, min(idle_ones, idle_ones + young - standby))
    assert gone == [*(f"d{n}" for n in range(dead_ones)), *(f"i{n}" for n in range(due))][:required]


def small() -> Node:
    """An idle node that has one of the two GPUs that the waiting pod asks for, at the end of its paid hour."""
    return idle("small", allocatable={GPU: 1})


def wide_work() -> dict[str, Any]:
    return {"waiting": (a_pod("wide", requests={GPU: 2}),)}


def test_an_idle_node_that_waiting_work_cannot_use_goes_at_its_paid_hour_where_the_maximum_allows_no_other() -> None:
    decision = answer(a_state(small(), required=1), a_policy(replace(PAIR, max_nodes=1)), **wide_work())
    assert (decision.present, decision.target, decision.candidates) == (1, 0, ("i-small",))


def test_an_idle_node_that_waiting_work_cannot_use_goes_at_its_paid_hour_where_no_price_is_known() -> None:
    pool = replace(PAIR, max_nodes=2, price_usd_per_hour=None)
    decision = answer(a_state(small(), required=1), a_policy(pool), **wide_work())
    assert (decision.present, decision.target, decision.candidates) == (1, 0, ("i-small",))


def test_an_idle_node_that_waiting_work_cannot_use_is_no_standby_node_where_no_other_may_come() -> None:
    policy = a_policy(replace(PAIR, max_nodes=1, standby_nodes=1))
    assert answer(a_state(small(), required=1), policy, **wide_work()).candidates == ("i-small",)
    assert answer(a_state(small(), required=1), policy).candidates == ()


def test_an_idle_node_that_waiting_work_cannot_use_delays_no_growth_that_may_come() -> None:
    decision = answer(a_state(small(), required=1), a_policy(replace(PAIR, max_nodes=2)), **wide_work())
    assert decision.target == 2


def test_no_idle_node_goes_because_growth_waits_for_its_cooldown() -> None:
    state = a_state(small(), required=1, last_grow_at=NOW - MINUTE)
    pool = replace(PAIR, max_nodes=2, grow_cooldown=5 * MINUTE)
    assert answer(state, a_policy(pool), **wide_work()).target == 1
