"""Carry out an action in small idempotent sub-steps, one visible change per victim and step.

Every sub-step may be repeated after a crash: growth asks for an absolute count and reads the current one first, a
removal names its instance and checks it before it deletes.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from receiver.core.explain.staying import why_spared
from receiver.core.model.actions import Action, ActionKind, Outcome, OutcomeKind, Victim, VictimStage, code_of, coded
from receiver.core.model.flights import MAY_ARRIVE_FOR, RESCALING, Flight, is_answer, late_after
from receiver.core.model.model import REPAIR, Backoff, PoolState
from receiver.core.model.text import lasting, some
from receiver.core.scaling.removal import LOOK_AGAIN_AFTER
from receiver.core.scaling.retirement import FINISHED, MUST_GO_WITHIN, VictimView
from receiver.core.scaling.terminations import without_abandoned
from receiver.core.scaling.waits import LONGEST_GROWTH_BACKOFF, STOPS_FOR
from receiver.ports import Did, TryLater, WontWork
from receiver.step.parts import Hands
from receiver.step.retire import advance

FIRST_BACKOFF = timedelta(minutes=1)
FIRST_REMOVAL_BACKOFF = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(minutes=30)
FIRST_RETRY = timedelta(seconds=2)
LONGEST_RETRY = timedelta(minutes=1)
LONGEST_DELAY = timedelta(hours=1)  # a longer Retry-After is ignored
MOST_ATTEMPTS = 5
PATIENT_ATTEMPTS = 40
POLL_DELETED = timedelta(seconds=5)
SOON = timedelta(milliseconds=100)
RECENT_ACTIONS = 20  # of a pool: more than it can open within the minute in which a request may still arrive
NO_ANSWER = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeps:
    """What the current decision says of the victims of a removal, by instance id: why it keeps some, which it would
    remove if every source answered, and which stay cordoned for their repair."""

    reasons: Mapping[str, str] = field(default_factory=dict)
    unsure: Collection[str] = ()
    repairs: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an action came: with *outcome* None it stays open and is continued at *again_at*."""

    action: Action
    outcome: Outcome | None = None
    late: Flight | None = None  # what Civo's count does not show yet
    backoff: Backoff | None = None
    again_at: datetime | None = None
    hung: bool = False  # a call timed out: the step makes no more


def next_backoff(action: Action, state: PoolState, reason: str, now: datetime) -> Backoff:
    """Return the pool's next backoff from growth (1 to 30 minutes) or from removal (5 to 30 minutes), doubling.

    Up to a tenth is added as jitter, so that pools do not retry together. A growth that fails during a backoff from
    growth was a smaller request after a refusal: the backoff that holds goes on.
    """
    grow, backoffs = action.kind is ActionKind.GROW, state.backoffs
    if grow and backoffs.growth is not None and is_smaller_request(state, now):
        return replace(backoffs.growth, reason=reason)
    last, first = (backoffs.growth, FIRST_BACKOFF) if grow else (backoffs.removal, FIRST_REMOVAL_BACKOFF)
    failures = (last.failures if last else 0) + 1
    base = min(first * 2 ** min(failures - 1, 10), LONGEST_BACKOFF)
    spread = hashlib.sha256(action.id.encode()).digest()[0] / 255 * 0.1
    return Backoff(failures=failures, until=now + base * (1 + spread), reason=reason)


def is_smaller_request(state: PoolState, now: datetime) -> bool:
    """True while the pool backs off from growth: a request made now is for fewer nodes than Civo just refused."""
    backoff = state.backoffs.growth
    return backoff is not None and backoff.holds(now, LONGEST_GROWTH_BACKOFF)


def removals_stopped(reason: str, instances: Sequence[str], now: datetime) -> Backoff:
    """Return the backoff of *instances* that Civo does not delete although it accepted that; it ends when they go."""
    return Backoff(failures=1, until=now + STOPS_FOR, reason=reason, instances=tuple(sorted(instances)))


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
    remainder = f"{late.target} left, Civo still counts {late.shown}" if late else f"{state.required} left"
    stay = why_spared(action.victims)
    detail = f"{some(len(deleted), 'node')} removed, {remainder}" + (f"; {stay}" if stay else "")
    return Outcome(kind=OutcomeKind.CONFIRMED, at=now, detail=detail)


