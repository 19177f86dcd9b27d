"""The picture that a step publishes of facts and decisions."""

from collections.abc import Mapping
from typing import Any

from receiver.core.model.actions import Decision
from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy
from receiver.core.scaling.wanted import Assignment
from receiver.step.parts import Parts, StepContext
from receiver.step.publish import picture
from simulator.store import MemoryStore
from tests.step.outside import Outside


def picture_of(
    found: Facts, assignment: Assignment, decisions: Mapping[str, Decision], policy: Policy, mode: str = "act"
) -> dict[str, Any]:
    """Return it as readers get it; *decisions* are by pool id, and every one has the number 42."""
    step = StepContext(
        facts=found,
        assignment=assignment,
        decisions=decisions,
        numbers=dict.fromkeys(decisions, 42),
        drifts={},
        policy=policy,
        mode=mode,
        hands=Outside().hands,
        store=MemoryStore(),
        before=None,
        now=found.at,
        parts=Parts(),
    )
    document = picture(step, lambda: None).document()
    assert step.parts.failures.all == []
    return document
