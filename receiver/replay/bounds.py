"""Bounds: the least that any policy could pay, and a schedule that knows the future. The trace alone decides them."""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.policy import Pool
from receiver.replay.figures import Billed, Figures, cost
from receiver.replay.play import Setting
from receiver.replay.world.config import Job

HOUR = timedelta(hours=1)

Reckon = Callable[[Sequence[Job], Sequence[Pool], Setting], Figures]


def fluid_gpu_hours(jobs: Sequence[Job]) -> float:
    """Return the GPU-hours that the jobs hold: the bill when no paid GPU-second is unused."""
    return sum(job.gpus * (job.duration / HOUR) for job in jobs)


@dataclass(slots=True)
class _Open:
    """A node of the schedule: it runs from *start*, and is busy until *end* so far."""

    start: datetime
    end: datetime
    free: int
    ending: list[tuple[datetime, int]] = field(default_factory=list)  # a heap of the GPUs that become free


@dataclass(frozen=True, slots=True)
class Schedule:
    """A feasible schedule: node-hours billed per second and per started hour, and the peak of nodes."""

    nodes: int
    node_hours_second: float
    node_hours_started: int
    peak: int


def clairvoyant(jobs: Sequence[Job], gpus: int, lead: timedelta, *, by_the_hour: bool) -> Schedule:
    """Place every pod at its submission where it adds least to the bill, on nodes of *gpus* GPUs ordered *lead* ahead.
    Nothing moves and nothing waits.

    It is greedy, so the best such schedule may cost less. A node stays idle between two pods when that is cheaper than
    a new one. Raises ValueError for a pod that is larger than a node.
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
                raise ValueError(f"a pod of {job.id} requests {job.gpus_per_pod} GPUs, nodes have {gpus}")
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
    """Free the GPUs of pods that ended by *now*. Split the nodes into those still worth keeping and the others."""
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
    """Return the node with room to whose bill the pod adds least, then the fullest; None when a new one is
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
    """*about* is one line; *reckon* raises ValueError for a pod that fits no pool."""

    about: str
    reckon: Reckon


def _clairvoyant(jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting) -> Figures:
    """Return the cheaper of two schedules: every pod on the largest nodes, or on the smallest that it fits."""
    sizes = sorted(pools, key=lambda pool: pool.gpus_per_node)
    fitting: dict[str, list[Job]] = {}
    for job in jobs:
        pool = next((p for p in sizes if p.gpus_per_node >= job.gpus_per_pod), sizes[-1])
        fitting.setdefault(pool.id, []).append(job)
    found = [_scheduled(way, jobs, sizes, setting) for way in ({sizes[-1].id: list(jobs)}, fitting)]
    return min(found, key=lambda f: f.paid(by_the_hour=setting.by_the_hour))


def _scheduled(
    way: Mapping[str, Sequence[Job]], jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting
) -> Figures:
    """Return the figures when each pool runs the jobs that *way* gives it."""
    plans = [
        (pool, clairvoyant(way[pool.id], pool.gpus_per_node, setting.lead, by_the_hour=setting.by_the_hour))
        for pool in pools
        if pool.id in way
    ]
    nodes = [_billed(pool, plan.node_hours_second, plan.node_hours_started) for pool, plan in plans]
    return _figures("clairvoyant", jobs, nodes, setting, starts=sum(plan.nodes for _, plan in plans))


def _fluid(jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting) -> Figures:
    """Return the figures when every paid GPU-second of the cheapest GPUs is used."""
    cheapest = min(pools, key=lambda p: (p.price_usd_per_hour or Decimal(0)) / max(1, p.gpus_per_node))
    hours = fluid_gpu_hours(jobs) / cheapest.gpus_per_node
    return _figures("fluid", jobs, [_billed(cheapest, hours, math.ceil(hours))], setting, starts=0)


def _billed(pool: Pool, hours: float, started: int) -> Billed:
    return Billed(pool.gpus_per_node, pool.price_usd_per_hour, hours * 3600, started)


def _figures(name: str, jobs: Sequence[Job], nodes: Sequence[Billed], setting: Setting, *, starts: int) -> Figures:
    gpu_hours = sum(node.seconds * node.gpus for node in nodes) / 3600
    return Figures(
        name=name,
        **cost(nodes, by_the_hour=setting.by_the_hour),
        utilization=round(fluid_gpu_hours(jobs) / gpu_hours, 4) if gpu_hours else 0.0,
        wait_mean_s=0.0,
        wait_p50_s=0.0,
        wait_p95_s=0.0,
        wait_max_s=0.0,
        node_starts=starts,
        actions=0,
        kills=0,
        jobs=len(jobs),
        jobs_lost=0,
    )


BOUNDS: Mapping[str, Bound] = {
    "clairvoyant": Bound(
        "a schedule that knows the future: no job waits, and nodes start where that is cheapest", _clairvoyant
    ),
    "fluid": Bound("pays only for GPU-seconds that are used; waits do not count", _fluid),
}
