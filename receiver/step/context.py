"""What every part of a step works with, once everything is decided."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.model.actions import Decision
from receiver.core.model.approval_request import Question
from receiver.core.model.control import Control
from receiver.core.model.model import Drift, Facts
from receiver.core.model.policy import Policy
from receiver.core.notices.sentences import Notice
from receiver.core.scaling.assign import Assignment
from receiver.ports import StepStore
from receiver.step.carry_out import Hands
from receiver.step.parts import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What was decided, from which *facts*, and the *questions* that people are to be asked."""

    facts: Facts
    assignment: Assignment
    decisions: dict[str, Decision]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One step's facts and decisions, and what may be written to. *numbers* are the stored decisions' by pool,
    *before* is what the step before this one left, *unsaid* what is told once everything was done."""

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    numbers: Mapping[str, int]
    drifts: Mapping[str, Drift]
    policy: Policy
    mode: str
    hands: Hands
    store: StepStore
    before: Control | None
    now: datetime
    parts: Parts
    unsaid: list[Callable[[], object]] = field(default_factory=list)

    def say_later(self, make: Callable[[], Notice]) -> None:
        """Compose a notice and put it into the outbox once everything was done that this step does."""
        self.unsaid.append(lambda: self.do_say(make()))

    def do_say(self, notice: Notice) -> bool:
        """Put *notice* into the outbox; True when it is news. Raises TryLater (store down)."""
        return self.store.say(notice, self.now)
