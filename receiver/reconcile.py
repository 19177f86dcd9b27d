"""One step: look, assign, decide, store, act, store, tell. Driven by the loop, by replay and by tests alike."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog

from receiver.act import FINISHED, Hands, Progress, carry_out, settled
from receiver.core import tell
from receiver.core.actions import Action, ActionKind, Change, Decision, Outcome, OutcomeKind, VictimStage
from receiver.core.assign import Assignment, assign
from receiver.core.decide import decide
from receiver.core.model import CordonedBy, Facts, PoolState, Source
from receiver.core.picture import picture
from receiver.core.plan import plan
from receiver.core.policy import Policy
from receiver.look import Sources, look
from receiver.ports import Store, TryLater, WontWork

log = structlog.get_logger("receiver")
EVENTS_PER_ACTION = 50  # pods told by a Kubernetes Event about one growth


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """What a step came to. *reconsider_at* is the first moment at which another could differ unaided."""

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    reconsider_at: datetime | None


def step(sources: Sources, hands: Hands, policy: Policy, mode: str, now: datetime) -> Stepped:
    """Run one step at *now*. Raises TryLater when the store fails, WriterLostError when we may not write."""
    store = sources.store
    looked = look(sources, policy, now)
    store.saw(looked.lives, looked.required, now)
    facts = _settle(looked.facts, store, policy, now)
    assignment = assign(facts, policy)
    decisions: dict[str, Decision] = {}
    numbers: dict[str, int] = {}
    again: list[datetime] = []
    for pool in policy.pools:
        state = facts.pool(pool.id)
        decision = decide(state, assignment.pools[pool.id], facts.signals, policy, now)
        number = store.decided(decision)
        progress = _act(decision, number, state, policy, hands, store, now) if facts.up(Source.CIVO) else None
        if progress is not None:
            _close(progress, decision, assignment, policy, hands, store, now)
            again += [progress.again_at] if progress.again_at else []
        _undo_orphaned_cordons(state, progress, hands, facts)
        decisions[pool.id], numbers[pool.id] = decision, number
        again += [decision.reconsider_at] if decision.reconsider_at else []
    _tell_the_rest(facts, assignment, policy, hands, store, now)
    store.keep_snapshot(picture(facts, assignment, decisions, numbers, policy, mode), now)
    store.considered(facts.deliveries, now)
    _log_step(facts, decisions, mode)
    return Stepped(
        facts=facts,
        assignment=assignment,
        decisions=decisions,
        reconsider_at=min((a for a in again if a > now), default=None),
    )


def _settle(facts: Facts, store: Store, policy: Policy, now: datetime) -> Facts:
    """Close the open actions that the look alone shows to have ended, before anything is decided."""
    if not facts.up(Source.CIVO):
        return facts
    pools: list[PoolState] = []
    for state in facts.pools:
        action = state.open_action
        outcome = settled(action, state, now) if action else None
        if action is None or outcome is None:
            pools.append(state)
            continue
        store.closed(action, outcome, None)
        store.say(tell.ended(action, outcome, None, policy, None), now)
        grew = outcome.kind is OutcomeKind.CONFIRMED and action.kind is ActionKind.GROW
        shrank = outcome.kind is OutcomeKind.CONFIRMED and action.kind is ActionKind.RETIRE
        pools.append(
            replace(
                state,
                open_action=None,
                last_grow_at=now if grew else state.last_grow_at,
                last_shrink_at=now if shrank else state.last_shrink_at,
                backoff=None if grew or shrank else state.backoff,
            )
        )
    return replace(facts, pools=tuple(pools))


def _act(
    decision: Decision, number: int, state: PoolState, policy: Policy, hands: Hands, store: Store, now: datetime
) -> Progress | None:
    """Continue the pool's open action if the decision still wants it, else withdraw it and open what it wants."""
    action = state.open_action
    carried: Action | None = None
    if action is not None and action.kind is ActionKind.GROW and decision.target != action.to_count:
        outcome = Outcome(kind=OutcomeKind.WITHDRAWN, at=now, detail=f"the decision is now {decision.target} nodes")
        store.closed(action, outcome, None)
        action, carried = None, action
    if action is None:
        action = plan(decision, state, policy)
        if action is None or _was_observed(decision, number, store):
            return None
        action = replace(action, decision=number)
        if carried is not None and action.kind is ActionKind.GROW:  # a new number is no way around a retry time
            action = replace(
                action, attempts=carried.attempts, retry_at=carried.retry_at, last_error=carried.last_error
            )
        if not store.opened(action):
            return None
    let_go = decision.candidates[: decision.present - decision.target] if decision.change is Change.SHRINK else ()
    return carry_out(action, state, let_go, hands, now)


