"""not_paused: a person's pause stops every change."""

from receiver.core.model.overrides import OverrideKind
from tests.core.builders import HOUR, NOW, an_override, growing, outcome, remedies, shrinking

PAUSE = (an_override(OverrideKind.PAUSE),)


def test_a_pause_stops_growth_until_it_ends() -> None:
    held = growing(overrides=PAUSE)
    assert outcome(held) == ("not_paused", 0)
    assert held.deciding.until == NOW + HOUR


def test_a_pause_stops_removal() -> None:
    assert outcome(shrinking(overrides=PAUSE)) == ("not_paused", 0)


def test_a_pause_that_has_ended_stops_nothing() -> None:
    over = (an_override(OverrideKind.PAUSE, at=NOW - 2 * HOUR, until=NOW),)
    assert outcome(growing(overrides=over)) == ("demand", 1)


def test_a_pause_of_another_pool_stops_nothing_here() -> None:
    assert outcome(growing(overrides=(an_override(OverrideKind.PAUSE, pool="other-id"),))) == ("demand", 1)


def test_the_remedy_is_the_end_of_the_pause() -> None:
    found = remedies(growing(overrides=PAUSE), "not_paused")
    assert any("the end of the pause of alice at 2026-11-20 13:00:00 UTC" in t and at == NOW + HOUR for t, at in found)
