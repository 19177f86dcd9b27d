"""Costs as JSON: what a month has cost by one thing, and the report of a month. The report of a closed month is stored;
text, CSV and the page are made from it. Amounts of USD are exact, GPU-hours rounded to a thousandth, ratios to four
digits.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from receiver.core.model.policy import Scope, Unallocated
from receiver.core.money.attribution import By, Part
from receiver.core.money.budget import BudgetStage, burn
from receiver.core.report.idle import IdleCost
from receiver.core.report.lines import PaidFor
from receiver.core.report.pool_changes import PoolWay
from receiver.core.report.report import Report, Stood
from receiver.core.report.rightsizing import Way
from receiver.reports.document import (
    Cents,
    Count,
    Instant,
    Listed,
    Month,
    Positive,
    Price,
    Published,
    Ratio,
    Usd,
    says,
    word,
)

TOP = 10  # consumers, suggestions and namespaces that are listed; the lines have them all
LISTED = 50  # standstills
EVERYBODY = "everybody"  # the scope of the report of all teams

Hours = Annotated[Positive, AfterValidator(lambda number: round(number, 3))]
Seconds = Annotated[
    Positive, BeforeValidator(lambda wait: wait.total_seconds() if isinstance(wait, timedelta) else wait)
]
Rounded = Annotated[Ratio, AfterValidator(lambda number: round(number, 4))]


def scope_of(team: str | None) -> str:
    """Return the scope under which the closed report of *team* (None: of all teams) is stored."""
    return EVERYBODY if team is None else f"team:{team}"


class ReportPart(Published):
    """A part of a report, made from a value of the core also where it stands in another part."""

    @model_validator(mode="before")
    @classmethod
    def _of_value(cls, value: object) -> object:
        return value if isinstance(value, Mapping | Published) else cls.read(value)


class AmountDocument(ReportPart):
    """GPU-hours and money."""

    gpu_hours: Hours
    usd: Usd


class CostRow(ReportPart):
    """One row of a report."""

    within = ("total",)
    paths: ClassVar = {"idle_gpu_hours": "idle.gpu_hours", "idle_usd": "idle.usd"}
    name: Annotated[str, says("empty: no label")]
    gpu_hours: Hours
    usd: Usd
    idle_gpu_hours: Hours
    idle_usd: Usd
    efficiency: Annotated[Rounded | None, says("the part that was used")]


class TeamRow(CostRow):
    """What the workloads of a team held."""

    burn_usd_per_hour: Annotated[Cents | None, says("mean of the month; null before a day of it")] = None


class Consumer(CostRow):
    """One of the dearest workloads."""

    team: str
    project: str


class Unlabelled(AmountDocument):
    """Work without a team label."""

    namespaces: Listed[CostRow]


class PaidForDocument(ReportPart):
    """What the month's money was paid for."""

    used: AmountDocument
    idle: AmountDocument
    unallocated: AmountDocument
    unwatched: AmountDocument
    ahead: AmountDocument
    seeded: AmountDocument


class ReportBudget(ReportPart):
    """A budget in a report."""

    sometimes = ("seeded_usd", "forecast_since")
    paths: ClassVar = {
        "forecast_usd": "forecast.usd",
        "burn_usd_per_hour": "forecast.burn",
        "forecast_since": "forecast.since",
        "set_by": "change.who",
        "why": "change.why",
    }
    scope: Annotated[str, word(Scope)]
    name: str
    monthly_usd: Usd
    spent_usd: Cents | None
    left_usd: Cents | None
    seeded_usd: Annotated[Cents, says("of spent_usd: from before the ledger began, counted in full in each budget")] = (
        Decimal(0)
    )
    ratio: Rounded | None
    stage: Annotated[str, word(BudgetStage)] | None
    hold_at: Rounded
    stop_at: Rounded
    forecast_usd: Annotated[Cents | None, says("the month's cost, if its burn goes on; null: not known yet")] = None
    burn_usd_per_hour: Annotated[Cents | None, says("the mean since forecast_since")] = None
    forecast_since: Annotated[Instant | None, says("when the month or the ledger began, whichever is later")] = None
    set_by: str | None
    why: str | None