def _was_observed(decision: Decision, number: int, store: Store) -> bool:
    """True when this very decision already closed as observed: nothing changed, so it is not told again."""
    last = store.actions(pool=decision.pool, limit=1)
    if not last or last[0].outcome is None or last[0].outcome.kind is not OutcomeKind.OBSERVED:
        return False
    return last[0].action.decision == number


def _close(
    progress: Progress,
    decision: Decision,
    assignment: Assignment,
    policy: Policy,
    hands: Hands,
    store: Store,
    now: datetime,
) -> None:
    if progress.outcome is None:
        store.progressed(progress.action)
        return
    store.closed(progress.action, progress.outcome, progress.backoff)
    store.say(tell.ended(progress.action, progress.outcome, decision, policy, assignment.budget), now)
    if progress.action.kind is ActionKind.GROW and progress.outcome.kind is OutcomeKind.CONFIRMED:
        asking = [p for w in assignment.pools[decision.pool].asking for p in w.pods]
        for pod in asking[:EVENTS_PER_ACTION]:
            _announce(hands, pod, "TriggeredScaleUp", tell.scale_up_event(decision, policy))


def _announce(hands: Hands, pod: Any, reason: str, message: str) -> None:
    """Leave an Event on a pod; one that cannot be written must not fail the step."""
    if hands.cluster is None or not pod.uid:
        return
    try:
        hands.ready()
        hands.cluster.announce(pod, reason=reason, message=message)
    except (TryLater, WontWork) as error:
        log.warning("event not written", pod=pod.key, error=str(error))


def _undo_orphaned_cordons(state: PoolState, progress: Progress | None, hands: Hands, facts: Facts) -> None:
    """Lift cordons of ours that outlived their action, for example through a crash between closing and uncordoning."""
    if hands.cluster is None or not facts.up(Source.KUBERNETES):
        return
    action = progress.action if progress and progress.outcome is None else state.open_action
    if progress is not None and progress.outcome is not None:
        return  # it ended in this step: the next look shows what is left of it
    ours = {v.node for v in action.victims if v.stage not in FINISHED} if action else set()
    for node in state.living:
        if node.cordoned_by is CordonedBy.US and node.name not in ours and not _is_going(state, node.instance):
            try:
                hands.ready()
                hands.cluster.uncordon(node.name)
            except (TryLater, WontWork) as error:
                log.warning("orphaned cordon not lifted", node=node.name, error=str(error))


def _is_going(state: PoolState, instance: str) -> bool:
    victims = state.open_action.victims if state.open_action else ()
    return any(v.instance == instance and v.stage is VictimStage.DELETED for v in victims)


def _tell_the_rest(
    facts: Facts, assignment: Assignment, policy: Policy, hands: Hands, store: Store, now: datetime
) -> None:
    """Tell, once each, what no action would tell: misfits, budget stages, sources that fell silent, lasting holds."""
    for misfit in assignment.misfits:
        if store.say(tell.misfit(misfit), now):
            for pod in misfit.workload.pods:
                _announce(hands, pod, "NotTriggerScaleUp", misfit.detail)
    for notice in (
        *tell.budget_stage(assignment.budget),
        *tell.silent_sources(facts),
        *tell.held(assignment, policy),
    ):
        store.say(notice, now)


def _log_step(facts: Facts, decisions: Mapping[str, Decision], mode: str) -> None:
    for source in facts.sources.values():
        if source.configured and not source.up and source.since == facts.at:
            log.warning("source is silent", source=source.source.value, detail=source.detail)
    log.info(
        "step",
        mode=mode,
        woken_by=list(facts.deliveries),
        waiting=len(facts.waiting),
        silent=[s.source.value for s in facts.sources.values() if s.configured and not s.up],
        pools={d.pool: f"{d.present}->{d.target} {d.deciding.rule}" for d in decisions.values()},
    )
