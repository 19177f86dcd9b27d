"""Room for work: what exists or is on its way, what may still be opened, and what all pools share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from receiver.core.actions import ActionKind, VictimStage
from receiver.core.budget import BudgetView
from receiver.core.cost import unit_price
from receiver.core.demand import take
from receiver.core.model import ON_ITS_WAY, CordonedBy, Facts, Node, PoolState, SignalAction, Stage
from receiver.core.pods import Workload
from receiver.core.policy import Policy, Pool
from receiver.core.windows import Bounds, bounds_at
from receiver.core.words import some

Requests = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A workload that was not given the nodes it needs, the rule that held it, and a sentence."""

    workload: str
    rule: str
    detail: str


@dataclass(slots=True)
class Bin:
    """Room for pods: a node that exists or is on its way (*instance*, None while Civo does not list it)."""

    pool: str
    instance: str | None
    free: dict[str, int]
    rank: int = 2  # 0 usable, 1 on its way, 2 not listed yet: what helps sooner is filled first, in every pool
    used: bool = False
    allowed: bool = True  # False: wanted, but a check leaves it out, so it must not attract other work


@dataclass(slots=True)
class Tally:
    """One pool's tally while assigning."""

    pool: Pool
    state: PoolState
    bounds: Bounds
    bins: list[Bin]
    blocked: bool
    shelves: tuple[list[Bin], ...] = ([], [], [], [])  # the bins by rank; the last shelf holds those not allowed
    reached: dict[tuple[int, Requests], int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("demand", "floor", "standby"), 0))
    within: list[int] = field(default_factory=lambda: [0, 0, 0])  # budget, maximum, limits
    asking: list[Workload] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    placed: list[tuple[str, str]] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    waiting_gpus: int = 0

    def __post_init__(self) -> None:
        self.shelves = ([], [], [], [])
        for room in self.bins:
            self.shelves[room.rank].append(room)

    def add(self, room: Bin) -> None:
        """Take in a bin that was just opened."""
        self.bins.append(room)
        self.shelves[room.rank if room.allowed else NOT_ALLOWED].append(room)

    def settle(self, requests: Mapping[str, int], shelf: int) -> Bin | None:
        """Put *requests* into the first bin of *shelf* that holds them and return it; None when none does.

        What a bin could not hold once it never will, so each kind of request passes over it only once.
        """
        rooms, kind = self.shelves[shelf], (shelf, tuple(sorted(requests.items())))
        place = self.reached.get(kind, 0)
        while place < len(rooms) and not take(rooms[place].free, requests):
            place += 1
        self.reached[kind] = place
        if place == len(rooms):
            return None
        rooms[place].used = True
        return rooms[place]

    def roomy(self) -> list[Bin]:
        """The allowed bins with anything left, what helps sooner first."""
        return [b for rank in RANKS for b in self.shelves[rank] if any(count > 0 for count in b.free.values())]


LONGEST_GROWTH_BACKOFF = timedelta(hours=1)
LONGEST_REMOVAL_BACKOFF = timedelta(hours=25)
SHORT_LOSS = timedelta(minutes=3)
RULES = ("within_budget", "within_maximum", "within_limits")
RANKS = (0, 1, 2)
NOT_ALLOWED = 3


class Allowance:
    """What all pools share while nodes are opened: money, GPUs, growth per hour."""

    def __init__(self, facts: Facts, policy: Policy, budget: BudgetView | None) -> None:
        limits = policy.limits
        self.policy = policy
        self.usd = budget.available if budget else None
        existing = sum(
            max(s.required, len(s.living)) * (p.gpus_per_node if (p := policy.pool(s.pool)) else 0) for s in facts.pools
        )
        self.gpus = None if limits.max_gpus is None else max(0, limits.max_gpus - existing)
        per_hour = limits.max_growth_per_hour
        self.nodes = None if per_hour is None else max(0, per_hour - facts.grown_last_hour)

    def passes(self, tally: Tally, count: int) -> int:
        """How many of the three checks (in order) *count* more nodes of the tally's pool pass; 3 is all."""
        price = tally.pool.price_usd_per_hour
        if self.usd is not None and (price is None or count * unit_price(price, self.policy.billing) > self.usd):
            return 0
        if tally.state.required + tally.within[2] + count > tally.bounds.max_nodes:
            return 1
        gpus_fit = self.gpus is None or count * tally.pool.gpus_per_node <= self.gpus
        rate_fits = self.nodes is None or count <= self.nodes
        return 3 if gpus_fit and rate_fits else 2

    def spend(self, tally: Tally, count: int) -> None:
        """Take *count* nodes out of what is shared."""
        if self.usd is not None and tally.pool.price_usd_per_hour is not None:
            self.usd -= count * unit_price(tally.pool.price_usd_per_hour, self.policy.billing)
        if self.gpus is not None:
            self.gpus -= count * tally.pool.gpus_per_node
        if self.nodes is not None:
            self.nodes -= count

    def open(self, tally: Tally, why: str, count: int = 1) -> int:
        """Want *count* nodes more; returns how many checks they passed (3: they may be asked for)."""
        passed = self.passes(tally, count)
        tally.counts[why] += count
        for check in range(passed):
            tally.within[check] += count
        if passed == len(RULES) and not tally.blocked:  # a blocked pool's wish must not use up what others may have
            self.spend(tally, count)
        return passed


