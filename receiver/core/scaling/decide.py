"""Decide how many nodes a pool should have, and for which reasons. Pure: the same values give the same decision.

The reasons are values. `receiver.core.explain` makes sentences of them, after the decision.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import islice

from receiver.core.model.actions import (
    Action,
    ActionKind,
    Because,
    Change,
    Decision,
    Reason,
    Verdict,
    Victim,
    VictimStage,
)
from receiver.core.model.model import Facts, PoolState, Stage
from receiver.core.model.policy import Policy
from receiver.core.model.signals import SignalAction
from receiver.core.money.cost import HOUR, unit_price
from receiver.core.scaling.bounds import bounds_of
from receiver.core.scaling.failures import Failure, Failures
from receiver.core.scaling.guardrails import LASTING, apply, with_added
from receiver.core.scaling.guardrails.rule import Case
from receiver.core.scaling.guardrails.waiting import ONE_CHANGE_AT_A_TIME
from receiver.core.scaling.holds import kept_by_a_workload
from receiver.core.scaling.removal import Removable, busy_beyond, held_back, is_dead, reconsider_at, removable
from receiver.core.scaling.terminations import without_abandoned
from receiver.core.scaling.wanted import Assignment, Wanted

NOTED = (SignalAction.SCALE_UP, SignalAction.SCALE_DOWN, SignalAction.HOLD, SignalAction.FALLBACK)
MOST_ASKING = 50  # work named by a decision without evidence
MOST_REFUSALS = 20  # requests refused by the scheduler that a decision notes
Explainer = Callable[[Decision, Case], Decision]  # adds sentences and evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedByAlerts:
    """What firing alerts of one name ask for, and how many they are."""

    action: SignalAction
    alertname: str
    alerts: int


def decide(case: Case) -> tuple[Decision, Case]:
    """Return the size that the pool of *case* should have, with every reason in order, and the case as it was decided.

    Pending demand beats removal, because a missing GPU costs more than an idle one.
    """
    case, going, sources = _sized(case)
    held_by = _growth_held_by(case, sources)
    if held_by is not None:
        other, others, other_sources = _sized(replace(case, growth_held=True, full=held_by in LASTING))
        if apply(other_sources[-1].target, other)[-1].target < case.present:
            case, going, sources = other, others, other_sources
    reasons = [*_notes(case), *sources]
    target = sources[-1].target if sources else case.present
    if not sources:
        reasons.append(_note("nothing_wanted", case))
    reasons += apply(target, case)
    final = reasons[-1].target
    decision = Decision(
        pool=case.pool.id,
        at=case.now,
        present=case.present,
        target=final,
        reasons=tuple(reasons),
        candidates=tuple(n.instance for n in going.nodes),
        evicted=tuple(n.instance for n in going.evicted if n.busy),
        reconsider_at=reconsider_at(case, reasons),
    )
    return decision, case


def _sized(case: Case) -> tuple[Case, Removable, list[Reason]]:
    """Return what may be removed in the order in which it goes, *case* with the numbers of these nodes, and the sources
    of the wanted size."""
    removals = removable(case)
    waits = held_back(removals.nodes, removals.announced, case)
    last = {n.instance for n in waits}
    due = (*(n for n in removals.nodes if n.instance not in last), *waits)
    empty = sum(not n.busy for n in due)
    case = replace(case, dead=sum(is_dead(n, case) for n in due), empty=empty, going=len(due), held_back=waits)
    removals = replace(removals, nodes=due)
    sources = _sources_of_size(case, removals)
    if case.dead and case.wanted.new_nodes and apply(sources[-1].target, case)[-1].target == case.present:
        # The dead nodes cannot be removed now: that must not delay other nodes for waiting work.
        case = replace(case, dead=0, empty=case.empty - case.dead, going=case.going - case.dead)
        removals = replace(removals, nodes=tuple(n for n in due if not is_dead(n, case)))
        sources = _sources_of_size(case, removals)
    return case, removals, sources


def _growth_held_by(case: Case, sources: Sequence[Reason]) -> str | None:
    """The rule that prevents all growth of a pool that wants some, other than that its open action comes first; None
    without one. Sick or idle nodes may be what uses up the maximum, limits or budget."""
    if not sources or sources[-1].target <= case.present:
        return None
    others = [guardrail for guardrail in with_added(case.wanted.added) if guardrail is not ONE_CHANGE_AT_A_TIME]
    return next((r.rule for r in apply(sources[-1].target, case, others) if r.target == case.present), None)


def case_of(state: PoolState, wanted: Wanted, facts: Facts, policy: Policy, removals_left: int | None = None) -> Case:
    """Return what the decision for the pool of *state* may depend on; raise KeyError when the policy does not name it.
    *removals_left* is None without a limit."""
    pool = policy.pool(state.pool)
    if pool is None:
        raise KeyError(state.pool)
    return Case(
        pool=pool,
        state=without_abandoned(state, facts.at),
        wanted=wanted,
        facts=facts,
        policy=policy,
        now=facts.at,
        signals=facts.signals_for(pool.id),
        overrides=tuple(o for o in facts.instructions.overrides if o.concerns(pool.id) and facts.at < o.until),
        removals_left=removals_left,
    )


def later(case: Case, then: datetime) -> Case:
    """Return *case* as it will be at *then* if nothing happens before: what ends by itself has ended."""
    state, wanted, removals_left = case.state, case.wanted, case.removals_left
    changed = case.facts.earlier.first_changed_at
    if state.silence is not None and state.silence.until <= then:
        state = replace(state, silence=None)
    if changed is not None and then >= changed + HOUR:
        removals_left = None  # at least one removal may be made again
    if wanted.headroom is not None and wanted.headroom.falls_at is not None and wanted.headroom.falls_at <= then:
        wanted = replace(wanted, headroom=None)  # it shrinks, by an unknown number
    bounds = bounds_of(case.pool, case.overrides, then)
    return replace(case, now=then, state=state, wanted=replace(wanted, bounds=bounds), removals_left=removals_left)


def decide_all(
    facts: Facts,
    assignment: Assignment,
    policy: Policy,
    *,
    explained_by: Explainer | None = None,
    failures: Failures | None = None,
) -> dict[str, Decision]:
    """Decide for every pool of *policy* at the facts' time, sharing the removals per hour; by pool id.

    Removals under way in a pool count against the others only. *explained_by* adds sentences and evidence. A pool whose
    decision raises an exception keeps its size, and one that cannot be explained has no evidence: both are noted in
    *failures*; without it they are raised.
    """
    under_way = 0
    for state in facts.pools:
        try:
            under_way += removals_under_way(state)
        except Exception as error:
            if failures is None:
                raise
            failures.sets_aside(state.pool, Failure(part="decide", error=error, pool=state.pool))
    limit = policy.limits.max_removals_per_hour
    removals_left = None if limit is None else limit - facts.earlier.removed_last_hour - under_way
    decisions: dict[str, Decision] = {}
    for pool in policy.pools:
        state, wanted = facts.pool(pool.id), assignment.pools[pool.id]
        if failures is not None and pool.id in failures.set_aside:
            decisions[pool.id] = keeps_its_size(state, str(failures.set_aside[pool.id]), facts.at)
            continue
        try:
            own = removals_under_way(state, deleted=False)
            case = case_of(state, wanted, facts, policy, None if removals_left is None else max(0, removals_left + own))
            decision = _explained(case, explained_by, failures)
            removals_left = (
                None if removals_left is None else removals_left - max(0, decision.present - decision.target - own)
            )
        except Exception as error:
            if failures is None:
                raise
            failure = Failure(part="decide", error=error, pool=pool.id)
            failures.sets_aside(pool.id, failure)
            decision = keeps_its_size(state, str(failure), facts.at)
        decisions[pool.id] = decision
    return decisions


def _explained(case: Case, explained_by: Explainer | None, failures: Failures | None) -> Decision:
    decision, case = decide(case)
    if explained_by is None:
        return decision
    try:
        return explained_by(decision, case)
    except Exception as error:
        if failures is None:
            raise
        failures.note(Failure(part="grounds", error=error, pool=case.pool.id))
        return replace(decision, evidence={"asking": [w.key for w in case.wanted.work.asking[:MOST_ASKING]]})


def keeps_its_size(state: PoolState, failed: str, now: datetime) -> Decision:
    """The decision for a pool that could not be worked out: *failed* is the internal error."""
    detail = f"the pool keeps its size because of an internal error ({failed}); the log has the traceback"
    held = Reason(rule="internal_error", verdict=Verdict.HOLDS, target=state.required, detail=detail)
    return Decision(pool=state.pool, at=now, present=state.required, target=state.required, reasons=(held,))


def removals_under_way(state: PoolState, *, deleted: bool = True) -> int:
    """Nodes that an open action of the pool removes, with or without those already *deleted* (the store counts them
    only when the action is closed)."""
    action = state.open_action
    if action is None or action.kind is not ActionKind.RETIRE:
        return 0
    on_the_way = (VictimStage.CHOSEN, VictimStage.CORDONED)
    return sum(v.stage in on_the_way or (deleted and v.stage is not VictimStage.SPARED) for v in action.victims)


def _notes(case: Case) -> list[Reason]:
    """What alerts ask for (one note for all of a name), and the requests of people and workloads that may affect this
    decision."""
    noted = Counter((s.action, s.alertname) for s in case.signals if s.action in NOTED)
    asked = [AskedByAlerts(action=action, alertname=name, alerts=many) for (action, name), many in noted.items()]
    notes = [_note(each.action.value, case, each) for each in asked]
    notes += [_note("override", case, override) for override in case.wanted.bounds.overrides.all]
    if case.state.silence is not None:
        notes.append(_note("silence", case, case.state.silence))
    kept_nodes = tuple(n for n in case.state.of(Stage.USABLE) if not n.busy and kept_by_a_workload(n, case))
    if kept_nodes:
        notes.append(_note("keep_until", case, kept_nodes))
    evicting = tuple(grace for grace in case.wanted.graces if grace.told and busy_beyond(grace, case))
    if evicting:
        notes.append(_note("evict_after", case, evicting))
    refusals = {h.refusal.request: h.refusal for h in case.wanted.work.held if h.refusal is not None}
    notes += [_note("scheduler_refuses", case, refusal) for refusal in islice(refusals.values(), MOST_REFUSALS)]
    for addition in case.wanted.added:
        notes += addition.notes(case)
    return notes


def _note(rule: str, case: Case, because: object = None) -> Reason:
    return Reason(rule=rule, verdict=Verdict.NOTES, target=case.present, because=because)


def _sources_of_size(case: Case, removable_now: Removable) -> list[Reason]:
    """The sources of a wanted size, growth before removal; each reason's target builds on the one before."""
    wanted, target = case.wanted, case.present
    held = [h for h in wanted.work.held if h.refusal is None]
    reasons = [Reason(rule=h.rule, verdict=Verdict.NOTES, target=target, detail=h.detail, because=h) for h in held]
    stopped = wanted.money.stopped  # then nothing is kept or bought for later
    counts = {rule: count for rule, count in wanted.by_source.items() if rule == "demand" or not stopped}
    for rule, count in counts.items():
        if count > 0:
            target += count
            reasons.append(Reason(rule=rule, verdict=Verdict.WANTS, target=target))
    # Growth waits until these nodes are gone: dead ones were bought for the same demand. At a budget stop nothing is
    # bought, and waiting work cannot start on idle nodes.
    empty = [n for n in removable_now.nodes if not n.busy]
    useless = [n for n in empty if case.full or (case.growth_held and n.health.out_of_service)]  # for what is wanted
    goes_first = bool(case.dead or removable_now.announced or useless or (wanted.money.stopped and removable_now.nodes))
    if goes_first:
        reasons = [replace(r, verdict=Verdict.NOTES, target=case.present) for r in reasons]
    if target == case.present or goes_first:
        target = case.present
        grows = any(count > 0 for count in counts.values()) and not wanted.money.stopped
        announced = {n.instance for n in removable_now.announced}
        resting = [n for n in removable_now.nodes if n.instance not in announced and not is_dead(n, case)]
        going = {
            "dead_nodes": [n for n in removable_now.nodes if is_dead(n, case)],
            "override": removable_now.surplus,
            "evict_after": removable_now.evicted,
            # While the pool wants to grow, only dead, surplus and evicted nodes go, and useless ones if it cannot.
            "idle_nodes": [n for n in resting if not n.busy and (not grows or n in useless)],
            "consolidation": [n for n in resting if n.busy and not grows],
        }
        for rule, nodes in going.items():
            if nodes:
                target -= len(nodes)
                reasons.append(Reason(rule=rule, verdict=Verdict.WANTS, target=target, because=tuple(nodes)))
    return reasons


