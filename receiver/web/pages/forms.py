"""Pages with forms that act. GET and HEAD never do: chats open links to show what is behind them.

/pools/{pool}/overrides shows a pool's overrides, and lets an operator's session set one; what was typed is never lost
to a refusal. /answer/{signed} is what a link in a message leads to: the link is all that is needed, for one question.
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

from receiver.core.model.overrides import (
    EVERY_POOL,
    LABELS,
    Answer,
    Asks,
    Override,
    Question,
    Standing,
    choices,
    needs_size,
    override_id,
)
from receiver.core.model.text import lasting
from receiver.core.notices.grouping import Seal
from receiver.core.notices.people_notices import hourly_cost, in_short, unanswered
from receiver.ports import StoredOverride, TryLater
from receiver.reports.picture import kept_picture
from receiver.web.api.changes import answer_once, end_override, keep_override, override_of, size_of
from receiver.web.api.documents import OverrideDocument
from receiver.web.api.request_parts import MAX_LIMIT, one_line, pool_called, read_form
from receiver.web.auth.access import Access
from receiver.web.errors import Problem, retry_after
from receiver.web.parts import WebParts

FIELDS = ("kind", "nodes", "for", "why", "who")
LOGGED_OUT = "You are not logged in as operator, so nothing was done. Log in in another tab, then send this again."
OTHER_SESSION = "This form was of an earlier session, so nothing was done. Look at it and send it again."

log = structlog.get_logger(__name__)


def overrides(access: Access, parts: WebParts) -> Blueprint:
    """Return the page of a pool's overrides (``all``: of every pool) and the routes that its forms send to."""
    routes = Blueprint("acting", __name__)
    one_by_one = threading.Lock()  # a form that is sent twice at once is kept once

    def name_of(asked: str) -> str:
        return asked if asked == EVERY_POOL else pool_called(parts, asked).name

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
        override, problems = override_of(_said(form, name), parts.policy, parts.clock.now(), _once(form))
        if override is None:
            return _overrides_page(name, parts, form, mistakes=problems, status=400)
        try:
            with one_by_one:
                override = _keep_once(override, parts)
        except TryLater as error:
            log.warning("store unavailable", path=request.path, code=error.code, error=str(error))
            refused = f"It was not kept: {error}. Send it again later."
            response = _overrides_page(name, parts, form, refused=refused, status=503)
            response.headers["Retry-After"] = str(retry_after(error))
            return response
        return redirect(url_for("acting.overrides", pool=name, done=override.id), 303)

    @routes.post("/overrides/<number>/end")
    def end_one(number: str) -> Response:
        access.require_own_site(request)
        form = read_form(request)
        if not g.visitor.is_operator or not g.visitor.sent(form.get("form_token", "")):
            problem = "nothing was ended: the form is not of your session"
            raise Problem(403, problem, "log in as operator, then end it again")
        ended = end_override(number, form.get("who", ""), parts).override
        name = parts.pool_name(ended.pool) if ended.pool else EVERY_POOL
        return redirect(url_for("acting.overrides", pool=name, done=number), 303)

    return routes


def _once(form: Mapping[str, str]) -> str:
    """What makes this form another than every one before it; empty for one that no page of ours made."""
    said = form.get("once", "")
    return said if re.fullmatch("[0-9a-f]{8}", said) else ""


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


def _said(form: Mapping[str, str], pool: str) -> dict[str, Any]:
    """The fields as the API takes them: a field without text was not said, and digits are a number."""
    said: dict[str, Any] = {name: form[name].strip() for name in FIELDS if form.get(name, "").strip()}
    if re.fullmatch(r"-?[0-9]{1,9}", str(said.get("nodes", ""))):
        said["nodes"] = int(said["nodes"])
    return {"for": "", **said, "pool": pool}


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
    listed, down, done = _in_force(name, parts) if shows else ((), "", None)
    now, found = parts.clock.now(), {problem.field: problem for problem in mistakes}
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
        done=done,
        form={field: (form or {}).get(field, "") for field in FIELDS},
        once=_once(form or {}) or secrets.token_hex(4),
        mistakes={field: found[field] for field in FIELDS if field in found},
        refused=refused,
        most=most if shows else None,
        longest=lasting(parts.policy.longest_override),
    )
    return make_response(page, status)


