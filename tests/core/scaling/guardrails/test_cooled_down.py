"""cooled_down: a pool that has just changed is left alone for its cooldown, per direction."""

from datetime import timedelta

import pytest

from receiver.core.model.overrides import OverrideKind
from tests.core.builders import (
    EVERY_SECOND,
    NOW,
    a_policy,
    a_state,
    an_override,
    growing,
    outcome,
    remedies,
    shrinking,
)

BY_THE_SECOND = a_policy(billing=EVERY_SECOND)


@pytest.mark.parametrize(("seconds", "expected"), [(29, ("cooled_down", 0)), (30, ("demand", 1))])
def test_growth_waits_for_the_cooldown_and_goes_on_at_its_very_second(seconds: int, expected: tuple[str, int]) -> None:
    decision = growing(state=a_state(last_grow_at=NOW - timedelta(seconds=seconds)))
    assert outcome(decision) == expected
    assert decision.reconsider_at == (NOW + timedelta(seconds=1) if seconds == 29 else None)


def test_where_seconds_are_billed_removal_waits_for_its_cooldown() -> None:
    held = shrinking(BY_THE_SECOND, state={"last_shrink_at": NOW - timedelta(minutes=4)})
    assert outcome(held) == ("cooled_down", 0)
    assert outcome(shrinking(BY_THE_SECOND, state={"last_shrink_at": NOW - timedelta(minutes=5)})) == ("idle_nodes", -1)


def test_where_hours_are_billed_removal_does_not_wait() -> None:
    assert outcome(shrinking(state={"last_shrink_at": NOW})) == ("idle_nodes", -1)


def test_growth_of_a_moment_ago_does_not_stop_removal() -> None:
    assert outcome(shrinking(state={"last_grow_at": NOW})) == ("idle_nodes", -1)


def test_a_floor_that_a_person_set_does_not_wait() -> None:
    floor = (an_override(OverrideKind.FLOOR, 2),)
    assert growing(state=a_state(last_grow_at=NOW), overrides=floor).target == 2


def test_the_remedy_is_the_end_of_the_cooldown() -> None:
    ends = NOW + timedelta(seconds=20)
    found = remedies(growing(state=a_state(last_grow_at=NOW - timedelta(seconds=10))), "cooled_down")
    assert any("the end of the cooldown at 2026-11-20 12:00:20 UTC" in text and at == ends for text, at in found)