class StandstillDocument(ReportPart):
    """When a pool did not grow."""

    kind: Annotated[str, word(Stood)]
    pool: str
    since: Annotated[Instant, says("", alias="from")]
    until: Annotated[Instant | None, says("null: still")]
    why: str
    who: str | None


class JobsDocument(ReportPart):
    """How many workloads there were, and what became of them."""

    seen: Count
    completed: Count
    failed: Count
    running: Count
    waiting: Count
    gone: Count
    gave_up: Count


class WaitsDocument(ReportPart):
    """How long workloads waited, in seconds."""

    started: Count
    p50: Seconds | None
    p95: Seconds | None
    longest: Seconds | None
    still: Count
    still_longest: Seconds | None


class UnitDocument(ReportPart):
    """The cost of one unit of work."""

    within = ("unit",)
    name: str
    per: Price
    only: dict[str, str]
    usd: Usd | None
    count: float | None
    usd_per: Annotated[Price, AfterValidator(lambda usd: round(usd, 6))] | None
    why_not: Annotated[str | None, says("why usd_per is null")]


class PeaksDocument(ReportPart):
    """What a workload used at most."""

    workload: str
    team: str
    kind: Annotated[str, says("of GPU; empty where it held no whole ones")]
    usd: Usd
    peak_engine: Rounded | None
    peak_memory: Rounded | None
    gpus: Annotated[Count | None, says("held at once at most")]
    gpus_used: Annotated[Count | None, says("in use at once at most")]
    hours: Hours


class RightSizeDocument(PeaksDocument):
    """A workload that would fit something smaller."""

    within = ("peaks",)
    to: str
    way: Annotated[str, word(Way)]
    saves_usd: Cents | None


class PoolChangeDocument(ReportPart):
    """A pool to add or to merge into another, estimated from the month's work; each change stands alone."""

    way: Annotated[str, word(PoolWay)]
    gpus: Annotated[Count, says("of a node of the pool")]
    smallest: Annotated[Count, says("GPUs of the smallest pods that need the pool's size")]
    pool: Annotated[str, says("the pool to merge; empty: a pool to add")]
    beside: Annotated[str, says("the pool with the next larger nodes")]
    usd: Annotated[Cents, says("of the same work with the present pools, in the same estimate")]
    changed_usd: Annotated[Cents, says("with the change")]
    saves_usd: Annotated[Cents, says("negative: the change costs more")]
    share: Annotated[Rounded, says("of the GPU-hours, by pods that need the pool's size")]
    sentence: str


class BaselineDocument(ReportPart):
    """How many nodes of a size there always were."""

    size: str
    always: Annotated[Count, says("nodes at every moment")]
    any_hours: Annotated[Hours, says("with at least one node")]
    peak: Annotated[Count, says("nodes at most")]


class CommitmentDocument(ReportPart):
    """What a commitment would have saved."""

    within = ("commitment",)
    size: str
    term_months: Count
    usd_per_hour: Price
    on_demand_usd_per_hour: Price | None
    break_even: Annotated[Rounded | None, says("of all hours")]
    recommended: Annotated[Count | None, says("nodes")]
    saves_usd: Cents | None


class CommittedDocument(ReportPart):
    """What one committed node more or fewer would have saved in the whole month; negative: it would have cost more."""

    pool: str
    nodes: Annotated[Count, says("paid for, whether or not they exist")]
    usd_per_hour: Price
    until: Instant
    beyond_hours: Annotated[Hours, says("with more nodes than that")]
    held_hours: Annotated[Hours, says("for which work held the GPUs of a node")]
    more_saves_usd: Cents
    fewer_saves_usd: Cents


class AlwaysOnDocument(ReportPart):
    """What every pool at its peak would have cost."""

    usd: Cents | None
    spent_usd: Cents | None
    saved_usd: Cents | None
    saved_ratio: Annotated[float, AfterValidator(lambda number: round(number, 4))] | None
    peaks: dict[str, Count]
    since: dict[str, Instant]
    left_out: Annotated[Listed[str], says("pools without a price")]


class IdleNamespace(ReportPart):
    """A namespace of idle workloads."""

    name: str
    held: AmountDocument
    saved: AmountDocument


