"""One step: gather, settle, decide, record, act, publish. Driven by the loop, by replay and by tests alike.

Nothing is written outside before everything is decided. What is made for people comes last or, where it is stored with
what it tells, may fail without effect; what the next step decides from is stored before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from receiver.config.version import installed_version
from receiver.core.explain.grounds import with_grounds
from receiver.core.model.actions import Action, ActionKind, Decision, Outcome, OutcomeKind, VictimStage
from receiver.core.model.approval_request import Question
from receiver.core.model.control import Control, Turn
from receiver.core.model.failures import Failure
from receiver.core.model.model import Facts, PoolState, Source
from receiver.core.model.policy import Policy
from receiver.core.money.budget_views import views
from receiver.core.notices import override_notices, warnings
from receiver.core.notices.action_notices import Around
from receiver.core.notices.sentences import Cause
from receiver.core.scaling.approval import asking_nobody
from receiver.core.scaling.assign import Assignment, assign
from receiver.core.scaling.count_drift import late_after
from receiver.core.scaling.decide import being_removed, decide_all
from receiver.ports import Did, Grounds, Store, TryLater, WontWork
from receiver.step.backoff import removals_stopped
from receiver.step.carry_out import Hands, settled
from receiver.step.chores.approvals import ask, asked_before, due
from receiver.step.chores.budget_hold import keep_out
from receiver.step.chores.budget_stop import close_nodes
from receiver.step.chores.idle_shutdown import shut_down_idle
from receiver.step.chores.node_upkeep import dress_nodes, fill_nodes
from receiver.step.chores.window_eviction import given_up_before, tell_whom_a_window_evicts, told_before
from receiver.step.context import Work
from receiver.step.gather import Looked, Sources, look
from receiver.step.parts import Parts
from receiver.step.permissions import rights_now
from receiver.step.publish import publish
from receiver.step.serve_pools import decision_of, serve_pools, told_of_end

log = structlog.get_logger("receiver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """What a step came to. *reconsider_at* is the first moment at which another could differ by itself.

    *failed_pools* are those that were set aside because of a bug, *failures* every part that failed.
    """

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    reconsider_at: datetime | None
    failed_pools: tuple[str, ...] = ()
    steady: bool = False  # the clock can be believed with what is done once (`receiver.core.model.clock_trust`)
    failures: tuple[Failure, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """What was decided, from which facts, and the questions that are due."""

    facts: Facts
    assignment: Assignment
    decisions: dict[str, Decision]
    questions: Sequence[Question]


def step(sources: Sources, hands: Hands, policy: Policy, mode: str, now: datetime, *, chores: bool = True) -> Stepped:
    """Run one step at *now*. Raises TryLater when the store fails, WriterLostError when we may not write.

    Without *chores* (in a replay, where nobody reads on) nothing is explained, told, shown or sampled, usage is not
    accounted for, and no idle workload is shut down.
    """
    parts = Parts()
    policy = asking_nobody(policy) if mode == "observe" else policy  # what is not done needs nobody's approval
    looked = _gather(sources, policy, now, parts, chores=chores)
    facts = _settle(looked, hands, sources.store, policy, mode, now, parts)
    decided = _decide(facts, policy, parts, steady=looked.steady, chores=chores)
    parts.log()
    work = _record(decided, looked, hands, sources.store, policy, mode, now, parts)
    work, again = _act(work, looked, sources, chores=chores)
    if chores:
        with parts.part("publish"):
            publish(work, looked, sources)
    return Stepped(
        facts=work.facts,
        assignment=work.assignment,
        decisions=work.decisions,
        reconsider_at=min((a for a in again if a > now), default=None),
        failed_pools=tuple(parts.failures.set_aside),
        steady=looked.steady,
        failures=tuple(parts.failures.all),
    )


def _gather(sources: Sources, policy: Policy, now: datetime, parts: Parts, *, chores: bool) -> Looked:
    """Look, and store what only a look can tell, before anything is decided from it. Raises TryLater."""
    looked, store = look(sources, policy, now, parts, forecasts=chores), sources.store
    offers = {s.pool: s.offer for s in looked.facts.pools if s.offer is not None}
    store.saw(looked.lives, looked.required, now, works=looked.works, drifts=looked.drifts, offers=offers)
    if looked.charged is not None:
        store.keep_charged(looked.charged)
    if looked.seed is not None:
        store.keep_seed(looked.seed)
    return looked


def _settle(
    looked: Looked, hands: Hands, store: Store, policy: Policy, mode: str, now: datetime, parts: Parts
) -> Facts:
    """Close what the look shows to have ended, and add what earlier steps did and told. Raises TryLater."""
    facts, before = _close_actions(looked.facts, store, policy, now, parts), looked.before
    facts = _stop_removals(facts, looked.replaced, store, policy, now, parts)
    if looked.steady:  # to end an override is for good; by time alone it is over all the same
        _end_overrides(looked, store, policy, now, parts)
    facts = replace(facts, kept_out=before.kept_out if before is not None else None)
    with parts.part("window_evictions"):  # without it no window evicts in this step
        # Unless the clock is steady nobody knows how much of a grace is over.
        told = told_before(store, mode) if looked.steady else {}
        facts = replace(facts, given_up=given_up_before(store, policy, facts.at), told_to_go=told)
    rights = before.rights if before is not None else None
    with parts.part("rights"):
        rights = rights_now(hands.cluster, rights, facts, mode)
    return asked_before(replace(facts, rights=rights), store, policy, now, parts, steady=looked.steady)


def _decide(facts: Facts, policy: Policy, parts: Parts, *, steady: bool, chores: bool) -> _Decided:
    """Assign the demand and decide for every pool; one where a bug is met keeps its size."""
    assignment = assign(facts, policy, parts.failures)
    decided = decide_all(
        facts, assignment, policy, explained_by=with_grounds if chores else None, failures=parts.failures
    )
    facts, assignment, decided, questions = due(facts, assignment, decided, policy, parts, steady=steady)
    return _Decided(facts=facts, assignment=assignment, decisions=decided, questions=questions)


def _record(
    decided: _Decided,
    looked: Looked,
    hands: Hands,
    store: Store,
    policy: Policy,
    mode: str,
    now: datetime,
    parts: Parts,
) -> Work:
    """Store the decisions, and ask what people are to be asked. Raises TryLater."""
    made = {"mode": mode, "version": installed_version()}
    decisions = {pool: replace(d, evidence={**d.evidence, **made}) for pool, d in decided.decisions.items()}
    made_from = Grounds(facts=decided.facts, policy=policy)
    numbers = dict(looked.before.decisions) if looked.before is not None else {}
    for pool, decision in decisions.items():
        numbers.setdefault(pool, 0)
        with parts.part("record", pool, sets_aside=True):
            numbers[pool] = store.decided(decision, made_from)
    numbers = {pool: numbers[pool] for pool in decisions}
    work = Work(
        facts=decided.facts,
        assignment=decided.assignment,
        decisions=decisions,
        numbers=numbers,
        drifts=looked.drifts,
        policy=policy,
        mode=mode,
        hands=hands,
        store=store,
        before=looked.before,
        now=now,
        parts=parts,
    )
    with parts.part("approvals"):
        ask(decided.questions, work)
    return work


def _act(work: Work, looked: Looked, sources: Sources, *, chores: bool) -> tuple[Work, list[datetime]]:
    """Carry out what was decided, then the other writes, each guarded for itself; store what the next step decides
    from. Returns the work with where new work is kept out now, and the moments at which to look again. Raises TryLater,
    WriterLostError."""
    parts, facts = work.parts, work.facts
    _withdraw_orphans(looked.orphans, work)
    with parts.part("close_nodes"):
        close_nodes(work, looked.strays, steady=looked.steady)
    kept_out = facts.kept_out
    with parts.part("keep_out"):
        kept_out = keep_out(work, steady=looked.steady)
    again = serve_pools(work)
    with parts.part("labels_and_taints"):
        dress_nodes(work)
    with parts.part("soft_taints"):
        change = fill_nodes(work)
        again += [change] if change is not None else []
    with parts.part("window_evictions"):
        tell_whom_a_window_evicts(work, steady=looked.steady)  # whom it told goes
    if chores:
        with parts.part("idle_shutdown"):
            shut_down_idle(looked, sources, work.hands, work.policy, work.mode, work.now)
    control = Control(
        at=work.now,
        sources={s.source: Turn(up=s.up, since=s.since or work.now) for s in facts.sources.values()},
        kept_out=kept_out,
        rights=facts.rights,
        decisions=work.numbers,
    )
    work.store.keep_control(control, facts.deliveries)
    return replace(work, facts=facts if facts.kept_out == kept_out else replace(facts, kept_out=kept_out)), again


def _close_actions(facts: Facts, store: Store, policy: Policy, now: datetime, parts: Parts) -> Facts:
    """Close the open actions that the look alone shows to have ended."""
    if not facts.up(Source.CIVO) or all(state.open_action is None for state in facts.pools):
        return facts
    pools: list[PoolState] = []
    grown = removed = 0
    for state in facts.pools:
        done = state
        with parts.part("settle", state.pool, sets_aside=True):
            done, more, fewer = _close_action(state, facts, store, policy, now, parts)
            grown, removed = grown + more, removed + fewer
        pools.append(done)
    grown, removed = facts.grown_last_hour + grown, facts.removed_last_hour + removed
    first = facts.first_changed_at or (now if (grown, removed) != (0, 0) else None)
    return replace(facts, pools=tuple(pools), grown_last_hour=grown, removed_last_hour=removed, first_changed_at=first)


def _close_action(
    state: PoolState, facts: Facts, store: Store, policy: Policy, now: datetime, parts: Parts
) -> tuple[PoolState, int, int]:
    """Close the open action of one pool if it has ended. Returns the pool's state without it, and how many nodes it
    added and removed."""
    action = state.open_action
    if action is None or state.pool in parts.failures.set_aside:
        return state, 0, 0
    outcome = settled(action, state, now)
    if outcome is None:
        return state, 0, 0
    confirmed = outcome.kind is OutcomeKind.CONFIRMED
    late = late_after(action, state, now) if confirmed else None

    def around() -> Around:
        return Around(policy=policy, budgets=views(facts, policy), decision=decision_of(action, store), state=state)

    removed = being_removed(state)
    store.closed(action, outcome, None, told_of_end(action, outcome, around, parts), late=late)
    done = replace(state, open_action=None)
    if late is not None:
        done = replace(done, required=late.expected, uncounted=late.shown - late.expected)
    if confirmed and action.kind is ActionKind.GROW:
        return replace(done, last_grow_at=now, backoff=None), action.to_count - action.from_count, removed
    if confirmed:
        done = replace(done, last_shrink_at=now, removal_backoff=None)
    return done, 0, removed


def _stop_removals(
    facts: Facts, replaced: Mapping[str, str], store: Store, policy: Policy, now: datetime, parts: Parts
) -> Facts:
    """Back off from removal where Civo answers one otherwise than by one node less, and tell."""
    if not replaced:
        return facts
    pools: list[PoolState] = []
    for state in facts.pools:
        why = replaced.get(state.pool)
        if why is not None:
            backoff = removals_stopped(why, now)
            notice = parts.composed(
                lambda state=state, backoff=backoff: warnings.removals_stopped(state, backoff, policy, now),  # type: ignore[misc]
                cause=Cause.REMOVAL_STOPPED,
                topic=f"removals:{state.pool}",
                key=backoff.until.isoformat(),
                plainly=f"GPU pool {state.pool}: removals stop until {backoff.until:%Y-%m-%d %H:%M} UTC",
            )
            store.stop_removals(state.pool, backoff, notice, now)
            state = replace(state, required=state.required + state.uncounted, uncounted=0, removal_backoff=backoff)
        pools.append(state)
    return replace(facts, pools=tuple(pools))


def _withdraw_orphans(orphans: Sequence[Action], work: Work) -> None:
    """Withdraw the open actions of pools that left the configuration, cordons included."""
    for action in orphans:
        with work.parts.part("orphans", action.pool):
            _withdraw_orphan(action, work)


def _withdraw_orphan(action: Action, work: Work) -> None:
    hands = work.hands
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
        return
    if Did.OBSERVED in did:
        return  # its cordons are still there: it stays open until somebody may lift them
    outcome = Outcome(kind=OutcomeKind.WITHDRAWN, at=work.now, detail="the pool left the configuration")
    notice = told_of_end(action, outcome, lambda: Around(policy=work.policy), work.parts)
    work.store.closed(action, outcome, None, notice)


def _end_overrides(looked: Looked, store: Store, policy: Policy, now: datetime, parts: Parts) -> None:
    """Close the overrides whose time is over, and tell; take that back where the clock was ahead then."""
    for override in looked.resumed:
        notice = parts.composed(
            lambda override=override: override_notices.goes_on(override, policy),  # type: ignore[misc]
            cause=Cause.OVERRIDE_SET,
            topic=f"override:{override.id}",
            key="goes on",
            plainly=f"Override {override.id} ({override.kind}) is in force again",
        )
        store.resume_override(override.id, now, notice)
    for override in looked.facts.overrides:
        if override.until <= now:
            notice = parts.composed(
                lambda override=override: override_notices.ran_out(override, policy, looked.facts.pools),  # type: ignore[misc]
                cause=Cause.OVERRIDE_ENDED,
                topic=f"override:{override.id}",
                key="ran out",
                plainly=f"Override {override.id} ({override.kind}) has expired",
            )
            store.end_override(override.id, override.until, None, notice)
