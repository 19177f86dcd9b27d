"""Assign the waiting work to pools, over all pools at once: demand to nodes, one budget, one set of limits.

Capacity that exists or is on its way is filled first, so the same pods are never asked for twice; new nodes
are opened in the cheapest pool that fits. Each new node is checked against budget, maximum and limits in
that order, so the guardrails of `decide` can say which one left how many. A gang is placed whole or not at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from receiver.core.budget import BudgetStage, BudgetView, view
from receiver.core.capacity import NOT_ALLOWED, RANKS, RULES, Allowance, Bin, Held, Tally, is_full, new_bin, open_tally
from receiver.core.demand import misfit, take, why_nowhere, workloads
from receiver.core.model import Facts, Source, SourceState
from receiver.core.pods import Pod, Workload
from receiver.core.policy import Policy, Pool
from receiver.core.windows import Bounds


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
    placed: tuple[tuple[str, str], ...] = ()  # of those, the ones that fit a usable node: (workload, instance)
    held: tuple[Held, ...] = ()
    budget: BudgetView | None = None
    sources: Mapping[Source, SourceState] = field(default_factory=dict)
    deliveries: tuple[int, ...] = ()
    removals_left: int | None = None  # set pool by pool in `decide_all`: None is no limit

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


def assign(facts: Facts, policy: Policy) -> Assignment:
    """Return what each pool should have beyond what it has, and why some work stays waiting.

    The order of service is: workloads by priority and age, then floors (`min_nodes`), then standby nodes,
    so a budget that cannot serve all drops standby first.
    """
    budget = view(facts, policy)
    tallies = {p.id: open_tally(p, facts) for p in policy.pools}
    allowance = Allowance(facts, policy, budget)
    misfits: list[Misfit] = []
    fitting_by_shape: dict[tuple[object, ...], list[Tally]] = {}
    for workload in workloads(facts.waiting):
        shape = tuple(_shape(pod) for pod in workload.pods)
        if shape not in fitting_by_shape:
            fits = [x for x in tallies.values() if all(misfit(pod, x.pool) is None for pod in workload.pods)]
            fitting_by_shape[shape] = sorted(fits, key=lambda x: (_price_per_gpu(x.pool), x.pool.name))
        fitting = fitting_by_shape[shape]
        if not fitting:
            misfits.append(Misfit(workload=workload, detail=why_nowhere(workload, policy.pools)))
        elif workload.gang:
            _place_gang(workload, fitting, allowance)
        else:
            _place_pod(workload, fitting, allowance)
    for tally in tallies.values():
        _hold_floor(tally, allowance)
    for tally in tallies.values():
        _keep_standby(tally, allowance)
    return Assignment(
        pools={x.pool.id: _wanted(x, facts, budget) for x in tallies.values()},
        misfits=tuple(misfits),
        budget=budget,
    )


def _price_per_gpu(pool: Pool) -> Decimal:
    price = pool.price_usd_per_hour
    return Decimal("Infinity") if price is None else price / max(1, pool.gpus_per_node)


def _place_pod(workload: Workload, fitting: Sequence[Tally], allowance: Allowance) -> None:
    pod = workload.pods[0]
    for rank in RANKS:
        for tally in fitting:
            room = tally.settle(pod.requests, rank)
            if room is not None:
                if room.instance is not None and rank == 0:
                    tally.placed.append((workload.key, room.instance))
                tally.waiting_gpus += workload.gpus
                tally.settled.append(workload.key)
                return
    chosen = _where_to_buy(fitting, allowance)
    chosen.waiting_gpus += workload.gpus
    chosen.asking.append(workload)
    if chosen.settle(pod.requests, NOT_ALLOWED) is not None:
        return
    passed = allowance.open(chosen, "demand")
    room = new_bin(chosen)
    room.allowed = passed == len(RULES)
    take(room.free, pod.requests)
    chosen.add(room)


def _where_to_buy(fitting: Sequence[Tally], allowance: Allowance) -> Tally:
    """The cheapest pool that may grow, else the cheapest whose checks pass, else the cheapest (it will say why not)."""
    passing = (x for x in fitting if allowance.passes(x, 1) == len(RULES))
    first: Tally | None = None
    for tally in passing:
        if not tally.blocked:
            return tally
        first = first or tally
    return first or next((x for x in fitting if not x.blocked and not is_full(x)), fitting[0])


def _shape(pod: Pod) -> tuple[object, ...]:
    """What decides where a pod fits; pods of one shape are matched once."""
    return (
        tuple(sorted(pod.requests.items())),
        tuple(sorted(pod.node_selector.items())),
        pod.affinity,
        pod.tolerations,
        pod.pool_hint,
    )


def _place_gang(workload: Workload, fitting: Sequence[Tally], allowance: Allowance) -> None:
    """Put all pods of a gang into one pool, or none anywhere: half a gang holds GPUs and computes nothing."""
    refusal: tuple[Tally, int, int] | None = None
    for tally in sorted(fitting, key=lambda x: x.blocked or is_full(x)):
        rooms = tally.roomy()
        trial = [replace(b, free=dict(b.free), used=False) for b in rooms]
        opened = _fill(trial, workload.pods, tally)
        passed = allowance.passes(tally, opened) if opened else len(RULES)
        if passed == len(RULES):
            for room, tried in zip(rooms, trial, strict=False):
                room.free, room.used = tried.free, room.used or tried.used
            for room in trial[len(rooms) :]:
                tally.add(room)
            tally.waiting_gpus += workload.gpus
            if opened:
                allowance.open(tally, "demand", opened)
                tally.asking.append(workload)
            else:
                tally.settled.append(workload.key)
            return
        refusal = refusal or (tally, opened, passed)
    if refusal is not None:
        tally, opened, passed = refusal
        tally.waiting_gpus += workload.gpus
        detail = f"gang {workload.key} needs {opened} new nodes at once or none, and {RULES[passed]} leaves fewer"
        tally.held.append(Held(workload=workload.key, rule="gangs_whole", detail=detail))


def _fill(bins: list[Bin], pods: Sequence[Pod], tally: Tally) -> int:
    """Pack *pods* into *bins*, opening new ones at the end; return how many were opened."""
    opened = 0
    for pod in pods:
        room = next((b for b in bins if take(b.free, pod.requests)), None)
        if room is None:
            room = new_bin(tally)
            take(room.free, pod.requests)
            bins.append(room)
            opened += 1
        room.used = True
    return opened


def _hold_floor(tally: Tally, allowance: Allowance) -> None:
    """Open nodes up to the floor, each checked by itself."""
    for _ in range(tally.bounds.min_nodes - tally.state.required - tally.counts["demand"]):
        allowance.open(tally, "floor")
        tally.add(Bin(pool=tally.pool.id, instance=None, free=dict(tally.pool.resources)))


def _keep_standby(tally: Tally, allowance: Allowance) -> None:
    """Open nodes until enough empty ones that nobody waits for exist or are on their way."""
    busy = {n.instance for n in tally.state.nodes if n.busy}
    spare = sum(1 for b in tally.bins if not b.used and b.instance not in busy)
    for _ in range(tally.bounds.standby_nodes - spare):
        allowance.open(tally, "standby")


def _wanted(tally: Tally, facts: Facts, budget: BudgetView | None) -> Wanted:
    return Wanted(
        pool=tally.pool.id,
        bounds=tally.bounds,
        for_demand=tally.counts["demand"],
        for_floor=tally.counts["floor"],
        for_standby=tally.counts["standby"],
        within_budget=tally.within[0],
        within_maximum=tally.within[1],
        within_limits=tally.within[2],
        needed=frozenset(b.instance for b in tally.bins if b.used and b.instance is not None),
        asking=tuple(tally.asking),
        waiting_gpus=tally.waiting_gpus,
        settled=tuple(tally.settled),
        placed=tuple(tally.placed),
        held=tuple(tally.held),
        budget=budget,
        sources=facts.sources,
        deliveries=facts.deliveries,
    )


def floor_gives_way(wanted: Wanted) -> bool:
    """True when the budget stop lets empty nodes go below the floor: the stop is the highest authority."""
    return wanted.budget is not None and wanted.budget.stage is BudgetStage.STOP
