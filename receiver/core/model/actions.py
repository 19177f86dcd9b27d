"""Decisions, the actions that follow from them and what became of those."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What a rule did to the target."""

    WANTS = "wants"  # a source of a wanted size
    ALLOWS = "allows"  # a guardrail that does not object
    LIMITS = "limits"  # a guardrail that left part of the change
    HOLDS = "holds"  # a guardrail that left none of it
    NOTES = "notes"  # evidence that moved nothing


class Change(StrEnum):
    """Which way a decision goes."""

    GROW = "grow"
    SHRINK = "shrink"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Which rule spoke, what it left of the target (nodes), and one sentence (*detail*), once it is explained.

    *because* holds the values that the sentence is made from, *until* the first moment at which the rule can answer
    otherwise by itself. Neither is stored.
    """

    rule: str
    verdict: Verdict
    target: int
    detail: str = ""
    because: Any = field(default=None, compare=False)
    until: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The size a pool should have at *at*, and every reason in order; the last reason's target is *target*.

    *present* and *target* are node counts; *candidates* the instance ids that may be removed, soonest first, *evicted*
    those of them whose pods are evicted because a window's grace is over; *reconsider_at* the first moment at which
    this answer can change by time alone.
    """

    pool: str
    at: datetime
    present: int
    target: int
    reasons: tuple[Reason, ...]
    candidates: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    reconsider_at: datetime | None = None

    @property
    def change(self) -> Change:
        """Grow, shrink or hold."""
        if self.target > self.present:
            return Change.GROW
        return Change.SHRINK if self.target < self.present else Change.HOLD

    @property
    def verdicts(self) -> tuple[tuple[str, ...], ...]:
        """The (rule, verdict) pairs, with the words of a person or an alert where one decided, and the mode: a decision
        is stored anew when these or the target change. A stored one must name the silence that is in force."""
        mode = self.evidence.get("mode")
        said = [(r.rule, r.verdict.value, *([r.detail] if _spoken(r) else [])) for r in self.reasons]
        return (*said, ("mode", str(mode))) if mode is not None else tuple(said)

    @property
    def deciding(self) -> Reason:
        """The reason that settled it: the first that held, else the last that moved the target, else the last note."""
        for reason in self.reasons:
            if reason.verdict is Verdict.HOLDS:
                return reason
        moving = [r for r in self.reasons if r.verdict in (Verdict.WANTS, Verdict.LIMITS)]
        notes = [r for r in self.reasons if r.verdict is Verdict.NOTES and r.detail]
        return (moving or notes or list(self.reasons))[-1]


# Rules whose sentence changes only with what a person or an alert says; other sentences contain changing figures.
WORDS = frozenset(
    {
        "approved",
        "question",
        "not_silenced",
        "silence",
        "not_paused",
        "removal_is_not_snoozed",
        "override",
        "not_frozen",
        "growth_is_not_paused",
    }
)


def _spoken(reason: Reason) -> bool:
    """True when the sentence of *reason* is what a person or an alert said."""
    return reason.rule in WORDS and reason.verdict not in (Verdict.ALLOWS, Verdict.WANTS)


class ActionKind(StrEnum):
    """Grow asks Civo for an absolute count; retire deletes named instances."""

    GROW = "grow"
    RETIRE = "retire"


class VictimStage(StrEnum):
    """How far the retirement of one instance has come; each is one visible thing."""

    CHOSEN = "chosen"
    CORDONED = "cordoned"
    DELETED = "deleted"  # the DELETE was accepted; the instance may still be listed
    GONE = "gone"
    SPARED = "spared"  # a pod landed on it, or its removal is no longer wanted: uncordoned


class Because(StrEnum):
    """Why an instance goes."""

    IDLE = "idle"
    STUCK = "stuck"  # it never became usable, or broke, and nothing runs on it
    CONSOLIDATED = "consolidated"  # its pods consented to be moved, and fit elsewhere
    EVICTED = "evicted"  # a window allows fewer nodes, and its grace is over


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One instance to be removed. *since* is when it reached *stage*. A spared one was *refused* if a pod, a person or
    Civo prevented its removal; *why* is why it was spared, and before that what it waits for. *asked_at* is when its
    DELETE was last sent without an answer."""

    instance: str
    node: str
    because: Because = Because.IDLE
    stage: VictimStage = VictimStage.CHOSEN
    since: datetime | None = None
    refused: bool = False
    why: str = ""
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A decision made executable: an absolute target or named victims, and an id that depends only on the facts.

    *from_count* and *to_count* are node counts at Civo; *reserved_usd* the first paid unit of its new nodes, which the
    budget had to cover when it was decided.
    """

    id: str
    pool: str
    kind: ActionKind
    opened_at: datetime
    from_count: int
    to_count: int
    victims: tuple[Victim, ...] = ()
    decision: int | None = None
    reserved_usd: Decimal = Decimal(0)
    attempts: int = 0
    retry_at: datetime | None = None
    last_error: str = ""


class OutcomeKind(StrEnum):
    """How an action ended."""

    CONFIRMED = "confirmed"
    WITHDRAWN = "withdrawn"  # no longer wanted before it took effect
    SUPERSEDED = "superseded"  # the count was changed by others meanwhile
    FAILED = "failed"  # the cloud refused; the pool backs off
    OBSERVED = "observed"  # observe mode: nothing was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an action ended, in one sentence."""

    kind: OutcomeKind
    at: datetime
    detail: str
