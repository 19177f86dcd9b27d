"""Where work can run: nodes that exist or are on their way, and new nodes, as far as budgets and limits allow them."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from receiver.core.model.actions import Because, VictimStage
from receiver.core.model.flights import flights_of, settle
from receiver.core.model.model import ON_ITS_WAY, Facts, Node, PoolState, Stage
from receiver.core.model.pods import Workload
from receiver.core.model.policy import Policy, Pool, Scope
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.signals import SignalAction
from receiver.core.money.budget import Budgets, BudgetView, Key, Refusal, nodes_of, passes_hold, teams_of, unseen
from receiver.core.money.cost import unit_price
from receiver.core.scaling.bounds import BoundsInForce, Grace, bounds_of, graces_of, why_closed
from receiver.core.scaling.demand import IGNORED_NAMESPACES
from receiver.core.scaling.neighbours import Neighbours
from receiver.core.scaling.node_holds import closed_by_a_budget, work_hold
from receiver.core.scaling.rooms import Bin, Shelves, site_of
from receiver.core.scaling.template import new_node
from receiver.core.scaling.terminations import leaving_soon
from receiver.core.scaling.waits import (
    LONGEST_GROWTH_BACKOFF,
    SHORT_LOSS,
    probes_left,
    smaller_request,
    stuck_on_the_way,
    undone_by_others,
    unlisted_too_long,
)

SOURCES = ("demand", "floor", "standby", "headroom", "buffer")  # what new nodes are for, first served first


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldWorkload:
    """A workload that was not given the nodes it needs, the rule that held it, and a sentence; it itself where it was
    a budget that did not cover them. *gpus* of it wait for the pool, none of what the scheduler refuses (*refusal*).
    *met* is the rule that left a gang *allows* nodes, fewer than it *needs* (a clause)."""

    workload: str
    rule: str
    detail: str
    gpus: int = 0
    uncovered: Workload | None = None
    met: str = ""
    needs: str = ""
    allows: int = 0
    refusal: SchedulerRefusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The *rooms* that *workload* was given, one for each of its pods (of a gang in several pools: of its part). It
    *buys* where some of them are in new nodes."""

    workload: Workload
    rooms: tuple[Bin, ...]
    buys: bool = False

    @property
    def whole(self) -> bool:
        """True if no check and no guardrail leaves out a part of it."""
        return all(room.allowed for room in self.rooms)


@dataclass(slots=True, eq=False)
class Kept:
    """What a pool keeps for CapacityBuffers: *warm* instances for one alone, with its key, and the *buffers* that new
    nodes are for."""

    warm: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Tally:
    """One pool's tally while assigning."""

    pool: Pool
    state: PoolState
    bounds: BoundsInForce
    shelves: Shelves
    offer: Mapping[str, int]  # what is free on a new node
    room: int | None = None  # new nodes that a guardrail would leave (0: none, None: as many as the checks allow)
    gang_room: int | None = None  # while fewer are requested after a refusal: new nodes that one gang may need
    graces: tuple[Grace, ...] = ()
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOURCES, 0))
    within: list[int] = field(default_factory=lambda: [0, 0, 0])  # budget, maximum, limits
    given: list[Placement] = field(default_factory=list)
    held: list[HeldWorkload] = field(default_factory=list)
    refused: dict[str, Refusal] = field(default_factory=dict)  # workloads that a budget does not cover
    uncovered: dict[Key, Refusal] = field(default_factory=dict)  # by the budgets that refused a node
    kept: Kept = field(default_factory=Kept)
    paid_for: int | None = None  # new nodes that a commitment pays for, negative for nodes beyond it; None without one

    @property
    def price(self) -> Decimal:
        """USD per node-hour of the next new node; an unknown price is higher than any."""
        return self.cost_of(1)

    def cost_of(self, count: int) -> Decimal:
        """USD per hour of the next *count* new nodes; infinite where the price is unknown."""
        return self._at_list_price(self.not_paid_for(count))

    def saved_by(self, fewer: int) -> Decimal:
        """USD per hour that so many nodes *fewer* would save; infinite where the price is unknown."""
        beyond = fewer if self.paid_for is None else max(0, self.within[-1] - self.paid_for)
        return self._at_list_price(min(fewer, beyond))

    def not_paid_for(self, count: int) -> int:
        """How many of the next *count* new nodes no commitment pays for."""
        return count if self.paid_for is None else min(count, max(0, count + self.within[-1] - self.paid_for))

    def _at_list_price(self, nodes: int) -> Decimal:
        price = self.pool.price_usd_per_hour
        return Decimal(0) if not nodes else UNKNOWN_PRICE if price is None else nodes * price

    @property
    def room_left(self) -> float:
        """New nodes that the guardrails leave beyond those that the checks let pass; infinity without a limit."""
        return math.inf if self.room is None else max(0, self.room - self.within[-1])

    @property
    def blocked(self) -> bool:
        """True when a guardrail will hold another new node."""
        return self.room_left <= 0

    @property
    def full(self) -> bool:
        return self.state.required + self.within[-1] >= self.bounds.max_nodes

    def holds_gang(self, opened: int) -> bool:
        """True unless Civo has just refused as many new nodes as a gang needs, *opened* beside those opened before."""
        return not opened or self.gang_room is None or self.within[-1] + opened <= self.gang_room

    def admit_gang(self, opened: int) -> None:
        """Make room for all *opened* new nodes of a gang that `holds_gang`; the next gang gets no more than is left."""
        if opened and self.gang_room is not None and self.room is not None:
            self.room = self.gang_room = max(self.room, self.within[-1] + opened)

    def mark(self) -> "Tally":
        copies = {id(b): b.copy() for b in self.shelves.bins}
        before = copy(self)
        for name in self.__slots__:
            if isinstance(value := getattr(self, name), (list, dict)):
                setattr(before, name, value.copy())
        before.shelves = self.shelves.copy(copies)
        before.given = [replace(p, rooms=tuple(copies[id(b)] for b in p.rooms)) for p in self.given]
        before.kept = Kept(warm=self.kept.warm.copy(), buffers=self.kept.buffers.copy())
        return before

    def return_to(self, before: "Tally") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(before, name))

    def give(self, workload: Workload, rooms: Sequence[Bin], *, buys: bool = False) -> None:
        """Record the *rooms* of *workload*: in new nodes that it *buys*, or that existed before."""
        self.given.append(Placement(workload=workload, rooms=tuple(rooms), buys=buys))

    def new_bin(self) -> Bin:
        """A node that is not there yet, for work that is put into it at once."""
        return replace(self.empty_bin(), used=True, bought=True)

    def empty_bin(self) -> Bin:
        """A node that is not there yet, and that no work asks for."""
        return Bin(pool=self.pool.id, instance=None, free=dict(self.offer), neighbours=self.shelves.neighbours)


