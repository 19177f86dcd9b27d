"""growth_is_not_paused: a firing alert with action pause_scale_up stops growth."""

from receiver.core.model.signals import SignalAction
from tests.core.builders import a_signal, growing, outcome, remedies, shrinking

PAUSED = (a_signal(SignalAction.PAUSE_SCALE_UP),)


def test_an_alert_of_the_pool_stops_its_growth() -> None:
    assert outcome(growing(signals=PAUSED)) == ("growth_is_not_paused", 0)


def test_an_alert_without_a_pool_stops_the_growth_of_each() -> None:
    assert outcome(growing(signals=(a_signal(SignalAction.PAUSE_SCALE_UP, None),))) == ("growth_is_not_paused", 0)


def test_an_alert_of_another_pool_stops_nothing_here() -> None:
    assert outcome(growing(signals=(a_signal(SignalAction.PAUSE_SCALE_UP, "other-id"),))) == ("demand", 1)


def test_removal_goes_on() -> None:
    assert outcome(shrinking(signals=PAUSED)) == ("idle_nodes", -1)


def test_the_remedy_is_the_end_of_the_alert() -> None:
    [(text, _)] = remedies(growing(signals=PAUSED), "growth_is_not_paused")
    assert "the end of Gpu-pause_scale_up" in text
