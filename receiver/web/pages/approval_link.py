"""GET and POST /answer/{signed}: what a link in a message leads to. The link is all that is needed, for one question.

GET and HEAD change nothing: chats open links to show what is behind them.
"""

from typing import Any

from flask import Blueprint, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from receiver.core.model.overrides import (
    LABELS,
    Answer,
    Asks,
    Question,
    Standing,
    choices,
    needs_size,
    override_id,
)
from receiver.core.notices.grouping import Seal
from receiver.core.notices.people_notices import hourly_cost, in_short, unanswered
from receiver.reports.picture import kept_picture
from receiver.web.api.changes import answer_once, size_of
from receiver.web.api.request_parts import one_line, read_form
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

LONGEST_NAME = 100  # characters
UNNAMED = "someone with the link"
TOO_LATE = "Nothing was changed: it was answered, or over, before your answer came."
UNKNOWN_SIZE = "Nothing was changed: the pool's size is not known now. Try again in a minute, or approve."
NONE_CHOSEN = "Nothing was changed: choose one of the answers."


def blueprint(parts: WebParts) -> Blueprint:
    """Return the page and what its form sends to."""
    routes = Blueprint("answers", __name__)

    @routes.after_request
    def keep_out_of_indexes(response: Response) -> Response:
        response.headers["X-Robots-Tag"] = "noindex, nofollow"
        return response

    @routes.get("/answer/<signed>")
    def ask(signed: str) -> Response:
        """Show what is asked, how it stands, and the choices."""
        return _page(_asked(signed, parts), signed, parts)

    @routes.post("/answer/<signed>")
    def take(signed: str) -> Response:
        """Act once, and show how the question stands then."""
        question, form = _asked(signed, parts), read_form(request)
        said = form.get("answer", "")
        if said not in set(Answer):
            return _page(question, signed, parts, wrong=NONE_CHOSEN, status=400)
        who = one_line(form.get("who", ""))[:LONGEST_NAME] or UNNAMED
        taken = answer_once(question, Answer(said), who, "", parts)
        if taken is None:
            return _page(question, signed, parts, wrong=UNKNOWN_SIZE, status=503)
        kept = parts.store.question(question.id) or question
        if not taken and kept.answer != said:
            return _page(kept, signed, parts, wrong=TOO_LATE, status=409)
        return redirect(url_for("answers.ask", signed=signed), 303)

    return routes


def _asked(signed: str, parts: WebParts) -> Question:
    """Return the question behind a link; Problem for none."""
    token = parts.operator_token
    if token is None:
        raise Problem(403, "this server signs no links", "set GPU_AUTOSCALER_OPERATOR_TOKEN for it and restart it")
    number = Seal(token).read(signed)
    if number is None:
        raise Problem(
            403,
            "this link is not whole, or was signed with a token that has been changed since",
            "copy the whole link from the newest message, or answer with `gpu-autoscaler answer`",
        )
    question = parts.store.question(number)
    if question is None:
        raise Problem(404, "this question is not kept here any more", "`gpu-autoscaler questions` lists those that are")
    return question


def _page(question: Question, signed: str, parts: WebParts, *, wrong: str = "", status: int = 200) -> Response:
    now, present = parts.clock.now(), size_of(question.pool, parts.store)
    standing = question.standing(now)
    offered = choices(question, parts.policy, now, question.from_count if present is None else present)
    set_by = override_id(question.answer, question) if question.answer not in (None, Answer.APPROVE) else None
    shown: dict[str, Any] = {
        "question": question,
        "title": in_short(question),
        "pool_name": parts.pool_name(question.pool),
        "signed": signed,
        "standing": standing.value,
        "cost": hourly_cost(question),
        "grows": question.asks is Asks.GROWTH,
        "unanswered": unanswered(question),
        "helps": _helps(question, parts),
        "choices": [c for c in offered if present is not None or not needs_size(c.answer, question)],
        "answered": LABELS[question.answer] if question.answer else "",
        "override": parts.store.override(set_by) if set_by else None,
        "now": now,
        "wrong": wrong,
        "mode": parts.mode,
    }
    expired = standing is Standing.EXPIRED and status == 200
    return make_response(render_template("answer.html", **shown), 410 if expired else status)


def _helps(question: Question, parts: WebParts) -> bool | None:
    """Whether the change would still help, by the last step's picture; None where that does not say."""
    found, _ = kept_picture(parts.store)
    return next((q.wanted for pool in found.pools for q in pool.questions if q.id == question.id), None)
