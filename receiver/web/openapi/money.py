"""Schemas of budgets, Civo's charges, and what a month has cost."""

from receiver.core.model.charges import DifferenceCause
from receiver.core.model.policy import Scope
from receiver.core.money.attribution import By, Part
from receiver.core.money.budget import BudgetStage
from receiver.web.openapi.shapes import (
    WORDS,
    Schema,
    count,
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

SET_BY = fields(
    "Who set the allowance for this month.", {"who": text(), "why": text(), "at": moment(), "month": month()}
)
_MONEY = {
    "month": maybe(month()),
    "monthly_usd": maybe(usd("the allowance")),
    "spent_usd": maybe(usd("null: nobody can tell")),
    "reserved_usd": maybe(usd("kept aside for what was decided")),
    "ratio": maybe(ratio("of the allowance")),
    "stage": maybe(one_of(BudgetStage)),
    "warn_at": maybe(ratio()),
    "hold_at": maybe(ratio()),
    "stop_at": maybe(ratio()),
}
_SCOPED = {
    "scope": one_of(Scope),
    "name": text("of the pool or team, else empty"),
    "title": text("what people call it"),
    "unknown": text("why its spend cannot be told, else empty"),
    "unpriced": listed(text(), "sizes whose nodes have no price and are not counted"),
    "uncounted": listed(text(), "charges without a price"),
    "forecast_burn_usd": maybe(usd("the month's end, if what runs now goes on")),
    "forecast_trend_usd": maybe(usd("the month's end, if the pace since forecast_since goes on")),
    "forecast_since": maybe(moment("when the month or the ledger began, whichever is later")),
    "set_by": maybe(shared("SetBy")),
}
SCOPED_BUDGET = fields("One budget.", {**_MONEY, **_SCOPED})
BUDGET = fields(
    "The cluster's budget, and every budget that is set. Without one all is null but configured.",
    {
        "configured": yes_or_no(),
        **_MONEY,
        "scopes": maybe(listed(shared("ScopedBudget"))),
        "kept_out": maybe(
            listed(
                fields("", {"place": text("a namespace, or ClusterQueue and its name"), "since": moment()}),
                "where new GPU work is kept out; null while nobody has looked",
            )
        ),
    },
    _SCOPED,
)
BUDGET_ASKED: Schema = {
    **fields(
        "An allowance for the current month.",
        {
            "scope": one_of(Scope),
            "monthly_usd": {
                "type": ["string", "number"],
                "minimum": 0,
                "exclusiveMaximum": 1_000_000_000_000,
                "pattern": r"^[0-9]{1,12}(\.[0-9]+)?$",
                "description": "USD, 0 or more and below a trillion",
            },
            "who": text("the person", **WORDS),
            "why": text("the reason", **WORDS),
        },
        {"name": maybe(text("the pool's name or id, or the team; none for cluster and account"))},
    ),
    "additionalProperties": False,
}
BUDGET_CHANGE = fields(
    "What was set.",
    {
        "scope": one_of(Scope),
        "name": text(),
        "month": month(),
        "monthly_usd": maybe(usd("null: the configured one again")),
        "who": text(),
        "why": text(),
        "at": moment(),
    },
)
CHARGES = fields(
    "What Civo charged this month beside the ledger. All is null before Civo was first asked.",
    {
        "month": maybe(month()),
        "asked_at": maybe(moment()),
        "answered_at": maybe(moment("when the records were read")),
        "failure": maybe(text("why the last question had no answer, else empty")),
        "records": maybe(count()),
        "unreadable": maybe(listed(text(), "what is wrong with each record that could not be read")),
        "account_usd": maybe(usd("what the whole account has cost")),
        "unpriced": maybe(listed(fields("", {"code": text(), "hours": number(minimum=0)}))),
        "sizes": maybe(
            listed(
                fields(
                    "",
                    {
                        "size": text(),
                        "ledger_hours": number(),
                        "charged_hours": number(),
                        "difference_hours": number("charged less ledger"),
                        "lives": count(),
                        "records": count(),
                        "equal": count("within an hour"),
                    },
                )
            )
        ),
        "differences": maybe(
            listed(
                fields(
                    "",
                    {
                        "size": text(),
                        "name": text(),
                        "ledger_hours": number(),
                        "charged_hours": number(),
                        "cause": one_of(DifferenceCause),
                        "why": text(),
                        "usd": maybe(usd("charged less ledger")),
                    },
                )
            )
        ),
        "differences_total": maybe(count("of which at most 200 are listed")),
    },
)
COSTS = fields(
    "What a month has cost, by one thing. The lines add up to total_usd.",
    {
        "month": month(),
        "by": one_of(By),
        "until": moment("up to when it counts"),
        "observed_from": maybe(moment("from when on it is known who held GPUs")),
        "complete": yes_or_no(),
        "total_usd": usd(),
        "unpriced": listed(text(), "sizes without a price, not in it"),
        "lines": listed(
            fields(
                "",
                {
                    "part": one_of(Part),
                    "key": text("empty for what nobody held"),
                    "usd": usd(),
                    "gpu_hours": number(minimum=0),
                    "measured_gpu_hours": number(minimum=0),
                    "idle_gpu_hours": number(minimum=0),
                    "idle_usd": usd(),
                    "utilization": maybe(ratio("null: nothing was measured")),
                    "memory": maybe(ratio()),
                },
            )
        ),
    },
)
SCHEMAS: dict[str, Schema] = {
    "SetBy": SET_BY,
    "ScopedBudget": SCOPED_BUDGET,
    "Budget": BUDGET,
    "BudgetAsked": BUDGET_ASKED,
    "BudgetChange": BUDGET_CHANGE,
    "Charges": CHARGES,
    "Costs": COSTS,
}
