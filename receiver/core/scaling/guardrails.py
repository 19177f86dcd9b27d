"""The rules that may hold a change back, each named after what it upholds.

A guardrail gets the target so far and returns the target it leaves, which lies between the present size and
the one it was given, with a verdict and one sentence. It can stop a change, never start or enlarge one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from receiver.core.model.actions import ActionKind, Reason, Verdict
from receiver.core.model.approval_request import Asks, why_waiting
from receiver.core.model.model import BIND, Node, PoolState, Source
from receiver.core.model.policy import Fallback, Policy, Pool
from receiver.core.model.signals import Signal, SignalAction
from receiver.core.model.text import lasting, some
from receiver.core.scaling.allowance import grows_unasked
from receiver.core.scaling.assign import Wanted, floor_gives_way
from receiver.core.scaling.capacity import (
    LONGEST_GROWTH_BACKOFF,
    LONGEST_REMOVAL_BACKOFF,
)
from receiver.core.scaling.provisioning import (
    LONGEST_PROVISIONING_BACKOFF,
    probes_left,
    stuck_on_the_way,
    undone_by_others,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a guardrail may look at."""

    pool: Pool
    state: PoolState
    wanted: Wanted
    signals: tuple[Signal, ...]  # those of this pool or of every pool
    policy: Policy
    now: datetime
    dead: int = 0  # nodes that go because they never came up, or broke: no floor is held by them
    empty: int = 0  # nodes that may go and run nothing, the dead ones included
    going: int = 0  # all nodes that may go
    unapproved: tuple[Node, ...] = ()  # the last of these: people are asked about them first, and have not let them go

    @property
    def present(self) -> int:
        """The size to hold."""
        return self.state.required

    def up(self, source: Source) -> bool:
        """True when *source* answered."""
        found = self.wanted.sources.get(source)
        return found is not None and found.up

    def why(self, source: Source) -> str:
        """What is known about *source*."""
        found = self.wanted.sources.get(source)
        return f"{source.value}: {found.detail or 'no answer'}" if found else f"{source.value}: never asked"

    def firing(self, action: SignalAction) -> Signal | None:
        """The first firing signal of *action*, or None."""
        return next((s for s in self.signals if s.action is action), None)


Left = tuple[int, str]  # the target a guardrail leaves, and why
Guardrail = Callable[[int, Case], Left | None]


def sources_answer(target: int, case: Case) -> Left | None:
    """No change without eyes: which sources must answer differs for growing and shrinking (docs/guardrails.md)."""
    for source in (Source.CIVO, Source.STORE):
        if not case.up(source):
            return case.present, f"no change while {case.why(source)}"
    if target > case.present:
        if not case.up(Source.PROMETHEUS) and case.policy.fallback is not Fallback.KUBERNETES:
            return case.present, f"no growth while {case.why(Source.PROMETHEUS)} (fallback: kubernetes would allow it)"
        if not case.up(Source.KUBERNETES) and not case.up(Source.PROMETHEUS):
            return case.present, "no growth while neither Kubernetes nor Prometheus tells the demand"
        return None
    for source in (Source.KUBERNETES, Source.PROMETHEUS, Source.HEARTBEAT, Source.ALERTMANAGER):
        found = case.wanted.sources.get(source)
        optional = source is Source.ALERTMANAGER and found is not None and not found.configured
        if not optional and not case.up(source):
            return case.present, f"no removal while {case.why(source)}"
    return None


def nodes_may_be_removed(target: int, case: Case) -> Left | None:
    """Nothing is bought that could not be removed again: Civo sells for its key alone, a removal needs the cluster."""
    rights = case.wanted.rights
    if target <= case.present or rights is None or not rights.holds_growth(case.now):
        return None
    if rights.holds_until is not None:
        return case.present, f"{rights}; growth waits until {rights.holds_until:%H:%M:%S} UTC at most"
    return case.present, f"{rights}, and a removal needs that: {BIND}"


def price_is_known(target: int, case: Case) -> Left | None:
    """An unknown price stays unknown and blocks growth."""
    if target > case.present and case.pool.price_usd_per_hour is None:
        return case.present, f"size {case.pool.size} has no price: add price_usd_per_hour to the pool"
    return None


def spend_is_known(target: int, case: Case) -> Left | None:
    """Under a budget of which nobody can tell what it has spent nothing is bought, until that is known."""
    unknown = [refusal for refusal in case.wanted.uncovered if refusal.view.unknown]
    if target <= case.present or not (unknown or case.wanted.spend_unknown):
        return None
    if not case.wanted.spend_unknown:
        alone = len(unknown) == len(case.wanted.uncovered) and case.wanted.within_budget <= 0
        return (case.present, "; ".join(refusal.why for refusal in unknown)) if alone else None
    why = f"this store does not know what the month had cost before it: {case.wanted.spend_unknown}"
    return case.present, f"{why}; budget.spent_usd_stated would tell it"


