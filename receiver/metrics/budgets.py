"""Budgets as metrics, by scope."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from receiver.core.model.policy import Policy, Scope
from receiver.core.money.budget import BudgetStage
from receiver.metrics.families import gauge
from receiver.reports.picture import Picture, ScopedBudget

AMOUNTS = (
    ("monthly_usd", "The month's allowance in USD."),
    ("spent_usd", "Spent this month in USD; absent while it is not known."),
    ("reserved_usd", "Kept aside in USD for growth under way and hours about to start."),
    ("forecast_usd", "USD at the month's end if the burn of the month continues; absent in the first day."),
    ("burn_usd_per_hour", "Mean USD per hour of the month, as far as the ledger saw it; absent in the first day."),
)


def budgets(picture: Picture, policy: Policy) -> Iterator[Metric]:
    """Yield every family; before the first step only the allowance that the configuration gives the cluster."""
    scoped_budgets = picture.budgets
    if not picture.model_fields_set and policy.budget is not None:
        scoped_budgets = (ScopedBudget(scope=Scope.CLUSTER, monthly_usd=policy.budget.monthly_usd),)
    for attribute, text in AMOUNTS:
        name = "limit_usd" if attribute == "monthly_usd" else attribute
        rows = [((budget.scope, budget.name), getattr(budget, attribute)) for budget in scoped_budgets]
        yield gauge(f"budget_{name}", text, rows, "scope", "name")
    stages = [((b.scope, b.name, s.value), b.stage == s) for b in scoped_budgets if b.stage for s in BudgetStage]
    yield gauge("budget_stage", "Whether a budget is at this stage (1) or not (0).", stages, "scope", "name", "stage")
