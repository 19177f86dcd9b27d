"""Carry out an action in small idempotent sub-steps, one visible change per victim and step.

Every sub-step may be repeated after a crash: growth asks for an absolute count and reads the current one first, a
removal names its instance and checks it before it deletes.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from receiver.core.explain.staying import UNKNOWN, spared_after, why_spared
from receiver.core.model.actions import (
    Action,
    ActionKind,
    Because,
    Outcome,
    OutcomeKind,
    Victim,
    VictimStage,
    code_of,
    coded,
)
from receiver.core.model.model import REPAIR, Backoff, CordonedBy, LateCount, Node, PoolState, Stage
from receiver.core.model.pods import Pod
from receiver.core.model.text import lasting, some
from receiver.core.notices.workload_notices import ToldPods
from receiver.core.promises.calibration import OpenPromises
from receiver.core.scaling.removal import LOOK_AGAIN_AFTER
from receiver.core.scaling.terminations import without_abandoned, working
from receiver.core.scaling.waits import LONGEST_GROWTH_BACKOFF, STOPS_FOR, late_after
from receiver.ports import DRAINING, Cloud, Cluster, Did, Receipt, TryLater, WontWork, WriterLostError

FIRST_BACKOFF = timedelta(minutes=1)
FIRST_REMOVAL_BACKOFF = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(minutes=30)
FIRST_RETRY = timedelta(seconds=2)
LONGEST_RETRY = timedelta(minutes=1)
LONGEST_DELAY = timedelta(hours=1)  # a longer Retry-After is ignored
MOST_ATTEMPTS = 5
RESCALING = "cannot_scale_already_rescaling_cluster"  # normal while nodes build, and the same for every pool
PATIENT_ATTEMPTS = 40
DRAIN_WITHIN = timedelta(minutes=15)
MUST_GO_WITHIN = timedelta(minutes=15)
POLL_DELETED = timedelta(seconds=5)
SOON = timedelta(milliseconds=100)
MAY_ARRIVE_FOR = timedelta(minutes=1)  # an unanswered request may still take effect; longer than Civo's timeout
CORDON_SHOWS_WITHIN = timedelta(seconds=30)  # a list of Kubernetes may be older than that
# A cordon is made some seconds after the start of its step, by a clock that may differ from the one of the API server.
CORDON_MADE_WITHIN = timedelta(minutes=1)
RECENT_ACTIONS = 20  # of a pool: more than it can open within the minute in which a request may still arrive
NO_ANSWER = "timeout"
LEAD_LOST = (
    "another replica leads, the lease would end before the call, the database does not answer,"
    " or the parent process is gone"
)
FINISHED = (VictimStage.GONE, VictimStage.SPARED)
EMPTIED = (Because.CONSOLIDATED, Because.EVICTED)  # removed with pods on them: these are evicted first


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """The ports that an action writes to. *may_write* is asked before each write; *told* holds the Events sent,
    *promised* the promises made, *repairs* the instances under repair: spared, they stay cordoned. *record* stores an
    action before a request that a crash would hide."""

    cloud: Cloud
    cluster: Cluster | None
    may_write: Callable[[], bool]
    told: ToldPods = field(default_factory=ToldPods, compare=False)
    promised: OpenPromises = field(default_factory=OpenPromises, compare=False)
    repairs: Collection[str] = ()
    record: Callable[[Action], None] = field(default=lambda _: None, compare=False)

    def ready(self) -> None:
        """Raise WriterLostError unless this replica is still the one writer."""
        if not self.may_write():
            raise WriterLostError(LEAD_LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an action came: with *outcome* None it stays open and is continued at *again_at*."""

    action: Action
    outcome: Outcome | None = None
    late: LateCount | None = None  # what Civo's count does not show yet
    backoff: Backoff | None = None
    again_at: datetime | None = None
    hung: bool = False  # a call timed out: the step makes no more


