"""The costs of a month as JSON and as a page. The command line writes the page as a file of its own."""

import calendar
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request

from receiver.core.money.attribution import By, Line
from receiver.core.money.budget import Month, month_of
from receiver.core.report.lines import told_by
from receiver.core.report.report import Report
from receiver.reports.document import EVERYBODY, ReportDocument, scope_of
from receiver.reports.monthly import costs_of, report_of
from receiver.web.api.documents import CostsDocument, CostsLine
from receiver.web.errors import Problem
from receiver.web.pages.pictures import month_picture
from receiver.web.pages.show import alone
from receiver.web.parts import WebParts

HOUR = 3600.0  # seconds


def add_report(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /api/v1/report and /api/v1/costs to *routes*."""

    @routes.get("/report")
    def report() -> Response:
        return jsonify(asked_for(parts))

    @routes.get("/costs")
    def costs() -> Response:
        now = parts.clock.now()
        month, by = month_asked(parts, now), by_asked()
        found = costs_of(parts.store, parts.policy, month, now)
        document = CostsDocument.of(
            found,
            month=month.name,
            by=by,
            until=min(now, month.end),
            total_usd=found.usd,
            lines=[_line(line) for line in told_by(found, by, parts.policy)],
        )
        return jsonify(document.document())


def add_costs(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /costs to *routes*."""

    @routes.get("/costs")
    def costs() -> str:
        """Show what a month cost, whose it was, and what lay idle."""
        return render_template(
            "costs.html", layout="base.html", mode=parts.mode, now=parts.clock.now(), **shown(asked_for(parts))
        )


def _line(line: Line) -> CostsLine:
    """One line; what was not measured is null."""
    return CostsLine.of(
        line,
        gpu_hours=line.seconds / HOUR,
        measured_gpu_hours=line.measured / HOUR,
        idle_gpu_hours=line.idle / HOUR,
        utilization=line.busy / line.measured if line.measured else None,
        memory=line.memory / line.measured if line.measured else None,
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


def asked_for(parts: WebParts) -> dict[str, Any]:
    """Return the document of the month and team in the query; Problem 400 or 404 with what can be asked for."""
    now = parts.clock.now()
    month, team = month_asked(parts, now), request.args.get("team")
    if month.end <= now:
        closed = _closed(parts, month, team, now)
        if closed is not None:
            return closed
    found = report_of(parts.store, parts.policy, month, now, team)
    if team and not _is_known(found, team, parts):
        everybody = report_of(parts.store, parts.policy, month, now)
        raise _unknown(team, month, sorted({part.name for part in everybody.teams if part.name}))
    return ReportDocument.of(found).document()


def _closed(parts: WebParts, month: Month, team: str | None, now: datetime) -> dict[str, Any] | None:
    """The kept document of a month that was closed; None while it was not. Problem 404 of a team that it has not."""
    kept = parts.store.closed_report(month.name, scope_of(team), now)
    everybody = parts.store.closed_report(month.name, EVERYBODY, now) if team is not None else kept
    if everybody is None:
        return None
    if kept is None:
        raise _unknown(team or "", month, [part["name"] for part in everybody["teams"] if part["name"]])
    return ReportDocument.model_validate(kept).document()


def _unknown(team: str, month: Month, known: list[str]) -> Problem:
    return Problem(
        404,
        f'no workload of {month.name} has the team label "{team}"',
        "use one of: " + ", ".join(sorted(known)) if known else "leave team out for the report of all teams",
        field="team",
        known=sorted(known),
    )


def _is_known(found: Report, team: str, parts: WebParts) -> bool:
    teams = set(parts.policy.budget.teams if parts.policy.budget else ()) | set(parts.policy.reports.monthly.teams)
    return bool(found.lines) or found.jobs.seen > 0 or team in teams


def shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page needs to show *document*."""
    year, month = (int(part) for part in document["month"].split("-"))
    first = date(year, month, 1)
    length = calendar.monthrange(year, month)[1]
    return {
        "report": document,
        "title": f"{first:%B %Y}",
        "before": f"{first - timedelta(days=1):%Y-%m}",
        "after": f"{first + timedelta(days=length):%Y-%m}" if document["over"] else None,
        "picture": month_picture(document, length),
    }


def standalone(document: Mapping[str, Any], version: str) -> str:
    """Return the page as one file that needs no server: the style is in it, and it links nowhere."""
    return alone("costs.html", ["style.css"], layout="alone.html", version=version, **shown(document))
