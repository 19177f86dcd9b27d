"""What Civo's count is believed to say after a change of ours, and what counts as somebody else's change."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Action, Victim, VictimStage
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import Backoff, Drift, LateCount, Node, PoolState
from receiver.core.scaling.waits import (
    after_growth,
    drift,
    expected_count,
    is_late,
    is_overdue,
    late_after,
    removals_stop,
    undone_by_others,
)
from tests.core.builders import MINUTE, NOW, a_growth, a_node, a_removal, a_state
from tests.core.worlds import LAWS

REMOVED = LateCount(expected=1, shown=3, since=NOW)  # three nodes, two of them removed
GROWN = LateCount(expected=3, shown=1, since=NOW)


# --- required, is_late, is_overdue ------------------------------------------------------------------------


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
    late: LateCount | None, shown: int, believed: int
) -> None:
    assert expected_count(late, shown, NOW) == believed


def test_after_a_quarter_of_an_hour_civo_is_believed() -> None:
    end = NOW + 15 * MINUTE
    assert not is_overdue(REMOVED, end)
    assert expected_count(REMOVED, 3, end) == 1
    assert expected_count(GROWN, 1, end) == 3
    after = end + timedelta(microseconds=1)
    assert is_overdue(REMOVED, after)
    assert expected_count(REMOVED, 3, after) == 3
    assert expected_count(GROWN, 1, after) == 1


@LAWS
@given(*(st.integers(0, 6) for _ in range(3)), st.integers(0, 20))
def test_what_is_believed_is_what_civo_shows_or_what_we_made_of_it(
    expected: int, before: int, shown: int, minutes: int
) -> None:
    late = LateCount(expected=expected, shown=before, since=NOW - minutes * MINUTE)
    believed = expected_count(late, shown, NOW)
    between = min(expected, before) <= shown <= max(expected, before)
    assert believed == (expected if between and minutes <= 15 else shown)
    assert not (is_late(late, shown) and shown == expected)


# --- removals_stop ----------------------------------------------------------------------------------------

TOMORROW = NOW + timedelta(hours=24)


def lives(*seen_after: float, created_after: float | None = None) -> list[Node]:
    """Living nodes, each first seen so many minutes after the removal, and created then or at *created_after*."""
    moments = [(NOW + m * MINUTE, NOW + (m if created_after is None else created_after) * MINUTE) for m in seen_after]
    return [a_node(f"n{n}", seen_since=seen, created_at=made) for n, (seen, made) in enumerate(moments, start=1)]


def stopped(late: LateCount | None, shown: int, living: Sequence[Node], minutes: float) -> Backoff | None:
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
def test_removals_go_on_when(late: LateCount | None, shown: int, living: Sequence[Node]) -> None:
    assert stopped(late, shown, living, 10) is None


def test_a_stop_ends_after_a_day_for_one_more_try() -> None:
    assert stopped(REMOVED, 3, lives(-60, 1), 24 * 60 - 1) is not None
    assert stopped(REMOVED, 3, lives(-60, 1), 24 * 60) is None


def test_a_stop_outlasts_our_own_growth() -> None:
    """Its new nodes are no replacements, and what Civo did not count is still uncounted beside them."""
    late = after_growth(REMOVED, a_growth(5, 3))
    assert late == LateCount(expected=3, shown=5, since=NOW)
    assert stopped(late, 5, lives(-60, 1, 5, 5), 10) is not None  # one that was left, the replacement, two bought
    assert stopped(late, 5, lives(-60, 5, 5), 10) is None  # the replacement is gone


@pytest.mark.parametrize("late", [None, GROWN])
def test_growth_covers_an_earlier_one_that_does_not_show(late: LateCount | None) -> None:
    assert after_growth(late, a_growth(5, 2)) is None


# --- late_after -------------------------------------------------------------------------------------------


def removed(*stages: VictimStage, from_count: int = 3) -> Action:
    """A removal of as many nodes, each of which got as far as its stage says."""
    victims = tuple(Victim(instance=f"i-{n}", node=f"n{n}", stage=stage) for n, stage in enumerate(stages))
    return a_removal(from_count=from_count, to_count=from_count - len(victims), victims=victims)


def shows(count: int, *, uncounted: int = 0) -> PoolState:
    """Civo shows *count*, of which *uncounted* were removed before."""
    return PoolState(pool="l40s-id", required=count - uncounted, uncounted=uncounted)


def test_a_removal_that_civo_does_not_count_yet_is_late() -> None:
    late = late_after(removed(VictimStage.GONE, VictimStage.DELETED), shows(3), NOW)
    assert late == LateCount(expected=1, shown=3, since=NOW)


def test_what_was_spared_is_still_expected() -> None:
    late = late_after(removed(VictimStage.GONE, VictimStage.SPARED), shows(3), NOW)
    assert late == LateCount(expected=2, shown=3, since=NOW)


def test_a_second_removal_adds_to_one_that_is_late() -> None:
    late = late_after(removed(VictimStage.GONE, from_count=2), shows(3, uncounted=1), NOW)
    assert late == LateCount(expected=1, shown=3, since=NOW)


@pytest.mark.parametrize(("minutes", "since"), [(3, NOW - 3 * MINUTE), (16, NOW)], ids=["lately", "long ago"])
def test_a_count_is_late_since_its_last_delete(minutes: int, since: datetime) -> None:
    """After a longer pause it gets its quarter of an hour from now on."""
    action = removed(VictimStage.DELETED)
    action = replace(action, victims=tuple(replace(v, since=NOW - minutes * MINUTE) for v in action.victims))
    late = late_after(action, shows(3), NOW)
    assert late is not None
    assert late.since == since


def test_what_civo_still_lists_is_not_removed() -> None:
    state = a_state(a_node("n0", instance="i-0"), required=3)
    late = late_after(removed(VictimStage.DELETED, VictimStage.GONE), state, NOW)
    assert late == LateCount(expected=2, shown=3, since=NOW)


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
