"""Overrides by form: /pools/{pool}/overrides shows a pool's overrides, and lets an operator set one.

GET never acts. A POST acts for an operator's session whose form it carries; what was typed is never lost to a refusal.
"""

import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog
from flask import Blueprint, g, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from receiver.core.model.overrides import EVERY_POOL, Override
from receiver.core.model.text import lasting
from receiver.ports import StoredOverride, TryLater
from receiver.web.api.changes import end_override, keep_override, override_of
from receiver.web.api.documents import OverrideDocument
from receiver.web.api.request_parts import MAX_LIMIT, pool_called, read_form
from receiver.web.auth.access import Access
from receiver.web.errors import Problem, retry_after
from receiver.web.parts import WebParts

FIELDS = ("kind", "nodes", "for", "why", "who")
LOGGED_OUT = "You are not logged in as operator, so nothing was done. Log in in another tab, then send this again."
OTHER_SESSION = "This form was of an earlier session, so nothing was done. Look at it and send it again."

log = structlog.get_logger(__name__)


def blueprint(access: Access, parts: WebParts) -> Blueprint:
    """Return the page of a pool's overrides (``all``: of every pool) and the routes that its forms send to."""
    routes = Blueprint("acting", __name__)
    one_by_one = threading.Lock()  # a form that is sent twice at once is kept once

    @routes.get("/pools/<pool>/overrides")
    def overrides(pool: str) -> Response:
        return _page(_name_of(pool, parts), parts)

    @routes.post("/pools/<pool>/overrides")
    def set_one(pool: str) -> Response:
        """Set one and show it; or show the form again with what was typed and what is wrong with it."""
        access.require_own_site(request)
        form = read_form(request)
        if not g.visitor.is_operator:
            return _page(pool, parts, form, refused=LOGGED_OUT, status=403)
        name = _name_of(pool, parts)
        if not g.visitor.sent(form.get("form_token", "")):
            return _page(name, parts, form, refused=OTHER_SESSION, status=403)
        override, problems = override_of(_said(form, name), parts.policy, parts.clock.now(), _once(form))
        if override is None:
            return _page(name, parts, form, mistakes=problems, status=400)
        try:
            with one_by_one:
                override = _keep_once(override, parts)
        except TryLater as error:
            log.warning("store unavailable", path=request.path, code=error.code, error=str(error))
            response = _page(name, parts, form, refused=f"It was not kept: {error}. Send it again later.", status=503)
            response.headers["Retry-After"] = str(retry_after(error))
            return response
        return redirect(url_for("acting.overrides", pool=name, done=override.id), 303)

    @routes.post("/overrides/<number>/end")
    def end_one(number: str) -> Response:
        """End one and show the page of its pool."""
        access.require_own_site(request)
        form = read_form(request)
        if not g.visitor.is_operator or not g.visitor.sent(form.get("form_token", "")):
            raise Problem(
                403, "nothing was ended: the form is not of your session", "log in as operator, then end it again"
            )
        ended = end_override(number, form.get("who", ""), parts).override
        name = parts.pool_name(ended.pool) if ended.pool else EVERY_POOL
        return redirect(url_for("acting.overrides", pool=name, done=number), 303)

    return routes


def _once(form: Mapping[str, str]) -> str:
    """What makes this form another than every one before it; empty for one that no page of ours made."""
    said = form.get("once", "")
    return said if re.fullmatch("[0-9a-f]{8}", said) else ""


def _keep_once(override: Override, parts: WebParts) -> Override:
    """Keep *override* unless the same form was sent before and says the same; return the one that is kept.

    Double taps and browsers send a form twice. A form that was changed in between is a new override.
    """
    before = parts.store.override(override.id)
    if before is not None:
        if _says_the_same(before, override):
            return before.override
        override = replace(override, id=override.id[:-8] + secrets.token_hex(4))
    try:
        keep_override(override, parts)
    except TryLater:
        kept = parts.store.override(override.id)  # another replica may have kept the same form since
        if kept is None or not _says_the_same(kept, override):
            raise
        return kept.override
    return override


def _says_the_same(before: StoredOverride, override: Override) -> bool:
    """True when *before* goes on and differs from *override* by nothing but the moment it was set."""
    kept = before.override
    again = replace(override, at=kept.at, until=kept.until)
    return before.ended_at is None and again == kept and override.until - override.at == kept.until - kept.at


def _name_of(asked: str, parts: WebParts) -> str:
    """What people call the pool *asked*, by id or name; Problem 404 for none of ours."""
    return asked if asked == EVERY_POOL else pool_called(parts, asked).name


def _said(form: Mapping[str, str], pool: str) -> dict[str, Any]:
    """The fields as the API takes them: a field without text was not said, and digits are a number."""
    said: dict[str, Any] = {name: form[name].strip() for name in FIELDS if form.get(name, "").strip()}
    if re.fullmatch(r"-?[0-9]{1,9}", str(said.get("nodes", ""))):
        said["nodes"] = int(said["nodes"])
    length = said.pop("for", None)
    return {**said, "pool": pool, "for": length or ""}


def _page(
    name: str,
    parts: WebParts,
    form: Mapping[str, str] | None = None,
    *,
    mistakes: Sequence[Problem] = (),
    refused: str = "",
    status: int = 200,
) -> Response:
    """The page of the pool called *name* with the form as it was sent, and what is wrong with it."""
    shows = form is None or g.visitor.is_operator  # who only sent a form may not be one who may read
    listed, down = _in_force(name, parts) if shows else ((), "")
    now, found = parts.clock.now(), {problem.field: problem for problem in mistakes}
    page = render_template(
        "overrides.html",
        name=None if name == EVERY_POOL else name,
        pool=name,
        now=now,
        mode=parts.mode if shows else None,
        shows=shows,
        listed=[OverrideDocument.of_stored(stored, parts, now) for stored in listed],
        down=down,
        done=_done(request.args.get("done", ""), parts) if shows else None,
        form={field: (form or {}).get(field, "") for field in FIELDS},
        once=_once(form or {}) or secrets.token_hex(4),
        mistakes={field: found[field] for field in FIELDS if field in found},
        refused=refused,
        most=_most(name, parts) if shows else None,
        longest=lasting(parts.policy.longest_override),
    )
    return make_response(page, status)


def _done(said: str, parts: WebParts) -> str | None:
    """The id of the override that was just set or ended; None for any other text: links can be forged."""
    try:
        return said if said and parts.store.override(said) else None
    except TryLater:
        return None


def _most(name: str, parts: WebParts) -> int:
    pool = parts.policy.pool(name)
    return pool.max_nodes if pool else max((p.max_nodes for p in parts.policy.pools), default=0)


def _in_force(name: str, parts: WebParts) -> tuple[list[StoredOverride], str]:
    """What is in force for the pool called *name*, the newest first; and why that is not known."""
    pool, now = parts.policy.pool(name), parts.clock.now()
    try:
        kept = parts.store.overrides(limit=MAX_LIMIT)
    except TryLater as error:
        return [], str(error)
    return [
        stored
        for stored in kept
        if stored.ended_at is None
        and stored.override.holds(now)
        and (pool is None or stored.override.concerns(pool.id))
    ], ""
