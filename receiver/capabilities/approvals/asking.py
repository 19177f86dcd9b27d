"""The requests of a step: those that stand are read and ended, those that are due stored with their messages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import structlog

from receiver.capabilities.approvals.due import due_requests, is_done, is_wanted
from receiver.capabilities.approvals.notices import QUESTION_TOPIC, asked
from receiver.capabilities.approvals.sentences import sentence
from receiver.core.model.actions import Decision
from receiver.core.model.model import Facts, Source
from receiver.core.model.overrides import Question
from receiver.core.model.policy import Policy, Pool
from receiver.core.notices.notice import Cause
from receiver.core.scaling.wanted import Assignment
from receiver.reports.picture import PoolsQuestion
from receiver.step.parts import Due, StepContext, StepFrame

NAME = "approvals"  # of the part of a step

log = structlog.get_logger("receiver")


def settle_requests(facts: Facts, frame: StepFrame, trusted: bool) -> Facts:
    """Return *facts* with the requests that stand and, by a clock that is *trusted*, end those of which nothing is
    left. Raises TryLater."""
    questions = []
    for question in frame.store.questions_standing(frame.now) if _asks(frame.policy) else ():
        with frame.parts.part(NAME, question.pool):
            is_open = trusted and question.done_at is None and facts.up(Source.CIVO)
            if is_open and is_done(question, facts):
                frame.store.question_done(question.id, frame.now)
                question = replace(question, done_at=frame.now)
        questions.append(question)
    return replace(facts, instructions=replace(facts.instructions, questions=tuple(questions)))


def _asks(policy: Policy) -> bool:
    return any(pool.approval is not None for pool in policy.pools)


def what_is_due(facts: Facts, assignment: Assignment, decisions: Mapping[str, Decision], policy: Policy) -> Due | None:
    """Return the facts with the requests that are due after *decisions*, and what stores and sends these."""
    requests = due_requests(facts, assignment, decisions, policy) if _asks(policy) else ()
    if not requests:
        return None
    instructions = replace(facts.instructions, questions=(*facts.instructions.questions, *requests))
    return Due(facts=replace(facts, instructions=instructions), record=partial(_record, requests, assignment))


def _record(requests: Sequence[Question], assignment: Assignment, numbers: Mapping[str, int], frame: StepFrame) -> None:
    parts, policy = frame.parts, frame.policy
    for question in requests:
        with parts.part(NAME, question.pool):
            notice = parts.composed(
                partial(asked, question, policy, assignment.pools[question.pool], numbers[question.pool]),
                cause=Cause.ASKS,
                topic=f"{QUESTION_TOPIC}{question.id}",
                key="asked",
                plainly=f"Approval {question.id} is needed: {question.from_count} -> {question.to_count} nodes",
            )
            if frame.store.ask(question, notice):
                until = question.wait_ends.isoformat()
                log.info("approval requested", question=question.id, pool=question.pool, until=until)


def published(pool: Pool, work: StepContext) -> Sequence[PoolsQuestion]:
    """Return what the picture of a step has of the requests of *pool* that stand."""
    facts, wanted = work.facts, work.assignment.pools[pool.id]
    return [
        PoolsQuestion.of(
            question,
            state=question.standing(facts.at),
            said=sentence(question, facts.at, facts.instructions.questions),
            wanted=is_wanted(question, facts.pool(pool.id), wanted),
        )
        for question in facts.instructions.questions
        if question.pool == pool.id and question.stands(facts.at)
    ]
