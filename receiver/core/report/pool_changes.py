"""Pools to add or merge: what a month's recorded work would have cost on other sizes of nodes."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import count

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Billing, Policy, Pool
from receiver.core.model.text import dollars, listed, some
from receiver.core.model.usage import COVERAGE_ENOUGH, Usage, WorkloadLife
from receiver.core.money.cost import EPOCH, HOUR, first_unit_from, in_cents, unit_price, units
from receiver.core.report.rightsizing import WHOLE_GPU
from receiver.core.scaling.market import alike

SIZES = (1, 2, 4)  # GPUs per node of a pool that could be added
# An added pool must save this much of the month. Against replays of four real traces under the default policy, the
# estimate for smaller sizes beside 8-GPU nodes was at most 10 % of the cost too good, and 3 % on average: the policy
# does not know how long runs last, and keeps small nodes warm.
SAVES_RATIO, SAVES_USD = Decimal("0.10"), Decimal(50)
MERGES_RATIO = Decimal("0.01")  # a pool that saves less than this is not worth having
LEAST_TIME, LEAST_GPU_HOURS = timedelta(days=7), 100.0  # less work is no basis for a proposal
STEADY = 0.05  # how far a mean number of held GPUs may be from a whole number


class PoolWay(StrEnum):
    """How the pools would change."""

    ADD = "add"
    MERGE = "merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange:
    """A pool of nodes with *gpus* GPUs added beside, or merged into, the pool *beside*; *pool* is empty if added.

    *usd* is the estimated cost of the month's work with the present pools, *changed_usd* with the change: both from the
    same schedule, which knows no start-up, no waits and no requests but GPUs. *share* is the ratio of its GPU-hours by
    pods that need the pool's size: with *smallest* to *gpus* GPUs.
    """

    way: PoolWay
    gpus: int
    smallest: int
    pool: str = ""
    beside: str
    usd: Decimal
    changed_usd: Decimal
    share: float

    @property
    def saves_usd(self) -> Decimal:
        """USD of the month; negative if the change costs more."""
        return self.usd - self.changed_usd

    @property
    def sentence(self) -> str:
        """The change as a sentence."""
        more = self.changed_usd - self.usd
        cost = f"about {dollars(abs(more))} {'more' if more > 0 else 'less'} ({more / self.usd * 100:+.1f}%)"
        sizes = some(self.gpus, "GPU") if self.smallest == self.gpus else f"{self.smallest} to {self.gpus} GPUs"
        pods = f"{self.share * 100:.0f}% of the GPU-hours were of pods with {sizes}"
        added = f"a pool of {self.gpus}-GPU nodes beside {self.beside}"
        change = added if self.way is PoolWay.ADD else f"{self.pool} merged into {self.beside}"
        return f"With {change}, the work would have cost {cost if more else 'the same'}: {pods}."


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A pod that held *gpus* GPUs of one node."""

    begin: datetime
    end: datetime
    gpus: int

    @property
    def gpu_hours(self) -> float:
        return self.gpus * ((self.end - self.begin) / HOUR)


