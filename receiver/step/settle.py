"""Settle: close the actions, overrides and requests to people that have ended, before anything is decided."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

import structlog

from receiver.core.model.actions import ActionKind, Because, OutcomeKind
from receiver.core.model.flights import late_after
from receiver.core.model.memory import Control
from receiver.core.model.model import Backoff, Facts, PoolState, Source
from receiver.core.model.policy import Policy
from receiver.core.model.rights import Rights, never_asked
from receiver.core.model.windows import is_open
from receiver.core.money.budget import views
from receiver.core.notices import people_notices, workload_notices
from receiver.core.notices.action_notices import Around, removals_stop
from receiver.core.notices.notice import Cause
from receiver.core.scaling.bounds import TOPIC, evicts
from receiver.core.scaling.decide import removals_under_way
from receiver.ports import Cluster, StepStore, TryLater, WontWork
from receiver.step.carry_out import settled
from receiver.step.gather import Looked
from receiver.step.parts import StepFrame, decision_of, told_of_end

log = structlog.get_logger("receiver")
ACTIONS_READ = 100  # of a pool while a window is open; a failed one is not repeated within five minutes


def settle(looked: Looked, frame: StepFrame) -> Facts:
    """Return the facts with what earlier steps did and announced and, by a clock that is trusted, close what has ended.
    Raises TryLater."""
    facts, before, store = looked.facts, looked.before or Control(at=frame.now), frame.store
    if looked.trusted:
        facts = _close_actions(facts, frame)
        if looked.stopped:
            facts = _stop_removals(facts, looked.stopped, frame)
        _end_overrides(looked, frame)
    with frame.parts.part("window_evictions"):  # if it fails, no window evicts in this step
        announcements = workload_notices.told_to_go(store.told(TOPIC), frame.mode)
        given_back = _not_emptied(store, frame.policy, frame.now)
        facts = replace(facts, earlier=replace(facts.earlier, given_back=given_back, announced=announcements))
    rights = before.rights
    with frame.parts.part("rights"):
        rights = _rights(frame.hands.cluster, rights, facts, frame.mode)
    for kind in frame.additions.requests:
        facts = kind.settle(facts, frame, looked.trusted)
    return replace(facts, earlier=replace(facts.earlier, kept_out=before.kept_out), rights=rights)


def _not_emptied(store: StepStore, policy: Policy, now: datetime) -> dict[str, datetime]:
    """Return when an open window gave up emptying each node, by instance id, from the pools' actions."""
    given_up_at: dict[str, datetime] = {}
    for pool in policy.pools:
        if any(evicts(window, pool) and is_open(window, now) for window in pool.windows):
            for stored in reversed(store.actions(pool=pool.id, limit=ACTIONS_READ)):
                for victim in reversed(stored.action.victims):
                    if victim.refused and victim.because is Because.EVICTED and victim.since and victim.since <= now:
                        given_up_at[victim.instance] = victim.since
    return given_up_at


def _close_actions(facts: Facts, frame: StepFrame) -> Facts:
    """Close the open actions that have ended by what Civo and Kubernetes show."""
    if not facts.up(Source.CIVO) or all(state.open_action is None for state in facts.pools):
        return facts
    pools: list[PoolState] = []
    grown = removed = 0
    for state in facts.pools:
        settled_state = state
        with frame.parts.part("settle", state.pool, sets_aside=True):
            settled_state, added, fewer = _close_action(state, facts, frame)
            grown, removed = grown + added, removed + fewer
        with frame.parts.part("settle", state.pool, sets_aside=True):
            grown += _landed(settled_state)
        pools.append(settled_state)
    earlier = facts.earlier
    grown, removed = earlier.grown_last_hour + grown, earlier.removed_last_hour + removed
    first = earlier.first_changed_at or (frame.now if (grown, removed) != (0, 0) else None)
    earlier = replace(earlier, grown_last_hour=grown, removed_last_hour=removed, first_changed_at=first)
    return replace(facts, pools=tuple(pools), earlier=earlier)


def _landed(state: PoolState) -> int:
    """The new nodes of a growth that is still open, or could not be closed, which count for the hour as those of closed
    ones do. The others of it count until they show (`core.money.budget.unseen`)."""
    action = state.open_action
    if action is None or action.kind is not ActionKind.GROW:
        return 0
    return max(0, min(state.required, action.to_count) - action.from_count)


