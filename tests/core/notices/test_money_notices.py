"""What people are told of budgets: each line once, and the all-clear once it is behind."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.policy import Budget, BudgetChange, Scope
from receiver.core.money.budget import Budgets, BudgetStage, BudgetView, Forecast, stage_of
from receiver.core.notices.money_notices import budget_lines
from receiver.core.notices.notice import Cause, Notice, Severity
from tests.core.builders import NOW


def a_view(spent: str | int, monthly: int = 100, **given: Any) -> BudgetView:
    """The cluster's budget with *spent* USD of *monthly*."""
    budget = Budget(monthly_usd=Decimal(monthly))
    said: dict[str, Any] = {
        "month": "2026-11",
        "monthly": Decimal(monthly),
        "spent": Decimal(spent),
        "reserved": Decimal(0),
        "stage": stage_of(Decimal(spent), budget, budget.monthly_usd),
        "warn_at": budget.warn_at,
        "hold_at": budget.hold_at,
        "stop_at": budget.stop_at,
    }
    return BudgetView(**{**said, **given})


class Told:
    """What an outbox remembers between steps and restarts."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[str, datetime]] = {}

    def step(self, *views: BudgetView) -> list[Notice]:
        """The notices of one step, remembered."""
        said = list(budget_lines(Budgets(views=views), self.topics, NOW))
        self.topics |= {notice.topic: (notice.key, NOW) for notice in said}
        return said


def causes(said: list[Notice]) -> list[str]:
    return [notice.cause for notice in said]


def test_each_line_is_told_once_on_the_way_up() -> None:
    told = Told()
    lines = [Cause.BUDGET_WARN, Cause.BUDGET_HOLD, Cause.BUDGET_STOP]
    assert causes([n for usd in (10, 50, 60, 80, 85, 100, 120) for n in told.step(a_view(usd))]) == lines


def test_a_ledger_that_is_corrected_across_a_line_and_back_is_no_news() -> None:
    told = Told()
    told.step(a_view(80))
    assert [told.step(a_view(usd)) for usd in (79, 49, 50, 80)] == [[]] * 4


def test_a_new_month_begins_with_an_all_clear_and_its_lines_are_told_anew() -> None:
    told = Told()
    told.step(a_view(100))
    said = told.step(a_view(0, month="2026-12"))
    assert causes(said) == [Cause.BUDGET_CLEAR]
    assert said[0].all_clear
    assert "2026-12" in said[0].title
    assert causes(told.step(a_view(50, month="2026-12"))) == [Cause.BUDGET_WARN]


def test_a_raised_budget_gives_the_all_clear_and_says_who_raised_it() -> None:
    told = Told()
    told.step(a_view(80))
    change = BudgetChange(
        scope=Scope.CLUSTER,
        name="",
        month="2026-11",
        monthly_usd=Decimal(500),
        who="ada",
        why="a deadline",
        at=NOW,
    )
    [said] = told.step(a_view(80, 500, change=change))
    assert said.cause == Cause.BUDGET_CLEAR
    assert "Why: ada set this amount: a deadline." in said.body


def test_a_budget_raised_too_little_is_told_at_the_line_it_still_has_reached() -> None:
    told = Told()
    told.step(a_view(100))
    assert causes(told.step(a_view(100, 120))) == [Cause.BUDGET_HOLD]


def test_a_calm_month_after_a_calm_one_is_not_told() -> None:
    told = Told()
    assert told.step(a_view(0)) == told.step(a_view(0, month="2026-12")) == []


def test_there_is_no_all_clear_while_the_spend_is_unknown_or_a_price_is_missing() -> None:
    told = Told()
    told.step(a_view(100))
    december = a_view(0, month="2026-12")
    assert told.step(replace(december, unknown="not read")) == []
    assert told.step(replace(december, uncounted=("12 hours of dbaas-small",))) == []
    assert told.step(replace(december, unpriced=("an.g1.l40s.kube.x1",))) == []
    assert len(told.step(december)) == 1


def test_every_scope_is_told_for_itself() -> None:
    told = Told()
    views = (
        a_view(80),
        a_view(80, scope=Scope.POOL, name="l40s-id", shown="l40s"),
        a_view(100, scope=Scope.TEAM, name="research"),
    )
    assert [(notice.topic, notice.cause) for notice in told.step(*views)] == [
        ("budget:cluster:", Cause.BUDGET_HOLD),
        ("budget:pool:l40s-id", Cause.BUDGET_HOLD),
        ("budget:team:research", Cause.BUDGET_STOP),
    ]
    assert told.step(*views) == []


@pytest.mark.parametrize(
    ("scope", "effect"),
    [
        (
            Scope.CLUSTER,
            "No pool grows, and idle nodes are removed before their next paid hour; running work continues",
        ),
        (
            Scope.POOL,
            (
                "The pool does not grow, and its idle nodes are removed before"
                " their next paid hour; running work continues"
            ),
        ),
        (Scope.TEAM, "No nodes are bought for the team; running work continues"),
    ],
)
def test_the_stop_says_what_it_stops(scope: Scope, effect: str) -> None:
    [said] = Told().step(a_view(100, scope=scope, name="x"))
    assert effect in said.body
    assert said.body.startswith("$100.00 of $100.00 spent (100%), $0.00 left.")


def test_a_key_of_an_older_version_is_no_reason_to_be_silent() -> None:
    told = Told()
    told.topics["budget:cluster:"] = ("2026-11:hold", NOW)
    assert len(told.step(a_view(80))) == 1
    assert BudgetStage.HOLD in told.topics["budget:cluster:"][0]


@pytest.mark.parametrize("spent", [80, 100])
def test_a_line_wakes_a_person_only_if_the_budget_keeps_work_waiting(spent: int) -> None:
    view = a_view(spent)
    [calm] = budget_lines(Budgets(views=(view,)), {}, NOW)
    [waits] = budget_lines(Budgets(views=(view,)), {}, NOW, refusing={view.key})
    assert (calm.severity, waits.severity) == (Severity.WARNING, Severity.FAILURE)


def test_at_the_warn_line_growth_does_not_go_on_where_the_budget_keeps_work_waiting() -> None:
    view = a_view(60)
    [notice] = budget_lines(Budgets(views=(view,)), {}, NOW, refusing={view.key})
    assert "Next: the budget does not cover another node, so pending work waits; running work continues." in notice.body


@pytest.mark.parametrize(
    ("burn", "said"),
    [
        ("2", "beyond 80% ($80.00), reached at the month's average rate at 2026-11-21 00:00 UTC,"),
        ("0.1", "beyond 80% ($80.00)"),  # not in this month
        (None, "beyond 80% ($80.00)"),
    ],
)
def test_the_warning_says_when_the_next_line_is_reached_by_the_forecasts_rate(burn: str | None, said: str) -> None:
    ahead = Forecast(burn=None if burn is None else Decimal(burn))
    [notice] = Told().step(a_view(56, forecast=ahead, ends_at=NOW + timedelta(days=5)))
    passing = "only priority classes in budget.passing_priority_classes get nodes"
    assert f"Next: growth continues; {said} {passing}." in notice.body
