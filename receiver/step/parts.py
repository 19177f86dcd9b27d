"""Run one part of a step so that a bug in it stops neither the others nor the next step; and what all parts share.

Two errors pass through, because the step cannot continue: TryLater (the store failed) and WriterLostError (another
replica leads).
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from receiver.core.model.actions import Action, ActionKind, Decision, Outcome, OutcomeKind
from receiver.core.model.memory import Control
from receiver.core.model.model import Drift, Facts
from receiver.core.model.policy import Policy, Pool
from receiver.core.notices.action_notices import Around, ended
from receiver.core.notices.notice import Cause, Concern, Notice, PoolConcerns
from receiver.core.notices.workload_notices import ToldPods
from receiver.core.promises.calibration import OpenPromises
from receiver.core.promises.startup import NOTHING_LEARNT, Learnt
from receiver.core.scaling.failures import Failure, Failures
from receiver.core.scaling.guardrails.rule import AddedGuardrail
from receiver.core.scaling.wanted import Assignment, SizeSource
from receiver.ports import Cloud, Cluster, Did, Receipt, RecordStore, StepStore, TryLater, WontWork, WriterLostError

if TYPE_CHECKING:  # it imports this module
    from receiver.step.gather import Looked, Sources

log = structlog.get_logger("receiver")

# Every part that can fail while the step goes on, in the order of a step. The metric's label has these values, and the
# names of the parts that capabilities add.
PARTS = (
    "claims",
    "hosts",
    "sizes",
    "node_objects",
    "node_life",
    "drift",
    "pool_state",
    "nominations",
    "slow_starts",
    "removals",
    "ownership",
    "forecast",
    "teams",
    "settle",
    "window_evictions",
    "rights",
    "assign",
    "decide",
    "grounds",
    "promises",
    "record",
    "orphans",
    "close_nodes",
    "keep_out",
    "why_kept",
    "act",
    "labels_and_taints",
    "soft_taints",
    "installations",
    "scheduler",
    "messages",
    "usage",
    "picture",
    "samples",
    "log",
    "publish",
)
LEAD_LOST = (
    "another replica leads, the lease would end before the call, the database does not answer,"
    " or the parent process is gone"
)
MESSAGE = "message:"  # prefix of the part that composes one message; its cause follows


def counted_as(part: str) -> str:
    """The name in `PARTS` that *part* counts as: all messages are one."""
    return "messages" if part.startswith(MESSAGE) else part


class Parts:
    """The parts of one step. Each failure is logged and kept in *failures*."""

    def __init__(self) -> None:
        self.failures = Failures()
        self._logged = 0

    @contextmanager
    def part(self, name: str, pool: str | None = None, *, sets_aside: bool = False) -> Iterator[None]:
        """Catch and note any bug raised inside. With *sets_aside*, *pool* is left out of the rest of this step."""
        try:
            yield
        except (TryLater, WriterLostError):
            raise
        except Exception as error:  # noqa: BLE001  # noted; the other parts go on
            failure = Failure(part=name, error=error, pool=pool)
            if pool is not None and sets_aside:
                self.failures.sets_aside(pool, failure)
            else:
                self.failures.note(failure)
            self.log()

    def log(self) -> None:
        """Log the failures not logged yet, each with its traceback."""
        for failure in self.failures.all[self._logged :]:
            where = {"pool": failure.pool} if failure.pool else {}
            where |= {"workload": failure.workload} if failure.workload else {}
            log.error("part of a step failed", part=failure.part, **where, exc_info=failure.error)
        self._logged = len(self.failures.all)

    def composed(self, make: Callable[[], Notice], *, cause: Cause, topic: str, key: str, plainly: str) -> Notice:
        """Return the notice that *make* composes or, if that fails, one with the sentence *plainly*.

        For notices stored in the same transaction as the event, so that each is sent exactly once.
        """
        try:
            return make()
        except (TryLater, WriterLostError):
            raise
        except Exception as error:  # noqa: BLE001  # noted; the plain notice is sent
            self.failures.note(Failure(part=f"{MESSAGE}{cause.value}", error=error))
            self.log()
        return Notice(cause=cause, topic=topic, key=key, title=plainly, body="The full message failed; see the log.")


def decision_of(action: Action, store: StepStore) -> Decision | None:
    """Return the decision that *action* was opened for; by the time it ends another one may be in force."""
    stored = store.decision(action.decision) if action.decision is not None else None
    return stored.decision if stored is not None else None


def told_of_end(action: Action, outcome: Outcome, around: Callable[[], Around], parts: Parts) -> Notice:
    """Return the notice of an ended *action*, a plain one if composing it fails: it is stored with the outcome."""
    cause = Cause.GREW if action.kind is ActionKind.GROW else Cause.SHRANK
    return parts.composed(
        lambda: ended(action, outcome, around()),
        cause=cause if outcome.kind is OutcomeKind.CONFIRMED else Cause.WITHDRAWN,
        topic=f"action:{action.pool}",
        key=f"plain:{action.id}",
        plainly=f"GPU pool {action.pool}: {action.kind} {action.from_count} -> {action.to_count} nodes, {outcome.kind}",
    )


@dataclass(frozen=True, slots=True)
class Write:
    """An idempotent write; *about* names in the log what it changes."""

    about: Mapping[str, str]
    make: Callable[[], Receipt]
    result: Mapping[str, str] | None = None  # what the log says of its success, instead of the receipt


@dataclass(frozen=True, slots=True)
class Written:
    """A write that was tried, with the receipt or the error."""

    write: Write
    receipt: Receipt | None = None
    error: TryLater | WontWork | None = None


@dataclass(frozen=True, slots=True)
class WriteKind:
    """The events *failed* and *done* of writes of one kind, the receipts that are *logged*, and when the rest is left
    to the next step."""

    failed: str
    done: str = ""
    logged: Collection[Did] = (Did.DONE,)
    level: int = logging.INFO
    gives_up: Callable[[Sequence[Written]], bool] = lambda _: False


MOST_FAILURES = 3  # in a row, until the next step: each may last as long as a timeout


def fails_too_often(written: Sequence[Written]) -> bool:
    """True when the last writes failed as others will: no answer, or no right. A refusal of one object is neither."""
    failures = 0
    for each in reversed(written):
        if each.error is None:
            break
        failures += isinstance(each.error, TryLater) or each.error.code == "http_403"
    return failures == MOST_FAILURES


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """The ports that an action writes to. *may_write* is asked before each write; *told* holds the Events sent,
    *promised* the promises made. *record* stores an action before a request that a crash would hide."""

    cloud: Cloud
    cluster: Cluster | None
    may_write: Callable[[], bool]
    told: ToldPods = field(default_factory=ToldPods, compare=False)
    promised: OpenPromises = field(default_factory=OpenPromises, compare=False)
    record: Callable[[Action], None] = field(default=lambda _: None, compare=False)

    def ready(self) -> None:
        """Raise WriterLostError unless this replica is still the one writer."""
        if not self.may_write():
            raise WriterLostError(LEAD_LOST)

    def write_each(self, kind: WriteKind, writes: Iterable[Write]) -> list[Written]:
        """Make *writes* one after the other, and log them. Returns those that were tried."""
        written: list[Written] = []
        for write in writes:
            written.append(self.write(kind, write))
            if kind.gives_up(written):
                break
        return written

    def write(self, kind: WriteKind, write: Write) -> Written:
        """Make one write, and log it. Raises WriterLostError when this replica may not write."""
        self.ready()
        try:
            receipt = write.make()
        except (TryLater, WontWork) as error:
            log.warning(kind.failed, **write.about, error=str(error))
            return Written(write, error=error)
        if kind.done and receipt.did in kind.logged:
            result = write.result or {"did": receipt.did.value, "detail": receipt.sentence}
            log.log(kind.level, kind.done, **write.about, **result)
        return Written(write, receipt=receipt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """What a capability does in a step once every pool is served and Kubernetes answers. *name* is the part that fails
    without the others; *make* returns when to look again at the latest."""

    name: str
    make: Callable[["StepContext"], datetime | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookChore:
    """What a capability does with what a step with readers looked at, also where the clock is not trusted and the step
    only looks: what it stores then, the next step knows. *name* is the part that fails without the others."""

    name: str
    make: Callable[["StepContext", "Looked", "Sources"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """What a capability accounts for once everything else in a step is done, by a clock that is trusted. *name* is the
    part that fails without the others; *make* raises TryLater when the store fails."""

    name: str
    make: Callable[["StepContext", "Looked", RecordStore], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What follows from the decisions of a step: the *facts* to decide from once more, and what to *record* after that,
    with the numbers of the decisions by pool id."""

    facts: Facts
    record: Callable[[Mapping[str, int], "StepFrame"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingRequests:
    """Requests to people that a capability makes and keeps among the instructions. *name* is the part that fails
    without the others.

    *settle* returns the facts with those that stand, before anything is decided; it ends some only if the clock is
    *trusted*. *due* returns what follows from decisions, None for nothing.
    """

    name: str
    settle: Callable[[Facts, "StepFrame", bool], Facts]
    due: Callable[[Facts, Assignment, Mapping[str, Decision], Policy], Due | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolField:
    """A field of the published pool (`receiver.reports.picture.PoolDocument`) that a capability fills."""

    name: str
    of: Callable[[Pool, "StepContext"], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What capabilities add to a step."""

    sources: Sequence[SizeSource] = ()
    chores: Sequence[Chore] = ()
    look_chores: Sequence[LookChore] = ()
    publishers: Sequence[Publisher] = ()
    guardrails: Sequence[AddedGuardrail] = ()
    requests: Sequence[StandingRequests] = ()
    concerns: Sequence[PoolConcerns] = ()
    pool_fields: Sequence[PoolField] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts that they add."""
        added: Sequence[Chore | LookChore | Publisher | StandingRequests]
        added = (*self.chores, *self.look_chores, *self.publishers, *self.requests)
        return tuple(each.name for each in added)

    @classmethod
    def of(cls, every: Iterable["Additions"]) -> "Additions":
        """Return all of *every* in one, in their order."""
        each = tuple(every)
        return cls(**{f.name: tuple(one for added in each for one in getattr(added, f.name)) for f in fields(cls)})

    @property
    def unattended(self) -> "Additions":
        """These where nothing waits for people: observe mode changes nothing, and in a replay no person answers."""
        return replace(self, guardrails=tuple(each.unattended for each in self.guardrails), requests=())


NOTHING = Additions()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFrame:
    """What holds for a whole step: the policy, the mode (``act`` or ``observe``), the time, and the ports that it may
    write to. With *chores* it writes what readers see."""

    policy: Policy
    mode: str
    hands: Hands
    store: StepStore
    now: datetime
    parts: Parts
    chores: bool = True
    additions: Additions = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext(StepFrame):
    """A step with its facts and decisions."""

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    numbers: Mapping[str, int]  # the ids of the stored decisions by pool
    drifts: Mapping[str, Drift]
    before: Control | None  # as the previous step stored it
    learnt: Learnt = NOTHING_LEARNT  # about the start of nodes; for people only
    unsaid: list[Callable[[], object]] = field(default_factory=list)  # messages to compose after everything is done
    concerns: list[Concern] = field(default_factory=list)  # what needs a person, once that is found

    def say_later(self, make: Callable[[], Notice]) -> None:
        """Compose a notice and put it into the outbox after everything else in this step is done."""
        self.unsaid.append(lambda: self.store.say(make(), self.now))
