"""Gangs get room whole or not at all: in one pool, or each part in one where their pods fit different pools."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from receiver.core.model.pods import Pod, Workload
from receiver.core.model.text import some
from receiver.core.scaling.capacity import COMING, RULES, Allowance, Bin, Given, HeldWorkload, Requests, Tally
from receiver.core.scaling.demand import preference, take
from receiver.core.scaling.market import Matching, gang_kind, requests_of


def leave_waiting(
    workload: Workload, tally: Tally, rule: str, detail: str, *, uncovered: bool = False, met: str = ""
) -> None:
    """Record in *tally* that *workload* got no room, and why: *uncovered* by a budget, or for another reason."""
    tally.waiting_gpus += workload.gpus
    mine = workload if uncovered else None
    tally.held.append(HeldWorkload(workload=workload.key, rule=rule, detail=detail, uncovered=mine, met=met))


def place_gang(workload: Workload, fitting: Sequence[Tally], matching: Matching, allowance: Allowance) -> bool:
    """Put all pods of a gang into one pool, or none at all; return whether it was placed."""
    kind, gpus = gang_kind(workload), workload.gpus
    for tally in fitting:
        if tally.free >= gpus and tally.too_small.get(kind) != tally.rooms:
            if try_gang(workload, tally, allowance, most=0):
                return True
            tally.too_small[kind] = tally.rooms  # room only shrinks, so the next gang like it need not try
    ordered = matching.gang_order(workload, fitting)
    coming = (tally for tally in ordered if tally.shelves[COMING])
    if any(try_gang(workload, tally, allowance, most=0, begin=True) for tally in coming):
        return True
    ready_first = sorted(_by_new_nodes(workload, ordered), key=lambda x: x.blocked or x.full)
    if any(try_gang(workload, tally, allowance, begin=True) for tally in ready_first):
        return True
    tally = next((x for x in ordered if not x.blocked), ordered[0])
    trial = [b.copy() for b in tally.roomy()]
    begun = len(trial)
    _fill(trial, workload.pods, tally)
    opened = len(trial) - begun
    passed = allowance.passes(tally, opened, workload)
    met = RULES[min(passed, len(RULES) - 1)]
    allows = f"guardrail {met} allows fewer"
    if passed == len(RULES) and not tally.holds_gang(opened):
        met, allows = "", f"Civo has just refused {tally.state.refused} nodes in all for pool {tally.pool.name}"
    priced = tally.pool.price_usd_per_hour is not None
    short = allowance.refusing(tally, opened, workload) if priced and passed == 0 else None
    if short is not None:
        met, allows = short.rule, f"guardrail {short.rule} allows fewer ({short.why})"
    detail = f"gang {workload.key} needs {some(opened, 'new node')} at once, but {allows}"
    leave_waiting(workload, tally, "gangs_whole", detail, uncovered=short is not None, met=met)
    return False


def _by_new_nodes(workload: Workload, tallies: Sequence[Tally]) -> Sequence[Tally]:
    """*tallies* by what the gang prefers, then by the cost of the new nodes that it needs beside existing room."""
    if len(tallies) < 2 or not any(tally.free or tally.shelves[COMING] for tally in tallies):
        return tallies
    costs: dict[str, tuple[int, Decimal]] = {}
    for tally in tallies:
        liked = sum(preference(pod, tally.pool) for pod in workload.pods if pod.preferred)
        costs[tally.pool.id] = -liked, tally.price * new_nodes(workload, tally)
    return sorted(tallies, key=lambda x: costs[x.pool.id])


def new_nodes(workload: Workload, tally: Tally, *, empty: bool = False) -> int:
    """How many new nodes *workload* needs in the pool of *tally* beside room that exists or is on its way; all of its
    nodes if the pool were *empty*."""
    trial = [] if empty else [b.copy() for b in (*tally.roomy(), *tally.shelves[COMING])]
    there = len(trial)
    _fill(trial, workload.pods, tally)
    return len(trial) - there


def try_gang(
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
        if tried.used and room.instance is not None:
            tally.warm.pop(room.instance, None)  # no buffer alone keeps it any more
    tally.begin([room for room in coming if room.used])
    for number, room in enumerate(trial[len(rooms) :]):
        room.allowed = number < tally.room_left
        tally.add(room)
    if opened:
        allowance.open(tally, "demand", opened, workload, passed=len(RULES))
    found = [*rooms, *trial[len(rooms) :]]
    tally.give(Given(workload=workload, rooms=tuple(found[place] for place in places)), asks=opened > 0)
    return True


def place_parts(
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
        if not any(try_gang(part, tally, allowance, begin=True) for tally in ordered):
            for pool, tally in tallies.items():
                tally.return_to(before[pool])
            allowance.return_to(shared)
            detail = f"the parts of gang {workload.key} fit different pools, and not all of these have room"
            leave_waiting(workload, ordered[0], "gangs_whole", detail)
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
