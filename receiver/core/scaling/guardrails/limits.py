"""What a change may use: sources that answer, rights, money, and how many nodes there may be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from receiver.core.model.model import Source, SourceState
from receiver.core.model.overrides import Override
from receiver.core.model.policy import Fallback, Limits, Pool
from receiver.core.model.rights import BIND, Rights
from receiver.core.model.text import dollars, minute, moment, some
from receiver.core.model.windows import next_change
from receiver.core.money.budget import BudgetStage, BudgetView, Refusal, month_of
from receiver.core.money.cost import HOUR, unit_price
from receiver.core.scaling.bounds import BoundsInForce
from receiver.core.scaling.guardrails.rule import Case, Guardrail, Held, Said
from receiver.core.scaling.waits import Direction

CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentSource:
    """The *source* (and if named the *other*) that a change in *direction* needs (None: either), with its state."""

    source: Source
    state: SourceState | None
    direction: Direction | None = None
    other: Source | None = None


def sources_answer(target: int, case: Case) -> Held[SilentSource] | None:
    """A change needs its sources: which must answer differs for growth and removal (docs/guardrails.md)."""

    def silent(source: Source, direction: Direction | None = None, other: Source | None = None) -> Held[SilentSource]:
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


def answer_of(source: Source, state: SourceState | None) -> str:
    """What is known about *source*."""
    return f"{source.value}: {state.detail or 'no answer'}" if state else f"{source.value}: never asked"


def _say_silent(silent: SilentSource, case: Case) -> Said:
    answer, without = answer_of(silent.source, silent.state), []
    if silent.other is not None:
        sentence = "no growth while neither Kubernetes nor Prometheus reports the demand"
    elif silent.direction is Direction.GROW:
        sentence = f"no growth while {answer} (fallback: kubernetes would allow it)"
        without = ["set fallback: kubernetes in the configuration to let it grow without Prometheus"]
    else:
        sentence = f"no {'removal' if silent.direction is Direction.SHRINK else 'change'} while {answer}"
    sources = [s for s in case.facts.sources.values() if not s.up and s.configured and s.source is not Source.DCGM]
    names = ", ".join(f"{s.source.value} ({s.detail or 'no answer'})" for s in sources)
    answers = f"wait until it answers again: {names or sentence}"
    return sentence, [(text, None) for text in (answers, *without)]


TITLES = {Source.STORE: "the store", Source.HEARTBEAT: "the heartbeat alert"}


def _name_silent(silent: SilentSource, _case: Case) -> str:
    if silent.other is not None:
        return "neither Kubernetes nor Prometheus answers"
    title = TITLES.get(silent.source, silent.source.value.capitalize())
    return f"{title} {'does not arrive' if silent.source is Source.HEARTBEAT else 'does not answer'}"


SOURCES_ANSWER = Guardrail(
    check=sources_answer,
    say=_say_silent,
    cause=_name_silent,
    meaning="Every source that this change needs must answer.",
    plain="a source does not answer",
    advice="bring back the source that the reason names; the Sources page shows what each one answered",
)


def nodes_may_be_removed(target: int, case: Case) -> Held[Rights] | None:
    """Nothing is bought that could not be removed again: Civo sells for its key alone, a removal needs the cluster."""
    rights = case.facts.rights
    if target <= case.present or rights is None or not rights.holds_growth(case.now):
        return None
    return Held(left=case.present, because=rights, until=rights.holds_until)


def _say_missing_rights(rights: Rights, _case: Case) -> Said:
    if rights.holds_until is not None:
        return f"{rights}; growth waits until {rights.holds_until:%H:%M:%S} UTC at most", ()
    return f"{rights} (needed to remove nodes): {BIND}", ()


NODES_MAY_BE_REMOVED = Guardrail(
    check=nodes_may_be_removed,
    say=_say_missing_rights,
    meaning="A pool grows only while RBAC allows removing its nodes.",
    plain="RBAC does not allow the autoscaler to remove nodes",
    advice=(
        "bind the ClusterRole gpu-autoscaler-act (chart: mode=act; else k8s/install/act-rights.yaml); "
        "no restart is needed"
    ),
    changes=(
        (
            "bind the ClusterRole gpu-autoscaler-act to the autoscaler's service account "
            "(chart: mode=act; else k8s/install/act-rights.yaml); no restart is needed"
        ),
    ),
)


def price_is_known(target: int, case: Case) -> Held[Pool] | None:
    """An unknown price stays unknown and blocks growth."""
    if target > case.present and case.pool.price_usd_per_hour is None:
        return Held(left=case.present, because=case.pool)
    return None


def _say_no_price(pool: Pool, _case: Case) -> Said:
    size, price = pool.size, "price_usd_per_hour of the pool, or a prices_file that has it"
    sentence = f"size {size} has no price: add price_usd_per_hour to the pool"
    return sentence, [(f"set a price for size {size}: {price}", None)]


PRICE_IS_KNOWN = Guardrail(
    check=price_is_known,
    say=_say_no_price,
    meaning="A pool without a known price does not grow: unknown never counts as 0.",
    plain="its price is unknown",
    advice="set price_usd_per_hour of the pool, or a prices_file that has its size",
    told=True,
    uncounted=True,
    lasting=True,
)


def spend_is_known(target: int, case: Case) -> Held[str | Sequence[Refusal]] | None:
    """While the spend of a budget is unknown, nothing is bought under it."""
    unknown = tuple(refusal for refusal in case.wanted.money.uncovered if refusal.view.unknown)
    if target <= case.present or not (unknown or case.facts.spend.unknown):
        return None
    if case.facts.spend.unknown:
        return Held(left=case.present, because=case.facts.spend.unknown)
    alone = len(unknown) == len(case.wanted.money.uncovered) and case.wanted.allowed.budget <= 0
    return Held(left=case.present, because=unknown) if alone else None


def _say_unknown_spend(unknown: str | Sequence[Refusal], _case: Case) -> Said:
    if isinstance(unknown, str):
        sentence = f"the cost of the month before this store existed is unknown: {unknown}"
        remedy = "wait until Civo's charges of the month can be read, or set budget.spent_usd_stated"
        return f"{sentence}; budget.spent_usd_stated can state it", [(remedy, None)]
    changes = [(_known_again(refusal.view), None) for refusal in unknown]
    return "; ".join(refusal.why for refusal in unknown), changes


def _known_again(view: BudgetView) -> str:
    return f"wait until the spend of the {view.title} is known again: {view.unknown}"


def _name_unknown_spend(unknown: str | Sequence[Refusal], _case: Case) -> str:
    if isinstance(unknown, str):
        return f"{SPEND_IS_KNOWN.plain}: {unknown}"
    return f"the spend of the {unknown[0].view.title} is unknown: {unknown[0].view.unknown}"


SPEND_IS_KNOWN = Guardrail(
    check=spend_is_known,
    say=_say_unknown_spend,
    cause=_name_unknown_spend,
    meaning="Under a budget nothing is bought while the month's spend is unknown.",
    plain="the month's spend is unknown",
    advice="see the reason; Civo's charges are read again every minute, or state budget.spent_usd_stated",
    page="runbooks/GpuSpendUnknown.md",
    told=True,
    uncounted=True,
)


def within_budget(target: int, case: Case) -> Held[Sequence[Refusal]] | None:
    """Every budget must cover growth: spent, the next paid unit of every running node and the new nodes' first."""
    allowed_target = case.present + case.wanted.allowed.budget
    if target <= case.present or case.wanted.money.budget is None or allowed_target >= target:
        return None
    return Held(left=allowed_target, because=case.wanted.money.uncovered, until=case.wanted.money.budget.ends_at)


