"""A report as a document: what the API answers, and what every format is made from (docs/http-api.md names the keys).

USD amounts are exact Decimals, hours rounded to a thousandth, ratios to four digits, waits in seconds.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from receiver.core.model.usage import Owner
from receiver.core.report.budget_lines import BudgetLine, Standstill
from receiver.core.report.lines import Amount, CostLine, PaidFor, Subtotal
from receiver.core.report.report import Report
from receiver.core.report.rightsizing import Peaks, RightSize

CENT = Decimal("0.01")
TOP = 10  # consumers, suggestions and namespaces that are listed; the lines have them all
LISTED = 50  # standstills
OWNER = tuple(Owner.__slots__)


EVERYBODY = "everybody"


def scope_of(team: str | None) -> str:
    """What a report of *team* is kept under, None: everybody's."""
    return EVERYBODY if team is None else f"team:{team}"


def document_of(found: Report, finalised: datetime | None = None) -> dict[str, Any]:
    """Return *found* with nothing in it that is not a mapping, list, number, text, Decimal or datetime.

    *finalised* is when it was kept for good, None for one that is worked out anew.
    """
    return {
        "month": found.month.name,
        "timezone": found.timezone,
        "from": found.month.start,
        "until": found.until,
        "began": found.began,
        "observed_from": found.observed_from,
        "over": found.over,
        "complete": found.complete,
        "finalised": finalised,
        "team": found.team,
        **_spent(found),
        "budget": _budget(found.budget),
        "budgets": [_budget(line) for line in found.budgets],
        "standstills": [_standstill(each) for each in found.standstills[:LISTED]],
        "standstills_total": len(found.standstills),
        **_work(found),
        **_smaller(found),
        **_committed(found),
        "always_on": _always_on(found),
        "days": [{"day": day.day.isoformat(), "usd": day.usd, "idle_usd": day.idle_usd} for day in found.days],
        "lines": [_line(line) for line in found.lines],
    }


def _spent(found: Report) -> dict[str, Any]:
    """What was paid, for what, and whose it was."""
    return {
        **_amount(found.everything.total),
        "paid_for": {each.value: _amount(found.everything.of(each)) for each in PaidFor},
        "idle": _amount(found.everything.idle),
        "nobodys": _amount(found.nobodys.total),
        "efficiency": _ratio(found.everything.efficiency),
        "efficiency_target": found.efficiency_target,
        "memory_waste": _ratio(found.measured.memory_waste),
        "utilization": _ratio(found.measured.utilization),
        "measured": _ratio(found.measured.coverage),
        "kinds": [_part(part) for part in found.kinds],
        "teams": [_part(part) for part in found.teams],
        "unlabelled": {
            **_amount(found.unlabelled.total),
            "namespaces": [_part(part) for part in found.unlabelled_in[:TOP]],
        },
        "unpriced": list(found.unpriced),
        "consumers": [{**_part(part), **_owner(part.name, found.lines)} for part in found.workloads[:TOP]],
        "consumers_total": len(found.workloads),
    }


def _work(found: Report) -> dict[str, Any]:
    """What work was done, how long it waited, and what each piece of it cost."""
    return {
        "jobs": {name: getattr(found.jobs, name) for name in type(found.jobs).__slots__},
        "waits": {name: _seconds(getattr(found.waits, name)) for name in type(found.waits).__slots__},
        "per_workload_usd": _cents(found.per_workload_usd),
        "per_completed_usd": _cents(found.per_completed_usd),
        "units": [
            {
                "name": cost.unit.name,
                "per": cost.unit.per,
                "only": dict(cost.unit.only),
                "usd": cost.usd,
                "count": cost.count,
                "usd_per": None if cost.usd_per is None else round(cost.usd_per, 6),
                "why_not": cost.why_not,
            }
            for cost in found.units
        ],
    }


def _smaller(found: Report) -> dict[str, Any]:
    """What would fit something smaller, and what hardly fits what it has."""
    return {
        "right_sizes": [_right_size(size) for size in found.right_sizes[:TOP]],
        "right_sizes_total": len(found.right_sizes),
        "right_sizes_usd": _cents(sum((size.saves_usd for size in found.right_sizes), Decimal(0))),
        "tight": [_peaks(peaks) for peaks in found.tight[:TOP]],
    }


