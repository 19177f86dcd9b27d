"""removal_is_not_snoozed: a person's snooze keeps every node that is not dead."""

from receiver.core.model.overrides import OverrideKind
from tests.core.builders import HOUR, NOW, an_override, growing, outcome, remedies, shrinking

SNOOZE = (an_override(OverrideKind.SNOOZE),)


def test_a_snooze_keeps_idle_nodes_until_it_ends() -> None:
    held = shrinking(overrides=SNOOZE)
    assert outcome(held) == ("removal_is_not_snoozed", 0)
    assert held.deciding.until == NOW + HOUR


def test_a_snooze_does_not_stop_growth() -> None:
    assert outcome(growing(overrides=SNOOZE)) == ("demand", 1)


def test_a_snooze_that_has_ended_keeps_nothing() -> None:
    over = (an_override(OverrideKind.SNOOZE, at=NOW - 2 * HOUR, until=NOW),)
    assert outcome(shrinking(overrides=over)) == ("idle_nodes", -1)


def test_the_remedy_is_the_end_of_the_snooze() -> None:
    found = remedies(shrinking(overrides=SNOOZE), "removal_is_not_snoozed")
    assert any("the end of the snooze of alice" in text and at == NOW + HOUR for text, at in found)