def next_backoff(action: Action, state: PoolState, reason: str, now: datetime) -> Backoff:
    """Return the pool's next backoff from growth (1 to 30 minutes) or from removal (5 to 30 minutes), doubling.

    Up to a tenth is added as jitter, so that pools do not retry together. A growth that fails during a backoff from
    growth was a smaller request after a refusal: the backoff that holds goes on.
    """
    grow = action.kind is ActionKind.GROW
    if grow and state.backoff is not None and is_smaller_request(state, now):
        return replace(state.backoff, reason=reason)
    last, first = (state.backoff, FIRST_BACKOFF) if grow else (state.removal_backoff, FIRST_REMOVAL_BACKOFF)
    failures = (last.failures if last else 0) + 1
    base = min(first * 2 ** min(failures - 1, 10), LONGEST_BACKOFF)
    spread = hashlib.sha256(action.id.encode()).digest()[0] / 255 * 0.1
    return Backoff(failures=failures, until=now + base * (1 + spread), reason=reason)


def is_smaller_request(state: PoolState, now: datetime) -> bool:
    """True while the pool backs off from growth: a request made now is for fewer nodes than Civo just refused."""
    return state.backoff is not None and state.backoff.holds(now, LONGEST_GROWTH_BACKOFF)


def removals_stopped(reason: str, instances: Sequence[str], now: datetime) -> Backoff:
    """Return the backoff of *instances* that Civo does not delete although it accepted that; it ends when they go."""
    return Backoff(failures=1, until=now + STOPS_FOR, reason=reason, instances=tuple(sorted(instances)))


def is_unanswered(action: Action, now: datetime) -> bool:
    """True unless Civo refused the last request of *action* and an earlier one cannot take effect any more."""
    return not _answered(code_of(action.last_error)) or may_still_arrive(action, now)


def _answered(code: str) -> bool:
    """True for the *code* of an answer of Civo: its request had no effect."""
    return code == RESCALING or code.startswith("http_4")


def may_still_arrive(action: Action, now: datetime) -> bool:
    """True while an unanswered request of growth *action* may still take effect: a late PUT sets its own count."""
    return action.unanswered_at is not None and abs(now - action.unanswered_at) < MAY_ARRIVE_FOR


def may_still_vanish(victim: Victim, now: datetime) -> bool:
    """True while an unanswered DELETE of *victim* may still take effect: work that started there would be lost."""
    return victim.asked_at is not None and abs(now - victim.asked_at) < MAY_ARRIVE_FOR


def settled(action: Action, state: PoolState, now: datetime) -> Outcome | None:
    """Return how an open action ended, as Civo and Kubernetes show it, or None while it is under way."""
    if action.kind is ActionKind.GROW:
        outcome = Outcome(kind=OutcomeKind.CONFIRMED, at=now, detail=f"Civo is asked for {state.required} nodes")
        return outcome if state.required >= action.to_count else None
    if any(v.stage not in (*FINISHED, VictimStage.DELETED) for v in action.victims):
        return None
    deleted = {v.instance for v in action.victims if v.stage is not VictimStage.SPARED}
    if not deleted:
        return Outcome(kind=OutcomeKind.WITHDRAWN, at=now, detail=why_spared(action.victims))
    if deleted & {n.instance for n in state.nodes if not n.leaving}:
        return None
    late = late_after(action, state, now)
    remainder = f"{late.expected} left, Civo still counts {late.shown}" if late else f"{state.required} left"
    stay = why_spared(action.victims)
    detail = f"{some(len(deleted), 'node')} removed, {remainder}" + (f"; {stay}" if stay else "")
    return Outcome(kind=OutcomeKind.CONFIRMED, at=now, detail=detail)


def carry_out(
    action: Action,
    state: PoolState,
    wanted: Collection[str],
    hands: Hands,
    now: datetime,
    *,
    stay_reasons: Mapping[str, str] | None = None,
    unsure: Collection[str] = (),
) -> Progress:
    """Do the next sub-step of *action*.

    *wanted* are the instance ids that the current decision still removes, *stay_reasons* say why it keeps the others,
    *unsure* are those that it would remove if every source answered.
    """
    try:
        if action.kind is ActionKind.GROW:
            return _grow(action, state, hands, now)
        return _retire(action, state, wanted, stay_reasons or {}, unsure, hands, now)
    except TryLater as error:
        return _later(action, state, error, now)
    except WontWork as error:
        return _give_up(action, state, coded(error.code, str(error)), now)