def carry_out(action: Action, state: PoolState, keeps: Keeps, hands: Hands, now: datetime) -> Progress:
    """Do the next sub-step of *action*."""
    try:
        if action.kind is ActionKind.GROW:
            return _grow(action, state, hands, now)
        return _retire(action, state, keeps, hands, now)
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
    if action.kind is ActionKind.GROW and not is_answer(error.code):
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
    civo_count = state.required + state.count.uncounted if state.count.uncounted else None
    receipt = hands.cloud.resize(action.pool, decided_on=action.from_count, target=action.to_count, shown=civo_count)
    kind = {
        Did.DONE: OutcomeKind.CONFIRMED,
        Did.ALREADY: OutcomeKind.CONFIRMED,
        Did.DIFFERS: OutcomeKind.SUPERSEDED,
        Did.OBSERVED: OutcomeKind.OBSERVED,
    }[receipt.did]
    outcome, late = Outcome(kind=kind, at=now, detail=receipt.sentence), None
    if receipt.did is Did.DONE and (receipt.required is None or receipt.required < action.to_count):
        before = state.required + state.count.uncounted if receipt.required is None else receipt.required
        late = Flight(pool=action.pool, kind=action.kind, target=action.to_count, sent_at=now, shown=before)
    progress = Progress(action=action, outcome=outcome, late=late)
    held = state.backoffs.growth
    if held is None or kind is not OutcomeKind.CONFIRMED or not is_smaller_request(state, now):
        return progress
    # Some stock is there, so the rest is worth another request soon; and another pool may have what this one lacks.
    without = replace(state, backoffs=replace(state.backoffs, growth=None))
    backoff = next_backoff(action, without, held.reason, now)
    return replace(progress, backoff=backoff, again_at=now + SOON)


def _retire(action: Action, state: PoolState, keeps: Keeps, hands: Hands, now: datetime) -> Progress:
    if hands.cluster is None:
        raise WontWork("nodes are removed only with access to Kubernetes", code="no_kubernetes")
    early = _too_early(action, now)
    if early and code_of(action.last_error) == NO_ANSWER:  # another call would hang too, and delay other pools
        return Progress(action=action, again_at=action.retry_at)
    action, nodes = _on_the_present_count(action, state), without_abandoned(state, now).nodes
    by_instance = {node.instance: node for node in nodes}
    victims: list[Victim] = []
    failure: TryLater | None = None
    for number, victim in enumerate(action.victims):
        view = VictimView(
            now=now,
            stays=keeps.reasons.get(victim.instance, ""),
            unsure=victim.instance in keeps.unsure,
            early=early,
            unlisted=victim.node in state.unjoined,
            cordoned_for=REPAIR if victim.instance in keeps.repairs else "",
        )
        try:
            after = advance(victim, by_instance.get(victim.instance), view, action, hands)
        except WontWork as error:
            so_far = replace(action, victims=(*victims, *action.victims[number:]))
            return _give_up(so_far, state, coded(error.code, str(error)), now)
        if after.observed:
            names = ", ".join(v.node for v in action.victims)
            outcome = Outcome(kind=OutcomeKind.OBSERVED, at=now, detail=f"would remove {names}")
            return Progress(action=action, outcome=outcome)
        victims.append(after.victim)
        failure = after.failure or failure
        if failure is not None and failure.code == NO_ANSWER:
            victims += action.victims[number + 1 :]
            break
    moved = replace(action, victims=tuple(victims), retry_at=action.retry_at if early else None)
    if failure is not None and settled(moved, state, now) is None:
        return _later(moved, state, failure, now)
    return _looked_at(moved, state, now)


def _on_the_present_count(action: Action, state: PoolState) -> Action:
    """Return a removal that lowers the count of now, where that was raised since the cordon. A lower count may be our
    own DELETE, unrecorded because of a crash."""
    if any(v.stage in (VictimStage.DELETED, VictimStage.GONE) for v in action.victims):
        return action
    if state.required <= action.from_count:
        return action
    going = sum(v.stage is not VictimStage.SPARED for v in action.victims)
    return replace(action, from_count=state.required, to_count=state.required - going)


def _looked_at(action: Action, state: PoolState, now: datetime) -> Progress:
    """Return how far a removal has come whose victims were all taken further."""
    outcome = settled(action, state, now)
    if outcome is not None:
        return _ended(action, outcome, state, now)
    listed = {n.instance for n in state.nodes if not n.leaving}
    deleted = [v for v in action.victims if v.stage is VictimStage.DELETED and v.instance in listed]
    if overdue := [v for v in deleted if now - (v.since or now) > MUST_GO_WITHIN]:
        names = ", ".join(v.node for v in overdue)
        detail = f"Civo accepted the DELETE of {names} and still lists it after {lasting(MUST_GO_WITHIN)}"
        stopped = _give_up(action, state, detail, now)
        return replace(stopped, backoff=removals_stopped(detail, [v.instance for v in overdue], now))
    again = _look_again_at(action, now)
    return Progress(action=action, again_at=max(again, action.retry_at) if action.retry_at else again)


def _ended(action: Action, outcome: Outcome, state: PoolState, now: datetime) -> Progress:
    """End a removal. The nodes on which it was refused back off, whatever became of the others, and those that backed
    off before go on doing so: otherwise the next step would cordon them again."""
    refused, last = [v for v in action.victims if v.refused], state.backoffs.removal
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
