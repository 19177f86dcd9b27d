"""Run one part of a step so that a bug in it stops neither the others nor the next step.

What the step cannot go on without passes through: TryLater (the store failed) and WriterLostError (we may not write).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from receiver.core.model.actions import Decision
from receiver.core.model.approval_request import Question
from receiver.core.model.control import Control
from receiver.core.model.failures import Failure, Failures
from receiver.core.model.model import Drift, Facts
from receiver.core.model.policy import Policy
from receiver.core.notices.sentences import Cause, Notice
from receiver.core.scaling.assign import Assignment
from receiver.ports import StepStore, TryLater, WriterLostError
from receiver.step.carry_out import Hands

log = structlog.get_logger("receiver")

# Every part that can fail while the step goes on, in the order of a step: the values of the metric's label. Only these.
PARTS = (
    "sizes",
    "node_life",
    "pool_state",
    "forecast",
    "teams",
    "drift",
    "removals",
    "settle",
    "window_evictions",
    "rights",
    "approvals",
    "assign",
    "decide",
    "grounds",
    "record",
    "orphans",
    "close_nodes",
    "keep_out",
    "why_kept",
    "act",
    "labels_and_taints",
    "soft_taints",
    "idle_shutdown",
    "messages",
    "usage",
    "picture",
    "samples",
    "log",
    "publish",
)
MESSAGE = "message:"  # the part that composes one message begins with it, its cause follows


def counted_as(part: str) -> str:
    """The name of `PARTS` that *part* counts as: all messages are one."""
    return "messages" if part.startswith(MESSAGE) else part


class Parts:
    """The parts of one step. What fails is logged and kept in *failures*."""

    def __init__(self) -> None:
        """Begin with nothing failed."""
        self.failures = Failures()
        self._logged = 0

    @contextmanager
    def part(self, name: str, pool: str | None = None, *, sets_aside: bool = False) -> Iterator[None]:
        """End quietly what raises meanwhile. A *pool* that this *sets_aside* is served no further in this step."""
        try:
            yield
        except (TryLater, WriterLostError):
            raise
        except Exception as error:  # noqa: BLE001  # it is noted, and the rest goes on
            failure = Failure(part=name, error=error, pool=pool)
            if pool is not None and sets_aside:
                self.failures.sets_aside(pool, failure)
            else:
                self.failures.note(failure)
            self.log()

    def log(self) -> None:
        """Log the failures that were not logged yet, each with where it was raised."""
        for failure in self.failures.all[self._logged :]:
            where = {"pool": failure.pool} if failure.pool else {}
            where |= {"workload": failure.workload} if failure.workload else {}
            log.error("part of a step failed", part=failure.part, **where, exc_info=failure.error)
        self._logged = len(self.failures.all)

    def composed(self, make: Callable[[], Notice], *, cause: Cause, topic: str, key: str, plainly: str) -> Notice:
        """The notice that *make* composes; if that fails, one that says *plainly* what happened.

        For a notice that is stored in one transaction with what it tells, so that it is sent exactly once.
        """
        try:
            return make()
        except (TryLater, WriterLostError):
            raise
        except Exception as error:  # noqa: BLE001  # it is noted, and the rest goes on
            self.failures.note(Failure(part=f"{MESSAGE}{cause.value}", error=error))
            self.log()
        return Notice(cause=cause, topic=topic, key=key, title=plainly, body="The full message failed; see the log.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What was decided, from which *facts*, and the *questions* that people are to be asked."""

    facts: Facts
    assignment: Assignment
    decisions: dict[str, Decision]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
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
