"""Monthly budgets of account, cluster, pools and teams: stage, reservation, forecast, and what a hold keeps out.

Growth that was sent and not answered may still arrive at Civo, so its cost stays reserved."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from receiver.core.model.actions import Action, ActionKind
from receiver.core.model.flights import flights_of, settle
from receiver.core.model.model import Facts, PoolState, Stage
from receiver.core.model.pods import Pod, Workload, gpus_of
from receiver.core.model.policy import Budget, BudgetChange, Policy, Pool, Scope
from receiver.core.model.text import dollars, percent
from receiver.core.money.cost import in_cents, unit_price

HOUR = timedelta(hours=1)
NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """A calendar month in a zone, as UTC moments; *name* like ``2026-11``."""

    name: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The month's cost at its end, *usd*, if it goes on at its *burn*: the mean USD per hour *since* the month or the
    ledger began, nights and weekends included. None: not known yet."""

    usd: Decimal | None = None
    burn: Decimal | None = None
    since: datetime | None = None


FORECAST_AFTER = timedelta(days=1)  # the first hours of a month or ledger say little about its days


def forecast(
    spent: Decimal, observed: Decimal, since: datetime | None, beside: Decimal, month: Month, now: datetime
) -> Forecast:
    """Return the forecast of the *month*'s cost, of which *spent* USD are spent already. No decision depends on it.
    *observed* is the USD that the ledger has observed *since* then (None: no forecast), *beside* the USD that the
    account has spent this month on other things than nodes."""
    nodes = burn(observed, since, now)
    if nodes is None:
        return Forecast(since=since)
    mean = nodes + (burn(beside, month.start, now) or NOTHING)
    hours = Decimal(max(0, round((month.end - now).total_seconds()))) / Decimal(3600)
    return Forecast(usd=spent + mean * hours, burn=mean, since=since)


