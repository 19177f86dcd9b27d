"""The form of a rule: from the values that it rests on to what people read of it.

A guardrail gets the target so far. Where it objects, it returns the target that it leaves, which lies between the
present size and the one it was given, and the values that this rests on. It can stop a change, never start or enlarge
one.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import wraps
from typing import Any, Generic, TypeVar, cast

from receiver.core.model.actions import Reason
from receiver.core.model.model import Facts, Node, PoolState, Source, SourceState
from receiver.core.model.overrides import Override
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.signals import Signal, SignalAction
from receiver.core.scaling.bounds import BoundsInForce
from receiver.core.scaling.waits import Direction, Wait, WaitKind, waits
from receiver.core.scaling.wanted import Wanted

B = TypeVar("B")  # the values that an answer rests on

# Sentences on what would change an answer, each with the moment at which it comes true by itself.
Changes = Sequence[tuple[str, datetime | None]]
Said = tuple[str, Changes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the decision for one pool may depend on: *facts* (and what of them concerns this pool), and *wanted*, what
    the assignment asks of it. *now* is the time of the facts, or a later one in a look ahead."""

    pool: Pool
    state: PoolState
    wanted: Wanted
    facts: Facts
    policy: Policy
    now: datetime
    signals: tuple[Signal, ...] = ()  # those of this pool or of every pool
    overrides: tuple[Override, ...] = ()  # of this pool, in force or still to come
    removals_left: int | None = None  # None: no limit
    dead: int = 0  # nodes that go because they never came up, or broke: they do not count for the floor
    empty: int = 0  # nodes that may be removed and run nothing, the dead ones included
    going: int = 0  # all nodes that may be removed
    held_back: tuple[Node, ...] = ()  # the last of these, which a guardrail of a capability keeps for now
    growth_held: bool = False  # growth is wanted and cannot come now: sick nodes do not wait for it
    full: bool = False  # and not by time alone: idle nodes that it cannot use do not wait for it either

    @property
    def present(self) -> int:
        """The size to hold."""
        return self.state.required

    def wait(self, kind: WaitKind, target: int) -> Wait | None:
        """The wait of that *kind* for a change to *target* nodes."""
        direction = Direction.GROW if target > self.present else Direction.SHRINK
        waits_in_force = waits(self.pool, self.state, self.policy, self.now, (direction,))
        return next((wait for wait in waits_in_force if wait.kind is kind), None)

    def up(self, source: Source) -> bool:
        """True when *source* answered; Civo, what concerns this pool."""
        state = self.source(source)
        return state is not None and state.up

    def source(self, source: Source) -> SourceState | None:
        """The state of *source* as far as it concerns this pool."""
        state = self.facts.sources.get(source)
        if source is Source.CIVO and state is not None and state.up and self.state.count.unreadable:
            return replace(state, up=False, detail=f"incomplete response on this pool: {self.state.count.unreadable}")
        return state

    def firing(self, action: SignalAction) -> Signal | None:
        """The first firing signal of *action*, or None."""
        return next((s for s in self.signals if s.action is action), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Generic[B]):
    """What a guardrail leaves of a change: *left* nodes, *because* of these values. *until* is the first moment at
    which its answer can change without anything happening (None: unknown)."""

    left: int
    because: B
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[B]):
    """One rule. *say* makes its sentence from the values that its answer rests on, and what would change the answer,
    unless *changes* says that whatever the figures. *meaning* is a sentence for the decision's page, *advice* what the
    owner of a held pool does. For titles, *cause* makes a clause from the same values; *plain* is one without any.

    *page* is the page below ``docs/`` that says what to do, if not docs/guardrails.md. *told* is True if a hold needs
    a message, *passing* if it ends within seconds. *noted* is True for a note that says what would start a change.
    """

    meaning: str
    say: Callable[[B, Case], Said] | None = None
    plain: str = ""
    cause: Callable[[B, Case], str] | None = None
    advice: str = ""
    changes: tuple[str, ...] = ()
    page: str = ""
    told: bool = False
    passing: bool = False
    noted: bool = False

    def said(self, reason: Reason, case: Case) -> Said:
        """The sentence of *reason*, which this rule gave for *case*, and what would change its answer."""
        return (reason.detail, ()) if self.say is None else self.say(cast("B", reason.because), case)

    def cause_of(self, reason: Reason, case: Case) -> str:
        """What keeps the pool from changing, as a clause, by the *reason* that this rule gave for *case*."""
        return self.plain if self.cause is None else self.cause(cast("B", reason.because), case)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrail(Rule[B]):
    """A rule that may hold a change back; *check* is named after what it upholds, and says it in a line.

    *uncounted* is True if it leaves nothing for those behind it to count, *lasting* if no time that passes lifts it,
    only fewer nodes or a person. *allows* says in front of a number how many nodes it
    leaves a gang.
    """

    check: Callable[[int, Case], Held[B] | None]
    uncounted: bool = False
    lasting: bool = False
    allows: str = ""

    @property
    def name(self) -> str:
        """Its name in logs, metrics, messages and docs."""
        return self.check.__name__


AnyGuardrail = Guardrail[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedGuardrail:
    """A guardrail that a capability adds *before* the one of that name. People may lift it at any time, so no look
    ahead asks it.

    *grows_to* returns up to which size of a target (nodes) it lets a pool grow, for what is decided before the pools
    are. Of the nodes that may go, *holds_back* returns those that it keeps for now, in their order: they go last and
    delay no other; the second nodes are those whose removal was announced, or asked for by an override. *moments* are
    those at which its answer can change, *notes* what it notes in each decision, by *rules* of these names.
    """

    guardrail: AnyGuardrail
    before: str
    grows_to: Callable[[int, Pool, PoolState, BoundsInForce, Facts], int]
    holds_back: Callable[[Sequence[Node], Collection[Node], Case], tuple[Node, ...]]
    moments: Callable[[Case], Iterable[datetime]]
    notes: Callable[[Case], Iterable[Reason]]
    rules: Mapping[str, Rule[Any]]

    @property
    def unattended(self) -> "AddedGuardrail":
        """The same where no person can lift it: it is asked, and lets everything pass."""

        @wraps(self.guardrail.check)
        def passes(_target: int, _case: Case) -> None:
            return None

        return AddedGuardrail(
            guardrail=replace(self.guardrail, check=passes),
            before=self.before,
            grows_to=lambda target, *_: target,
            holds_back=lambda *_: (),
            moments=lambda _: (),
            notes=lambda _: (),
            rules=self.rules,
        )
