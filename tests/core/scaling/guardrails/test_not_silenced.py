"""not_silenced: a silence in Alertmanager that names the pool pauses it."""

from decimal import Decimal

from receiver.core.model.model import Spend
from receiver.core.model.policy import Budget
from tests.core.builders import a_policy, a_silence, a_state, growing, outcome, remedies, shrinking

SILENCED = a_silence()


def test_a_silence_pauses_growth_until_it_ends() -> None:
    held = growing(state=a_state(silence=SILENCED))
    assert outcome(held) == ("not_silenced", 0)
    assert held.deciding.until == SILENCED.until


def test_a_silence_pauses_removal_too() -> None:
    assert outcome(shrinking(state={"silence": SILENCED})) == ("not_silenced", 0)


def test_at_the_stop_of_a_budget_empty_nodes_go_all_the_same() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100)))
    spent = Spend(month="2026-11", usd=Decimal(100))
    assert outcome(shrinking(policy, state={"silence": SILENCED}, spend=spent))[1] == -1


def test_the_remedy_is_the_end_of_the_silence() -> None:
    found = remedies(growing(state=a_state(silence=SILENCED)), "not_silenced")
    assert any("the end of the silence of" in text and at == SILENCED.until for text, at in found)
