"""Gangs get room whole or not at all: in one pool, or each part in one where their pods fit different pools."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial

from receiver.core.model.pods import Pod, Workload
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.text import some
from receiver.core.scaling.capacity import RULES, Allowance, HeldWorkload, Tally
from receiver.core.scaling.demand import preference
from receiver.core.scaling.failures import blame
from receiver.core.scaling.market import Matching, ranked
from receiver.core.scaling.rooms import COMING, Bin, Kind


def leave_waiting(workload: Workload, tally: Tally, rule: str, detail: str) -> None:
    """Record in *tally* that *workload* got no room, and why."""
    tally.held.append(HeldWorkload(workload=workload.key, rule=rule, detail=detail, gpus=workload.gpus))


def hold_refused(workload: Workload, tally: Tally, refusal: SchedulerRefusal) -> None:
    """Record in *tally* that *workload* gets no room, because the scheduler refuses it. It waits for no GPU there."""
    tally.held.append(HeldWorkload(workload=workload.key, rule="scheduler_refuses", detail="", refusal=refusal))


def place_gang(workload: Workload, fitting: Sequence[Tally], matching: Matching, allowance: Allowance) -> bool:
    """Put all pods of a gang into one pool, or none at all; return whether it was placed."""
    gpus, needs = workload.gpus, _Needs(workload)
    with blame() as blamed:
        for tally in fitting:
            blamed.pool = tally.pool.id
            shelves, kind = tally.shelves, needs.kind(tally)
            if shelves.free >= gpus and shelves.too_small.get(kind) != shelves.open_count:
                if needs.new_nodes(tally, begun=True) == 0 and try_gang(workload, tally, allowance, most=0):
                    return True
                shelves.too_small[kind] = shelves.open_count  # room only shrinks, so the next gang like it need not try
    ordered = matching.gang_order(workload, fitting)
    coming = (tally for tally in ordered if tally.shelves.at[COMING])
    if any(try_gang(workload, tally, allowance, most=0, begin=True) for tally in coming):
        return True
    ready_first = ranked(_by_new_nodes(needs, ordered), lambda x: (x.blocked or x.full,))
    if any(needs.pass_checks(x, allowance) and try_gang(workload, x, allowance, begin=True) for x in ready_first):
        return True
    tally = next((x for x in ordered if not x.blocked), ordered[0])
    with blame(pool=tally.pool.id):
        _leave_without_nodes(needs, tally, allowance)
    return False


class _Needs:
    """How many new nodes a gang needs in each pool: as many as gangs before it that ask for the same, until the room in
    the pool changes."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._kinds: dict[str, Kind] = {}

    def kind(self, tally: Tally) -> Kind:
        """What decides which room in the pool takes the gang."""
        if tally.pool.id not in self._kinds:
            self._kinds[tally.pool.id] = tuple(map(tally.shelves.kind, self.workload.pods))
        return self._kinds[tally.pool.id]

    def new_nodes(self, tally: Tally, *, begun: bool = False) -> int | None:
        """The `new_nodes` of the gang."""
        shelves = tally.shelves
        if shelves.neighbours is not None:  # what changes in other pools may count, too
            return new_nodes(self.workload, tally, begun=begun)
        key = begun or not shelves.at[COMING], self.kind(tally)
        if key not in shelves.needed or shelves.needed[key][0] != shelves.changes:
            shelves.needed[key] = shelves.changes, new_nodes(self.workload, tally, begun=begun)
        return shelves.needed[key][1]

    def pass_checks(self, tally: Tally, allowance: Allowance) -> bool:
        """True if the gang may have all the new nodes that it needs."""
        with blame(pool=tally.pool.id):
            opened = self.new_nodes(tally)
            return opened is not None and _may_open(self.workload, tally, allowance, opened, most=None)