def _too_early(action: Action, now: datetime) -> bool:
    retry_at = action.retry_at  # one further away than any delay in use was set under a wrong clock
    return retry_at is not None and now < retry_at <= now + LONGEST_DELAY


def _later(action: Action, state: PoolState, error: TryLater, now: datetime) -> Progress:
    attempts = action.attempts + 1
    most = PATIENT_ATTEMPTS if error.code == RESCALING else MOST_ATTEMPTS
    hung = error.code == NO_ANSWER
    if action.kind is ActionKind.GROW and not _answered(error.code):
        action = replace(action, unanswered_at=now)
    if action.kind is ActionKind.GROW and attempts > most:  # another pool may do better
        detail = coded(error.code, f"{attempts} times in a row: {error}")
        return replace(_give_up(action, state, detail, now), hung=hung)
    wait = min(FIRST_RETRY * 2 ** min(attempts - 1, 10), LONGEST_RETRY)
    retry_at = now + min(max(wait, error.delay or timedelta(0)), LONGEST_DELAY)
    waiting = replace(action, attempts=attempts, retry_at=retry_at, last_error=coded(error.code, str(error)))
    return Progress(action=waiting, again_at=retry_at, hung=hung)


def _grow(action: Action, state: PoolState, hands: Hands, now: datetime) -> Progress:
    if _too_early(action, now):
        return Progress(action=action, again_at=action.retry_at)
    hands.ready()
    if action == state.open_action and not action.attempts:  # a crash came between its request and the answer
        action = replace(action, unanswered_at=now)
    civo_count = state.required + state.uncounted if state.uncounted else None
    receipt = hands.cloud.resize(action.pool, decided_on=action.from_count, target=action.to_count, shown=civo_count)
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
    progress = Progress(action=action, outcome=outcome, late=late)
    if state.backoff is None or kind is not OutcomeKind.CONFIRMED or not is_smaller_request(state, now):
        return progress
    # Some stock is there, so the rest is worth another request soon; and another pool may have what this one lacks.
    backoff = next_backoff(action, replace(state, backoff=None), state.backoff.reason, now)
    return replace(progress, backoff=backoff, again_at=now + SOON)


def _retire(
    action: Action,
    state: PoolState,
    wanted: Collection[str],
    stay_reasons: Mapping[str, str],
    unsure: Collection[str],
    hands: Hands,
    now: datetime,
) -> Progress:
    if hands.cluster is None:
        raise WontWork("nodes are removed only with access to Kubernetes", code="no_kubernetes")
    nodes = {n.instance: n for n in without_abandoned(state, now).nodes}
    early = _too_early(action, now)
    if early and code_of(action.last_error) == NO_ANSWER:  # another call would hang too, and delay other pools
        return Progress(action=action, again_at=action.retry_at)
    untouched = not any(v.stage in (VictimStage.DELETED, VictimStage.GONE) for v in action.victims)
    if untouched and state.required > action.from_count:
        # The count was raised since the cordon: the removal lowers that one. A lower count may be our own DELETE,
        # unrecorded because of a crash.
        going = sum(v.stage is not VictimStage.SPARED for v in action.victims)
        action = replace(action, from_count=state.required, to_count=state.required - going)
    victims: list[Victim] = []
    trouble: TryLater | None = None
    for number, victim in enumerate(action.victims):
        try:
            node, stays = nodes.get(victim.instance), stay_reasons.get(victim.instance, UNKNOWN)
            stays = "" if victim.instance in wanted else stays
            waits = bool(stays) and _waits(victim, node, victim.instance in unsure, now)
            waits = waits or _is_unlisted(victim, node, state, now)
            after, failure = (victim, None) if waits else _taken_further(victim, node, stays, early, action, hands, now)
        except WontWork as error:
            so_far = replace(action, victims=(*victims, *action.victims[number:]))
            return _give_up(so_far, state, coded(error.code, str(error)), now)
        except _ObservedError:
            names = ", ".join(v.node for v in action.victims)
            outcome = Outcome(kind=OutcomeKind.OBSERVED, at=now, detail=f"would remove {names}")
            return Progress(action=action, outcome=outcome)
        victims.append(after)
        trouble = failure if isinstance(failure, TryLater) else trouble
        if trouble is not None and trouble.code == NO_ANSWER:
            victims += action.victims[number + 1 :]
            break
    moved = replace(action, victims=tuple(victims), retry_at=action.retry_at if early else None)
    ended = settled(moved, state, now)
    if ended is not None:
        return _ended(moved, ended, state, now)
    if trouble is not None:
        return _later(moved, state, trouble, now)
    listed = {n.instance for n in state.nodes if not n.leaving}
    deleted = [v for v in victims if v.stage is VictimStage.DELETED and v.instance in listed]
    if overdue := [v for v in deleted if now - (v.since or now) > MUST_GO_WITHIN]:
        names = ", ".join(v.node for v in overdue)
        detail = f"Civo accepted the DELETE of {names} and still lists it after {lasting(MUST_GO_WITHIN)}"
        stopped = _give_up(moved, state, detail, now)
        return replace(stopped, backoff=removals_stopped(detail, [v.instance for v in overdue], now))
    again = _look_again_at(moved, now)
    return Progress(action=moved, again_at=max(again, action.retry_at) if early and action.retry_at else again)


