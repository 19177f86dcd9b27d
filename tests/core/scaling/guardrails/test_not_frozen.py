"""not_frozen: a firing alert with action freeze stops every change of its pool."""

from receiver.core.model.signals import SignalAction
from tests.core.builders import a_signal, growing, outcome, remedies, shrinking

FREEZE = (a_signal(SignalAction.FREEZE),)


def test_a_freeze_stops_growth() -> None:
    assert outcome(growing(signals=FREEZE)) == ("not_frozen", 0)


def test_a_freeze_stops_removal() -> None:
    assert outcome(shrinking(signals=FREEZE)) == ("not_frozen", 0)


def test_a_freeze_without_a_pool_stops_every_pool() -> None:
    assert outcome(growing(signals=(a_signal(SignalAction.FREEZE, None),))) == ("not_frozen", 0)


def test_a_freeze_of_another_pool_stops_nothing_here() -> None:
    other = (a_signal(SignalAction.FREEZE, "other-id"),)
    assert outcome(growing(signals=other)) == ("demand", 1)
    assert outcome(shrinking(signals=other)) == ("idle_nodes", -1)


def test_the_remedy_is_the_end_of_the_alert() -> None:
    [(text, at)] = remedies(growing(signals=FREEZE), "not_frozen")
    assert "the end of Gpu-freeze (f-freeze), firing since 2026-11-20 12:00:00 UTC" in text
    assert at is None