def pool_changes(
    lives: Iterable[NodeLife],
    usage: Iterable[Usage],
    workloads: Iterable[WorkloadLife],
    policy: Policy,
    start: datetime,
    until: datetime,
    observed_from: datetime | None,
) -> tuple[PoolChange, ...]:
    """Return the changes worth making by the work between *start* and *until*, the largest saving first. Each stands
    alone: their savings do not add up. Usage is known from *observed_from* on, None: not at all."""
    if observed_from is None or until - max(start, observed_from) < LEAST_TIME:
        return ()
    nodes = {life.instance: life for life in lives}
    held: defaultdict[tuple[str, str], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in usage:
        if row.instance in nodes:
            held[row.workload, row.life][row.instance] += row.held
    workload_lives = {(each.workload, each.life): each for each in workloads}
    changes: list[PoolChange] = []
    for group in _groups(nodes.values(), policy):
        ids = {pool.id for pool in group}
        runs: list[RecordedRun] = []
        whole = 0.0  # GPU-hours
        for named, by_node in held.items():
            on = [(nodes[i], seconds) for i, seconds in by_node.items() if nodes[i].pool in ids and seconds > 0]
            whole += sum(seconds for _, seconds in on) / 3600
            if named in workload_lives and on:
                runs += _runs_of(workload_lives[named], on, start, until)
        widest = max(pool.gpus_per_node for pool in group)
        runs = [run for run in runs if run.gpus <= widest]  # else the node's GPUs were not known
        recorded_hours = sum(run.gpu_hours for run in runs)
        if recorded_hours >= LEAST_GPU_HOURS and recorded_hours >= COVERAGE_ENOUGH * whole:
            changes += _worth_it(group, runs, policy.billing)
    return tuple(sorted(changes, key=lambda change: (-change.saves_usd, change.way, change.gpus, change.beside)))


def _groups(lives: Iterable[NodeLife], policy: Policy) -> Iterable[Sequence[Pool]]:
    """The pools of whole GPUs with a price that could run each other's pods."""
    shared = {x.pool for x in lives if (pool := policy.pool(x.pool)) and x.gpus not in (0, pool.gpus_per_node)}
    groups: list[list[Pool]] = []
    for pool in policy.pools:
        if set(pool.resources) != {WHOLE_GPU} or pool.id in shared or not pool.max_nodes or not pool.price_usd_per_hour:
            continue
        group = next((group for group in groups if alike(group[0], pool)), None)
        groups.append([pool]) if group is None else group.append(pool)
    return groups


def _runs_of(
    life: WorkloadLife, on: Sequence[tuple[NodeLife, float]], start: datetime, until: datetime
) -> Iterator[RecordedRun]:
    """The pods of *life* by the GPU-seconds that they held *on* each node.

    The ledger does not know single pods. If the workload held all its GPUs from its binding to its end, the mean of a
    node is the number held there; else it is taken for as many as the workload had and the node has. What a workload
    held on one node counts as one pod, which understates the use of smaller nodes.
    """
    if life.bound_at is None or not life.gpus:
        return
    begins = [max(life.bound_at, node.created_at, start) for node, _ in on]
    ends = [min(life.ended_at or until, node.gone_at or until, until) for node, _ in on]
    lasted = [max((end - begin).total_seconds(), 1.0) for begin, end in zip(begins, ends, strict=True)]
    means = [seconds / length for (_, seconds), length in zip(on, lasted, strict=True)]
    steady = abs(sum(means) - life.gpus) <= STEADY * life.gpus and all(
        mean >= 0.5 and abs(mean - round(mean)) <= STEADY for mean in means
    )
    for (node, seconds), begin, mean in zip(on, begins, means, strict=True):
        gpus = round(mean) if steady else min(life.gpus, round(node.gpus) or life.gpus)
        yield RecordedRun(begin, begin + timedelta(seconds=seconds / gpus), gpus)


def _worth_it(group: Sequence[Pool], runs: Sequence[RecordedRun], billing: Billing) -> Iterator[PoolChange]:
    pools: dict[int, Pool] = {}  # by GPUs of a node, the cheapest of each
    for pool in sorted(group, key=lambda pool: (pool.price_usd_per_hour or Decimal(0), pool.name)):
        pools.setdefault(pool.gpus_per_node, pool)
    prices = {gpus: pool.price_usd_per_hour or Decimal(0) for gpus, pool in sorted(pools.items())}
    names = {gpus: listed(sorted(p.name for p in group if p.gpus_per_node == gpus)) for gpus in prices}
    widest, now = max(prices), paid(runs, prices, billing).usd
    whole = sum(run.gpu_hours for run in runs)
    idle_usd = now - Decimal(whole) * min(price / gpus for gpus, price in prices.items())  # no pool saves more
    for gpus in sorted({*SIZES, *prices} - {widest}):
        wider = min((size for size in prices if size > gpus), default=widest)
        smaller = max((size for size in prices if size < gpus), default=0)
        share = sum(run.gpu_hours for run in runs if smaller < run.gpus <= gpus) / whole
        way = PoolWay.MERGE if gpus in prices else PoolWay.ADD
        least = max(SAVES_RATIO * now, SAVES_USD) if way is PoolWay.ADD else -MERGES_RATIO * now
        if gpus > widest or (way is PoolWay.ADD and (not share or idle_usd <= least)):
            continue
        if way is PoolWay.MERGE:
            others = {size: price for size, price in prices.items() if size != gpus}
        else:
            others = {**prices, gpus: prices[wider] / wider * gpus}
        changed = paid(runs, others, billing).usd
        if now - changed > least:
            yield PoolChange(
                way=way,
                gpus=gpus,
                smallest=smaller + 1,
                pool=names.get(gpus, ""),
                beside=names[wider],
                usd=now,
                changed_usd=changed,
                share=share,
            )


@dataclass(slots=True)
class _Node:
    """A node of the schedule, in use until *end* so far and paid until *paid_until*."""

    gpus: int
    free: int
    begin: datetime
    end: datetime
    paid_until: datetime


@dataclass(frozen=True, slots=True)
class Paid:
    """What a schedule paid for: GPU-hours as billed, and USD."""

    gpu_hours: float
    usd: Decimal


def paid(runs: Iterable[RecordedRun], prices: Mapping[int, Decimal], billing: Billing) -> Paid:
    """Return what *runs* cost if each begins as recorded where it adds least to the bill: on a node with room, or on a
    new one of the smallest size that fits. Raises ValueError for a run that no node fits.

    *prices* are USD per node-hour by GPUs of a node. The schedule is greedy and knows how long each run lasts.
    """
    schedule = _Schedule(prices, billing)
    for run in sorted(runs, key=lambda run: (run.begin, -run.gpus, run.end)):
        schedule.place(run)
    return schedule.bill()


class _Schedule:
    """The nodes so far. *prices* and *billing* as in `paid`."""

    def __init__(self, prices: Mapping[int, Decimal], billing: Billing) -> None:
        self._prices, self._billing, self._sizes, self._order = prices, billing, sorted(prices), count()
        self._nodes: list[_Node] = []
        self._ending: list[tuple[datetime, int, _Node, int]] = []  # a heap of the GPUs that become free
        # Heaps by GPUs and free GPUs of a node. The one paid longest comes first: of equal ones it adds least. What a
        # node no longer is stays in them until it comes first.
        self._room: defaultdict[tuple[int, int], list[tuple[timedelta, int, _Node]]] = defaultdict(list)

    def place(self, run: RecordedRun) -> None:
        """Place *run*, which begins no earlier than those before it."""
        while self._ending and self._ending[0][0] <= run.begin:
            _, _, node, freed = heapq.heappop(self._ending)
            self._change(node, freed)
        size = next((size for size in self._sizes if size >= run.gpus), None)
        if size is None:
            raise ValueError(f"no node has {run.gpus} GPUs")
        chosen = new = _Node(size, size, run.begin, run.end, run.begin)
        least = self._added(new, run)
        for node in self._with_room(run.gpus):
            if not least:
                break
            if (added := self._added(node, run)) < least:
                chosen, least = node, added
        if chosen is new:
            self._nodes.append(new)
        chosen.end = max(chosen.end, run.end)
        chosen.paid_until = max(chosen.paid_until, first_unit_from(chosen.begin, run.end, self._billing))
        self._change(chosen, -run.gpus)
        heapq.heappush(self._ending, (run.end, next(self._order), chosen, run.gpus))

    def _change(self, node: _Node, freed: int) -> None:
        node.free += freed
        heapq.heappush(self._room[node.gpus, node.free], (EPOCH - node.paid_until, next(self._order), node))

    def _with_room(self, gpus: int) -> Iterator[_Node]:
        """The node paid longest of each number of free GPUs, the fullest of the smallest first."""
        for size in self._sizes:
            for free in range(gpus, size + 1):
                heap = self._room[size, free]
                while heap and (heap[0][2].free != free or EPOCH - heap[0][2].paid_until != heap[0][0]):
                    heapq.heappop(heap)
                if heap:
                    yield heap[0][2]

    def _added(self, node: _Node, run: RecordedRun) -> Decimal:
        """USD that *run* adds to the bill of *node*."""
        if run.end <= node.paid_until:
            return Decimal(0)
        added_time = first_unit_from(node.begin, run.end, self._billing) - node.paid_until
        return self._prices[node.gpus] * (added_time // timedelta(microseconds=1))

    def bill(self) -> Paid:
        """Return the bill of all nodes."""
        counts: defaultdict[int, int] = defaultdict(int)  # paid units
        for node in self._nodes:
            life = NodeLife(instance="", pool="", name="", size="", created_at=node.begin, gone_at=node.end)
            counts[node.gpus] += units(life, node.end, self._billing)
        hours = self._billing.granularity / HOUR
        usd = sum((n * unit_price(self._prices[gpus], self._billing) for gpus, n in counts.items()), Decimal(0))
        return Paid(sum(gpus * n * hours for gpus, n in counts.items()), in_cents(usd))