def _close_action(state: PoolState, facts: Facts, frame: StepFrame) -> tuple[PoolState, int, int]:
    """Close the pool's open action if it has ended. Returns the state without it and the nodes added and removed."""
    action, store, policy, now = state.open_action, frame.store, frame.policy, frame.now
    if action is None or state.count.unreadable or state.pool in frame.parts.failures.set_aside:
        return state, 0, 0
    outcome = settled(action, state, now)
    if outcome is None:
        return state, 0, 0
    confirmed = outcome.kind is OutcomeKind.CONFIRMED
    late = late_after(action, state, now) if confirmed else None

    def around() -> Around:
        return Around(policy=policy, budgets=views(facts, policy), decision=decision_of(action, store), state=state)

    removed = removals_under_way(state)
    store.closed(action, outcome, None, told_of_end(action, outcome, around, frame.parts), late=late)
    settled_state = replace(state, open_action=None)
    if late is not None:
        uncounted = state.required + state.count.uncounted - late.target
        settled_state = replace(settled_state, required=late.target, count=replace(state.count, uncounted=uncounted))
    if confirmed and action.kind is ActionKind.GROW:
        last, backoffs = replace(state.last_changes, grown_at=now), replace(state.backoffs, growth=None)
        grown_state = replace(settled_state, last_changes=last, backoffs=backoffs)
        return grown_state, action.to_count - action.from_count, removed
    if confirmed:
        last, backoffs = replace(state.last_changes, shrunk_at=now), replace(state.backoffs, removal=None)
        settled_state = replace(settled_state, last_changes=last, backoffs=backoffs)
    return settled_state, 0, removed


def _stop_removals(facts: Facts, stopped: Mapping[str, Backoff], frame: StepFrame) -> Facts:
    """Back off from removals where Civo answers them with something other than one node less, and send one message."""
    pools: list[PoolState] = []
    for state in facts.pools:
        if (backoff := stopped.get(state.pool)) is not None:
            notice = frame.parts.composed(
                partial(removals_stop, state, backoff, frame.policy, frame.now),
                cause=Cause.REMOVAL_STOPPED,
                topic=f"removals:{state.pool}",
                key=backoff.until.isoformat(),
                plainly=f"GPU pool {state.pool}: removals stop until {backoff.until:%Y-%m-%d %H:%M} UTC",
            )
            frame.store.say(notice, frame.now)
            state = replace(
                state,
                required=state.required + state.count.uncounted,
                count=replace(state.count, uncounted=0),
                backoffs=replace(state.backoffs, removal=backoff),
            )
        pools.append(state)
    return replace(facts, pools=tuple(pools))


def _end_overrides(looked: Looked, frame: StepFrame) -> None:
    """Close expired overrides and send a message; reopen those that were closed while the clock was ahead."""
    facts, store, policy, now = looked.facts, frame.store, frame.policy, frame.now
    for override in (*looked.resumed, *(o for o in facts.instructions.overrides if o.until <= now)):
        over = override not in looked.resumed
        ended = partial(people_notices.ran_out, override, policy, facts.pools)
        notice = frame.parts.composed(
            ended if over else partial(people_notices.goes_on, override, policy),
            cause=Cause.OVERRIDE_ENDED if over else Cause.OVERRIDE_SET,
            topic=f"override:{override.id}",
            key="ran out" if over else "goes on",
            plainly=f"Override {override.id} ({override.kind}) {'has expired' if over else 'is in force again'}",
        )
        if over:
            store.end_override(override.id, override.until, None, notice)
        else:
            store.resume_override(override.id, now, notice)


def _rights(cluster: Cluster | None, last_rights: Rights | None, facts: Facts, mode: str) -> Rights | None:
    """Return the RBAC rights that a removal needs, as far as known; None without a cluster and in observe mode.

    The cluster is asked when *last_rights* are too old; while it does not answer, the last answer counts.
    """
    now = facts.at
    if cluster is None or mode == "observe":
        return None
    if last_rights is not None and not last_rights.due(now):
        return last_rights
    rights = last_rights or never_asked(now)
    if not facts.up(Source.KUBERNETES):
        return rights.unasked(facts.sources[Source.KUBERNETES].detail, now)
    try:
        answered = rights.answered(tuple(cluster.missing_rights()), now)
    except (TryLater, WontWork) as error:
        log.warning("cannot read own RBAC rights", error=str(error))
        return rights.unanswered(str(error), now)
    if answered.lacking != rights.lacking and answered.lacking:
        log.warning("RBAC forbids removing nodes: pools do not grow", lacking=list(answered.lacking))
    return answered
