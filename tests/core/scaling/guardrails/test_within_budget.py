"""within_budget: every budget covers what is spent, the next paid unit of each node, and the new nodes' first."""

from datetime import datetime
from decimal import Decimal

import pytest

from receiver.core.model.actions import Decision
from receiver.core.model.model import Spend
from receiver.core.model.policy import Budget
from tests.core.builders import NOW, a_policy, a_state, growing, outcome, remedies, rules, shrinking


def under(monthly: str, spent: str, pods: int = 1, hold_at: str = "1") -> Decision:
    """The decision on a pool of USD 1.29 an hour under a budget of *monthly* USD, of which *spent* are spent."""
    policy = a_policy(budget=Budget(monthly_usd=Decimal(monthly), hold_at=Decimal(hold_at)))
    return growing(policy, pods=pods, spend=Spend(month="2026-11", usd=Decimal(spent)))


@pytest.mark.parametrize(
    ("monthly", "spent", "expected"),
    [
        pytest.param("100", "0", ("demand", 1), id="nothing is spent"),
        pytest.param("100", "98.71", ("demand", 1), id="the first hour fits to the cent"),
        pytest.param("100", "98.72", ("within_budget", 0), id="a cent more does not"),
        pytest.param("1", "0", ("within_budget", 0), id="the first hour is more than the budget"),
    ],
)
def test_a_node_is_bought_if_its_first_hour_fits(monthly: str, spent: str, expected: tuple[str, int]) -> None:
    assert outcome(under(monthly, spent)) == expected


@pytest.mark.parametrize(("spent", "expected"), [("79.99", ("demand", 1)), ("80", ("within_budget", 0))])
def test_nothing_is_bought_from_the_hold_on(spent: str, expected: tuple[str, int]) -> None:
    assert outcome(under("100", spent, hold_at="0.8")) == expected


def test_it_leaves_the_nodes_that_fit() -> None:
    decision = under("100", "97", pods=5)
    assert decision.target == 2  # USD 2.58 of the 3.00 that are left
    assert rules(decision, "limits") == ["within_budget"]


def test_without_a_budget_it_says_nothing() -> None:
    assert outcome(growing(a_policy(), spend=Spend(month="2026-11", usd=Decimal(10**6)))) == ("demand", 1)


def test_removal_is_none_of_its_business() -> None:
    spent = Spend(month="2026-11", usd=Decimal(90))
    assert outcome(shrinking(a_policy(budget=Budget(monthly_usd=Decimal(100))), spend=spent)) == ("idle_nodes", -1)


def test_the_remedy_is_the_missing_amount_or_the_next_month() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100)))
    held = growing(policy, a_state(), spend=Spend(month="2026-11", usd=Decimal(95)))
    found = remedies(held, "within_budget")
    assert any("cluster budget: raise it by at least USD 18.76 for this month" in text for text, _ in found)
    assert datetime(2026, 12, 1, tzinfo=NOW.tzinfo) in [at for _, at in found]
