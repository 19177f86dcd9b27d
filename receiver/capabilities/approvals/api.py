"""GET and POST /api/v1/questions: approval requests and their answers.

An answer is stored with its message in one transaction, and wakes the step that acts on it.
"""

from dataclasses import replace

import structlog
from flask import Blueprint, Response, jsonify, request

from receiver.capabilities.approvals.choices import needs_size, override_by_answer
from receiver.capabilities.approvals.documents import AnswerAsked, QuestionDocument
from receiver.capabilities.approvals.notices import answered
from receiver.capabilities.approvals.sentences import sentence
from receiver.core.model.actions import ActionKind
from receiver.core.model.overrides import Answer, Question
from receiver.core.model.policy import Policy
from receiver.ports import WebStore
from receiver.reports.picture import kept_picture
from receiver.web.api.request_parts import (
    LIMIT_QUERY,
    POOL_QUERY,
    choice_asked,
    limit_asked,
    pool_asked,
    read_object,
    require_operator,
    words_asked,
)
from receiver.web.errors import Problem
from receiver.web.operation import OPERATOR, Request
from receiver.web.parts import WebParts

REQUESTS = (
    Request("questions", "questions", "Approval requests, newest first", QuestionDocument, (400, 404), many=True,
            query=(POOL_QUERY, LIMIT_QUERY)),
    Request("questions/{question_id}", "question", "One of them", QuestionDocument, (404,)),
    Request("questions/{question_id}", "answer", "Answer one", QuestionDocument, (400, 404, 409, 413), method="post",
            token=OPERATOR, body=AnswerAsked),
)  # fmt: skip

log = structlog.get_logger(__name__)


def size_of(pool: str, store: WebStore) -> int | None:
    """Return how many nodes the pool (an id) has or was just asked for by the last picture, None if not known."""
    pool_document = kept_picture(store)[0].pool(pool)
    if pool_document is None or pool_document.required is None:
        return None
    action = pool_document.open_action
    return max(pool_document.required, action.to_count if action is not None and action.kind == ActionKind.GROW else 0)


def take_answer(question: Question, store: WebStore, policy: Policy, *, present: int) -> bool:
    """Store the answer in *question* while the pool has *present* nodes; False unless it stands unanswered."""
    pool = policy.pool(question.pool)
    most = present if pool is None else min(present, pool.max_nodes)
    override = override_by_answer(question, policy, present=most)
    return store.answer_question(question, answered(question, override, policy), override)


def answer_once(question: Question, answer: Answer, who: str, why: str, parts: WebParts) -> bool | None:
    """Keep *answer* and wake the loop; False unless it stands, None where the size that it needs is not known."""
    present = size_of(question.pool, parts.store)
    if present is None and needs_size(answer, question):
        return None
    size = question.from_count if present is None else present
    given = replace(question, answer=answer, who=who, why=why, answered_at=parts.clock.now())
    if not take_answer(given, parts.store, parts.policy, present=size):
        return False
    parts.wake()
    log.info("question answered", question=question.id, answer=answer.value, who=who)
    return True


def add_routes(routes: Blueprint, parts: WebParts) -> None:
    """Add these routes to *routes*."""

    def kept(question_id: str) -> Question:
        question = parts.store.question(question_id)
        if question is None:
            raise Problem(
                404,
                "no question has this id",
                "`gpu-autoscaler approvals list --all` lists those that were asked",
                field="id",
            )
        return question

    @routes.get("/questions")
    def questions() -> Response:
        pool, limit, now = pool_asked(parts), limit_asked(), parts.clock.now()
        approval_requests = parts.store.questions(pool=pool, limit=limit)
        return jsonify([QuestionDocument.of_question(q, parts, now) for q in approval_requests])

    @routes.get("/questions/<question_id>")
    def one_question(question_id: str) -> Response:
        return jsonify(QuestionDocument.of_question(kept(question_id), parts, parts.clock.now()))

    @routes.post("/questions/<question_id>")
    def answer(question_id: str) -> Response:
        require_operator(parts)
        body = read_object(request, ("answer", "who", "why"), '{"answer": "approve", "who": "alice"}')
        word = choice_asked(body, "answer", Answer)
        who = words_asked(body, "who", "give the name of the person, such as alice")
        why = words_asked(body, "why", "") if body.get("why") else ""
        accepted = answer_once(kept(question_id), word, who, why, parts)
        if accepted is None:
            raise Problem(503, "the pool's size is unknown", "try again in a minute, approve or reject", field="answer")
        question, now = kept(question_id), parts.clock.now()
        if not accepted and question.answer is not word:
            remedy, state = (
                "set an override instead: see `gpu-autoscaler override --help`",
                question.standing(now).value,
            )
            raise Problem(409, f"nothing was changed: {sentence(question, now)}", remedy, state=state)
        return jsonify(QuestionDocument.of_question(question, parts, now))
