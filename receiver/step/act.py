"""Act: continue or open each pool's action, make the other writes, and store the control state for the next step."""

from dataclasses import replace
from datetime import datetime
from functools import partial

import structlog

from receiver.core.explain.staying import UNKNOWN, why_kept
from receiver.core.model.actions import Action, ActionKind, Change, Decision, Outcome, OutcomeKind, Verdict, VictimStage
from receiver.core.model.flights import UNSURE_FOR, is_unanswered, may_arrive
from receiver.core.model.memory import Control, SourceTurn
from receiver.core.model.model import Source
from receiver.core.notices.action_notices import Around, instead_of
from receiver.core.scaling.decide import case_of, join, plan
from receiver.core.scaling.waits import provisioning_failed
from receiver.core.scaling.witness import changes, judged, moments
from receiver.ports import Did, StepStore, TryLater, WontWork
from receiver.step.carry_out import (
    RECENT_ACTIONS,
    SOON,
    Keeps,
    Progress,
    carry_out,
    is_smaller_request,
)
from receiver.step.chores.budget import close_nodes, held_places, hold_new_work
from receiver.step.chores.installations import make_known
from receiver.step.chores.node_upkeep import (
    apply_labels_and_taints,
    apply_packing_taints,
    undo_orphaned_cordons,
)
from receiver.step.chores.notify import announce_window_evictions, record_pod_events
from receiver.step.gather import Looked, Sources
from receiver.step.parts import StepContext, decision_of, told_of_end

log = structlog.get_logger("receiver")
GRACE_IN_DOUBT = "the clock jumped or no step ran for a while, so it is unknown how much of the grace has passed"


def act(work: StepContext, looked: Looked, sources: Sources) -> tuple[StepContext, list[datetime]]:
    """Carry out the decisions and the other writes, each guarded separately, then store the control state. A step whose
    clock is not trusted writes nothing outside.

    Returns the context with the places that the budget hold covers now, and the moments at which to look again.
    Raises TryLater, WriterLostError.
    """
    if not looked.trusted:
        return _only_look(work, looked, sources)
    parts, facts = work.parts, work.facts
    kubernetes = work.hands.cluster is not None and facts.up(Source.KUBERNETES)
    for action in looked.orphans:
        with parts.part("orphans", action.pool):
            _withdraw_orphan(action, work)
    if kubernetes and facts.up(Source.CIVO):
        with parts.part("close_nodes"):
            close_nodes(work, looked.strays)
    kept_out = facts.earlier.kept_out
    if kubernetes:
        with parts.part("keep_out"):
            kept_out = hold_new_work(work)
    again = _serve_pools(work)
    if kubernetes:
        with parts.part("labels_and_taints"):
            apply_labels_and_taints(work)
        with parts.part("soft_taints"):
            change = apply_packing_taints(work)
            again += [change] if change is not None else []
        for chore in work.additions.chores:
            with parts.part(chore.name):
                due = chore.make(work)
                again += [due] if due is not None else []
    with parts.part("window_evictions"):
        announce_window_evictions(work)  # only announced pods are evicted
    if work.chores:
        with parts.part("installations"):
            make_known(work, looked.others)
        for look_chore in work.additions.look_chores:
            with parts.part(look_chore.name):
                look_chore.make(work, looked, sources)
    refusals = facts.other_work.refusals  # if it fails, what was known stands
    with parts.part("scheduler"):
        rooms = {pool: wanted.work.rooms for pool, wanted in work.assignment.pools.items()}
        refusals = judged(facts, rooms, work.policy)
        again += moments(refusals)
        if changes(refusals) != changes(facts.other_work.refusals):
            again.append(work.now + SOON)  # the next step decides with it
    control = Control(
        at=work.now,
        sources={s.source: SourceTurn(up=s.up, since=s.since or work.now) for s in facts.sources.values()},
        kept_out=kept_out,
        rights=facts.rights,
        decisions=work.numbers,
        refusals=refusals,
        committed=looked.committed,
    )
    work.store.keep_control(control, facts.deliveries)
    if facts.earlier.kept_out != kept_out:
        facts = replace(facts, earlier=replace(facts.earlier, kept_out=kept_out))
    return replace(work, facts=facts), again