def _say_not_covered(refusals: Sequence[Refusal], case: Case) -> Said:
    changes: list[tuple[str, datetime | None]] = []
    for refusal in refusals:
        view, title = refusal.view, refusal.view.title
        if view.unpriced:
            changes.append((f"{title}: set a price for size {', '.join(view.unpriced)}", None))
        elif view.unknown:
            changes.append((_known_again(view), None))
        else:
            lacks = lacking(refusal, case)
            to, command = dollars(view.monthly + lacks), view.setting(f"{view.monthly + lacks:f}")
            changes.append((f"raise the {title} by at least {dollars(lacks)} to {to} ({command})", None))
        if view.stage is BudgetStage.HOLD and not (refusal.passing or view.unpriced or view.unknown):
            passing = "give the work a priority class in budget.passing_priority_classes"
            changes.append((f"{title}: {passing}, for which nodes are bought up to the stop line", None))
    month_ends = month_of(case.now, case.policy.timezone).end
    changes.append((f"wait for the next month ({moment(month_ends)})", month_ends))
    return "; ".join(refusal.why for refusal in refusals), changes


def lacking(refusal: Refusal, case: Case) -> Decimal:
    """USD by which the allowance that refuses would have to be raised at least, so that the nodes that it leaves out of
    the pool of *case* are bought: spent below the hold line unless they are for passing work, and their first paid unit
    below the stop line, beside those that the step buys."""
    view = refusal.view
    price = case.pool.price_usd_per_hour or Decimal(0)
    missing = case.wanted.new_nodes - case.wanted.allowed.budget
    cost = unit_price(price, case.policy.billing) * missing + refusal.bought
    needed = [((view.spent + view.reserved + cost) / view.stop_at).quantize(CENT, ROUND_CEILING)]
    if not refusal.passing:  # less must be spent than the line; below it, that asks for no higher allowance
        needed.append((view.spent / view.hold_at).quantize(CENT, ROUND_FLOOR) + CENT)
    return max(max(needed) - view.monthly, Decimal(0))


