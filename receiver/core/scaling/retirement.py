"""What to do next with one node that a removal has chosen, by what is seen of it.

chosen -> cordoned -> (5 s) looked at, drained, looked at once more, deleted. New work on the node spares it, and so
does a person who uncordons it. One move is one call to the outside; what it showed is in the view of the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from receiver.core.model.actions import Because, Victim, VictimStage
from receiver.core.model.flights import may_arrive
from receiver.core.model.model import CordonedBy, Node, Stage
from receiver.core.model.pods import Pod
from receiver.core.model.text import lasting
from receiver.core.scaling.removal import LOOK_AGAIN_AFTER

DRAIN_WITHIN = timedelta(minutes=15)
MUST_GO_WITHIN = timedelta(minutes=15)
CORDON_SHOWS_WITHIN = timedelta(seconds=30)  # a list of Kubernetes may be older than that
FINISHED = (VictimStage.GONE, VictimStage.SPARED)
EMPTIED = (Because.CONSOLIDATED, Because.EVICTED)  # removed with pods on them: these are evicted first
GPUS_IN_USE = "gpus_in_use"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainResult:
    """What a drain came to: nothing in its way, what *refused* it, or what it still *awaits*."""

    refused: str = ""
    awaits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimView:
    """What is known of a victim at *now*; the last two fields are None until they were asked for."""

    now: datetime
    stays: str = ""  # why the decision keeps it; empty while it may go
    unsure: bool = False  # the decision would remove it if every source answered
    early: bool = False  # a failed call is not repeated yet: it can be spared, and nothing else
    unlisted: bool = False  # Kubernetes has a Ready node of its name that no instance of Civo's list is
    cordoned_for: str = ""  # why it stays cordoned once it is spared; empty where it does not
    pods: Sequence[Pod] | None = None  # the work on it
    drain: DrainResult | None = None


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing for now. With *code* that is a failure to be tried again, for the reason *why*."""

    why: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """It no longer exists; *ours* when this removal deleted it."""

    ours: bool


@dataclass(frozen=True, slots=True)
class Spare:
    """Keep it for the reason *why*. One that was *refused* backs off. *lifts* its cordon unless a person did."""

    why: str
    refused: bool = False
    lifts: bool = True


class Call(Enum):
    """One call to the outside."""

    CORDON = auto()
    LOOK = auto()  # at the GPU pods on it
    DRAIN = auto()
    DELETE = auto()


Move = Later | Gone | Spare | Call


def next_move(victim: Victim, node: Node | None, view: VictimView) -> Move:
    """Return what to do next with *victim*, whose instance is *node* (None: Civo does not list it)."""
    if victim.stage in (*FINISHED, VictimStage.DELETED) or _stands_still(victim, node, view):
        return Later()
    if node is None or node.stage is Stage.DELETING:
        return Gone(ours=_was_ours(victim, view.now))
    if view.stays or (node.busy and victim.because not in EMPTIED):
        return _given_back(victim, node, view)
    cordoned = victim.stage is VictimStage.CORDONED
    if cordoned and node.cordon.by is not CordonedBy.US:
        if _is_younger(victim, CORDON_SHOWS_WITHIN, view.now):
            return Later()  # the list may be older than our cordon
        return Spare(f"{node.name} was uncordoned by someone else", refused=True, lifts=False)
    if view.early or (cordoned and _is_younger(victim, LOOK_AGAIN_AFTER, view.now)):
        return Later()
    if not cordoned and node.registered:
        return Call.CORDON
    return (_emptying(victim, node, view) if cordoned else None) or _ending(victim, node, view)


def spared_after(waited_for: str, reason: str) -> str:
    """Return the *reason* why a victim is spared behind what its removal *waited_for* until then, if anything."""
    return f"{waited_for}; then {reason}" if waited_for else reason


