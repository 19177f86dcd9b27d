"""What high, middle and low utilization do to a pool: the table of docs/guardrails.md, cell by cell."""

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from receiver.core.model.actions import Because, Decision
from receiver.core.model.model import CordonedBy, Node, Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Billing
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    HOURLY,
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
    rules,
    run,
)
from tests.core.scaling.tables import BOTH, FIRING, HIGH, HOURLY_CELLS, LEVELS, LOW, SECOND_CELLS, Cell

BY_THE_HOUR = HOURLY
SECOND_NODES = ("busy", "may be emptied", "idle")


def a_guest(node: str, **changes: Any) -> Pod:
    """A running pod that holds one of the two GPUs of *node*."""
    return a_pod(f"on-{node}", phase=PodPhase.RUNNING, node=node, **changes)


def second_node(kind: str, *, created: timedelta, idle: timedelta) -> Node:
    given: dict[str, Any] = {"created_at": NOW - created, "allocatable": {GPU: 2}}
    if kind == "idle":
        return a_node("n2", idle_since=NOW - idle, **given)
    consent = {"evictable": True, "owner": "ReplicaSet/web"} if kind == "may be emptied" else {}
    return a_busy_node("n2", pods=(a_guest("n2", **consent),), **given)


def decided(second: Node, level: str, *, waits: bool = False, billing: Billing = BY_THE_HOUR) -> Decision:
    """The decision on two nodes of two GPUs; the first is as old as *second* and keeps the pod it holds."""
    first = a_busy_node("n1", pods=(a_guest("n1"),), allocatable={GPU: 2}, created_at=second.created_at)
    found = facts(a_state(first, second), signals=FIRING[level], waiting=[a_pod(gpus=2)] if waits else [])
    return run(found, a_policy(a_pool(resources={GPU: 2}), billing=billing))[1]["l40s"]


@pytest.mark.parametrize("cells", [HOURLY_CELLS, SECOND_CELLS], ids=["hours", "seconds"])
def test_a_table_has_every_cell_once(cells: list[Cell]) -> None:
    assert sorted(cell[:4] for cell in cells) == sorted(product(LEVELS, SECOND_NODES, BOTH, BOTH))


@pytest.mark.parametrize(("level", "second", "waits", "hour_ends", "nodes", "rule"), HOURLY_CELLS)
def test_where_hours_are_billed(level: str, second: str, waits: bool, hour_ends: bool, nodes: int, rule: str) -> None:
    node = second_node(second, created=(57 if hour_ends else 30) * MINUTE, idle=15 * MINUTE)
    decision = decided(node, level, waits=waits)
    assert (decision.target, decision.deciding.rule) == (nodes, rule)


@pytest.mark.parametrize(("level", "second", "waits", "rested", "nodes", "rule"), SECOND_CELLS)
def test_where_seconds_are_billed(level: str, second: str, waits: bool, rested: bool, nodes: int, rule: str) -> None:
    node = second_node(second, created=30 * MINUTE, idle=(10 if rested else 9) * MINUTE)
    decision = decided(node, level, waits=waits, billing=EVERY_SECOND)
    assert (decision.target, decision.deciding.rule) == (nodes, rule)


@pytest.mark.parametrize(("level", "noted"), [("high", ["hold"]), ("middle", []), ("low", ["scale_down"])])
def test_an_alert_is_noted_whether_it_moves_anything_or_not(level: str, noted: list[str]) -> None:
    decision = decided(second_node("busy", created=MINUTE, idle=MINUTE), level)
    assert [r for r in rules(decision, "notes") if r in ("hold", "scale_down")] == noted


# --- why a pool of low utilization stays as it is ---------------------------------------------------------


def test_low_utilization_with_every_node_busy_holds_and_names_the_alert_and_the_pods() -> None:
    decision = decided(second_node("busy", created=30 * MINUTE, idle=MINUTE), "low")
    assert decision.target == 2
    assert decision.deciding.detail == (
        "alert GpuPoolUnderutilized is firing (action: scale_down), and every node runs a GPU pod, and none"
        " may be drained"
        " without its pods' consent and room elsewhere: ml/on-n1 on n1, ml/on-n2 on n2"
    )


def test_of_many_pods_a_few_are_named_and_the_rest_counted() -> None:
    nodes = [a_busy_node(f"n{n}") for n in range(7)]
    decision = run(facts(a_state(*nodes), signals=(LOW,)), a_policy())[1]["l40s"]
    assert decision.deciding.detail.endswith("ml/on-n3 on n3, ml/on-n4 on n4 and 2 more")