def _name_budget(refusals: Sequence[Refusal], case: Case) -> str:
    """The budget that refuses first: by its stage where it is past a line, else by what is missing."""
    if not refusals:
        return WITHIN_BUDGET.plain
    refusal = refusals[0]
    view = refusal.view
    if view.closed_to(passing=refusal.passing):
        return f"the {view.title} is past its {view.stage} line"
    if view.unknown or view.unpriced:
        return f"the spend of the {view.title} is unknown"
    return f"the {view.title} is {dollars(lacking(refusal, case))} short"


WITHIN_BUDGET = Guardrail(
    check=within_budget,
    say=_say_not_covered,
    cause=_name_budget,
    meaning="Every budget that a new node touches must cover its first paid hour.",
    plain="the budget does not cover it",
    advice="raise the budget (gpu-autoscaler budget set USD --why REASON --who YOU), end other GPU work, or wait "
    "for the next month",
    page="runbooks/GpuBudgetHold.md",
    allows="the budget covers",
    told=True,
    uncounted=True,
    lasting=True,
)


def within_maximum(target: int, case: Case) -> Held[BoundsInForce] | None:
    """A pool never exceeds its maximum, nor that of an open window, a ceiling or a pin."""
    if target <= case.present:
        return None
    bounds = case.wanted.bounds
    allowed_target = max(case.present, min(bounds.max_nodes, case.present + case.wanted.allowed.maximum))
    if allowed_target >= target:
        return None
    return Held(left=allowed_target, because=bounds, until=_bounds_change_at(bounds.overrides.most, case))


def _bounds_change_at(override: Override | None, case: Case) -> datetime | None:
    """When bounds that *override* sets (None: the pool or its windows) change next."""
    return override.until if override is not None else next_change(case.pool.windows, case.now)


def _say_full(bounds: BoundsInForce, case: Case) -> Said:
    most = case.pool.max_nodes
    changes = _bound_ends(bounds.overrides.most, case)
    if bounds.max_nodes == most or bounds.overrides.most is None:
        changes.append((f"raise max_nodes of the pool (now {most})", None))
    changes.append(("wait for a free GPU in the pool", None))
    return f"at most {some(bounds.max_nodes, 'node')}{_in_brackets(bounds.why_most)}", changes


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def window_change(case: Case) -> tuple[str, datetime | None]:
    """Which windows are open, and when that changes next."""
    at = next_change(case.pool.windows, case.now)
    changes = moment(at) if at else "an unknown time"
    names = ", ".join(case.wanted.bounds.names)
    return f"window {names} is open; the next window change is at {changes}", at


def _bound_ends(override: Override | None, case: Case) -> list[tuple[str, datetime | None]]:
    """What ends a bound that *override* (None: a window, or the pool itself) sets."""
    if override is not None:
        return [override.ends]
    if not case.wanted.bounds.names:
        return []
    window, at = window_change(case)
    return [(f"wait for the next window change: {window}", at)]


def _name_full(bounds: BoundsInForce, case: Case) -> str:
    nodes, override = some(bounds.max_nodes, "node"), bounds.overrides.most
    if override is not None:
        until = minute(override.until, case.now)
        return f"at most {nodes} by the {override.kind} of {override.who} until {until}"
    if bounds.max_nodes != case.pool.max_nodes and bounds.names:
        return f"window {', '.join(bounds.names)} allows {nodes}"
    return f"at its maximum of {nodes}"


