"""GET /api/v1: what the pages show, as JSON. It reads the store; only `receiver.web.api.overrides` and
`receiver.web.api.budget_changes` change anything."""

from collections.abc import Callable, Mapping
from typing import Any

from flask import Blueprint, Response, g, jsonify

from receiver.web.api.budget_changes import add_budget_changes
from receiver.web.api.costs import add_costs
from receiver.web.api.documents import (
    action_document,
    budget_document,
    charges_document,
    decision_document,
    explained,
    mode_of,
    moment,
    pool_document,
)
from receiver.web.api.overrides import add_overrides
from receiver.web.api.questions import add_questions
from receiver.web.api.received_alerts import add_received
from receiver.web.api.reports import add_report
from receiver.web.api.request_parts import limit_asked, pool_asked, pool_called
from receiver.web.api.status import add_status
from receiver.web.api.waiting import add_waiting, fits_nowhere
from receiver.web.errors import Problem
from receiver.web.openapi import add_openapi
from receiver.web.parts import WebParts

SNAPSHOT_HEADER = "Gpu-Autoscaler-Snapshot-At"
MAX_ROW = 2**63 - 1  # the largest row number that SQLite and PostgreSQL can hold


def decision_number(text: str) -> int:
    """Return *text* as a decision's number; Problem 400 unless it is one."""
    if not (text.isascii() and text.isdigit()):
        raise Problem(400, "a decision's id is a whole number", "take it from /api/v1/decisions", field="id")
    return min(int(text[:20]), MAX_ROW)


def no_such_decision() -> Problem:
    """Return the 404 for a decision that is not kept."""
    return Problem(404, "no decision has this id", "see /api/v1/decisions for those that are kept", field="id")


def blueprint(parts: WebParts) -> Blueprint:
    """Return the API."""
    routes = Blueprint("api", __name__, url_prefix="/api/v1")

    def picture() -> Mapping[str, Any]:
        kept = parts.store.snapshot()
        g.snapshot_at = kept[1] if kept else None
        return kept[0] if kept else {}

    @routes.after_request
    def say_how_old(response: Response) -> Response:
        """Name the step that the answer stems from; ``none`` before the first."""
        if "snapshot_at" in g:
            response.headers[SNAPSHOT_HEADER] = moment(g.snapshot_at) or "none"
        return response

    @routes.get("/pools")
    def pools() -> Response:
        found = picture()
        return jsonify([pool_document(entry, mode_of(found, parts)) for entry in found.get("pools") or ()])

    @routes.get("/pools/<pool>")
    def one_pool(pool: str) -> Response:
        wanted = pool_called(parts, pool)
        found = picture()
        entries = [e for e in found.get("pools") or () if e.get("pool") == wanted.id]
        entry = entries[0] if entries else {"name": wanted.name, "pool": wanted.id, "size": wanted.size}
        document = pool_document(entry, mode_of(found, parts))
        more = {"fits_nowhere": fits_nowhere(found, wanted.id), "messages_to": list(parts.messages_to)}
        return jsonify({**document, **more})

    @routes.get("/actions")
    def actions() -> Response:
        pool, limit = pool_asked(parts), limit_asked()
        picture()
        return jsonify([action_document(a, parts) for a in parts.store.actions(pool=pool, limit=limit)])

    @routes.get("/budget")
    def budget() -> Response:
        return jsonify(budget_document(picture(), parts))

    @routes.get("/charges")
    def charges() -> Response:
        return jsonify(charges_document(picture()))

    _add_decisions(routes, parts, picture)
    add_costs(routes, parts)
    add_waiting(routes, parts, picture)
    add_status(routes, parts, picture)
    add_overrides(routes, parts)
    add_questions(routes, parts)
    add_budget_changes(routes, parts)
    add_report(routes, parts)
    add_received(routes, parts)
    add_openapi(routes, parts)
    return routes


def _add_decisions(routes: Blueprint, parts: WebParts, picture: Callable[[], Mapping[str, Any]]) -> None:
    """Add what was decided to *routes*."""

    @routes.get("/decisions")
    def decisions() -> Response:
        pool, limit = pool_asked(parts), limit_asked()
        picture()
        return jsonify([decision_document(d, parts) for d in parts.store.decisions(pool=pool, limit=limit)])

    @routes.get("/decisions/<number>")
    def one_decision(number: str) -> Response:
        stored = parts.store.decision(decision_number(number))
        if stored is None:
            raise no_such_decision()
        return jsonify(explained(stored, parts))

    @routes.get("/decisions/<number>/grounds")
    def grounds(number: str) -> Response:
        known = decision_number(number)
        if parts.store.decision(known) is None:
            raise no_such_decision()
        found = parts.store.grounds(known)
        if found is None:
            raise Problem(
                404,
                "what this decision was made from is not kept",
                "decisions made before this version did not keep it: take a later one from /api/v1/decisions",
                field="id",
            )
        return jsonify({"decision": known, "format": found.format, "facts": found.facts, "policy": found.policy})
