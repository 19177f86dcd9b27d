"""The report of a month as a document: what the API answers, what is kept of a closed month, and what text, CSV and the
page are made from.

Amounts of USD are exact, GPU-hours rounded to a thousandth, ratios to four digits, waits in seconds.
"""

from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator

from receiver.core.model.policy import Scope
from receiver.core.model.usage import Owner
from receiver.core.money.budget import BudgetStage
from receiver.core.money.cost import CENT
from receiver.core.report.always_on import AlwaysOn, CommitmentAdvice
from receiver.core.report.budget_lines import BudgetLine, Stood
from receiver.core.report.lines import CostLine, PaidFor, Subtotal, UnitCost
from receiver.core.report.report import Report
from receiver.core.report.rightsizing import RightSize, Way
from receiver.reports.published import (
    Count,
    Instant,
    Listed,
    Month,
    Positive,
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
Cents = Annotated[Usd, AfterValidator(lambda usd: usd.quantize(CENT, rounding=ROUND_HALF_EVEN))]


def scope_of(team: str | None) -> str:
    """Return the scope under which the closed report of *team* (None: of all teams) is stored."""
    return EVERYBODY if team is None else f"team:{team}"


class AmountDocument(Published):
    """GPU-hours and money."""

    gpu_hours: Hours
    usd: Usd


class CostRow(Published):
    """One row of a report."""

    name: Annotated[str, says("empty: no label")]
    gpu_hours: Hours
    usd: Usd
    idle_gpu_hours: Hours
    idle_usd: Usd
    efficiency: Annotated[Rounded | None, says("the part that was used")]

    @classmethod
    def of(cls, value: Subtotal, **more: Any) -> Self:
        """Return the row of *value*."""
        return super().of(
            value,
            gpu_hours=value.total.gpu_hours,
            usd=value.total.usd,
            idle_gpu_hours=value.idle.gpu_hours,
            idle_usd=value.idle.usd,
            **more,
        )


class Consumer(CostRow):
    """One of the dearest workloads."""

    team: str
    project: str


class Unlabelled(AmountDocument):
    """Work without a team label."""

    namespaces: Listed[CostRow]


class PaidForDocument(Published):
    """What the month's money was paid for."""

    used: AmountDocument
    idle: AmountDocument
    unallocated: AmountDocument
    unwatched: AmountDocument
    ahead: AmountDocument
    seeded: AmountDocument


class ReportBudget(Published):
    """A budget in a report."""

    sometimes = ("seeded_usd", "forecast_since")
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
    forecast_burn_usd: Cents | None
    forecast_trend_usd: Cents | None
    forecast_since: Annotated[Instant | None, says("from when on the trend has its pace")] = None
    set_by: str | None
    why: str | None

    @classmethod
    def of(cls, value: BudgetLine, **more: Any) -> Self:
        """Return the budget of *value*."""
        return super().of(
            value,
            ratio=None if value.ratio is None else float(value.ratio),
            hold_at=float(value.hold_at),
            stop_at=float(value.stop_at),
            forecast_burn_usd=value.forecast.burn,
            forecast_trend_usd=value.forecast.trend,
            forecast_since=value.forecast.since,
            set_by=value.change.who if value.change else None,
            why=value.change.why if value.change else None,
            **more,
        )


class StandstillDocument(Published):
    """When a pool did not grow."""

    kind: Annotated[str, word(Stood)]
    pool: str
    since: Annotated[Instant, says("", alias="from")]
    until: Annotated[Instant | None, says("null: still")]
    why: str
    who: str | None


class JobsDocument(Published):
    """How many workloads there were, and what became of them."""

    seen: Count
    completed: Count
    failed: Count
    running: Count
    waiting: Count
    gone: Count
    gave_up: Count


class WaitsDocument(Published):
    """How long workloads waited, in seconds."""

    started: Count
    p50: Seconds | None
    p95: Seconds | None
    longest: Seconds | None
    still: Count
    still_longest: Seconds | None


class UnitDocument(Published):
    """The cost of one unit of work."""

    name: str
    per: Usd
    only: dict[str, str]
    usd: Usd | None
    count: float | None
    usd_per: Usd | None
    why_not: str | None

    @classmethod
    def of(cls, value: UnitCost, **more: Any) -> Self:
        """Return the cost of one unit."""
        per = None if value.usd_per is None else round(value.usd_per, 6)
        unit = {"name": value.unit.name, "per": value.unit.per, "only": dict(value.unit.only)}
        return super().of(value, usd_per=per, **unit, **more)


class PeaksDocument(Published):
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

    to: str
    way: Annotated[str, word(Way)]
    saves_usd: Cents | None

    @classmethod
    def of(cls, value: RightSize, **more: Any) -> Self:
        """Return the proposal of *value*."""
        return super().of(value.peaks, to=value.to, way=value.way.value, saves_usd=value.saves_usd, **more)


class BaselineDocument(Published):
    """How many nodes of a size there always were."""

    size: str
    always: Count
    any_hours: Hours
    peak: Count


class CommitmentDocument(Published):
    """What a commitment would have saved."""

    size: str
    term_months: Count
    usd_per_hour: Usd
    on_demand_usd_per_hour: Usd | None
    break_even: Annotated[Rounded | None, says("of all hours")]
    recommended: Annotated[Count | None, says("nodes")]
    saves_usd: Cents | None

    @classmethod
    def of(cls, value: CommitmentAdvice, **more: Any) -> Self:
        """Return the advice of *value*."""
        offer = value.commitment
        named = {"size": offer.size, "term_months": offer.term_months, "usd_per_hour": offer.usd_per_hour}
        return super().of(
            value, break_even=None if value.break_even is None else float(value.break_even), **named, **more
        )


class AlwaysOnDocument(Published):
    """What every pool at its peak would have cost."""

    usd: Cents | None
    spent_usd: Cents | None
    saved_usd: Cents | None
    saved_ratio: Annotated[float, AfterValidator(lambda number: round(number, 4))] | None
    peaks: dict[str, Count]
    since: dict[str, Instant]
    left_out: Annotated[Listed[str], says("pools without a price")]

    @classmethod
    def of(cls, value: AlwaysOn, **more: Any) -> Self:
        """Return the comparison of *value*."""
        return super().of(value, saved_ratio=None if value.saved_ratio is None else float(value.saved_ratio), **more)


class DayDocument(Published):
    """One day's money."""

    day: date
    usd: Usd
    idle_usd: Usd


class ReportLine(Published):
    """One line: what it came to, whose it was, and what it cost. An empty name: none."""

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

    @classmethod
    def of(cls, value: CostLine, **more: Any) -> Self:
        """Return the line of *value*."""
        whose = value.whose
        owner = {name: getattr(whose.owner, name) for name in Owner.__slots__}
        return super().of(whose, gpu_hours=value.gpu_hours, usd=value.usd, **owner, **more)


class ReportDocument(Published):
    """The report of a month. Its lines add up to usd."""

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
    idle: AmountDocument
    nobodys: AmountDocument
    efficiency: Rounded | None
    efficiency_target: Ratio | None
    memory_waste: Rounded | None
    utilization: Rounded | None
    measured: Annotated[Rounded | None, says("the part of the held time that has samples")]
    kinds: Listed[CostRow]
    teams: Listed[CostRow]
    unlabelled: Unlabelled
    unpriced: Listed[str]
    consumers: Annotated[Listed[Consumer], says("the ten dearest workloads")]
    consumers_total: Count
    budget: ReportBudget | None
    budgets: Listed[ReportBudget]
    standstills: Listed[StandstillDocument]
    standstills_total: Count
    jobs: JobsDocument
    waits: WaitsDocument
    per_workload_usd: Cents | None
    per_completed_usd: Cents | None
    units: Listed[UnitDocument]
    right_sizes: Listed[RightSizeDocument]
    right_sizes_total: Count
    right_sizes_usd: Cents
    tight: Annotated[Listed[PeaksDocument], says("workloads that fill their memory")]
    baselines: Listed[BaselineDocument]
    commitments: Listed[CommitmentDocument]
    always_on: AlwaysOnDocument | None
    days: Listed[DayDocument]
    lines: Annotated[Listed[ReportLine], says("the dearest first")]

    @classmethod
    def of(cls, value: Report, finalised: datetime | None = None, **more: Any) -> Self:
        """Return the document of *value*; *finalised* is when it was closed, None for one made on request."""
        everything = value.everything
        owners = {line.whose.workload: line.whose.owner for line in reversed(value.lines)}
        return super().of(
            value,
            month=value.month.name,
            since=value.month.start,
            finalised=finalised,
            gpu_hours=everything.total.gpu_hours,
            usd=everything.total.usd,
            paid_for=PaidForDocument(**{each.value: AmountDocument.of(everything.of(each)) for each in PaidFor}),
            idle=AmountDocument.of(everything.idle),
            nobodys=AmountDocument.of(value.nobodys.total),
            efficiency=everything.efficiency,
            memory_waste=value.measured.memory_waste,
            utilization=value.measured.utilization,
            measured=value.measured.coverage,
            kinds=[CostRow.of(part) for part in value.kinds],
            teams=[CostRow.of(part) for part in value.teams],
            unlabelled=Unlabelled.of(
                value.unlabelled.total, namespaces=[CostRow.of(part) for part in value.unlabelled_in[:TOP]]
            ),
            consumers=[
                Consumer.of(part, team=owners[part.name].team, project=owners[part.name].project)
                for part in value.workloads[:TOP]
            ],
            consumers_total=len(value.workloads),
            budget=None if value.budget is None else ReportBudget.of(value.budget),
            budgets=[ReportBudget.of(line) for line in value.budgets],
            standstills=[StandstillDocument.of(each) for each in value.standstills[:LISTED]],
            standstills_total=len(value.standstills),
            jobs=JobsDocument.of(value.jobs),
            waits=WaitsDocument.of(value.waits),
            units=[UnitDocument.of(cost) for cost in value.units],
            right_sizes=[RightSizeDocument.of(size) for size in value.right_sizes[:TOP]],
            right_sizes_total=len(value.right_sizes),
            right_sizes_usd=sum((size.saves_usd for size in value.right_sizes), Decimal(0)),
            tight=[PeaksDocument.of(peaks) for peaks in value.tight[:TOP]],
            baselines=[BaselineDocument.of(base) for base in value.baselines],
            commitments=[CommitmentDocument.of(advice) for advice in value.commitments],
            always_on=None if value.always_on is None else AlwaysOnDocument.of(value.always_on),
            days=[DayDocument.of(day) for day in value.days],
            lines=[ReportLine.of(line) for line in value.lines],
            **more,
        )
