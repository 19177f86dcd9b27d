"""The report of a month: one value that text, table, page and message are made from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from receiver.core.attribution import Attributed
from receiver.core.budget import BudgetStage, Month, stage_of
from receiver.core.memory import NodeLife
from receiver.core.policy import BudgetChange, Policy, Scope
from receiver.core.report.activity import Measured, measured, peaks
from receiver.core.report.always_on import AlwaysOn, always_on
from receiver.core.report.amounts import Subtotal, add_up, by
from receiver.core.report.commitments import Advice, Baseline, advice, baselines
from receiver.core.report.days import Day, days
from receiver.core.report.in_use import InUse
from receiver.core.report.jobs import Jobs, Waits, count_jobs, ended_within, of_month, queue_waits
from receiver.core.report.lines import CostLine, Whose, cost_lines, pieces
from receiver.core.report.rightsizing import Peaks, RightSize, right_sizes, tight
from receiver.core.report.units import UnitCost, unit_cost
from receiver.core.usage import Owner, Usage, WorkloadLife

WHOLE_GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the ledger has of a month: what was bought, whose it was, and how work did on it.

    *attributed* is what *lives* cost, shared out. *counts* is what the query of each unit of work said, by its name,
    *allowances* what operators set for the month at run time, *watched* since when the ledger knows each pool, by id,
    *in_use* how many of its GPUs each workload used at once.
    """

    lives: Sequence[NodeLife]
    usage: Sequence[Usage]
    workloads: Sequence[WorkloadLife]
    attributed: Attributed
    counts: Mapping[str, float] = field(default_factory=dict)
    allowances: Sequence[BudgetChange] = ()
    watched: Mapping[str, datetime] = field(default_factory=dict)
    in_use: Sequence[InUse] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """What the report's scope may spend in the month and has spent, in USD; growth holds and stops at those ratios.

    *change* says who set the allowance at run time, None when it is the configured one.
    """

    monthly_usd: Decimal
    spent_usd: Decimal
    stage: BudgetStage
    hold_at: Decimal
    stop_at: Decimal
    change: BudgetChange | None = None

    @property
    def ratio(self) -> Decimal | None:
        """Spent over allowed, None of no allowance."""
        return self.spent_usd / self.monthly_usd if self.monthly_usd else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A month up to *until*. With *team* it has that team's lines alone: what nobody held is in no team's report.

    *everything* is all *lines* added up; *kinds* sorts the same lines by kind of GPU; *teams*, *namespaces* and
    *workloads* those that somebody held. Each adds up to the cent. *nobodys* is what nobody held, told beside a team's
    report too; *unlabelled* what workloads without a team label held, and *unlabelled_in* where. *per_workload_usd* is
    the mean cost of a workload that held a GPU; *per_completed_usd* what the workloads that ended cost this month,
    failed ones too, for each that completed. *unpriced* names sizes whose nodes have no price: their cost is missing
    from every amount. What is about the whole cluster (*baselines*, *commitments*, *always_on*) is empty for a team.
    *began* is when the ledger did, where that is after the month did: nobody watched before.
    """

    month: Month
    timezone: str
    until: datetime
    team: str | None
    lines: tuple[CostLine, ...]
    everything: Subtotal
    kinds: tuple[Subtotal, ...]
    teams: tuple[Subtotal, ...]
    namespaces: tuple[Subtotal, ...]
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
    baselines: tuple[Baseline, ...]
    commitments: tuple[Advice, ...]
    always_on: AlwaysOn | None
    budget: BudgetLine | None
    days: tuple[Day, ...]
    began: datetime | None = None

    @property
    def complete(self) -> bool:
        """True when the month is over."""
        return self.until >= self.month.end


def report(found: Found, policy: Policy, month: Month, now: datetime, team: str | None = None) -> Report:
    """Return the report of *month* as known at *now*: everybody's, or one *team*'s (empty: without a label)."""
    until = max(min(now, month.end), month.start)
    every_piece = tuple(pieces(found.attributed, policy))
    every_line = cost_lines(every_piece)
    lines = tuple(x for x in every_line if team is None or _is_of(x.whose, team))
    held = [x for x in lines if x.whose.workload]
    usage = [u for u in found.usage if team is None or u.owner.team == team]
    workloads = [w for w in found.workloads if team is None or w.owner.team == team]
    alive = of_month(workloads, month.start, until)
    by_workload = by(lambda whose: whose.workload, held)
    without = [x for x in held if not x.whose.owner.team]
    whole = _whole_gpus(found.lives, policy)
    seen = peaks(usage, whole, _cost_by_kind(held), _per_gpu_hour(found.lives), found.in_use, _widest(alive))
    lives = found.lives if team is None else ()
    everything = add_up(lines)
    return Report(
        month=month,
        timezone=policy.timezone,
        until=until,
        team=team,
        lines=lines,
        everything=everything,
        kinds=by(lambda whose: whose.kind, lines),
        teams=by(lambda whose: whose.owner.team, held),
        namespaces=by(lambda whose: whose.namespace, held),
        workloads=by_workload,
        nobodys=add_up(x for x in every_line if not x.whose.workload),
        unlabelled=add_up(without),
        unlabelled_in=by(lambda whose: whose.namespace, without),
        unpriced=found.attributed.unpriced,
        efficiency_target=float(policy.reports.efficiency_target),
        measured=measured(usage),
        jobs=count_jobs(alive, until),
        waits=queue_waits(alive, month.start, until),
        per_workload_usd=add_up(held).total.usd / len(by_workload) if by_workload else None,
        per_completed_usd=_per_completed(by_workload, alive, month.start, until),
        units=tuple(_units(lines, found.counts, policy, team)),
        right_sizes=right_sizes(seen, _prices_of_kinds(policy)),
        tight=tight(seen),
        baselines=baselines(lives, month.start, until),
        commitments=advice(policy.reports.commitments if team is None else (), lives, month.start, until),
        always_on=always_on(lives, policy, month, now, found.watched) if team is None else None,
        budget=_budget(everything.total.usd, found.allowances, policy, team),
        days=days(
            found.lives,
            [p for p in every_piece if team is None or _is_of(p.whose, team)],
            lines,
            month,
            policy,
            now,
        ),
        began=_began(found.watched, month),
    )


def _began(watched: Mapping[str, datetime], month: Month) -> datetime | None:
    began = min(watched.values(), default=month.start)
    return began if began > month.start else None


def _is_of(whose: Whose, team: str) -> bool:
    return bool(whose.workload) and whose.owner.team == team


def _whole_gpus(lives: Iterable[NodeLife], policy: Policy) -> Mapping[str, str]:
    """The kind of GPU by instance, where its pool hands out whole ones: peaks of slices say nothing about the GPU."""
    pools = {life.pool: policy.pool(life.pool) for life in lives}
    sliced = {i for i, pool in pools.items() if pool is not None and set(pool.resources) != {WHOLE_GPU}}
    return {x.instance: policy.gpu_kinds.get(x.size, "") for x in lives if x.pool not in sliced}


def _widest(workloads: Iterable[WorkloadLife]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for life in workloads:
        found[life.workload] = max(life.gpus, found.get(life.workload, 0))
    return found


def _per_gpu_hour(lives: Iterable[NodeLife]) -> Mapping[str, Decimal]:
    """USD per GPU-hour by instance, at the price in force when the node was first seen."""
    return {
        x.instance: x.price_usd_per_hour / Decimal(x.gpus) for x in lives if x.price_usd_per_hour is not None and x.gpus
    }


def _prices_of_kinds(policy: Policy) -> Mapping[str, Decimal]:
    """What a GPU-hour of each kind would cost: in the cheapest pool that has it, by the list where none has."""
    pools: dict[str, Decimal] = {}
    for pool in policy.pools:
        kind = policy.gpu_kinds.get(pool.size)
        if kind and pool.price_usd_per_hour is not None and set(pool.resources) == {WHOLE_GPU}:
            each = pool.price_usd_per_hour / pool.gpus_per_node
            pools[kind] = min(each, pools.get(kind, each))
    return {**policy.gpu_prices, **pools}


def _cost_by_kind(held: Iterable[CostLine]) -> Mapping[tuple[str, str], Decimal]:
    found: dict[tuple[str, str], Decimal] = {}
    for line in held:
        key = (line.whose.workload, line.whose.kind)
        found[key] = found.get(key, Decimal(0)) + line.usd
    return found


def _per_completed(
    by_workload: Iterable[Subtotal], workloads: Iterable[WorkloadLife], start: datetime, until: datetime
) -> Decimal | None:
    """What the workloads that ended cost this month, those that failed too, for each that completed.

    Cost is known by name, and names are used again: every run counts, the cost of its name once.
    """
    ended = [w for w in workloads if ended_within(w, start, until)]
    names = {w.workload for w in ended}
    completed = sum(w.completed is True for w in ended)
    usd = sum((found.total.usd for found in by_workload if found.name in names), Decimal(0))
    return usd / completed if completed else None


def _units(
    lines: Sequence[CostLine], counts: Mapping[str, float], policy: Policy, team: str | None
) -> Iterator[UnitCost]:
    """Each unit of work at the cost of the lines that it is about. A team's report has those of that team alone:
    what a query counts for everybody cannot be divided by one team's cost."""
    for unit in policy.reports.units:
        if team is None or (unit.team and unit.team == team):
            usd = sum((x.usd for x in lines if _counts_for(x.whose, unit.only)), Decimal(0))
            yield unit_cost(unit, usd, counts.get(unit.name))


def _counts_for(whose: Whose, only: Mapping[str, str]) -> bool:
    said = {"namespace": whose.namespace, **{key: getattr(whose.owner, key) for key in Owner.__slots__}}
    return not only or (bool(whose.workload) and all(said[key] == value for key, value in only.items()))


def _budget(spent: Decimal, allowances: Iterable[BudgetChange], policy: Policy, team: str | None) -> BudgetLine | None:
    budget, scope = policy.budget, Scope.CLUSTER if team is None else Scope.TEAM
    if budget is None:
        return None
    set_now = [c for c in allowances if (c.scope, c.name) == (scope, team or "") and c.monthly_usd is not None]
    configured = budget.monthly_usd if team is None else budget.teams.get(team)
    monthly = set_now[-1].monthly_usd if set_now else configured
    if monthly is None:
        return None
    return BudgetLine(
        monthly_usd=monthly,
        spent_usd=spent,
        stage=stage_of(spent, budget, monthly),
        hold_at=budget.hold_at,
        stop_at=budget.stop_at,
        change=set_now[-1] if set_now else None,
    )
