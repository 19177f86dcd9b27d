"""When waiting work is promised to start."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.explain.explain import Fate, State, fates
from receiver.core.model.model import Facts, Stage
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Budget, Policy
from receiver.core.promises.promise import Promise
from receiver.core.promises.startup import learn
from tests.core.builders import (
    GPU,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_life,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    facts,
    run,
)
from tests.core.promises.past import a_past_node, nine_nodes


def fates_of(found: Facts, policy: Policy | None = None, lasted: tuple[timedelta, ...] = (), **how: Any) -> list[Fate]:
    """Assign, decide and promise as a step does; in the order of service."""
    policy = policy or a_policy()
    assignment, by_name = run(found, policy)
    decisions = {pool.id: by_name[pool.name] for pool in policy.pools}
    lives = [*nine_nodes(), *(a_life(n.instance, created_at=n.created_at) for s in found.pools for n in s.nodes)]
    learnt = learn(lives, lasted)
    return [fate for _, fate in fates(found, assignment, decisions, policy, learnt=learnt, **how)]


def seconds(fate: Fate) -> tuple[float, float]:
    promise = fate.promise
    assert promise.learnt
    assert promise.starts_p50 is not None
    assert promise.starts_p90 is not None
    return (promise.starts_p50 - NOW).total_seconds(), (promise.starts_p90 - NOW).total_seconds()


def test_a_pod_for_which_a_node_is_bought_starts_when_half_and_nine_in_ten_of_the_past_nodes_were_usable() -> None:
    (fate,) = fates_of(facts(a_state(), waiting=[a_pod()]))
    assert seconds(fate) == pytest.approx((140, 180))
    assert fate.detail == "GPU pool l40s grows from 0 to 1 node; starts in 2 to 3 min (by 12:03 UTC)"


def test_a_node_that_is_being_built_has_less_left() -> None:
    node = a_node("n1", stage=Stage.BUILDING, created_at=NOW - 30 * SECOND, idle_since=None)
    (fate,) = fates_of(facts(a_state(node), waiting=[a_pod()]))
    assert seconds(fate) == pytest.approx((110, 150))
    assert fate.detail == "node n1 of GPU pool l40s is being built; starts in 1 to 3 min (by 12:02 UTC)"


def test_a_gang_starts_when_the_slowest_of_its_nodes_is_usable() -> None:
    waiting = [a_pod(f"rank-{n}", gang="ml/train", gang_min=2) for n in range(2)]
    found = fates_of(facts(a_state(), waiting=waiting))
    # Both are usable by 164.7 s with a chance of a half: the square root of it, 0.71, lies at 160.7 s of one node.
    assert seconds(found[0])[0] == pytest.approx(100 + 10 * (0.5**0.5 * 10 - 1), abs=1)
    assert seconds(found[0])[1] == pytest.approx(100 + 10 * (0.9**0.5 * 10 - 1), abs=1)


@pytest.mark.parametrize("coming", [(), ("slow",), ("fast", "slow")])
@pytest.mark.parametrize("names", [("fast", "slow"), ("slow", "fast")])
def test_a_gang_in_two_pools_starts_with_the_slower_one(names: tuple[str, str], coming: tuple[str, ...]) -> None:
    pools = [a_pool(name, labels={"of": name}) for name in names]
    slow = [a_past_node(50 + n, usable=1_000 + 10 * n, pool="slow-id") for n in range(9)]
    past = [*(replace(life, pool="fast-id") for life in nine_nodes()), *slow]
    gang = [a_pod(f"rank-{n}", gang="ml/train", gang_min=2, node_selector={"of": n}) for n in names]
    states = []
    for name in names:
        node = a_node(name, stage=Stage.BUILDING, created_at=NOW, idle_since=None)
        states.append(a_state(*([node] if name in coming else []), pool=f"{name}-id"))
    policy = a_policy(*pools)
    found = facts(*states, waiting=gang)
    assignment, by_name = run(found, policy)
    decisions = {pool.id: by_name[pool.name] for pool in pools}
    [(_, fate)] = fates(found, assignment, decisions, policy, learnt=learn(past))
    assert seconds(fate) == pytest.approx((1_040, 1_080), abs=1)


def test_while_the_pool_cools_down_the_time_until_then_is_added() -> None:
    (fate,) = fates_of(facts(a_state(last_grow_at=NOW - 10 * SECOND), waiting=[a_pod()]))
    assert (fate.state, fate.rule) == (State.HELD, "cooled_down")
    assert seconds(fate) == pytest.approx((160, 200))
    assert fate.promise.until == NOW + 20 * SECOND


def test_in_observe_mode_no_start_is_promised_after_a_cooldown_since_nothing_is_bought_then() -> None:
    (fate,) = fates_of(facts(a_state(last_grow_at=NOW - 10 * SECOND), waiting=[a_pod()]), observing=True)
    assert (fate.rule, fate.promise.starts_p90, fate.promise.until) == ("cooled_down", None, NOW + 20 * SECOND)
    assert "starts in" not in fate.detail


@pytest.mark.parametrize(
    ("observing", "said"),
    [
        (False, "it may wait no longer: its scheduling gate is being removed"),
        (True, "it may wait no longer: its scheduling gate stays in observe mode"),
    ],
)
def test_a_gate_stays_in_observe_mode(observing: bool, said: str) -> None:
    late = a_pod(phase=PodPhase.DEFERRED, may_wait=HOUR, created_at=NOW - 2 * HOUR)
    (fate,) = fates_of(facts(a_state(), deferred=(late,)), observing=observing)
    assert (fate.state, fate.detail) == (State.MAY_WAIT, said)


def test_running_work_that_will_probably_end_brings_the_promise_forward() -> None:
    busy = [a_node(f"n{n}", pods=(a_pod(f"run-{n}", bound_at=NOW - 10 * SECOND),), idle_since=None) for n in range(4)]
    minutes = tuple(timedelta(minutes=1) for _ in range(200))
    (fate,) = fates_of(facts(a_state(*busy), waiting=[a_pod()]), lasted=minutes)
    assert seconds(fate)[0] < 60


def test_those_behind_in_the_queue_get_less_of_the_room_that_ends() -> None:
    busy = [a_node("n1", pods=(a_pod("run", bound_at=NOW - 10 * SECOND),), idle_since=None)]
    minutes = tuple(timedelta(minutes=1) for _ in range(200))
    first, second = fates_of(facts(a_state(*busy), waiting=[a_pod("a"), a_pod("b")]), lasted=minutes)
    assert seconds(first)[0] < seconds(second)[0]


def test_work_that_a_budget_refuses_has_no_time_but_the_day_on_which_the_month_ends_where_the_budget_is() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(1), timezone="America/New_York"))
    (fate,) = fates_of(facts(a_state(), waiting=[a_pod()]), policy)
    assert (fate.promise.starts_p50, fate.promise.starts_p90) == (None, None)
    assert fate.detail.endswith("; held until 1 Dec")


def test_before_enough_nodes_have_shown_it_the_promise_is_a_guess() -> None:
    found = facts(a_state(pool="big-id"), waiting=[a_pod()])
    (fate,) = fates_of(found, a_policy(a_pool("big", resources={GPU: 8}, provision_timeout=20 * MINUTE)))
    assert not fate.promise.learnt
    assert fate.promise.starts_p90 == NOW + 20 * MINUTE


def test_room_on_a_usable_node_is_there_now() -> None:
    (fate,) = fates_of(facts(a_state(a_node("n1")), waiting=[a_pod()]))
    assert fate.promise.starts_p90 == NOW


BY_ELEVEN = Promise(starts_p50=NOW + 5 * MINUTE, starts_p90=NOW + 11 * MINUTE, learnt=True)


@pytest.mark.parametrize(
    ("minutes", "moved"), [(11, False), (13, False), (14, True), (9, False), (8, True)], ids=lambda value: str(value)
)
def test_people_hear_of_a_promise_that_moved_by_more_than_two_minutes(minutes: int, moved: bool) -> None:
    assert replace(BY_ELEVEN, starts_p90=NOW + minutes * MINUTE).moved(NOW + 11 * MINUTE, NOW + 4 * MINUTE) is moved


def test_of_a_longer_wait_a_quarter_may_move_unheard() -> None:
    assert not BY_ELEVEN.moved(NOW + 14 * MINUTE, NOW - HOUR)
    assert BY_ELEVEN.moved(None, NOW)
    assert not Promise().moved(None, NOW)


@pytest.mark.parametrize(
    ("p50", "p90", "said"),
    [
        (4, 7, "starts in 4 to 7 min (by 12:07 UTC)"),
        (0.5, 0.9, "starts in 1 min (by 12:00 UTC)"),
        (0, 0, "starts in 1 min (by 12:00 UTC)"),
    ],
)
def test_the_promise_in_words(p50: float, p90: float, said: str) -> None:
    assert Promise(starts_p50=NOW + p50 * MINUTE, starts_p90=NOW + p90 * MINUTE, learnt=True).sentence(NOW) == said


def test_work_that_may_start_at_any_time_before_its_deadline_is_told_the_latest() -> None:
    assert Promise(starts_p90=NOW + 2 * HOUR).sentence(NOW) == "starts by 14:00 UTC at the latest"
