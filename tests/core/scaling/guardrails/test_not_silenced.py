"""not_silenced: a silence in Alertmanager that names the pool pauses it."""

from decimal import Decimal

from receiver.core.model.model import Spend
from receiver.core.model.policy import Budget
from tests.core.builders import HOUR, NOW, a_policy, a_silence, a_state, growing, remedies, shrinking
from tests.core.scaling.guardrails.cases import IDLE, held


def test_a_silence_pauses_growth_until_it_ends_and_the_reason_says_whose_it_is() -> None:
    decision, end = growing(state=a_state(silence=a_silence())), NOW + 2 * HOUR
    said = held(decision, "not_silenced")
    assert said.detail == "silenced in Alertmanager by ops until 2026-11-20 14:00 UTC: new driver"
    assert said.until == decision.reconsider_at == end
    assert remedies(decision, "not_silenced") == {
        "wait until the silence of ops ends at 2026-11-20 14:00:00 UTC": end,
        "expire the silence: amtool silence expire s-1": None,
    }
    assert growing().target == 1


def test_a_silence_pauses_removal_too() -> None:
    assert held(shrinking(state=a_state(IDLE, silence=a_silence())), "not_silenced").until == NOW + 2 * HOUR
    assert shrinking().target == 0


def test_at_the_stop_of_a_budget_empty_nodes_go_all_the_same() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100)))
    silenced = a_state(IDLE, silence=a_silence())
    assert shrinking(policy, silenced, spend=Spend(month="2026-11", usd=Decimal(100))).target == 0
