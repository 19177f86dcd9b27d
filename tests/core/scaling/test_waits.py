"""What holds a pool for a while, per direction, with the moment at which its guardrail lets go.

Civo's count after a change of ours, counts that others change, and fewer nodes asked for after a refusal for lack of
stock. Dead nodes have their own file, `test_waits_of_dead_nodes.py`.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.model.actions import Action, Decision, Outcome, OutcomeKind, Victim, VictimStage
from receiver.core.model.flights import Flight, expected_count, late_after
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import Backoff, CivoCount, Drift, Node, PoolState
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Policy
from receiver.core.scaling.waits import (
    REFUSAL_LASTS,
    Direction,
    Wait,
    WaitKind,
    drift,
    refused_counts,
    removals_stop,
    smaller_request,
    undone_by_others,
    waits,
)
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_flight,
    a_growth,
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
from tests.core.small_worlds import small_worlds
from tests.core.worlds import LAWS, World, decided, worlds

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


REMOVED = a_flight(1, 3)  # three nodes, two of them removed
GROWN = a_flight(3, 1)


# --- expected_count ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late", "shown", "believed"),
    [
        pytest.param(REMOVED, 3, 1, id="a removal that does not show at all"),
        pytest.param(REMOVED, 2, 1, id="a removal that shows in part"),
        pytest.param(REMOVED, 1, 1, id="a removal that shows"),
        pytest.param(REMOVED, 0, 0, id="fewer than were left: somebody lowered it"),
        pytest.param(REMOVED, 4, 4, id="more than there were: somebody raised it"),
        pytest.param(GROWN, 1, 3, id="a growth that does not show at all"),
        pytest.param(GROWN, 2, 3, id="a growth that shows in part"),
        pytest.param(GROWN, 3, 3, id="a growth that shows"),
        pytest.param(GROWN, 4, 4, id="more than was asked for: somebody raised it"),
        pytest.param(GROWN, 0, 0, id="fewer than before the growth: somebody lowered it"),
        pytest.param(None, 2, 2, id="no change of ours"),
    ],
)
def test_our_own_change_is_believed_until_civo_shows_anything_else(
    late: Flight | None, shown: int, believed: int
) -> None:
    assert expected_count(late, shown, NOW) == believed


def test_after_a_quarter_of_an_hour_civo_is_believed() -> None:
    end = NOW + 15 * MINUTE
    assert not REMOVED.is_overdue(end)
    assert expected_count(REMOVED, 3, end) == 1
    assert expected_count(GROWN, 1, end) == 3
    after = end + timedelta(microseconds=1)
    assert REMOVED.is_overdue(after)
    assert expected_count(REMOVED, 3, after) == 3
    assert expected_count(GROWN, 1, after) == 1


@LAWS
@given(*(st.integers(0, 6) for _ in range(3)), st.integers(0, 20))
def test_what_is_believed_is_what_civo_shows_or_what_we_made_of_it(
    expected: int, before: int, shown: int, minutes: int
) -> None:
    late = a_flight(expected, before, NOW - minutes * MINUTE)
    believed = expected_count(late, shown, NOW)
    between = min(expected, before) <= shown <= max(expected, before)
    assert believed == (expected if between and minutes <= 15 else shown)
    assert not (late.explains(shown) and shown == expected)


# --- removals_stop ----------------------------------------------------------------------------------------

TOMORROW = NOW + timedelta(hours=24)


def lives(*seen_after: float, created_after: float | None = None) -> list[Node]:
    """Living nodes, each first seen so many minutes after the removal, and created then or at *created_after*."""
    moments = [(NOW + m * MINUTE, NOW + (m if created_after is None else created_after) * MINUTE) for m in seen_after]
    return [a_node(f"n{n}", seen_since=seen, created_at=made) for n, (seen, made) in enumerate(moments, start=1)]


def stopped(late: Flight | None, shown: int, living: Sequence[Node], minutes: float) -> Backoff | None:
    return removals_stop(late, shown, living, NOW + minutes * MINUTE)


def test_a_removal_that_shows_late_stops_nothing_for_a_quarter_of_an_hour() -> None:
    assert stopped(REMOVED, 3, lives(-60), 15) is None


def test_a_count_that_does_not_fall_stops_removals_for_a_day_after_the_removal() -> None:
    stop = stopped(REMOVED, 3, lives(-60), 15.1)
    assert stop == Backoff(
        failures=1, until=TOMORROW, reason="the count of 3 did not fall to 1 within 15 minutes of a removal"
    )


def test_a_node_that_civo_builds_in_the_place_of_a_removed_one_stops_removals_at_once() -> None:
    stop = stopped(REMOVED, 3, lives(-60, 0.5), 1)
    assert stop == Backoff(failures=1, until=TOMORROW, reason="Civo replaced a removed node: n2 came after its removal")


@pytest.mark.parametrize(
    ("late", "shown", "living"),
    [
        pytest.param(None, 3, lives(-60, 1), id="nothing was removed"),
        pytest.param(REMOVED, 1, lives(-60, 1), id="the count fell"),
        pytest.param(REMOVED, 4, lives(-60, 1), id="another system raised it"),
        pytest.param(GROWN, 1, lives(-60, 1), id="a growth that does not show"),
        pytest.param(REMOVED, 3, lives(-60, -50), id="a node that was there before, such as one that a person kept"),
        pytest.param(REMOVED, 3, lives(-60, 1, created_after=-5), id="a node of our earlier growth, listed late"),
        pytest.param(REMOVED, 3, lives(1), id="as many nodes as were left, one of them new"),
        pytest.param(REMOVED, 3, lives(-60), id="the replacement is gone again"),
    ],
)
def test_removals_go_on_when(late: Flight | None, shown: int, living: Sequence[Node]) -> None:
    assert stopped(late, shown, living, 10) is None


def test_a_stop_ends_after_a_day_for_one_more_try() -> None:
    assert stopped(REMOVED, 3, lives(-60, 1), 24 * 60 - 1) is not None
    assert stopped(REMOVED, 3, lives(-60, 1), 24 * 60) is None


def test_a_stop_outlasts_our_own_growth() -> None:
    """Its new nodes are no replacements, and what Civo did not count is still uncounted beside them."""
    late = REMOVED.beside(a_growth(5, 3))
    assert late == a_flight(3, 5)
    assert stopped(late, 5, lives(-60, 1, 5, 5), 10) is not None  # one that was left, the replacement, two bought
    assert stopped(late, 5, lives(-60, 5, 5), 10) is None  # the replacement is gone


def test_growth_covers_an_earlier_one_that_does_not_show() -> None:
    assert GROWN.beside(a_growth(5, 2)) is None


# --- late_after -------------------------------------------------------------------------------------------


def removed(*stages: VictimStage, from_count: int = 3) -> Action:
    """A removal of as many nodes, each of which got as far as its stage says."""
    victims = tuple(Victim(instance=f"i-{n}", node=f"n{n}", stage=stage) for n, stage in enumerate(stages))
    return a_removal(from_count=from_count, to_count=from_count - len(victims), victims=victims)


def shows(count: int, *, uncounted: int = 0) -> PoolState:
    """Civo shows *count*, of which *uncounted* were removed before."""
    return PoolState(pool="l40s-id", required=count - uncounted, count=CivoCount(uncounted=uncounted))


def test_a_removal_that_civo_does_not_count_yet_is_late() -> None:
    late = late_after(removed(VictimStage.GONE, VictimStage.DELETED), shows(3), NOW)
    assert late == a_flight(1, 3)


def test_what_was_spared_is_still_expected() -> None:
    late = late_after(removed(VictimStage.GONE, VictimStage.SPARED), shows(3), NOW)
    assert late == a_flight(2, 3)


def test_a_second_removal_adds_to_one_that_is_late() -> None:
    late = late_after(removed(VictimStage.GONE, from_count=2), shows(3, uncounted=1), NOW)
    assert late == a_flight(1, 3)


@pytest.mark.parametrize(("minutes", "since"), [(3, NOW - 3 * MINUTE), (16, NOW)], ids=["lately", "long ago"])
def test_a_count_is_late_since_its_last_delete(minutes: int, since: datetime) -> None:
    """After a longer pause it gets its quarter of an hour from now on."""
    action = removed(VictimStage.DELETED)
    action = replace(action, victims=tuple(replace(v, since=NOW - minutes * MINUTE) for v in action.victims))
    late = late_after(action, shows(3), NOW)
    assert late is not None
    assert late.sent_at == since


def test_what_civo_still_lists_is_not_removed() -> None:
    state = a_state(a_node("n0", instance="i-0"), required=3)
    late = late_after(removed(VictimStage.DELETED, VictimStage.GONE), state, NOW)
    assert late == a_flight(2, 3)


@pytest.mark.parametrize(
    ("action", "state"),
    [
        pytest.param(removed(VictimStage.GONE), shows(2), id="the count fell"),
        pytest.param(removed(VictimStage.GONE), shows(4), id="somebody raised it meanwhile"),
        pytest.param(removed(VictimStage.SPARED), shows(3), id="nothing was removed"),
        pytest.param(a_growth(3, 1), shows(3), id="it was a growth"),
    ],
)
def test_no_removal_is_late_when(action: Action, state: PoolState) -> None:
    assert late_after(action, state, NOW) is None


@pytest.mark.parametrize(("minutes", "late"), [(30, True), (31, False)])
def test_the_count_of_now_tells_nothing_of_a_removal_of_long_ago(minutes: int, late: bool) -> None:
    action = removed(VictimStage.DELETED)
    action = replace(action, victims=tuple(replace(v, since=NOW - minutes * MINUTE) for v in action.victims))
    assert (late_after(action, shows(3), NOW) is not None) is late


# --- drift ------------------------------------------------------------------------------------------------


def remembered(count: int = 2, **changes: object) -> PoolMemory:
    return PoolMemory(**{"required": count, "required_since": NOW - timedelta(days=1), **changes})  # type: ignore[arg-type] # changes by name


def ago(minutes: float) -> datetime:
    return NOW - minutes * MINUTE


@pytest.mark.parametrize(
    ("past", "shown"),
    [
        pytest.param(None, 5, id="the pool was never looked at"),
        pytest.param(PoolMemory(required=0), 5, id="its count was never read"),
        pytest.param(remembered(2), 2, id="it did not change"),
        pytest.param(remembered(3, late=REMOVED), 2, id="a late removal shows in part"),
        pytest.param(remembered(3, late=REMOVED), 1, id="a late removal shows"),
        pytest.param(remembered(1, late=GROWN), 3, id="a late growth shows"),
        pytest.param(remembered(1, open_action=a_growth(3, 1)), 3, id="an open growth shows"),
        pytest.param(remembered(1, open_action=a_growth(3, 1)), 2, id="an open growth shows in part"),
        pytest.param(remembered(3, open_action=removed(VictimStage.DELETED)), 2, id="an open removal shows"),
        pytest.param(remembered(3, last_shrink_at=ago(15)), 2, id="a removal shows fifteen minutes late"),
    ],
)
def test_nobody_else_changed_the_count_when(past: PoolMemory | None, shown: int) -> None:
    assert drift(past, shown, NOW) is None


@pytest.mark.parametrize(
    ("past", "shown"),
    [
        pytest.param(remembered(2), 3, id="it rose"),
        pytest.param(remembered(2), 1, id="it fell"),
        pytest.param(remembered(3, late=REMOVED), 0, id="it fell below what a late removal leaves"),
        pytest.param(remembered(1, late=GROWN), 4, id="it rose above what a late growth asked for"),
        pytest.param(remembered(1, open_action=a_growth(3, 1)), 4, id="it rose above what an open growth asks for"),
        pytest.param(remembered(1, open_action=a_growth(3, 1)), 0, id="it fell while a growth is open"),
        pytest.param(remembered(3, open_action=removed(VictimStage.DELETED)), 4, id="it rose while one is removed"),
        pytest.param(remembered(3, last_shrink_at=ago(15.1)), 2, id="it fell long after our last removal"),
        pytest.param(remembered(3, last_shrink_at=NOW + MINUTE), 2, id="our last removal lies in the future"),
    ],
)
def test_somebody_else_changed_the_count_when(past: PoolMemory, shown: int) -> None:
    found = drift(past, shown, NOW)
    assert found is not None
    assert (found.at, found.from_count, found.to_count) == (NOW, past.required, shown)


@pytest.mark.parametrize(
    ("past", "shown", "undoes"),
    [
        pytest.param(remembered(2, last_shrink_at=ago(60)), 3, True, id="raised within an hour of our removal"),
        pytest.param(remembered(2, last_shrink_at=ago(61)), 3, False, id="raised long after our removal"),
        pytest.param(remembered(2, last_grow_at=ago(1)), 3, False, id="raised after our growth"),
        pytest.param(remembered(2, last_grow_at=ago(60)), 1, True, id="lowered within an hour of our growth"),
        pytest.param(remembered(2, last_grow_at=ago(61)), 1, False, id="lowered long after our growth"),
        pytest.param(remembered(2, last_shrink_at=ago(30)), 1, False, id="lowered after our removal"),
        pytest.param(remembered(2), 3, False, id="we changed nothing"),
    ],
)
def test_a_change_undoes_ours_only_against_its_way_and_within_an_hour(
    past: PoolMemory, shown: int, undoes: bool
) -> None:
    found = drift(past, shown, NOW)
    assert found is not None
    assert found.undoes is undoes


# --- undone_by_others -------------------------------------------------------------------------------------


def lowered(hours: Sequence[float], *, undoes: bool = True, by: int = 1) -> PoolState:
    """Somebody lowered (or raised, where *by* is negative) the count so many *hours* ago."""
    seen = (Drift(at=NOW - timedelta(hours=h), from_count=2, to_count=2 - by, undoes=undoes) for h in hours)
    return a_state(a_node(), drifts=tuple(seen))


def test_after_the_third_time_they_have_their_way_for_a_day() -> None:
    state = lowered([3, 1, 2])
    assert undone_by_others(state, NOW, grows=True) == NOW + timedelta(hours=23)


def test_they_have_their_way_for_the_whole_day_although_the_first_time_is_longer_ago() -> None:
    assert undone_by_others(lowered([23, 40, 47]), NOW, grows=True) == NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(lowered([1, 2]), id="twice"),
        pytest.param(lowered([1, 2, 3], undoes=False), id="changes that undo nothing of ours"),
        pytest.param(lowered([1, 2, 3], by=-1), id="changes the other way"),
        pytest.param(lowered([24, 24.1, 24.2]), id="a day ago"),
        pytest.param(lowered([1, 2, 25.1]), id="three times, but not in a day"),
    ],
)
def test_growth_goes_on_after(state: PoolState) -> None:
    assert undone_by_others(state, NOW, grows=True) is None


def test_counts_that_are_raised_again_and_again_stop_removals() -> None:
    assert undone_by_others(lowered([1, 2, 3], by=-1), NOW, grows=False) == NOW + timedelta(hours=23)


@LAWS
@given(st.lists(st.tuples(st.integers(0, 48), st.booleans(), st.booleans()), max_size=6))
def test_three_undoings_of_one_kind_in_a_day_stop_that_kind_until_a_day_after_the_last(
    seen: list[tuple[int, bool, bool]],
) -> None:
    drifts = tuple(
        Drift(at=NOW - timedelta(hours=h), from_count=2, to_count=1 if fell else 3, undoes=undoes)
        for h, fell, undoes in seen
    )
    for grows in (True, False):
        hours = sorted(h for h, fell, undoes in seen if undoes and fell is grows)
        until = undone_by_others(a_state(drifts=drifts), NOW, grows=grows)
        assert (until is not None) is (len(hours) >= 3 and hours[0] < 24 and hours[2] - hours[0] <= 24)
        assert until is None or until == NOW + timedelta(hours=24 - hours[0])


NO_STOCK = "gpu_count_exceeded: Civo did not take the request"
HELD = Backoff(failures=1, until=NOW + timedelta(minutes=1), reason=NO_STOCK)
ROOMY = a_policy(a_pool(max_nodes=99))


def ended(
    action: Action, kind: OutcomeKind = OutcomeKind.FAILED, detail: str = NO_STOCK, at: datetime | None = None
) -> tuple[Action, Outcome]:
    """What became of it *at* that moment, or in the step that opened it."""
    return action, Outcome(kind=kind, at=at or action.opened_at, detail=detail)


@pytest.mark.parametrize(
    ("last", "refused"),
    [
        (ended(a_growth(3)), {"l40s-id": 3}),
        (ended(a_growth(3), detail="quota_limit_reached: no"), {"l40s-id": 3}),
        (ended(a_growth(3), detail="http_500: 6 times in a row: no"), {}),
        (ended(a_growth(3), OutcomeKind.WITHDRAWN), {}),
        (ended(a_growth(3, attempts=1)), {}),  # an earlier try may have arrived
        (ended(a_growth(3, opened_at=NOW - 9 * SECOND), at=NOW), {}),  # a crash
        (ended(a_growth(3, opened_at=NOW - REFUSAL_LASTS)), {}),
        (ended(a_growth(3, opened_at=NOW + SECOND)), {}),  # under a wrong clock
    ],
)
def test_a_refusal_counts_while_it_is_fresh_and_sure(last: tuple[Action, Outcome], refused: dict[str, int]) -> None:
    assert refused_counts([last], NOW) == refused


def test_the_lowest_count_since_the_last_growth_counts() -> None:
    five, three, four = (ended(a_growth(n)) for n in (5, 3, 4))
    assert refused_counts([five, three, four], NOW) == {"l40s-id": 3}
    assert refused_counts([five, three, ended(a_growth(2), OutcomeKind.CONFIRMED)], NOW) == {}


@pytest.mark.parametrize(
    ("present", "refused", "request_"),
    [(0, 1, None), (0, 2, (1, 1)), (0, 3, (2, 2)), (4, 12, (4, 7)), (2, 2, None), (5, 3, None)],
)
def test_half_of_what_was_refused_is_asked_for(present: int, refused: int, request_: tuple[int, int] | None) -> None:
    assert smaller_request(present, refused) == request_


def test_a_gang_that_does_not_fit_below_the_refused_count_names_it() -> None:
    state = a_state(refused=4, backoff=HELD)
    found = facts(state, waiting=[a_pod(f"r{n}", gang="ml/g") for n in range(4)])
    assignment, decisions = run(found, a_policy())
    assert decisions["l40s"].target == 0
    [held] = assignment.pools["l40s-id"].work.held
    assert held.rule == "gangs_whole"
    assert held.detail.endswith("Civo has just refused 4 nodes in all for pool l40s")


@LAWS
@given(worlds())
def test_no_pool_asks_for_as_many_as_were_just_refused(world: World) -> None:
    for _, state, decision in decided(world):
        refused, backoff = state.backoffs.refused, state.backoffs.growth
        if refused is not None and backoff is not None and backoff.holds(NOW, timedelta(hours=1)):
            assert decision.target < max(refused, state.required + 1)


@LAWS
@given(
    gangs=st.lists(st.integers(2, 9), max_size=4),
    singles=st.integers(0, 20),
    stock=st.integers(0, 20),
    gangs_first=st.booleans(),
)
def test_requests_end_soon_with_gangs_whole_and_half_of_the_stock_at_least(
    gangs: list[int], singles: int, stock: int, gangs_first: bool
) -> None:
    """Civo refuses each request of more than *stock* nodes."""
    sizes = [(f"g{n}", i) for n, size in enumerate(gangs) for i in range(size)]
    ranks = [a_pod(f"{gang}-{i}", gang=f"ml/{gang}", priority=gangs_first) for gang, i in sizes]
    waiting = [*ranks, *(a_pod(f"p{n}") for n in range(singles))]
    asked: list[int] = []
    while (request := _next_request(waiting, asked)).target > stock:
        assert request.target < min(asked, default=99)
        asked.append(request.target)
    most = len(waiting)
    assert len(asked) <= most.bit_length() + len(gangs) + 1
    assert request.target == 0 or request.target >= request.gangs
    if not gangs:
        assert 2 * request.target > min(stock, singles) or request.target == min(stock, singles)


class Request(NamedTuple):
    """A request for *target* nodes, on which gangs are to have so many."""

    target: int
    gangs: int


def _next_request(waiting: list[Pod], refused: list[int]) -> Request:
    """What is asked for after requests for *refused* nodes were refused."""
    state = a_state()
    if refused:
        state = replace(state, backoffs=replace(state.backoffs, refused=min(refused), growth=HELD))
    assignment, decisions = run(facts(state, waiting=waiting), ROOMY)
    asking = assignment.pools["l40s-id"].work.asking
    return Request(decisions["l40s"].target, sum(len(w.pods) for w in asking if w.gang))
