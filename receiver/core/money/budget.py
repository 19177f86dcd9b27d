"""A month's allowances, of the account, the cluster, pools and teams: their stage, and what a reservation leaves."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo

from receiver.core.model.pods import Pod, Workload
from receiver.core.model.policy import Budget, BudgetChange, Policy, Scope
from receiver.core.money.forecast import Forecast, Outlook

Key = tuple[Scope, str]  # a scope and its name: a pool's id or a team's name, empty for account and cluster


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
    """One budget as a step sees it, in USD. *reserved* is what the nodes that exist or are asked for cost next, and
    those that growth without an answer may still bring.

    What a step opens needs no reservation beside it: each step assigns all pools anew. *unknown* says why the spend
    cannot be told (empty: it can; else *spent* is the least that it is), *unpriced* names sizes without a price: either
    stops growth. *uncounted* names charges that are not in *spent* and stop nothing. *change* is set where an operator
    set the allowance for this month, *shown* is what people call *name*. *per_hour* is what runs of it costs an hour,
    *ends_at* when the month does. *outlook* is what its forecast is made from.
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
    scope: Scope = Scope.CLUSTER
    name: str = ""
    shown: str = ""
    unknown: str = ""
    uncounted: tuple[str, ...] = ()
    outlook: Outlook | None = None
    change: BudgetChange | None = None
    per_hour: Decimal = Decimal(0)
    ends_at: datetime | None = None

    @property
    def key(self) -> Key:
        """Scope and name."""
        return self.scope, self.name

    @property
    def forecast(self) -> Forecast:
        """What it will come to; nothing where its spend is not known."""
        return Forecast() if self.unknown or self.outlook is None else self.outlook.forecast(self.spent)

    @property
    def title(self) -> str:
        """What people call it: ``cluster budget``, ``budget of team research``."""
        return title_of(self.scope, self.shown or self.name)

    @property
    def ratio(self) -> Decimal:
        """Spent over the month's allowance (0 when the allowance is 0 and nothing was spent)."""
        if self.monthly == 0:
            return Decimal(0) if self.spent == 0 else Decimal(1)
        return self.spent / self.monthly

    @property
    def left(self) -> Decimal:
        """USD between what is spent and reserved and the stop line; below 0 when they are beyond it."""
        return self.monthly * self.stop_at - self.spent - self.reserved

    @property
    def available(self) -> Decimal:
        """USD that new nodes for ordinary work may still cost; 0 from the hold on."""
        return Decimal(0) if self.closed_to(passing=False) else max(Decimal(0), self.left)

    def closed_to(self, *, passing: bool) -> bool:
        """True when nothing may be bought: beyond the stop, beyond the hold unless *passing*, or the spend unknown."""
        closed = (BudgetStage.STOP,) if passing else (BudgetStage.HOLD, BudgetStage.STOP)
        return self.stage in closed or bool(self.unpriced) or bool(self.unknown)

    @property
    def in_the_way(self) -> str:
        """The rule that it does not cover more by: `within_budget`, unless what is missing is no money."""
        return "spend_is_known" if self.unknown else "price_is_known" if self.unpriced else "within_budget"

    def why_not(self, *, passing: bool = False) -> str:
        """Why it does not cover more, with the line and the figures; *passing* work is not held at the hold line."""
        if self.unknown:
            return f"{self.title}: the spend is not known: {self.unknown}"
        if self.unpriced:
            return f"{self.title}: the spend is unknown: no price for {', '.join(self.unpriced)}"
        spent = f"USD {self.spent:.2f} of {self.monthly:.2f} spent in {self.month}"
        if self.closed_to(passing=passing):
            line = self.hold_at if self.stage is BudgetStage.HOLD else self.stop_at
            return f"{self.title} {self.stage} at {line:.0%}: {spent}"
        left = max(Decimal(0), self.left)
        return f"{self.title}: {spent} and {self.reserved:.2f} reserved: the USD {left:.2f} left are too few"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A budget that does not cover a node. *passing*: for work that may still be bought for beyond the hold line."""

    view: BudgetView
    passing: bool = False

    @property
    def rule(self) -> str:
        """The rule that refuses."""
        return self.view.in_the_way

    @property
    def why(self) -> str:
        """The reason as a clause, with the figures."""
        return self.view.why_not(passing=self.passing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Every budget that is set, the account's first, then the cluster's, the pools' and the teams'."""

    views: tuple[BudgetView, ...] = ()

    def of(self, scope: Scope, name: str = "") -> BudgetView | None:
        """The budget of *scope* and *name* (a pool's id, a team), or None when there is none."""
        return next((v for v in self.views if v.key == (scope, name)), None)

    def touched(self, pool: str, teams: frozenset[str] = frozenset()) -> tuple[BudgetView, ...]:
        """Those that a new node of *pool* for work of *teams* must be covered by."""
        return tuple(
            v
            for v in self.views
            if v.scope in (Scope.ACCOUNT, Scope.CLUSTER)
            or v.key == (Scope.POOL, pool)
            or (v.scope is Scope.TEAM and v.name in teams)
        )

    def stopped(self, pool: str) -> bool:
        """True when no empty node of *pool* may enter another paid unit; a team's stop only stops its growth."""
        return any(v.stage is BudgetStage.STOP for v in self.touched(pool))

    @property
    def holding(self) -> tuple[BudgetView, ...]:
        """The budgets of account and cluster that are beyond the hold line: new work is kept out then."""
        wide = (v for v in self.views if v.scope in (Scope.ACCOUNT, Scope.CLUSTER))
        return tuple(v for v in wide if v.stage in (BudgetStage.HOLD, BudgetStage.STOP))


