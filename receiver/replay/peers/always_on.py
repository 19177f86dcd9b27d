"""What a careful team does without an autoscaler: nodes for the peak, bought before the first job, never given back.

The peak is the number of nodes that first fit takes when every pod starts at once, counted over the trace itself: a
team would have to guess it, and would guess higher. Nodes are of the pool with the largest nodes, which every pod fits
on, as many as it may have, then of the next smaller.
"""

import heapq
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from receiver.replay.peers.moves import gpus_of
from receiver.replay.world.config import Job, Timings
from receiver.replay.world.world import World


class AlwaysOn:
    """Sees to the nodes of a world that has not begun yet, and leaves it alone from then on."""

    actions = 0

    def __init__(self, world: World, most: Mapping[str, int], jobs: Sequence[Job]) -> None:
        sizes = {pool: gpus_of(world, pool) for pool in most}
        for pool, count in peak(jobs, sizes, most, lasts=_besides(world.config.timings)).items():
            world.begin_with(pool, count)

    def look(self, now: datetime) -> datetime | None:  # noqa: ARG002 (it looks at nothing)
        """Do nothing."""
        return None


def peak(
    jobs: Sequence[Job], sizes: Mapping[str, int], most: Mapping[str, int], *, lasts: timedelta = timedelta(0)
) -> dict[str, int]:
    """Return how many nodes of each pool it takes that every pod starts when its job comes.

    *sizes* are the GPUs of a node by pool, *most* the nodes that each may have; pods that no pool has room for within
    that count nothing. A pod holds its GPUs for its duration and *lasts* besides.
    """
    free: list[int] = []  # by node, in the order in which first fit tries them
    counts = dict.fromkeys(sizes, 0)
    ending: list[tuple[datetime, int, int]] = []
    for job in sorted(jobs, key=lambda j: j.submit_at):
        while ending and ending[0][0] <= job.submit_at:
            _, node, gpus = heapq.heappop(ending)
            free[node] += gpus
        for _ in range(job.pods):
            place = next((number for number, room in enumerate(free) if room >= job.gpus_per_pod), None)
            if place is None:
                fitting = [p for p in sizes if sizes[p] >= job.gpus_per_pod and counts[p] < most[p]]
                if not fitting:
                    continue
                pool = max(fitting, key=lambda p: (sizes[p], p))
                counts[pool] += 1
                place = len(free)
                free.append(sizes[pool])
            free[place] -= job.gpus_per_pod
            heapq.heappush(ending, (job.submit_at + job.duration + lasts, place, job.gpus_per_pod))
    return counts


def _besides(timings: Timings) -> timedelta:
    """How long a pod has its GPUs before it runs, at the most."""
    return timings.schedule + timings.image_pull * (1 + timings.jitter)
