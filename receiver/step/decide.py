"""Assign the demand to pools and decide for each, from the facts alone."""

from receiver.core.explain.evidence import with_grounds
from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all
from receiver.step.chores.approvals import due
from receiver.step.parts import Decided, Parts


def decide(facts: Facts, policy: Policy, parts: Parts, *, steady: bool, chores: bool) -> Decided:
    """Assign the demand and decide for every pool. A pool whose decision fails with a bug keeps its size."""
    assignment = assign(facts, policy, parts.failures)
    decided = decide_all(
        facts, assignment, policy, explained_by=with_grounds if chores else None, failures=parts.failures
    )
    facts, decided, questions = due(facts, assignment, decided, policy, parts, steady=steady)
    return Decided(facts=facts, assignment=assignment, decisions=decided, questions=questions)