def plan(decision: Decision, state: PoolState, policy: Policy) -> Action | None:
    """Return the action that *decision* asks for, or None to hold.

    Growth is one absolute count. Removal names the instances: a lower count would let the cloud choose a victim.
    """
    pool = policy.pool(decision.pool)
    if pool is None or decision.change is Change.HOLD:
        return None
    grows = decision.change is Change.GROW
    chosen = () if grows else decision.candidates[: decision.present - decision.target]
    new_nodes = decision.target - decision.present if grows else -len(chosen)
    to_count = decision.present + new_nodes
    change = f"grow-{decision.present}-to-{to_count}" if grows else f"retire-{len(chosen)}"
    price, billing = pool.price_usd_per_hour if grows else None, policy.billing
    bought = billing.beyond(pool.id, to_count, decision.at) - billing.beyond(pool.id, decision.present, decision.at)
    return Action(
        id=f"{pool.name}-{decision.at:%Y%m%dT%H%M%S.%fZ}-{change}",
        pool=pool.id,
        kind=ActionKind.GROW if grows else ActionKind.RETIRE,
        opened_at=decision.at,
        from_count=decision.present,
        to_count=to_count,
        victims=tuple(_victim(i, decision, state) for i in chosen),
        reserved_usd=Decimal(0) if price is None else bought * unit_price(price, billing),
    )


def _victim(instance: str, decision: Decision, state: PoolState) -> Victim:
    node = next(n for n in state.nodes if n.instance == instance)
    because = Because.IDLE if node.stage is Stage.USABLE else Because.LOST if node.was_usable else Because.STUCK
    if node.busy and node.stage is Stage.USABLE:
        because = Because.EVICTED if instance in decision.evicted else Because.CONSOLIDATED
    return Victim(instance=instance, node=node.name, because=because, since=decision.at)


def join(action: Action, decision: Decision, state: PoolState) -> Action:
    """Add to an open removal the nodes whose moment came meanwhile: a late count must not keep them another hour. Nodes
    that never became usable wait for an action of their own, with which their back-off is stored."""
    chosen_instances = {v.instance for v in action.victims}
    let_go = decision.candidates[: max(0, decision.present - decision.target)]
    new = (_victim(i, decision, state) for i in let_go if i not in chosen_instances)
    more = tuple(v for v in new if v.because not in (Because.STUCK, Because.LOST))
    return replace(action, victims=(*action.victims, *more), to_count=action.to_count - len(more)) if more else action
