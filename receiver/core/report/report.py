"""The report of a month, as a value: costs, workloads, suggestions and budgets, of all teams or one."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.memory import NodeLife
from receiver.core.model.overrides import EVERY_POOL, Override, OverrideKind
from receiver.core.model.policy import BudgetChange, Policy, Scope, Unallocated
from receiver.core.model.usage import IdleSpan, Owner, Usage, WorkloadLife
from receiver.core.money.attribution import Attributed, Part
from receiver.core.money.budget import BudgetStage, Forecast, Month, part_of, stage_of, title_of
from receiver.core.money.shared_cost import taken_apart
from receiver.core.report.always_on import (
    AlwaysOn,
    Baseline,
    CommittedCapacity,
    advice,
    always_on,
    baselines,
    committed_advice,
)
from receiver.core.report.idle import IdleCost, idle_costs
from receiver.core.report.lines import (
    CostLine,
    CostPiece,
    Day,
    PaidFor,
    Subtotal,
    UnitCost,
    add_up,
    by,
    cost_lines,
    days,
    pieces,
    unit_cost,
)
from receiver.core.report.pool_changes import PoolChange, pool_changes
from receiver.core.report.rightsizing import (
    InUse,
    Measured,
    Peaks,
    RightSize,
    measured,
    peaks,
    prices_of_kinds,
    right_sizes,
    tight,
)

NOTHING = Decimal(0)
RULES = ("within_budget", "spend_is_known", "price_is_known")  # the guardrails of budgets


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Queue waits, from creation to the first bound pod, of the workloads that *started* in the month (None: none);
    *still* counts those that wait."""

    started: int = 0
    p50: timedelta | None = None
    p95: timedelta | None = None
    longest: timedelta | None = None
    still: int = 0
    still_longest: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Workloads that existed in the month, by their state at its end (or now): *gone* ended with an unknown result,
    *gave_up* before a pod was bound."""

    seen: int = 0
    completed: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0
    gone: int = 0
    gave_up: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """Allowance and spend in USD of *scope* and *name* (a pool's name, a team).

    *spent_usd* and *stage* are None if the account's charges are unknown. *change* is set if an operator set the
    allowance. *forecast* is for the current month. *seeded_usd* is the part of *spent_usd* from before the ledger
    began; its owner is unknown, so it counts in full in each budget, as in decisions.
    """

    scope: Scope
    name: str
    monthly_usd: Decimal
    spent_usd: Decimal | None
    stage: BudgetStage | None
    hold_at: Decimal
    stop_at: Decimal
    seeded_usd: Decimal = NOTHING
    forecast: Forecast = field(default_factory=Forecast)
    change: BudgetChange | None = None

    @property
    def title(self) -> str:
        """The title of the budget."""
        return title_of(self.scope, self.name)

    @property
    def ratio(self) -> Decimal | None:
        """Spent / allowed, None if the allowance is 0 or the spend unknown."""
        has_amounts = self.monthly_usd and self.spent_usd is not None
        return part_of(self.monthly_usd, self.spent_usd) if has_amounts and self.spent_usd is not None else None

    @property
    def left_usd(self) -> Decimal | None:
        """Allowed less spent; negative beyond the allowance."""
        return None if self.spent_usd is None else self.monthly_usd - self.spent_usd


class Stood(StrEnum):
    """Why a pool could not grow."""

    BUDGET = "budget"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoke:
    """A stored decision about *pool* at *at*; *detail* is how a budget held its growth back, or empty.

    *budgets* are the titles of the budgets that did not cover it.
    """

    pool: str
    at: datetime
    detail: str = ""
    budgets: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """*pool* (a name, or ``all``) could not grow from *since* to *until* (None: it still cannot). *who* paused it."""

    kind: Stood
    pool: str
    since: datetime
    until: datetime | None
    why: str
    who: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the ledger holds about a month: the input of a report.

    *counts* are the results of the queries of units of work by name, *watched* when the ledger first knew each pool, by
    id. *spoken* are the decisions of the month and each pool's last one before it, in order, *overrides* those of the
    month with their ends. *account_usd* is None if unknown, *seeded_pools* the USD by pool id from before the ledger.
    """

    lives: Sequence[NodeLife]
    usage: Sequence[Usage]
    workloads: Sequence[WorkloadLife]
    attributed: Attributed
    counts: Mapping[str, float] = field(default_factory=dict)
    allowances: Sequence[BudgetChange] = ()
    watched: Mapping[str, datetime] = field(default_factory=dict)
    in_use: Sequence[InUse] = ()
    idle_spans: Sequence[IdleSpan] = ()
    spoken: Sequence[Spoke] = ()
    overrides: Sequence[tuple[Override, datetime | None]] = ()
    account_usd: Decimal | None = None
    seeded_pools: Mapping[str, Decimal] = field(default_factory=dict)
    forecasts: Mapping[tuple[Scope, str], Forecast] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A month up to *until*, with *team* only that team's lines: unheld time is in no team's report, unless what is
    *unallocated* is shared. Then it is in *lines*, *teams* and *workloads*, but never in the *budgets* of teams.

    *kinds*, *teams* and *workloads* group *lines* (the last two the held ones); all add up to the cent. *nobodys* is
    the unheld part, also in a team's report, *unlabelled* what workloads without a team label held. *per_workload_usd*
    is the mean of those that held a GPU, *per_completed_usd* the cost of all ended ones per completed one. *unpriced*
    are sizes without a price, missing from every amount. *began* is when the ledger did, if after the month's start;
    holders are known from *observed_from* on. *complete*: known from the month's start, and the month is final.
    """

    month: Month
    timezone: str
    until: datetime
    team: str | None
    lines: tuple[CostLine, ...]
    everything: Subtotal
    kinds: tuple[Subtotal, ...]
    teams: tuple[Subtotal, ...]
    workloads: tuple[Subtotal, ...]
    nobodys: Subtotal
    unlabelled: Subtotal
    unlabelled_in: tuple[Subtotal, ...]
    unpriced: tuple[str, ...]
    efficiency_target: float
    measured: Measured
    jobs: Jobs
    waits: Waits
    per_workload_usd: Decimal | None
    per_completed_usd: Decimal | None
    units: tuple[UnitCost, ...]
    right_sizes: tuple[RightSize, ...]
    tight: tuple[Peaks, ...]
    pool_changes: tuple[PoolChange, ...]
    baselines: tuple[Baseline, ...]
    commitments: CommittedCapacity
    always_on: AlwaysOn | None
    budgets: tuple[BudgetLine, ...]
    standstills: tuple[Standstill, ...]
    days: tuple[Day, ...]
    idle_costs: tuple[IdleCost, ...] = ()
    unallocated: Unallocated = Unallocated.SEPARATE
    began: datetime | None = None
    observed_from: datetime | None = None
    complete: bool = False

    @property
    def budget(self) -> BudgetLine | None:
        """The budget of this report's scope: the cluster's, or the team's."""
        scope, name = (Scope.CLUSTER, "") if self.team is None else (Scope.TEAM, self.team)
        return next((line for line in self.budgets if (line.scope, line.name) == (scope, name)), None)

    @property
    def seen_since(self) -> datetime:
        """When the month or the ledger began, whichever is later."""
        return self.began or self.month.start

    @property
    def over(self) -> bool:
        """True when the month is over, even if it is not complete."""
        return self.until >= self.month.end


def report(ledger: Found, policy: Policy, month: Month, now: datetime, team: str | None = None) -> Report:
    """Return the report of *month* as known at *now*: of all teams, or one *team* (empty: without a label)."""
    start, until = month.start, max(min(now, month.end), month.start)

    def theirs(owner: Owner) -> bool:
        return team is None or owner.team == team

    def own(piece: CostPiece | CostLine) -> bool:
        return team is None or (bool(piece.whose.workload) and theirs(piece.whose.owner))

    every_piece = tuple(pieces(ledger.attributed, policy))
    every_line = cost_lines(every_piece)
    is_shared = ledger.attributed.unallocated is Unallocated.SHARE
    budgeted = cost_lines(pieces(taken_apart(ledger.attributed), policy)) if is_shared else every_line
    lines = tuple(filter(own, every_line))
    held = [x for x in lines if x.whose.workload]
    without = [x for x in held if not x.whose.owner.team]
    usage = [u for u in ledger.usage if theirs(u.owner)]
    held_shares = (s for s in ledger.attributed.shares if s.part is Part.HELD)
    shares = [s for s in held_shares if s.usage is not None and theirs(s.usage.owner)]
    alive = of_month([w for w in ledger.workloads if theirs(w.owner)], start, until)
    by_workload = by(lambda whose: whose.workload, held)
    workload_peaks = peaks(usage, ledger.lives, shares, ledger.in_use, alive, policy)
    lives = ledger.lives if team is None else ()
    began = min(ledger.watched.values(), default=start)
    return Report(
        month=month,
        timezone=policy.timezone,
        until=until,
        team=team,
        lines=lines,
        everything=add_up(lines),
        kinds=by(lambda whose: whose.kind, lines),
        teams=by(lambda whose: whose.owner.team, held),
        workloads=by_workload,
        nobodys=add_up(x for x in every_line if not x.whose.workload),
        unlabelled=add_up(without),
        unlabelled_in=by(lambda whose: whose.namespace, without),
        unpriced=ledger.attributed.unpriced,
        efficiency_target=float(policy.reports.efficiency_target),
        measured=measured(usage),
        jobs=count_jobs(alive, until),
        waits=queue_waits(alive, start, until),
        per_workload_usd=add_up(held).total.usd / len(by_workload) if by_workload else None,
        per_completed_usd=_per_completed(by_workload, alive, start, until),
        units=tuple(_units(lines, ledger.counts, policy, team)),
        right_sizes=right_sizes(workload_peaks, prices_of_kinds(policy)),
        tight=tight(workload_peaks),
        pool_changes=pool_changes(lives, usage, alive, policy, start, until, ledger.attributed.observed_from),
        baselines=baselines(lives, start, until),
        commitments=CommittedCapacity(
            offers=advice(policy.reports.commitments if team is None else (), lives, start, until),
            pools=tuple(committed_advice(lives, ledger.attributed, policy, month, until)) if team is None else (),
        ),
        always_on=always_on(lives, policy, month, now, ledger.watched) if team is None else None,
        budgets=budget_lines(budgeted, ledger, policy, team),
        standstills=standstills(ledger, policy, start, until, team),
        days=days(ledger.lives, filter(own, every_piece), lines, month, policy, now),
        idle_costs=idle_costs(ledger.idle_spans, start, until, team),
        unallocated=ledger.attributed.unallocated,
        began=began if began > start else None,
        observed_from=ledger.attributed.observed_from,
        complete=ledger.attributed.complete and began <= start,
    )


def _per_completed(
    by_workload: Iterable[Subtotal], workloads: Iterable[WorkloadLife], start: datetime, until: datetime
) -> Decimal | None:
    """The cost this month of all ended workloads, failed ones included, per completed run.

    Cost is known by name, and names are reused: every run counts, and the cost of each name once.
    """
    ended = [w for w in workloads if w.completed is not None and w.ended_at and start <= w.ended_at < until]
    names = {w.workload for w in ended}
    completed = sum(w.completed is True for w in ended)
    usd = sum((subtotal.total.usd for subtotal in by_workload if subtotal.name in names), Decimal(0))
    return usd / completed if completed else None


def _units(
    lines: Sequence[CostLine], counts: Mapping[str, float], policy: Policy, team: str | None
) -> Iterator[UnitCost]:
    """The cost of each unit of work. A team's report has only the units of that team: a count of all teams cannot be
    combined with one team's cost."""
    for unit in policy.reports.units:
        if team is None or (unit.team and unit.team == team):
            usd = Decimal(0)
            for line in lines:
                owned = {"namespace": line.whose.namespace, **asdict(line.whose.owner)}
                if not unit.only or (line.whose.workload and unit.only.items() <= owned.items()):
                    usd += line.usd
            yield unit_cost(unit, usd, counts.get(unit.name))


def of_month(workloads: Iterable[WorkloadLife], start: datetime, until: datetime) -> tuple[WorkloadLife, ...]:
    """Return the *workloads* that existed between *start* and *until*."""
    return tuple(w for w in workloads if w.created_at < until and (w.ended_at is None or w.ended_at >= start))


def count_jobs(workloads: Sequence[WorkloadLife], until: datetime) -> Jobs:
    """Count *workloads* of the month by their state at *until*."""
    return Jobs(seen=len(workloads), **Counter(_standing(workload, until) for workload in workloads))


def _standing(workload: WorkloadLife, until: datetime) -> str:
    bound = workload.bound_at is not None and workload.bound_at <= until
    if workload.ended_at is None or workload.ended_at >= until:
        return "running" if bound else "waiting"
    if workload.completed is None:
        return "gone" if bound else "gave_up"
    return "completed" if workload.completed else "failed"


def queue_waits(workloads: Iterable[WorkloadLife], start: datetime, until: datetime) -> Waits:
    """Return the queue waits of *workloads* between *start* and *until*."""
    took: list[timedelta] = []
    still: list[timedelta] = []
    for workload in workloads:
        if workload.bound_at is not None and start <= workload.bound_at < until:
            took.append(max(workload.bound_at - workload.created_at, timedelta(0)))  # clocks of two machines may differ
        elif _standing(workload, until) == "waiting":
            still.append(until - workload.created_at)
    took.sort()
    return Waits(
        started=len(took),
        p50=percentile(took, 0.50),
        p95=percentile(took, 0.95),
        longest=max(took, default=None),
        still=len(still),
        still_longest=max(still, default=None),
    )


def percentile(ordered: Sequence[timedelta], ratio: float) -> timedelta | None:
    """Return the smallest of *ordered* that at least *ratio* of them do not exceed (nearest rank); None of nothing."""
    return ordered[max(math.ceil(ratio * len(ordered)), 1) - 1] if ordered else None


def budget_lines(lines: Sequence[CostLine], ledger: Found, policy: Policy, team: str | None) -> tuple[BudgetLine, ...]:
    """Return the lines of all budgets of a month, or of one *team*'s; *lines* are the costs of all teams."""
    budget = policy.budget
    if budget is None:
        return ()
    changes = {(c.scope, c.name): c for c in ledger.allowances if c.monthly_usd is not None}
    seeded = _sum(line for line in lines if line.whose.paid_for is PaidFor.SEEDED)
    rows: list[BudgetLine] = []

    def add(scope: Scope, name: str, amount: Decimal | None, spent: Decimal | None, before: Decimal, key: str) -> None:
        change = changes.get((scope, key))
        monthly = change.monthly_usd if change is not None else amount
        if monthly is None:
            return
        rows.append(
            BudgetLine(
                scope=scope,
                name=name,
                monthly_usd=monthly,
                spent_usd=spent,
                stage=None if spent is None else stage_of(spent, budget, monthly),
                hold_at=budget.hold_at,
                stop_at=budget.stop_at,
                seeded_usd=before,
                forecast=ledger.forecasts.get((scope, name), Forecast()),
                change=change,
            )
        )

    teams = [team] if team is not None else sorted({*budget.teams, *(n for s, n in changes if s is Scope.TEAM)})
    if team is None:
        account, whole = ledger.account_usd, _sum(lines)
        add(Scope.ACCOUNT, "", budget.account_usd, None if account is None else max(account, whole), seeded, "")
        add(Scope.CLUSTER, "", budget.monthly_usd, whole, seeded, "")
        for pool in policy.pools:
            before = ledger.seeded_pools.get(pool.id, NOTHING)
            spent = _sum(line for line in lines if line.whose.pool == pool.name) + before
            add(Scope.POOL, pool.name, pool.budget_usd, spent, before, pool.id)
    for name in teams:
        held = _sum(line for line in lines if bool(line.whose.workload) and line.whose.owner.team == name)
        add(Scope.TEAM, name, budget.teams.get(name), held + seeded, seeded, name)
    return tuple(rows)


def _sum(lines: Iterable[CostLine]) -> Decimal:
    return sum((line.usd for line in lines), NOTHING)


def standstills(
    ledger: Found, policy: Policy, start: datetime, until: datetime, team: str | None
) -> tuple[Standstill, ...]:
    """Return the standstills between *start* and *until*, in order. A *team* gets those that its own budget caused."""
    if team is None:
        stood = [*_held(ledger.spoken, policy), *_paused(ledger.overrides, policy, until)]
    else:
        own = title_of(Scope.TEAM, team)
        stood = [*_held((s if own in s.budgets else replace(s, detail="") for s in ledger.spoken), policy)]
    within = (each for each in stood if each.since < until and (each.until is None or each.until > start))
    return tuple(sorted(within, key=lambda each: (each.since, each.pool, each.kind)))


def _held(spoken: Iterable[Spoke], policy: Policy) -> Iterator[Standstill]:
    open_now: dict[str, Standstill] = {}
    for spoke in spoken:
        before = open_now.get(spoke.pool)
        if spoke.detail and before is None:
            pool = policy.pool(spoke.pool)
            name, detail = pool.name if pool else spoke.pool, spoke.detail
            open_now[spoke.pool] = Standstill(kind=Stood.BUDGET, pool=name, since=spoke.at, until=None, why=detail)
        elif not spoke.detail and before is not None:
            yield replace(open_now.pop(spoke.pool), until=spoke.at)
    yield from open_now.values()


def _paused(pauses: Iterable[tuple[Override, datetime | None]], policy: Policy, now: datetime) -> Iterator[Standstill]:
    for override, ended_at in pauses:
        if override.kind is OverrideKind.PAUSE:
            pool = policy.pool(override.pool) if override.pool is not None else None
            end = min(override.until, ended_at or override.until)
            yield Standstill(
                kind=Stood.PAUSE,
                pool=pool.name if pool else override.pool or EVERY_POOL,
                since=override.at,
                until=end if end <= now else None,
                why=override.why,
                who=override.who,
            )
