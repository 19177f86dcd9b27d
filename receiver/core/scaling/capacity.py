"""Where work can run: nodes that exist or are on their way, new nodes that may be bought, and nodes that a budget stop
closes.

While a budget that covers the whole pool is at its stop, its nodes are closed to new work. Running pods go on, so every
dollar beyond the line belongs to a node whose pod was running when the line was reached. A team's stop closes nothing:
its pods share nodes with others'. A node that hosts us or the monitoring stays open: it is paid for anyway, and the
components that watch the budget must be able to start.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.model.actions import Action, Because, Outcome, OutcomeKind, VictimStage
from receiver.core.model.model import ON_ITS_WAY, CordonedBy, Facts, Node, PoolState, Stage
from receiver.core.model.pods import Workload
from receiver.core.model.policy import Pool
from receiver.core.model.resources import COMPUTE, gpus_in
from receiver.core.model.signals import SignalAction
from receiver.core.money.budget import Budgets, BudgetStage, Key, Refusal, highest, may_have_landed
from receiver.core.scaling.bounds import BoundsInForce, Grace, bounds_of, graces_of
from receiver.core.scaling.demand import IGNORED_NAMESPACES, new_node, take
from receiver.core.scaling.provisioning import probes_left, stuck_on_the_way, undone_by_others, unlisted_too_long


def why_closed(budgets: Budgets, pool: str) -> str | None:
    """Why the nodes of *pool* (an id) are closed to new work: the budgets at their stop.

    Empty: they are open. None: unknown, and closed nodes stay closed, as an unknown spend neither starts nor ends
    anything.
    """
    touched = budgets.touched(pool)
    stopped = [f"{view.title} {view.month}" for view in touched if view.stage is BudgetStage.STOP]
    if not stopped and any(view.unknown or view.unpriced for view in touched):
        return None
    return ", ".join(stopped)


def lacks_price(budgets: Budgets, pool: str) -> tuple[str, ...]:
    """The sizes whose missing price makes it unknown whether *pool* (an id) is closed; empty when that is known."""
    if why_closed(budgets, pool) is not None:
        return ()
    return tuple(sorted({size for view in budgets.touched(pool) for size in view.unpriced}))


def takes_work(node: Node | None, why: str | None) -> bool:
    """True when new work may begin on *node* (None: one that Civo does not list yet), by the result of `why_closed`."""
    if why is None:
        return node is None or node.closed_for is None
    return not why or (node is not None and bool(node.hosts))


def to_close(nodes: Iterable[Node], why: str | None) -> tuple[Node, ...]:
    """The nodes to close now, as *why* says; one that others cordoned is closed already."""
    if not why:
        return ()
    there = (n for n in nodes if n.registered and n.stage is not Stage.DELETING and not n.hosts)
    return tuple(
        n
        for n in there
        if n.cordoned_by is not CordonedBy.SOMEONE and (n.closed_for != why or n.cordoned_by is not CordonedBy.US)
    )


def to_open(nodes: Iterable[Node], why: str | None) -> tuple[Node, ...]:
    """The nodes that we closed and that are to be opened now: all when the stop is over, else those that host us."""
    if why is None:
        return ()
    return tuple(n for n in nodes if n.closed_for is not None and takes_work(n, why))


Requests = tuple[tuple[str, int], ...]
WHY = ("demand", "floor", "standby", "headroom")  # new nodes are opened, in this order

# The shelves of bins. Usable nodes are filled first, then begun ones; only then another node that is on its way is
# begun, in the order of buying. So the same pods fill the nodes that were bought for them: if every coming node were
# open from the start, a pod that fits many pools would take the room of one that fits few.
USABLE, OPENED, COMING, NOT_ALLOWED = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldWorkload:
    """A workload that was not given the nodes it needs, the rule that held it, and a sentence; it itself where it was
    a budget that did not cover them. *met* is the rule that left a gang fewer nodes than it needs."""

    workload: str
    rule: str
    detail: str
    uncovered: Workload | None = None
    met: str = ""


@dataclass(slots=True, eq=False)
class Bin:
    """Room for pods: a node that exists or is on its way (*instance*; None while Civo does not list it)."""

    pool: str
    instance: str | None
    free: dict[str, int]
    usable: bool = False
    used: bool = False
    bought: bool = False
    allowed: bool = True  # False: a check or guardrail leaves it out, so it must not attract other work

    @property
    def gpus(self) -> int:
        """GPU units that are free here."""
        return gpus_in(self.free)

    def copy(self) -> "Bin":
        """Another bin with the same room. (Not `replace`: a gang tries every node of every pool that fits it.)"""
        return Bin(self.pool, self.instance, dict(self.free), self.usable, self.used, self.bought, self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The *rooms* that *workload* was given, one for each of its pods (of a gang in several pools: of its part)."""

    workload: Workload
    rooms: tuple[Bin, ...]

    @property
    def whole(self) -> bool:
        """True if no check and no guardrail leaves out a part of it."""
        return all(room.allowed for room in self.rooms)


