"""Carry out an action in small idempotent sub-steps, one visible thing per victim and step.

Every sub-step may be repeated after a crash: growth asks for an absolute count that is re-read first, a
removal names its instance and looks before it deletes.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from receiver.backoffs import next_backoff, removals_stopped
from receiver.core.actions import Action, ActionKind, Because, Outcome, OutcomeKind, Victim, VictimStage
from receiver.core.counts import late_after
from receiver.core.model import Backoff, CordonedBy, LateCount, Node, PoolState, Stage
from receiver.core.moments import LOOK_AGAIN_AFTER
from receiver.core.words import some
from receiver.ports import Cloud, Cluster, Did, Receipt, TryLater, WontWork, WriterLostError

FIRST_RETRY = timedelta(seconds=2)
LONGEST_RETRY = timedelta(minutes=1)
LONGEST_DELAY = timedelta(hours=1)  # a Retry-After beyond this is not believed
MOST_ATTEMPTS = 5
RESCALING = "cannot_scale_already_rescaling_cluster"  # normal while nodes build, and the same for every pool
PATIENT_ATTEMPTS = 40
DRAIN_WITHIN = timedelta(minutes=15)
MUST_GO_WITHIN = timedelta(minutes=15)
POLL_DELETED = timedelta(seconds=5)
LEAD_LOST = (
    "another replica leads, our lease ends before a call could, the database does not answer,"
    " or our parent process is gone"
)
FINISHED = (VictimStage.GONE, VictimStage.SPARED)
EMPTIED = (Because.CONSOLIDATED, Because.EVICTED)  # their pods go before they do


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What an action may write to. *may_write* is asked before each outside write."""

    cloud: Cloud
    cluster: Cluster | None
    may_write: Callable[[], bool]

    def ready(self) -> None:
        """Raise WriterLostError unless we still are the one writer."""
        if not self.may_write():
            raise WriterLostError(LEAD_LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an action came: *outcome* None means that it stays open and is looked at again at *again_at*.

    *late* is what Civo's count does not show yet of an action that ended.
    """

    action: Action
    outcome: Outcome | None = None
    late: LateCount | None = None
    backoff: Backoff | None = None
    again_at: datetime | None = None


def settled(action: Action, state: PoolState, now: datetime) -> Outcome | None:
    """Return how an open action ended, judged by the look alone, or None while it is under way."""
    if action.kind is ActionKind.GROW:
        if state.required < action.to_count:
            return None
        detail = f"Civo is asked for {state.required} nodes"
        return Outcome(kind=OutcomeKind.CONFIRMED, at=now, detail=detail)
    if any(v.stage not in (*FINISHED, VictimStage.DELETED) for v in action.victims):
        return None
    deleted = {v.instance for v in action.victims if v.stage is not VictimStage.SPARED}
    if not deleted:
        return Outcome(
            kind=OutcomeKind.WITHDRAWN,
            at=now,
            detail="no chosen node may go any more: it is wanted again, its next paid hour began, or it went already",
        )
    if deleted & {n.instance for n in state.nodes if not n.leaving}:
        return None
    late = late_after(action, state, now)
    left = f"{late.expected} left, Civo still counts {late.shown}" if late else f"{state.required} left"
    return Outcome(kind=OutcomeKind.CONFIRMED, at=now, detail=f"{some(len(deleted), 'node')} removed, {left}")


def carry_out(
    action: Action,
    state: PoolState,
    wanted: Collection[str],
    hands: Hands,
    now: datetime,
    *,
    unsure: Collection[str] = (),
) -> Progress:
    """Do the next sub-step of *action*. *wanted* are the instances that the present decision still lets go, *unsure*
    those that it would let go if every source answered."""
    try:
        if action.kind is ActionKind.GROW:
            if _too_early(action, now):
                return Progress(action=action, again_at=action.retry_at)
            return _grow(action, state, hands, now)
        return _retire(action, state, wanted, unsure, hands, now)
    except TryLater as error:
        return _later(action, state, error, now)
    except WontWork as error:
        return _give_up(action, state, f"{error.code}: {error}", now)


def _too_early(action: Action, now: datetime) -> bool:
    """True while a retry time holds; one further away than any we set was set under a wrong clock."""
    retry_at = action.retry_at
    return retry_at is not None and now < retry_at <= now + LONGEST_DELAY


def _later(action: Action, state: PoolState, error: TryLater, now: datetime) -> Progress:
    attempts = action.attempts + 1
    most = PATIENT_ATTEMPTS if error.code == RESCALING else MOST_ATTEMPTS
    if action.kind is ActionKind.GROW and attempts > most:  # another pool may do better
        return _give_up(action, state, f"{error.code} {attempts} times in a row: {error}", now)
    wait = min(FIRST_RETRY * 2 ** min(attempts - 1, 10), LONGEST_RETRY)
    retry_at = now + min(max(wait, error.delay or timedelta(0)), LONGEST_DELAY)
    waiting = replace(action, attempts=attempts, retry_at=retry_at, last_error=f"{error.code}: {error}")
    return Progress(action=waiting, again_at=retry_at)


def _grow(action: Action, state: PoolState, hands: Hands, now: datetime) -> Progress:
    hands.ready()
    shown = state.required + state.uncounted if state.uncounted else None
    receipt = hands.cloud.resize(action.pool, decided_on=action.from_count, target=action.to_count, shown=shown)
    kind = {
        Did.DONE: OutcomeKind.CONFIRMED,
        Did.ALREADY: OutcomeKind.CONFIRMED,
        Did.DIFFERS: OutcomeKind.SUPERSEDED,
        Did.OBSERVED: OutcomeKind.OBSERVED,
    }[receipt.did]
    outcome, late = Outcome(kind=kind, at=now, detail=receipt.sentence), None
    if receipt.did is Did.DONE and (receipt.required is None or receipt.required < action.to_count):
        before = state.required + state.uncounted if receipt.required is None else receipt.required
        late = LateCount(expected=action.to_count, shown=before, since=now)  # accepted, and not visible yet
    return Progress(action=action, outcome=outcome, late=late)


def _retire(
    action: Action, state: PoolState, wanted: Collection[str], unsure: Collection[str], hands: Hands, now: datetime
) -> Progress:
    if hands.cluster is None:
        raise WontWork("nodes are only removed where Kubernetes can be asked", code="no_kubernetes")
    nodes = {n.instance: n for n in state.nodes}
    early = _too_early(action, now)
    untouched = not any(v.stage in (VictimStage.DELETED, VictimStage.GONE) for v in action.victims)
    if untouched and state.required > action.from_count:
        # Somebody raised the count since the cordon: it is this one that must fall. A lower one may be our own work,
        # whose note a crash has lost.
        going = sum(v.stage is not VictimStage.SPARED for v in action.victims)
        action = replace(action, from_count=state.required, to_count=state.required - going)
    victims: list[Victim] = []
    trouble: TryLater | None = None
    refused: dict[str, str] = {}
    for number, victim in enumerate(action.victims):
        try:
            node, may_go = nodes.get(victim.instance), victim.instance in wanted
            waits = not may_go and _waits(victim, node, victim.instance in unsure, now)
            after = victim if waits else _retire_one(victim, node, may_go, early, action, hands, now)
        except TryLater as error:  # one node that must wait does not keep the others
            after, trouble = victim, error
        except _RefusedError as error:
            after = replace(victim, stage=VictimStage.SPARED, since=now, refused=True)
            refused[victim.instance] = str(error)
        except WontWork as error:
            so_far = replace(action, victims=(*victims, *action.victims[number:]))
            return _give_up(so_far, state, f"{error.code}: {error}", now)
        except _ObservedError:
            outcome = Outcome(kind=OutcomeKind.OBSERVED, at=now, detail=f"would remove {_names(action)}")
            return Progress(action=action, outcome=outcome)
        victims.append(after)
    moved = replace(action, victims=tuple(victims), retry_at=action.retry_at if early else None)
    ended = settled(moved, state, now)
    if ended is not None and ended.kind is OutcomeKind.WITHDRAWN and refused:
        return _refused(moved, state, refused, now)
    if ended is not None:
        confirmed = ended.kind is OutcomeKind.CONFIRMED
        return Progress(action=moved, outcome=ended, late=late_after(moved, state, now) if confirmed else None)
    if trouble is not None:
        return _later(moved, state, trouble, now)
    listed = {n.instance for n in state.nodes if not n.leaving}
    deleted = (v for v in victims if v.stage is VictimStage.DELETED and now - (v.since or now) > MUST_GO_WITHIN)
    there = [v.node for v in deleted if v.instance in listed]
    if there:
        detail = f"Civo took the DELETE of {', '.join(there)} and still lists it after {MUST_GO_WITHIN}"
        stopped = _give_up(moved, state, detail, now)
        return replace(stopped, backoff=removals_stopped(detail, now))
    again = _look_again_at(moved, now)
    return Progress(action=moved, again_at=max(again, action.retry_at) if early and action.retry_at else again)


def _refused(action: Action, state: PoolState, refused: Mapping[str, str], now: datetime) -> Progress:
    """End a removal that something on its nodes refused; they back off, or they were cordoned again at once."""
    progress = _give_up(action, state, "; ".join(refused.values()), now)
    assert progress.backoff is not None
    before = state.removal_backoff.instances if state.removal_backoff and now < state.removal_backoff.until else ()
    instances = tuple(sorted({*before, *refused}))
    return replace(progress, backoff=replace(progress.backoff, instances=instances))


def _give_up(action: Action, state: PoolState, detail: str, now: datetime) -> Progress:
    outcome = Outcome(kind=OutcomeKind.FAILED, at=now, detail=detail)
    return Progress(action=action, outcome=outcome, backoff=next_backoff(action, state, detail, now))


def _names(action: Action) -> str:
    return ", ".join(v.node for v in action.victims)


def _look_again_at(action: Action, now: datetime) -> datetime:
    cordoned = [v.since + LOOK_AGAIN_AFTER for v in action.victims if v.stage is VictimStage.CORDONED and v.since]
    soonest = min([now + POLL_DELETED, *(at for at in cordoned if at > now)])
    return max(now + timedelta(milliseconds=100), soonest)


class _ObservedError(Exception):
    """Observe mode: the write was not made."""


class _RefusedError(Exception):
    """Something or somebody speaks for the node; the message says what."""


def _retire_one(
    victim: Victim, node: Node | None, wanted: bool, early: bool, action: Action, hands: Hands, now: datetime
) -> Victim:
    """Take one victim one visible thing further; while it is *early* (before a retry time) only spare it.

    chosen -> cordoned -> (5 s) drained, looked at once more and deleted. Anything that speaks for the node
    on the way spares it; so does a person who makes it schedulable again.
    """
    cluster = hands.cluster
    assert cluster is not None
    if victim.stage in (*FINISHED, VictimStage.DELETED):
        return victim
    if node is None or node.stage is Stage.DELETING:
        # A crash came between the DELETE and our note - or it was somebody else: we delete no node that Kubernetes
        # knows before its cordon is noted. Where nobody looked for long, as after an old copy of the store was put in
        # place, it says nothing of us, and the count of now is none that this removal left.
        lately = victim.since is None or now - victim.since <= DRAIN_WITHIN + MUST_GO_WITHIN
        ours = lately and (victim.stage is VictimStage.CORDONED or victim.because is Because.STUCK)
        return replace(victim, stage=VictimStage.DELETED if ours else VictimStage.SPARED, since=now)
    if not wanted or (node.busy and victim.because not in EMPTIED):
        return _spare(victim, node, action, hands, now)
    if victim.stage is VictimStage.CORDONED and node.cordoned_by is not CordonedBy.US:
        raise _RefusedError(f"somebody made {node.name} schedulable again")
    waited = victim.since is None or abs(now - victim.since) >= LOOK_AGAIN_AFTER
    if early or (victim.stage is VictimStage.CORDONED and not waited):
        return victim
    hands.ready()
    if victim.stage is VictimStage.CHOSEN and not node.registered:
        return _delete(victim, node, action, hands, now)  # Kubernetes has no node to cordon
    if victim.stage is VictimStage.CHOSEN:
        did = _made(cluster.cordon(node.name, action.id))
        stage = VictimStage.SPARED if did is Did.DIFFERS else VictimStage.CORDONED
        return replace(victim, stage=stage, since=now)
    if victim.because not in EMPTIED and cluster.gpu_pods_on(node.name):
        return _spare(victim, node, action, hands, now)
    if node.ready:  # the pods of a node that does not answer cannot leave it
        drained = _drain(victim, node, action, hands, now)
        if _made(drained) is Did.DIFFERS:
            _spare(victim, node, action, hands, now)
            raise _RefusedError(drained.sentence)
    return _delete(victim, node, action, hands, now)


def _waits(victim: Victim, node: Node | None, unsure: bool, now: datetime) -> bool:
    """True while a node that a window has begun to empty is neither given back nor taken: a source is silent, or the
    node is not usable for the moment. Given back, it would start what was evicted, to be evicted again."""
    if node is None or victim.because is not Because.EVICTED or victim.stage is not VictimStage.CORDONED:
        return False
    unclear = unsure or node.stage in (Stage.UNKNOWN, Stage.BROKEN)
    return unclear and now - (victim.since or now) <= DRAIN_WITHIN


def _drain(victim: Victim, node: Node, action: Action, hands: Hands, now: datetime) -> Receipt:
    """Drain *node*; one that cannot be emptied in time is spared: pods may come back as fast as they are evicted."""
    assert hands.cluster is not None
    try:
        if victim.because is Because.EVICTED:
            return hands.cluster.drain(node.name, evicting=True)
        return hands.cluster.drain(node.name, consenting=victim.because is Because.CONSOLIDATED)
    except TryLater as error:
        if now - (victim.since or now) <= DRAIN_WITHIN:
            raise
        _spare(victim, node, action, hands, now)
        raise _RefusedError(f"not drained within {DRAIN_WITHIN}: {error}") from error


def _delete(victim: Victim, node: Node, action: Action, hands: Hands, now: datetime) -> Victim:
    """Look once more, because draining takes time, and delete the instance."""
    assert hands.cluster is not None
    if victim.because is Because.EVICTED and node.unknown_since is not None:
        if now - (victim.since or now) <= DRAIN_WITHIN:
            raise TryLater(f"the GPUs of {node.name} are in use, and no GPU pod holds them", code="gpus_in_use")
        _spare(victim, node, action, hands, now)
        raise _RefusedError(f"the GPUs of {node.name} are in use after {DRAIN_WITHIN}, and no GPU pod holds them")
    if hands.cluster.gpu_pods_on(node.name):
        return _spare(victim, node, action, hands, now)
    hands.ready()
    try:
        _made(hands.cloud.retire(action.pool, victim.instance))
    except WontWork as error:  # this one stays; the others need not
        _spare(victim, node, action, hands, now)
        raise _RefusedError(f"{error.code}: {error}") from error
    return replace(victim, stage=VictimStage.DELETED, since=now)


def _made(receipt: Receipt) -> Did:
    """What a write did; raises _ObservedError when observe mode made none."""
    if receipt.did is Did.OBSERVED:
        raise _ObservedError
    return receipt.did


def _spare(victim: Victim, node: Node, action: Action, hands: Hands, now: datetime) -> Victim:
    assert hands.cluster is not None
    if victim.stage is VictimStage.CORDONED or node.cordoned_for == action.id:
        hands.ready()
        _made(hands.cluster.uncordon(node.name))
    return replace(victim, stage=VictimStage.SPARED, since=now)