def _leave_without_nodes(needs: _Needs, tally: Tally, allowance: Allowance) -> None:
    """Record which rule leaves a gang fewer new nodes in the pool of *tally* than it *needs*."""
    workload, opened = needs.workload, needs.new_nodes(tally, begun=True)
    uncovered: Workload | None = None
    met, clause, allowed = "", "", 0
    if opened is None:
        detail = f"the pods of gang {workload.key} must share a node, and none has room for all of them"
    elif (reason := tally.shelves.why_spoilt(workload.pods)) is not None:
        detail = f"no node is bought in pool {tally.pool.name} for gang {workload.key}: {reason}"
    else:
        passed = allowance.passes(tally, opened, workload)
        met = RULES[min(passed, len(RULES) - 1)]
        allows = f"guardrail {met} allows fewer"
        if passed == len(RULES) and not tally.holds_gang(opened):
            met, allows = (
                "",
                f"Civo has just refused {tally.state.backoffs.refused} nodes in all for pool {tally.pool.name}",
            )
        priced = tally.pool.price_usd_per_hour is not None
        short = allowance.refusing(tally, opened, workload) if priced and passed == 0 else None
        if short is not None:
            met, allows, uncovered = short.rule, f"guardrail {short.rule} allows fewer ({short.why})", workload
        clause = f"gang {workload.key} needs {some(opened, 'node')}"
        if met:
            fits = partial(allowance.passes, tally, workload=workload)
            allowed = bisect_left(range(opened), True, key=lambda count: fits(count + 1) < len(RULES))
        detail = f"gang {workload.key} needs {some(opened, 'new node')} at once, but {allows}"
    held = HeldWorkload(
        workload=workload.key,
        rule="gangs_whole",
        detail=detail,
        gpus=workload.gpus,
        uncovered=uncovered,
        met=met,
        needs=clause,
        allows=allowed,
    )
    tally.held.append(held)


def _by_new_nodes(needs: _Needs, tallies: Sequence[Tally]) -> Sequence[Tally]:
    """*tallies* by what the gang prefers, then by the cost of the new nodes that it *needs* beside existing room."""
    if len(tallies) < 2 or not any(tally.shelves.free or tally.shelves.at[COMING] for tally in tallies):
        return tallies
    pods = needs.workload.pods

    def cost(tally: Tally) -> tuple[int, Decimal]:
        liked = sum(preference(pod, tally.pool, tally.state.offer) for pod in pods if pod.scheduling.preferred)
        nodes = needs.new_nodes(tally)
        return -liked, tally.cost_of(len(pods) if nodes is None else nodes)

    return ranked(tallies, cost)


def new_nodes(workload: Workload, tally: Tally, *, empty: bool = False, begun: bool = False) -> int | None:
    """How many new nodes *workload* needs in the pool of *tally* beside room that exists or is on its way (*begun*:
    beside what is begun already); all of its nodes if the pool were *empty*. None where no number of them helps."""
    coming = [] if begun else tally.shelves.at[COMING]
    trial = [] if empty else [b.copy() for b in (*tally.shelves.roomy(), *coming)]
    room_count, mark = len(trial), tally.shelves.neighbours.mark() if tally.shelves.neighbours is not None else 0
    places = _fill(trial, workload.pods, tally)
    if tally.shelves.neighbours is not None:
        tally.shelves.neighbours.return_to(mark)
    return None if places is None else len(trial) - room_count


def try_gang(
    workload: Workload, tally: Tally, allowance: Allowance, most: int | None = None, begin: bool = False
) -> bool:
    """Place the whole gang in the pool of *tally* with at most *most* new nodes; False changes nothing.

    A guardrail may still hold some of them. *begin* also fills nodes that are on their way and not yet begun.
    """
    with blame(pool=tally.pool.id):
        return _try_gang(workload, tally, allowance, most, begin=begin)


