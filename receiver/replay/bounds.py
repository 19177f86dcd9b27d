"""What no policy can beat, and what one could do that knows the future: figures that the trace alone decides."""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.policy import Pool
from receiver.replay.figures import Figures
from receiver.replay.play import Setting
from receiver.replay.world.config import Job

HOUR = timedelta(hours=1)

Reckon = Callable[[Sequence[Job], Sequence[Pool], Setting], Figures]


def fluid_gpu_hours(jobs: Sequence[Job]) -> float:
    """GPU-hours that the jobs hold: what is paid if every paid GPU-second is used, whoever waits how long."""
    return sum(job.gpus * (job.duration / HOUR) for job in jobs)


@dataclass(slots=True)
class _Open:
    """A node of the schedule: from *start*, busy until *end* as far as planned."""

    start: datetime
    end: datetime
    free: int
    ending: list[tuple[datetime, int]] = field(default_factory=list)  # a heap of what gives back GPUs when


@dataclass(frozen=True, slots=True)
class Schedule:
    """A feasible schedule: node-hours as billed per second and per started hour, and the most nodes at once."""

    nodes: int
    node_hours_second: float
    node_hours_started: int
    peak: int


def clairvoyant(jobs: Sequence[Job], gpus: int, lead: timedelta, *, by_the_hour: bool) -> Schedule:
    """Place every pod the moment it comes, on nodes of *gpus* GPUs ordered *lead* ahead, where it adds the least to
    what is paid; nothing moves and nobody waits.

    It is greedy: an upper bound on the least that such a schedule costs. A node may be kept idle between two pods when
    that is cheaper than a new one. Raises ValueError for a pod that is larger than a node.
    """
    nodes: list[_Open] = []
    over: list[_Open] = []
    peak = 0
    for job in sorted(jobs, key=lambda j: j.submit_at):
        now, end = job.submit_at, job.submit_at + job.duration
        nodes, gone = _still_useful(nodes, now, by_the_hour=by_the_hour)
        over += gone
        for _ in range(job.pods):
            if job.gpus_per_pod > gpus:
                raise ValueError(f"a pod of {job.id} asks for {job.gpus_per_pod} GPUs, nodes have {gpus}")
            chosen = _cheapest(nodes, job.gpus_per_pod, end, now, lead, by_the_hour=by_the_hour)
            if chosen is None:
                chosen = _Open(start=now - lead, end=end, free=gpus)
                nodes.append(chosen)
            chosen.free -= job.gpus_per_pod
            chosen.end = max(chosen.end, end)
            heapq.heappush(chosen.ending, (end, job.gpus_per_pod))
        peak = max(peak, sum(node.end > now for node in nodes))
    over += nodes
    lasted = [node.end - node.start for node in over]
    return Schedule(
        nodes=len(over),
        node_hours_second=sum((length / HOUR for length in lasted), 0.0),
        node_hours_started=sum(max(1, math.ceil(length / HOUR)) for length in lasted),
        peak=peak,
    )


def _still_useful(nodes: list[_Open], now: datetime, *, by_the_hour: bool) -> tuple[list[_Open], list[_Open]]:
    """Give back what ended by *now*; split off the nodes that nothing would be cheaper on than on a new one."""
    kept: list[_Open] = []
    gone: list[_Open] = []
    for node in nodes:
        while node.ending and node.ending[0][0] <= now:
            node.free += heapq.heappop(node.ending)[1]
        limit = node.start + _paid(node.end - node.start, by_the_hour=by_the_hour) + HOUR
        (kept if node.ending or now <= limit else gone).append(node)
    return kept, gone


def _cheapest(
    nodes: Sequence[_Open], wanted: int, end: datetime, now: datetime, lead: timedelta, *, by_the_hour: bool
) -> _Open | None:
    """The node that has room and costs least more with the pod on it, then the fullest; None where a new one is
    cheaper."""
    best: tuple[timedelta, int] | None = None
    chosen: _Open | None = None
    for node in nodes:
        if node.free < wanted:
            continue
        before = _paid(node.end - node.start, by_the_hour=by_the_hour)
        more = _paid(max(node.end, end) - node.start, by_the_hour=by_the_hour) - before
        if best is None or (more, node.free) < best:
            best, chosen = (more, node.free), node
    new = _paid(end - now + lead, by_the_hour=by_the_hour)
    return chosen if best is not None and best[0] <= new else None


