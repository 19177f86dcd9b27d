"""The month's allowance: its bounds in time, its stage, and what a reservation leaves."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from zoneinfo import ZoneInfo

from receiver.core.cost import unit_price
from receiver.core.model import Facts, PoolState, Stage
from receiver.core.policy import Budget, Policy


class BudgetStage(StrEnum):
    """How far the month's spend has come."""

    OK = "ok"
    WARN = "warn"
    HOLD = "hold"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """A calendar month in a zone, as UTC moments; *name* like ``2026-11``."""

    name: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    """The budget as one step sees it, in USD. *reserved* is what the nodes that exist or are asked for cost next.

    Open growth needs no reservation beside it: each step assigns all pools anew, and an open growth that is
    not wanted again is withdrawn in that step.
    """

    month: str
    monthly: Decimal
    spent: Decimal
    reserved: Decimal
    stage: BudgetStage
    warn_at: Decimal
    hold_at: Decimal
    stop_at: Decimal
    unpriced: tuple[str, ...] = ()

    @property
    def ratio(self) -> Decimal:
        """Spent over the month's allowance (0 when the allowance is 0 and nothing was spent)."""
        if self.monthly == 0:
            return Decimal(0) if self.spent == 0 else Decimal(1)
        return self.spent / self.monthly

    @property
    def available(self) -> Decimal:
        """USD that new nodes may still cost: the stop line less what is spent and reserved; 0 from the hold on."""
        if self.stage in (BudgetStage.HOLD, BudgetStage.STOP) or self.unpriced:
            return Decimal(0)
        return max(Decimal(0), self.monthly * self.stop_at - self.spent - self.reserved)


def month_of(now: datetime, timezone: str) -> Month:
    """The calendar month around *now* in *timezone* (an IANA name)."""
    zone = ZoneInfo(timezone)
    local = now.astimezone(zone)
    start = datetime(local.year, local.month, 1, tzinfo=zone)
    year, month = (local.year + 1, 1) if local.month == 12 else (local.year, local.month + 1)
    end = datetime(year, month, 1, tzinfo=zone)
    return Month(name=f"{local:%Y-%m}", start=start.astimezone(UTC), end=end.astimezone(UTC))


def stage_of(spent: Decimal, budget: Budget) -> BudgetStage:
    """The stage that *spent* USD has reached."""
    for stage, ratio in (
        (BudgetStage.STOP, budget.stop_at),
        (BudgetStage.HOLD, budget.hold_at),
        (BudgetStage.WARN, budget.warn_at),
    ):
        if spent >= budget.monthly_usd * ratio:
            return stage
    return BudgetStage.OK


def _next_cost(state: PoolState, policy: Policy) -> Decimal:
    """USD of the next paid unit of every node of a pool, present or asked for."""
    pool = policy.pool(state.pool)
    price = pool.price_usd_per_hour if pool else None
    if price is None:
        return Decimal(0)  # an unpriced pool with nodes is named in `unpriced` and stops all growth
    going = len(state.of(Stage.DELETING))
    nodes = max(state.required, len(state.nodes) - going)
    return nodes * unit_price(price, policy.billing)


def view(facts: Facts, policy: Policy) -> BudgetView | None:
    """Return the budget as *facts* show it, or None when the operator set none."""
    budget = policy.budget
    if budget is None:
        return None
    return BudgetView(
        month=facts.spend.month,
        monthly=budget.monthly_usd,
        spent=facts.spend.usd,
        reserved=sum((_next_cost(s, policy) for s in facts.pools), Decimal(0)),
        stage=stage_of(facts.spend.usd, budget),
        warn_at=budget.warn_at,
        hold_at=budget.hold_at,
        stop_at=budget.stop_at,
        unpriced=facts.spend.unpriced,
    )
