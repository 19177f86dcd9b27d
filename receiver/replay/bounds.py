"""What no policy can beat, and what one could do that knows the future."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from receiver.replay.world.config import Job

HOUR = timedelta(hours=1)
ZERO = timedelta(0)


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
