"""One step: look, assign, decide, store, act, store, tell. Driven by the loop, by replay and by tests alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from receiver.account import account_for_usage
from receiver.act import Hands, settled
from receiver.approving import ask, asked_before, due
from receiver.backoffs import removals_stopped
from receiver.closing import close_nodes
from receiver.core import override_notices, warn
from receiver.core.action_notices import Around, ended
from receiver.core.actions import Action, ActionKind, Decision, Outcome, OutcomeKind, VictimStage
from receiver.core.approval import asking_nobody
from receiver.core.assign import Assignment, assign
from receiver.core.budget_views import views
from receiver.core.counts import late_after
from receiver.core.decide import being_removed, decide_all
from receiver.core.model import Facts, PoolState, Source
from receiver.core.picture import carried, picture
from receiver.core.policy import Policy
from receiver.events import tell_the_rest
from receiver.evicting import given_up_before, tell_whom_a_window_evicts, told_before
from receiver.installed import installed_version
from receiver.keeping_out import keep_out, kept_out_before
from receiver.look import Looked, Sources, look
from receiver.ports import Did, Grounds, Store, TryLater, WontWork, WriterLostError
from receiver.rights import rights_now
from receiver.sampling import sample
from receiver.serving import decision_of, serve_pools
from receiver.shutdown import shut_down_idle
from receiver.tend import dress_nodes, fill_nodes
from receiver.work import Work

log = structlog.get_logger("receiver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """What a step came to. *reconsider_at* is the first moment at which another could differ unaided."""

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    reconsider_at: datetime | None
    failed_pools: tuple[str, ...] = ()  # where a bug was met; the others were served
    steady: bool = False  # the clock can be believed with what is done once (`receiver.core.steady`)


def step(sources: Sources, hands: Hands, policy: Policy, mode: str, now: datetime, *, chores: bool = True) -> Stepped:
    """Run one step at *now*. Raises TryLater when the store fails, WriterLostError when we may not write.

    Without *chores* (in a replay, where nobody reads on) nothing is explained, told, shown or sampled, usage is not
    accounted for, and no idle workload is shut down.
    """
    store = sources.store
    policy = asking_nobody(policy) if mode == "observe" else policy  # what is not done needs nobody's approval
    looked = look(sources, policy, now, forecasts=chores)
    _keep_what_was_seen(looked, store, now)
    facts = _settle(looked.facts, store, policy, now)
    facts = _stop_removals(facts, looked.replaced, store, policy, now)
    _let_go_of_orphans(looked.orphans, policy, hands, store, now)
    _end_overrides(looked, store, policy, now)
    facts = _with_what_was_told(facts, looked, store, policy, mode)
    facts = replace(facts, rights=rights_now(hands.cluster, looked.before, facts, mode))
    facts = asked_before(facts, store, policy, now, steady=looked.steady)
    assignment = assign(facts, policy)
    decided = decide_all(facts, assignment, policy, explained=chores)
    facts, assignment, decided, questions = due(facts, assignment, decided, policy, steady=looked.steady)
    made = {"mode": mode, "version": installed_version()}
    decisions = {pool: replace(d, evidence={**d.evidence, **made}) for pool, d in decided.items()}
    made_from = Grounds(facts=facts, policy=policy)
    numbers = {pool: store.decided(decision, made_from) for pool, decision in decisions.items()}
    work = Work(
        facts=facts,
        assignment=assignment,
        decisions=decisions,
        numbers=numbers,
        drifts=looked.drifts,
        policy=policy,
        mode=mode,
        hands=hands,
        store=store,
        before=looked.before,
        now=now,
    )
    ask(questions, work)
    _close_nodes(work, looked)
    kept_out = _keep_out(work, steady=looked.steady)
    again, failed = serve_pools(work)
    dress_nodes(work)
    change = fill_nodes(work)
    again += [change] if change is not None else []
    if chores:
        tell_the_rest(work)
    tell_whom_a_window_evicts(work, steady=looked.steady)  # whom it told goes
    if chores:
        shut_down_idle(looked, sources, hands, policy, mode, now)
        account_for_usage(looked, sources, policy, now)
    facts = facts if facts.kept_out == kept_out else replace(facts, kept_out=kept_out)
    _show(facts, work, steady=looked.steady, chores=chores)
    return Stepped(
        facts=facts,
        assignment=assignment,
        decisions=decisions,
        reconsider_at=min((a for a in again if a > now), default=None),
        failed_pools=tuple(failed),
        steady=looked.steady,
    )


def _keep_what_was_seen(looked: Looked, store: Store, now: datetime) -> None:
    """Store what only a look can tell, before anything is decided from it. Raises TryLater."""
    offers = {s.pool: s.offer for s in looked.facts.pools if s.offer is not None}
    store.saw(looked.lives, looked.required, now, works=looked.works, drifts=looked.drifts, offers=offers)
    if looked.charged is not None:
        store.keep_charged(looked.charged)
    if looked.seed is not None:
        store.keep_seed(looked.seed)


def _with_what_was_told(facts: Facts, looked: Looked, store: Store, policy: Policy, mode: str) -> Facts:
    """Add to *facts* what earlier steps did and told that others must not be surprised by. Raises TryLater."""
    return replace(
        facts,
        kept_out=kept_out_before(looked.before),
        given_up=given_up_before(store, policy, facts.at),
        told_to_go=told_before(store, mode) if looked.steady else {},  # else nobody knows how much of a grace is over
    )


def _show(facts: Facts, work: Work, *, steady: bool, chores: bool) -> None:
    """Keep what this step found for who reads on, and note that deliveries were considered. Raises TryLater."""
    store, now = work.store, work.now
    shown = carried(facts)
    if chores:
        shown = picture(facts, work.assignment, work.decisions, work.numbers, work.policy, work.mode)
    store.keep_snapshot(shown, now)
    store.considered(facts.deliveries, now)
    if chores and steady:  # what is kept of a minute is not replaced
        sample(facts, shown, store)
    if chores:
        _log_step(facts, work.decisions, work.mode)


def _close_nodes(work: Work, looked: Looked) -> None:
    """Close nodes at a budget's stop before anything is removed, spared or told; a bug in that stops no pool."""
    try:
        close_nodes(work, looked.strays, steady=looked.steady)
    except (TryLater, WriterLostError):
        raise  # the store failed, or we may not write
    except Exception:
        log.exception("nodes not closed or opened")