def title_of(scope: Scope, shown: str = "") -> str:
    """What people call the budget of *scope* and of the pool or team *shown*."""
    return f"budget of {scope} {shown}" if shown else f"{scope} budget"


@lru_cache(maxsize=8)  # a step asks for the same one several times
def month_of(now: datetime, timezone: str) -> Month:
    """The calendar month around *now* in *timezone* (an IANA name)."""
    zone = ZoneInfo(timezone)
    local = now.astimezone(zone)
    start = datetime(local.year, local.month, 1, tzinfo=zone)
    year, month = (local.year + 1, 1) if local.month == 12 else (local.year, local.month + 1)
    end = datetime(year, month, 1, tzinfo=zone)
    return Month(name=f"{local:%Y-%m}", start=start.astimezone(UTC), end=end.astimezone(UTC))


def stage_of(spent: Decimal, budget: Budget, monthly: Decimal | None = None) -> BudgetStage:
    """The stage that *spent* USD has reached of *monthly* (None: of the cluster's allowance)."""
    allowance = budget.monthly_usd if monthly is None else monthly
    for stage, ratio in (
        (BudgetStage.STOP, budget.stop_at),
        (BudgetStage.HOLD, budget.hold_at),
        (BudgetStage.WARN, budget.warn_at),
    ):
        if spent >= allowance * ratio:
            return stage
    return BudgetStage.OK


def teams_of(workload: Workload, policy: Policy, budgets: Budgets) -> frozenset[str]:
    """The teams by whose labels the pods of *workload* go; empty without such a label.

    Of pods that only Prometheus knows the labels are not known: they count for every team that has one of *budgets*.
    """
    teams = {team_of(pod, policy) for pod in workload.pods} - {""}
    if any(pod.pool_hint is not None for pod in workload.pods):
        teams |= {view.name for view in budgets.views if view.scope is Scope.TEAM}
    return frozenset(teams)


def team_of(pod: Pod, policy: Policy) -> str:
    """The team by the pod's label, or an empty string."""
    return pod.labels.get(policy.attribution.team, "")


def passes_hold(workload: Workload, policy: Policy) -> bool:
    """True when every pod of *workload* has a priority class that may still be bought for beyond the hold line."""
    return policy.budget is not None and all(pod.priority_class in policy.budget.passing for pod in workload.pods)
