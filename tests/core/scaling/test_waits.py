"""What holds a pool for a while is told per direction, with the very moment at which its guardrail lets go."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings

from receiver.core.model.actions import Decision
from receiver.core.model.model import Backoff, Drift, PoolState
from receiver.core.model.policy import Policy
from receiver.core.scaling.waits import Direction, Wait, WaitKind, waits
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    HOUR,
    MINUTE,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    facts,
    rules,
    run,
)
from tests.core.small_worlds import small_worlds
from tests.core.worlds import LAWS, World, worlds

SECONDS = a_policy(billing=EVERY_SECOND)
UNTIL = NOW + 7 * MINUTE
FAILED = Backoff(failures=3, until=UNTIL, reason="no stock")
GROW, SHRINK = Direction.GROW, Direction.SHRINK


def undone(way: tuple[int, int], newest: timedelta) -> tuple[Drift, ...]:
    """Three changes of somebody else's against our own within two minutes, the newest that long ago."""
    ages = (newest, newest + MINUTE, newest + 2 * MINUTE)
    return tuple(Drift(at=NOW - a, from_count=way[0], to_count=way[1], undoes=True) for a in ages)


def told(policy: Policy = SECONDS, **state: Any) -> tuple[Wait, ...]:
    return waits(policy.pools[0], a_state(a_node(), **state), policy, NOW)


KINDS = [
    pytest.param(
        {"last_grow_at": NOW - timedelta(seconds=29)}, GROW, WaitKind.COOLDOWN, timedelta(seconds=1), id="grown"
    ),
    pytest.param({"last_shrink_at": NOW - 4 * MINUTE}, SHRINK, WaitKind.COOLDOWN, MINUTE, id="shrunk"),
    pytest.param({"backoff": FAILED}, GROW, WaitKind.BACKOFF, 7 * MINUTE, id="growth failed"),
    pytest.param({"removal_backoff": FAILED}, SHRINK, WaitKind.BACKOFF, 7 * MINUTE, id="removal failed"),
    pytest.param({"provisioning": FAILED}, GROW, WaitKind.PROVISIONING, 7 * MINUTE, id="nodes never came"),
    pytest.param({"drifts": undone((2, 1), HOUR)}, GROW, WaitKind.UNDONE, 23 * HOUR, id="somebody lowers it"),
    pytest.param({"drifts": undone((1, 2), HOUR)}, SHRINK, WaitKind.UNDONE, 23 * HOUR, id="somebody raises it"),
]
RULES = {
    WaitKind.COOLDOWN: "cooled_down",
    WaitKind.BACKOFF: "not_backing_off",
    WaitKind.PROVISIONING: "provisioning_works",
    WaitKind.UNDONE: "not_undone_by_others",
}


@pytest.mark.parametrize(("state", "direction", "kind", "left"), KINDS)
def test_what_holds_is_told_with_its_direction_and_its_end(
    state: dict[str, Any], direction: Direction, kind: WaitKind, left: timedelta
) -> None:
    [found] = told(**state)
    assert (found.direction, found.kind, found.until) == (direction, kind, NOW + left)
    assert found.reason


def change(state: dict[str, Any], direction: Direction, at: timedelta) -> Decision:
    """The decision at that time from now on, of a pool that wants to grow or to let its one idle node go."""
    pods = [a_pod("p1", gpus=2), a_pod("p2", gpus=2)] if direction is GROW else []
    nodes = () if direction is GROW else (a_node(allocatable={GPU: 2}),)
    policy = a_policy(a_pool(resources={GPU: 2}), billing=EVERY_SECOND)
    found = facts(a_state(*nodes, **state), waiting=pods, at=NOW + at)
    return run(found, policy)[1]["l40s"]


@pytest.mark.parametrize(("state", "direction", "kind", "left"), KINDS)
def test_the_guardrail_holds_until_that_moment_says_when_and_no_longer(
    state: dict[str, Any], direction: Direction, kind: WaitKind, left: timedelta
) -> None:
    before, at = change(state, direction, left - timedelta(seconds=1)), change(state, direction, left)
    assert before.target == before.present
    [held] = [r for r in before.reasons if r.rule == RULES[kind] and r.verdict.value == "holds"]
    assert f"{NOW + left:%H:%M}" in held.detail
    assert before.reconsider_at == NOW + left
    assert at.target != at.present
    assert RULES[kind] not in rules(at, "holds")


@pytest.mark.parametrize(("state", "direction", "kind", "left"), KINDS)
def test_nothing_is_told_once_it_is_over(
    state: dict[str, Any], direction: Direction, kind: WaitKind, left: timedelta
) -> None:
    assert waits(SECONDS.pools[0], a_state(**state), SECONDS, NOW + left) == ()


def test_where_hours_are_billed_no_cooldown_of_removal_is_told() -> None:
    assert told(a_policy(), last_shrink_at=NOW - MINUTE) == ()


def test_growth_is_told_before_removal_and_each_in_the_order_of_the_guardrails() -> None:
    found = told(backoff=FAILED, removal_backoff=FAILED, provisioning=FAILED, last_grow_at=NOW, last_shrink_at=NOW)
    assert [(w.direction.value, w.kind.value) for w in found] == [
        ("grow", "backoff"),
        ("grow", "provisioning"),
        ("grow", "cooldown"),
        ("shrink", "backoff"),
        ("shrink", "cooldown"),
    ]


def test_a_back_off_of_some_nodes_names_them_and_goes_with_them() -> None:
    some = replace(FAILED, instances=("i-n1", "i-gone"))
    [found] = told(removal_backoff=some)
    assert found.nodes == ("n1",)
    assert told(removal_backoff=replace(FAILED, instances=("i-gone",))) == ()


def test_what_was_set_under_a_clock_that_was_ahead_is_not_told() -> None:
    assert told(last_grow_at=NOW + MINUTE) == ()
    assert told(backoff=replace(FAILED, until=NOW + 2 * HOUR)) == ()


def test_an_idle_node_whose_removal_was_refused_is_told_with_the_end_in_the_decision() -> None:
    refused = replace(FAILED, instances=("i-n1",), reason="ml/web is protected")
    decision = run(facts(a_state(a_node(), removal_backoff=refused)), SECONDS)[1]["l40s"]
    assert decision.target == 1
    assert decision.deciding.detail == (
        "n1 may not be removed until 12:07:00 UTC after 3 failures: ml/web is protected"
    )


@settings(LAWS, max_examples=150)
@given(worlds() | small_worlds())
def test_whatever_a_timed_guardrail_holds_in_any_world_is_told(world: World) -> None:
    found, policy = world
    _, decisions = run(found, policy)
    for pool in policy.pools:
        state: PoolState = found.pool(pool.id)
        kinds = {(w.direction, w.kind) for w in waits(pool, state, policy, found.at) if not w.nodes}
        for reason in decisions[pool.name].reasons:
            timed = [kind for kind, rule in RULES.items() if rule == reason.rule]
            untimed = reason.rule == "provisioning_works" and "no other node before" not in reason.detail
            if reason.verdict.value == "holds" and timed and not untimed:
                assert {(GROW, timed[0]), (SHRINK, timed[0])} & kinds, (reason, kinds)
