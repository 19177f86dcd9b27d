"""spend_is_known: while the spend of a budget is unknown, nothing is bought under it."""

from decimal import Decimal

from receiver.core.model.model import Spend
from receiver.core.model.policy import Budget
from tests.core.builders import a_policy, growing, outcome, remedies, shrinking

POLICY = a_policy(budget=Budget(monthly_usd=Decimal(100)))
UNKNOWN = Spend(month="2026-11", usd=Decimal(0), unknown="Civo's charges do not answer")


def test_growth_waits_until_the_spend_of_the_month_is_known() -> None:
    held = growing(POLICY, spend=UNKNOWN)
    assert outcome(held) == ("spend_is_known", 0)
    assert "Civo's charges do not answer" in held.deciding.detail


def test_a_known_spend_lets_a_pool_grow() -> None:
    assert outcome(growing(POLICY, spend=Spend(month="2026-11", usd=Decimal(0)))) == ("demand", 1)


def test_removal_does_not_wait_for_the_spend() -> None:
    assert outcome(shrinking(POLICY, spend=UNKNOWN)) == ("idle_nodes", -1)


def test_the_remedy_is_to_read_the_months_charges() -> None:
    said = [text for text, _ in remedies(growing(POLICY, spend=UNKNOWN), "spend_is_known")]
    assert any("Civo's charges of the month, once they can be read" in text for text in said)
