"""/pools/{pool}/overrides: a pool's overrides, and the forms by which an operator's session sets and ends one.

What was typed is never lost to a refusal. GET and HEAD never act: chats open links to show what is behind them.
"""

import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import structlog
from flask import Blueprint, g, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from receiver.config.typed import end_of
from receiver.core.model.overrides import EVERY_POOL, Override
from receiver.core.model.policy import Policy
from receiver.core.model.text import lasting, span
from receiver.ports import StoredOverride, TryLater
from receiver.web.api.changes import end_override, keep_override, override_of
from receiver.web.api.documents import OverrideDocument
from receiver.web.api.request_parts import MAX_LIMIT, pool_called, read_form
from receiver.web.auth.access import Access
from receiver.web.errors import Problem, retry_after
from receiver.web.parts import WebParts

FIELDS = ("kind", "nodes", "for", "why", "who")
PRESETS = ("2h", "30m", "until 09:00")  # a button each, beside a field for any other length
REASONS = ("investigating", "maintenance", "a deadline")  # one tap each, instead of a sentence
LOGGED_OUT = (
    "Nothing was changed: you are not logged in as operator. Log in from another tab, then send this form again."
)
OTHER_SESSION = "Nothing was changed: this form belongs to an earlier session. Check it and send it again."

log = structlog.get_logger(__name__)


def overrides(access: Access, parts: WebParts) -> Blueprint:
    """Return the page of a pool's overrides (``all``: of every pool) and the routes that its forms send to."""
    routes = Blueprint("acting", __name__)
    one_by_one = threading.Lock()  # a form that is sent twice at once is kept once

    def name_of(pool: str) -> str:
        return pool if pool == EVERY_POOL else pool_called(parts, pool).name

    @routes.get("/pools/<pool>/overrides")
    def overrides(pool: str) -> Response:
        return _overrides_page(name_of(pool), parts)

    @routes.post("/pools/<pool>/overrides")
    def set_one(pool: str) -> Response:
        access.require_own_site(request)
        form = read_form(request)
        if not g.visitor.is_operator:
            return _overrides_page(pool, parts, form, refused=LOGGED_OUT, status=403)
        name = name_of(pool)
        if not g.visitor.sent(form.get("form_token", "")):
            return _overrides_page(name, parts, form, refused=OTHER_SESSION, status=403)
        form["for"] = form.get("preset") or form.get("for", "")
        form["who"] = g.visitor.name or form.get("who", "")
        override, problems = override_of(_said(form, name), parts.policy, parts.clock.now(), _once(form))
        if override is None:
            return _overrides_page(name, parts, form, mistakes=problems, status=400)
        try:
            with one_by_one:
                override = _keep_once(override, parts)
        except TryLater as error:
            log.warning("store unavailable", path=request.path, code=error.code, error=str(error))
            refused = f"The override was not saved: {error}. Send the form again later."
            response = _overrides_page(name, parts, form, refused=refused, status=503)
            response.headers["Retry-After"] = str(retry_after(error))
            return response
        response = redirect(url_for("acting.overrides", pool=name, done=override.id), 303)
        access.remember(response, g.visitor, g.visitor.name_in(form))
        return response

    @routes.post("/overrides/<override_id>/end")
    def end_one(override_id: str) -> Response:
        access.require_own_site(request)
        form = read_form(request)
        if not g.visitor.is_operator or not g.visitor.sent(form.get("form_token", "")):
            problem = "nothing was ended: the form does not belong to your session"
            raise Problem(403, problem, "log in as operator, then end it again")
        ended = end_override(override_id, g.visitor.name_in(form), parts).override
        name = parts.pool_name(ended.pool) if ended.pool else EVERY_POOL
        response = redirect(url_for("acting.overrides", pool=name, done=override_id), 303)
        access.remember(response, g.visitor, g.visitor.name_in(form))
        return response

    return routes


def _once(form: Mapping[str, str]) -> str:
    """What makes this form another than every one before it; empty for one that no page of ours made."""
    nonce = form.get("once", "")
    return nonce if re.fullmatch("[0-9a-f]{8}", nonce) else ""


