"""Assign the waiting work to pools, over all pools at once: demand to nodes, one budget, one set of limits.

Capacity that exists or is on its way is filled first, so the same pods never cause a second request; new nodes are
opened in the cheapest pool that fits. Each new node is checked against budget, maximum and limits in that order, so the
guardrails of `decide` can say which one left how many. A gang is placed whole or not at all.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal

from receiver.core.model.model import Facts
from receiver.core.model.pods import Pod, Workload, gpus_of
from receiver.core.model.policy import Policy, Scope
from receiver.core.model.text import some
from receiver.core.money.budget import Budgets, BudgetView, Refusal, teams_of, views
from receiver.core.money.cost import unit_price
from receiver.core.scaling.bounds import BoundsInForce, Grace
from receiver.core.scaling.capacity import (
    COMING,
    NOT_ALLOWED,
    OPENED,
    RULES,
    USABLE,
    Allowance,
    Bin,
    Given,
    HeldWorkload,
    Requests,
    Tally,
    open_tally,
)
from receiver.core.scaling.demand import missing_pods, preference, take, workloads
from receiver.core.scaling.failures import Failure, Failures, LeftOut
from receiver.core.scaling.filling import rearranged, serve_again
from receiver.core.scaling.market import Headroom, Matching, gang_kind, keep_warm, refused, requests_of
from receiver.core.scaling.packing import may_not_return, movable


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A workload that no pool can ever hold."""

    workload: Workload
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the assignment asks of one pool, in nodes beyond those that exist or are on their way.

    *for_demand*, *for_floor*, *for_standby* and *for_headroom* are what is wanted; *within_budget* >= *within_maximum*
    >= *within_limits* how many of them each check leaves, in that order, *within_stock* how many to ask for right after
    Civo refused more (None: it did not). *needed* are the instances that waiting work would use, *asking* the workloads
    that the new nodes are for.
    """

    pool: str
    bounds: BoundsInForce
    for_demand: int = 0
    for_floor: int = 0
    for_standby: int = 0
    for_headroom: int = 0
    within_budget: int = 0
    within_maximum: int = 0
    within_limits: int = 0
    within_stock: int | None = None
    needed: frozenset[str] = frozenset()
    asking: tuple[Workload, ...] = ()
    waiting_gpus: int = 0
    settled: tuple[str, ...] = ()  # workloads that fit existing or coming nodes
    placed: tuple[tuple[str, str], ...] = ()  # of those, the ones that fit a usable node: (workload, instance)
    held: tuple[HeldWorkload, ...] = ()
    given: tuple[Given, ...] = field(default=(), compare=False)  # the rooms of *asking* and *settled*
    movable: frozenset[str] = frozenset()  # busy instances whose pods consented to move and fit elsewhere
    budget: BudgetView | None = None  # the cluster's
    unreturning: frozenset[str] = frozenset()  # instances with a pod that would be kept out if it started again
    stopped: bool = False  # a budget of the whole pool is beyond its stop line: empty nodes go, below the floor too
    uncovered: tuple[Refusal, ...] = ()  # one of each budget that did not cover a node
    refused: Mapping[str, Refusal] = field(default_factory=dict)  # workloads that a budget does not cover
    graces: tuple[Grace, ...] = ()  # of the open windows that evict
    headroom: Headroom | None = None  # None: it keeps nothing warm
    failed: str = ""  # the internal error for which the pool was set aside

    @property
    def new_nodes(self) -> int:
        """All nodes wanted beyond those that exist."""
        return self.for_demand + self.for_floor + self.for_standby + self.for_headroom


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The whole assignment: one Wanted per pool, what fits nowhere, and the budgets they share."""

    pools: Mapping[str, Wanted]
    misfits: tuple[Misfit, ...] = ()
    budgets: Budgets = field(default_factory=Budgets)

    @property
    def budget(self) -> BudgetView | None:
        return self.budgets.of(Scope.CLUSTER)