def _taken_further(
    victim: Victim, node: Node | None, stays: str, early: bool, action: Action, hands: Hands, now: datetime
) -> tuple[Victim, "TryLater | _RefusedError | None"]:
    try:
        return _retire_one(victim, node, stays, early, action, hands, now), None
    except TryLater as error:
        return replace(victim, why=str(error), emptied=victim.emptied or error.code == DRAINING), error
    except _NotDeletedError as error:
        return replace(victim, why=str(error), asked_at=now), error.why
    except _RefusedError as error:
        return replace(victim, stage=VictimStage.SPARED, since=now, refused=True, why=str(error)), error


def _ended(action: Action, outcome: Outcome, state: PoolState, now: datetime) -> Progress:
    """End a removal. The nodes on which it was refused back off, whatever became of the others, and those that backed
    off before go on doing so: otherwise the next step would cordon them again."""
    refused, last = [v for v in action.victims if v.refused], state.removal_backoff
    backoff = last if last is not None and last.instances and now < last.until else None
    if refused:
        stay = why_spared(v for v in action.victims if not v.refused)
        detail = "; ".join([*(v.why for v in refused), *([stay] if stay else [])])
        instances_before = backoff.instances if backoff is not None else ()
        instances = tuple(sorted({*instances_before, *(v.instance for v in refused)}))
        backoff = replace(next_backoff(action, state, detail, now), instances=instances)
        if outcome.kind is OutcomeKind.WITHDRAWN:
            outcome = Outcome(kind=OutcomeKind.FAILED, at=now, detail=detail)
    late = late_after(action, state, now) if outcome.kind is OutcomeKind.CONFIRMED else None
    return Progress(action=action, outcome=outcome, late=late, backoff=backoff)


def _give_up(action: Action, state: PoolState, detail: str, now: datetime) -> Progress:
    outcome = Outcome(kind=OutcomeKind.FAILED, at=now, detail=detail)
    again_at = now + SOON if action.kind is ActionKind.GROW else None  # for fewer nodes, or nodes of another pool
    backoff, late = next_backoff(action, state, detail, now), late_after(action, state, now)
    return Progress(action=action, outcome=outcome, late=late, backoff=backoff, again_at=again_at)


def _look_again_at(action: Action, now: datetime) -> datetime:
    cordoned = [
        v.since + LOOK_AGAIN_AFTER if v.asked_at is None else v.asked_at + MAY_ARRIVE_FOR
        for v in action.victims
        if v.stage is VictimStage.CORDONED and v.since
    ]
    return max(now + SOON, min([now + POLL_DELETED, *(at for at in cordoned if at > now)]))


class _ObservedError(Exception):
    """Observe mode: the write was not made."""


class _NotDeletedError(Exception):
    """Civo did not confirm the DELETE."""

    def __init__(self, cause: TryLater) -> None:
        super().__init__(str(cause))
        self.why = cause


class _RefusedError(Exception):
    """The node must stay; the message says why."""