@dataclass(slots=True, eq=False)
class Tally:
    """One pool's tally while assigning."""

    pool: Pool
    state: PoolState
    bounds: BoundsInForce
    bins: list[Bin]
    room: int | None = None  # new nodes that a guardrail would leave (0: none, None: as many as the checks allow)
    gang_room: int | None = None  # while fewer are requested after a refusal: new nodes that one gang may need
    shelves: tuple[list[Bin], ...] = ([], [], [], [])  # the bins by shelf: see USABLE
    too_small: dict[tuple[Requests, ...], int] = field(default_factory=dict)
    reached: dict[tuple[int, Requests], int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WHY, 0))
    within: list[int] = field(default_factory=lambda: [0, 0, 0])  # budget, maximum, limits
    asking: list[Workload] = field(default_factory=list)
    settled: list[Workload] = field(default_factory=list)  # of a gang in several pools: its part here
    placed: list[tuple[str, str]] = field(default_factory=list)
    held: list[HeldWorkload] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)
    refused: dict[str, Refusal] = field(default_factory=dict)  # workloads that a budget does not cover
    uncovered: dict[Key, Refusal] = field(default_factory=dict)  # by the budgets that refused a node
    waiting_gpus: int = 0
    free: int = 0  # GPUs in the bins that may be used
    graces: tuple[Grace, ...] = ()

    def __post_init__(self) -> None:
        self.shelves = ([], [], [], [])
        for room in self.bins:
            self.shelves[USABLE if room.usable else COMING].append(room)
            self.free += room.gpus if room.usable else 0

    @property
    def room_left(self) -> float:
        """New nodes that the guardrails leave beyond those that the checks let pass; infinity without a limit."""
        return math.inf if self.room is None else max(0, self.room - self.within[-1])

    @property
    def blocked(self) -> bool:
        """True when a guardrail will hold another new node."""
        return self.room_left <= 0

    def holds_gang(self, opened: int) -> bool:
        """True unless Civo has just refused as many new nodes as a gang needs, *opened* beside those opened before."""
        return not opened or self.gang_room is None or self.within[-1] + opened <= self.gang_room

    def admit_gang(self, opened: int) -> None:
        """Make room for all *opened* new nodes of a gang that `holds_gang`; the next gang gets no more than is left."""
        if opened and self.gang_room is not None and self.room is not None:
            self.room = self.gang_room = max(self.room, self.within[-1] + opened)

    def add(self, room: Bin) -> None:
        """Add a bin that was just opened."""
        self.bins.append(room)
        self.shelves[OPENED if room.allowed else NOT_ALLOWED].append(room)
        if room.allowed:
            self.free += room.gpus

    def mark(self) -> "Tally":
        """A copy to return to."""
        copies = {id(b): b.copy() for b in self.bins}
        before = copy(self)
        for name, value in ((name, getattr(self, name)) for name in self.__slots__):
            if isinstance(value, (list, dict)):
                setattr(before, name, value.copy())
        before.bins = list(copies.values())
        before.given = [replace(g, rooms=tuple(copies[id(b)] for b in g.rooms)) for g in self.given]
        before.shelves = tuple([copies[id(b)] for b in shelf] for shelf in self.shelves)
        return before

    def return_to(self, before: "Tally") -> None:
        """Undo what happened since *before* was marked."""
        for name in self.__slots__:
            setattr(self, name, getattr(before, name))

    def settle(self, asks: Mapping[str, int], shelf: int, kind: Requests) -> Bin | None:
        """Put *asks* into the first bin of *shelf* that holds them and return it; None when none does.

        A bin that could not hold a kind of request once never will, so each kind passes over it only once.
        """
        rooms = self.shelves[shelf]
        place = self.reached.get((shelf, kind), 0)
        if place == len(rooms):
            return None
        while place < len(rooms) and not take(rooms[place].free, asks):
            place += 1
        self.reached[shelf, kind] = place
        if place == len(rooms):
            return None
        rooms[place].used = True
        self.free -= gpus_in(asks) if shelf != NOT_ALLOWED else 0
        return rooms[place]

    def begin(self, rooms: Sequence[Bin] | None = None) -> bool:
        """Begin to fill *rooms* that are on their way, or else the next one; False when there is none."""
        begun = self.shelves[COMING][:1] if rooms is None else rooms
        for room in begun:
            self.shelves[COMING].remove(room)
            self.shelves[OPENED].append(room)
            self.free += room.gpus
        return bool(begun)

    def give(self, given: Given, *, asks: bool) -> None:
        """Record the room of a workload: in a new node that it *asks* for, or room that existed before."""
        workload, room = given.workload, given.rooms[0]
        self.given.append(given)
        self.waiting_gpus += workload.gpus
        (self.asking if asks else self.settled).append(workload)
        if not workload.gang and room.instance is not None and room.usable:
            self.placed.append((workload.key, room.instance))

    def sort_out(self) -> None:
        """Move bins that were on their way and are now used to their shelf, and count what is free, after rooms were
        filled directly."""
        coming = self.shelves[COMING]
        self.shelves[OPENED].extend(room for room in coming if room.used)
        coming[:] = [room for room in coming if not room.used]
        self.free = sum(room.gpus for shelf in (USABLE, OPENED) for room in self.shelves[shelf])

    @property
    def rooms(self) -> int:
        """How many bins may be used now; it only grows, and the room in them only shrinks."""
        return len(self.shelves[USABLE]) + len(self.shelves[OPENED])

    def roomy(self) -> list[Bin]:
        """The bins that are usable or begun and have a GPU left, the usable ones first."""
        bins = (b for shelf in (USABLE, OPENED) for b in self.shelves[shelf])
        return [b for b in bins if any(n > 0 for resource, n in b.free.items() if resource not in COMPUTE)]


