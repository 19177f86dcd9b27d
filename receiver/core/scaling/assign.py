"""Assign the waiting work to pools, over all pools at once: demand to nodes, one budget, one set of limits.

Capacity that exists or is on its way is filled first, so the same pods never cause a second request; new nodes are
opened in the cheapest pool that fits. Each new node is checked against budget, maximum and limits in that order, so the
guardrails of `decide` can say which one left how many. A gang is placed whole or not at all.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal

from receiver.core.model.model import Facts
from receiver.core.model.pods import Workload, gpus_of, owner_of
from receiver.core.model.policy import Policy, Scope
from receiver.core.model.text import some
from receiver.core.money.budget import Budgets, BudgetView, teams_of, views
from receiver.core.money.cost import unit_price
from receiver.core.scaling.admission import CheckAnswer, judge
from receiver.core.scaling.bounds import BoundsInForce
from receiver.core.scaling.buffers import KeptBuffer, keep_buffers
from receiver.core.scaling.capacity import (
    NOT_ALLOWED,
    OPENED,
    RULES,
    USABLE,
    Allowance,
    Given,
    Tally,
    hold_floor,
    keep_standby,
    open_tally,
)
from receiver.core.scaling.demand import missing_pods, workloads
from receiver.core.scaling.failures import Extra, Failure, Failures, LeftOut, blame
from receiver.core.scaling.filling import rearranged, serve_again
from receiver.core.scaling.gangs import hold_refused, leave_waiting, place_gang, place_parts, try_gang
from receiver.core.scaling.market import Headroom, Matching, keep_warm, refused
from receiver.core.scaling.neighbours import Neighbours
from receiver.core.scaling.packing import may_not_return, movable
from receiver.core.scaling.patience import Deadlines, PatientWork, deferred, next_purchase
from receiver.core.scaling.repair import under_repair
from receiver.core.scaling.template import labels_of_gpu
from receiver.core.scaling.wanted import Allowed, Funding, Instances, WaitingWork, Wanted
from receiver.core.scaling.witness import Barred, barred, settle_alone

NOT_BARRED = Barred()


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A workload that no pool can ever hold: a sentence, and *why*, which names no workload."""

    workload: Workload
    detail: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The whole assignment: one Wanted per pool, what fits nowhere, what may still wait, and the budgets they share."""

    pools: Mapping[str, Wanted]
    misfits: tuple[Misfit, ...] = ()
    patient: tuple[PatientWork, ...] = ()  # without room that exists or is on its way
    budgets: Budgets = field(default_factory=Budgets)
    buffers: tuple[KeptBuffer, ...] = ()
    answers: tuple[CheckAnswer, ...] = ()  # on the candidates for admission by Kueue

    @property
    def budget(self) -> BudgetView | None:
        return self.budgets.of(Scope.CLUSTER)


def assign(facts: Facts, policy: Policy, failures: Failures | None = None) -> Assignment:
    """Return what each pool should have beyond what it has, and why some work stays waiting.

    Served first: workloads by priority and age, then floors, standby nodes, headroom, buffers. So a budget that cannot
    serve all drops expected work first. Work that may still wait gets what room is left, and no new node. An exception
    that belongs to a pool or a workload is noted in *failures*, and the rest is assigned again without it. Without
    *failures*, or where it belongs to neither, it is raised.
    """
    if failures is None:
        return _assign(facts, policy, {}, LeftOut())
    left_out = LeftOut()
    while True:
        try:
            return _assign(left_out.of(facts), policy, failures.set_aside, left_out)
        except Exception as error:  # noqa: BLE001  # recorded; the rest goes on
            left_out.learn(error, failures)


def _assign(facts: Facts, policy: Policy, aside: Mapping[str, Failure], left_out: LeftOut) -> Assignment:
    budgets = views(facts, policy)
    allowance = Allowance(facts, policy, budgets)
    everything, deadlines = workloads(facts.waiting, facts.bound_gangs), Deadlines(facts, policy, aside)
    with blame(part=Extra.REFUSALS):
        out = Barred() if Extra.REFUSALS in left_out.parts else barred(facts, everything)
    patient = tuple(deadlines.patient(w for w in everything if w.key not in out.workloads))
    later = {work.workload.key for work in patient}
    waiting = tuple(w for w in everything if w.key not in later)
    if any(view.scope is Scope.TEAM for view in budgets.views):
        _reserve_for_teams(facts, waiting, allowance, aside, out)
    tallies, misfits = _served(facts, waiting, allowance, aside, left_out, out)
    with blame(part=Extra.CANDIDATES):
        answers = judge(facts, policy, tallies.values(), allowance, left_out.pairs) if facts.candidates else ()
    served = {pool: tally for pool, tally in tallies.items() if pool not in aside}
    for pool, tally in served.items():
        with blame(pool=pool):
            hold_floor(tally, allowance)
    without = refused(waiting, served, facts, left_out.pairs, out.workloads)
    for pool, tally in served.items():
        with blame(pool=pool):
            if pool not in without.pools:
                keep_standby(tally, allowance, facts.at)
    headroom = keep_warm(served, facts, policy, allowance, without, left_out.pairs)
    with blame(part=Extra.BUFFERS):
        buffers = keep_buffers(served, facts, allowance, without, left_out.pairs) if facts.buffers else ()
    patient = tuple(_without_room(patient, served, left_out.pairs, allowance)) if patient else ()
    empties = movable(served.values(), facts.at, left_out.pairs)
    wanted: dict[str, Wanted] = {}
    for pool, tally in served.items():
        with blame(pool=pool):
            staying = _unreturning(tally, facts, policy, budgets)
            nodes = Instances(
                movable=empties - staying, unreturning=staying, repairs=under_repair(tally, allowance, facts.at)
            )
            wanted[pool] = _wanted(tally, budgets, nodes, headroom.get(pool))
    for p in policy.pools:
        if p.id in aside:
            bounds = BoundsInForce(min_nodes=p.min_nodes, max_nodes=p.max_nodes, standby_nodes=p.standby_nodes)
            wanted[p.id] = Wanted(pool=p.id, bounds=bounds, failed=str(aside[p.id]))
    buys_at = next_purchase(patient) if patient else None
    if buys_at is not None:
        wanted = {pool: replace(each, buys_at=buys_at) for pool, each in wanted.items()}
    patient += tuple(deadlines.patient(deferred(facts), gated=True)) if facts.deferred else ()
    return Assignment(pools=wanted, misfits=misfits, patient=patient, budgets=budgets, buffers=buffers, answers=answers)


def _without_room(
    patient: Sequence[PatientWork],
    tallies: Mapping[str, Tally],
    pairs: Collection[tuple[str, str]],
    allowance: Allowance,
) -> Iterator[PatientWork]:
    """Give *patient* work what room is left that exists or is on its way; yield what finds none."""
    matching = Matching(tuple(tallies.values()), pairs)
    full: set[tuple[str, object]] = set()  # room only shrinks, so what a pool did not hold is not tried again
    for work in patient:
        first = work.workload.pods[0]
        with blame(owner=owner_of(first)) as blamed:
            fitting = [x for x in matching.fitting(first) if all(x in matching.fitting(p) for p in work.workload.pods)]
            for tally in fitting:
                blamed.pool = tally.pool.id
                place = tally.pool.id, tally.kinds(work.workload)
                if place in full:
                    continue
                if try_gang(work.workload, tally, allowance, most=0, begin=True):
                    break
                full.add(place)
            else:
                yield work


def _open_tallies(facts: Facts, allowance: Allowance, aside: Collection[str]) -> dict[str, Tally]:
    """The tallies of the pools. One that is set *aside* does not grow. Its room counts as far as it is known, or the
    same pods would cause another purchase."""
    tallies: dict[str, Tally] = {}
    labels: dict[str, Mapping[str, str]] = {}
    for pool in allowance.policy.pools:
        with suppress(Exception) if pool.id in aside else blame(pool=pool.id):
            labels[pool.id] = pool.offered_labels
    neighbours = Neighbours.of(facts, labels, aside)
    for pool in allowance.policy.pools:
        with suppress(Exception) if pool.id in aside else blame(pool=pool.id):
            tally = tallies[pool.id] = open_tally(pool, facts, allowance.budgets, neighbours)
            tally.room = 0 if pool.id in aside else tally.room
    return tallies


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    misfits: tuple[Misfit, ...]
    without_room: tuple[Workload, ...]
    matching: Matching


def _served(
    facts: Facts,
    waiting: Sequence[Workload],
    allowance: Allowance,
    aside: Collection[str],
    left_out: LeftOut,
    out: Barred,
) -> tuple[dict[str, Tally], tuple[Misfit, ...]]:
    """Serve *waiting* in order; then once more with the rooms rearranged, where that needs fewer new nodes."""
    before, pairs = allowance.mark(), left_out.pairs
    tallies = _open_tallies(facts, allowance, aside)
    first = _serve_all(waiting, tuple(tallies.values()), allowance, pairs, out)
    if Extra.REARRANGING in left_out.parts:
        return tallies, first.misfits
    after, order = allowance.mark(), {w.key: n for n, w in enumerate(waiting)}
    with blame(part=Extra.REARRANGING):
        for seats in rearranged(tuple(tallies.values()), first.without_room, first.matching.fitting, out.on_trial):
            allowance.return_to(before)
            before = allowance.mark()
            again = _open_tallies(facts, allowance, aside)
            if serve_again(seats, order, again, allowance):
                seated = {workload.key for workload, _ in seats}
                unseated = [w for w in waiting if w.key not in seated]
                second = _serve_all(unseated, tuple(again.values()), allowance, pairs, out)
                if _lacking(again) < _lacking(tallies):
                    return again, second.misfits
            allowance.return_to(after)
            after = allowance.mark()
    return tallies, first.misfits


def _lacking(tallies: Mapping[str, Tally]) -> tuple[int, int]:
    left_out = sum(not placement.whole for tally in tallies.values() for placement in tally.given)
    held = sum(len(tally.held) for tally in tallies.values())
    return left_out + held, sum(tally.counts["demand"] for tally in tallies.values())


def _serve_all(
    waiting: Sequence[Workload],
    tallies: Sequence[Tally],
    allowance: Allowance,
    pairs: Collection[tuple[str, str]] = (),
    out: Barred = NOT_BARRED,
) -> Served:
    """Give each of *waiting* room, in order, but none that is *out*. *pairs* of an owner of work and a pool are kept
    apart."""
    matching = Matching(tallies, pairs)
    for workload in waiting:
        with blame(owner=owner_of(workload.pods[0])):
            if not workload.gang and workload.key not in out.workloads:
                matching.market(workload.pods[0]).enter(workload.pods[0])
    misfits: list[Misfit] = []
    unserved: set[str] = set()  # gangs without room: pods beyond their minimum do not start either
    for workload in waiting:
        with blame(owner=owner_of(workload.pods[0])):
            misfits += _serve(workload, matching, allowance, unserved, out)
    nowhere = {*out.workloads, *(misfit.workload.key for misfit in misfits)}
    gangs = (w for w in waiting if w.gang and w.key in unserved and w.key not in nowhere and not missing_pods(w))
    return Served(misfits=tuple(misfits), without_room=tuple(gangs), matching=matching)


def _reserve_for_teams(
    facts: Facts,
    waiting: Sequence[Workload],
    allowance: Allowance,
    aside: Collection[str],
    out: Barred,
) -> None:
    """Reserve what waiting work of teams will hold of nodes that exist or are on their way: no pod holds them yet, and
    the same money would be spent again."""
    tallies = tuple(_open_tallies(facts, allowance, aside).values())
    _serve_all(waiting, tallies, Allowance(facts, allowance.policy, allowance.budgets, closed=True), out=out)
    for tally in tallies:
        with blame(pool=tally.pool.id):
            _reserve_settled(tally, allowance)


def _reserve_settled(tally: Tally, allowance: Allowance) -> None:
    price, labels = tally.pool.price_usd_per_hour, labels_of_gpu(tally.pool, tally.state.offer)
    if price is None:
        return
    of_a_node = unit_price(price, allowance.policy.billing) / Decimal(gpus_of(tally.pool.resources, labels))
    for workload in tally.settled:
        with blame(owner=owner_of(workload.pods[0])):
            share = Decimal(sum(gpus_of(pod.requests, labels) for pod in workload.pods)) * of_a_node
            for team in teams_of(workload, allowance.policy, allowance.budgets):
                if (Scope.TEAM, team) in allowance.left:
                    allowance.left[Scope.TEAM, team] -= share


def _serve(
    workload: Workload, matching: Matching, allowance: Allowance, unserved: set[str], out: Barred
) -> list[Misfit]:
    """Give *workload* room in one of the pools, or record there why not, and in *unserved* a gang; a Misfit if no pool
    can hold it."""
    first = workload.pods[0]
    refusal = out.workloads.get(workload.key)
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
        misfit = _place_pod(workload, matching, common, allowance, on_trial=workload.key in out.on_trial)
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
            if placement := settle_alone(workload, tally):
                tally.give(placement, asks=False)
                return None
        for shelf in (OPENED,) if on_trial else (USABLE, OPENED):
            for tally in fitting:
                blamed.pool = tally.pool.id
                room = tally.settle(pod, shelf, tally.kind(pod))
                if room is not None:
                    tally.give(Given(workload=workload, rooms=(room,)), asks=room.bought)
                    return None
    neighbours = fitting[0].neighbours
    if neighbours is not None and not neighbours.admits(object(), pod):
        lonely = "must run beside pods that its affinity names, and their nodes have no room for it"
        return Misfit(workload=workload, detail=f"pod {pod.key} {lonely}", why=f"it {lonely}")
    ordered = matching.market(pod).order(pod)
    useless: dict[str, str] = {}
    with blame() as blamed:
        for tally in ordered:
            blamed.pool = tally.pool.id
            if tally.begin() and (room := tally.settle(pod, OPENED, tally.kind(pod))) is not None:
                tally.give(Given(workload=workload, rooms=(room,)), asks=room.bought)
                return None
        for tally in ordered:
            blamed.pool = tally.pool.id
            if (reason := tally.why_spoilt([pod])) is not None:
                useless[tally.pool.name] = reason
    ordered = [tally for tally in ordered if tally.pool.name not in useless] if useless else ordered
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
        left_out = chosen.settle(pod, NOT_ALLOWED, chosen.kind(pod))
        if left_out is not None:
            if allowed == 0:
                allowance.refuse(chosen, 1, workload)
            chosen.give(Given(workload=workload, rooms=(left_out,)), asks=True)
            return
    allowance.open(chosen, "demand", workload=workload, passed=allowed)
    opened = chosen.new_bin()
    opened.allowed = allowed == len(RULES) and not blocked
    opened.put(pod, pod.asks)
    chosen.add(opened)
    chosen.give(Given(workload=workload, rooms=(opened,)), asks=True)


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


def _unreturning(tally: Tally, facts: Facts, policy: Policy, budgets: Budgets) -> frozenset[str]:
    """The instances whose work could not start again if it were moved or evicted now, because of a hold."""
    nodes = tally.state.nodes if budgets.holding or facts.kept_out else ()
    return frozenset(n.instance for n in nodes if any(may_not_return(pod, policy) for pod in n.pods))


def _wanted(tally: Tally, budgets: Budgets, nodes: Instances, headroom: Headroom | None) -> Wanted:
    existing = {n.instance for n in tally.state.nodes}
    budget, maximum, limits = tally.within
    needed = frozenset(b.instance for b in tally.bins if b.used and b.instance is not None) - tally.warm.keys()
    return Wanted(
        pool=tally.pool.id,
        bounds=tally.bounds,
        by_source=dict(tally.counts),
        allowed=Allowed(
            budget=budget, maximum=maximum, limits=limits, stock=None if tally.gang_room is None else tally.room
        ),
        work=WaitingWork(
            asking=tuple(tally.asking),
            buffers=tuple(tally.buffers),
            settled=tuple(workload.key for workload in tally.settled),
            placed=tuple(tally.placed),
            rooms=tuple(tally.given),
            held=tuple(tally.held),
            refused=dict(tally.refused),
            gpus=tally.waiting_gpus,
        ),
        nodes=Instances(
            needed=needed,
            warm=dict(tally.warm),
            movable=nodes.movable & existing,
            unreturning=nodes.unreturning & existing,
            repairs=nodes.repairs,
        ),
        money=Funding(
            budget=budgets.of(Scope.CLUSTER),
            uncovered=tuple(tally.uncovered.values()),
            stopped=budgets.stopped(tally.pool.id),
        ),
        graces=tally.graces,
        headroom=headroom,
    )
