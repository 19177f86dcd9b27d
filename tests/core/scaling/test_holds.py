"""Why a node stays or takes no work: each hold, and the ways that it blocks."""

import ast
import inspect
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.actions import Because
from receiver.core.model.model import REPAIR, Backoff, CordonedBy, Node, Spend, Stage
from receiver.core.model.policy import Budget, Policy, Pool, Repair
from receiver.core.model.signals import SignalAction
from receiver.core.scaling import holds
from receiver.core.scaling.assign import assign
from receiver.core.scaling.bounds import Grace
from receiver.core.scaling.decide import case_of
from receiver.core.scaling.guardrails.rule import Case
from receiver.core.scaling.holds import CASE_HOLDS, DRAIN_HOLDS, holds_on, may_go
from receiver.core.scaling.node_holds import GOING, Blocks, Hold, node_hold, work_hold
from receiver.core.scaling.wanted import Funding, Instances, WaitingWork
from tests.core.builders import (
    EVERY_SECOND,
    HOUR,
    MINUTE,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_removal,
    a_signal,
    a_state,
    facts,
)

PODS, NEW_WORK, REMOVAL, CONSOLIDATION, EVICTION, REPLACEMENT = Blocks
ALIVE = {REMOVAL, CONSOLIDATION, EVICTION}
N1 = frozenset({"i-n1"})
WARM, STOPPED = Instances(warm={"i-n1": "ml/warm"}), Funding(stopped=True)
NIGHT = Grace(window="night", topic="evict:night", max_nodes=0, evict_after=HOUR)


def a_case(*nodes: Node, policy: Policy | None = None, signals: Any = (), state: Any = None, **wanted: Any) -> Case:
    """The case of one pool with *nodes*, of which *wanted* says what the assignment found."""
    policy, found = policy or a_policy(), facts(a_state(*nodes, **(state or {})), signals=signals)
    assigned = assign(found, policy).pools["l40s-id"]
    return case_of(found.pools[0], replace(assigned, **wanted), found, policy)


def found_on(node: Node, case: Case) -> dict[str, set[Blocks]]:
    """The names of all holds on *node*, with the ways of going that they block."""
    names: dict[str, set[Blocks]] = {}
    for way in GOING:
        for hold in holds_on(node, case, way):
            names.setdefault(hold.by, set()).add(way)
    return names


def moving(name: str = "n1", **changes: Any) -> Node:
    """A busy node whose pod may be moved and evicted."""
    pod = a_pod(f"on-{name}", node=name, evictable=True, owner="ReplicaSet/web")
    return a_busy_node(name, pods=(pod,), **changes)


