"""The pages: everything is rendered here from the store, and nothing is decided."""

from typing import Any

from flask import Blueprint, render_template

from receiver.ports import StoredDecision
from receiver.web.decision_page import add_decisions
from receiver.web.documents import decision_document
from receiver.web.health import alive
from receiver.web.parts import WebParts
from receiver.web.reports import add_costs
from receiver.web.show import budget_bar, time_of
from receiver.web.waiting import waiting_rows

REFRESH_SECONDS = 15
LATEST_DECISIONS = 20


def blueprint(parts: WebParts) -> Blueprint:
    """Return /, /decisions/{id} and /costs."""
    routes = Blueprint("pages", __name__)

    def decisions_shown(stored: list[StoredDecision]) -> list[dict[str, Any]]:
        return [decision_document(d, parts) for d in stored]

    @routes.get("/")
    def status() -> str:
        """Show the picture of the last step, the loop's own health and the latest decisions."""
        kept = parts.store.snapshot()
        picture, at = kept or ({}, None)
        now = parts.clock.now()
        health = parts.heartbeat()
        found_at = time_of(at)
        return render_template(
            "status.html",
            now=now,
            refresh=REFRESH_SECONDS,
            picture=picture,
            found_at=found_at,
            stale=found_at is not None and now - found_at > health.fresh,
            mode=picture.get("mode") or parts.mode,
            health=health,
            beating=alive(health),
            configured=parts.policy.pools,
            names={p.id: p.name for p in parts.policy.pools},
            bar=budget_bar(picture.get("budget") or {}),
            waiting=waiting_rows(picture, parts),
            decisions=decisions_shown(list(parts.store.decisions(limit=LATEST_DECISIONS))),
        )

    add_decisions(routes, parts)
    add_costs(routes, parts)
    return routes
