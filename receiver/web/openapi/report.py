"""Schema of a month's report."""

from receiver.core.model.policy import Scope
from receiver.core.money.budget import BudgetStage
from receiver.core.report.budget_lines import Stood
from receiver.core.report.lines import PaidFor
from receiver.core.report.rightsizing import Way
from receiver.web.openapi.shapes import (
    Schema,
    by_name,
    count,
    exact,
    fields,
    listed,
    maybe,
    moment,
    month,
    number,
    one_of,
    ratio,
    shared,
    text,
    usd,
    yes_or_no,
)

_HOURS = number(minimum=0)
_AMOUNT = {"gpu_hours": _HOURS, "usd": usd()}
_ROW = {
    "name": text("empty: no label"),
    **_AMOUNT,
    "idle_gpu_hours": _HOURS,
    "idle_usd": usd(),
    "efficiency": maybe(ratio("the part that was used")),
}
_PEAKS = {
    "workload": text(),
    "team": text(),
    "kind": text("of GPU; empty where it held no whole ones"),
    "usd": usd(),
    "peak_engine": maybe(ratio()),
    "peak_memory": maybe(ratio()),
    "gpus": maybe(count("held at once at most")),
    "gpus_used": maybe(count("in use at once at most")),
    "hours": _HOURS,
}
AMOUNT = fields("GPU-hours and money.", _AMOUNT)
COST_ROW = fields("One row of a report.", _ROW)
REPORT_BUDGET = fields(
    "A budget in a report.",
    {
        "scope": one_of(Scope),
        "name": text(),
        "monthly_usd": usd(),
        "spent_usd": maybe(usd()),
        "left_usd": maybe(usd()),
        "ratio": maybe(ratio()),
        "stage": maybe(one_of(BudgetStage)),
        "hold_at": ratio(),
        "stop_at": ratio(),
        "forecast_burn_usd": maybe(usd()),
        "forecast_trend_usd": maybe(usd()),
        "set_by": maybe(text()),
        "why": maybe(text()),
    },
    {
        "seeded_usd": usd("of spent_usd: from before the ledger began, counted in full in each budget"),
        "forecast_since": maybe(moment("from when on the trend has its pace")),
    },
)
_ABOUT: dict[str, Schema] = {
    "month": month(),
    "timezone": text(),
    "from": moment(),
    "until": moment(),
    "began": maybe(moment("when the ledger did, where that is later")),
    "observed_from": maybe(moment()),
    "over": yes_or_no("whether the month is"),
    "complete": yes_or_no("whether all of it is known"),
    "finalised": maybe(moment("when it was kept for good")),
    "team": maybe(text("null: everybody's")),
}
_SPENT: dict[str, Schema] = {
    **_AMOUNT,
    "paid_for": fields("", {str(each): shared("Amount") for each in PaidFor}),
    "idle": shared("Amount"),
    "nobodys": shared("Amount"),
    "efficiency": maybe(ratio()),
    "efficiency_target": maybe(ratio()),
    "memory_waste": maybe(ratio()),
    "utilization": maybe(ratio()),
    "measured": maybe(ratio("the part of the held time that has samples")),
    "kinds": listed(shared("CostRow")),
    "teams": listed(shared("CostRow")),
    "unlabelled": fields("", {**_AMOUNT, "namespaces": listed(shared("CostRow"))}),
    "unpriced": listed(text()),
    "consumers": listed(fields("", {**_ROW, "team": text(), "project": text()}), "the ten dearest workloads"),
    "consumers_total": count(),
    "budget": maybe(shared("ReportBudget")),
    "budgets": listed(shared("ReportBudget")),
}
_WORK: dict[str, Schema] = {
    "standstills": listed(
        fields(
            "When a pool did not grow.",
            {
                "kind": one_of(Stood),
                "pool": text(),
                "from": moment(),
                "until": maybe(moment("null: still")),
                "why": text(),
                "who": maybe(text()),
            },
        )
    ),
    "standstills_total": count(),
    "jobs": fields(
        "", {name: count() for name in ("seen", "completed", "failed", "running", "waiting", "gone", "gave_up")}
    ),
    "waits": fields(
        "In seconds.",
        {
            "started": count(),
            **{name: maybe(number(minimum=0)) for name in ("p50", "p95", "longest", "still_longest")},
            "still": count(),
        },
    ),
    "per_workload_usd": maybe(usd()),
    "per_completed_usd": maybe(usd()),
    "units": listed(
        fields(
            "The cost of one unit of work.",
            {
                "name": text(),
                "per": exact(),
                "only": by_name(text()),
                "usd": maybe(usd()),
                "count": maybe(number()),
                "usd_per": maybe(usd()),
                "why_not": maybe(text()),
            },
        )
    ),
}
_SMALLER: dict[str, Schema] = {
    "right_sizes": listed(
        fields(
            "What would fit something smaller.", {**_PEAKS, "to": text(), "way": one_of(Way), "saves_usd": maybe(usd())}
        )
    ),
    "right_sizes_total": count(),
    "right_sizes_usd": usd(),
    "tight": listed(fields("Workloads that fill their memory.", _PEAKS)),
    "baselines": listed(fields("", {"size": text(), "always": count(), "any_hours": _HOURS, "peak": count()})),
    "commitments": listed(
        fields(
            "",
            {
                "size": text(),
                "term_months": count(),
                "usd_per_hour": usd(),
                "on_demand_usd_per_hour": maybe(usd()),
                "break_even": maybe(ratio("of all hours")),
                "recommended": maybe(count("nodes")),
                "saves_usd": maybe(usd()),
            },
        )
    ),
    "always_on": maybe(
        fields(
            "What every pool at its peak would have cost.",
            {
                "usd": maybe(usd()),
                "spent_usd": maybe(usd()),
                "saved_usd": maybe(usd()),
                "saved_ratio": maybe(number()),
                "peaks": by_name(count()),
                "since": by_name(moment()),
                "left_out": listed(text(), "pools without a price"),
            },
        )
    ),
    "days": listed(fields("", {"day": {"type": "string", "format": "date"}, "usd": usd(), "idle_usd": usd()})),
}
_NAMES = (
    "pool",
    "size",
    "kind",
    "namespace",
    "workload",
    "team",
    "project",
    "workload_class",
    "environment",
    "cost_center",
    "priority_class",
)
REPORT_LINE = fields(
    "One line: what it came to, whose it was, and what it cost. An empty name: none.",
    {"paid_for": one_of(PaidFor), **{name: text() for name in _NAMES}, **_AMOUNT},
)
REPORT = fields(
    "The report of a month. Its lines add up to usd.",
    {**_ABOUT, **_SPENT, **_WORK, **_SMALLER, "lines": listed(shared("ReportLine"), "the dearest first")},
)
SCHEMAS: dict[str, Schema] = {
    "Amount": AMOUNT,
    "CostRow": COST_ROW,
    "ReportBudget": REPORT_BUDGET,
    "ReportLine": REPORT_LINE,
    "Report": REPORT,
}