UNKNOWN_PRICE = Decimal("Infinity")


def paid_for(facts: Facts, policy: Policy) -> Mapping[str, int]:
    """New nodes by pool id that its commitment pays for, negative for nodes beyond it."""
    billing, coming = policy.billing, unseen(facts) if policy.billing.committed else {}
    committed = {c.pool: billing.committed_nodes(c.pool, facts.at) for c in billing.committed}
    return {
        state.pool: committed[state.pool] - nodes_of(state) - coming.get(state.pool, 0)
        for state in facts.pools
        if committed.get(state.pool)
    }


def open_tally(
    pool: Pool, facts: Facts, budgets: Budgets, neighbours: Neighbours | None = None, paid_for: int | None = None
) -> Tally:
    """Return the empty tally of *pool*: its bounds now, its room, and whether a guardrail will hold its growth.
    *paid_for* new nodes are paid for by a commitment (None: there is none)."""
    state, now = facts.pool(pool.id), facts.at
    bounds = bounds_of(pool, facts.instructions.overrides, now)
    backing_off = state.backoffs.growth is not None and state.backoffs.growth.holds(now, LONGEST_GROWTH_BACKOFF)
    probes = probes_left(state, now)
    smaller = None  # how many nodes to request right after a refusal, where that cannot take nodes away
    if backing_off and probes is None and state.backoffs.refused is not None:
        smaller = smaller_request(state.required, state.backoffs.refused)
        if settle(state.required, flights_of(facts.earlier.unanswered, state.pool)).high > state.required:
            smaller = None
    held = (
        pool.price_usd_per_hour is None
        or bool(state.count.unreadable)
        or state.count.uncounted > 0  # until Civo's count has fallen; other pools that fit need not wait for that
        or (backing_off and smaller is None)
        or any(s.action in (SignalAction.FREEZE, SignalAction.PAUSE_SCALE_UP) for s in facts.signals_for(pool.id))
        or bool(stuck_on_the_way(pool, state, now))
        or undone_by_others(state, now, grows=True) is not None
        or state.silence is not None
        or bounds.overrides.pause is not None
    )
    graces = graces_of(pool, bounds, facts.earlier.announced, now, facts.earlier.given_back)
    offer = new_node(pool, state)
    bins = _capacity(pool, state, facts, why_closed(budgets, pool.id), offer, evicts=bool(graces))
    return Tally(
        pool=pool,
        state=state,
        bounds=bounds,
        shelves=Shelves(bins, neighbours),
        offer=offer,
        room=0 if held else smaller[0] if smaller else probes,
        gang_room=None if held or smaller is None else smaller[1],
        graces=graces,
        paid_for=paid_for,
    )


