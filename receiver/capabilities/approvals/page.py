"""/answer/{signed}: the page behind a link in a message. The link is all that is needed, for one approval request.

GET and HEAD never answer: chats open links to show what is behind them.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from flask import Blueprint, g, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from receiver.capabilities.approvals.api import answer_once, size_of
from receiver.capabilities.approvals.choices import LABELS, SET_NONE, choices, needs_size, override_id
from receiver.capabilities.approvals.notices import in_short, unanswered
from receiver.capabilities.approvals.sentences import gives_way
from receiver.core.model.overrides import Answer, Asks, Question, Standing
from receiver.core.model.text import listed, span
from receiver.core.money.budget import month_of
from receiver.core.notices import wording
from receiver.reports.picture import ConcernDocument, Picture, PoolDocument, ScopedBudget, kept_picture
from receiver.web.api.request_parts import MAX_LIMIT, read_form
from receiver.web.auth.access import Access
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

TEMPLATES = Path(__file__).parent / "templates"
UNNAMED = "someone with the link"
TOO_LATE = "Nothing was changed: the request was answered, or expired, before your answer arrived."
UNKNOWN_SIZE = "Nothing was changed: the pool's size is unknown. Try again in a minute, approve or reject."
NONE_CHOSEN = "Nothing was changed: choose one of the answers."


def blueprint(access: Access, parts: WebParts) -> Blueprint:
    """Return the page of an approval link and what its form sends to."""
    routes = Blueprint("answers", __name__)

    @routes.after_request
    def keep_out_of_indexes(response: Response) -> Response:
        response.headers["X-Robots-Tag"] = "noindex, nofollow"
        return response

    @routes.get("/answer/<signed>")
    def ask(signed: str) -> Response:
        response = _page(_asked(signed, parts), signed, parts)
        if request.headers.get("Sec-Fetch-Site") == "cross-site" and "again" not in request.args:
            # A link in a chat brings no cookie (SameSite=Strict). Asked again by our own page, the browser sends it.
            response.headers["Refresh"] = f"0; url={url_for('answers.ask', signed=signed, again=1)}"
        return response

    @routes.post("/answer/<signed>")
    def take(signed: str) -> Response:
        question, form = _asked(signed, parts), read_form(request)
        word = form.get("answer", "")
        if word not in set(Answer):
            return _page(question, signed, parts, wrong=NONE_CHOSEN, status=400)
        who = g.visitor.name_in(form)
        accepted = answer_once(question, Answer(word), who or UNNAMED, "", parts)
        if accepted is None:
            return _page(question, signed, parts, wrong=UNKNOWN_SIZE, status=503)
        stored_question = parts.store.question(question.id) or question
        if not accepted and stored_question.answer != word:
            return _page(stored_question, signed, parts, wrong=TOO_LATE, status=409)
        response = redirect(url_for("answers.ask", signed=signed), 303)
        access.remember(response, g.visitor, who)
        return response

    return routes


def ways(concern: ConcernDocument, parts: WebParts) -> Iterator[tuple[str, str]]:
    """Yield where an operator answers the request that *concern* is about."""
    if concern.question and (seal := parts.seal()):
        yield url_for("answers.ask", signed=seal.sign(concern.question)), "Approve or reject"


def _asked(signed: str, parts: WebParts) -> Question:
    seal = parts.seal()
    if seal is None:
        problem = "approval links do not work: this server has no operator token"
        raise Problem(403, problem, "set GPU_AUTOSCALER_OPERATOR_TOKEN and restart it")
    number = seal.read(signed)
    if number is None:
        remedy = "copy the whole link from the newest message, or use `gpu-autoscaler approvals approve ID --who YOU`"
        raise Problem(403, "this link is incomplete, or the token that signed it has been replaced", remedy)
    question = parts.store.question(number)
    if question is None:
        raise Problem(404, "this request is no longer stored", "`gpu-autoscaler approvals` lists the open ones")
    return question


def _page(question: Question, signed: str, parts: WebParts, *, wrong: str = "", status: int = 200) -> Response:
    now, present = parts.clock.now(), size_of(question.pool, parts.store)
    standing = question.standing(now)
    offered = choices(question, parts.policy, now, question.from_count if present is None else present)
    answer = question.answer
    set_by = override_id(answer, question) if answer is not None and answer not in SET_NONE else None
    picture, _ = kept_picture(parts.store)
    pool_questions = parts.store.questions(pool=question.pool, limit=MAX_LIMIT) if standing is Standing.OPEN else ()
    page = render_template(
        "answer.html",
        question=question,
        title=in_short(question),
        pool_name=parts.pool_name(question.pool),
        signed=signed,
        standing=standing.value,
        unanswered=unanswered(question, yields=gives_way(question, pool_questions, now)),
        case=_case(question, picture, parts, now) if standing is Standing.OPEN else {},
        # Whether the change would still help, by the last step's picture; None where that does not say.
        helps=next((q.wanted for pool in picture.pools for q in pool.questions if q.id == question.id), None),
        choices=[c for c in offered if present is not None or not needs_size(c.answer, question)],
        answered=LABELS[answer] if answer else "",
        override=parts.store.override(set_by) if set_by else None,
        now=now,
        wrong=wrong,
        mode=parts.mode,
    )
    expired = standing is Standing.EXPIRED and status == 200
    return make_response(page, 410 if expired else status)


def _case(question: Question, picture: Picture, parts: WebParts, now: datetime) -> Mapping[str, Any]:
    """What there is to know before answering: why, for whom, what it costs, and the budget with and without it."""
    pool = picture.pool(question.pool) or PoolDocument()
    grows, configured = question.asks is Asks.GROWTH, parts.policy.pool(question.pool)
    usd = question.usd_per_hour
    change = None if usd is None else usd if grows else -usd
    return {
        "grows": grows,
        "why": _why_growth(pool) if grows else _why_removal(question, pool, now),
        "whose": _whose(question, pool, parts),
        "usd": usd,
        "above": configured.approval.growth_above_usd_per_hour
        if grows and configured and configured.approval
        else None,
        "budget": picture.budget,
        "forecast": _forecast(picture.budget, change, parts, now),
        "decision": pool.decision,
    }


def _why_growth(pool: PoolDocument) -> str:
    """The demand in the words of the latest decision."""
    demand = next((reason.detail for reason in pool.reasons if reason.rule == "demand"), pool.because)
    return wording.sentence(demand) if demand else ""


def _why_removal(question: Question, pool: PoolDocument, now: datetime) -> str:
    if question.asks is Asks.EMPTYING:
        return "The pods may be moved, and fit on other nodes."
    since = [node.idle_since for node in pool.nodes if node.name in question.nodes and node.idle_since is not None]
    if not since:
        return ""
    idle = f"No GPU pod for {span((now - max(since)).total_seconds())}"
    return f"{idle}; no pod waits for the pool." if pool.pending_gpus == 0 else f"{idle}."


def _whose(question: Question, pool: PoolDocument, parts: WebParts) -> str:
    """The work that waits for the growth, by the latest decision, or whose pods are moved."""
    if question.asks is Asks.REMOVAL:
        return ""
    if question.asks is Asks.EMPTYING:
        return listed([pod for node in pool.nodes if node.name in question.nodes for pod in node.pods])
    stored = parts.store.decision(pool.decision) if pool.decision is not None else None
    workloads = stored.decision.evidence.get("workloads") if stored else None
    try:
        return wording.whose(wording.asked_in(workloads or ()))
    except (KeyError, TypeError):  # as another version wrote it
        return ""


def _forecast(budget: ScopedBudget | None, change: Decimal | None, parts: WebParts, now: datetime) -> Decimal | None:
    """USD at the month's end once the cost has changed by *change* USD an hour; None where that is not known."""
    if budget is None or budget.forecast_usd is None or change is None:
        return None
    seconds = int((month_of(now, parts.policy.timezone).end - now).total_seconds())
    return max(budget.spent_usd or Decimal(0), budget.forecast_usd + change * seconds / 3600)
