"""Assign the waiting work to pools, over all pools at once: demand to nodes, one budget, one set of limits.

Capacity that exists or is on its way is filled first, so the same pods are never asked for twice; new nodes
are opened in the cheapest pool that fits. Each new node is checked against budget, maximum and limits in
that order, so the guardrails of `decide` can say which one left how many. A gang is placed whole or not at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from receiver.core.actions import ActionKind, VictimStage
from receiver.core.budget import BudgetStage, BudgetView, view
from receiver.core.cost import unit_price
from receiver.core.demand import misfit, take, why_nowhere, workloads
from receiver.core.model import (
    ON_ITS_WAY,
    CordonedBy,
    Facts,
    Node,
    Pod,
    PoolState,
    SignalAction,
    Source,
    SourceState,
    Stage,
    Workload,
)
from receiver.core.policy import Policy, Pool
from receiver.core.windows import Bounds, bounds_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A workload that was not given the nodes it needs, the rule that held it, and a sentence."""

    workload: str
    rule: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A workload that no pool can ever hold."""

    workload: Workload
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the assignment asks of one pool, in nodes beyond those that exist or are on their way.

    *for_demand*, *for_floor* and *for_standby* are what is wanted; *within_budget* >= *within_maximum* >=
    *within_limits* how many of them each check leaves, in that order. *needed* are the instances that
    waiting work would use, *asking* the workloads that the new nodes are for.
    """

    pool: str
    bounds: Bounds
    for_demand: int = 0
    for_floor: int = 0
    for_standby: int = 0
    within_budget: int = 0
    within_maximum: int = 0
    within_limits: int = 0
    needed: frozenset[str] = frozenset()
    asking: tuple[Workload, ...] = ()
    waiting_gpus: int = 0
    settled: tuple[str, ...] = ()  # workloads that fit what exists or is on its way
    held: tuple[Held, ...] = ()
    budget: BudgetView | None = None
    sources: Mapping[Source, SourceState] = field(default_factory=dict)
    deliveries: tuple[int, ...] = ()
    removals_left: int | None = None

    @property
    def new_nodes(self) -> int:
        """All nodes wanted beyond those that exist."""
        return self.for_demand + self.for_floor + self.for_standby


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The whole assignment: one Wanted per pool, what fits nowhere, and the budget they share."""

    pools: Mapping[str, Wanted]
    misfits: tuple[Misfit, ...] = ()
    budget: BudgetView | None = None


@dataclass(slots=True)
class _Bin:
    """Room for pods: a node that exists or is on its way (*instance*, None while Civo does not list it)."""

    pool: str
    instance: str | None
    free: dict[str, int]
    rank: int = 2  # 0 usable, 1 on its way, 2 not listed yet: what helps sooner is filled first, in every pool
    used: bool = False
    allowed: bool = True  # False: wanted, but a check leaves it out, so it must not attract other work


@dataclass(slots=True)
class _Ledger:
    """One pool's tally while assigning."""

    pool: Pool
    state: PoolState
    bounds: Bounds
    bins: list[_Bin]
    blocked: bool
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("demand", "floor", "standby"), 0))
    within: list[int] = field(default_factory=lambda: [0, 0, 0])  # budget, maximum, limits
    asking: list[Workload] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    waiting_gpus: int = 0


RULES = ("within_budget", "within_maximum", "within_limits")


class _Allowance:
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

    def passes(self, ledger: _Ledger, count: int) -> int:
        """How many of the three checks (in order) *count* more nodes of the ledger's pool pass; 3 is all."""
        price = ledger.pool.price_usd_per_hour
        if self.usd is not None and (price is None or count * unit_price(price, self.policy.billing) > self.usd):
            return 0
        if ledger.state.required + ledger.within[2] + count > ledger.bounds.max_nodes:
            return 1
        gpus_fit = self.gpus is None or count * ledger.pool.gpus_per_node <= self.gpus
        rate_fits = self.nodes is None or count <= self.nodes
        return 3 if gpus_fit and rate_fits else 2

    def spend(self, ledger: _Ledger, count: int) -> None:
        """Take *count* nodes out of what is shared."""
        if self.usd is not None and ledger.pool.price_usd_per_hour is not None:
            self.usd -= count * unit_price(ledger.pool.price_usd_per_hour, self.policy.billing)
        if self.gpus is not None:
            self.gpus -= count * ledger.pool.gpus_per_node
        if self.nodes is not None:
            self.nodes -= count

    def open(self, ledger: _Ledger, why: str, count: int = 1) -> int:
        """Want *count* nodes more; returns how many checks they passed (3: they may be asked for)."""
        passed = self.passes(ledger, count)
        ledger.counts[why] += count
        for check in range(passed):
            ledger.within[check] += count
        if passed == len(RULES):
            self.spend(ledger, count)
        return passed