WITHIN_MAXIMUM = Guardrail(
    check=within_maximum,
    say=_say_full,
    cause=_name_full,
    meaning="The pool never has more nodes than its maximum, an open window, a ceiling or a pin allows.",
    plain="it is at its maximum",
    advice="raise max_nodes, or wait for a free GPU, or until the window or override ends",
    allows="its maximum allows",
    told=True,
    uncounted=True,
    lasting=True,
)


def within_limits(target: int, case: Case) -> Held[Limits] | None:
    """All pools together stay within max_gpus, max_growth_per_hour and max_removals_per_hour."""
    limits, changed = case.policy.limits, case.facts.earlier.first_changed_at
    until = None if changed is None else changed + HOUR
    if target < case.present:
        removals_left = case.removals_left
        if removals_left is None or case.present - removals_left <= target:
            return None
        reached = Limits(max_removals_per_hour=limits.max_removals_per_hour)
        return Held(left=case.present - removals_left, because=reached, until=until)
    allowed_target = case.present + case.wanted.allowed.limits
    if target == case.present or allowed_target >= target:
        return None
    return Held(left=allowed_target, because=replace(limits, max_removals_per_hour=None), until=until)


def _say_limits(limits: Limits, _case: Case) -> Said:
    hour = "wait at most an hour, or raise"
    removals, growth, gpus = limits.max_removals_per_hour, limits.max_growth_per_hour, limits.max_gpus
    if removals is not None:
        higher = f"{hour} limits.max_removals_per_hour (now {removals})"
        return f"limits.max_removals_per_hour ({some(removals, 'node')} per hour) is used up", [(higher, None)]
    changes: list[tuple[str, datetime | None]] = []
    either = growth is not None and gpus is not None
    reached = []
    if gpus is not None:
        reached.append(f"limits.max_gpus ({some(gpus, 'GPU')})")
    if growth is not None:
        reached.append(f"limits.max_growth_per_hour ({some(growth, 'node')} per hour)")
        raised = f"{hour} limits.max_growth_per_hour (now {growth})"
        changes.append((f"if max_growth_per_hour is used up: {raised}" if either else raised, None))
    if gpus is not None:
        raised = f"raise limits.max_gpus (now {gpus}), or remove nodes of any pool"
        changes.append((f"if max_gpus is used up: {raised}" if either else raised, None))
    return f"{' or '.join(reached)} is used up", changes


WITHIN_LIMITS = Guardrail(
    check=within_limits,
    say=_say_limits,
    cause=lambda limits, case: _say_limits(limits, case)[0],
    meaning="All pools together stay within the limits on GPUs, and on purchases and removals per hour.",
    plain="a cluster-wide limit is reached",
    advice="wait, or raise limits.max_gpus or limits.max_growth_per_hour",
    allows="a cluster-wide limit allows",
    told=True,
    uncounted=True,
    lasting=True,
)


def above_the_floor(target: int, case: Case) -> Held[BoundsInForce] | None:
    """A pool does not shrink below its minimum, unless the budget stop says so."""
    # Nodes that Civo counts and does not list, because they were deleted or do not exist yet, hold no floor.
    ghosts = max(0, case.present - len(case.state.living))
    floor = min(case.wanted.bounds.min_nodes + ghosts, case.present - case.dead)
    if target >= case.present or target >= floor or case.wanted.money.stopped:
        return None
    bounds = case.wanted.bounds
    return Held(left=min(case.present, floor), because=bounds, until=_bounds_change_at(bounds.overrides.least, case))


def say_least(bounds: BoundsInForce, case: Case) -> Said:
    """Why the pool has no fewer nodes."""
    lower = f"lower min_nodes of the pool (now {case.pool.min_nodes})"
    changes = [*_bound_ends(bounds.overrides.least, case), (lower, None)]
    return f"at least {some(bounds.min_nodes, 'node')}{_in_brackets(bounds.why_least)}", changes


ABOVE_THE_FLOOR = Guardrail(
    check=above_the_floor,
    say=say_least,
    meaning="The pool does not shrink below its minimum.",
    plain="it is at its minimum",
)