def _capacity(
    pool: Pool, state: PoolState, facts: Facts, closed: str | None, offer: Mapping[str, int], *, evicts: bool
) -> list[Bin]:
    """Room that exists or is on its way. Fullest usable nodes come first, then younger stages.

    A usable node counts even when the scheduler has not used it: another like it would not help either. `work_hold`
    says which nodes are no room. *closed* is the result of `why_closed`; a pool *evicts* while such a window is open.
    """
    deleted_stages, cordon_stages = (VictimStage.DELETED, VictimStage.GONE), (VictimStage.CHOSEN, VictimStage.CORDONED)
    going = {
        v.instance
        for v in (state.open_action.victims if state.open_action else ())
        if v.stage in deleted_stages or (evicts and v.because is Because.EVICTED and v.stage in cordon_stages)
    }
    usable = [n for n in state.of(Stage.USABLE) if n.instance not in going and work_hold(n, pool, closed) is None]
    rooms = [_room_on(node, pool, state, facts.at) for node in usable]
    names = {n.instance: n.name for n in usable}
    rooms.sort(key=lambda room: (not room.usable, room.gpus, names[room.instance or ""]))
    coming = [n for n in state.living if _is_coming(n, pool, facts) and closed_by_a_budget(n, closed) is None]
    rooms += [Bin(pool=pool.id, instance=node.instance, free=dict(offer)) for node in coming]
    if not closed and not unlisted_too_long(pool, state, facts.at):
        rooms += [Bin(pool=pool.id, instance=None, free=dict(offer)) for _ in range(state.unlisted)]
    return rooms


def _room_on(node: Node, pool: Pool, state: PoolState, now: datetime) -> Bin:
    """The room on a usable node: what is free now or, where pods are about to leave it, what they leave free."""
    leaving = leaving_soon(node, state, now)
    # The GPU operator's validation pods will finish.
    staying = tuple(p for p in node.pods if p.namespace not in IGNORED_NAMESPACES and p not in leaving)
    free = (node if len(staying) == len(node.pods) else replace(node, pods=staying)).free
    at = max((pod.times.leaves_at for pod in leaving if pod.times.leaves_at is not None), default=None)
    if node.beside.devices_returned and node.cordon.by is None:  # a pod's claim may be released after the pod has gone
        beside = replace(node.beside, devices=node.beside.devices_returned)
        free, at = replace(node, pods=staying, beside=beside).free, at or now
    site = site_of(node, pool, state.offer, now) if node.labels or node.taints else None
    return Bin(pool=pool.id, instance=node.instance, free=dict(free), usable=at is None, vacant_at=at, site=site)


def _is_coming(node: Node, pool: Pool, facts: Facts) -> bool:
    """True while *node* may still become usable. Without Kubernetes, one that was never seen usable counts, however
    old: the state of another new node would be unknown too."""
    if node.stage is Stage.UNKNOWN:
        return not node.was_usable
    if node.health.out_of_service:
        return False
    if not node.registered and node.times.lost_at is not None:  # its Node object is missing, or known to be deleted
        return node.stage is Stage.BOOTING and not node.busy and facts.at - node.times.lost_at <= SHORT_LOSS
    if node.stage is Stage.BROKEN and node.times.lost_at is not None:
        return not node.busy and facts.at - node.times.lost_at <= SHORT_LOSS  # a device plugin that restarts
    return node.stage in ON_ITS_WAY and not node.was_usable and facts.at - node.created_at <= pool.provision_timeout


RULES = ("within_budget", "within_maximum", "within_limits")
Left = tuple[dict[Key, Decimal], int | None, int | None, dict[str, int]]