class IdleRow(ReportPart):
    """An idle workload: what it held for too long, or what ending it saved."""

    namespace: str
    workload: str
    team: str
    ended: Annotated[bool, says("whether it was scaled to zero, so that the amounts are saved")]
    times: Count
    gpu_hours: Hours
    usd: Usd


class IdleWorkloads(ReportPart):
    """What workloads held although they were idle for longer than they may be, at list price, beside the month's
    cost."""

    held: Annotated[AmountDocument, says("by those that were not ended")]
    saved: Annotated[AmountDocument, says("by ending others, until they ran again, a day at most: an estimate")]
    namespaces: Listed[IdleNamespace]
    workloads: Annotated[Listed[IdleRow], says("the first 50")]
    workloads_total: Annotated[Count, says("how many there are")]

    @classmethod
    def made_of(cls, costs: Sequence[IdleCost]) -> Self:
        """Return the document of *costs*."""
        names = sorted({each.namespace for each in costs})
        return cls(
            held=_idle_amount(costs, ended=False),
            saved=_idle_amount(costs, ended=True),
            namespaces=tuple(
                IdleNamespace(
                    name=name,
                    held=_idle_amount(costs, ended=False, namespace=name),
                    saved=_idle_amount(costs, ended=True, namespace=name),
                )
                for name in names
            ),
            workloads=tuple(IdleRow.of(each) for each in costs[:LISTED]),
            workloads_total=len(costs),
        )


def _idle_amount(costs: Iterable[IdleCost], *, ended: bool, namespace: str | None = None) -> AmountDocument:
    rows = [each for each in costs if each.ended is ended and namespace in (None, each.namespace)]
    return AmountDocument(gpu_hours=sum(row.gpu_hours for row in rows), usd=sum((row.usd for row in rows), Decimal(0)))


class DayDocument(ReportPart):
    """One day's money."""

    day: date
    usd: Usd
    idle_usd: Usd


class ReportLine(ReportPart):
    """One line: what it came to, whose it was, and what it cost. An empty name: none."""

    within = ("whose", "whose.owner")
    paid_for: Annotated[str, word(PaidFor)]
    pool: str
    size: str
    kind: str
    namespace: str
    workload: str
    team: str
    project: str
    workload_class: str
    environment: str
    cost_center: str
    priority_class: str
    gpu_hours: Hours
    usd: Usd


