"""Carry out the pools' decisions and the other writes, then store the control state that the next step reads."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from receiver.core.model.actions import Action, Outcome, OutcomeKind, VictimStage
from receiver.core.model.memory import Control, SourceTurn
from receiver.core.notices.action_notices import Around
from receiver.ports import Did, TryLater, WontWork
from receiver.step.chores.budget_hold import hold_new_work
from receiver.step.chores.budget_stop import close_nodes
from receiver.step.chores.idle_shutdown import scale_idle_workloads_to_zero
from receiver.step.chores.node_upkeep import apply_labels_and_taints, apply_packing_taints
from receiver.step.chores.window_eviction import announce_window_evictions
from receiver.step.gather import Looked, Sources
from receiver.step.parts import StepContext
from receiver.step.serve_pools import serve_pools, told_of_end

log = structlog.get_logger("receiver")


def act(work: StepContext, looked: Looked, sources: Sources, *, chores: bool) -> tuple[StepContext, list[datetime]]:
    """Carry out the decisions and the other writes, each guarded separately, then store the control state.

    Returns the context with the places that the budget hold covers now, and the moments at which to look again.
    Raises TryLater, WriterLostError.
    """
    parts, facts = work.parts, work.facts
    _withdraw_orphans(looked.orphans, work)
    with parts.part("close_nodes"):
        close_nodes(work, looked.strays, steady=looked.steady)
    kept_out = facts.kept_out
    with parts.part("keep_out"):
        kept_out = hold_new_work(work, steady=looked.steady)
    again = serve_pools(work)
    with parts.part("labels_and_taints"):
        apply_labels_and_taints(work)
    with parts.part("soft_taints"):
        change = apply_packing_taints(work)
        again += [change] if change is not None else []
    with parts.part("window_evictions"):
        announce_window_evictions(work, steady=looked.steady)  # only announced pods are evicted
    if chores:
        with parts.part("idle_shutdown"):
            scale_idle_workloads_to_zero(looked, sources, work.hands, work.policy, work.mode, work.now)
    control = Control(
        at=work.now,
        sources={s.source: SourceTurn(up=s.up, since=s.since or work.now) for s in facts.sources.values()},
        kept_out=kept_out,
        rights=facts.rights,
        decisions=work.numbers,
    )
    work.store.keep_control(control, facts.deliveries)
    return replace(work, facts=facts if facts.kept_out == kept_out else replace(facts, kept_out=kept_out)), again


def _withdraw_orphans(orphans: Sequence[Action], work: StepContext) -> None:
    """Withdraw the open actions of pools that are no longer configured, and lift their cordons."""
    for action in orphans:
        with work.parts.part("orphans", action.pool):
            _withdraw_orphan(action, work)


def _withdraw_orphan(action: Action, work: StepContext) -> None:
    hands = work.hands
    # A victim still stored as chosen may be cordoned already: a crash can come between the cordon and its record.
    cordoned = [v for v in action.victims if v.stage in (VictimStage.CHOSEN, VictimStage.CORDONED)]
    did: list[Did] = []
    try:
        for victim in cordoned:
            if hands.cluster is not None:
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
