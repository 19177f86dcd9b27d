"""What /metrics says of budgets: one series for each that is set, so as many as pools and teams have one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import Metric

from receiver.core.model.policy import Policy, Scope
from receiver.core.money.budget import BudgetStage
from receiver.metrics.families import gauge, number

AMOUNTS = (
    ("limit_usd", "monthly_usd", "The month's allowance in USD."),
    ("spent_usd", "spent_usd", "Spent this month in USD; absent while nobody can tell."),
    ("reserved_usd", "reserved_usd", "Kept aside in USD for growth under way and hours about to start."),
    ("forecast_burn_usd", "forecast_burn_usd", "USD at the month's end if what runs now goes on running."),
    (
        "forecast_trend_usd",
        "forecast_trend_usd",
        "USD at the month's end if the pace goes on that the ledger saw this month.",
    ),
)


def budgets(picture: Mapping[str, Any], policy: Policy) -> Iterator[Metric]:
    """Yield every family; before the first step only the allowance that the configuration gives the cluster."""
    found: Sequence[Mapping[str, Any]] = picture.get("budgets") or ()
    if not picture and policy.budget is not None:
        found = [{"scope": Scope.CLUSTER.value, "monthly_usd": policy.budget.monthly_usd}]
    known = [((str(b.get("scope")), str(b.get("name") or "")), b) for b in found]
    for name, key, text in AMOUNTS:
        rows = [(labels, amount) for labels, b in known if (amount := number(b.get(key))) is not None]
        yield gauge(f"budget_{name}", text, rows, "scope", "name")
    stages = [
        ((*labels, s.value), float(b["stage"] == s)) for labels, b in known if b.get("stage") for s in BudgetStage
    ]
    yield gauge("budget_stage", "Whether a budget is at this stage (1) or not (0).", stages, "scope", "name", "stage")