def burn(usd: Decimal, since: datetime | None, until: datetime) -> Decimal | None:
    """Return *usd* per hour started between *since* and *until*; None for less than a day."""
    if since is None or until - since < FORECAST_AFTER:
        return None
    return usd / ((until - since) // HOUR + 1)


Key = tuple[Scope, str]  # scope, and pool id or team (empty for account and cluster)


class BudgetStage(StrEnum):
    """The threshold that the month's spend has reached."""

    OK = "ok"
    WARN = "warn"
    HOLD = "hold"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    """One budget in a step, in USD. *reserved* is the next paid unit of the nodes that exist or are requested, and of
    nodes that unanswered growth may still bring, and what commitments cost until the month ends.

    *unknown* is the reason why the spend is not known (*spent* is its lower bound then; empty: it is known) and
    *unpriced* are sizes without a price: either stops growth. *uncounted* are charges that are not in *spent* and stop
    nothing. *change* is set if an operator set the allowance of this month, *shown* is the display name of *name*.
    *per_hour* is the hourly cost of what runs, *ends_at* the end of the month; *forecast* is empty if the spend is
    unknown.
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
    forecast: Forecast = Forecast()
    change: BudgetChange | None = None
    per_hour: Decimal = Decimal(0)
    ends_at: datetime | None = None

    @property
    def key(self) -> Key:
        return self.scope, self.name

    @property
    def title(self) -> str:
        """Its title: ``cluster budget``, ``budget of team research``."""
        return title_of(self.scope, self.shown or self.name)

    def setting(self, amount: str = "USD") -> str:
        """The command that sets this month's allowance to *amount*."""
        option = option_of(self.scope, self.shown or self.name)
        return f"gpu-autoscaler budget set {amount}{option} --why REASON --who YOU"

    @property
    def ratio(self) -> Decimal:
        """Spent over the month's allowance (0 when the allowance is 0 and nothing was spent)."""
        if self.monthly == 0:
            return Decimal(0) if self.spent == 0 else Decimal(1)
        return part_of(self.monthly, self.spent)

    @property
    def left(self) -> Decimal:
        """USD from what is spent and reserved to the stop line; negative beyond it."""
        return self.monthly * self.stop_at - self.spent - self.reserved

    @property
    def available(self) -> Decimal:
        """USD available for new nodes for ordinary work; 0 from the hold line on."""
        return Decimal(0) if self.closed_to(passing=False) else max(Decimal(0), self.left)

    def closed_to(self, *, passing: bool) -> bool:
        """True when no node may be bought: at the stop line, at the hold line unless *passing*, or spend unknown."""
        closed = (BudgetStage.STOP,) if passing else (BudgetStage.HOLD, BudgetStage.STOP)
        return self.stage in closed or bool(self.unpriced) or bool(self.unknown)

    def why_not(self, *, passing: bool = False) -> str:
        """The reason for refusing more, with threshold and figures; *passing* work may exceed the hold line."""
        if self.unknown:
            return f"{self.title}: the spend is not known: {self.unknown}"
        if self.unpriced:
            return f"{self.title}: the spend is unknown: no price for {', '.join(self.unpriced)}"
        spent = f"{dollars(self.spent)} of {dollars(self.monthly)} spent in {self.month}"
        if self.closed_to(passing=passing):
            line = self.hold_at if self.stage is BudgetStage.HOLD else self.stop_at
            return f"{self.title} {self.stage} at {percent(line)}: {spent}"
        usd = max(Decimal(0), self.left)
        return f"{self.title}: {spent} and {dollars(self.reserved)} reserved; the {dollars(usd)} left is not enough"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A budget that does not cover a node; *passing*: for work that may exceed the hold line. *bought* is the USD that
    the same step's other nodes take of it."""

    view: BudgetView
    passing: bool = False
    bought: Decimal = NOTHING

    @property
    def rule(self) -> str:
        """The guardrail that refuses: `within_budget`, unless the spend or a price is unknown."""
        view = self.view
        return "spend_is_known" if view.unknown else "price_is_known" if view.unpriced else "within_budget"

    @property
    def why(self) -> str:
        return self.view.why_not(passing=self.passing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """All budgets: of the account, the cluster, the pools and the teams, in this order."""

    views: tuple[BudgetView, ...] = ()

    def of(self, scope: Scope, name: str = "") -> BudgetView | None:
        """The budget of *scope* and *name* (a pool's id, a team), or None when there is none."""
        return next((v for v in self.views if v.key == (scope, name)), None)

    def touched(self, pool: str, teams: frozenset[str] = frozenset()) -> tuple[BudgetView, ...]:
        """The budgets that must cover a new node of *pool* for work of *teams*."""
        return tuple(
            v
            for v in self.views
            if v.scope in (Scope.ACCOUNT, Scope.CLUSTER)
            or v.key == (Scope.POOL, pool)
            or (v.scope is Scope.TEAM and v.name in teams)
        )

    def stopped(self, pool: str) -> bool:
        """True when no empty node of *pool* may start another paid unit; a team's stop only stops its growth."""
        return any(v.stage is BudgetStage.STOP for v in self.touched(pool))

    @property
    def holding(self) -> tuple[BudgetView, ...]:
        """The budgets of account and cluster at or beyond the hold line, which keep new work out."""
        wide = (v for v in self.views if v.scope in (Scope.ACCOUNT, Scope.CLUSTER))
        return tuple(v for v in wide if v.stage in (BudgetStage.HOLD, BudgetStage.STOP))


def part_of(monthly: Decimal, spent: Decimal) -> Decimal:
    """Which part of the allowance *monthly* is *spent*, by cents and to four digits, as every output tells it."""
    return (in_cents(spent) / monthly).quantize(Decimal("0.0001"), ROUND_HALF_UP)


def title_of(scope: Scope, name: str = "") -> str:
    """The title of the budget of *scope* and of the pool or team *name*."""
    return f"budget of {scope} {name}" if name else f"{scope} budget"


def option_of(scope: Scope, name: str = "") -> str:
    """The option of ``gpu-autoscaler budget`` for the budget of *scope* and of the pool or team *name*."""
    return {Scope.CLUSTER: "", Scope.ACCOUNT: " --account"}.get(scope, f" --{scope} {name}")


def month_of(now: datetime, timezone: str) -> Month:
    """The calendar month around *now* in *timezone* (an IANA name)."""
    local = now.astimezone(ZoneInfo(timezone))
    return _month(local.year, local.month, timezone)


@lru_cache(maxsize=32)  # a step uses the same month thousands of times
def _month(year: int, month: int, timezone: str) -> Month:
    start, end = (datetime(year + m // 12, m % 12 + 1, 1, tzinfo=ZoneInfo(timezone)) for m in (month - 1, month))
    return Month(name=f"{start:%Y-%m}", start=start.astimezone(UTC), end=end.astimezone(UTC))


def stage_of(spent: Decimal, budget: Budget, monthly: Decimal) -> BudgetStage:
    """The stage that *spent* USD has reached of *monthly*."""
    lines = {BudgetStage.STOP: budget.stop_at, BudgetStage.HOLD: budget.hold_at, BudgetStage.WARN: budget.warn_at}
    return next((stage for stage, ratio in lines.items() if spent >= monthly * ratio), BudgetStage.OK)


def teams_of(workload: Workload, policy: Policy, budgets: Budgets) -> frozenset[str]:
    """The teams of the pods of *workload*, by their labels. Pods that only Prometheus reports have unknown labels: they
    count for every team with one of *budgets*."""
    teams = {team_of(pod, policy) for pod in workload.pods} - {""}
    if any(pod.scheduling.pool_hint is not None for pod in workload.pods):
        teams |= {view.name for view in budgets.views if view.scope is Scope.TEAM}
    return frozenset(teams)


def team_of(pod: Pod, policy: Policy) -> str:
    """The team by the pod's label, or an empty string."""
    return pod.labels.get(policy.attribution.team, "")


def passes_hold(workload: Workload, policy: Policy) -> bool:
    """True when every pod of *workload* has a priority class that may exceed the hold line."""
    return policy.budget is not None and all(pod.priority_class in policy.budget.passing for pod in workload.pods)


def unseen(facts: Facts) -> Mapping[str, int]:
    """Nodes by pool id, of the pools in *facts*, that unanswered growth may still bring and that have not shown up."""
    requested = _unanswered(facts)
    there = {s.pool: nodes_of(s) for s in facts.pools}
    most = {pool: settle(nodes, flights_of(requested, pool)).high for pool, nodes in there.items()}
    return {pool: count - there[pool] for pool, count in most.items() if count > there[pool]}


def _kept_elsewhere(facts: Facts) -> Decimal:
    """USD that unanswered growth of pools that are no longer configured may still cost."""
    ours = {s.pool for s in facts.pools}
    most: dict[str, Decimal] = {}
    for action in _unanswered(facts):
        if action.pool not in ours:
            most[action.pool] = max(action.reserved_usd, most.get(action.pool, NOTHING))
    return sum(most.values(), NOTHING)


def _unanswered(facts: Facts) -> list[Action]:
    """Growth that ended without an answer, or was still open when the step began."""
    opened = [s.open_action for s in facts.pools if s.open_action is not None]
    return [*facts.earlier.unanswered, *(action for action in opened if action.kind is ActionKind.GROW)]


def nodes_of(state: PoolState) -> int:
    """The nodes of a pool, present or requested, that will enter another paid unit."""
    going = len(state.of(Stage.DELETING))
    return max(state.required, len(state.nodes) - going)


def views(facts: Facts, policy: Policy) -> Budgets:
    """Return the budgets as of *facts*; none if none are configured."""
    if policy.budget is None:
        return Budgets()
    return Budgets(views=tuple(view for view in _Views(facts, policy, policy.budget).all() if view is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amounts:
    """USD of one budget: *spent*, the cost of its nodes *per_hour*, that of commitments (*committed_per_hour*, and
    *committed* until the month ends), the spend that this ledger has *observed*, the *pledge* for nodes that do not
    show yet, and the account's spend *beside* nodes."""

    spent: Decimal
    per_hour: Decimal
    observed: Decimal
    committed_per_hour: Decimal = NOTHING
    committed: Decimal = NOTHING
    pledge: Decimal = NOTHING
    beside: Decimal = NOTHING


class _Views:
    """Builds the views of one step."""

    def __init__(self, facts: Facts, policy: Policy, budget: Budget) -> None:
        self._facts, self._policy, self._budget = facts, policy, budget
        self._month = month_of(facts.at, budget.timezone)
        self._changes = {
            (c.scope, c.name): c
            for c in facts.instructions.budget_changes
            if c.month == facts.spend.month and c.monthly_usd is not None
        }

    def all(self) -> Iterator[BudgetView | None]:
        """Yield the view of each budget, None for one that is not set. A team's counts all the spend from before the
        ledger began, of which no team is known."""
        facts, policy, budget, spend = self._facts, self._policy, self._budget, self._facts.spend
        coming = unseen(facts)
        hourly = {p.id: _per_hour(p, facts, policy) for p in policy.pools}
        pledges = {p.id: _pledge(p, coming.get(p.id, 0), facts, policy) for p in policy.pools}
        committed_hourly = sum((_committed_per_hour(p, facts, policy) for p in policy.pools), NOTHING)
        everything = sum(hourly.values(), spend.elsewhere_per_hour)
        seen, pledge = sum(spend.seen.values(), NOTHING), sum(pledges.values(), _kept_elsewhere(facts))
        # Nodes in the ledger without a price, and pools with nodes whose price has since been removed.
        lost = (p.size for p in policy.pools if p.price_usd_per_hour is None and nodes_of(facts.pool(p.id)))
        more: dict[str, Any] = {"unpriced": tuple(sorted({*facts.spend.unpriced, *lost}))}
        account = spend.account_at_least if spend.account is None else spend.account
        unknown = "" if spend.account is not None else "Civo's charges have not been read yet"
        of_nodes = _Amounts(
            spent=spend.usd,
            per_hour=everything,
            observed=seen,
            committed_per_hour=committed_hourly,
            committed=sum(spend.committed.values(), NOTHING),
            pledge=pledge,
        )
        of_account = replace(of_nodes, spent=account, beside=max(NOTHING, account - spend.usd))
        uncounted = spend.account_unpriced
        yield self._view((Scope.ACCOUNT, ""), budget.account_usd, of_account, unknown, uncounted=uncounted, **more)
        yield self._view((Scope.CLUSTER, ""), budget.monthly_usd, of_nodes, spend.unknown, **more)
        for pool in policy.pools:
            amounts = _Amounts(
                spent=spend.pools.get(pool.id, NOTHING),
                per_hour=hourly[pool.id],
                observed=spend.seen.get(pool.id, NOTHING),
                committed_per_hour=_committed_per_hour(pool, facts, policy),
                committed=spend.committed.get(pool.id, NOTHING),
                pledge=pledges[pool.id],
            )
            yield self._view((Scope.POOL, pool.id), pool.budget_usd, amounts, spend.unknown, shown=pool.name)
        per_hour = _team_shares(facts, policy)
        unknown = "" if spend.teams is not None else "what teams use is not attributed yet"
        for team in sorted({*budget.teams, *(name for scope, name in self._changes if scope is Scope.TEAM)}):
            held = (spend.teams or {}).get(team, NOTHING)
            amounts = _Amounts(spent=held + spend.seeded, per_hour=per_hour.get(team, NOTHING), observed=held)
            yield self._view((Scope.TEAM, team), budget.teams.get(team), amounts, unknown)

    def _view(
        self, key: Key, configured: Decimal | None, amounts: _Amounts, unknown: str, **fields: Any
    ) -> BudgetView | None:
        """Return the view of one budget, if the configuration (*configured*) or an operator set one."""
        budget, policy, spend, month = self._budget, self._policy, self._facts.spend, self._month
        change, spent = self._changes.get(key), amounts.spent
        monthly = change.monthly_usd if change is not None else configured
        if monthly is None:
            return None
        ahead = forecast(spent, amounts.observed, spend.seen_since, amounts.beside, month, self._facts.at)
        return BudgetView(
            month=spend.month,
            monthly=monthly,
            spent=spent,
            reserved=unit_price(amounts.per_hour, policy.billing) + amounts.pledge + amounts.committed,
            stage=stage_of(spent, budget, monthly),
            warn_at=budget.warn_at,
            hold_at=budget.hold_at,
            stop_at=budget.stop_at,
            scope=key[0],
            name=key[1],
            unknown=unknown,
            forecast=Forecast() if unknown else ahead,
            change=change,
            per_hour=amounts.per_hour + amounts.committed_per_hour,
            ends_at=month.end,
            **fields,
        )


def _price(pool: Pool) -> Decimal:
    """USD per node-hour; 0 for an unpriced pool, whose size is `unpriced` and stops all growth."""
    return pool.price_usd_per_hour or NOTHING


def _per_hour(pool: Pool, facts: Facts, policy: Policy) -> Decimal:
    """USD per hour of the nodes of *pool* that no commitment pays for: each is charged at the price at which it was
    bought, also after a cut."""
    dearer = facts.spend.dearer_per_hour.get(pool.id, NOTHING)
    return _price(pool) * policy.billing.beyond(pool.id, nodes_of(facts.pool(pool.id)), facts.at) + dearer


def _pledge(pool: Pool, coming: int, facts: Facts, policy: Policy) -> Decimal:
    """USD for the first paid unit of *coming* nodes of *pool* that do not show yet."""
    nodes, billing = nodes_of(facts.pool(pool.id)), policy.billing
    more = billing.beyond(pool.id, nodes + coming, facts.at) - billing.beyond(pool.id, nodes, facts.at)
    return more * unit_price(_price(pool), billing)


def _committed_per_hour(pool: Pool, facts: Facts, policy: Policy) -> Decimal:
    """USD per hour of the commitment of *pool*."""
    committed = policy.billing.committed_to(pool.id, facts.at)
    return NOTHING if committed is None else committed.nodes * committed.usd_per_hour


def _team_shares(facts: Facts, policy: Policy) -> Mapping[str, Decimal]:
    """USD per hour of the GPUs that the running pods of each team hold, by their share of the node; a slice counts as
    a fraction of a GPU, as in attribution."""
    usd_per_hour: dict[str, Decimal] = {}
    for pool in policy.pools:
        nodes = max(1, policy.billing.committed_nodes(pool.id, facts.at), nodes_of(facts.pool(pool.id)))
        each = (_per_hour(pool, facts, policy) + _committed_per_hour(pool, facts, policy)) / nodes
        for node in facts.pool(pool.id).living:
            gpus = max(gpus_of(node.allocatable, node.labels), gpus_of(pool.resources, node.labels))
            for pod in node.pods:
                if not pod.reserved and (team := team_of(pod, policy)):
                    share = Decimal(gpus_of(pod.requests, node.labels)) / Decimal(gpus) * each
                    usd_per_hour[team] = usd_per_hour.get(team, NOTHING) + share
    return usd_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What the hold should do now: only *passing* priority classes may request *resources* in *namespaces*, and
    *cluster_queues* are on Hold. *why* names the budgets of *month*."""

    month: str
    why: str = ""
    namespaces: tuple[str, ...] = ()
    cluster_queues: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return bool(self.namespaces or self.cluster_queues)


def intent(budgets: Budgets, policy: Policy, month: str) -> Intent | None:
    """Return what the hold should do; None if no budget is known to be at its hold line and a spend is unknown. An
    unknown spend neither begins nor ends a hold. The holds of pools and teams keep no other work out."""
    if not budgets.holding and any(v.unknown for v in budgets.views if v.scope in (Scope.ACCOUNT, Scope.CLUSTER)):
        return None
    if policy.budget is None or not budgets.holding:
        return Intent(month=month)
    return Intent(
        month=month,
        why="; ".join(view.why_not() for view in budgets.holding),
        namespaces=policy.budget.keep_out.namespaces,
        cluster_queues=policy.budget.keep_out.cluster_queues,
        resources=tuple(sorted({resource for pool in policy.pools for resource in pool.resources})),
        passing=tuple(sorted(policy.budget.passing)),
    )
