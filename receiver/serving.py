"""Serve every pool: continue what was begun for it, or open what its decision asks for, and close what has ended."""

from dataclasses import replace
from datetime import datetime

import structlog

from receiver.act import Progress, carry_out
from receiver.core.action_notices import Around, ended, instead_of
from receiver.core.actions import Action, ActionKind, Change, Decision, Outcome, OutcomeKind, Verdict
from receiver.core.model import Source
from receiver.core.plan import join, plan, provisioning_failed
from receiver.core.unanswered import UNSURE_FOR
from receiver.events import tell_who_waits
from receiver.ports import Store, TryLater, WriterLostError
from receiver.tend import undo_orphaned_cordons
from receiver.work import Work

log = structlog.get_logger("receiver")


def serve_pools(work: Work) -> tuple[list[datetime], list[str]]:
    """Carry each decision out. Returns the moments at which something is to be looked at again, and the pools where a
    bug was met: the others are served. Raises TryLater when the store fails, WriterLostError when we may not write."""
    again = [d.reconsider_at for d in work.decisions.values() if d.reconsider_at]
    failed: list[str] = []
    for pool, decision in work.decisions.items():
        try:
            progress = _act(decision, work.numbers[pool], work) if work.facts.up(Source.CIVO) else None
            if progress is not None:
                _close(progress, decision, work)
                again += [progress.again_at] if progress.again_at else []
            undo_orphaned_cordons(work.facts.pool(pool), progress, work)
        except (TryLater, WriterLostError):
            raise  # the store failed, or we may not write: that ends the step for every pool
        except Exception:
            log.exception("pool not served", pool=pool)
            failed.append(pool)
    return again, failed


def _act(decision: Decision, number: int, work: Work) -> Progress | None:
    """Continue the pool's open action if the decision still wants it, else withdraw it and open what it wants."""
    state, store, now = work.facts.pool(decision.pool), work.store, work.now
    action = state.open_action
    carried: Action | None = None
    if action is not None and action.kind is ActionKind.GROW and decision.target != action.to_count:
        if decision.change is Change.GROW and decision.target < action.to_count and now - action.opened_at < UNSURE_FOR:
            return None  # its PUT may have landed unseen: asking for fewer now could take nodes away
        outcome = Outcome(kind=OutcomeKind.WITHDRAWN, at=now, detail=f"the decision is now {decision.target} nodes")
        store.closed(action, outcome, None)
        action, carried = None, action
    if action is None:
        action = plan(decision, state, work.policy)
        if action is None or (work.mode == "observe" and _was_observed(action, decision, store)):
            return None
        action = replace(action, decision=number)
        if carried is not None and action.kind is ActionKind.GROW:  # a new number is no way around a retry time
            action = replace(
                action, attempts=carried.attempts, retry_at=carried.retry_at, last_error=carried.last_error
            )
        if not store.opened(action, provisioning_failed(action, state)):
            return None
    let_go = decision.candidates[: decision.present - decision.target] if decision.change is Change.SHRINK else ()
    if action.kind is ActionKind.RETIRE:
        action = join(action, decision, state)
    blind = any(r.rule == "sources_answer" and r.verdict is Verdict.HOLDS for r in decision.reasons)
    return carry_out(action, state, let_go, work.hands, now, unsure=decision.candidates if blind else ())


def _was_observed(action: Action, decision: Decision, store: Store) -> bool:
    """True when the pool's last action was observed for the same change and the same work: it is told once."""
    last = next(iter(store.actions(pool=decision.pool, limit=1)), None)
    if last is None or last.outcome is None or last.outcome.kind is not OutcomeKind.OBSERVED:
        return False
    before = store.decision(last.action.decision) if last.action.decision is not None else None
    if before is None or (last.action.from_count, last.action.to_count) != (action.from_count, action.to_count):
        return False
    same_work = before.decision.evidence.get("asking") == decision.evidence.get("asking")
    return same_work and {v.instance for v in last.action.victims} == {v.instance for v in action.victims}


def decision_of(action: Action, store: Store) -> Decision | None:
    """The decision that *action* was opened for: one that ends later may find another in force."""
    stored = store.decision(action.decision) if action.decision is not None else None
    return stored.decision if stored is not None else None


def _close(progress: Progress, decision: Decision, work: Work) -> None:
    store, policy = work.store, work.policy
    if progress.outcome is None:
        store.progressed(progress.action)
        return
    action, outcome, pool = progress.action, progress.outcome, policy.pool(decision.pool)
    grows = action.kind is ActionKind.GROW
    around = Around(
        policy=policy,
        budgets=work.assignment.budgets,
        decision=decision if grows or action.decision == work.numbers[decision.pool] else decision_of(action, store),
        state=work.facts.pool(decision.pool),
        backoff=progress.backoff,
        instead=instead_of(pool, work.assignment.pools[pool.id], work.facts, policy) if pool and grows else (),
    )
    store.closed(action, outcome, progress.backoff, ended(action, outcome, around), late=progress.late)
    if outcome.kind is OutcomeKind.CONFIRMED and grows:
        tell_who_waits(decision, work)
