"""A pool's state in one of four words, as pages show it. The API has `verdict` and the reasons instead."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from receiver.config.model import Mode
from receiver.core.model.actions import Change, Verdict
from receiver.core.model.model import Source, Stage

SOURCES = "sources_answer"  # the guardrail of every change that needs a silent source


def unseen(evidence: Mapping[str, Any]) -> bool:
    """True if the nodes of a pool or what waits for it were not seen, by the *evidence* of its decision."""
    sources = evidence.get("sources") or {}
    silent = {name for name, said in sources.items() if isinstance(said, Mapping) and said.get("up") is False}
    no_demand = {Source.KUBERNETES, Source.PROMETHEUS} <= silent
    nodes = evidence.get("nodes") or ()
    return Source.CIVO in silent or no_demand or any(n.get("stage") == Stage.UNKNOWN for n in nodes)


class StateWord(StrEnum):
    """The four words."""

    STEADY = "steady"  # no change is wanted
    SCALING = "scaling"  # a change is decided or under way
    BLOCKED = "blocked"  # a change is wanted, or it is unknown whether one is, and a guardrail leaves none of it
    OBSERVING = "observing"  # observe mode: nothing is written


class ScalingState(NamedTuple):
    """A *word*, and for BLOCKED the guardrail that blocks the pool."""

    word: StateWord
    blocked_by: str = ""

    def __str__(self) -> str:
        return f"{self.word} by {self.blocked_by}" if self.blocked_by else self.word.value


class RuleVerdict(Protocol):
    """What one rule said: a `Reason`, or the document of one."""

    @property
    def rule(self) -> str:
        """The rule's name."""

    @property
    def verdict(self) -> str:
        """One of `Verdict`, or the word of a newer version."""


def scaling_state(
    change: str, reasons: Iterable[RuleVerdict], mode: str | None, *, under_way: bool = False, unseen: bool = False
) -> ScalingState:
    """Return the state of a pool whose decision, made in *mode* (None: not stored), has this *change* and *reasons*.

    *under_way* is True while an earlier decision is still carried out: an action is open, or nodes are on their way.
    *unseen* is True while no source says what nodes the pool has and what they do, or which pods wait.
    """
    if mode == Mode.OBSERVE:
        return ScalingState(StateWord.OBSERVING)
    silent = SOURCES if unseen else ""
    blocked_by = next((reason.rule for reason in reasons if reason.verdict == Verdict.HOLDS), silent)
    if change == Change.HOLD and blocked_by:
        return ScalingState(StateWord.BLOCKED, blocked_by)
    return ScalingState(StateWord.SCALING if change != Change.HOLD or under_way else StateWord.STEADY)