def _retire_one(
    victim: Victim, node: Node | None, stays: str, early: bool, action: Action, hands: Hands, now: datetime
) -> Victim:
    """Take one victim one stage further; before a retry time (*early*) it can only be spared. *stays* says why it
    must stay now, and is empty while it may go.

    chosen -> cordoned -> (5 s) drained, checked once more and deleted. New work on the node spares it, and so does a
    person who uncordons it.
    """
    cluster = hands.cluster
    assert cluster is not None
    if victim.stage in (*FINISHED, VictimStage.DELETED):
        return victim
    if node is None or node.stage is Stage.DELETING:
        return _gone(victim, now)
    if stays or (node.busy and victim.because not in EMPTIED):
        return _give_back(victim, node, stays or _started(node.pods), action, hands, now)
    if victim.stage is VictimStage.CORDONED and node.cordoned_by is not CordonedBy.US:
        return _without_our_cordon(victim, node, now)
    waited = victim.since is None or abs(now - victim.since) >= LOOK_AGAIN_AFTER
    if early or (victim.stage is VictimStage.CORDONED and not waited):
        return victim
    hands.ready()
    if victim.stage is VictimStage.CHOSEN and not node.registered:
        return _delete(victim, node, action, hands, now)  # Kubernetes has no node to cordon
    if victim.stage is VictimStage.CHOSEN:
        cordoned = cluster.cordon(node.name, action.id)
        if _made(cordoned) is Did.DIFFERS:
            return replace(victim, stage=VictimStage.SPARED, since=now, why=cordoned.sentence)
        return replace(victim, stage=VictimStage.CORDONED, since=now, why="")
    if victim.because not in EMPTIED and (pods := working(node, cluster.gpu_pods_on(node.name), now)):
        return _spare(victim, node, _started(pods), action, hands, now)
    if node.ready:  # the pods of a node that does not answer cannot leave it
        drained = _drain(victim, node, action, hands, now)
        if _made(drained) is Did.DIFFERS:
            _spare(victim, node, drained.sentence, action, hands, now)
            raise _RefusedError(drained.sentence)
    return _delete(victim, node, action, hands, now)


def _give_back(victim: Victim, node: Node, reason: str, action: Action, hands: Hands, now: datetime) -> Victim:
    """Spare a node that is wanted. The pods that were evicted from it return, so it backs off: otherwise they would be
    evicted again and again."""
    spared_victim = _spare(victim, node, reason, action, hands, now)
    if spared_victim.stage is VictimStage.SPARED and victim.emptied and not node.busy:
        raise _RefusedError(spared_victim.why)
    return spared_victim


def _without_our_cordon(victim: Victim, node: Node, now: datetime) -> Victim:
    """Spare a node that a person uncordoned; until a list must be newer than our cordon, it may only be an old one."""
    if victim.since is not None and abs(now - victim.since) < CORDON_SHOWS_WITHIN:
        return victim
    raise _RefusedError(f"{node.name} was uncordoned by someone else")


def _gone(victim: Victim, now: datetime) -> Victim:
    """Return a victim that no longer exists as deleted by this removal, or as spared if something else deleted it.

    It was ours if a crash came between the DELETE and its record, which follows a recorded cordon. After a long pause,
    such as a restored backup of the store, that proves nothing.
    """
    uncordoned = victim.because in (Because.STUCK, Because.LOST)  # one without a Node object is deleted as it is
    if _is_recent(victim, now) and (victim.stage is VictimStage.CORDONED or uncordoned):
        return replace(victim, stage=VictimStage.DELETED, since=now, why="")
    return replace(victim, stage=VictimStage.SPARED, since=now, why="it was already deleted, not by this removal")


def _is_recent(victim: Victim, now: datetime) -> bool:
    return victim.since is None or now - victim.since <= DRAIN_WITHIN + MUST_GO_WITHIN


def _is_unlisted(victim: Victim, node: Node | None, state: PoolState, now: datetime) -> bool:
    """True while the node of a cordoned victim is Ready, and Civo does not list its instance: the list is an old one,
    unless the DELETE of a moment ago was not recorded because of a crash. The node tells which, within a minute."""
    ready = node is None and victim.stage is VictimStage.CORDONED and victim.node in state.unjoined
    return ready and _is_recent(victim, now)


