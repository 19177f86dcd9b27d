"""/api/v1/questions: approval requests and their answers. Answering takes the operator's token."""

from datetime import datetime
from typing import Any

import structlog
from flask import Blueprint, Response, jsonify, request

from receiver.config.values import did_you_mean
from receiver.core.model.actions import ActionKind
from receiver.core.model.approval_request import Answer, Question, needs_size, override_of, sentence
from receiver.core.model.policy import Policy
from receiver.core.notices import people_notices
from receiver.ports import WebStore
from receiver.reports.picture import kept_picture
from receiver.web.api.documents import QuestionDocument, as_list
from receiver.web.api.overrides import words_asked
from receiver.web.api.request_parts import limit_asked, pool_asked, read_object
from receiver.web.auth.tokens import require_operator
from receiver.web.errors import Problem
from receiver.web.parts import WebParts


def size_of(pool: str, store: WebStore) -> int | None:
    """Return how many nodes the pool (an id) has by the last step's picture, those that were just asked for included;
    None where that is not known."""
    found = kept_picture(store)[0].pool(pool)
    if found is None or found.required is None:
        return None
    action = found.open_action
    return max(found.required, action.to_count if action is not None and action.kind == ActionKind.GROW else 0)


def take_answer(
    question: Question,
    answer: Answer,
    who: str,
    why: str,
    store: WebStore,
    policy: Policy,
    now: datetime,
    *,
    present: int,
) -> bool:
    """Store the *answer* of *who* while the pool has *present* nodes; False unless *question* stands unanswered."""
    pool = policy.pool(question.pool)
    most = present if pool is None else min(present, pool.max_nodes)
    override = override_of(answer, question, policy, now, present=most, who=who, why=why)
    notice = people_notices.answered(question, answer, who, override, policy)
    return store.answer_question(question.id, answer, who, why, now, notice, override)


FIELDS = ("answer", "who", "why")

log = structlog.get_logger(__name__)


def add_questions(routes: Blueprint, parts: WebParts) -> None:
    """Add the routes to *routes*."""

    @routes.get("/questions")
    def questions() -> Response:
        """List approval requests, newest first."""
        pool, limit, now = pool_asked(parts), limit_asked(), parts.clock.now()
        found = parts.store.questions(pool=pool, limit=limit)
        return jsonify(as_list(QuestionDocument.of_question(q, parts, now) for q in found))

    @routes.get("/questions/<number>")
    def one_question(number: str) -> Response:
        return jsonify(QuestionDocument.of_question(_kept(parts, number), parts, parts.clock.now()).document())

    @routes.post("/questions/<number>")
    def answer(number: str) -> Response:
        """Take an answer: kept and told in one transaction, and acted upon by the step that this wakes."""
        require_operator(request.headers.get("Authorization"), parts.operator_token)
        said = read_object(request, FIELDS, '{"answer": "approve", "who": "alice"}')
        word, who = _answer(said.get("answer")), words_asked(said, "who", "say who answers, such as alice")
        why = words_asked(said, "why", "") if said.get("why") else ""
        question = _kept(parts, number)
        taken = answer_once(question, word, who, why, parts)
        if taken is None:
            raise Problem(503, "the pool's size is not known now", "try again in a minute, or approve", field="answer")
        kept = _kept(parts, number)
        now = parts.clock.now()
        if not taken and kept.answer is not word:
            remedy = "set an override instead: see `gpu-autoscaler override`"
            raise Problem(409, f"nothing was changed: {sentence(kept, now)}", remedy, state=kept.standing(now).value)
        return jsonify(QuestionDocument.of_question(kept, parts, now).document())


def answer_once(question: Question, answer: Answer, who: str, why: str, parts: WebParts) -> bool | None:
    """Keep *answer* and wake the loop; False when it is answered or over, None when *answer* says a number of nodes
    and the pool's size is not known."""
    present = size_of(question.pool, parts.store)
    if present is None and needs_size(answer, question):
        return None
    size = question.from_count if present is None else present
    now = parts.clock.now()
    if not take_answer(question, answer, who, why, parts.store, parts.policy, now, present=size):
        return False
    parts.wake()
    log.info("question answered", question=question.id, answer=answer.value, who=who)
    return True


def _kept(parts: WebParts, number: str) -> Question:
    question = parts.store.question(number)
    if question is None:
        raise Problem(404, "no question has this id", "see /api/v1/questions for those that were asked", field="id")
    return question


def _answer(said: Any) -> Answer:
    known = [answer.value for answer in Answer]
    if said is None:
        raise Problem(400, "answer is missing", f"say one of: {', '.join(known)}", field="answer")
    if said not in known:
        raise Problem(400, "there is no such answer", did_you_mean(str(said), known), field="answer")
    return Answer(said)