def assign(facts: Facts, policy: Policy, failures: Failures | None = None) -> Assignment:
    """Return what each pool should have beyond what it has, and why some work stays waiting.

    Served first: workloads by priority and age, then floors, standby nodes, headroom. So a budget that cannot serve all
    drops expected work first. An exception that belongs to a pool or a workload is noted in *failures*, and the rest is
    assigned again without it. Without *failures*, or where it belongs to neither, it is raised.
    """
    if failures is None:
        return _assign(facts, policy, {}, LeftOut())
    left_out = LeftOut()
    while True:
        try:
            return _assign(left_out.of(facts) if left_out else facts, policy, failures.set_aside, left_out)
        except Exception as error:  # noqa: BLE001  # recorded; the rest goes on
            left_out.learn(error, failures)


def _assign(facts: Facts, policy: Policy, aside: Mapping[str, Failure], left_out: LeftOut) -> Assignment:
    budgets = views(facts, policy)
    allowance = Allowance(facts, policy, budgets)
    waiting = workloads(facts.waiting, facts.bound_gangs)
    if any(view.scope is Scope.TEAM for view in budgets.views):
        _reserve_for_teams(facts, policy, waiting, allowance, aside)
    tallies, misfits = _served(facts, policy, waiting, allowance, aside, left_out)
    served = {pool: tally for pool, tally in tallies.items() if pool not in aside}
    for tally in served.values():
        _hold_floor(tally, allowance)
    out = refused(waiting, served, facts, left_out.pairs)
    for tally in served.values():
        if tally.pool.id not in out.pools:
            _keep_standby(tally, allowance)
    headroom = keep_warm(served, facts, policy, allowance, out)
    empties = movable(served.values(), facts.at)
    # Work that is moved or evicted while a hold lasts could not start again.
    nodes = [n for s in facts.pools for n in s.nodes] if budgets.holding or facts.kept_out else []
    unreturning = frozenset(n.instance for n in nodes if any(may_not_return(pod, policy) for pod in n.pods))
    wanted = {i: _wanted(x, budgets, empties - unreturning, unreturning, headroom.get(i)) for i, x in served.items()}
    for p in policy.pools:
        if p.id in aside:
            bounds = BoundsInForce(min_nodes=p.min_nodes, max_nodes=p.max_nodes, standby_nodes=p.standby_nodes)
            wanted[p.id] = Wanted(pool=p.id, bounds=bounds, failed=str(aside[p.id]))
    return Assignment(pools=wanted, misfits=misfits, budgets=budgets)


def _open_tallies(facts: Facts, policy: Policy, budgets: Budgets, aside: Collection[str]) -> dict[str, Tally]:
    """The tallies of the pools. One that is set *aside* does not grow. Its room counts as far as it is known, or the
    same pods would cause another purchase."""
    tallies: dict[str, Tally] = {}
    for pool in policy.pools:
        with suppress(Exception) if pool.id in aside else nullcontext():
            tally = tallies[pool.id] = open_tally(pool, facts, budgets)
            tally.room = 0 if pool.id in aside else tally.room
    return tallies


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    misfits: tuple[Misfit, ...]
    without_room: tuple[Workload, ...]
    matching: Matching


def _served(
    facts: Facts,
    policy: Policy,
    waiting: Sequence[Workload],
    allowance: Allowance,
    aside: Collection[str],
    left_out: LeftOut,
) -> tuple[dict[str, Tally], tuple[Misfit, ...]]:
    """Serve *waiting* in order; then once more with the rooms rearranged, where that needs fewer new nodes."""
    before, pairs = allowance.mark(), left_out.pairs
    tallies = _open_tallies(facts, policy, allowance.budgets, aside)
    first = _serve_all(waiting, tuple(tallies.values()), allowance, pairs)
    if not left_out.rearranges:
        return tallies, first.misfits
    after, order = allowance.mark(), {w.key: n for n, w in enumerate(waiting)}
    for seats in rearranged(tuple(tallies.values()), first.without_room, first.matching.fitting):
        allowance.return_to(before)
        before = allowance.mark()
        again = _open_tallies(facts, policy, allowance.budgets, aside)
        if serve_again(seats, order, again, allowance):
            seated = {workload.key for workload, _ in seats}
            left = [w for w in waiting if w.key not in seated]
            second = _serve_all(left, tuple(again.values()), allowance, pairs)
            if _lacking(again) < _lacking(tallies):
                return again, second.misfits
        allowance.return_to(after)
        after = allowance.mark()
    return tallies, first.misfits