class Allowance:
    """What all pools share while nodes are opened: the money of every budget, GPUs, growth per hour."""

    def __init__(self, facts: Facts, policy: Policy, budgets: Budgets, *, closed: bool = False) -> None:
        limits = policy.limits
        self.policy = policy
        self.budgets = budgets
        self.closed = closed  # nothing may be opened at all
        self.left: dict[Key, Decimal] = {view.key: view.left for view in budgets.views}
        self._unit = {
            p.id: None if p.price_usd_per_hour is None else unit_price(p.price_usd_per_hour, policy.billing)
            for p in policy.pools
        }
        self._teams_matter = any(view.scope is Scope.TEAM for view in budgets.views)
        self._of_pools = {p.id: budgets.touched(p.id) for p in policy.pools}
        self._kept = dict(unseen(facts))  # nodes by pool that are already subtracted from what is left
        existing = sum(
            (max(s.required, len(s.living)) + self._kept.get(s.pool, 0)) * p.gpus_per_node
            for s in facts.pools
            if (p := policy.pool(s.pool))
        )
        self.gpus = None if limits.max_gpus is None else limits.max_gpus - existing
        per_hour = limits.max_growth_per_hour
        grown = facts.earlier.grown_last_hour + sum(self._kept.values())
        self.nodes = None if per_hour is None else per_hour - grown

    def _touched(self, tally: Tally, workload: Workload | None) -> tuple[BudgetView, ...]:
        if workload is None or not self._teams_matter:
            return self._of_pools[tally.pool.id]
        return self.budgets.touched(tally.pool.id, teams_of(workload, self.policy, self.budgets))

    def refusing(self, tally: Tally, count: int, workload: Workload | None) -> Refusal | None:
        """The first budget that does not cover *count* more nodes of the tally's pool, or None."""
        passing = workload is not None and passes_hold(workload, self.policy)
        free = self._unit[tally.pool.id] is not None and count > 0 and not tally.not_paid_for(count)
        for view in self._touched(tally, workload):
            short = not free and self.short_of(view, tally, count) > 0
            if short or view.closed_to(passing=passing):
                return Refusal(view=view, passing=passing, bought=view.left - self.left[view.key])
        return None

    def short_of(self, view: BudgetView, tally: Tally, count: int) -> Decimal:
        """USD that *view* lacks for *count* more nodes of the tally's pool; infinite for a pool without a price."""
        unit = self._unit[tally.pool.id]
        paid = min(self._paid_by(view, tally, count), tally.not_paid_for(count))
        return UNKNOWN_PRICE if unit is None else paid * unit - self.left[view.key]

    def _more(self, tally: Tally, count: int) -> int:
        """How many of *count* nodes exceed what unanswered growth of the pool may bring: the same PUT again costs
        nothing more."""
        return max(0, count - self._kept.get(tally.pool.id, 0))

    def _paid_by(self, view: BudgetView, tally: Tally, count: int) -> int:
        """How many of *count* nodes *view* must cover; teams have paid nothing for unanswered growth."""
        return count if view.scope is Scope.TEAM else self._more(tally, count)

    def passes(self, tally: Tally, count: int, workload: Workload | None = None) -> int:
        """How many of the three checks (in order) *count* more nodes of the tally's pool pass; 3 is all."""
        if self.closed or self.refusing(tally, count, workload) is not None:
            return 0
        if tally.state.required + tally.within[-1] + count > tally.bounds.max_nodes:
            return 1
        new_nodes = self._more(tally, count)
        gpus_fit = self.gpus is None or new_nodes * tally.pool.gpus_per_node <= self.gpus
        rate_fits = self.nodes is None or new_nodes <= self.nodes
        return 3 if gpus_fit and rate_fits else 2

    def mark(self) -> Left:
        return dict(self.left), self.gpus, self.nodes, dict(self._kept)

    def return_to(self, mark: Left) -> None:
        self.left, self.gpus, self.nodes, self._kept = mark

    def open(
        self, tally: Tally, purpose: str, count: int = 1, workload: Workload | None = None, passed: int | None = None
    ) -> int:
        """Request *count* more nodes; return how many checks they passed (3: they may be requested). *passed* is what
        `passes` has just returned for them."""
        passed = self.passes(tally, count, workload) if passed is None else passed
        room = min(count, tally.room_left)
        if passed == len(RULES):
            self.charge(tally, int(room), workload)
        tally.counts[purpose] += count
        for check in range(passed):
            tally.within[check] += count
        if passed == 0:
            self.refuse(tally, count, workload)
        if passed < len(RULES):
            return passed
        count = int(room)  # nodes that a guardrail will hold must not use up the other pools' share
        new_nodes = self._more(tally, count)
        if self.gpus is not None:
            self.gpus -= new_nodes * tally.pool.gpus_per_node
        if self.nodes is not None:
            self.nodes -= new_nodes
        if tally.pool.id in self._kept:
            self._kept[tally.pool.id] -= count - new_nodes
        return passed

    def charge(self, tally: Tally, count: int, workload: Workload | None) -> None:
        """Subtract the price of *count* more nodes of the tally's pool from the budgets that pay for them."""
        unit = self._unit[tally.pool.id]
        if unit is not None:
            for view in self._touched(tally, workload):
                self.left[view.key] -= min(self._paid_by(view, tally, count), tally.not_paid_for(count)) * unit

    def refuse(self, tally: Tally, count: int, workload: Workload | None) -> None:
        """Record which budget does not cover *count* more nodes of the tally's pool."""
        refusal = self.refusing(tally, count, workload)
        if refusal is not None and tally.pool.price_usd_per_hour is not None:  # a missing price has its own rule
            earlier = tally.uncovered.get(refusal.view.key)
            if earlier is None or earlier.passing:  # ordinary work needs more than passing work does
                tally.uncovered[refusal.view.key] = refusal
            if workload is not None:
                tally.refused.setdefault(workload.key, refusal)
