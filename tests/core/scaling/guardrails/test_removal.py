"""The guardrails that hold removal alone, and what utilization does to a pool: the table of docs/guardrails.md.

A rule's tests say what it lets through, what it holds and until when, and its remedies.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Because, Decision
from receiver.core.model.model import CordonedBy, Node, Spend, Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Billing, Budget
from receiver.core.model.windows import Window
from tests.core.builders import (
    AN_INSTANT,
    EVERY_SECOND,
    GPU,
    HOUR,
    HOUR_ENDS_SOON,
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
    an_override,
    decision_on,
    facts,
    growing,
    remedies,
    rules,
    run,
    shrinking,
)
from tests.core.scaling.guardrails.cases import IDLE, cut, held
from tests.core.scaling.tables import BOTH, FIRING, HIGH, HOURLY_CELLS, LEVELS, LOW, SECOND_CELLS, Cell
from tests.core.worlds import LAWS

DAY = Window(name="day", times=((11 * 60, 13 * 60),), min_nodes=1)
LOWER = "lower min_nodes of the pool (now {})"
CLOSES = "wait for the next window change: window day is open; the next window change is at 2026-11-20 13:00:00 UTC"
BY_ALICE = "floor of 1 node by alice until 2026-11-20 13:00 UTC: load test"
ENDS = "wait until the floor of alice ends at 2026-11-20 13:00:00 UTC, or end it: gpu-autoscaler override end floor-1"


def idle(name: str) -> Node:
    return a_node(name, created_at=HOUR_ENDS_SOON)


def stuck(name: str) -> Node:
    """A node that has been on its way for a minute too long."""
    return a_node(name, stage=Stage.INSTALLING, allocatable={}, idle_since=None, created_at=NOW - 21 * MINUTE)


@pytest.mark.parametrize(
    ("pool", "overrides", "detail", "until", "told"),
    [
        pytest.param({"min_nodes": 1}, (), "at least 1 node", None, {LOWER.format(1): None}, id="its own"),
        pytest.param(
            {"windows": (DAY,)},
            (),
            "at least 1 node (window day)",
            NOW + HOUR,
            {CLOSES: NOW + HOUR, LOWER.format(0): None},
            id="an open window's",
        ),
        pytest.param(
            {},
            (an_override("floor", 1),),
            f"at least 1 node ({BY_ALICE})",
            NOW + HOUR,
            {ENDS: NOW + HOUR, LOWER.format(0): None},
            id="a floor's",
        ),
    ],
)
def test_a_removal_ends_at_a_minimum_and_the_reason_says_whose_and_until_when(
    pool: dict[str, Any],
    overrides: tuple[Any, ...],
    detail: str,
    until: datetime | None,
    told: dict[str, datetime | None],
) -> None:
    policy = a_policy(a_pool(**pool))
    whole = shrinking(policy, overrides=overrides)
    part = shrinking(policy, a_state(idle("n1"), idle("n2")), overrides=overrides)
    assert (whole.target, part.target) == (1, 1)
    for decision, said in ((whole, held(whole, "above_the_floor")), (part, cut(part, "above_the_floor"))):
        assert (said.detail, said.until) == (detail, until)
        assert remedies(decision, "above_the_floor") == told


def test_the_floor_stays_unless_the_budget_stop_is_reached() -> None:
    policy = a_policy(a_pool(min_nodes=1), budget=Budget(monthly_usd=Decimal(100)))
    held(shrinking(policy), "above_the_floor")
    assert shrinking(policy, spend=Spend(month="2026-11", usd=Decimal(100))).target == 0


def test_what_civo_counts_and_does_not_list_is_no_node_of_the_floor() -> None:
    held(shrinking(a_policy(a_pool(min_nodes=1)), a_state(IDLE, required=2)), "above_the_floor")


def test_a_floor_stops_no_growth_of_a_pool_below_it() -> None:
    assert growing(a_policy(a_pool(min_nodes=3))).target == 3


@pytest.mark.parametrize(
    ("nodes", "floor", "left"),
    [
        pytest.param([stuck("a")], 1, 0, id="the dead hold no floor"),
        pytest.param([stuck("a"), stuck("b")], 1, 0, id="nor do two of them"),
        pytest.param([stuck("a"), idle("idle")], 1, 1, id="the idle one is the floor"),
        pytest.param([stuck("a"), *(idle(f"n{n}") for n in range(3))], 2, 2, id="a dead and an idle one go, two stay"),
    ],
)
def test_dead_nodes_go_below_the_floor_and_no_others(nodes: list[Node], floor: int, left: int) -> None:
    decision = decision_on(a_state(*nodes), a_policy(a_pool(min_nodes=floor)))
    assert decision.target == left
    going = decision.candidates[: decision.present - decision.target]
    assert {n.instance for n in nodes if n.stage is not Stage.USABLE} <= set(going)


@LAWS
@given(broken=st.integers(0, 3), free=st.integers(0, 3), busy=st.integers(0, 3), floor=st.integers(0, 4))
def test_all_dead_nodes_go_and_of_the_idle_ones_what_is_above_the_floor(
    broken: int, free: int, busy: int, floor: int
) -> None:
    nodes = [
        *(stuck(f"d{n}") for n in range(broken)),
        *(idle(f"i{n}") for n in range(free)),
        *(a_busy_node(f"b{n}") for n in range(busy)),
    ]
    decision = decision_on(a_state(*nodes), a_policy(a_pool(min_nodes=min(floor, len(nodes)))))
    works = free + busy
    assert decision.target == max(busy, min(works, floor))
    assert set(decision.candidates[:broken]) == {f"i-d{n}" for n in range(broken)}


SNOOZE = an_override("snooze")


def dead(name: str = "dead") -> Node:
    """A node that was usable and broke long ago."""
    return a_node(
        name, stage=Stage.BROKEN, created_at=HOUR_ENDS_SOON, idle_since=None, lost_at=HOUR_ENDS_SOON, was_usable=True
    )


def test_a_snooze_keeps_idle_nodes_until_it_ends_and_the_reason_says_who_and_why() -> None:
    decision = shrinking(overrides=(SNOOZE,))
    said = held(decision, "removal_is_not_snoozed")
    assert (said.detail, said.until) == ("snooze by alice until 2026-11-20 13:00 UTC: load test", NOW + HOUR)
    end = (
        "wait until the snooze of alice ends at 2026-11-20 13:00:00 UTC,"
        " or end it: gpu-autoscaler override end snooze-1"
    )
    assert remedies(decision, "removal_is_not_snoozed") == {end: NOW + HOUR}


def test_at_the_end_of_a_snooze_idle_nodes_go() -> None:
    end = NOW + MINUTE
    snooze = an_override("snooze", until=end)
    assert shrinking(overrides=(snooze,), at=end - AN_INSTANT).target == 1
    assert shrinking(overrides=(snooze,), at=end).target == 0


def test_a_snoozed_pool_grows_and_loses_dead_nodes_all_the_same() -> None:
    assert growing(overrides=(SNOOZE,)).target == 1
    decision = shrinking(state=a_state(IDLE, dead()), overrides=(SNOOZE,))
    assert (decision.target, decision.candidates[0]) == (1, "i-dead")


def test_a_snooze_keeps_no_empty_node_at_the_stop_of_a_budget() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100)))
    assert shrinking(policy, overrides=(SNOOZE,), spend=Spend(month="2026-11", usd=Decimal(100))).target == 0


def test_a_snooze_keeps_nodes_beyond_a_ceiling_too() -> None:
    two = a_state(a_node("n1"), a_node("n2"))
    held(decision_on(two, overrides=(SNOOZE, an_override("ceiling", 0))), "removal_is_not_snoozed")


@LAWS
@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_a_snoozed_pool_loses_its_dead_nodes_and_no_other(broken: int, due: int, busy: int) -> None:
    there = a_state(
        *(dead(f"d{n}") for n in range(broken)),
        *(a_node(f"i{n}", created_at=HOUR_ENDS_SOON) for n in range(due)),
        *(a_busy_node(f"b{n}") for n in range(busy)),
    )
    assert decision_on(there, overrides=(SNOOZE,)).target == due + busy
    assert decision_on(there).target == busy


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