def _lacking(tallies: Mapping[str, Tally]) -> tuple[int, int]:
    left_out = sum(not given.whole for tally in tallies.values() for given in tally.given)
    held = sum(len(tally.held) for tally in tallies.values())
    return left_out + held, sum(tally.counts["demand"] for tally in tallies.values())


def _serve_all(
    waiting: Sequence[Workload], tallies: Sequence[Tally], allowance: Allowance, pairs: Collection[tuple[str, str]] = ()
) -> Served:
    """Give each of *waiting* room, in order. *pairs* of an owner of work and a pool are kept apart."""
    matching = Matching(tallies, pairs)
    for workload in waiting:
        if not workload.gang:
            matching.market(workload.pods[0]).enter(workload.pods[0])
    misfits: list[Misfit] = []
    unserved: set[str] = set()  # gangs without room: pods beyond their minimum do not start either
    for workload in waiting:
        misfits += _serve(workload, matching, allowance, unserved)
    nowhere = {misfit.workload.key for misfit in misfits}
    gangs = (w for w in waiting if w.gang and w.key in unserved and w.key not in nowhere and not missing_pods(w))
    return Served(misfits=tuple(misfits), without_room=tuple(gangs), matching=matching)


def _reserve_for_teams(
    facts: Facts, policy: Policy, waiting: Sequence[Workload], allowance: Allowance, aside: Collection[str]
) -> None:
    """Reserve what waiting work of teams will hold of nodes that exist or are on their way: no pod holds them yet, and
    the same money would be spent again."""
    tallies = tuple(_open_tallies(facts, policy, allowance.budgets, aside).values())
    _serve_all(waiting, tallies, Allowance(facts, policy, allowance.budgets, closed=True))
    for tally in tallies:
        price, labels = tally.pool.price_usd_per_hour, tally.pool.labels
        if price is None:
            continue
        of_a_node = unit_price(price, policy.billing) / Decimal(gpus_of(tally.pool.resources, labels))
        for workload in tally.settled:
            share = Decimal(sum(gpus_of(pod.requests, labels) for pod in workload.pods)) * of_a_node
            for team in teams_of(workload, policy, allowance.budgets):
                if (Scope.TEAM, team) in allowance.left:
                    allowance.left[Scope.TEAM, team] -= share


def _serve(workload: Workload, matching: Matching, allowance: Allowance, unserved: set[str]) -> list[Misfit]:
    """Give *workload* room in one of the pools, or record there why not, and in *unserved* a gang; a Misfit if no pool
    can hold it."""
    first = workload.pods[0]
    if not workload.gang:
        matching.market(first).leave(first)
    fitting = [matching.fitting(pod) for pod in workload.pods]
    if not all(fitting):
        alone = next(pod for pod, found in zip(workload.pods, fitting, strict=True) if not found)
        unserved.add(workload.key)
        what = f"gang {workload.key} of {len(workload.pods)} pods" if workload.gang else f"pod {first.key}"
        each = [f"{name}: {reason}" for name, reason in matching.refusals(alone).items()]
        return [Misfit(workload=workload, detail=f"No GPU pool can hold {what}. {'; '.join(each)}".rstrip())]
    others = [found for found in fitting[1:] if found is not fitting[0]]
    common = [x for x in fitting[0] if all(x in found for found in others)] if others else fitting[0]
    if missing := missing_pods(workload):
        lacks = f"gang {workload.key} lacks {some(missing, 'pod')} of {workload.least}; no node helps until they exist"
        _leave_waiting(workload, fitting[0][0], "gang_is_complete", lacks)
        unserved.add(workload.key)
    elif not workload.gang and first.gang in unserved:
        detail = f"pod {workload.key} is beyond the minimum of gang {first.gang}, which has no room yet"
        _leave_waiting(workload, common[0], "gangs_whole", detail)
    elif not workload.gang:
        _place_pod(workload, matching, common, allowance)
    elif common:
        if not _place_gang(workload, common, matching, allowance):
            unserved.add(workload.key)
    elif not _place_parts(workload, fitting, matching, allowance):
        unserved.add(workload.key)
    return []