LONGEST_GROWTH_BACKOFF = timedelta(hours=1)
LONGEST_REMOVAL_BACKOFF = timedelta(hours=25)
SHORT_LOSS = timedelta(minutes=3)


def open_tally(pool: Pool, facts: Facts, budgets: Budgets) -> Tally:
    """Return the empty tally of *pool*: its bounds now, its room, and whether a guardrail will hold its growth."""
    state = facts.pool(pool.id)
    bounds = bounds_of(pool, facts.overrides, facts.at)
    backing_off = state.backoff is not None and state.backoff.holds(facts.at, LONGEST_GROWTH_BACKOFF)
    halts = (SignalAction.FREEZE, SignalAction.PAUSE_SCALE_UP)
    halted = any(s.action in halts for s in facts.signals_for(pool.id))
    stuck = bool(stuck_on_the_way(pool, state, facts.at))
    unpriced = pool.price_usd_per_hour is None
    undone = undone_by_others(state, facts.at, grows=True) is not None
    paused = state.silence is not None or bounds.overrides.pause is not None
    probes = probes_left(state, facts.at)
    smaller = _smaller_request(state, facts) if backing_off and probes is None else None
    held = unpriced or (backing_off and smaller is None) or halted or stuck or undone or paused
    graces = graces_of(pool, bounds, facts.told_to_go, facts.at, facts.given_up)
    going = _leaving(state, evicts=bool(graces))
    return Tally(
        pool=pool,
        state=state,
        bounds=bounds,
        bins=list(_capacity(pool, state, going, facts, why_closed(budgets, pool.id))),
        room=0 if held else smaller[0] if smaller else probes,
        gang_room=None if held or smaller is None else smaller[1],
        graces=graces,
    )


def _smaller_request(state: PoolState, facts: Facts) -> tuple[int, int] | None:
    """How many nodes to request right after a refusal (`smaller_request`); None where that might add none."""
    if state.refused is None or highest(facts.unanswered, state.pool) > state.required:
        return None
    return smaller_request(state.required, state.refused)


def _capacity(pool: Pool, state: PoolState, going: frozenset[str], facts: Facts, closed: str | None) -> Iterable[Bin]:
    """Room that exists or is on its way. Fullest usable nodes come first, then younger stages.

    A usable node counts even when the scheduler has not used it: if its free GPUs do not help, another node like it
    will not either, so buying stops there. A cordon by others takes a node out, and so does a budget stop: *closed* is
    what `why_closed` returns for the pool.
    """
    usable = [n for n in state.of(Stage.USABLE) if n.cordoned_by is not CordonedBy.SOMEONE and n.instance not in going]
    rooms = [(_room_on(n), n) for n in usable if takes_work(n, closed)]
    for free, node in sorted(rooms, key=lambda room: (gpus_in(room[0]), room[1].name)):
        yield Bin(pool=pool.id, instance=node.instance, free=dict(free), usable=True)
    for node in state.living:
        if _is_coming(node, pool, facts) and takes_work(node, closed):
            yield Bin(pool=pool.id, instance=node.instance, free=new_node(pool, state))
    if not takes_work(None, closed) or unlisted_too_long(pool, state, facts.at):
        return
    for _ in range(state.unlisted):
        yield Bin(pool=pool.id, instance=None, free=new_node(pool, state))