def within_budget(target: int, case: Case) -> Left | None:
    """Every budget must cover growth: spent, the next paid unit of every running node and the new nodes' first."""
    left = case.present + case.wanted.within_budget
    if target <= case.present or case.wanted.budget is None or left >= target:
        return None
    return left, "; ".join(refusal.why for refusal in case.wanted.uncovered)


def within_maximum(target: int, case: Case) -> Left | None:
    """A pool never exceeds its maximum, nor that of an open window, a ceiling or a pin."""
    if target <= case.present:
        return None
    left = max(case.present, min(case.wanted.bounds.max_nodes, case.present + case.wanted.within_maximum))
    if left >= target:
        return None
    bounds = case.wanted.bounds
    return left, f"at most {some(bounds.max_nodes, 'node')}{bounds.why_most}"


def within_limits(target: int, case: Case) -> Left | None:
    """All pools together stay within max_gpus, max_growth_per_hour and max_removals_per_hour."""
    limits = case.policy.limits
    if target < case.present:
        left = case.wanted.removals_left
        if left is None or case.present - left <= target:
            return None
        return case.present - left, f"at most {limits.max_removals_per_hour} removals an hour"
    left = case.present + case.wanted.within_limits
    if target == case.present or left >= target:
        return None
    said = (("max_gpus", limits.max_gpus), ("max_growth_per_hour", limits.max_growth_per_hour))
    return left, "limits: " + ", ".join(f"{name} {most}" for name, most in said if most is not None)


def not_frozen(target: int, case: Case) -> Left | None:
    """A firing alert with action freeze stops every change."""
    signal = case.firing(SignalAction.FREEZE)
    return _standstill(target, case, f"{signal.alertname} fires: freeze") if signal else None


def not_silenced(target: int, case: Case) -> Left | None:
    """A silence in Alertmanager that names the pool pauses it."""
    return _standstill(target, case, str(case.state.silence)) if case.state.silence is not None else None


def not_paused(target: int, case: Case) -> Left | None:
    """A person's pause stops every change."""
    pause = case.wanted.bounds.spoken.pause
    return _standstill(target, case, str(pause)) if pause is not None else None


def removal_is_not_snoozed(target: int, case: Case) -> Left | None:
    """A person's snooze keeps every node that is not dead."""
    snooze = case.wanted.bounds.spoken.snooze
    if snooze is None or target >= case.present:
        return None
    return _standstill(target, case, str(snooze), going=case.dead)


def _standstill(target: int, case: Case, why: str, *, going: int = 0) -> Left | None:
    """Hold everything, but for *going* nodes, and for the highest authority: at the budget's stop line all empty
    nodes go."""
    if target < case.present and floor_gives_way(case.wanted):
        going = case.empty
    left = case.present - going if target < case.present else case.present
    return None if target < case.present and left <= target else (left, why)


def growth_is_not_paused(target: int, case: Case) -> Left | None:
    """A firing alert with action pause_scale_up stops growth."""
    signal = case.firing(SignalAction.PAUSE_SCALE_UP)
    return (case.present, f"{signal.alertname} fires: pause_scale_up") if signal and target > case.present else None


def not_backing_off(target: int, case: Case) -> Left | None:
    """What failed is not tried again until its back-off ends; growth and removal back off apart."""
    grows = target > case.present
    backoff = case.state.backoff if grows else case.state.removal_backoff
    longest = LONGEST_GROWTH_BACKOFF if grows else LONGEST_REMOVAL_BACKOFF
    if backoff is None or backoff.instances or not backoff.holds(case.now, longest):
        return None
    if grows and case.wanted.within_stock is not None:  # fewer may be there, and are asked for at once
        left = case.present + case.wanted.within_stock
        why = f"Civo has just refused {some(case.state.refused or 0, 'node')}, so it asks for fewer: {backoff.reason}"
        return None if left >= target else (left, why)
    until = f"{backoff.until:%Y-%m-%d %H:%M:%S} UTC"
    return case.present, f"backing off until {until} after {backoff.failures} failures: {backoff.reason}"


def provisioning_works(target: int, case: Case) -> Left | None:
    """While a node is stuck on its way, or shortly after one was, none is bought; then one on trial, till one works."""
    if target <= case.present:
        return None
    stuck = stuck_on_the_way(case.pool, case.state, case.now)
    if stuck:
        return (
            case.present,
            f"{', '.join(stuck)}: not usable within {lasting(case.pool.provision_timeout)}; look there first",
        )
    failed, left = case.state.provisioning, probes_left(case.state, case.now)
    if failed is None or left is None or case.present + left >= target:
        return None
    said = f"{failed.reason} ({some(failed.failures, 'failure')} in a row)"
    if failed.holds(case.now, LONGEST_PROVISIONING_BACKOFF):
        return case.present, f"{said}: no other node before {failed.until:%Y-%m-%d %H:%M:%S} UTC"
    return case.present + left, f"{said}: one node on trial until one becomes usable"


