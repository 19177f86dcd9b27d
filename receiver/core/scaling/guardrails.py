"""The rules that may hold a change back, each named after what it upholds.

A guardrail gets the target so far. Where it objects, it returns the target that it leaves, which lies between the
present size and the one it was given, and the values that this rests on. It can stop a change, never start or enlarge
one. The sentences are in `receiver.core.explain`.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from receiver.core.model.actions import ActionKind, Reason, Verdict
from receiver.core.model.model import Facts, Node, PoolState, Source, SourceState
from receiver.core.model.overrides import Asks, Override, Question
from receiver.core.model.policy import Fallback, Limits, Policy, Pool
from receiver.core.model.signals import PoolSilence, Signal, SignalAction
from receiver.core.model.windows import next_change
from receiver.core.money.cost import HOUR
from receiver.core.scaling.assign import Wanted
from receiver.core.scaling.capacity import grows_unasked
from receiver.core.scaling.waits import Direction, Wait, WaitKind, probes_left, stuck_on_the_way, waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the decision for one pool may depend on: *facts* (and what of them concerns this pool), and *wanted*, what
    the assignment asks of it. *now* is the time of the facts, or a later one in a look ahead."""

    pool: Pool
    state: PoolState
    wanted: Wanted
    facts: Facts
    policy: Policy
    now: datetime
    signals: tuple[Signal, ...] = ()  # those of this pool or of every pool
    overrides: tuple[Override, ...] = ()  # of this pool, in force or still to come
    questions: tuple[Question, ...] = ()  # of this pool
    removals_left: int | None = None  # None: no limit
    dead: int = 0  # nodes that go because they never came up, or broke: they do not count for the floor
    empty: int = 0  # nodes that may be removed and run nothing, the dead ones included
    going: int = 0  # all nodes that may be removed
    unapproved: tuple[Node, ...] = ()  # the last of these, which still need an approval
    growth_held: bool = False  # growth is wanted and cannot come now: sick nodes do not wait for it
    full: bool = False  # and not by time alone: idle nodes that it cannot use do not wait for it either

    @property
    def present(self) -> int:
        """The size to hold."""
        return self.state.required

    def wait(self, kind: WaitKind, target: int) -> Wait | None:
        """The wait of that *kind* for a change to *target* nodes."""
        direction = Direction.GROW if target > self.present else Direction.SHRINK
        waits_in_force = waits(self.pool, self.state, self.policy, self.now, (direction,))
        return next((wait for wait in waits_in_force if wait.kind is kind), None)

    def up(self, source: Source) -> bool:
        """True when *source* answered; Civo, what concerns this pool."""
        state = self.source(source)
        return state is not None and state.up

    def source(self, source: Source) -> SourceState | None:
        """The state of *source* as far as it concerns this pool."""
        state = self.facts.sources.get(source)
        if source is Source.CIVO and state is not None and state.up and self.state.unreadable:
            return replace(state, up=False, detail=f"incomplete response on this pool: {self.state.unreadable}")
        return state

    def firing(self, action: SignalAction) -> Signal | None:
        """The first firing signal of *action*, or None."""
        return next((s for s in self.signals if s.action is action), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentSource:
    """The *source* (and if named the *other*) that a change in *direction* needs (None: either), with its state."""

    source: Source
    state: SourceState | None
    direction: Direction | None = None
    other: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckNodes:
    """*nodes* that are not usable *within* their provision timeout."""

    nodes: tuple[str, ...]
    within: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class FewerRequested:
    """Civo has just refused *refused* nodes with *reason*, so fewer are requested."""

    refused: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """Civo still counts *nodes* that were removed. Its count falls by them later: a request for *target* sent before
    would leave a count below the nodes that exist, and Civo would choose what it deletes."""

    nodes: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AsksFirst:
    """People are asked first: about *nodes* (names), or about growth where there are none."""

    nodes: tuple[str, ...]
    asks: Collection[Asks]
    questions: tuple[Question, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a guardrail leaves of a change: *left* nodes, *because* of these values. *until* is the first moment at
    which its answer can change without anything happening (None: unknown)."""

    left: int
    because: object
    until: datetime | None = None


Guardrail = Callable[[int, Case], Held | None]


def sources_answer(target: int, case: Case) -> Held | None:
    """A change needs its sources: which must answer differs for growth and removal (docs/guardrails.md)."""

    def silent(source: Source, direction: Direction | None = None, other: Source | None = None) -> Held:
        because = SilentSource(source=source, state=case.source(source), direction=direction, other=other)
        return Held(left=case.present, because=because)

    for source in (Source.CIVO, Source.STORE):
        if not case.up(source):
            return silent(source)
    if target > case.present:
        if not case.up(Source.PROMETHEUS) and case.policy.fallback is not Fallback.KUBERNETES:
            return silent(Source.PROMETHEUS, Direction.GROW)
        if not case.up(Source.KUBERNETES) and not case.up(Source.PROMETHEUS):
            return silent(Source.KUBERNETES, Direction.GROW, Source.PROMETHEUS)
        return None
    for source in (Source.KUBERNETES, Source.PROMETHEUS, Source.HEARTBEAT, Source.ALERTMANAGER):
        state = case.source(source)
        optional = source is Source.ALERTMANAGER and state is not None and not state.configured
        if not optional and not case.up(source):
            return silent(source, Direction.SHRINK)
    return None


def nodes_may_be_removed(target: int, case: Case) -> Held | None:
    """Nothing is bought that could not be removed again: Civo sells for its key alone, a removal needs the cluster."""
    rights = case.facts.rights
    if target <= case.present or rights is None or not rights.holds_growth(case.now):
        return None
    return Held(left=case.present, because=rights, until=rights.holds_until)


def price_is_known(target: int, case: Case) -> Held | None:
    """An unknown price stays unknown and blocks growth."""
    if target > case.present and case.pool.price_usd_per_hour is None:
        return Held(left=case.present, because=case.pool)
    return None


def spend_is_known(target: int, case: Case) -> Held | None:
    """While the spend of a budget is unknown, nothing is bought under it."""
    unknown = tuple(refusal for refusal in case.wanted.uncovered if refusal.view.unknown)
    if target <= case.present or not (unknown or case.facts.spend.unknown):
        return None
    if case.facts.spend.unknown:
        return Held(left=case.present, because=case.facts.spend.unknown)
    alone = len(unknown) == len(case.wanted.uncovered) and case.wanted.within_budget <= 0
    return Held(left=case.present, because=unknown) if alone else None


def within_budget(target: int, case: Case) -> Held | None:
    """Every budget must cover growth: spent, the next paid unit of every running node and the new nodes' first."""
    allowed_target = case.present + case.wanted.within_budget
    if target <= case.present or case.wanted.budget is None or allowed_target >= target:
        return None
    return Held(left=allowed_target, because=case.wanted.uncovered, until=case.wanted.budget.ends_at)


def within_maximum(target: int, case: Case) -> Held | None:
    """A pool never exceeds its maximum, nor that of an open window, a ceiling or a pin."""
    if target <= case.present:
        return None
    bounds = case.wanted.bounds
    allowed_target = max(case.present, min(bounds.max_nodes, case.present + case.wanted.within_maximum))
    if allowed_target >= target:
        return None
    return Held(left=allowed_target, because=bounds, until=_bounds_change_at(bounds.overrides.most, case))


def within_limits(target: int, case: Case) -> Held | None:
    """All pools together stay within max_gpus, max_growth_per_hour and max_removals_per_hour."""
    limits, changed = case.policy.limits, case.facts.first_changed_at
    until = None if changed is None else changed + HOUR
    if target < case.present:
        removals_left = case.removals_left
        if removals_left is None or case.present - removals_left <= target:
            return None
        reached = Limits(max_removals_per_hour=limits.max_removals_per_hour)
        return Held(left=case.present - removals_left, because=reached, until=until)
    allowed_target = case.present + case.wanted.within_limits
    if target == case.present or allowed_target >= target:
        return None
    return Held(left=allowed_target, because=replace(limits, max_removals_per_hour=None), until=until)


def not_frozen(target: int, case: Case) -> Held | None:
    """A firing alert with action freeze stops every change."""
    return _standstill(target, case, case.firing(SignalAction.FREEZE))


def not_silenced(target: int, case: Case) -> Held | None:
    """A silence in Alertmanager that names the pool pauses it."""
    return _standstill(target, case, case.state.silence)


def not_paused(target: int, case: Case) -> Held | None:
    """A person's pause stops every change."""
    return _standstill(target, case, case.wanted.bounds.overrides.pause)


def removal_is_not_snoozed(target: int, case: Case) -> Held | None:
    """A person's snooze keeps every node that is not dead."""
    snooze = case.wanted.bounds.overrides.snooze if target < case.present else None
    return _standstill(target, case, snooze, going=case.dead)


def _standstill(
    target: int, case: Case, because: Signal | PoolSilence | Override | None, *, going: int = 0
) -> Held | None:
    """Hold everything, except for *going* nodes; at the stop line of a budget all empty nodes go."""
    if because is None:
        return None
    until = None if isinstance(because, Signal) else because.until
    if target > case.present:
        return Held(left=case.present, because=because, until=until)
    if case.wanted.stopped:
        going = case.empty
    allowed_target = case.present - going
    return None if allowed_target <= target else Held(left=allowed_target, because=because, until=until)


def growth_is_not_paused(target: int, case: Case) -> Held | None:
    """A firing alert with action pause_scale_up stops growth."""
    signal = case.firing(SignalAction.PAUSE_SCALE_UP)
    return Held(left=case.present, because=signal) if signal and target > case.present else None


def not_backing_off(target: int, case: Case) -> Held | None:
    """What failed is not tried again until its back-off ends; growth and removal back off apart."""
    wait = case.wait(WaitKind.BACKOFF, target)
    if wait is None or wait.nodes:
        return None
    if wait.direction is Direction.GROW and case.wanted.within_stock is not None:  # fewer are requested at once
        allowed_target = case.present + case.wanted.within_stock
        fewer = FewerRequested(refused=case.state.refused or 0, reason=wait.reason)
        return None if allowed_target >= target else Held(left=allowed_target, because=fewer, until=wait.until)
    return Held(left=case.present, because=wait, until=wait.until)


def provisioning_works(target: int, case: Case) -> Held | None:
    """While a node is stuck on its way, or shortly after one was, none is bought; then one on trial until one works."""
    if target <= case.present:
        return None
    stuck = stuck_on_the_way(case.pool, case.state, case.now)
    if stuck:
        return Held(left=case.present, because=StuckNodes(nodes=stuck, within=case.pool.provision_timeout))
    failed, probes = case.state.trial, probes_left(case.state, case.now)
    if failed is None or probes is None or case.present + probes >= target:
        return None
    wait = case.wait(WaitKind.PROVISIONING, target)
    if wait is not None:
        return Held(left=case.present, because=wait, until=wait.until)
    return Held(left=case.present + probes, because=failed)


def cooled_down(target: int, case: Case) -> Held | None:
    """A pool that has just changed is left alone for its cooldown, per direction; an override does not wait for it."""
    wait, bounds = case.wait(WaitKind.COOLDOWN, target), case.wanted.bounds
    if wait is None:
        return None
    if target > case.present:  # an override does not wait for the cooldown
        allowed_target = max(case.present, bounds.min_nodes) if bounds.overrides.least is not None else case.present
    else:
        allowed_target = min(case.present, bounds.max_nodes) if bounds.overrun else case.present
    within = allowed_target >= target if target > case.present else allowed_target <= target
    return None if within else Held(left=allowed_target, because=wait, until=wait.until)


def approved(target: int, case: Case) -> Held | None:
    """Where the policy asks for it, people approve removals, and growth that costs much."""
    questions, now = case.questions, case.now
    if target < case.present:
        allowed_target = case.present - (case.going - len(case.unapproved))
        if allowed_target <= target:
            return None
        kinds = frozenset(Asks.EMPTYING if n.busy else Asks.REMOVAL for n in case.unapproved)
        names = tuple(n.name for n in case.unapproved)
    else:
        allowed_target = grows_unasked(target, case.pool, case.state, case.wanted.bounds, questions, now)
        if allowed_target >= target:
            return None
        names, kinds = (), frozenset({Asks.GROWTH})
    return Held(left=allowed_target, because=AsksFirst(nodes=names, asks=kinds, questions=questions, at=now))


def one_change_at_a_time(target: int, case: Case) -> Held | None:
    """An open removal is finished, and Civo's count has fallen, before the pool grows or other nodes are chosen."""
    if target > case.present and case.state.uncounted > 0:
        return Held(left=case.present, because=Uncounted(nodes=case.state.uncounted, target=target))
    action = case.state.open_action
    if action is None or (target > case.present) == (action.kind is ActionKind.GROW):
        return None
    return Held(left=case.present, because=action)


def above_the_floor(target: int, case: Case) -> Held | None:
    """A pool does not shrink below its minimum, unless the budget stop says so."""
    # Nodes that Civo counts and does not list, because they were deleted or do not exist yet, hold no floor.
    ghosts = max(0, case.present - len(case.state.living))
    floor = min(case.wanted.bounds.min_nodes + ghosts, case.present - case.dead)
    if target >= case.present or target >= floor or case.wanted.stopped:
        return None
    bounds = case.wanted.bounds
    return Held(left=min(case.present, floor), because=bounds, until=_bounds_change_at(bounds.overrides.least, case))


def _bounds_change_at(override: Override | None, case: Case) -> datetime | None:
    """When bounds that *override* sets (None: the pool or its windows) change next."""
    return override.until if override is not None else next_change(case.pool.windows, case.now)


def not_undone_by_others(target: int, case: Case) -> Held | None:
    """A change that another system reverted three times in a day is not tried again for a day."""
    wait = case.wait(WaitKind.UNDONE, target)
    return Held(left=case.present, because=wait, until=wait.until) if wait is not None else None


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
    approved,  # only for what no other guardrail holds, so that no question is asked in vain
    one_change_at_a_time,
)


# What only fewer nodes, or a person, can lift; no time that passes does.
WITHOUT_END = ("within_maximum", "within_limits", "within_budget", "price_is_known")


def apply(target: int, case: Case, guardrails: Iterable[Guardrail] = GUARDRAILS) -> list[Reason]:
    """Run *guardrails* over *target* and return their reasons in order; the last one's target is what is left."""
    reasons: list[Reason] = []
    for guardrail in guardrails:
        verdict, because, until = Verdict.ALLOWS, None, None
        held = guardrail(target, case) if target != case.present else None
        if held is not None:
            low, high = sorted((target, case.present))
            target = min(max(held.left, low), high)  # the law: between the present size and the wanted one
            verdict = Verdict.HOLDS if target == case.present else Verdict.LIMITS
            because, until = held.because, held.until
        reasons.append(Reason(rule=guardrail.__name__, verdict=verdict, target=target, because=because, until=until))
    return reasons