def _in_force(name: str, parts: WebParts) -> tuple[Sequence[StoredOverride], str, str | None]:
    """What is in force for the pool called *name*, the newest first; why that is not known; and the id of the one that
    was just set or ended: None for any other text in the query, as links can be forged."""
    pool, now, said = parts.policy.pool(name), parts.clock.now(), request.args.get("done", "")
    try:
        kept = [s for s in parts.store.overrides(limit=MAX_LIMIT) if s.ended_at is None and s.override.holds(now)]
        done = said if said and parts.store.override(said) else None
    except TryLater as error:
        return (), str(error), None
    return [stored for stored in kept if pool is None or stored.override.concerns(pool.id)], "", done


LONGEST_NAME = 100  # characters
UNNAMED = "someone with the link"
TOO_LATE = "Nothing was changed: it was answered, or over, before your answer came."
UNKNOWN_SIZE = "Nothing was changed: the pool's size is not known now. Try again in a minute, or approve."
NONE_CHOSEN = "Nothing was changed: choose one of the answers."


def answers(parts: WebParts) -> Blueprint:
    """Return the page of an approval link and what its form sends to."""
    routes = Blueprint("answers", __name__)

    @routes.after_request
    def keep_out_of_indexes(response: Response) -> Response:
        response.headers["X-Robots-Tag"] = "noindex, nofollow"
        return response

    @routes.get("/answer/<signed>")
    def ask(signed: str) -> Response:
        return _answer_page(_asked(signed, parts), signed, parts)

    @routes.post("/answer/<signed>")
    def take(signed: str) -> Response:
        question, form = _asked(signed, parts), read_form(request)
        said = form.get("answer", "")
        if said not in set(Answer):
            return _answer_page(question, signed, parts, wrong=NONE_CHOSEN, status=400)
        who = one_line(form.get("who", ""))[:LONGEST_NAME] or UNNAMED
        taken = answer_once(question, Answer(said), who, "", parts)
        if taken is None:
            return _answer_page(question, signed, parts, wrong=UNKNOWN_SIZE, status=503)
        kept = parts.store.question(question.id) or question
        if not taken and kept.answer != said:
            return _answer_page(kept, signed, parts, wrong=TOO_LATE, status=409)
        return redirect(url_for("answers.ask", signed=signed), 303)

    return routes


def _asked(signed: str, parts: WebParts) -> Question:
    token = parts.tokens().operator
    if token is None:
        raise Problem(403, "this server signs no links", "set GPU_AUTOSCALER_OPERATOR_TOKEN for it and restart it")
    number = Seal(token).read(signed)
    if number is None:
        remedy = "copy the whole link from the newest message, or answer with `gpu-autoscaler answer`"
        raise Problem(403, "this link is not whole, or was signed with a token that has been changed since", remedy)
    question = parts.store.question(number)
    if question is None:
        raise Problem(404, "this question is not kept here any more", "`gpu-autoscaler questions` lists those that are")
    return question


def _answer_page(question: Question, signed: str, parts: WebParts, *, wrong: str = "", status: int = 200) -> Response:
    now, present = parts.clock.now(), size_of(question.pool, parts.store)
    standing = question.standing(now)
    offered = choices(question, parts.policy, now, question.from_count if present is None else present)
    set_by = override_id(question.answer, question) if question.answer not in (None, Answer.APPROVE) else None
    found, _ = kept_picture(parts.store)
    page = render_template(
        "answer.html",
        question=question,
        title=in_short(question),
        pool_name=parts.pool_name(question.pool),
        signed=signed,
        standing=standing.value,
        cost=hourly_cost(question),
        grows=question.asks is Asks.GROWTH,
        unanswered=unanswered(question),
        # Whether the change would still help, by the last step's picture; None where that does not say.
        helps=next((q.wanted for pool in found.pools for q in pool.questions if q.id == question.id), None),
        choices=[c for c in offered if present is not None or not needs_size(c.answer, question)],
        answered=LABELS[question.answer] if question.answer else "",
        override=parts.store.override(set_by) if set_by else None,
        now=now,
        wrong=wrong,
        mode=parts.mode,
    )
    expired = standing is Standing.EXPIRED and status == 200
    return make_response(page, 410 if expired else status)
