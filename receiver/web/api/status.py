"""GET /api/v1/status: all that one screen shows, in one answer."""

from collections.abc import Callable, Mapping
from typing import Any

from flask import Blueprint, Response, jsonify

from receiver.core.explain.explain import State
from receiver.web.api.documents import budget_document, decision_document, mode_of, moment, plain, pool_document
from receiver.web.health import loop_document
from receiver.web.pages.show import time_of
from receiver.web.parts import WebParts

LATEST = 5
UNDELIVERED = 20


def add_status(routes: Blueprint, parts: WebParts, picture: Callable[[], Mapping[str, Any]]) -> None:
    """Add the route to *routes*; *picture* returns the last step's, and notes its age for the answer's header."""

    @routes.get("/status")
    def status() -> Response:
        found = picture()
        mode = mode_of(found, parts)
        waiting = found.get("waiting") or ()
        undelivered = parts.store.undelivered(limit=UNDELIVERED)
        failing = [told for told in undelivered if told.attempts]
        return jsonify(
            {
                "at": moment(time_of(found.get("at"))),
                "mode": mode,
                "version": parts.version,
                "loop": loop_document(parts.heartbeat()),
                "budget": budget_document(found, parts),
                "pools": [_pool(entry, mode) for entry in found.get("pools") or ()],
                "sources": plain(found.get("sources") or ()),
                "rights": plain(found["rights"]) if found.get("rights") else None,
                "waiting_total": found.get("waiting_total"),
                "fits_nowhere": sum(entry.get("state") == State.FITS_NOWHERE for entry in waiting),
                "decisions": [_decision(decision_document(d, parts)) for d in parts.store.decisions(limit=LATEST)],
                "messages": {
                    "to": list(parts.messages_to),
                    "undelivered": len(undelivered),
                    "failing": len(failing),
                    "last_error": failing[0].last_error if failing else None,
                },
            }
        )


def _pool(entry: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """A pool without its single nodes: GET /api/v1/pools has them."""
    return {name: value for name, value in pool_document(entry, mode).items() if name != "nodes"}


def _decision(document: Mapping[str, Any]) -> dict[str, Any]:
    """A decision in a line: GET /api/v1/decisions has the whole of it."""
    return {name: document[name] for name in ("id", "at", "pool", "pool_name", "from", "to", "verdict", "because")}