def _leave_waiting(
    workload: Workload, tally: Tally, rule: str, detail: str, *, uncovered: bool = False, met: str = ""
) -> None:
    """Record in *tally* that *workload* got no room, and why: *uncovered* by a budget, or for another reason."""
    tally.waiting_gpus += workload.gpus
    mine = workload if uncovered else None
    tally.held.append(HeldWorkload(workload=workload.key, rule=rule, detail=detail, uncovered=mine, met=met))


def _place_pod(workload: Workload, matching: Matching, fitting: Sequence[Tally], allowance: Allowance) -> None:
    pod = workload.pods[0]
    asks, kind = pod.asks, requests_of(pod)
    for shelf in (USABLE, OPENED):
        for tally in fitting:
            room = tally.settle(asks, shelf, kind)
            if room is not None:
                tally.give(Given(workload=workload, rooms=(room,)), asks=room.bought)
                return
    ordered = matching.market(pod).order(pod)
    for tally in ordered:
        if tally.begin() and (room := tally.settle(asks, OPENED, kind)) is not None:
            tally.give(Given(workload=workload, rooms=(room,)), asks=room.bought)
            return
    chosen, allowed = _where_to_buy(ordered, allowance, workload)
    blocked = chosen.blocked
    if allowed < len(RULES) or blocked:
        left_out = chosen.settle(asks, NOT_ALLOWED, kind)
        if left_out is not None:
            if allowed == 0:
                allowance.refuse(chosen, 1, workload)
            chosen.give(Given(workload=workload, rooms=(left_out,)), asks=True)
            return
    allowance.open(chosen, "demand", workload=workload, passed=allowed)
    opened = chosen.new_bin()
    opened.allowed = allowed == len(RULES) and not blocked
    take(opened.free, asks)
    chosen.add(opened)
    chosen.give(Given(workload=workload, rooms=(opened,)), asks=True)


def _where_to_buy(fitting: Sequence[Tally], allowance: Allowance, workload: Workload) -> tuple[Tally, int]:
    """The cheapest pool that may grow, else the cheapest whose checks pass, else the cheapest (it will say why not);
    and how many checks one node of it passes.

    A pool that requests fewer nodes after a refusal keeps its work for these seconds: then the next pool gets the rest
    at once.
    """
    first: Tally | None = None
    for tally in fitting:
        if allowance.passes(tally, 1, workload) == len(RULES):
            if not tally.blocked or tally.gang_room is not None:
                return tally, len(RULES)
            first = first or tally
    if first is not None:
        return first, len(RULES)
    cheapest = next((x for x in fitting if not x.blocked and not x.full), fitting[0])
    return cheapest, allowance.passes(cheapest, 1, workload)


