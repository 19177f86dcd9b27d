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
    """Which rule applied, what it left of the target (nodes), and once it is explained one sentence (*detail*), and of
    a rule that took something *cause*, a clause for readers who do not know the rule's name.

    *because* holds the values of the sentence, *until* is when the answer can change by itself. Neither is stored.
    """

    rule: str
    verdict: Verdict
    target: int
    detail: str = ""
    cause: str = field(default="", compare=False)
    because: object = field(default=None, compare=False)
    until: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The size a pool should have at *at*, and every reason in order; the last reason's target is *target*.

    *candidates* are the instance ids that may be removed, soonest first, *evicted* those of them that a window empties;
    *reconsider_at* is the first moment at which this answer can change by time alone.
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
        if self.target > self.present:
            return Change.GROW
        return Change.SHRINK if self.target < self.present else Change.HOLD

    @property
    def verdicts(self) -> tuple[tuple[str, ...], ...]:
        """The (rule, verdict) pairs, with what a person or an alert said where one decided, and the mode.

        A decision is stored anew when these or the target change: it must name the silence that is in force.
        """
        pairs: list[tuple[str, ...]] = []
        for r in self.reasons:
            is_explained = r.rule in WORDS and r.verdict not in (Verdict.ALLOWS, Verdict.WANTS)
            pairs.append((r.rule, r.verdict.value, r.detail) if is_explained else (r.rule, r.verdict.value))
        mode = self.evidence.get("mode")
        return tuple(pairs) if mode is None else (*pairs, ("mode", str(mode)))

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
    STUCK = "stuck"  # it never became usable, and nothing runs on it
    LOST = "lost"  # it was usable, broke or lost its Node object, and nothing runs on it
    CONSOLIDATED = "consolidated"  # its pods consented to be moved, and fit elsewhere
    EVICTED = "evicted"  # a window allows fewer nodes, and its grace is over


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One instance to be removed, at *stage* since *since*. A spared one was *refused* if a pod, a person or Civo
    prevented its removal; *why* is why it was spared, and before that what it waits for; *waited_for* is what the
    removal of a spared one waited for until then."""

    instance: str
    node: str
    because: Because = Because.IDLE
    stage: VictimStage = VictimStage.CHOSEN
    since: datetime | None = None
    refused: bool = False
    why: str = ""
    asked_at: datetime | None = None  # when its DELETE was last sent without an answer
    emptied: bool = False  # pods were evicted from it
    waited_for: str = ""


def coded(code: str, text: str) -> str:
    """*text* on a failure with its *code*, as *last_error* of an action and *detail* of an outcome hold it."""
    return f"{code}: {text}"


def code_of(failure: str) -> str:
    """The code of a *failure* that `coded` wrote; a word without a meaning of a sentence without a code."""
    return failure.partition(":")[0].partition(" ")[0]


def without_repeated_code(failure: str) -> str:
    """*failure* without its code where the text repeats it, as Civo's own sentences do."""
    code = code_of(failure)
    text = failure.removeprefix(coded(code, ""))
    return text if code.isidentifier() and code in text else failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A decision made executable: an absolute count at Civo or named victims, and an id that depends only on the facts.

    *reserved_usd* is the first paid unit of its new nodes, which the budget had to cover when it was decided.
    *unanswered_at* is when a request for growth was last left without an answer: it may still take effect.
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
    unanswered_at: datetime | None = None


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
