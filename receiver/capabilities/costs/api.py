"""GET /api/v1/report and GET /api/v1/costs: what a month has cost."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from threading import Lock
from typing import Any

from flask import Blueprint, Response, jsonify, request

from receiver.capabilities.costs.documents import EVERYBODY, CostsDocument, CostsLine, ReportDocument, scope_of
from receiver.capabilities.costs.focus import as_focus
from receiver.capabilities.costs.formats import form_of
from receiver.capabilities.costs.monthly import as_paid, costs_of, report_of
from receiver.core.money.attribution import By, Line, MonthToDate, Part
from receiver.core.money.budget import Month, burn, month_of
from receiver.core.report.lines import pieces, told_by
from receiver.web.api.request_parts import invalid
from receiver.web.errors import Problem
from receiver.web.operation import TEXT, Request, one_of
from receiver.web.parts import WebParts

HOUR = 3600.0  # seconds
ONE_AT_A_TIME = Lock()  # the report of a busy month takes tens of MB while it is made, and there are many threads

_MONTH = ("month", {**TEXT, "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$", "description": "the current one by default"})
_BY = ("by", one_of(list(By), "team by default"))
_TEAM = ("team", {**TEXT, "description": "all teams by default"})
_FORMAT = ("format", one_of(("json", "focus"), "json by default; focus is CSV of FOCUS 1.2"))
REQUESTS = (
    Request("costs", "costs", "What a month has cost, by one thing", CostsDocument, (400,), query=(_MONTH, _BY)),
    Request("report", "report", "The report of a month", ReportDocument, (400, 404), query=(_MONTH, _TEAM, _FORMAT),
            kinds=("text/csv",)),
)  # fmt: skip


def add_routes(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /api/v1/report and /api/v1/costs to *routes*."""

    @routes.get("/report")
    def report() -> Response:
        match request.args.get("format", "json"):
            case "json":
                with ONE_AT_A_TIME:
                    return jsonify(report_asked(parts))
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


def report_asked(parts: WebParts) -> dict[str, Any]:
    """The document of the month and team in the query; Problem 400 or 404."""
    now = parts.clock.now()
    return _document_of(parts, _month_asked(parts, now), now)


def _charges(parts: WebParts) -> str:
    """The same as FOCUS charges."""
    now, policy = parts.clock.now(), as_paid(parts.policy, parts.store)
    month = _month_asked(parts, now)
    document = _document_of(parts, month, now)
    # A closed report keeps its form, whatever the configuration says today.
    shared = replace(policy, attribution=replace(policy.attribution, unallocated=form_of(document)))
    cost_pieces = pieces(costs_of(parts.store, shared, month, now), policy)
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
