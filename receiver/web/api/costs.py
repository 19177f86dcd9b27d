"""GET /api/v1/costs: what a month has cost, and whose that was."""

import re
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, Response, jsonify, request

from receiver.core.money.attribution import By, Line
from receiver.core.money.budget import Month, month_of
from receiver.core.money.cost import amount
from receiver.core.report.lines import told_by
from receiver.reports.gather import costs_of
from receiver.web.api.documents import moment
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

HOUR = 3600.0


def add_costs(routes: Blueprint, parts: WebParts) -> None:
    """Add the route to *routes*."""

    @routes.get("/costs")
    def costs() -> Response:
        now = parts.clock.now()
        month, by = month_asked(parts, now), by_asked()
        found = costs_of(parts.store, parts.policy, month, now)
        return jsonify(
            {
                "month": month.name,
                "by": by.value,
                "until": moment(min(now, month.end)),
                "observed_from": moment(found.observed_from) if found.observed_from else None,
                "complete": found.complete,
                "total_usd": amount(found.usd),
                "unpriced": list(found.unpriced),
                "lines": [line_document(line) for line in told_by(found, by, parts.policy)],
            }
        )


def month_asked(parts: WebParts, now: datetime) -> Month:
    """Return the query's *month*, this one without; Problem 400 unless it is one that has begun."""
    this = month_of(now, parts.policy.timezone)
    text = request.args.get("month", this.name)
    if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", text) or text > this.name or text < "1970-02":
        raise Problem(
            400,
            "month is not a month that has begun",
            f"write it as {this.name}, or leave it out for this month",
            field="month",
        )
    year, number = (int(part) for part in text.split("-"))
    return month_of(datetime(year, number, 15, tzinfo=UTC), parts.policy.timezone)


def by_asked() -> By:
    """Return the query's *by*, the team without; Problem 400 unless cost is told by it."""
    text = request.args.get("by", By.TEAM.value)
    try:
        return By(text)
    except ValueError:
        known = [by.value for by in By]
        raise Problem(
            400, "cost is not told by this", f"use one of: {', '.join(known)}", field="by", known=known
        ) from None


def line_document(line: Line) -> dict[str, Any]:
    """Return one line; what was not measured is null."""
    return {
        "part": line.part.value,
        "key": line.key,
        "usd": amount(line.usd),
        "gpu_hours": line.seconds / HOUR,
        "measured_gpu_hours": line.measured / HOUR,
        "idle_gpu_hours": line.idle / HOUR,
        "idle_usd": amount(line.idle_usd),
        "utilization": line.busy / line.measured if line.measured else None,
        "memory": line.memory / line.measured if line.measured else None,
    }