def _keep_once(override: Override, parts: WebParts) -> Override:
    """Keep *override* unless the same form was sent before, as by a double tap; return the one that is kept."""
    before = parts.store.override(override.id)
    if before is not None:
        if _says_the_same(before, override):
            return before.override
        override = replace(override, id=override.id[:-8] + secrets.token_hex(4))
    try:
        keep_override(override, parts)
    except TryLater:
        stored = parts.store.override(override.id)  # another replica may have kept the same form since
        if stored is None or not _says_the_same(stored, override):
            raise
        return stored.override
    return override


def _says_the_same(before: StoredOverride, override: Override) -> bool:
    """True when *before* goes on and differs from *override* by nothing but the moment it was set."""
    earlier = before.override
    again = replace(override, at=earlier.at, until=earlier.until)
    same_end = override.until in (earlier.until, earlier.until + (override.at - earlier.at))
    return before.ended_at is None and again == earlier and same_end


def _presets(policy: Policy, now: datetime) -> list[tuple[str, str]]:
    """What the buttons send and say, without those beyond the longest override."""
    zone, presets = ZoneInfo(policy.timezone), []
    for length in PRESETS:
        end = end_of(length, now, policy.timezone)
        label = f"for {span((end - now).total_seconds())}"
        if length.startswith("until"):
            day = "today" if end.astimezone(zone).date() == now.astimezone(zone).date() else "tomorrow"
            label = f"{length} {day} ({policy.timezone})"
        if end <= now + policy.longest_override:
            presets.append((length, label))
    return presets


def _said(form: Mapping[str, str], pool: str) -> dict[str, Any]:
    """The fields as the API takes them: a field without text was not said, and digits are a number."""
    fields: dict[str, Any] = {name: form[name].strip() for name in FIELDS if form.get(name, "").strip()}
    if form.get("reason", "").strip():
        fields.setdefault("why", form["reason"].strip())
    if re.fullmatch(r"-?[0-9]{1,9}", str(fields.get("nodes", ""))):
        fields["nodes"] = int(fields["nodes"])
    return {"for": "", **fields, "pool": pool}


def _overrides_page(
    name: str,
    parts: WebParts,
    form: Mapping[str, str] | None = None,
    *,
    mistakes: Sequence[Problem] = (),
    refused: str = "",
    status: int = 200,
) -> Response:
    shows = form is None or g.visitor.is_operator  # who only sent a form may not be one who may read
    listed, down, changed_id = _in_force(name, parts) if shows else ((), "", None)
    now, mistakes_by_field = parts.clock.now(), {problem.field: problem for problem in mistakes}
    most = max((p.max_nodes for p in parts.policy.pools if name in (p.name, EVERY_POOL)), default=0)
    page = render_template(
        "overrides.html",
        name=None if name == EVERY_POOL else name,
        pool=name,
        now=now,
        mode=parts.mode if shows else None,
        shows=shows,
        listed=[OverrideDocument.of_stored(stored, parts, now) for stored in listed],
        down=down,
        done=changed_id,
        form={"who": g.visitor.remembered}
        | {field: text for field, text in (form or {}).items() if field in (*FIELDS, "reason")},
        reasons=REASONS,
        presets=_presets(parts.policy, now),
        once=_once(form or {}) or secrets.token_hex(4),
        mistakes={field: mistakes_by_field[field] for field in FIELDS if field in mistakes_by_field},
        refused=refused,
        most=most if shows else None,
        longest=lasting(parts.policy.longest_override),
    )
    return make_response(page, status)


def _in_force(name: str, parts: WebParts) -> tuple[Sequence[StoredOverride], str, str | None]:
    """What is in force for the pool called *name*, the newest first; why that is not known; and the id of the one that
    was just set or ended: None for any other text in the query, as links can be forged."""
    pool, now, query_id = parts.policy.pool(name), parts.clock.now(), request.args.get("done", "")
    try:
        in_force = [s for s in parts.store.overrides(limit=MAX_LIMIT) if s.ended_at is None and s.override.holds(now)]
        changed_id = query_id if query_id and parts.store.override(query_id) else None
    except TryLater as error:
        return (), str(error), None
    return [stored for stored in in_force if pool is None or stored.override.concerns(pool.id)], "", changed_id
