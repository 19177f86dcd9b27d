"""Bounds: the least that any policy could pay, and a schedule that knows the future. The trace alone decides them."""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.policy import Pool
from receiver.replay.figures import HOUR, Billed, Figures, cost, started_hours
from receiver.replay.play import Setting
from receiver.replay.world.config import Job

Bound = Callable[[Sequence[Job], Sequence[Pool], Setting], Figures]  # raises ValueError for a pod that fits no pool


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


def schedule(jobs: Sequence[Job], gpus: int, lead: timedelta, *, by_the_hour: bool) -> list[timedelta]:
    """Place every pod at its submission where it adds least to the bill, on nodes of *gpus* GPUs ordered *lead* ahead.
    Nothing moves and nothing waits. Return how long each node runs.

    It is greedy, so the best such schedule may cost less. A node stays idle between two pods when that is cheaper than
    a new one. Raises ValueError for a pod that is larger than a node.
    """
    nodes: list[_Open] = []
    over: list[_Open] = []
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
    return [node.end - node.start for node in over + nodes]


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
    return started_hours(length) * HOUR if by_the_hour else length


def _clairvoyant(jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting) -> Figures:
    """Return the cheaper of two schedules that know the future: every pod on the largest nodes, or on the smallest that
    it fits. No job waits, and nodes start where that is cheapest."""
    sizes = sorted(pools, key=lambda pool: pool.gpus_per_node)
    fitting: dict[str, list[Job]] = {}
    for job in jobs:
        smallest = next((p for p in sizes if p.gpus_per_node >= job.gpus_per_pod), sizes[-1])
        fitting.setdefault(smallest.id, []).append(job)
    found = []
    for jobs_of in ({sizes[-1].id: list(jobs)}, fitting):
        nodes, starts = [], 0
        for pool in sizes:
            if pool.id in jobs_of:
                by_the_hour = setting.by_the_hour
                lasted = schedule(jobs_of[pool.id], pool.gpus_per_node, setting.lead, by_the_hour=by_the_hour)
                starts += len(lasted)
                hours = sum((length / HOUR for length in lasted), 0.0)
                nodes.append(_billed(pool, hours, sum(map(started_hours, lasted))))
        found.append(_figures("clairvoyant", jobs, nodes, setting, starts))
    return min(found, key=lambda f: f.paid(by_the_hour=setting.by_the_hour))


def _fluid(jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting) -> Figures:
    """Return the figures when every paid GPU-second of the cheapest GPUs is used; waits do not count."""
    cheapest = min(pools, key=lambda p: (p.price_usd_per_hour or Decimal(0)) / max(1, p.gpus_per_node))
    hours = fluid_gpu_hours(jobs) / cheapest.gpus_per_node
    return _figures("fluid", jobs, [_billed(cheapest, hours, math.ceil(hours))], setting, starts=0)


def _billed(pool: Pool, hours: float, started: int) -> Billed:
    return Billed(pool.gpus_per_node, pool.price_usd_per_hour, hours * 3600, started)


def _figures(name: str, jobs: Sequence[Job], nodes: Sequence[Billed], setting: Setting, starts: int) -> Figures:
    gpu_hours = sum(node.seconds * node.gpus for node in nodes) / 3600
    return Figures(
        name=name,
        **cost(nodes, by_the_hour=setting.by_the_hour),
        utilization=round(fluid_gpu_hours(jobs) / gpu_hours, 4) if gpu_hours else 0.0,
        node_starts=starts,
        jobs=len(jobs),
    )


BOUNDS: Mapping[str, Bound] = {"clairvoyant": _clairvoyant, "fluid": _fluid}
