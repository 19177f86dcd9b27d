"""The report of a month as the API answers it: models of what `receiver.core.report.document` makes."""

from datetime import date
from decimal import Decimal
from typing import Annotated

from receiver.core.model.policy import Scope
from receiver.core.money.budget import BudgetStage
from receiver.core.report.budget_lines import Stood
from receiver.core.report.lines import PaidFor
from receiver.core.report.rightsizing import Way
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


class Amount(Published):
    """GPU-hours and money."""

    gpu_hours: Positive
    usd: Usd


class CostRow(Published):
    """One row of a report."""

    name: Annotated[str, says("empty: no label")]
    gpu_hours: Positive
    usd: Usd
    idle_gpu_hours: Positive
    idle_usd: Usd
    efficiency: Annotated[Ratio | None, says("the part that was used")]


class Consumer(CostRow):
    """One of the dearest workloads."""

    team: str
    project: str


class Unlabelled(Amount):
    """Work without a team label."""

    namespaces: Listed[CostRow]


class PaidForDocument(Published):
    """What the month's money was paid for."""

    used: Amount
    idle: Amount
    unallocated: Amount
    unwatched: Amount
    ahead: Amount
    seeded: Amount


class ReportBudget(Published):
    """A budget in a report."""

    sometimes = ("seeded_usd", "forecast_since")
    scope: Annotated[str, word(Scope)]
    name: str
    monthly_usd: Usd
    spent_usd: Usd | None
    left_usd: Usd | None
    seeded_usd: Annotated[Usd, says("of spent_usd: from before the ledger began, counted in full in each budget")] = (
        Decimal(0)
    )
    ratio: Ratio | None
    stage: Annotated[str, word(BudgetStage)] | None
    hold_at: Ratio
    stop_at: Ratio
    forecast_burn_usd: Usd | None
    forecast_trend_usd: Usd | None
    forecast_since: Annotated[Instant | None, says("from when on the trend has its pace")] = None
    set_by: str | None
    why: str | None


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
    p50: Positive | None
    p95: Positive | None
    longest: Positive | None
    still: Count
    still_longest: Positive | None


class UnitDocument(Published):
    """The cost of one unit of work."""

    name: str
    per: Usd
    only: dict[str, str]
    usd: Usd | None
    count: float | None
    usd_per: Usd | None
    why_not: str | None


class PeaksDocument(Published):
    """What a workload used at most."""

    workload: str
    team: str
    kind: Annotated[str, says("of GPU; empty where it held no whole ones")]
    usd: Usd
    peak_engine: Ratio | None
    peak_memory: Ratio | None
    gpus: Annotated[Count | None, says("held at once at most")]
    gpus_used: Annotated[Count | None, says("in use at once at most")]
    hours: Positive


class RightSizeDocument(PeaksDocument):
    """A workload that would fit something smaller."""

    to: str
    way: Annotated[str, word(Way)]
    saves_usd: Usd | None


class BaselineDocument(Published):
    """How many nodes of a size there always were."""

    size: str
    always: Count
    any_hours: Positive
    peak: Count


class CommitmentDocument(Published):
    """What a commitment would have saved."""

    size: str
    term_months: Count
    usd_per_hour: Usd
    on_demand_usd_per_hour: Usd | None
    break_even: Annotated[Ratio | None, says("of all hours")]
    recommended: Annotated[Count | None, says("nodes")]
    saves_usd: Usd | None


class AlwaysOnDocument(Published):
    """What every pool at its peak would have cost."""

    usd: Usd | None
    spent_usd: Usd | None
    saved_usd: Usd | None
    saved_ratio: float | None
    peaks: dict[str, Count]
    since: dict[str, Instant]
    left_out: Annotated[Listed[str], says("pools without a price")]


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
    gpu_hours: Positive
    usd: Usd


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
    gpu_hours: Positive
    usd: Usd
    paid_for: PaidForDocument
    idle: Amount
    nobodys: Amount
    efficiency: Ratio | None
    efficiency_target: Ratio | None
    memory_waste: Ratio | None
    utilization: Ratio | None
    measured: Annotated[Ratio | None, says("the part of the held time that has samples")]
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
    per_workload_usd: Usd | None
    per_completed_usd: Usd | None
    units: Listed[UnitDocument]
    right_sizes: Listed[RightSizeDocument]
    right_sizes_total: Count
    right_sizes_usd: Usd
    tight: Annotated[Listed[PeaksDocument], says("workloads that fill their memory")]
    baselines: Listed[BaselineDocument]
    commitments: Listed[CommitmentDocument]
    always_on: AlwaysOnDocument | None
    days: Listed[DayDocument]
    lines: Annotated[Listed[ReportLine], says("the dearest first")]