def _place_gang(workload: Workload, fitting: Sequence[Tally], matching: Matching, allowance: Allowance) -> bool:
    """Put all pods of a gang into one pool, or none at all; return whether it was placed."""
    kind, gpus = gang_kind(workload), workload.gpus
    for tally in fitting:
        if tally.free >= gpus and tally.too_small.get(kind) != tally.rooms:
            if _try_gang(workload, tally, allowance, most=0):
                return True
            tally.too_small[kind] = tally.rooms  # room only shrinks, so the next gang like it need not try
    ordered = matching.gang_order(workload, fitting)
    coming = (tally for tally in ordered if tally.shelves[COMING])
    if any(_try_gang(workload, tally, allowance, most=0, begin=True) for tally in coming):
        return True
    ready_first = sorted(_by_new_nodes(workload, ordered), key=lambda x: x.blocked or x.full)
    if any(_try_gang(workload, tally, allowance, begin=True) for tally in ready_first):
        return True
    tally = next((x for x in ordered if not x.blocked), ordered[0])
    trial = [b.copy() for b in tally.roomy()]
    begun = len(trial)
    _fill(trial, workload.pods, tally)
    opened = len(trial) - begun
    passed = allowance.passes(tally, opened, workload)
    met = RULES[min(passed, len(RULES) - 1)]
    leaves = f"{met} leaves fewer"
    if passed == len(RULES) and not tally.holds_gang(opened):
        met, leaves = "", f"Civo has just refused {tally.state.refused} nodes in all for pool {tally.pool.name}"
    priced = tally.pool.price_usd_per_hour is not None
    short = allowance.refusing(tally, opened, workload) if priced and passed == 0 else None
    if short is not None:
        met, leaves = short.rule, f"{short.rule} leaves fewer ({short.why})"
    detail = f"gang {workload.key} needs {opened} new nodes at once or none, and {leaves}"
    _leave_waiting(workload, tally, "gangs_whole", detail, uncovered=short is not None, met=met)
    return False


def _by_new_nodes(workload: Workload, tallies: Sequence[Tally]) -> Sequence[Tally]:
    """*tallies* by what the gang prefers, then by the cost of the new nodes that it needs beside existing room."""
    if len(tallies) < 2 or not any(tally.free or tally.shelves[COMING] for tally in tallies):
        return tallies
    costs: dict[str, tuple[int, Decimal]] = {}
    for tally in tallies:
        trial = [b.copy() for b in (*tally.roomy(), *tally.shelves[COMING])]
        there = len(trial)
        _fill(trial, workload.pods, tally)
        liked = sum(preference(pod, tally.pool) for pod in workload.pods if pod.preferred)
        costs[tally.pool.id] = -liked, tally.price * (len(trial) - there)
    return sorted(tallies, key=lambda x: costs[x.pool.id])


def _try_gang(
    workload: Workload, tally: Tally, allowance: Allowance, most: int | None = None, begin: bool = False
) -> bool:
    """Place the whole gang in the pool of *tally* with at most *most* new nodes; False changes nothing.

    A guardrail may still hold some of them. *begin* also fills nodes that are on their way and not yet begun.
    """
    coming = tally.shelves[COMING] if begin else []
    begun = tally.roomy()
    rooms = [*begun, *coming]
    trial = [b.copy() for b in rooms]
    for tried in trial:
        tried.used = False
    places = _fill(trial, workload.pods, tally)
    opened = len(trial) - len(rooms)
    if most is not None and opened > most:
        return False
    if not tally.holds_gang(opened) or (opened and allowance.passes(tally, opened, workload) < len(RULES)):
        return False
    tally.admit_gang(opened)
    tally.free -= sum(room.gpus for room in begun) - sum(tried.gpus for tried in trial[: len(begun)])
    for room, tried in zip(rooms, trial, strict=False):
        room.free, room.used = tried.free, room.used or tried.used
    tally.begin([room for room in coming if room.used])
    for number, room in enumerate(trial[len(rooms) :]):
        room.allowed = number < tally.room_left
        tally.add(room)
    if opened:
        allowance.open(tally, "demand", opened, workload, passed=len(RULES))
    found = [*rooms, *trial[len(rooms) :]]
    tally.give(Given(workload=workload, rooms=tuple(found[place] for place in places)), asks=opened > 0)
    return True


