"""Committed nodes in decisions: bought first and without money, and never removed where that saves nothing."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.actions import Decision
from receiver.core.model.model import CordonedBy, Node, PoolState, Spend, Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Budget, CommittedNodes, Policy
from receiver.core.scaling.bounds import topic_of
from receiver.core.scaling.decide import plan
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    HOUR,
    HOURLY,
    MINUTE,
    NOW,
    a_busy_node,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    an_override,
    facts,
    rules,
    run,
)
from tests.core.worlds import NIGHT

LONG = timedelta(days=90)


def committed(nodes: int = 2, pool: str = "l40s-id", until: timedelta = LONG) -> CommittedNodes:
    return CommittedNodes(
        pool=pool, size="an.g1.l40s.kube.x1", nodes=nodes, usd_per_hour=Decimal("0.89"), until=NOW + until
    )


def two_pools(*commitments: CommittedNodes, **changes: Any) -> Policy:
    """A cheap pool, and one of nodes that cost more, each of one GPU."""
    pools = a_pool("cheap", price_usd_per_hour=Decimal(1)), a_pool("dear", price_usd_per_hour=Decimal(3))
    return a_policy(*pools, billing=replace(HOURLY, committed=commitments), **changes)


def sizes(policy: Policy, *states: PoolState, waiting: list[Pod], **known: Any) -> dict[str, int]:
    """How many nodes each pool is to have, by name."""
    _, decisions = run(facts(*states, waiting=waiting, **known), policy)
    return {name: decision.target for name, decision in decisions.items()}


def empty(*names: str) -> list[PoolState]:
    return [a_state(pool=f"{name}-id") for name in names]


def some_pods(count: int, **changes: Any) -> list[Pod]:
    return [a_pod(f"p{n}", **changes) for n in range(count)]


# --- growth


@pytest.mark.parametrize(("pods", "dear", "cheap"), [(1, 1, 0), (2, 2, 0), (3, 2, 1)])
def test_committed_nodes_are_bought_before_cheaper_ones(pods: int, dear: int, cheap: int) -> None:
    policy = two_pools(committed(2, "dear-id"))
    assert sizes(policy, *empty("cheap", "dear"), waiting=some_pods(pods)) == {"cheap": cheap, "dear": dear}


def test_a_gang_goes_where_commitments_leave_it_cheapest() -> None:
    gang = some_pods(3, gang="ml/g", gang_min=3)
    states = empty("cheap", "dear")
    assert sizes(two_pools(committed(3, "dear-id")), *states, waiting=gang) == {"cheap": 0, "dear": 3}
    assert sizes(two_pools(committed(1, "dear-id")), *states, waiting=gang) == {"cheap": 3, "dear": 0}


def test_nodes_that_exist_or_were_asked_for_use_up_the_commitment() -> None:
    policy = two_pools(committed(2, "dear-id"))
    dear = a_state(a_busy_node("a"), a_busy_node("b"), pool="dear-id")
    assert sizes(policy, a_state(pool="cheap-id"), dear, waiting=some_pods(1)) == {"cheap": 1, "dear": 2}


def test_a_commitment_that_ends_within_the_first_paid_hour_makes_nothing_cheaper() -> None:
    policy = two_pools(committed(2, "dear-id", until=59 * MINUTE))
    assert sizes(policy, *empty("cheap", "dear"), waiting=some_pods(1)) == {"cheap": 1, "dear": 0}


def test_work_goes_to_free_committed_nodes_before_it_goes_to_others() -> None:
    nodes = a_state(a_node("c"), pool="cheap-id"), a_state(a_node("d"), pool="dear-id")
    found = facts(*nodes, waiting=some_pods(1))
    assignment, _ = run(found, two_pools(committed(1, "dear-id")))
    assert assignment.pools["dear-id"].nodes.needed == {"i-d"}
    assignment, _ = run(found, two_pools())
    assert assignment.pools["cheap-id"].nodes.needed == {"i-c"}


def growth(spent: str, *commitments: CommittedNodes, pods: int = 3, ahead: str = "0") -> int:
    """How many nodes a pool gets of a budget of USD 100."""
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100)), billing=replace(HOURLY, committed=commitments))
    spend = Spend(month="2026-11", usd=Decimal(spent), committed={"l40s-id": Decimal(ahead)})
    return sizes(policy, a_state(), waiting=some_pods(pods), spend=spend)["l40s"]


def test_committed_nodes_are_bought_where_nothing_is_left_of_the_budget() -> None:
    assert growth("70", committed(2), ahead="30") == 2
    assert growth("70", committed(2), ahead="29") == 2
    assert growth("70", committed(2), ahead="28") == 3


def test_what_a_commitment_still_costs_this_month_buys_nothing_else() -> None:
    assert growth("70", ahead="30") == 0


@pytest.mark.parametrize("spent", ["80", "100"])
def test_beyond_the_hold_line_committed_nodes_are_not_bought_either(spent: str) -> None:
    assert growth(spent, committed(2)) == 0


def test_the_action_reserves_what_the_commitment_does_not_pay_for() -> None:
    policy = a_policy(billing=replace(HOURLY, committed=(committed(2),)))
    found = facts(a_state(a_busy_node()), waiting=some_pods(3))
    _, decisions = run(found, policy)
    action = plan(decisions["l40s"], found.pools[0], policy)
    assert action is not None
    assert action.to_count == 4
    assert action.reserved_usd == 2 * Decimal("1.29")


def test_a_budget_of_a_team_covers_only_nodes_beyond_the_commitment() -> None:
    budget = Budget(monthly_usd=Decimal(1000), teams={"vision": Decimal(1)})
    policy = a_policy(budget=budget, billing=replace(HOURLY, committed=(committed(1),)))
    spend = Spend(month="2026-11", usd=Decimal(0), teams={})
    pods = some_pods(2, labels={"team": "vision"})
    assert sizes(policy, a_state(), waiting=pods, spend=spend) == {"l40s": 1}


# --- removal


def removed(*nodes: Node, nodes_committed: int = 2, pool: dict[str, Any] | None = None, **known: Any) -> set[str]:
    """The nodes that go of a pool with a commitment to *nodes_committed*."""
    return set(removal(*nodes, nodes_committed=nodes_committed, pool=pool, **known).candidates)


def removal(
    *nodes: Node,
    nodes_committed: int = 2,
    pool: dict[str, Any] | None = None,
    until: timedelta = LONG,
    policy: dict[str, Any] | None = None,
    **known: Any,
) -> Decision:
    billing = replace(HOURLY, committed=(committed(nodes_committed, until=until),))
    rules_of_money = a_policy(a_pool(**pool or {}), **{"billing": billing, **(policy or {})})
    _, decisions = run(facts(a_state(*nodes), **known), rules_of_money)
    return decisions["l40s"]


def due(count: int) -> list[Node]:
    """Idle nodes in the last minutes of their paid hour."""
    return [a_due_node(f"n{n}") for n in range(count)]


@pytest.mark.parametrize(("nodes", "going"), [(1, 0), (2, 0), (3, 1), (5, 3)])
def test_idle_nodes_go_as_far_as_the_commitment_does_not_pay_for_them(nodes: int, going: int) -> None:
    decision = removal(*due(nodes))
    assert len(decision.candidates) == going
    assert decision.target == nodes - going


def test_busy_nodes_count_among_those_that_are_paid_for() -> None:
    assert removed(a_busy_node("b1"), a_busy_node("b2"), *due(2)) == {"i-n0", "i-n1"}
    assert removed(a_busy_node("b1"), *due(2)) == {"i-n0"}


def test_dead_nodes_are_removed_and_no_idle_one_beside_them() -> None:
    lost = a_node("lost", stage=Stage.BROKEN, was_usable=True, lost_at=NOW - 2 * HOUR, idle_since=None)
    assert removed(lost, *due(2)) == {"i-lost"}


def test_a_node_on_which_no_work_starts_goes_so_that_another_can_come() -> None:
    assert removed(a_due_node("sick", sick="XID 79", sick_since=NOW - HOUR), *due(1)) == {"i-sick"}


@pytest.mark.parametrize(("ceiling", "going"), [(0, 2), (1, 1)])
def test_an_override_removes_what_it_says(ceiling: int, going: int) -> None:
    assert len(removed(*due(2), overrides=(an_override("ceiling", ceiling),))) == going


def test_a_window_that_evicts_removes_what_it_says() -> None:
    window = replace(NIGHT, max_nodes=0)
    pool = a_pool(windows=(window,))
    told = {topic_of(window, pool): NOW - HOUR}
    assert len(removed(*due(2), pool={"windows": pool.windows}, told_to_go=told)) == 2


def test_at_a_budgets_stop_what_is_paid_for_stays() -> None:
    stopped = {"budget": Budget(monthly_usd=Decimal(10))}
    spend = Spend(month="2026-11", usd=Decimal(10))
    assert len(removal(*due(3), policy=stopped, spend=spend).candidates) == 1


def test_before_the_paid_hour_that_the_commitment_does_not_cover_nodes_go_as_others_do() -> None:
    assert len(removal(*due(2), until=2 * MINUTE).candidates) == 2
    assert len(removal(*due(2), until=4 * MINUTE).candidates) == 0


def test_where_seconds_are_paid_for_nodes_stay_too_until_the_end() -> None:
    idle = [a_node(f"n{n}", idle_since=NOW - HOUR) for n in range(2)]
    by_the_second = {"billing": replace(EVERY_SECOND, committed=(committed(2),))}
    over = {"billing": replace(EVERY_SECOND, committed=(committed(2, until=-MINUTE),))}
    assert removal(*idle, policy=by_the_second).candidates == ()
    assert len(removal(*idle, policy=over).candidates) == 2


def consenting(name: str) -> Node:
    """A node in the last minutes of its paid hour, whose pod may be moved."""
    pod = a_pod(f"on-{name}", phase=PodPhase.RUNNING, node=name, evictable=True, owner="ReplicaSet/web")
    return a_due_node(name, pods=(pod,), idle_since=None, allocatable={GPU: 2})


@pytest.mark.parametrize(("nodes_committed", "moved"), [(1, 1), (2, 0)])
def test_work_is_not_moved_off_a_node_that_is_paid_for_anyway(nodes_committed: int, moved: int) -> None:
    pool = {"resources": {GPU: 2}}
    decision = removal(consenting("a"), consenting("b"), nodes_committed=nodes_committed, pool=pool)
    assert len(decision.candidates) == moved


def test_a_removal_that_was_begun_goes_on_with_the_same_node() -> None:
    nodes = due(3)
    [first] = removal(*nodes).candidates
    cordoned = [a_due_node(n.name, cordoned_by=CordonedBy.US) if n.instance == first else n for n in nodes]
    assert removal(*cordoned).candidates == (first,)


def test_an_idle_node_that_waiting_work_cannot_use_makes_room_for_one_that_it_can() -> None:
    """The pool is full, and its idle nodes lack what the work asks for."""
    waiting = some_pods(1, node_selector={"zone": "b"})
    pool = {"max_nodes": 2, "labels": {"zone": "b"}}
    nodes = [a_due_node(f"n{n}", labels={"zone": "a"}) for n in range(2)]
    decision = removal(*nodes, pool=pool, waiting=waiting)
    assert decision.candidates
    assert "within_maximum" in rules(decision) or decision.target < 2


def test_the_end_of_a_commitment_is_a_moment_at_which_decisions_change() -> None:
    assert removal(until=90 * MINUTE).reconsider_at == NOW + 30 * MINUTE
    assert removal(until=50 * MINUTE).reconsider_at == NOW + 50 * MINUTE