def _only_look(work: StepContext, looked: Looked, sources: Sources) -> tuple[StepContext, list[datetime]]:
    """Do what is left to a step whose clock may have jumped, as after a pause: nothing that cannot be undone. Announced
    graces begin anew, because it is unknown how much of them has passed. Alerts stay unconsidered; the next step
    follows at once, and acts if the clock has moved on as it should."""
    facts, now = work.facts, work.now
    with work.parts.part("window_evictions"):
        announce_window_evictions(work, doubt=GRACE_IN_DOUBT)
    if work.chores:
        for chore in work.additions.look_chores:
            with work.parts.part(chore.name):
                chore.make(work, looked, sources)
    if work.hands.cluster is not None and facts.up(Source.KUBERNETES):
        with work.parts.part("keep_out"):
            facts = replace(facts, earlier=replace(facts.earlier, kept_out=held_places(work)))
    refusals = tuple(each.paused(now) for each in facts.other_work.refusals)
    before = replace(work.before or Control(at=now), at=now, rights=facts.rights, refusals=refusals)
    work.store.keep_control(replace(before, kept_out=facts.earlier.kept_out, decisions=work.numbers), ())
    return replace(work, facts=facts), [now + SOON]


def _withdraw_orphan(action: Action, work: StepContext) -> None:
    """Withdraw the open action of a pool that is no longer configured, and lift its cordons, once no unanswered DELETE
    of it may still take effect."""
    if any(may_arrive(victim.asked_at, work.now) for victim in action.victims):
        return
    hands = work.hands
    did: list[Did] = []
    try:
        for victim in action.victims:
            # A victim still stored as chosen may be cordoned already: a crash can come between cordon and record.
            if hands.cluster is not None and victim.stage in (VictimStage.CHOSEN, VictimStage.CORDONED):
                hands.ready()
                did.append(hands.cluster.uncordon(victim.node).did)
    except (TryLater, WontWork) as error:
        log.warning("cordon of a pool that left the configuration not lifted", pool=action.pool, error=str(error))
        return
    if Did.OBSERVED in did:
        return  # observe mode lifts no cordon: the action stays open until act mode does
    outcome = Outcome(kind=OutcomeKind.WITHDRAWN, at=work.now, detail="the pool left the configuration")
    notice = told_of_end(action, outcome, lambda: Around(policy=work.policy), work.parts)
    work.store.closed(action, outcome, None, notice)


def _serve_pools(work: StepContext) -> list[datetime]:
    """Carry out each decision, except for pools set aside. Returns the moments at which to look again.

    Raises TryLater when the store fails, WriterLostError when this replica may not write.
    """

    again = [d.reconsider_at for d in work.decisions.values() if d.reconsider_at]
    attempts = {state.pool: state.open_action.attempts for state in work.facts.pools if state.open_action is not None}
    hung = False
    for pool in sorted(work.decisions, key=lambda pool: attempts.get(pool, 0)):  # pools whose calls hang come last
        if pool in work.parts.failures.set_aside:
            continue
        if hung:  # a call timed out: the next step begins at once and serves these pools first
            again.append(work.now + SOON)
            continue
        decision = work.decisions[pool]
        with work.parts.part("act", pool, sets_aside=True):
            readable = work.facts.up(Source.CIVO) and not work.facts.pool(pool).count.unreadable
            progress = _act(decision, work.numbers[pool], work) if readable else None
            if progress is not None:
                hung = progress.hung  # also where what follows fails
                _close(progress, decision, work)
                again += [progress.again_at] if progress.again_at else []
            undo_orphaned_cordons(work.facts.pool(pool), progress, work)
    return again