def assign(facts: Facts, policy: Policy) -> Assignment:
    """Return what each pool should have beyond what it has, and why some work stays waiting.

    The order of service is: workloads by priority and age, then floors (`min_nodes`), then standby nodes,
    so a budget that cannot serve all drops standby first.
    """
    budget = view(facts, policy)
    ledgers = {p.id: _open_ledger(p, facts) for p in policy.pools}
    allowance = _Allowance(facts, policy, budget)
    misfits: list[Misfit] = []
    for workload in workloads(facts.waiting):
        fitting = [x for x in ledgers.values() if all(misfit(pod, x.pool) is None for pod in workload.pods)]
        if not fitting:
            misfits.append(Misfit(workload=workload, detail=why_nowhere(workload, policy.pools)))
            continue
        fitting.sort(key=lambda x: (_price_per_gpu(x.pool), x.pool.name))
        if workload.gang:
            _place_gang(workload, fitting, allowance)
        else:
            _place_pod(workload, fitting, allowance)
    for ledger in ledgers.values():
        _hold_floor(ledger, allowance)
    for ledger in ledgers.values():
        _keep_standby(ledger, allowance)
    removals = policy.limits.max_removals_per_hour
    left = None if removals is None else max(0, removals - facts.removed_last_hour)
    return Assignment(
        pools={x.pool.id: _wanted(x, facts, budget, left) for x in ledgers.values()},
        misfits=tuple(misfits),
        budget=budget,
    )


def _open_ledger(pool: Pool, facts: Facts) -> _Ledger:
    state = facts.pool(pool.id)
    bounds = bounds_at(pool.min_nodes, pool.max_nodes, pool.standby_nodes, pool.windows, facts.at)
    backing_off = state.backoff is not None and facts.at < state.backoff.until
    halts = (SignalAction.FREEZE, SignalAction.PAUSE_SCALE_UP)
    halted = any(s.action in halts and s.pool in (None, pool.id) for s in facts.signals)
    return _Ledger(
        pool=pool,
        state=state,
        bounds=bounds,
        bins=list(_capacity(pool, state, facts)),
        blocked=pool.price_usd_per_hour is None or backing_off or halted or state.silenced_by is not None,
    )


def _capacity(pool: Pool, state: PoolState, facts: Facts) -> Iterable[_Bin]:
    """Room that exists or is on its way. Fullest usable nodes come first, then younger stages.

    A usable node counts even when the scheduler has not used it: if its free GPUs do not help, another
    node like it will not either, so buying stops there. A cordon of somebody else's takes a node out.
    """
    going = _deleted_victims(state)
    usable = [n for n in state.of(Stage.USABLE) if n.cordoned_by is not CordonedBy.SOMEONE and n.instance not in going]
    for node in sorted(usable, key=lambda n: (sum(n.free.values()), n.name)):
        yield _Bin(pool=pool.id, instance=node.instance, free=dict(node.free), rank=0)
    for node in state.living:
        if _is_coming(node, pool, facts):
            yield _Bin(pool=pool.id, instance=node.instance, free=dict(pool.resources), rank=1)
    for _ in range(state.unlisted):
        yield _Bin(pool=pool.id, instance=None, free=dict(pool.resources))


def _deleted_victims(state: PoolState) -> frozenset[str]:
    action = state.open_action
    if action is None or action.kind is not ActionKind.RETIRE:
        return frozenset()
    return frozenset(v.instance for v in action.victims if v.stage in (VictimStage.DELETED, VictimStage.GONE))


def _is_coming(node: Node, pool: Pool, facts: Facts) -> bool:
    """True while *node* may still become usable. Without Kubernetes a young active node counts as such."""
    young = facts.at - node.created_at <= pool.provision_timeout
    return young and (node.stage in ON_ITS_WAY or node.stage is Stage.UNKNOWN)


def _is_full(ledger: _Ledger) -> bool:
    return ledger.state.required + ledger.within[2] >= ledger.bounds.max_nodes


def _price_per_gpu(pool: Pool) -> Decimal:
    price = pool.price_usd_per_hour
    return Decimal("Infinity") if price is None else price / max(1, pool.gpus_per_node)


def _new_bin(ledger: _Ledger) -> _Bin:
    return _Bin(pool=ledger.pool.id, instance=None, free=dict(ledger.pool.resources), used=True)


