"""within_budget: what is spent, the next paid unit of what runs and the first of what is bought are covered."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from receiver.core.model.model import Spend
from receiver.core.model.policy import Budget, Policy
from tests.core.builders import (
    a_busy_node,
    a_growth,
    a_pod,
    a_policy,
    a_state,
    decision_on,
    growing,
    remedies,
    shrinking,
)
from tests.core.scaling.guardrails.cases import cut, held

DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)
NEXT_MONTH = "wait for the next month (2026-12-01 00:00:00 UTC)"


def budget(usd: str) -> Policy:
    return a_policy(budget=Budget(monthly_usd=Decimal(usd)))


def spent(usd: str) -> Spend:
    return Spend(month="2026-11", usd=Decimal(usd))


@pytest.mark.parametrize(
    ("monthly", "usd", "pods", "bought"),
    [
        pytest.param("100", "79.99", 3, 3, id="below the hold line"),
        pytest.param("100", "80", 3, 0, id="at the hold line of 80 percent"),
        pytest.param("1.29", "0", 1, 1, id="the first hour is just covered"),
        pytest.param("1.28", "0", 1, 0, id="the first hour is not covered"),
        pytest.param("4", "0", 5, 3, id="three first hours are covered"),
    ],
)
def test_a_pool_grows_as_far_as_the_budget_covers(monthly: str, usd: str, pods: int, bought: int) -> None:
    assert growing(budget(monthly), pods=pods, spend=spent(usd)).target == bought


def test_the_next_hour_of_every_running_node_is_reserved() -> None:
    two = a_state(a_busy_node("n1"), a_busy_node("n2"))
    assert growing(budget("10"), two, spend=spent("6.13")).target == 3  # 10 - 6.13 - 2 x 1.29 = 1.29
    held(growing(budget("10"), two, spend=spent("6.14")), "within_budget")


def test_at_the_hold_the_reason_says_what_was_spent_and_what_would_let_it_grow() -> None:
    decision = growing(budget("100"), spend=spent("80"))
    assert held(decision, "within_budget").detail == "cluster budget hold at 80%: $80.00 of $100.00 spent in 2026-11"
    command = "gpu-autoscaler budget set 100.01 --why REASON --who YOU"
    raised = f"raise the cluster budget by at least $0.01 to $100.01 ({command})"
    passing = (
        "give the work a priority class in budget.passing_priority_classes,"
        " for which nodes are bought up to the stop line"
    )
    assert remedies(decision, "within_budget") == {
        raised: None,
        f"cluster budget: {passing}": None,
        NEXT_MONTH: DECEMBER,
    }


def test_of_a_part_the_reason_says_what_is_left_and_how_much_more_all_of_it_takes() -> None:
    decision = growing(budget("4"), pods=5)
    left = "$0.00 of $4.00 spent in 2026-11 and $0.00 reserved; the $4.00 left is not enough"
    assert cut(decision, "within_budget").detail == f"cluster budget: {left}"
    raised = (
        "raise the cluster budget by at least $2.45 to $6.45 (gpu-autoscaler budget set 6.45 --why REASON --who YOU)"
    )
    assert remedies(decision, "within_budget") == {raised: None, NEXT_MONTH: DECEMBER}
    assert growing(budget("6.45"), pods=5).target == 5


def test_it_lets_go_when_the_month_ends() -> None:
    decision = growing(budget("100"), spend=spent("100"))
    assert held(decision, "within_budget").until == decision.reconsider_at == DECEMBER


def test_an_open_growth_is_covered_once_and_not_twice() -> None:
    state = a_state(open_action=a_growth(reserved_usd=Decimal("1.29")))
    assert growing(budget("2.00"), state).target == 1


def test_a_size_without_a_price_makes_the_spend_unknown_and_stops_growth() -> None:
    decision = growing(budget("1000"), spend=replace(spent("0"), unpriced=("an.g1.b200.kube.x8",)))
    assert (
        held(decision, "within_budget").detail
        == "cluster budget: the spend is unknown: no price for an.g1.b200.kube.x8"
    )
    priced = "cluster budget: set a price for size an.g1.b200.kube.x8"
    assert remedies(decision, "within_budget") == {priced: None, NEXT_MONTH: DECEMBER}


def test_without_a_budget_it_holds_nothing() -> None:
    assert growing(spend=spent("1000000")).target == 1


def test_no_budget_stops_a_removal() -> None:
    assert shrinking(budget("100"), spend=spent("80")).target == 0


def test_a_teams_budget_is_to_be_raised_by_what_all_its_work_takes_and_not_by_what_others_get() -> None:
    team = {"vision": Decimal(2)}
    policy = a_policy(budget=Budget(monthly_usd=Decimal(1000), teams=team))
    work = [*(a_pod(f"v{n}", labels={"team": "vision"}) for n in range(3)), a_pod("other")]
    decision = decision_on(a_state(), policy, waiting=work, spend=replace(spent("0"), teams={}))
    assert decision.target == 2
    raised = "by at least $1.87 to $3.87 (gpu-autoscaler budget set 3.87 --team vision --why REASON --who YOU)"
    assert remedies(decision, "within_budget") == {
        f"raise the budget of team vision {raised}": None,
        NEXT_MONTH: DECEMBER,
    }
