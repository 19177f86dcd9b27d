"""Serve the work that waits: workloads by priority and age, gangs whole, single pods where they cost least.

Capacity that exists or is on its way is filled first, so the same pods never cause a second request; new nodes are
opened in the cheapest pool that fits. Each new node is checked against budget, maximum and limits in that order.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal

from receiver.core.model.pods import Workload, gpus_of, owner_of
from receiver.core.model.policy import Scope
from receiver.core.model.text import some
from receiver.core.money.budget import teams_of
from receiver.core.money.cost import unit_price
from receiver.core.scaling.capacity import RULES, Allowance, Tally, open_tally, paid_for
from receiver.core.scaling.demand import missing_pods
from receiver.core.scaling.failures import Extra, blame
from receiver.core.scaling.filling import rearranged, serve_again
from receiver.core.scaling.gangs import hold_refused, leave_waiting, place_gang, place_parts
from receiver.core.scaling.market import Matching
from receiver.core.scaling.neighbours import Neighbours
from receiver.core.scaling.rooms import NOT_ALLOWED, OPENED, USABLE
from receiver.core.scaling.template import labels_of_gpu
from receiver.core.scaling.wanted import Draft, Misfit
from receiver.core.scaling.witness import Barred, settle_alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    misfits: tuple[Misfit, ...]
    without_room: tuple[Workload, ...]
    matching: Matching


def serve_demand(draft: Draft) -> None:
    """Give the waiting work room, in order; then once more with the rooms rearranged, where that needs fewer new nodes.
    What waiting work of teams will hold is reserved first."""
    allowance, waiting = draft.allowance, draft.waiting
    if any(view.scope is Scope.TEAM for view in allowance.budgets.views):
        _reserve_for_teams(draft)
    before = allowance.mark()
    draft.tallies = _open_tallies(draft)
    first = _serve_all(waiting, draft, allowance)
    draft.misfits = first.misfits
    if Extra.REARRANGING in draft.left_out.parts:
        return
    tallies, after, order = draft.tallies, allowance.mark(), {w.key: n for n, w in enumerate(waiting)}
    with blame(part=Extra.REARRANGING):
        on_trial = draft.barred.on_trial
        for seats in rearranged(tuple(tallies.values()), first.without_room, first.matching.fitting, on_trial):
            allowance.return_to(before)
            before = allowance.mark()
            draft.tallies = _open_tallies(draft)
            if serve_again(seats, order, draft.tallies, allowance):
                seated = {workload.key for workload, _ in seats}
                second = _serve_all([w for w in waiting if w.key not in seated], draft, allowance)
                if _lacking(draft.tallies) < _lacking(tallies):
                    draft.misfits = second.misfits
                    return
            draft.tallies = tallies
            allowance.return_to(after)
            after = allowance.mark()


def _open_tallies(draft: Draft) -> dict[str, Tally]:
    """The tallies of the pools. One that is set aside does not grow. Its room counts as far as it is known, or the same
    pods would cause another purchase."""
    facts, budgets, aside = draft.facts, draft.allowance.budgets, draft.aside
    tallies: dict[str, Tally] = {}
    labels: dict[str, Mapping[str, str]] = {}
    for pool in draft.policy.pools:
        with suppress(Exception):  # `open_tally` reads them too, and blames the pool
            labels[pool.id] = pool.offered_labels
    neighbours, paid = Neighbours.of(facts, labels, aside), paid_for(facts, draft.policy)
    for pool in draft.policy.pools:
        with suppress(Exception) if pool.id in aside else blame(pool=pool.id):
            tally = tallies[pool.id] = open_tally(pool, facts, budgets, neighbours, paid.get(pool.id))
            tally.room = 0 if pool.id in aside else tally.room
    return tallies


def _lacking(tallies: Mapping[str, Tally]) -> tuple[int, int]:
    left_out = sum(not placement.whole for tally in tallies.values() for placement in tally.given)
    held = sum(len(tally.held) for tally in tallies.values())
    return left_out + held, sum(tally.counts["demand"] for tally in tallies.values())


def _serve_all(waiting: Sequence[Workload], draft: Draft, allowance: Allowance) -> Served:
    """Give each of *waiting* room in the draft's tallies, in order, but none that the scheduler refuses."""
    barred, matching = draft.barred, draft.matching(tuple(draft.tallies.values()))
    for workload in waiting:
        with blame(owner=owner_of(workload.pods[0])):
            if not workload.gang and workload.key not in barred.workloads:
                matching.market(workload.pods[0]).enter(workload.pods[0])
    misfits: list[Misfit] = []
    unserved: set[str] = set()  # gangs without room: pods beyond their minimum do not start either
    for workload in waiting:
        with blame(owner=owner_of(workload.pods[0])):
            misfits += _serve(workload, matching, allowance, unserved, barred)
    nowhere = {*barred.workloads, *(misfit.workload.key for misfit in misfits)}
    gangs = (w for w in waiting if w.gang and w.key in unserved and w.key not in nowhere and not missing_pods(w))
    return Served(misfits=tuple(misfits), without_room=tuple(gangs), matching=matching)


