"""Carry out the moves of `core.scaling.retirement` for one victim of a removal."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from receiver.core.model.actions import Action, Because, Victim, VictimStage, coded
from receiver.core.model.flights import may_arrive
from receiver.core.model.model import CordonedBy, Node
from receiver.core.scaling.retirement import (
    Call,
    DrainResult,
    Gone,
    Later,
    Move,
    Spare,
    VictimView,
    next_move,
    spared_after,
)
from receiver.core.scaling.terminations import working
from receiver.ports import DRAINING, Cluster, Did, TryLater, WontWork
from receiver.step.parts import Hands

# A cordon is made some seconds after the start of its step, by a clock that may differ from the one of the API server.
CORDON_MADE_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """How far a victim came. A *failure* is tried again; *observed* means that observe mode left a write out."""

    victim: Victim
    failure: TryLater | None = None
    observed: bool = False


def advance(victim: Victim, node: Node | None, view: VictimView, action: Action, hands: Hands) -> Advance:
    """Take *victim* one stage further. Raises WontWork, WriterLostError."""
    move = next_move(victim, node, view)
    if isinstance(move, Gone):
        return Advance(victim=_gone(victim, move, view.now))
    if node is None or (isinstance(move, Later) and not move.code):
        return Advance(victim=victim)
    assert hands.cluster is not None
    try:
        return _Retirement(victim, node, action, hands, hands.cluster, view.now).make(move, view)
    except TryLater as error:
        emptied = victim.emptied or error.code == DRAINING
        return Advance(victim=replace(victim, why=str(error), emptied=emptied), failure=error)


def _gone(victim: Victim, move: Gone, now: datetime) -> Victim:
    if move.ours:
        return replace(victim, stage=VictimStage.DELETED, since=now, why="")
    return replace(victim, stage=VictimStage.SPARED, since=now, why="it was already deleted, not by this removal")


@dataclass(frozen=True, slots=True)
class _Retirement:
    """One victim, and what it takes to move it. The methods raise TryLater, WontWork and WriterLostError."""

    victim: Victim
    node: Node
    action: Action
    hands: Hands
    cluster: Cluster
    now: datetime

    def make(self, move: Move, view: VictimView) -> Advance:
        """Make *move*, and those that follow from what it shows."""
        match move:
            case Call.CORDON:
                return self._cordon()
            case Call.LOOK:
                self.hands.ready()
                pods = working(self.node, self.cluster.gpu_pods_on(self.node.name), self.now)
                return self._go_on(replace(view, pods=pods))
            case Call.DRAIN:
                return self._drain(view)
            case Call.DELETE:
                return self._delete(view)
            case Spare():
                return self._spare(move, view)
            case Later(code=""):
                return Advance(victim=self.victim)
            case Later():
                raise TryLater(move.why, code=move.code)
            case Gone():
                return Advance(victim=_gone(self.victim, move, self.now))

    def _go_on(self, view: VictimView) -> Advance:
        return self.make(next_move(self.victim, self.node, view), view)

    def _cordon(self) -> Advance:
        self.hands.ready()
        receipt = self.cluster.cordon(self.node.name, self.action.id)
        stage, why = VictimStage.CORDONED, ""
        if receipt.did is Did.DIFFERS:
            stage, why = VictimStage.SPARED, receipt.sentence
        victim = replace(self.victim, stage=stage, since=self.now, why=why)
        return Advance(victim=victim, observed=receipt.did is Did.OBSERVED)

    def _drain(self, view: VictimView) -> Advance:
        consenting, evicting = self.victim.because is Because.CONSOLIDATED, self.victim.because is Because.EVICTED
        cordoned_at = self.victim.since
        if cordoned_at is not None and not self.victim.emptied:  # once emptied, what is there has come back
            cordoned_at += CORDON_MADE_WITHIN
        self.hands.ready()
        try:
            receipt = self.cluster.drain(
                self.node.name, consenting=consenting, evicting=evicting, cordoned_at=cordoned_at
            )
        except TryLater as error:
            move = next_move(self.victim, self.node, replace(view, drain=DrainResult(awaits=str(error))))
            if isinstance(move, Later):
                raise
            return self.make(move, view)
        if receipt.did is Did.OBSERVED:
            return Advance(victim=self.victim, observed=True)
        refused = receipt.sentence if receipt.did is Did.DIFFERS else ""
        return self._go_on(replace(view, drain=DrainResult(refused=refused), pods=None))  # draining takes time

    def _delete(self, view: VictimView) -> Advance:
        asked = replace(self.victim, asked_at=self.now)
        victims = (asked if v.instance == asked.instance else v for v in self.action.victims)
        self.hands.record(replace(self.action, victims=tuple(victims)))
        self.hands.ready()
        try:
            receipt = self.hands.cloud.retire(self.action.pool, asked.instance)
        except TryLater as error:
            return Advance(victim=replace(asked, why=str(error)), failure=error)
        except WontWork as error:  # only this node stays
            return self._spare(Spare(coded(error.code, str(error)), refused=True), view)
        deleted = replace(self.victim, stage=VictimStage.DELETED, since=self.now, why="")
        return Advance(victim=deleted, observed=receipt.did is Did.OBSERVED)

    def _spare(self, move: Spare, view: VictimView) -> Advance:
        """Uncordon the node and keep it, adding the reason to what it waited for before. One that is cordoned for
        another reason of ours stays so, and one that others maintain, until they are done."""
        victim, receipt = self.victim, None
        cordoned = victim.stage is VictimStage.CORDONED or self.node.cordon.action == self.action.id
        if move.lifts and cordoned and not may_arrive(victim.asked_at, self.now):
            self.hands.ready()
            if view.cordoned_for and self.node.cordon.by is CordonedBy.US:
                receipt = self.cluster.cordon(self.node.name, view.cordoned_for)
            elif not self.node.health.maintained:
                receipt = self.cluster.uncordon(self.node.name)
        spared = replace(victim, stage=VictimStage.SPARED, since=self.now, why=move.why, refused=move.refused)
        if not move.refused:
            spared = replace(spared, why=spared_after(victim.why, move.why), waited_for=victim.why)
        return Advance(victim=spared, observed=receipt is not None and receipt.did is Did.OBSERVED)