def _try_gang(workload: Workload, tally: Tally, allowance: Allowance, most: int | None, *, begin: bool) -> bool:
    coming = tally.shelves.at[COMING] if begin else []
    open_rooms = tally.shelves.roomy()
    rooms = [*open_rooms, *coming]
    trial = [b.copy() for b in rooms]
    for tried in trial:
        tried.used = False
    mark = tally.shelves.neighbours.mark() if tally.shelves.neighbours is not None else 0
    places = _fill(trial, workload.pods, tally)
    opened = len(trial) - len(rooms)
    if places is None or not _may_open(workload, tally, allowance, opened, most):
        if tally.shelves.neighbours is not None:
            tally.shelves.neighbours.return_to(mark)
        return False
    tally.admit_gang(opened)
    tally.shelves.lose(sum(room.gpus for room in open_rooms) - sum(tried.gpus for tried in trial[: len(open_rooms)]))
    for room, tried in zip(rooms, trial, strict=False):
        room.free, room.used = tried.free, room.used or tried.used
        if tried.used and room.instance is not None:
            tally.kept.warm.pop(room.instance, None)  # no buffer alone keeps it any more
    tally.shelves.begin([room for room in coming if room.used])
    for number, room in enumerate(trial[len(rooms) :]):
        room.allowed = number < tally.room_left
        tally.shelves.add(room)
    if opened:
        allowance.open(tally, "demand", opened, workload, passed=len(RULES))
    all_rooms = [*rooms, *trial[len(rooms) :]]
    tally.give(workload, [all_rooms[place] for place in places], buys=opened > 0)
    return True


def _may_open(workload: Workload, tally: Tally, allowance: Allowance, opened: int, most: int | None) -> bool:
    if not opened:
        return True
    if (most is not None and opened > most) or not tally.holds_gang(opened):
        return False
    return allowance.passes(tally, opened, workload) == len(RULES) and tally.shelves.why_spoilt(workload.pods) is None


def checkpoint(tallies: Sequence[Tally]) -> Callable[[], None]:
    """Note how *tallies* stand; the function that is returned takes them back to that."""
    before = [tally.mark() for tally in tallies]
    neighbours = tallies[0].shelves.neighbours if tallies else None
    mark = neighbours.mark() if neighbours is not None else 0

    def undo() -> None:
        for tally, state in zip(tallies, before, strict=True):
            tally.return_to(state)
        if neighbours is not None:
            neighbours.return_to(mark)

    return undo


def place_parts(
    workload: Workload, fitting: Sequence[Sequence[Tally]], matching: Matching, allowance: Allowance
) -> bool:
    """Place a gang whose pods fit different pools: each part whole in one pool, and all parts or none. Return whether
    it was placed."""
    parts: dict[tuple[str, ...], list[Pod]] = {}
    pools: dict[tuple[str, ...], Sequence[Tally]] = {}
    for pod, choices in zip(workload.pods, fitting, strict=True):
        key = tuple(x.pool.id for x in choices)
        parts.setdefault(key, []).append(pod)
        pools[key] = choices
    tallies = {x.pool.id: x for choices in fitting for x in choices}
    undo, shared = checkpoint(tuple(tallies.values())), allowance.mark()
    for key, pods in parts.items():
        part = replace(workload, pods=tuple(pods))
        ordered = ranked(matching.gang_order(part, pools[key]), lambda x: (x.blocked or x.full,))
        if not any(try_gang(part, tally, allowance, begin=True) for tally in ordered):
            undo()
            allowance.return_to(shared)
            detail = f"the parts of gang {workload.key} fit different pools, and not all of these have room"
            leave_waiting(workload, ordered[0], "gangs_whole", detail)
            return False
    return True


def _fill(bins: list[Bin], pods: Sequence[Pod], tally: Tally) -> list[int] | None:
    """Pack *pods* into *bins*, opening new ones at the end; return each pod's index in *bins*. None where not even a
    new node takes one of them."""
    places: list[int] = []
    begin: dict[Kind, int] = {}  # a bin that refused a pod of a kind refuses the next one
    for pod in pods:
        asks, kind = pod.asks, tally.shelves.kind(pod)
        place = begin.get(kind, 0)
        while place < len(bins) and not bins[place].put(pod, asks):
            place += 1
        begin[kind] = place
        if place == len(bins):
            bins.append(tally.new_bin())
            if not bins[place].put(pod, asks):
                return None
        bins[place].used = True
        places.append(place)
    return places