def open_tally(pool: Pool, facts: Facts) -> Tally:
    """Return the empty tally of *pool*: its bounds now, its room, and whether a guardrail will hold its growth."""
    state = facts.pool(pool.id)
    bounds = bounds_at(pool.min_nodes, pool.max_nodes, pool.standby_nodes, pool.windows, facts.at)
    backing_off = state.backoff is not None and state.backoff.holds(facts.at, LONGEST_GROWTH_BACKOFF)
    halts = (SignalAction.FREEZE, SignalAction.PAUSE_SCALE_UP)
    halted = any(s.action in halts and s.pool in (None, pool.id) for s in facts.signals)
    stuck = bool(stuck_on_the_way(pool, state, facts.at))
    return Tally(
        pool=pool,
        state=state,
        bounds=bounds,
        bins=list(_capacity(pool, state, facts)),
        blocked=pool.price_usd_per_hour is None or backing_off or halted or stuck or state.silenced_by is not None,
    )


def _capacity(pool: Pool, state: PoolState, facts: Facts) -> Iterable[Bin]:
    """Room that exists or is on its way. Fullest usable nodes come first, then younger stages.

    A usable node counts even when the scheduler has not used it: if its free GPUs do not help, another
    node like it will not either, so buying stops there. A cordon of somebody else's takes a node out.
    """
    going = _deleted_victims(state)
    usable = [n for n in state.of(Stage.USABLE) if n.cordoned_by is not CordonedBy.SOMEONE and n.instance not in going]
    for node in sorted(usable, key=lambda n: (sum(n.free.values()), n.name)):
        yield Bin(pool=pool.id, instance=node.instance, free=dict(node.free), rank=0)
    for node in state.living:
        if _is_coming(node, pool, facts):
            yield Bin(pool=pool.id, instance=node.instance, free=dict(pool.resources), rank=1)
    for _ in range(0 if unlisted_too_long(pool, state, facts.at) else state.unlisted):
        yield Bin(pool=pool.id, instance=None, free=dict(pool.resources))


def _deleted_victims(state: PoolState) -> frozenset[str]:
    action = state.open_action
    if action is None or action.kind is not ActionKind.RETIRE:
        return frozenset()
    return frozenset(v.instance for v in action.victims if v.stage in (VictimStage.DELETED, VictimStage.GONE))


def _is_coming(node: Node, pool: Pool, facts: Facts) -> bool:
    """True while *node* may still become usable.

    Without Kubernetes a node that was never seen usable counts as on its way, however old: nobody can tell,
    and another node bought beside it would be as unseen.
    """
    if node.stage is Stage.UNKNOWN:
        return not node.was_usable
    if node.stage is Stage.BROKEN and node.lost_at is not None:
        return not node.busy and facts.at - node.lost_at <= SHORT_LOSS  # a device plugin that restarts
    return node.stage in ON_ITS_WAY and facts.at - node.created_at <= pool.provision_timeout


def unlisted_too_long(pool: Pool, state: PoolState, now: datetime) -> bool:
    """True when Civo was asked for nodes longer than the provision timeout ago and still lists fewer."""
    since = state.required_since
    return state.unlisted > 0 and since is not None and now - since > pool.provision_timeout


def stuck_on_the_way(pool: Pool, state: PoolState, now: datetime) -> tuple[str, ...]:
    """Names of the nodes that did not become usable in time, or came up broken, and the ones Civo never built."""
    late = [
        n.name
        for n in state.living
        if not n.was_usable
        and (n.stage is Stage.BROKEN or (n.stage in ON_ITS_WAY and now - n.created_at > pool.provision_timeout))
    ]
    missing = [f"{some(state.unlisted, 'node')} that Civo does not list"] if unlisted_too_long(pool, state, now) else []
    return (*late, *missing)


def is_full(tally: Tally) -> bool:
    """True when the pool may not have another node."""
    return tally.state.required + tally.within[2] >= tally.bounds.max_nodes


def new_bin(tally: Tally) -> Bin:
    """A node that is not there yet, for work that is put into it at once."""
    return Bin(pool=tally.pool.id, instance=None, free=dict(tally.pool.resources), used=True)
