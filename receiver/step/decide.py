"""Decide: assign the demand to pools and decide for each, from the facts alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from receiver.core.explain.evidence import with_grounds
from receiver.core.model.actions import Decision
from receiver.core.model.model import Facts
from receiver.core.model.overrides import Question
from receiver.core.model.policy import Policy
from receiver.core.scaling.approval import due_requests
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all
from receiver.core.scaling.wanted import Assignment, SizeSource
from receiver.step.parts import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The decisions, the *facts* they were made from, and the approval requests (*questions*) to send."""

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    questions: Sequence[Question]


def decide(
    facts: Facts, policy: Policy, parts: Parts, *, asks: bool, chores: bool, sources: Sequence[SizeSource] = ()
) -> Decided:
    """Assign the demand and decide for every pool. A pool whose decision fails with a bug keeps its size. The approvals
    that are due are requested if the step *asks*."""
    grounds = with_grounds if chores else None
    assignment = assign(facts, policy, parts.failures, sources)
    decisions = decide_all(facts, assignment, policy, explained_by=grounds, failures=parts.failures)
    decided = Decided(facts=facts, assignment=assignment, decisions=decisions, questions=())
    if asks and policy.uses_approvals:
        with parts.part("approvals"):  # if it fails, the changes wait and the other pools scale
            if questions := due_requests(facts, assignment, decisions, policy):
                instructions = facts.instructions
                instructions = replace(instructions, questions=(*instructions.questions, *questions))
                facts = replace(facts, instructions=instructions)
                decisions = decide_all(facts, assignment, policy, explained_by=grounds, failures=parts.failures)
                decided = Decided(facts=facts, assignment=assignment, decisions=decisions, questions=questions)
    return decided
