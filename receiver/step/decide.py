"""Decide: assign the demand to pools and decide for each, from the facts alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from receiver.core.explain.evidence import with_grounds
from receiver.core.model.actions import Decision
from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all
from receiver.core.scaling.wanted import Assignment
from receiver.step.parts import NOTHING, Additions, Parts, StepFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The decisions, the *facts* they were made from, and what to *record* with their numbers, by the part that it is
    of."""

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    record: Sequence[tuple[str, Callable[[Mapping[str, int], StepFrame], None]]] = ()


def decide(
    facts: Facts, policy: Policy, parts: Parts, *, asks: bool, chores: bool, additions: Additions = NOTHING
) -> Decided:
    """Assign the demand and decide for every pool. A pool whose decision fails with a bug keeps its size. The requests
    to people that are due then are made if the step *asks*."""
    grounds = with_grounds if chores else None
    assignment = assign(facts, policy, parts.failures, additions.sources, additions.guardrails)
    decisions = decide_all(facts, assignment, policy, explained_by=grounds, failures=parts.failures)
    decided = Decided(facts=facts, assignment=assignment, decisions=decisions)
    for kind in additions.requests if asks else ():
        with parts.part(kind.name):  # if it fails, the changes wait and the other pools scale
            if (due := kind.due(decided.facts, assignment, decided.decisions, policy)) is not None:
                decisions = decide_all(due.facts, assignment, policy, explained_by=grounds, failures=parts.failures)
                record = (*decided.record, (kind.name, due.record))
                decided = replace(decided, facts=due.facts, decisions=decisions, record=record)
    return decided