def cooled_down(target: int, case: Case) -> Left | None:
    """A pool that changed a moment ago is left alone for its cooldown, per direction.

    Where hours are billed as started, removal is timed to the paid hour and the shrink cooldown does not apply.
    """
    if target > case.present:
        last, cooldown, way = case.state.last_grow_at, case.pool.grow_cooldown, "grow"
    elif case.policy.billing.by_the_hour:
        return None
    else:
        last, cooldown, way = case.state.last_shrink_at, case.pool.shrink_cooldown, "shrink"
    if last is None or case.now >= last + cooldown or last > case.now:  # in the future: the clock was wrong then
        return None
    bounds = case.wanted.bounds
    if target > case.present:  # what a person asked for waits for no cooldown
        left = max(case.present, bounds.min_nodes) if bounds.spoken.least is not None else case.present
    else:
        left = min(case.present, bounds.max_nodes) if bounds.overrun else case.present
    within = left >= target if target > case.present else left <= target
    return None if within else (left, f"cooldown.{way} until {last + cooldown:%H:%M:%S} UTC")


def approved(target: int, case: Case) -> Left | None:
    """Where the policy asks for it, people are asked before nodes go and before growth that costs much."""
    questions, now = case.wanted.questions, case.now
    if target < case.present:
        left = case.present - (case.going - len(case.unapproved))
        if left <= target:
            return None
        kinds = {Asks.EMPTYING if n.busy else Asks.REMOVAL for n in case.unapproved}
        return left, why_waiting([n.name for n in case.unapproved], kinds, questions, now)
    left = grows_unasked(target, case.pool, case.state, case.wanted.bounds, questions, now)
    return None if left >= target else (left, why_waiting((), (Asks.GROWTH,), questions, now))


def one_change_at_a_time(target: int, case: Case) -> Left | None:
    """An open removal is finished before the pool grows, and before other nodes are chosen.

    While Civo still counts removed nodes, a number between what is left and what it shows would be a lower count.
    """
    shown = case.state.required + case.state.uncounted
    if case.present < target < shown:
        return (
            case.present,
            f"Civo still counts {some(case.state.uncounted, 'removed node')}: {target} would lower its count",
        )
    action = case.state.open_action
    if action is None or (target > case.present) == (action.kind is ActionKind.GROW):
        return None
    return case.present, f"action {action.id} is open"


def above_the_floor(target: int, case: Case) -> Left | None:
    """A pool does not shrink below its minimum, unless the budget stop says so."""
    # What Civo counts and does not list, deleted a while ago or not there yet, is no node to fall back on.
    ghosts = max(0, case.present - len(case.state.living))
    floor = min(case.wanted.bounds.min_nodes + ghosts, case.present - case.dead)
    if target >= case.present or target >= floor or floor_gives_way(case.wanted):
        return None
    bounds = case.wanted.bounds
    return min(case.present, floor), f"at least {some(bounds.min_nodes, 'node')}{bounds.why_least}"


def not_undone_by_others(target: int, case: Case) -> Left | None:
    """What somebody else turned back three times in a day is not tried again for a day: they have their way."""
    grows = target > case.present
    until = undone_by_others(case.state, case.now, grows=grows)
    if until is None:
        return None
    change, way = ("growth", "lowered") if grows else ("removals", "raised")
    return (
        case.present,
        f"somebody {way} the count again and again after our {change}: none before {until:%Y-%m-%d %H:%M} UTC",
    )


GUARDRAILS: tuple[Guardrail, ...] = (
    sources_answer,
    nodes_may_be_removed,
    price_is_known,
    spend_is_known,
    within_budget,
    within_maximum,
    within_limits,
    not_frozen,
    not_silenced,
    not_paused,
    growth_is_not_paused,
    removal_is_not_snoozed,
    above_the_floor,
    not_backing_off,
    not_undone_by_others,
    provisioning_works,
    cooled_down,
    approved,  # asked for what nothing else holds back, so that nobody is asked in vain
    one_change_at_a_time,
)


def apply(target: int, case: Case, guardrails: Iterable[Guardrail] = GUARDRAILS) -> list[Reason]:
    """Run *guardrails* over *target* and return their reasons in order; the last one's target is what is left."""
    reasons: list[Reason] = []
    for guardrail in guardrails:
        rule = guardrail.__name__
        verdict, detail = Verdict.ALLOWS, ""
        left = guardrail(target, case) if target != case.present else None
        if left is not None:
            low, high = sorted((target, case.present))
            allowed = min(max(left[0], low), high)  # the law: between the present size and the wanted one
            verdict = Verdict.HOLDS if allowed == case.present else Verdict.LIMITS
            target, detail = allowed, left[1]
        reasons.append(Reason(rule=rule, verdict=verdict, target=target, detail=detail))
    return reasons
