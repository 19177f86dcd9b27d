"""Pools that ask before they change, and what a step decides on and asks for them."""

from typing import Any

from receiver.capabilities.approvals.due import due_requests
from receiver.core.model.actions import Decision
from receiver.core.model.model import Facts
from receiver.core.model.overrides import Answer, Question
from receiver.core.model.policy import Approval, Policy, Unanswered
from receiver.core.scaling.decide import decide_all
from tests.core.builders import NOW, a_policy, a_pool, assigned, run

HOLD = Unanswered.HOLD
APPROVED = {"answer": Answer.APPROVE, "who": "alice", "answered_at": NOW}
FOR_REMOVALS = Approval(removals=True)


def an_asking_policy(approval: Approval = FOR_REMOVALS, **pool: Any) -> Policy:
    """A policy whose pool asks before what *approval* names."""
    return a_policy(a_pool(approval=approval, **pool))


def decide(found: Facts, policy: Policy) -> Decision:
    """The decision on the L40S pool."""
    return run(found, policy)[1]["l40s"]


def due_questions(found: Facts, policy: Policy) -> tuple[Question, ...]:
    """The questions that a step asks for."""
    assignment = assigned(found, policy)
    return due_requests(found, assignment, decide_all(found, assignment, policy), policy)
