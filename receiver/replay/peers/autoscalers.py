"""Cluster Autoscaler, Karpenter and no autoscaler at all, each after its documented defaults."""

import heapq
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from receiver.core.model.policy import Taint
from receiver.replay.peers.view import Eyes, PeerNode, Rests, bought, fill, gpus_of, lets_in, remove
from receiver.replay.world.config import Job, Timings
from receiver.replay.world.world import World

SOFT_TAINT = Taint(key="DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule")
BATCH_IDLE = timedelta(seconds=1)
BATCH_MAX = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAutoscalerFlags:
    """The flags of Cluster Autoscaler, in its own words."""

    gpu_time_buffer: timedelta = timedelta(seconds=30)
    unneeded_time: timedelta = timedelta(minutes=10)
    delay_after_add: timedelta = timedelta(minutes=10)
    max_empty_bulk_delete: int = 10
    max_bulk_soft_taint_count: int = 10


class ClusterAutoscaler:
    """Kubernetes' Cluster Autoscaler with its documented defaults, as far as they decide how many nodes there are.

    Every `--scan-interval` (10 s) pods that the scheduler found no room for are packed, the largest first, by first fit
    onto nodes that exist or are upcoming, then onto new ones of the node group with the least waste (`--expander`,
    where there are several groups). Pods that ask for GPUs are looked at only 30 s after their creation
    (`unschedulablePodWithGpuTimeBuffer`, hard-coded in core/static_autoscaler.go). A node without pods that nobody
    waiting would use is removed after `--scale-down-unneeded-time` (10 min) and not before
    `--scale-down-delay-after-add` (10 min) has passed since the last growth of any group, at most
    `--max-empty-bulk-delete` (10) at a time. A node that is unneeded carries a soft taint, put on or taken off at most
    `--max-bulk-soft-taint-count` (10) nodes a scan. It drains nothing here: training pods without a replica set do not
    consent. Sources: the FAQ and main.go of kubernetes/autoscaler 1.32 (https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md).

    *most* are the maximum sizes of its node groups by pool id.
    """

    def __init__(self, world: World, most: Mapping[str, int], flags: ClusterAutoscalerFlags | None = None) -> None:
        self._world, self._most = world, most
        self._flags = flags or ClusterAutoscalerFlags()
        self._eyes, self._rests = Eyes(world), Rests()
        self._grew_at = world.now - self._flags.delay_after_add
        self.actions = 0

    def look(self, now: datetime) -> datetime | None:
        """One scan."""
        seen = self._eyes.look()
        ripe_at = [pod.created_at + self._flags.gpu_time_buffer for pod in seen.waiting]
        ripe = [pod for pod, at in zip(seen.waiting, ripe_at, strict=True) if at <= now]
        ripe.sort(key=lambda pod: (-pod.gpus, pod.created_at))
        left, taken = fill(ripe, seen.nodes)
        calls = bought(self._world, self._most, left, seen)
        if calls:
            self.actions += calls
            self._grew_at = now
        again = [at for at in ripe_at if at > now]
        resting = self._rests.at(seen, taken)
        removal = self._shrink(resting, now)
        self._taint({node.name for node, _ in resting})
        return min([*again, *([removal] if removal else [])], default=None)

    def _shrink(self, resting: Sequence[tuple[PeerNode, datetime]], now: datetime) -> datetime | None:
        """Remove what is due of the nodes that rest; return when the next node is."""
        due: list[PeerNode] = []
        later: list[datetime] = []
        for node, since in resting:
            ready = max(since + self._flags.unneeded_time, self._grew_at + self._flags.delay_after_add)
            if ready <= now:
                due.append(node)
            else:
                later.append(ready)
        for node in due[: self._flags.max_empty_bulk_delete]:
            remove(self._world, node)
            self.actions += 1
        if len(due) > self._flags.max_empty_bulk_delete:
            later.append(now)
        return min(later, default=None)

    def _taint(self, unneeded: Set[str]) -> None:
        """Let the *unneeded* nodes carry the soft taint, and no other."""
        wrong = [n for n in self._world.nodes.values() if (SOFT_TAINT in n.taints) != (n.name in unneeded)]
        for node in wrong[: self._flags.max_bulk_soft_taint_count]:
            others = (t for t in node.taints if t != SOFT_TAINT)
            self._world.patch_node(node.name, taints=(*others, *([SOFT_TAINT] if node.name in unneeded else [])))


class WhenEmpty:
    """Like Karpenter with `consolidationPolicy: WhenEmpty` and `consolidateAfter: 30s`.

    Pending pods are gathered until one second passes without a new one, ten at most (`BATCH_IDLE_DURATION` 1 s,
    `BATCH_MAX_DURATION` 10 s), then packed by first fit, the largest first, onto the nodes there are, those on their
    way, and new ones of the smallest size that fits. A node that has been empty for *consolidate_after*, and that no
    waiting pod would be put on, goes. Sources: https://karpenter.sh/docs/reference/settings/ (the durations) and
    https://karpenter.sh/docs/concepts/disruption/ (consolidation). Its node pools are the cloud's pools here, and its
    disruption budget (10 % of the nodes at a time) is left out: it would only delay removals by seconds.
    """

    def __init__(
        self, world: World, most: Mapping[str, int], *, consolidate_after: timedelta = timedelta(seconds=30)
    ) -> None:
        self._world, self._most, self._consolidate_after = world, most, consolidate_after
        self._eyes, self._rests = Eyes(world), Rests()
        self._batched: set[str] = set()  # pods whose batch is over
        self.actions = 0

    def look(self, now: datetime) -> datetime | None:
        """One look: end a batch that is due, and take what has been empty for long enough."""
        seen = self._eyes.look()
        again: list[datetime] = []
        new = [pod.created_at for pod in seen.waiting if pod.uid not in self._batched]
        over_at = min(max(new) + BATCH_IDLE, min(new) + BATCH_MAX) if new else now
        left, taken = fill(sorted(seen.waiting, key=lambda pod: -pod.gpus), seen.nodes)
        if over_at > now:
            again.append(over_at)
        else:
            self._batched = {pod.uid for pod in seen.waiting}
            self.actions += bought(self._world, self._most, left, seen)
        for node, since in self._rests.at(seen, taken):
            if since + self._consolidate_after <= now:
                remove(self._world, node)
                self.actions += 1
            else:
                again.append(since + self._consolidate_after)
        return min(again, default=None)


class AlwaysOnPeer:
    """What a careful team does without an autoscaler: nodes for the peak, bought before the first job and kept.

    The peak is the number of nodes that first fit takes when every pod starts at once, counted over the trace itself: a
    team would have to guess it, and would guess higher. Nodes are of the pool with the largest nodes, which every pod
    fits on, as many as it may have, then of the next smaller.
    """

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