def _place_pod(workload: Workload, fitting: Sequence[_Ledger], allowance: _Allowance) -> None:
    pod = workload.pods[0]
    rooms = sorted(((x, b) for x in fitting for b in x.bins if b.allowed), key=lambda xb: xb[1].rank)
    for ledger, room in rooms:
        if take(room.free, pod.requests):
            room.used = True
            ledger.waiting_gpus += workload.gpus
            ledger.settled.append(workload.key)
            return
    open_first = sorted(fitting, key=lambda x: x.blocked or _is_full(x))  # stable: cheapest first within each
    chosen = next((x for x in open_first if allowance.passes(x, 1) == len(RULES)), open_first[0])
    chosen.waiting_gpus += workload.gpus
    chosen.asking.append(workload)
    if any(not room.allowed and take(room.free, pod.requests) for room in chosen.bins):
        return
    passed = allowance.open(chosen, "demand")
    room = _new_bin(chosen)
    room.allowed = passed == len(RULES)
    take(room.free, pod.requests)
    chosen.bins.append(room)


def _place_gang(workload: Workload, fitting: Sequence[_Ledger], allowance: _Allowance) -> None:
    """Put all pods of a gang into one pool, or none anywhere: half a gang holds GPUs and computes nothing."""
    refusal: tuple[_Ledger, int, int] | None = None
    for ledger in sorted(fitting, key=lambda x: x.blocked or _is_full(x)):
        trial = [replace(b, free=dict(b.free)) for b in ledger.bins if b.allowed]
        opened = _fill(trial, workload.pods, ledger)
        passed = allowance.passes(ledger, opened) if opened else len(RULES)
        if passed == len(RULES):
            ledger.bins = trial + [b for b in ledger.bins if not b.allowed]
            ledger.waiting_gpus += workload.gpus
            if opened:
                allowance.open(ledger, "demand", opened)
                ledger.asking.append(workload)
            else:
                ledger.settled.append(workload.key)
            return
        refusal = refusal or (ledger, opened, passed)
    if refusal is not None:
        ledger, opened, passed = refusal
        ledger.waiting_gpus += workload.gpus
        detail = f"gang {workload.key} needs {opened} new nodes at once or none, and {RULES[passed]} leaves fewer"
        ledger.held.append(Held(workload=workload.key, rule="gangs_whole", detail=detail))


def _fill(bins: list[_Bin], pods: Sequence[Pod], ledger: _Ledger) -> int:
    """Pack *pods* into *bins*, opening new ones at the end; return how many were opened."""
    opened = 0
    for pod in pods:
        room = next((b for b in bins if take(b.free, pod.requests)), None)
        if room is None:
            room = _new_bin(ledger)
            take(room.free, pod.requests)
            bins.append(room)
            opened += 1
        room.used = True
    return opened


def _hold_floor(ledger: _Ledger, allowance: _Allowance) -> None:
    """Open nodes up to the floor, each checked by itself."""
    for _ in range(ledger.bounds.min_nodes - ledger.state.required - ledger.counts["demand"]):
        allowance.open(ledger, "floor")
        ledger.bins.append(_Bin(pool=ledger.pool.id, instance=None, free=dict(ledger.pool.resources)))


def _keep_standby(ledger: _Ledger, allowance: _Allowance) -> None:
    """Open nodes until enough empty ones that nobody waits for exist or are on their way."""
    busy = {n.instance for n in ledger.state.nodes if n.busy}
    spare = sum(1 for b in ledger.bins if not b.used and b.instance not in busy)
    for _ in range(ledger.bounds.standby_nodes - spare):
        allowance.open(ledger, "standby")


def _wanted(ledger: _Ledger, facts: Facts, budget: BudgetView | None, removals_left: int | None) -> Wanted:
    return Wanted(
        pool=ledger.pool.id,
        bounds=ledger.bounds,
        for_demand=ledger.counts["demand"],
        for_floor=ledger.counts["floor"],
        for_standby=ledger.counts["standby"],
        within_budget=ledger.within[0],
        within_maximum=ledger.within[1],
        within_limits=ledger.within[2],
        needed=frozenset(b.instance for b in ledger.bins if b.used and b.instance is not None),
        asking=tuple(ledger.asking),
        waiting_gpus=ledger.waiting_gpus,
        settled=tuple(ledger.settled),
        held=tuple(ledger.held),
        budget=budget,
        sources=facts.sources,
        deliveries=facts.deliveries,
        removals_left=removals_left,
    )


def floor_gives_way(wanted: Wanted) -> bool:
    """True when the budget stop lets empty nodes go below the floor: the stop is the highest authority."""
    return wanted.budget is not None and wanted.budget.stage is BudgetStage.STOP