def _stands_still(victim: Victim, node: Node | None, view: VictimView) -> bool:
    """True while a cordoned victim is left as it is.

    A node that a window is emptying waits while a source is silent or it is not usable for now: spared, it would
    restart the evicted pods only for them to be evicted again. A Ready node whose instance Civo does not list waits,
    too: the list is an old one, unless the DELETE of a moment ago was not recorded because of a crash. The node tells
    which, within a minute.
    """
    if victim.stage is not VictimStage.CORDONED:
        return False
    if node is None:
        return view.unlisted and _is_within(victim, DRAIN_WITHIN + MUST_GO_WITHIN, view.now)
    unclear = view.unsure or node.stage in (Stage.UNKNOWN, Stage.BROKEN)
    emptied = bool(view.stays) and victim.because is Because.EVICTED
    return emptied and unclear and _is_within(victim, DRAIN_WITHIN, view.now)


def _was_ours(victim: Victim, now: datetime) -> bool:
    """True for an instance that this removal deleted, False for one that something else did.

    It was ours if a crash came between the DELETE and its record, which follows a recorded cordon. After a long pause,
    such as a restored backup of the store, that proves nothing.
    """
    uncordoned = victim.because in (Because.STUCK, Because.LOST)  # one without a Node object is deleted as it is
    deletable = uncordoned or victim.stage is VictimStage.CORDONED
    return deletable and _is_within(victim, DRAIN_WITHIN + MUST_GO_WITHIN, now)


def _given_back(victim: Victim, node: Node, view: VictimView) -> Move:
    """Spare a node that is wanted. The pods that were evicted from it return, so it backs off: otherwise they would be
    evicted again and again."""
    reason = view.stays or _started(node.pods)
    if not victim.emptied or node.busy:
        return _spared(victim, reason, view)
    return Later() if may_arrive(victim.asked_at, view.now) else Spare(spared_after(victim.why, reason), refused=True)


def _emptying(victim: Victim, node: Node, view: VictimView) -> Move | None:
    """Return the next move until the cordoned *node* is drained, then None. One that does not answer is not: its pods
    cannot leave it."""
    if victim.because not in EMPTIED and view.drain is None:
        if view.pods is None:
            return Call.LOOK
        if view.pods:
            return _spared(victim, _started(view.pods), view)
    if not node.ready:
        return None
    if view.drain is None:
        return Call.DRAIN
    if view.drain.refused:
        return Spare(view.drain.refused, refused=True)
    if not view.drain.awaits:
        return None
    if _is_within(victim, DRAIN_WITHIN, view.now):
        return Later()
    late = f"node {node.name} was not drained within {lasting(DRAIN_WITHIN)}: {view.drain.awaits}"
    return Spare(late, refused=True)


def _ending(victim: Victim, node: Node, view: VictimView) -> Move:
    """Look at the node once more, because draining takes time, and delete it."""
    if victim.because is Because.EVICTED and node.times.unknown_since is not None:
        if _is_within(victim, DRAIN_WITHIN, view.now):
            return Later(f"the GPUs of {node.name} are in use, and no GPU pod holds them", code=GPUS_IN_USE)
        still = f"the GPUs of {node.name} are still in use after {lasting(DRAIN_WITHIN)}, and no GPU pod holds them"
        return Spare(still, refused=True)
    if view.pods is None:
        return Call.LOOK
    return _spared(victim, _started(view.pods), view) if view.pods else Call.DELETE


def _spared(victim: Victim, reason: str, view: VictimView) -> Move:
    """Spare it, but not while an unanswered DELETE may still take effect: new work would start on the node."""
    return Later() if may_arrive(victim.asked_at, view.now) else Spare(reason)


def _started(pods: Sequence[Pod]) -> str:
    return f"{', '.join(sorted(pod.key for pod in pods))} started there"


def _is_within(victim: Victim, length: timedelta, now: datetime) -> bool:
    return victim.since is None or now - victim.since <= length


def _is_younger(victim: Victim, length: timedelta, now: datetime) -> bool:
    return victim.since is not None and abs(now - victim.since) < length