def _place_parts(
    workload: Workload, fitting: Sequence[Sequence[Tally]], matching: Matching, allowance: Allowance
) -> bool:
    """Place a gang whose pods fit different pools: each part whole in one pool, and all parts or none. Return whether
    it was placed."""
    parts: dict[tuple[str, ...], list[Pod]] = {}
    pools: dict[tuple[str, ...], Sequence[Tally]] = {}
    for pod, found in zip(workload.pods, fitting, strict=True):
        key = tuple(x.pool.id for x in found)
        parts.setdefault(key, []).append(pod)
        pools[key] = found
    tallies = {x.pool.id: x for found in fitting for x in found}
    before = {pool: tally.mark() for pool, tally in tallies.items()}
    shared = allowance.mark()
    for key, pods in parts.items():
        part = replace(workload, pods=tuple(pods))
        ordered = sorted(matching.gang_order(part, pools[key]), key=lambda x: x.blocked or x.full)
        if not any(_try_gang(part, tally, allowance, begin=True) for tally in ordered):
            for pool, tally in tallies.items():
                tally.return_to(before[pool])
            allowance.return_to(shared)
            detail = f"the parts of gang {workload.key} fit different pools, and not all of those have room for it"
            _leave_waiting(workload, ordered[0], "gangs_whole", detail)
            return False
    return True


def _fill(bins: list[Bin], pods: Sequence[Pod], tally: Tally) -> list[int]:
    """Pack *pods* into *bins*, opening new ones at the end; return each pod's index in *bins*."""
    places: list[int] = []
    begin: dict[Requests, int] = {}  # room only shrinks, so a bin that holds no pod of a kind never will
    for pod in pods:
        asks, kind = pod.asks, requests_of(pod)
        place = begin.get(kind, 0)
        while place < len(bins) and not take(bins[place].free, asks):
            place += 1
        begin[kind] = place
        if place == len(bins):
            bins.append(tally.new_bin())
            take(bins[place].free, asks)
        bins[place].used = True
        places.append(place)
    return places


def _hold_floor(tally: Tally, allowance: Allowance) -> None:
    """Open nodes up to the floor, each checked by itself; nodes that the checks leave out do not count."""
    for _ in range(tally.bounds.min_nodes - tally.state.required - tally.within[-1]):
        allowance.open(tally, "floor")
        tally.add(Bin(pool=tally.pool.id, instance=None, free=dict(tally.offer)))


def _keep_standby(tally: Tally, allowance: Allowance) -> None:
    busy = {n.instance for n in tally.state.nodes if n.busy}
    spare = len([b for b in tally.bins if not b.used and b.instance not in busy])
    for _ in range(tally.bounds.standby_nodes - spare):
        allowance.open(tally, "standby")


def _wanted(
    tally: Tally, budgets: Budgets, empties: frozenset[str], unreturning: frozenset[str], headroom: Headroom | None
) -> Wanted:
    instances = {n.instance for n in tally.state.nodes}
    return Wanted(
        pool=tally.pool.id,
        bounds=tally.bounds,
        for_demand=tally.counts["demand"],
        for_floor=tally.counts["floor"],
        for_standby=tally.counts["standby"],
        for_headroom=tally.counts["headroom"],
        headroom=headroom,
        within_budget=tally.within[0],
        within_maximum=tally.within[1],
        within_limits=tally.within[2],
        within_stock=None if tally.gang_room is None else tally.room,
        needed=frozenset(b.instance for b in tally.bins if b.used and b.instance is not None),
        asking=tuple(tally.asking),
        waiting_gpus=tally.waiting_gpus,
        settled=tuple(workload.key for workload in tally.settled),
        placed=tuple(tally.placed),
        held=tuple(tally.held),
        given=tuple(tally.given),
        movable=empties & instances,
        unreturning=unreturning & instances,
        budget=budgets.of(Scope.CLUSTER),
        stopped=budgets.stopped(tally.pool.id),
        uncovered=tuple(tally.uncovered.values()),
        refused=dict(tally.refused),
        graces=tally.graces,
    )