def _keep_out(work: Work, *, steady: bool) -> Mapping[str, datetime] | None:
    """Keep new work out where the budget hold asks for it, before anything is bought or moved; a bug in that must not
    keep pools from scaling."""
    try:
        return keep_out(work, steady=steady)
    except (TryLater, WriterLostError):
        raise  # the store failed, or we may not write
    except Exception:
        log.exception("new work not kept out")
        return work.facts.kept_out


def _settle(facts: Facts, store: Store, policy: Policy, now: datetime) -> Facts:
    """Close the open actions that the look alone shows to have ended, before anything is decided."""
    if not facts.up(Source.CIVO) or all(state.open_action is None for state in facts.pools):
        return facts
    pools: list[PoolState] = []
    grown = removed = 0
    for state in facts.pools:
        action = state.open_action
        outcome = settled(action, state, now) if action else None
        if action is None or outcome is None:
            pools.append(state)
            continue
        late = late_after(action, state, now) if outcome.kind is OutcomeKind.CONFIRMED else None
        around = Around(policy=policy, budgets=views(facts, policy), decision=decision_of(action, store), state=state)
        store.closed(action, outcome, None, ended(action, outcome, around), late=late)
        done = replace(state, open_action=None)
        removed += being_removed(state)
        if late is not None:
            done = replace(done, required=late.expected, uncounted=late.shown - late.expected)
        if outcome.kind is OutcomeKind.CONFIRMED and action.kind is ActionKind.GROW:
            grown += action.to_count - action.from_count
            done = replace(done, last_grow_at=now, backoff=None)
        elif outcome.kind is OutcomeKind.CONFIRMED:
            done = replace(done, last_shrink_at=now, removal_backoff=None)
        pools.append(done)
    grown, removed = facts.grown_last_hour + grown, facts.removed_last_hour + removed
    first = facts.first_changed_at or (now if (grown, removed) != (0, 0) else None)
    return replace(facts, pools=tuple(pools), grown_last_hour=grown, removed_last_hour=removed, first_changed_at=first)


def _stop_removals(facts: Facts, replaced: Mapping[str, str], store: Store, policy: Policy, now: datetime) -> Facts:
    """Back off from removal where Civo answers one otherwise than by one node less, and tell."""
    if not replaced:
        return facts
    pools: list[PoolState] = []
    for state in facts.pools:
        why = replaced.get(state.pool)
        if why is not None:
            backoff = removals_stopped(why, now)
            store.stop_removals(state.pool, backoff, warn.removals_stopped(state, backoff, policy, now), now)
            state = replace(state, required=state.required + state.uncounted, uncounted=0, removal_backoff=backoff)
        pools.append(state)
    return replace(facts, pools=tuple(pools))


def _let_go_of_orphans(orphans: Sequence[Action], policy: Policy, hands: Hands, store: Store, now: datetime) -> None:
    """Withdraw the open actions of pools that left the configuration, cordons included."""
    for action in orphans:
        # One still noted as chosen may be cordoned too: a crash can come between the cordon and its note.
        cordoned = [v for v in action.victims if v.stage in (VictimStage.CHOSEN, VictimStage.CORDONED)]
        did: list[Did] = []
        try:
            for victim in cordoned:
                if hands.cluster is not None:
                    hands.ready()
                    did.append(hands.cluster.uncordon(victim.node).did)
        except (TryLater, WontWork) as error:
            log.warning("cordon of a pool that left the configuration not lifted", pool=action.pool, error=str(error))
            continue
        if Did.OBSERVED in did:
            continue  # its cordons are still there: it stays open until somebody may lift them
        outcome = Outcome(kind=OutcomeKind.WITHDRAWN, at=now, detail="the pool left the configuration")
        store.closed(action, outcome, None, ended(action, outcome, Around(policy=policy)))


def _end_overrides(looked: Looked, store: Store, policy: Policy, now: datetime) -> None:
    """Close the overrides whose time is over, and tell; take that back where the clock was ahead then.

    That is for good, so a single step under a clock ahead does not do it: by time alone they are over all the same.
    """
    if not looked.steady:
        return
    for override in looked.resumed:
        store.resume_override(override.id, now, override_notices.goes_on(override, policy))
    for override in looked.facts.overrides:
        if override.until <= now:
            notice = override_notices.ran_out(override, policy, looked.facts.pools)
            store.end_override(override.id, override.until, None, notice)


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
