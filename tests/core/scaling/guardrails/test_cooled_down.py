"""cooled_down: a pool that has just changed is left alone for its cooldown, per direction."""

import pytest

from tests.core.builders import (
    EVERY_SECOND,
    MINUTE,
    NOW,
    SECOND,
    a_node,
    a_policy,
    a_state,
    an_override,
    decision_on,
    growing,
    remedies,
    shrinking,
)
from tests.core.scaling.guardrails.cases import AN_INSTANT, IDLE, cut, held

BY_THE_SECOND = a_policy(billing=EVERY_SECOND)
GROWN = a_state(last_grow_at=NOW - 10 * SECOND)
SHRUNK = a_state(IDLE, last_shrink_at=NOW - 4 * MINUTE)


def test_growth_waits_for_its_cooldown_and_is_decided_again_at_its_very_second() -> None:
    decision, end = growing(state=GROWN), NOW + 20 * SECOND
    said = held(decision, "cooled_down")
    assert said.detail == "cooldown.grow until 12:00:20 UTC"
    assert said.until == decision.reconsider_at == end
    assert remedies(decision, "cooled_down") == {"wait until the cooldown ends at 2026-11-20 12:00:20 UTC": end}
    assert growing(state=GROWN, at=end - AN_INSTANT).target == 0
    assert growing(state=GROWN, at=end).target == 1


def test_where_seconds_are_billed_removal_waits_for_its_cooldown() -> None:
    said = held(shrinking(BY_THE_SECOND, SHRUNK), "cooled_down")
    assert (said.detail, said.until) == ("cooldown.shrink until 12:01:00 UTC", NOW + MINUTE)
    assert shrinking(BY_THE_SECOND, SHRUNK, at=NOW + MINUTE).target == 0


def test_where_hours_are_billed_removal_has_none() -> None:
    assert shrinking(state=SHRUNK).target == 0


def test_each_direction_has_its_own() -> None:
    assert growing(BY_THE_SECOND, a_state(last_shrink_at=NOW)).target == 1
    assert shrinking(BY_THE_SECOND, a_state(IDLE, last_grow_at=NOW)).target == 0


@pytest.mark.parametrize("kind", ["pin", "floor"])
def test_growth_to_what_a_person_asked_for_does_not_wait(kind: str) -> None:
    assert decision_on(GROWN, overrides=(an_override(kind, 2),)).target == 2


def test_growth_beyond_it_does() -> None:
    decision = growing(state=GROWN, pods=3, overrides=(an_override("floor", 1),))
    assert (decision.target, cut(decision, "cooled_down").until) == (1, NOW + 20 * SECOND)


def test_a_removal_down_to_a_ceiling_does_not_wait_and_one_below_it_does() -> None:
    state = a_state(*(a_node(f"n{n}") for n in range(3)), last_shrink_at=NOW - 5 * SECOND)
    for most in (1, 2):
        assert decision_on(state, BY_THE_SECOND, overrides=(an_override("ceiling", most),)).target == most
    held(decision_on(state, BY_THE_SECOND), "cooled_down")
