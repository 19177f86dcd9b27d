"""A pool's state in one of three words, as pages show it; in observe mode with "would" in front of what would happen.
The API has `verdict`, the reasons and `would` instead."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from receiver.config.model import Mode
from receiver.core.explain.prospects import RuleVerdict, unobserved_target
from receiver.core.explain.rules import GANGS_WHOLE, plainly
from receiver.core.model.actions import Change, Verdict
from receiver.core.model.model import Source, Stage

SOURCES = "sources_answer"  # the guardrail of every change that needs a silent source


class WatchState(StrEnum):
    """Whether pods are watched: not asked for, another process leads, they are, or they cannot be just now."""

    OFF = "off"
    WAITING = "waiting"
    UP = "up"
    DOWN = "down"


def unseen(evidence: Mapping[str, Any]) -> bool:
    """True if the nodes of a pool or what waits for it were not seen, by the *evidence* of its decision."""
    sources = evidence.get("sources") or {}
    silent = {
        name
        for name, source_state in sources.items()
        if isinstance(source_state, Mapping) and source_state.get("up") is False
    }
    no_demand = {Source.KUBERNETES, Source.PROMETHEUS} <= silent
    nodes = evidence.get("nodes") or ()
    return Source.CIVO in silent or no_demand or any(n.get("stage") == Stage.UNKNOWN for n in nodes)


class StateWord(StrEnum):
    """The three words."""

    STEADY = "steady"  # no change is wanted
    SCALING = "scaling"  # a change is decided or under way
    BLOCKED = "blocked"  # a change is wanted, or it is unknown whether one is, and a rule leaves none of it


class ScalingState(NamedTuple):
    """A *word*, for BLOCKED the guardrail that blocks the pool and what it says in a clause, and in observe mode what
    *would* happen: ``would scale 1 -> 3``, ``would remove 1``, ``would be blocked``; empty where nothing would."""

    word: StateWord
    blocked_by: str = ""
    would: str = ""
    blocked_because: str = ""

    @property
    def shown(self) -> str:
        """The state without the guardrail."""
        return self.would or self.word.value

    @property
    def cause(self) -> str:
        """What blocks the pool, as a clause in plain words; empty where nothing does."""
        return self.blocked_because or (plainly(self.blocked_by) if self.blocked_by else "")

    def __str__(self) -> str:
        return f"{self.shown}: {self.cause}" if self.cause else self.shown


def scaling_state(
    change: str,
    reasons: Sequence[RuleVerdict],
    mode: str | None,
    *,
    present: int | None = None,
    under_way: bool = False,
    unseen: bool = False,
) -> ScalingState:
    """Return the state of a pool whose decision, made in *mode* (None: not stored), has this *change* and *reasons*.

    *present* is the number of nodes that it was made on (None: not known), *under_way* is True while an earlier
    decision is still carried out: an action is open, or nodes are on their way. *unseen* is True while no source says
    what nodes the pool has and what they do, or which pods wait.
    """
    observing = mode == Mode.OBSERVE
    noted = next((reason for reason in reasons if reason.rule == GANGS_WHOLE), None)
    blocks = next((reason for reason in reasons if reason.verdict == Verdict.HOLDS), noted)
    blocked_by, cause = (blocks.rule, blocks.cause) if blocks is not None else (SOURCES if unseen else "", "")
    if observing and (would := _would(change, reasons, present)):
        return ScalingState(StateWord.SCALING, would=would)
    if change == Change.HOLD and blocked_by:
        return ScalingState(StateWord.BLOCKED, blocked_by, "would be blocked" if observing else "", cause)
    if change == Change.HOLD:  # in observe mode, nodes on their way were requested by others
        return ScalingState(StateWord.SCALING if under_way and not observing else StateWord.STEADY)
    return ScalingState(StateWord.SCALING)


def _would(change: str, reasons: Sequence[RuleVerdict], present: int | None) -> str:
    if present is None:
        return "" if change == Change.HOLD else f"would {change}"
    target = unobserved_target(reasons, present)
    if target > present:
        return f"would scale {present} -> {target}"
    return f"would remove {present - target}" if target < present else ""
