"""Serve every pool: continue its open action or open the one that its decision asks for, and close what has ended."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from receiver.core.explain.staying import why_kept
from receiver.core.model.actions import Action, ActionKind, Change, Decision, Outcome, OutcomeKind, Verdict
from receiver.core.model.model import PoolState, Source
from receiver.core.money.budget import UNSURE_FOR
from receiver.core.notices.action_notices import Around, ended, instead_of
from receiver.core.notices.notice import Cause, Notice
from receiver.core.scaling.decide import case_of, join, plan
from receiver.core.scaling.waits import provisioning_failed
from receiver.ports import StepStore
from receiver.step.backoff import is_smaller_request
from receiver.step.carry_out import SOON, Progress, carry_out, is_unanswered
from receiver.step.chores.node_upkeep import undo_orphaned_cordons
from receiver.step.chores.notify import record_pod_events
from receiver.step.parts import Parts, StepContext


def serve_pools(work: StepContext) -> list[datetime]:
    """Carry out each decision, except for pools set aside. Returns the moments at which to look again.

    Raises TryLater when the store fails, WriterLostError when this replica may not write.
    """
    again = [d.reconsider_at for d in work.decisions.values() if d.reconsider_at]
    hung = False
    for pool, decision in sorted(work.decisions.items(), key=lambda item: _failed_tries(work.facts.pool(item[0]))):
        if pool in work.parts.failures.set_aside:
            continue
        if hung:  # a call timed out: the next step begins at once and serves these pools first
            again.append(work.now + SOON)
            continue
        with work.parts.part("act", pool, sets_aside=True):
            progress = _act(decision, work.numbers[pool], work) if work.facts.up(Source.CIVO) else None
            if progress is not None:
                _close(progress, decision, work)
                again += [progress.again_at] if progress.again_at else []
                hung = progress.hung
            undo_orphaned_cordons(work.facts.pool(pool), progress, work)
    return again


def _failed_tries(state: PoolState) -> int:
    """How often the pool's open action has failed: pools whose calls hang are served last."""
    return state.open_action.attempts if state.open_action is not None else 0


def _act(decision: Decision, number: int, work: StepContext) -> Progress | None:
    """Continue the pool's open action if the decision still wants it, else withdraw it and open another."""
    state, store, now = work.facts.pool(decision.pool), work.store, work.now
    action = state.open_action
    carried: Action | None = None
    if action is not None and action.kind is ActionKind.GROW and decision.target != action.to_count:
        if decision.change is Change.GROW and decision.target < action.to_count and now - action.opened_at < UNSURE_FOR:
            return None  # its PUT may have taken effect unseen: a lower count now could delete nodes
        more = decision.change is Change.GROW and decision.target > action.to_count
        if not more or not is_unanswered(action):
            outcome = Outcome(kind=OutcomeKind.WITHDRAWN, at=now, detail=f"the decision is now {decision.target} nodes")
            store.closed(action, outcome, None)
            action, carried = None, action
        # Otherwise repeat the same count before asking for more: a late PUT would lower a higher count.
    if action is None:
        action = plan(decision, state, work.policy)
        if action is None or (work.mode == "observe" and _was_observed(action, decision, store)):
            return None
        action = replace(action, decision=number)
        if carried is not None and action.kind is ActionKind.GROW:  # a changed count does not skip the retry time
            action = replace(
                action, attempts=carried.attempts, retry_at=carried.retry_at, last_error=carried.last_error
            )
        if not store.opened(action, provisioning_failed(action, state)):
            return None
    let_go = decision.candidates[: decision.present - decision.target] if decision.change is Change.SHRINK else ()
    kept: Mapping[str, str] = {}
    if action.kind is ActionKind.RETIRE:
        action = join(action, decision, state)
        kept = _why_kept(action, decision, work)
    blind = any(r.rule == "sources_answer" and r.verdict is Verdict.HOLDS for r in decision.reasons)
    unsure = decision.candidates if blind else ()
    return carry_out(action, state, let_go, work.hands, now, kept=kept, unsure=unsure)


def _why_kept(action: Action, decision: Decision, work: StepContext) -> Mapping[str, str]:
    """Why *decision* keeps victims of *action*, by instance id. For messages only: it may fail without effect."""
    state, wanted = work.facts.pool(decision.pool), work.assignment.pools[decision.pool]
    with work.parts.part("why_kept", decision.pool):
        return why_kept(action, decision, case_of(state, wanted, work.facts, work.policy))
    return {}


def _was_observed(action: Action, decision: Decision, store: StepStore) -> bool:
    """True when the pool's last action was the same observed change for the same work: it is reported once."""
    last = next(iter(store.actions(pool=decision.pool, limit=1)), None)
    if last is None or last.outcome is None or last.outcome.kind is not OutcomeKind.OBSERVED:
        return False
    before = store.decision(last.action.decision) if last.action.decision is not None else None
    if before is None or (last.action.from_count, last.action.to_count) != (action.from_count, action.to_count):
        return False
    same_work = before.decision.evidence.get("asking") == decision.evidence.get("asking")
    return same_work and {v.instance for v in last.action.victims} == {v.instance for v in action.victims}


def decision_of(action: Action, store: StepStore) -> Decision | None:
    """The decision that *action* was opened for; by the time it ends another one may be in force."""
    stored = store.decision(action.decision) if action.decision is not None else None
    return stored.decision if stored is not None else None


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
    known = failed and is_smaller_request(work.facts.pool(decision.pool), work.now)
    notice = None if known else told_of_end(action, outcome, around, work.parts)
    store.closed(action, outcome, progress.backoff, notice, late=progress.late)
    if outcome.kind is OutcomeKind.CONFIRMED and grows:
        work.unsaid.append(partial(record_pod_events, decision, work))


def told_of_end(action: Action, outcome: Outcome, around: Callable[[], Around], parts: Parts) -> Notice:
    """The notice of an ended *action*. It is stored with the outcome, so a plain one is used if composing it fails."""
    confirmed = outcome.kind is OutcomeKind.CONFIRMED
    done = Cause.GREW if action.kind is ActionKind.GROW else Cause.SHRANK
    return parts.composed(
        lambda: ended(action, outcome, around()),
        cause=done if confirmed else Cause.WITHDRAWN,
        topic=f"action:{action.pool}",
        key=f"plain:{action.id}",
        plainly=f"GPU pool {action.pool}: {action.kind} {action.from_count} -> {action.to_count} nodes, {outcome.kind}",
    )