def _room_on(node: Node) -> Mapping[str, int]:
    """What is free on a usable node once the GPU operator's validation pods have finished."""
    staying = tuple(p for p in node.pods if p.namespace not in IGNORED_NAMESPACES)
    return node.free if len(staying) == len(node.pods) else replace(node, pods=staying).free


def _leaving(state: PoolState, *, evicts: bool) -> frozenset[str]:
    """The instances whose DELETE was accepted, and where a window *evicts* those that it is emptying: evicted pods must
    not come back to them."""
    victims = state.open_action.victims if state.open_action else ()
    deleted, begun = (VictimStage.DELETED, VictimStage.GONE), (VictimStage.CHOSEN, VictimStage.CORDONED)
    return frozenset(
        v.instance
        for v in victims
        if v.stage in deleted or (evicts and v.because is Because.EVICTED and v.stage in begun)
    )


def _is_coming(node: Node, pool: Pool, facts: Facts) -> bool:
    """True while *node* may still become usable.

    Without Kubernetes a node that was never seen usable counts as on its way, however old: its state is unknown, and
    that of another new node would be too.
    """
    if node.stage is Stage.UNKNOWN:
        return not node.was_usable
    if node.stage is Stage.BROKEN and node.lost_at is not None:
        return not node.busy and facts.at - node.lost_at <= SHORT_LOSS  # a device plugin that restarts
    return node.stage in ON_ITS_WAY and not node.was_usable and facts.at - node.created_at <= pool.provision_timeout


def is_full(tally: Tally) -> bool:
    """True when the pool may not have another node."""
    return tally.state.required + tally.within[2] >= tally.bounds.max_nodes


def new_bin(tally: Tally) -> Bin:
    """A node that is not there yet, for work that is put into it at once."""
    return Bin(pool=tally.pool.id, instance=None, free=new_node(tally.pool, tally.state), used=True, bought=True)


REFUSAL_LASTS = timedelta(seconds=30)  # stock changes by the minute, so older refusals do not count


class Shortage(StrEnum):
    """Why Civo provided no node, as far as people can act on it."""

    STOCK = "stock"  # no free GPU of the kind, or the region is full: wait, or use another size or region
    QUOTA = "quota"  # the account's quota: request a higher one, or free resources
    OTHER = "other"


_BY_CODE = {
    "gpu_count_exceeded": Shortage.STOCK,
    "out_of_capacity": Shortage.STOCK,
    "quota_limit_reached": Shortage.QUOTA,
}


def shortage_of(reason: str) -> Shortage:
    """Return the shortage that the *reason* of a growth back-off names: it begins with Civo's error code."""
    code = reason.split(maxsplit=1)[0] if reason.strip() else ""
    return _BY_CODE.get(code.rstrip(":"), Shortage.OTHER)


def refused_counts(ended: Iterable[tuple[Action, Outcome]], now: datetime) -> Mapping[str, int]:
    """Return, by pool id, the lowest node count that Civo has just refused for lack of stock or quota.

    *ended* is growth in the order in which it ended. A pool is left out once a growth of it succeeds. So is one whose
    refused request may have been sent before: a smaller request could then take nodes away.
    """
    lowest: dict[str, int] = {}
    for action, outcome in ended:
        if outcome.kind is OutcomeKind.CONFIRMED:
            lowest.pop(action.pool, None)
        elif _is_fresh_refusal(action, outcome, now):
            lowest[action.pool] = min(action.to_count, lowest.get(action.pool, action.to_count))
    return lowest


def _is_fresh_refusal(action: Action, outcome: Outcome, now: datetime) -> bool:
    return (
        outcome.kind is OutcomeKind.FAILED
        and shortage_of(outcome.detail) is not Shortage.OTHER
        and not may_have_landed(action, outcome)
        and now - REFUSAL_LASTS < outcome.at <= now
    )


def smaller_request(present: int, refused: int) -> tuple[int, int] | None:
    """Return how many new nodes to request after *refused* nodes were refused, and how many a gang may need at most.

    The first is half of what was refused, rounded up; None when no smaller request is left.
    """
    if refused - present < 2:
        return None
    return -(-(refused - present) // 2), refused - present - 1
