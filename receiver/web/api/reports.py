"""The costs of a month as JSON and as a page. The command line writes the page as a file of its own."""

import calendar
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from threading import Lock
from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request

from receiver.core.money.attribution import By, Line, MonthToDate, Part
from receiver.core.money.budget import Month, burn, month_of
from receiver.core.report.lines import pieces, told_by
from receiver.reports.document import EVERYBODY, ReportDocument, scope_of
from receiver.reports.focus import as_focus
from receiver.reports.formats import PAID_FOR
from receiver.reports.monthly import costs_of, report_of
from receiver.web.api.documents import CostsDocument, CostsLine
from receiver.web.api.request_parts import invalid
from receiver.web.errors import Problem
from receiver.web.pages.show import alone
from receiver.web.parts import WebParts

HOUR = 3600.0  # seconds
ONE_AT_A_TIME = Lock()  # the report of a busy month takes tens of MB while it is made, and there are many threads


def add_report(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /api/v1/report and /api/v1/costs to *routes*."""

    @routes.get("/report")
    def report() -> Response:
        match request.args.get("format", "json"):
            case "json":
                with ONE_AT_A_TIME:
                    return jsonify(_asked_for(parts))
            case "focus":
                with ONE_AT_A_TIME:
                    return Response(_charges(parts), mimetype="text/csv")
        raise invalid("format", "the format is unknown", "use json or focus")

    @routes.get("/costs")
    def costs() -> Response:
        now, by = parts.clock.now(), request.args.get("by", By.TEAM.value)
        month, groupings = _month_asked(parts, now), [by.value for by in By]
        if by not in groupings:
            remedy = f"use one of: {', '.join(groupings)}"
            raise Problem(400, "costs cannot be grouped by this", remedy, field="by", known=groupings)
        with ONE_AT_A_TIME:
            month_costs = costs_of(parts.store, parts.policy, month, now)
        until, began = min(now, month.end), min(parts.store.watched().values(), default=month.start)
        since = max(month.start, began)
        lines = [_line(line, burn(line.usd, since, until)) for line in told_by(month_costs, By(by), parts.policy)]
        return jsonify(CostsDocument.of(month_costs, month=month.name, by=by, until=until, lines=lines))


def add_costs(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /costs to *routes*."""

    @routes.get("/costs")
    def costs() -> str:
        with ONE_AT_A_TIME:
            context = _shown(_asked_for(parts))
        return render_template("costs.html", layout="base.html", mode=parts.mode, now=parts.clock.now(), **context)


def standalone(document: Mapping[str, Any], version: str) -> str:
    """Return the page as one file that needs no server: the style is in it, and it links nowhere."""
    return alone("costs.html", ["style.css"], layout="alone.html", version=version, **_shown(document))


def _line(line: Line, mean: Decimal | None) -> CostsLine:
    """One line; what was not measured is null. *mean* is in USD per hour."""
    return CostsLine.of(
        line,
        burn_usd_per_hour=None if line.part is Part.SEEDED else mean,
        gpu_hours=line.seconds / HOUR,
        measured_gpu_hours=line.measured / HOUR,
        idle_gpu_hours=line.idle / HOUR,
        utilization=line.busy / line.measured if line.measured else None,
        memory=line.memory / line.measured if line.measured else None,
    )


def _month_asked(parts: WebParts, now: datetime) -> Month:
    """Return the query's *month*, this one without; Problem 400 unless it is one that has begun."""
    this = month_of(now, parts.policy.timezone)
    text = request.args.get("month", this.name)
    if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", text) or text > this.name or text < "1970-02":
        remedy = f"write it as {this.name}, or leave it out for this month"
        raise invalid("month", "month is not a month that has begun", remedy)
    return month_of(datetime.strptime(f"{text}-15", "%Y-%m-%d").replace(tzinfo=UTC), parts.policy.timezone)


def _asked_for(parts: WebParts) -> dict[str, Any]:
    """The document of the month and team in the query; Problem 400 or 404."""
    now = parts.clock.now()
    return _document_of(parts, _month_asked(parts, now), now)


def _charges(parts: WebParts) -> str:
    """The same as FOCUS charges."""
    now, policy = parts.clock.now(), parts.policy
    month = _month_asked(parts, now)
    document = _document_of(parts, month, now)
    cost_pieces = pieces(costs_of(parts.store, policy, month, now), policy)
    lives, account = parts.store.node_lives(month.start), parts.cluster_id
    return as_focus(
        document, cost_pieces, lives, MonthToDate(month, now, policy.billing), account=account, region=parts.region
    )


def _document_of(parts: WebParts, month: Month, now: datetime) -> dict[str, Any]:
    """The document of *month* and of the team in the query, the closed one if there is one; Problem 404."""
    team = request.args.get("team")
    everybody = parts.store.closed_report(month.name, EVERYBODY, now) if month.end <= now else None
    if everybody is not None:
        closed = parts.store.closed_report(month.name, scope_of(team), now)
        if closed is None:
            raise _unknown(team or "", month, [part["name"] for part in everybody["teams"] if part["name"]])
        return ReportDocument.model_validate({**closed, "cluster_name": parts.configuration.cluster_name}).document()
    month_report = report_of(parts.store, parts.policy, month, now, team)
    of_policy = (*(parts.policy.budget.teams if parts.policy.budget else ()), *parts.policy.reports.monthly.teams)
    if team and not month_report.lines and not month_report.jobs.seen and team not in of_policy:
        team_parts = report_of(parts.store, parts.policy, month, now).teams
        raise _unknown(team, month, sorted({part.name for part in team_parts if part.name}))
    return ReportDocument.of(month_report, cluster_name=parts.configuration.cluster_name).document()


def _unknown(team: str, month: Month, teams: list[str]) -> Problem:
    problem = f'no workload of {month.name} has the team label "{team}"'
    remedy = "use one of: " + ", ".join(sorted(teams)) if teams else "leave team out for the report of all teams"
    return Problem(404, problem, remedy, field="team", known=sorted(teams))


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    first = date.fromisoformat(f"{document['month']}-01")
    length = calendar.monthrange(first.year, first.month)[1]
    return {
        "report": document,
        "cluster_name": document.get("cluster_name", ""),
        "paid_for": PAID_FOR,
        "title": f"{first:%B %Y}",
        "before": f"{first - timedelta(days=1):%Y-%m}",
        "after": f"{first + timedelta(days=length):%Y-%m}" if document["over"] else None,
        "pace": Decimal((document["budget"] or {}).get("monthly_usd") or 0) / length,
    }