class ReportDocument(ReportPart):
    """The report of a month. Its lines add up to usd."""

    # The server that answers adds the name of its cluster; what an older version stored lacks the others.
    sometimes = ("cluster_name", "pool_changes", "committed", "idle_workloads", "unallocated")
    within = ("everything", "everything.total", "measured")
    paths: ClassVar = {
        "month": "month.name",
        "since": "month.start",
        "nobodys": "nobodys.total",
        "measured": "measured.coverage",
        "commitments": "commitments.offers",
        "committed": "commitments.pools",
    }
    cluster_name: Annotated[str, says("as configured")] = ""
    month: Month
    timezone: str
    since: Annotated[Instant, says("", alias="from")]
    until: Instant
    began: Annotated[Instant | None, says("when the ledger did, where that is later")]
    observed_from: Instant | None
    over: Annotated[bool, says("whether the month is")]
    complete: Annotated[bool, says("whether all of it is known")]
    finalised: Annotated[Instant | None, says("when it was kept for good")]
    team: Annotated[str | None, says("null: everybody's")]
    gpu_hours: Hours
    usd: Usd
    paid_for: PaidForDocument
    idle: Annotated[AmountDocument, says("unused: held and idle, and unallocated, together")]
    nobodys: Annotated[AmountDocument, says("in no team's report")]
    unallocated: Annotated[str, word(Unallocated), says("whose the cost of what no workload held is")] = (
        Unallocated.SEPARATE
    )
    efficiency: Rounded | None
    efficiency_target: Ratio | None
    memory_waste: Rounded | None
    utilization: Rounded | None
    measured: Annotated[Rounded | None, says("the part of the held time that has samples")]
    kinds: Listed[CostRow]
    teams: Listed[TeamRow]
    unlabelled: Unlabelled
    unpriced: Annotated[Listed[str], says("sizes whose nodes have no price and are in no amount")]
    consumers: Annotated[Listed[Consumer], says("the ten dearest workloads")]
    consumers_total: Annotated[Count, says("how many there are")]
    budget: Annotated[ReportBudget | None, says("that of the report's scope")]
    budgets: Listed[ReportBudget]
    standstills: Annotated[Listed[StandstillDocument], says("when pools did not grow; the first 50")]
    standstills_total: Annotated[Count, says("how many there are")]
    jobs: JobsDocument
    waits: WaitsDocument
    per_workload_usd: Annotated[Cents | None, says("mean; null: there were none")]
    per_completed_usd: Annotated[Cents | None, says("mean; null: there were none")]
    units: Listed[UnitDocument]
    right_sizes: Annotated[Listed[RightSizeDocument], says("the ten largest savings")]
    right_sizes_total: Annotated[Count, says("how many there are")]
    right_sizes_usd: Annotated[Cents, says("what all of them save")]
    tight: Annotated[Listed[PeaksDocument], says("workloads that fill their memory")]
    pool_changes: Annotated[Listed[PoolChangeDocument], says("pools worth adding or merging; empty for a team")] = ()
    baselines: Listed[BaselineDocument]
    commitments: Listed[CommitmentDocument]
    committed: Annotated[Listed[CommittedDocument], says("of pools with committed nodes; empty for a team")] = ()
    always_on: Annotated[AlwaysOnDocument | None, says("null for a team")]
    idle_workloads: Annotated[IdleWorkloads | None, says("null: none was idle for too long")] = None
    days: Listed[DayDocument]
    lines: Annotated[Listed[ReportLine], says("the dearest first")]

    @classmethod
    def of(cls, value: Report, finalised: datetime | None = None, **more: Any) -> Self:
        """Return the document of *value*; *finalised* is when it was closed, None for one made on request."""
        owners = {line.whose.workload: line.whose.owner for line in reversed(value.lines)}
        return super().of(
            value,
            finalised=finalised,
            paid_for={each.value: value.everything.of(each) for each in PaidFor},
            teams=[
                TeamRow.of(part, burn_usd_per_hour=burn(part.total.usd, value.seen_since, value.until))
                for part in value.teams
            ],
            unlabelled=Unlabelled.of(value.unlabelled.total, namespaces=value.unlabelled_in[:TOP]),
            consumers=[
                Consumer.of(part, team=owners[part.name].team, project=owners[part.name].project)
                for part in value.workloads[:TOP]
            ],
            consumers_total=len(value.workloads),
            standstills=value.standstills[:LISTED],
            standstills_total=len(value.standstills),
            right_sizes=value.right_sizes[:TOP],
            right_sizes_total=len(value.right_sizes),
            right_sizes_usd=sum((size.saves_usd for size in value.right_sizes), Decimal(0)),
            tight=value.tight[:TOP],
            idle_workloads=IdleWorkloads.made_of(value.idle_costs) if value.idle_costs else None,
            **more,
        )


class CostsLine(Published):
    """What one team, pool or other owner cost."""

    part: Annotated[str, word(Part)] = ""
    key: Annotated[str, says("empty for what was not held")] = ""
    usd: Usd = Decimal(0)
    burn_usd_per_hour: Annotated[Cents | None, says("mean of the month; null before a day of it")] = None
    gpu_hours: Positive = 0.0
    measured_gpu_hours: Positive = 0.0
    idle_gpu_hours: Positive = 0.0
    idle_usd: Usd = Decimal(0)
    utilization: Annotated[Ratio | None, says("null: nothing was measured")] = None
    memory: Ratio | None = None


class CostsDocument(Published):
    """What a month has cost, by one thing. The lines add up to total_usd."""

    paths: ClassVar = {"total_usd": "usd"}
    month: Month = ""
    by: Annotated[str, word(By)] = ""
    until: Annotated[Instant | None, says("up to when it counts")] = None
    observed_from: Annotated[Instant | None, says("from when on it is known who held GPUs")] = None
    complete: Annotated[bool, says("whether all of the month is known and over")] = False
    total_usd: Usd = Decimal(0)
    unallocated: Annotated[str, word(Unallocated), says("whose the cost of what no workload held is")] = (
        Unallocated.SEPARATE
    )
    unpriced: Annotated[Listed[str], says("sizes without a price, not in it")] = ()
    lines: Listed[CostsLine] = ()