def _reserve_for_teams(draft: Draft) -> None:
    """Reserve what waiting work of teams will hold of nodes that exist or are on their way: no pod holds them yet, and
    the same money would be spent again."""
    draft.tallies = _open_tallies(draft)
    _serve_all(draft.waiting, draft, Allowance(draft.facts, draft.policy, draft.allowance.budgets, closed=True))
    for tally in draft.tallies.values():
        with blame(pool=tally.pool.id):
            _reserve_settled(tally, draft.allowance)


def _reserve_settled(tally: Tally, allowance: Allowance) -> None:
    price, labels = tally.pool.price_usd_per_hour, labels_of_gpu(tally.pool, tally.state.offer)
    if price is None:
        return
    of_a_node = unit_price(price, allowance.policy.billing) / Decimal(gpus_of(tally.pool.resources, labels))
    for workload in (placement.workload for placement in tally.given if not placement.buys):
        with blame(owner=owner_of(workload.pods[0])):
            share = Decimal(sum(gpus_of(pod.requests, labels) for pod in workload.pods)) * of_a_node
            for team in teams_of(workload, allowance.policy, allowance.budgets):
                if (Scope.TEAM, team) in allowance.left:
                    allowance.left[Scope.TEAM, team] -= share


def _serve(
    workload: Workload, matching: Matching, allowance: Allowance, unserved: set[str], barred: Barred
) -> list[Misfit]:
    """Give *workload* room in one of the pools, or record there why not, and in *unserved* a gang; a Misfit if no pool
    can hold it."""
    first = workload.pods[0]
    refusal = barred.workloads.get(workload.key)
    if not workload.gang and refusal is None:
        matching.market(first).leave(first)
    fitting = [matching.fitting(pod) for pod in workload.pods]
    if not all(fitting):
        alone = next(pod for pod, tallies in zip(workload.pods, fitting, strict=True) if not tallies)
        unserved.add(workload.key)
        subject = f"gang {workload.key} of {len(workload.pods)} pods" if workload.gang else f"pod {first.key}"
        reasons = "; ".join(f"{name}: {reason}" for name, reason in matching.refusals(alone).items())
        return [Misfit(workload=workload, detail=f"No GPU pool can hold {subject}. {reasons}".rstrip(), why=reasons)]
    others = [tallies for tallies in fitting[1:] if tallies is not fitting[0]]
    common = [x for x in fitting[0] if all(x in tallies for tallies in others)] if others else fitting[0]
    if refusal is not None:
        hold_refused(workload, common[0] if common else fitting[0][0], refusal)
        unserved.add(workload.key)
    elif missing := missing_pods(workload):
        lacks = f"gang {workload.key} lacks {some(missing, 'pod')} of {workload.least}; no node helps until they exist"
        leave_waiting(workload, fitting[0][0], "gang_is_complete", lacks)
        unserved.add(workload.key)
    elif not workload.gang and first.gang in unserved:
        detail = f"pod {workload.key} is beyond the minimum of gang {first.gang}, which has no room yet"
        leave_waiting(workload, common[0], "gangs_whole", detail)
    elif not workload.gang:
        misfit = _place_pod(workload, matching, common, allowance, on_trial=workload.key in barred.on_trial)
        return [misfit] if misfit is not None else []
    elif common:
        if not place_gang(workload, common, matching, allowance):
            unserved.add(workload.key)
    elif not place_parts(workload, fitting, matching, allowance):
        unserved.add(workload.key)
    return []