@pytest.mark.parametrize(
    ("node", "by", "ways"),
    [
        (a_node(cordoned_by=CordonedBy.SOMEONE), "cordoned_by_others", set(Blocks)),
        (a_node(cordoned_by=CordonedBy.US), "cordoned_by_us", {PODS}),
        (a_node(closed_for="cluster budget"), "marked_as_closed", {PODS}),
        (a_node(registered=False), "not_registered", {PODS}),
        (a_node(maintained="is restarted by Civo's node agent"), "maintained", set(Blocks)),
        (a_node(sick="XID 79"), "sick", {PODS, NEW_WORK}),
        (a_node(deleted=True), "deleted", {NEW_WORK}),
        (a_node(protected=True), "protected", set(GOING)),
        (a_node(hosts=("prometheus-0",)), "hosts_the_autoscaler", set(GOING)),
        (a_node(kept_by=("ml/notebook has no owner",)), "loses_pods", set(GOING)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_node_shows_blocks_work_or_its_going(node: Node, by: str, ways: set[Blocks]) -> None:
    assert {way for way in Blocks if (hold := node_hold(node, way)) is not None and hold.by == by} == ways


def test_a_node_that_is_partly_sick_takes_work() -> None:
    node = a_node(sick="1 of 8 unhealthy", partly_sick=True)
    assert node_hold(node, PODS) is None
    assert work_hold(node, a_pool(), "") is None


SICK_IN_REMOVAL = a_node(cordoned_by=CordonedBy.US, cordoned_for="an-action", sick="1 of 8 unhealthy", partly_sick=True)


@pytest.mark.parametrize(
    ("node", "pool", "closed", "by"),
    [
        (a_node(), a_pool(), "", None),
        (a_node(cordoned_by=CordonedBy.US, cordoned_for="an-action"), a_pool(), "", None),
        (a_node(sick="XID 79"), a_pool(), "", "sick"),
        (a_node(cordoned_by=CordonedBy.US, cordoned_for=REPAIR), a_pool(), "", "under_repair"),
        (a_node(cordoned_for=REPAIR), a_pool(), "", None),  # a person made it schedulable again
        (SICK_IN_REMOVAL, a_pool(repair=Repair.REPLACE), "", "under_repair"),
        (SICK_IN_REMOVAL, a_pool(), "", None),
        (a_node(), a_pool(), "cluster budget", "closed_by_a_budget"),
    ],
)
def test_a_node_is_no_room_while_it_is_repaired_or_closed(node: Node, pool: Pool, closed: str, by: str | None) -> None:
    hold = work_hold(node, pool, closed)
    assert (hold.by if hold is not None else None) == by


@pytest.mark.parametrize(
    ("node", "case", "by", "ways"),
    [
        (a_node(stage=Stage.DELETING, idle_since=None), {}, "being_deleted", set(GOING)),
        (a_node(stage=Stage.BROKEN, idle_since=None), {}, "not_usable", ALIVE),
        (a_node(kept_until=NOW + MINUTE), {}, "kept_by_a_workload", ALIVE),
        (a_node(kept_until=NOW + MINUTE), {"money": STOPPED}, "kept_by_a_workload", set()),
        (a_node(kept_until=NOW), {}, "kept_by_a_workload", set()),
        (a_node(undated=True), {}, "hours_unknown", {REMOVAL, CONSOLIDATION}),
        (a_node(undated=True), {"money": STOPPED}, "hours_unknown", set()),
        (a_node(undated=True), {"policy": a_policy(billing=EVERY_SECOND)}, "hours_unknown", set()),
        (a_node(unknown_since=NOW), {}, "gpus_in_use", {REMOVAL, EVICTION}),
        (
            a_node(unknown_since=NOW),
            {"nodes": Instances(repairs=N1)},
            "gpus_in_use",
            {REMOVAL, EVICTION, REPLACEMENT},
        ),
        (
            a_node(unknown_since=NOW),
            {"state": {"open_action": a_removal("n1", because=Because.EVICTED)}},
            "gpus_in_use",
            {REMOVAL},
        ),
        (
            a_node(),
            {"state": {"removal_backoff": Backoff(failures=1, until=NOW + MINUTE, reason="x", instances=("i-n1",))}},
            "removal_backs_off",
            set(GOING),
        ),
        (
            a_node(),
            {"state": {"removal_backoff": Backoff(failures=1, until=NOW + MINUTE, reason="x", instances=("i-n2",))}},
            "removal_backs_off",
            set(),
        ),
        (a_node(), {"nodes": WARM}, "kept_free_for_a_buffer", {REMOVAL}),
        (
            a_node(),
            {"nodes": WARM, "money": STOPPED},
            "kept_free_for_a_buffer",
            set(),
        ),
        (a_node(), {"nodes": Instances(needed=N1)}, "needed_by_waiting_work", {REMOVAL}),
        (moving(stage=Stage.BROKEN), {}, "cannot_be_drained", {REPLACEMENT}),
        (a_busy_node(), {}, "pods_do_not_consent", {CONSOLIDATION, REPLACEMENT}),
        (moving(), {}, "pods_fit_nowhere_else", {CONSOLIDATION}),
        (
            moving(),
            {"nodes": Instances(movable=N1), "signals": (a_signal(SignalAction.HOLD),)},
            "alert_holds",
            {CONSOLIDATION},
        ),
        (
            moving(),
            {"nodes": Instances(movable=N1), "policy": a_policy(billing=EVERY_SECOND)},
            "utilization_not_low",
            {CONSOLIDATION},
        ),
        (
            moving(),
            {"nodes": Instances(movable=N1), "work": WaitingWork(gpus=1)},
            "pods_wait_for_gpus",
            {CONSOLIDATION},
        ),
        (
            moving(),
            {
                "nodes": Instances(movable=N1),
                "work": WaitingWork(gpus=1),
                "state": {"open_action": a_removal("n1", because=Because.CONSOLIDATED)},
            },
            "pods_wait_for_gpus",
            set(),
        ),
        (
            moving(),
            {"graces": (replace(NIGHT, not_emptied=N1),)},
            "not_emptied_before",
            {EVICTION},
        ),
        (
            moving(),
            {"nodes": Instances(unreturning=N1)},
            "work_would_be_lost",
            {EVICTION, REPLACEMENT},
        ),
        (a_busy_node(), {}, "window_may_not_evict", {EVICTION}),
    ],
)
def test_a_decision_keeps_a_node_from_some_ways_of_going(
    node: Node, case: dict[str, Any], by: str, ways: set[Blocks]
) -> None:
    assert found_on(node, a_case(node, **case)).get(by, set()) == ways


def test_nothing_keeps_an_idle_node() -> None:
    node = a_node()
    assert found_on(node, a_case(node)) == {}
    assert may_go(node, a_case(node), REMOVAL)


def test_of_what_keeps_the_pods_of_a_node_the_first_is_told() -> None:
    node = a_busy_node()
    case = a_case(node, signals=(a_signal(SignalAction.HOLD),))
    assert [hold.by for hold in holds_on(node, case, CONSOLIDATION)] == ["pods_do_not_consent"]


def test_the_end_of_a_hold_is_known_where_it_ends_by_time() -> None:
    node = a_node(kept_until=NOW + MINUTE, kept_for="ml/notebook", protected=True)
    ends = {hold.by: hold.until for hold in holds_on(node, a_case(node), REMOVAL)}
    assert ends == {"protected": None, "kept_by_a_workload": NOW + MINUTE}


def test_every_hold_of_a_case_bears_the_name_of_its_function() -> None:
    for check in (*CASE_HOLDS, *DRAIN_HOLDS):
        [function] = ast.parse(inspect.getsource(check)).body
        calls = (call for call in ast.walk(function) if isinstance(call, ast.Call))
        names = {ast.literal_eval(c.args[0]) for c in calls if isinstance(c.func, ast.Name) and c.func.id == "Hold"}
        assert names == {check.__name__.removeprefix("_")}


def test_every_hold_of_a_case_is_listed() -> None:
    functions = {f for f in vars(holds).values() if inspect.isfunction(f) and f.__module__ == holds.__name__}
    assert {f for f in functions if f.__annotations__["return"] == Hold | None} == {*CASE_HOLDS, *DRAIN_HOLDS}


@pytest.mark.parametrize(("spent", "settled"), [(9, ("ml/train",)), (10, ())], ids=["open", "at its stop"])
def test_a_node_that_civo_does_not_list_yet_is_no_room_at_a_budgets_stop(spent: int, settled: tuple[str, ...]) -> None:
    budget = Budget(monthly_usd=Decimal(10), stop_at=Decimal(1))
    spend = Spend(month="2026-11", usd=Decimal(spent))
    found = facts(a_state(required=1), waiting=[a_pod()], spend=spend)
    assert assign(found, a_policy(budget=budget)).pools["l40s-id"].work.settled == settled