def _waits(victim: Victim, node: Node | None, unsure: bool, now: datetime) -> bool:
    """True while a node that a window is emptying stays as it is, because a source is silent or the node is not usable
    for now. Spared, it would restart the evicted pods only for them to be evicted again."""
    if node is None or victim.because is not Because.EVICTED or victim.stage is not VictimStage.CORDONED:
        return False
    unclear = unsure or node.stage in (Stage.UNKNOWN, Stage.BROKEN)
    return unclear and now - (victim.since or now) <= DRAIN_WITHIN


def _drain(victim: Victim, node: Node, action: Action, hands: Hands, now: datetime) -> Receipt:
    """Drain *node*, or spare it after `DRAIN_WITHIN`."""
    assert hands.cluster is not None
    try:
        consenting, evicting = victim.because is Because.CONSOLIDATED, victim.because is Because.EVICTED
        cordoned_at = victim.since
        if cordoned_at is not None and not victim.emptied:  # once emptied, what is there has come back
            cordoned_at += CORDON_MADE_WITHIN
        return hands.cluster.drain(node.name, consenting=consenting, evicting=evicting, cordoned_at=cordoned_at)
    except TryLater as error:
        if now - (victim.since or now) <= DRAIN_WITHIN:
            raise
        detail = f"node {node.name} was not drained within {lasting(DRAIN_WITHIN)}: {error}"
        _spare(victim, node, detail, action, hands, now)
        raise _RefusedError(detail) from error


def _delete(victim: Victim, node: Node, action: Action, hands: Hands, now: datetime) -> Victim:
    """Check the node's pods once more, because draining takes time, and delete the instance."""
    assert hands.cluster is not None
    if victim.because is Because.EVICTED and node.unknown_since is not None:
        if now - (victim.since or now) <= DRAIN_WITHIN:
            raise TryLater(f"the GPUs of {node.name} are in use, and no GPU pod holds them", code="gpus_in_use")
        refused = f"the GPUs of {node.name} are still in use after {lasting(DRAIN_WITHIN)}, and no GPU pod holds them"
        _spare(victim, node, refused, action, hands, now)
        raise _RefusedError(refused)
    if pods := working(node, hands.cluster.gpu_pods_on(node.name), now):
        return _spare(victim, node, _started(pods), action, hands, now)
    pending_victim = replace(victim, asked_at=now)
    hands.record(
        replace(action, victims=tuple(pending_victim if v.instance == victim.instance else v for v in action.victims))
    )
    hands.ready()
    try:
        _made(hands.cloud.retire(action.pool, victim.instance))
    except TryLater as error:
        raise _NotDeletedError(error) from error
    except WontWork as error:  # only this node stays
        _spare(victim, node, str(error), action, hands, now)
        raise _RefusedError(coded(error.code, str(error))) from error
    return replace(victim, stage=VictimStage.DELETED, since=now, why="")


def _made(receipt: Receipt) -> Did:
    if receipt.did is Did.OBSERVED:
        raise _ObservedError
    return receipt.did


def _started(pods: Sequence[Pod]) -> str:
    return f"{', '.join(sorted(pod.key for pod in pods))} started there"


def _spare(victim: Victim, node: Node, reason: str, action: Action, hands: Hands, now: datetime) -> Victim:
    """Uncordon the node and keep it, adding *reason* to what it waited for before.

    Not while an unanswered DELETE may still take effect: new work would start on the node. One under repair stays
    cordoned for that, and so does one that others maintain, until they are done.
    """
    assert hands.cluster is not None
    if may_still_vanish(victim, now):
        return victim
    if victim.stage is VictimStage.CORDONED or node.cordoned_for == action.id:
        hands.ready()
        if victim.instance in hands.repairs and node.cordoned_by is CordonedBy.US:
            _made(hands.cluster.cordon(node.name, REPAIR))
        elif not node.maintained:
            _made(hands.cluster.uncordon(node.name))
    waited_for, stays = victim.why, spared_after(victim.why, reason)
    return replace(victim, stage=VictimStage.SPARED, since=now, why=stays, waited_for=waited_for)