def _place_pod(
    workload: Workload, matching: Matching, fitting: Sequence[Tally], allowance: Allowance, *, on_trial: bool = False
) -> Misfit | None:
    """Give a pod on its own room that exists, is on its way or is bought; return why no new node would help it, if
    none would."""
    pod = workload.pods[0]
    with blame() as blamed:
        for tally in fitting if on_trial else ():
            blamed.pool = tally.pool.id
            if settle_alone(workload, tally):
                return None
        for shelf in (OPENED,) if on_trial else (USABLE, OPENED):
            for tally in fitting:
                blamed.pool = tally.pool.id
                room = tally.shelves.settle(pod, shelf)
                if room is not None:
                    tally.give(workload, (room,), buys=room.bought)
                    return None
    neighbours = fitting[0].shelves.neighbours
    if neighbours is not None and not neighbours.admits(object(), pod):
        lonely = "must run beside pods that its affinity names, and their nodes have no room for it"
        return Misfit(workload=workload, detail=f"pod {pod.key} {lonely}", why=f"it {lonely}")
    ordered = matching.market(pod).order(pod)
    useless: dict[str, str] = {}
    with blame() as blamed:
        for tally in ordered:
            blamed.pool = tally.pool.id
            if tally.shelves.begin() and (room := tally.shelves.settle(pod, OPENED)) is not None:
                tally.give(workload, (room,), buys=room.bought)
                return None
        for tally in ordered:
            blamed.pool = tally.pool.id
            if (reason := tally.shelves.why_spoilt([pod])) is not None:
                useless[tally.pool.name] = reason
    ordered = [tally for tally in ordered if tally.pool.name not in useless]
    if not ordered:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in useless.items())
        return Misfit(workload=workload, detail=f"no node is bought for pod {pod.key} ({reasons})", why=reasons)
    chosen, allowed = _where_to_buy(ordered, allowance, workload)
    with blame(pool=chosen.pool.id):
        _buy(workload, chosen, allowed, allowance)
    return None


def _buy(workload: Workload, chosen: Tally, allowed: int, allowance: Allowance) -> None:
    """Put *workload*, a single pod, into a new node of *chosen* that passes so many checks (*allowed*), or beside
    others in one that does not pass them all."""
    pod, blocked = workload.pods[0], chosen.blocked
    if allowed < len(RULES) or blocked:
        left_out = chosen.shelves.settle(pod, NOT_ALLOWED)
        if left_out is not None:
            if allowed == 0:
                allowance.refuse(chosen, 1, workload)
            chosen.give(workload, (left_out,), buys=True)
            return
    allowance.open(chosen, "demand", workload=workload, passed=allowed)
    opened = chosen.new_bin()
    opened.allowed = allowed == len(RULES) and not blocked
    opened.put(pod, pod.asks)
    chosen.shelves.add(opened)
    chosen.give(workload, (opened,), buys=True)


def _where_to_buy(fitting: Sequence[Tally], allowance: Allowance, workload: Workload) -> tuple[Tally, int]:
    """The cheapest pool that may grow, else the cheapest whose checks pass, else the cheapest (it will say why not);
    and how many checks one node of it passes.

    A pool that requests fewer nodes after a refusal keeps its work for these seconds: then the next pool gets the rest
    at once.
    """
    first: Tally | None = None
    with blame() as blamed:
        for tally in fitting:
            blamed.pool = tally.pool.id
            if allowance.passes(tally, 1, workload) == len(RULES):
                if not tally.blocked or tally.gang_room is not None:
                    return tally, len(RULES)
                first = first or tally
    if first is not None:
        return first, len(RULES)
    cheapest = next((x for x in fitting if not x.blocked and not x.full), fitting[0])
    with blame(pool=cheapest.pool.id):
        return cheapest, allowance.passes(cheapest, 1, workload)
