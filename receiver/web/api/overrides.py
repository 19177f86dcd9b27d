"""/api/v1/overrides: what people say of pools for a while. Reading is free, writing takes the operator's token."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog
from flask import Blueprint, Response, jsonify, make_response, request

from receiver.core.model.overrides import Override
from receiver.core.notices.override_notices import idle_in, was_ended, was_set
from receiver.ports import StoredOverride
from receiver.web.api.body import read_body
from receiver.web.api.documents import moment
from receiver.web.api.free_text import one_line
from receiver.web.api.override_request import override_asked
from receiver.web.api.query_params import MAX_LIMIT, limit_asked, pool_asked
from receiver.web.auth.tokens import require_operator
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

LARGEST_BODY = 16 * 1024
SOMEBODY = "somebody with the operator token"

log = structlog.get_logger(__name__)


def override_document(stored: StoredOverride, parts: WebParts, now: datetime) -> Mapping[str, Any]:
    """Return one override; *in_force* is true while it acts."""
    override = stored.override
    return {
        "id": override.id,
        "kind": override.kind.value,
        "pool": override.pool,
        "pool_name": parts.pool_name(override.pool) if override.pool else None,
        "nodes": override.nodes,
        "who": override.who,
        "why": override.why,
        "at": moment(override.at),
        "until": moment(override.until),
        "in_force": stored.ended_at is None and override.holds(now),
        "ended_at": moment(stored.ended_at),
        "ended_by": stored.ended_by,
    }


def add_overrides(routes: Blueprint, parts: WebParts) -> None:
    """Add the routes to *routes*."""

    @routes.get("/overrides")
    def overrides() -> Response:
        """List those that are not over, the newest first; with ``ended=true`` those that are, behind them."""
        pool, limit, now = pool_asked(parts), limit_asked(), parts.clock.now()
        with_ended = request.args.get("ended", "false")
        if with_ended not in ("true", "false"):
            raise Problem(400, "ended is neither true nor false", "write true, or leave it out", field="ended")
        found = [s for s in parts.store.overrides(limit=MAX_LIMIT) if pool is None or s.override.concerns(pool)]
        over = [s for s in found if s.ended_at is not None or s.override.until <= now]
        going_on = [s for s in found if s not in over]
        listed = [*going_on, *(over if with_ended == "true" else [])]
        return jsonify([override_document(s, parts, now) for s in listed[:limit]])

    @routes.post("/overrides")
    def set_one() -> Response:
        """Set one: kept and told in one transaction, and acted upon by the step that this wakes."""
        require_operator(request.headers.get("Authorization"), parts.operator_token)
        now = parts.clock.now()
        override = override_asked(read_body(request, LARGEST_BODY), parts.policy, now)
        keep_override(override, parts)
        response = make_response(jsonify(override_document(StoredOverride(override=override), parts, now)), 201)
        response.headers["Location"] = f"/api/v1/overrides/{override.id}"
        return response

    @routes.get("/overrides/<number>")
    def one(number: str) -> Response:
        stored = _kept(parts, number)
        return jsonify(override_document(stored, parts, parts.clock.now()))

    @routes.delete("/overrides/<number>")
    def end_one(number: str) -> Response:
        """End one before its time; the query's ``who`` is told as the one who did."""
        require_operator(request.headers.get("Authorization"), parts.operator_token)
        ended = end_override(number, request.args.get("who", ""), parts)
        return jsonify(override_document(ended, parts, parts.clock.now()))


def keep_override(override: Override, parts: WebParts) -> None:
    """Keep *override* and tell it, in one transaction, and wake the loop. Raises TryLater."""
    kept = parts.store.snapshot()
    idle = idle_in(kept[0], override.pool) if kept else ()
    parts.store.set_override(override, was_set(override, parts.policy, idle))
    parts.wake()
    log.info("override set", override=override.id, said=str(override))


def end_override(number: str, who: str, parts: WebParts) -> StoredOverride:
    """End the override with the id *number*, tell that *who* did, and wake the loop; return it as it is then.

    Raises TryLater, and Problem 404 for one that is not there or not in force.
    """
    now, stored = parts.clock.now(), _kept(parts, number)
    by = one_line(who)[:100] or SOMEBODY
    notice = was_ended(stored.override, by, parts.policy)
    if stored.ended_at is not None or not parts.store.end_override(number, now, by, notice):
        raise Problem(404, "this override has ended already", "see /api/v1/overrides for those in force", field="id")
    parts.wake()
    log.info("override ended", override=number, by=by)
    return StoredOverride(override=stored.override, ended_at=now, ended_by=by)


def _kept(parts: WebParts, number: str) -> StoredOverride:
    stored = parts.store.override(number)
    if stored is None:
        raise Problem(404, "no override has this id", "see /api/v1/overrides for those in force", field="id")
    return stored