def test_a_node_that_will_be_emptied_is_named_with_the_moment() -> None:
    decision = decided(second_node("may be emptied", created=30 * MINUTE, idle=MINUTE), "low")
    assert (
        decision.deciding.detail
        == "alert GpuPoolUnderutilized is firing (action: scale_down), and n2 is drained at 12:25:00 UTC"
    )


def test_low_utilization_and_hold_together_say_that_hold_keeps_the_nodes() -> None:
    node = second_node("may be emptied", created=57 * MINUTE, idle=MINUTE)
    state = a_state(a_busy_node("n1", pods=(a_guest("n1"),), allocatable={GPU: 2}), node)
    decision = run(facts(state, signals=(LOW, HIGH)), a_policy(a_pool(resources={GPU: 2})))[1]["l40s"]
    assert decision.target == 2
    assert (
        "every node runs a GPU pod, and alert GpuPoolBusy is firing (action: hold): ml/on-n1 on n1"
        in decision.deciding.detail
    )


def test_a_pool_whose_nodes_are_on_their_way_is_not_called_busy() -> None:
    coming = a_node("n2", stage=Stage.INSTALLING, idle_since=None, was_usable=False)
    decision = run(facts(a_state(coming), signals=(LOW,)), a_policy())[1]["l40s"]
    assert decision.deciding.detail == "no pods waiting, no idle nodes"


def test_pods_that_wait_for_no_node_of_the_pool_are_told_as_that() -> None:
    elsewhere = a_pod("big", gpus=64)
    decision = run(facts(a_state(), waiting=[elsewhere]), a_policy())[1]["l40s"]
    assert decision.deciding.detail == "no pods waiting for it, no idle nodes"


def test_a_pool_with_a_node_that_nobody_can_judge_is_not_called_busy() -> None:
    unknown = a_node("n2", idle_since=None, unknown_since=NOW - MINUTE)
    decision = run(facts(a_state(a_busy_node("n1"), unknown), signals=(LOW,)), a_policy())[1]["l40s"]
    assert decision.deciding.detail == "no pods waiting, no idle nodes"


# --- demand goes before low utilization -------------------------------------------------------------------


@pytest.mark.parametrize("billing", [BY_THE_HOUR, EVERY_SECOND], ids=["hours", "seconds"])
def test_no_node_is_emptied_while_a_pod_waits_for_a_node_on_its_way(billing: Billing) -> None:
    """It has room, so nothing is bought for it; and emptying a node beside the one that comes would be a detour."""
    coming = a_node("n3", stage=Stage.INSTALLING, idle_since=None, created_at=NOW - MINUTE)
    old = {"created_at": NOW - 57 * MINUTE, "allocatable": {GPU: 2}}
    guest = a_guest("n2", evictable=True, owner="ReplicaSet/web")
    state = a_state(a_busy_node("n1", pods=(a_guest("n1"),), **old), a_busy_node("n2", pods=(guest,), **old), coming)
    policy = a_policy(a_pool(resources={GPU: 2}), billing=billing)
    for waiting, nodes in (([], 2), ([a_pod(gpus=2)], 3)):
        decision = run(facts(state, signals=(LOW,), waiting=waiting), policy)[1]["l40s"]
        assert decision.target == nodes


def test_a_node_that_is_being_emptied_goes_on_while_the_pods_that_left_it_wait_for_a_moment() -> None:
    guest = a_guest("n2", evictable=True, owner="ReplicaSet/web")
    old = {"created_at": NOW - 57 * MINUTE}
    state = a_state(
        a_busy_node("n1", pods=(a_guest("n1"),), allocatable={GPU: 4}, **old),
        a_busy_node("n2", pods=(guest,), allocatable={GPU: 4}, cordoned_by=CordonedBy.US, **old),
    )
    policy = a_policy(a_pool(resources={GPU: 4}))
    found = facts(state, signals=(LOW,), waiting=[a_pod()])
    assert run(found, policy)[1]["l40s"].target == 2
    action = a_removal("n2", from_count=2, because=Because.CONSOLIDATED)
    found = facts(replace(state, open_action=action), signals=(LOW,), waiting=[a_pod()])
    assert run(found, policy)[1]["l40s"].target == 1
