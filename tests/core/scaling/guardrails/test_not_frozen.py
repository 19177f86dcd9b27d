"""not_frozen: a firing alert with action freeze stops every change."""

import pytest

from receiver.core.model.signals import Signal, SignalAction
from tests.core.builders import a_signal, growing, remedies, shrinking
from tests.core.scaling.guardrails.cases import held


@pytest.mark.parametrize("pool", ["l40s-id", None], ids=["of the pool", "of every pool"])
def test_a_freeze_stops_growth_and_removal_until_its_alert_ends(pool: str | None) -> None:
    freeze = (a_signal(SignalAction.FREEZE, pool),)
    for decision in (growing(signals=freeze), shrinking(signals=freeze)):
        said = held(decision, "not_frozen")
        assert (said.detail, said.until) == ("alert Gpu-freeze is firing (action: freeze)", None)
        assert remedies(decision, "not_frozen") == {
            (
                "wait until alert Gpu-freeze resolves (firing since 2026-11-20"
                " 12:00:00 UTC), or silence it in Alertmanager"
            ): None
        }


@pytest.mark.parametrize(
    "signal",
    [a_signal(SignalAction.FREEZE, "other-id"), a_signal(SignalAction.HOLD)],
    ids=["a freeze of another pool", "an alert with another action"],
)
def test_nothing_else_stops_them(signal: Signal) -> None:
    assert (growing(signals=(signal,)).target, shrinking(signals=(signal,)).target) == (1, 0)
