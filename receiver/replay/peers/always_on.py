"""What a careful team does without an autoscaler: nodes for the peak, bought before the first job, never given back.

The peak is the number of nodes that first fit takes when every pod starts at once, counted over the trace itself: a
team would have to guess it, and would guess higher. Nodes are of the pool with the largest nodes, which every pod fits
on, as many as it may have, then of the next smaller.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from receiver.replay.peers.view import gpus_of, lets_in
from receiver.replay.world.config import Job, Timings
from receiver.replay.world.world import World


class AlwaysOn:
    """Sees to the nodes of a world that has not begun yet, and leaves it alone from then on."""

    actions = 0

    def __init__(self, world: World, most: Mapping[str, int], jobs: Sequence[Job]) -> None:
        sizes = {pool: gpus_of(world, pool) for pool in most}
        fits = partial(_fits, world)
        for pool, count in peak(jobs, sizes, most, lasts=_besides(world.config.timings), fits=fits).items():
            world.begin_with(pool, count)

    def look(self, now: datetime) -> datetime | None:  # noqa: ARG002 (it looks at nothing)
        """Do nothing."""
        return None


def peak(
    jobs: Sequence[Job],
    sizes: Mapping[str, int],
    most: Mapping[str, int],
    *,
    lasts: timedelta = timedelta(0),
    fits: Callable[[str, Job], bool] = lambda _pool, _job: True,
) -> dict[str, int]:
    """Return how many nodes of each pool it takes that every pod starts when its job comes.

    *sizes* are the GPUs of a node by pool, *most* the nodes that each may have; pods that no pool has room for within
    that count nothing. A pod holds its GPUs for its duration and *lasts* besides; *fits* says which pools let one in.
    """
    free: list[int] = []  # by node, in the order in which first fit tries them
    of: list[str] = []  # their pools
    counts = dict.fromkeys(sizes, 0)
    ending: list[tuple[datetime, int, int]] = []
    for job in sorted(jobs, key=lambda j: j.submit_at):
        while ending and ending[0][0] <= job.submit_at:
            _, node, gpus = heapq.heappop(ending)
            free[node] += gpus
        pools = {p for p in sizes if sizes[p] >= job.gpus_per_pod and fits(p, job)}
        for _ in range(job.pods):
            place = next((n for n, room in enumerate(free) if room >= job.gpus_per_pod and of[n] in pools), None)
            if place is None:
                fitting = [p for p in pools if counts[p] < most[p]]
                if not fitting:
                    continue
                pool = max(fitting, key=lambda p: (sizes[p], p))
                counts[pool] += 1
                place = len(free)
                free.append(sizes[pool])
                of.append(pool)
            free[place] -= job.gpus_per_pod
            heapq.heappush(ending, (job.submit_at + job.duration + lasts, place, job.gpus_per_pod))
    return counts


def _fits(world: World, pool: str, job: Job) -> bool:
    requests = {job.resource: job.gpus_per_pod}
    return lets_in(world.pools[pool], requests, job.node_selector, job.affinity, job.tolerations)


def _besides(timings: Timings) -> timedelta:
    """How long a pod has its GPUs before it runs, at the most."""
    return timings.schedule + timings.image_pull * (1 + timings.jitter)