def _committed(found: Report) -> dict[str, Any]:
    """What existed all the time, and what each commitment would have saved."""
    return {
        "baselines": [
            {"size": b.size, "always": b.always, "any_hours": hours(float(b.any_hours)), "peak": b.peak}
            for b in found.baselines
        ],
        "commitments": [
            {
                "size": advice.commitment.size,
                "term_months": advice.commitment.term_months,
                "usd_per_hour": advice.commitment.usd_per_hour,
                "on_demand_usd_per_hour": advice.on_demand_usd_per_hour,
                "break_even": None if advice.break_even is None else _ratio(float(advice.break_even)),
                "recommended": advice.recommended,
                "saves_usd": _cents(advice.saves_usd),
            }
            for advice in found.commitments
        ],
    }


def hours(number: float) -> float:
    """GPU-hours to a thousandth."""
    return round(number, 3)


def _amount(amount: Amount) -> dict[str, Any]:
    return {"gpu_hours": hours(amount.gpu_hours), "usd": amount.usd}


def _part(part: Subtotal) -> dict[str, Any]:
    """One row: everything, what of it was idle, and the efficiency."""
    return {
        "name": part.name,
        **_amount(part.total),
        "idle_gpu_hours": hours(part.idle.gpu_hours),
        "idle_usd": part.idle.usd,
        "efficiency": _ratio(part.efficiency),
    }


def _owner(workload: str, lines: Iterable[CostLine]) -> Mapping[str, str]:
    owner = next(line.whose.owner for line in lines if line.whose.workload == workload)
    return {"team": owner.team, "project": owner.project}


def _line(line: CostLine) -> dict[str, Any]:
    whose = line.whose
    return {
        "paid_for": whose.paid_for.value,
        "pool": whose.pool,
        "size": whose.size,
        "kind": whose.kind,
        "namespace": whose.namespace,
        "workload": whose.workload,
        **{name: getattr(whose.owner, name) for name in OWNER},
        **_amount(Amount(gpu_hours=line.gpu_hours, usd=line.usd)),
    }


def _peaks(peaks: Peaks) -> dict[str, Any]:
    return {
        "workload": peaks.workload,
        "team": peaks.team,
        "kind": peaks.kind,
        "usd": peaks.usd,
        "peak_engine": _ratio(peaks.peak_engine),
        "peak_memory": _ratio(peaks.peak_memory),
        "gpus": peaks.gpus,
        "gpus_used": peaks.gpus_used,
        "hours": hours(peaks.hours),
    }


def _right_size(size: RightSize) -> dict[str, Any]:
    return {**_peaks(size.peaks), "to": size.to, "way": size.way.value, "saves_usd": _cents(size.saves_usd)}


def _budget(line: BudgetLine | None) -> dict[str, Any] | None:
    if line is None:
        return None
    return {
        "scope": line.scope.value,
        "name": line.name,
        "monthly_usd": line.monthly_usd,
        "spent_usd": _cents(line.spent_usd),
        "left_usd": _cents(line.left_usd),
        "seeded_usd": _cents(line.seeded_usd),
        "ratio": None if line.ratio is None else _ratio(float(line.ratio)),
        "stage": None if line.stage is None else line.stage.value,
        "hold_at": _ratio(float(line.hold_at)),
        "stop_at": _ratio(float(line.stop_at)),
        "forecast_burn_usd": _cents(line.forecast.burn),
        "forecast_trend_usd": _cents(line.forecast.trend),
        "forecast_since": line.forecast.since,
        "set_by": line.change.who if line.change else None,
        "why": line.change.why if line.change else None,
    }


def _standstill(found: Standstill) -> dict[str, Any]:
    return {
        "kind": found.kind.value,
        "pool": found.pool,
        "from": found.since,
        "until": found.until,
        "why": found.why,
        "who": found.who,
    }


def _always_on(found: Report) -> dict[str, Any] | None:
    compared = found.always_on
    if compared is None:
        return None
    return {
        "usd": _cents(compared.usd),
        "spent_usd": _cents(compared.spent_usd),
        "saved_usd": _cents(compared.saved_usd),
        "saved_ratio": None if compared.saved_ratio is None else _ratio(float(compared.saved_ratio)),
        "peaks": dict(compared.peaks),
        "since": dict(compared.since),
        "left_out": list(compared.left_out),
    }


def _cents(usd: Decimal | None) -> Decimal | None:
    return None if usd is None else usd.quantize(CENT, rounding=ROUND_HALF_EVEN)


def _ratio(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def _seconds(value: timedelta | int | None) -> float | int | None:
    return value.total_seconds() if isinstance(value, timedelta) else value
