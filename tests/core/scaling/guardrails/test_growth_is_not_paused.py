"""growth_is_not_paused: a firing alert with action pause_scale_up stops growth."""

import pytest

from receiver.core.model.signals import SignalAction
from tests.core.builders import a_signal, growing, remedies, shrinking
from tests.core.scaling.guardrails.cases import held


@pytest.mark.parametrize("pool", ["l40s-id", None], ids=["of the pool", "of every pool"])
def test_growth_stops_until_the_alert_ends(pool: str | None) -> None:
    decision = growing(signals=(a_signal(SignalAction.PAUSE_SCALE_UP, pool),))
    said = held(decision, "growth_is_not_paused")
    assert (said.detail, said.until) == ("alert Gpu-pause_scale_up is firing (action: pause_scale_up)", None)
    end = (
        "wait until alert Gpu-pause_scale_up resolves (firing since 2026-11-20 12:00:00 UTC),"
        " or silence it in Alertmanager"
    )
    assert remedies(decision, "growth_is_not_paused") == {end: None}


def test_a_pause_of_growth_does_not_stop_removal() -> None:
    assert shrinking(signals=(a_signal(SignalAction.PAUSE_SCALE_UP),)).target == 0


def test_one_of_another_pool_stops_nothing() -> None:
    assert growing(signals=(a_signal(SignalAction.PAUSE_SCALE_UP, "other-id"),)).target == 1