def _paid(length: timedelta, *, by_the_hour: bool) -> timedelta:
    return max(1, math.ceil(length / HOUR)) * HOUR if by_the_hour else length


@dataclass(frozen=True, slots=True)
class Bound:
    """*about* is one line; *reckon* raises ValueError for a pod that no pool can hold."""

    about: str
    reckon: Reckon


@dataclass(frozen=True, slots=True)
class _Bought:
    """Nodes of one pool: their hours by the second and by the started hour, and how many there were."""

    pool: Pool
    seconds: float
    started: int
    nodes: int


def _knowing(jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting) -> Figures:
    """The cheaper of two ways: every pod on the largest nodes, or on the smallest ones that it fits."""
    sizes = sorted(pools, key=lambda pool: pool.gpus_per_node)
    fitting: dict[str, list[Job]] = {}
    for job in jobs:
        pool = next((p for p in sizes if p.gpus_per_node >= job.gpus_per_pod), sizes[-1])
        fitting.setdefault(pool.id, []).append(job)
    ways = [_scheduled(way, sizes, setting) for way in ({sizes[-1].id: list(jobs)}, fitting)]
    found = [_figures("clairvoyant", jobs, bought, setting) for bought in ways]
    return min(found, key=lambda f: f.gpu_hours_started if setting.by_the_hour else f.gpu_hours_second)


def _scheduled(way: Mapping[str, Sequence[Job]], pools: Sequence[Pool], setting: Setting) -> list[_Bought]:
    found = []
    for pool in pools:
        if pool.id in way:
            plan = clairvoyant(way[pool.id], pool.gpus_per_node, setting.lead, by_the_hour=setting.by_the_hour)
            found.append(_Bought(pool, plan.node_hours_second, plan.node_hours_started, plan.nodes))
    return found


def _fluid(jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting) -> Figures:
    """Every paid GPU-second is used: nobody could pay less, whoever waits how long. Of the cheapest GPUs."""
    cheapest = min(pools, key=lambda p: (p.price_usd_per_hour or Decimal(0)) / max(1, p.gpus_per_node))
    hours = fluid_gpu_hours(jobs) / cheapest.gpus_per_node
    return _figures("fluid", jobs, [_Bought(cheapest, hours, math.ceil(hours), 0)], setting)


def _figures(name: str, jobs: Sequence[Job], bought: Sequence[_Bought], setting: Setting) -> Figures:
    gpu_hours = sum(b.seconds * b.pool.gpus_per_node for b in bought)
    second = _usd([(b.pool, b.seconds) for b in bought])
    started = _usd([(b.pool, b.started) for b in bought])
    return Figures(
        name=name,
        node_hours_second=round(sum(b.seconds for b in bought), 3),
        node_hours_started=sum(b.started for b in bought),
        gpu_hours_second=round(gpu_hours, 3),
        gpu_hours_started=sum(b.started * b.pool.gpus_per_node for b in bought),
        usd=started if setting.by_the_hour else second,
        utilization=round(fluid_gpu_hours(jobs) / gpu_hours, 4) if gpu_hours else 0.0,
        wait_mean_s=0.0,
        wait_p50_s=0.0,
        wait_p95_s=0.0,
        wait_max_s=0.0,
        node_starts=sum(b.nodes for b in bought),
        actions=0,
        kills=0,
        jobs=len(jobs),
        jobs_lost=0,
        usd_second=second,
        usd_started=started,
    )


def _usd(hours: Sequence[tuple[Pool, float]]) -> Decimal | None:
    if any(pool.price_usd_per_hour is None for pool, _ in hours):
        return None
    total = sum(((pool.price_usd_per_hour or Decimal(0)) * Decimal(str(h)) for pool, h in hours), Decimal(0))
    return total.quantize(Decimal("0.01"))


BOUNDS: Mapping[str, Bound] = {
    "clairvoyant": Bound("knows the future: nobody waits, and nodes come where that is cheapest", _knowing),
    "fluid": Bound("pays for what is used and for nothing else, whoever waits how long", _fluid),
}
