"""Request approval for the changes that the policy names, and close requests with nothing left to do."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

import structlog

from receiver.core.explain.evidence import with_grounds
from receiver.core.model.actions import Decision
from receiver.core.model.approval_request import Question
from receiver.core.model.model import Facts, Source
from receiver.core.model.policy import Policy
from receiver.core.notices import people_notices
from receiver.core.notices.notice import Cause, Notice
from receiver.core.scaling import approval
from receiver.core.scaling.assign import Assignment
from receiver.core.scaling.decide import decide_all
from receiver.ports import StepStore
from receiver.step.parts import Parts, StepContext

log = structlog.get_logger("receiver")
Decisions = dict[str, Decision]


def asked_before(facts: Facts, store: StepStore, policy: Policy, now: datetime, parts: Parts, *, steady: bool) -> Facts:
    """Return *facts* with the open approval requests. Those with nothing left to do are closed.

    Unless the clock is *steady*, how long a request has waited is unknown: unanswered requests are then ignored, and
    the change waits.
    """
    if not approval.uses_approvals(policy):
        return facts
    found = []
    for question in store.questions_standing(now):
        with parts.part("approvals", question.pool):
            if question.done_at is None and facts.up(Source.CIVO) and approval.is_done(question, facts):
                store.question_done(question.id, now)
                question = replace(question, done_at=now)
        if steady or question.answer is not None:
            found.append(question)
    return replace(facts, questions=tuple(found))


def due(
    facts: Facts, assignment: Assignment, decisions: Decisions, policy: Policy, parts: Parts, *, steady: bool
) -> tuple[Facts, Decisions, Sequence[Question]]:
    """Return the approval requests that are due, with the facts and decisions that follow from them.

    A bug here must not keep other pools from scaling: a change without its request waits.
    """
    if not steady or not approval.uses_approvals(policy):
        return facts, decisions, ()
    with parts.part("approvals"):
        questions = approval.due_requests(facts, assignment, decisions, policy)
        if questions:
            asked = replace(facts, questions=(*facts.questions, *questions))
            again = decide_all(asked, assignment, policy, explained_by=with_grounds, failures=parts.failures)
            return asked, again, questions
    return facts, decisions, ()


def ask(questions: Iterable[Question], work: StepContext) -> None:
    """Store each approval request together with its message. Raises TryLater (store down)."""
    for question in questions:
        with work.parts.part("approvals", question.pool):
            notice = work.parts.composed(
                partial(_asked, question, work),
                cause=Cause.ASKS,
                topic=f"{people_notices.QUESTION_TOPIC}{question.id}",
                key="asked",
                plainly=f"Approval {question.id} is needed: {question.from_count} -> {question.to_count} nodes",
            )
            if work.store.ask(question, notice):
                log.info(
                    "approval requested", question=question.id, pool=question.pool, until=question.wait_ends.isoformat()
                )


def _asked(question: Question, work: StepContext) -> Notice:
    wanted = work.assignment.pools[question.pool]
    return people_notices.asked(question, work.policy, wanted, work.numbers[question.pool])
