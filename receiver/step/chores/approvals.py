"""Ask people before the changes that the policy wants them to be asked about, and note when nothing is left of one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

import structlog

from receiver.core.explain.because import with_grounds
from receiver.core.model.actions import Decision
from receiver.core.model.approval_request import Question
from receiver.core.model.model import Facts, Source
from receiver.core.model.policy import Policy
from receiver.core.notices import approval_notices
from receiver.core.notices.sentences import Cause, Notice
from receiver.core.scaling import approval
from receiver.core.scaling.assign import Assignment
from receiver.core.scaling.decide import decide_all
from receiver.ports import StepStore
from receiver.step.parts import Parts, StepContext

log = structlog.get_logger("receiver")
Decisions = dict[str, Decision]


def asked_before(facts: Facts, store: StepStore, policy: Policy, now: datetime, parts: Parts, *, steady: bool) -> Facts:
    """Return *facts* with the questions that stand. Those of which nothing is left are noted as done.

    Unless the clock is *steady* nobody knows how long an answer was waited for: what is unanswered then counts for
    nothing, and the change waits.
    """
    if not approval.anybody_asked(policy):
        return facts
    found = []
    for question in store.questions_standing(now):
        with parts.part("approvals", question.pool):
            if question.done_at is None and facts.up(Source.CIVO) and approval.is_at_its_end(question, facts):
                store.question_done(question.id, now)
                question = replace(question, done_at=now)
        if steady or question.answer is not None:
            found.append(question)
    return replace(facts, questions=tuple(found))


def due(
    facts: Facts, assignment: Assignment, decisions: Decisions, policy: Policy, parts: Parts, *, steady: bool
) -> tuple[Facts, Assignment, Decisions, Sequence[Question]]:
    """Return the questions that are due, and facts, assignment and decisions as they are with these asked.

    A bug in that must not keep other pools from scaling: what people were not asked about waits.
    """
    if not steady or not approval.anybody_asked(policy):
        return facts, assignment, decisions, ()
    with parts.part("approvals"):
        questions = approval.to_ask(facts, assignment, decisions, policy)
        if questions:
            asked = replace(facts, questions=(*facts.questions, *questions))
            held = approval.with_questions(assignment, questions)
            return (
                asked,
                held,
                decide_all(asked, held, policy, explained_by=with_grounds, failures=parts.failures),
                questions,
            )
    return facts, assignment, decisions, ()


def ask(questions: Iterable[Question], work: StepContext) -> None:
    """Ask *questions*, before anything is done: each is kept and told in one go. Raises TryLater (store down)."""
    for question in questions:
        with work.parts.part("approvals", question.pool):
            notice = work.parts.composed(
                partial(_asked, question, work),
                cause=Cause.ASKS,
                topic=f"{approval_notices.TOPIC}{question.id}",
                key="asked",
                plainly=f"Approval {question.id} is needed: {question.from_count} -> {question.to_count} nodes",
            )
            if work.store.ask(question, notice):
                log.info("question", question=question.id, pool=question.pool, until=question.wait_ends.isoformat())


def _asked(question: Question, work: StepContext) -> Notice:
    wanted = work.assignment.pools[question.pool]
    return approval_notices.asked(question, work.policy, wanted, work.numbers[question.pool])
