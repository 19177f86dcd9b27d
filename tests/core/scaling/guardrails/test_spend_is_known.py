"""spend_is_known: while the spend of a budget is unknown, nothing is bought under it."""

from dataclasses import replace
from decimal import Decimal

from receiver.core.model.model import Spend
from receiver.core.model.policy import Budget
from tests.core.builders import a_pod, a_policy, a_state, decision_on, growing, remedies, shrinking
from tests.core.scaling.guardrails.cases import cut, held

UNKNOWN = Spend(month="2026-11", usd=Decimal(0), unknown="Civo's charges cannot be read")
BUDGET = a_policy(budget=Budget(monthly_usd=Decimal(1000)))


def test_nothing_is_bought_while_the_months_spend_is_unknown_and_the_reason_says_why() -> None:
    decision = growing(BUDGET, spend=UNKNOWN)
    said = held(decision, "spend_is_known")
    assert said.detail == (
        "the cost of the month before this store existed is unknown: Civo's charges cannot be read; "
        "budget.spent_usd_stated can state it"
    )
    assert said.until is None  # when Civo's charges can be read again is not known
    assert remedies(decision, "spend_is_known") == {
        "wait until Civo's charges of the month can be read, or set budget.spent_usd_stated": None
    }


def test_growth_under_an_account_waits_for_the_accounts_charges() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(1000), account_usd=Decimal(1000)))
    decision = growing(policy, spend=replace(UNKNOWN, unknown="", account=None))
    unread = "Civo's charges have not been read yet"
    assert held(decision, "spend_is_known").detail == f"account budget: the spend is not known: {unread}"
    assert remedies(decision, "spend_is_known") == {
        f"wait until the spend of the account budget is known again: {unread}": None
    }
    assert growing(policy, spend=replace(UNKNOWN, unknown="", account=Decimal(0))).target == 1


def test_where_a_known_budget_refuses_other_work_within_budget_speaks_for_both() -> None:
    teams, production = {"research": Decimal(10)}, frozenset({"production"})
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), teams=teams, passing=production))
    waiting = [a_pod("a", labels={"team": "research"}, priority_class="production"), a_pod("b")]
    decision = decision_on(a_state(), policy, waiting=waiting, spend=Spend(month="2026-11", usd=Decimal(80)))
    said = held(decision, "within_budget").detail
    assert "cluster budget hold at 80%" in said
    assert "budget of team research: the spend is not known" in said


def test_other_work_is_bought_for_while_the_spend_of_a_team_is_unknown() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), teams={"research": Decimal(10)}))
    waiting = [a_pod("a", labels={"team": "research"}), a_pod("b")]
    decision = decision_on(a_state(), policy, waiting=waiting)
    assert decision.target == 1
    assert "budget of team research: the spend is not known" in cut(decision, "within_budget").detail


def test_a_known_spend_lets_the_pool_grow_and_an_unknown_one_lets_it_shrink() -> None:
    assert growing(BUDGET).target == 1
    assert shrinking(BUDGET, spend=UNKNOWN).target == 0