def _act(decision: Decision, number: int, work: StepContext) -> Progress | None:
    """Continue the pool's open action if the decision still wants it, else withdraw it and open another."""
    state, store, now = work.facts.pool(decision.pool), work.store, work.now
    action = state.open_action
    carried: Action | None = None
    if action is not None and action.kind is ActionKind.GROW and decision.target != action.to_count:
        grows, is_recent = decision.change is Change.GROW, abs(now - action.opened_at) < UNSURE_FOR
        if grows and decision.target < action.to_count and is_recent:
            return None  # its PUT may have taken effect unseen: a lower count now could delete nodes
        grows_further = grows and decision.target > action.to_count
        if not grows_further or not is_unanswered(action, now):
            if not action.attempts:  # a crash came between its request and the answer
                action = replace(action, unanswered_at=now)
            outcome = Outcome(kind=OutcomeKind.WITHDRAWN, at=now, detail=f"the decision is now {decision.target} nodes")
            store.closed(action, outcome, None)
            action, carried = None, action
        # Otherwise repeat the same count before asking for more: a late PUT would lower a higher count.
    if action is None:
        action = plan(decision, state, work.policy)
        if action is None or (work.mode == "observe" and _was_observed(action, decision, store)):
            return None
        if action.kind is ActionKind.GROW and _other_count_may_arrive(action, store, now):
            return None  # one PUT would lower the count that the other raised, and Civo would choose what it deletes
        action = replace(action, decision=number)
        if carried is not None and action.kind is ActionKind.GROW:  # a changed count does not skip the retry time
            action = replace(
                action, attempts=carried.attempts, retry_at=carried.retry_at, last_error=carried.last_error
            )
        if not store.opened(action, provisioning_failed(action, state)):
            return None
    keeps = Keeps()
    if action.kind is ActionKind.RETIRE:
        action = join(action, decision, state)
        keeps = _keeps(action, decision, work)
    return carry_out(action, state, keeps, replace(work.hands, record=store.progressed), now)


def _keeps(removal: Action, decision: Decision, work: StepContext) -> Keeps:
    """Return which victims of *removal* stay by *decision*, and why."""
    removed = decision.candidates[: decision.present - decision.target] if decision.change is Change.SHRINK else ()
    reasons = {v.instance: UNKNOWN for v in removal.victims if v.instance not in removed}
    wanted = work.assignment.pools[decision.pool]
    with work.parts.part("why_kept", decision.pool):  # for messages only
        case = case_of(work.facts.pool(decision.pool), wanted, work.facts, work.policy)
        known = why_kept(removal, decision, case)
        reasons = {instance: known.get(instance, reason) for instance, reason in reasons.items()}
    silent = any(r.rule == "sources_answer" and r.verdict is Verdict.HOLDS for r in decision.reasons)
    return Keeps(reasons=reasons, unsure=decision.candidates if silent else (), repairs=wanted.nodes.repairs)


def _other_count_may_arrive(growth: Action, store: StepStore, now: datetime) -> bool:
    """True while an unanswered request of an earlier growth may still set another count than *growth* asks for: a lower
    one after it, or a higher one between its look at the count and its PUT."""
    recent = (stored.action for stored in store.actions(pool=growth.pool, limit=RECENT_ACTIONS))
    return any(may_arrive(earlier.unanswered_at, now) and earlier.to_count != growth.to_count for earlier in recent)


def _was_observed(action: Action, decision: Decision, store: StepStore) -> bool:
    """True when the pool's last action was the same observed change for the same work: it is reported once."""
    last = next(iter(store.actions(pool=decision.pool, limit=1)), None)
    if last is None or last.outcome is None or last.outcome.kind is not OutcomeKind.OBSERVED:
        return False
    before = decision_of(last.action, store)
    if before is None or (last.action.from_count, last.action.to_count) != (action.from_count, action.to_count):
        return False
    same_work = before.evidence.get("asking") == decision.evidence.get("asking")
    return same_work and {v.instance for v in last.action.victims} == {v.instance for v in action.victims}


def _close(progress: Progress, decision: Decision, work: StepContext) -> None:
    store, policy = work.store, work.policy
    if progress.outcome is None:
        store.progressed(progress.action)
        return
    action, outcome, pool = progress.action, progress.outcome, policy.pool(decision.pool)
    grows = action.kind is ActionKind.GROW

    def around() -> Around:
        by_this = grows or action.decision == work.numbers[decision.pool]
        return Around(
            policy=policy,
            budgets=work.assignment.budgets,
            decision=decision if by_this else decision_of(action, store),
            state=work.facts.pool(decision.pool),
            backoff=progress.backoff,
            instead=instead_of(pool, work.assignment.pools[pool.id], work.facts, policy) if pool and grows else (),
        )

    # A smaller request that is refused too is not news: the first refusal was reported.
    failed = grows and outcome.kind is OutcomeKind.FAILED
    reported_before = failed and is_smaller_request(work.facts.pool(decision.pool), work.now)
    notice = None if reported_before else told_of_end(action, outcome, around, work.parts)
    store.closed(action, outcome, progress.backoff, notice, late=progress.late)
    if outcome.kind is OutcomeKind.CONFIRMED and grows:
        work.unsaid.append(partial(record_pod_events, decision, work))
