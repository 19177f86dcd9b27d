"""Baselines: Cluster Autoscaler, Karpenter and no autoscaler at all, each with its documented defaults.

A node's GPUs are the units of its pool's GPU resource. A pod fits a pool by resource, node selector, node affinity and
taints; preferences do not count.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from receiver.core.model.policy import Taint
from receiver.replay.play import Controller
from receiver.replay.world.objects import POOL_LABEL, CivoPool, Denied, Job, WorldPod
from receiver.replay.world.scheduler import selects, untolerated
from receiver.replay.world.world import World

SOFT_TAINT = Taint(key="DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule")
BATCH_IDLE = timedelta(seconds=1)
BATCH_MAX = timedelta(seconds=10)


@dataclass(slots=True, kw_only=True)
class PeerNode:
    """A node that exists or is on its way. *free* are its free GPUs; *usable*: they are allocatable. *instance* is None
    until the cloud lists it, *name* is empty until it has registered."""

    pool: str
    instance: str | None
    name: str = ""
    created_at: datetime
    gpus: int
    free: int
    usable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A GPU pod without a node: its requested GPUs, its creation, and the pools whose nodes it fits."""

    uid: str
    gpus: int
    created_at: datetime
    pools: frozenset[str]


@dataclass(slots=True, kw_only=True)
class View:
    """A world at one time: nodes by age, and the GPU pods without a node, oldest first."""

    now: datetime
    nodes: list[PeerNode]
    waiting: list[Asking]
    required: dict[str, int] = field(default_factory=dict)


class Eyes:
    """Reads the pods and nodes of *world*, as an autoscaler sees them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._let_in: dict[Hashable, frozenset[str]] = {}

    def look(self) -> View:
        world = self._world
        used: dict[str, int] = {}
        waiting: list[Asking] = []
        for pod in world.active_pods.values():
            if not pod.requests:
                continue
            if pod.node is None:
                let_in = self._pools(pod)
                waiting.append(Asking(uid=pod.uid, gpus=pod.gpus, created_at=pod.created_at, pools=let_in))
            else:
                used[pod.node] = used.get(pod.node, 0) + pod.gpus
        registered = {node.instance: node for node in world.nodes.values()}
        nodes: list[PeerNode] = []
        for pool in world.pools.values():
            gpus = gpus_of(world, pool.id)
            for vm in pool.living:
                node = registered.get(vm.id) if vm.listed else None
                nodes.append(
                    PeerNode(
                        pool=pool.id,
                        instance=vm.id if vm.listed else None,
                        name=node.name if node else "",
                        created_at=vm.created_at,
                        gpus=gpus,
                        free=gpus - (used.get(node.name, 0) if node else 0),
                        usable=node is not None and any(node.gpus.values()),
                    )
                )
        nodes.sort(key=lambda n: (n.created_at, n.instance or ""))
        required = {pool.id: pool.required for pool in world.pools.values()}
        return View(now=world.now, nodes=nodes, waiting=waiting, required=required)

    def _pools(self, pod: WorldPod) -> frozenset[str]:
        asks = (tuple(pod.requests.items()), tuple(pod.node_selector.items()), pod.affinity, pod.tolerations)
        if asks not in self._let_in:
            pools = self._world.pools.values()
            self._let_in[asks] = frozenset(pool.id for pool in pools if lets_in(pool, pod.requests, pod))
        return self._let_in[asks]


def gpus_of(world: World, pool: str) -> int:
    return sum(world.pools[pool].spec.resources.values())


def lets_in(pool: CivoPool, requests: Mapping[str, int], of: WorldPod | Job) -> bool:
    """Return True when an empty node of *pool* could run a pod *of* this template with these requests."""
    spec = pool.spec
    labels = {
        "node.kubernetes.io/instance-type": pool.size,
        "kubernetes.civo.com/civo-node-size": pool.size,
        **spec.gpu_labels,
        POOL_LABEL: pool.id,
        **pool.labels,
    }
    return (
        all(spec.resources.get(resource, 0) >= count for resource, count in requests.items())
        and selects(labels, of.node_selector, of.affinity)
        and untolerated(pool.taints, of.tolerations) is None
    )


def fill(pods: Iterable[Asking], nodes: Sequence[PeerNode]) -> tuple[list[Asking], set[int]]:
    """Place each of *pods* on the first of *nodes* that it fits. Return the pods without a place, and the indexes of
    the nodes that are used."""
    unplaced: list[Asking] = []
    used: set[int] = set()
    for pod in pods:
        for place, node in enumerate(nodes):
            if node.free >= pod.gpus and node.pool in pod.pools:
                node.free -= pod.gpus
                used.add(place)
                break
        else:
            unplaced.append(pod)
    return unplaced, used


def smallest(world: World, pools: Iterable[str], pod: Asking) -> str | None:
    """Return the pool with the smallest nodes that *pod* fits, or None."""
    return min((p for p in pools if p in pod.pools), key=lambda p: (gpus_of(world, p), p), default=None)


def bought(world: World, most: Mapping[str, int], unplaced: Sequence[Asking], view: View) -> int:
    """Buy nodes for the *unplaced* pods, packed by first fit. Each new node is of the pool with the smallest nodes
    that fit, up to its maximum in *most*. Return the number of accepted calls."""
    room = {pool: limit - view.required[pool] for pool, limit in most.items()}
    new_nodes: list[PeerNode] = []
    for pod in unplaced:
        if not fill([pod], new_nodes)[0]:
            continue
        pool = smallest(world, [p for p, count in room.items() if count > 0], pod)
        if pool is not None:
            room[pool] -= 1
            gpus = gpus_of(world, pool)
            new_nodes.append(PeerNode(pool=pool, instance=None, created_at=view.now, gpus=gpus, free=gpus - pod.gpus))
    growth = {pool: sum(node.pool == pool for node in new_nodes) for pool in most}
    return sum(resized(world, pool, view.required[pool] + count) for pool, count in growth.items() if count)


def resized(world: World, pool: str, count: int) -> bool:
    """Set the count of *pool*. Return False when the cloud refuses; a later look tries again."""
    try:
        world.resize(pool, count)
    except Denied:
        return False
    return True


def remove(world: World, node: PeerNode) -> None:
    """Delete *node*, which the cloud lists, by the id of its instance."""
    assert node.instance is not None
    world.delete_instance(node.pool, node.instance)


class Rests:
    """The times since when usable nodes have been empty and no waiting pod would use them."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def at(self, view: View, used: set[int]) -> list[tuple[PeerNode, datetime]]:
        """Return the resting nodes of *view*, by age, and since when; *used* are the indexes of the nodes that waiting
        pods would use."""
        resting = {
            node.instance: node
            for place, node in enumerate(view.nodes)
            if node.instance and node.usable and node.free == node.gpus and place not in used
        }
        self._since = {instance: self._since.get(instance, view.now) for instance in resting}
        return [(node, self._since[instance]) for instance, node in resting.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAutoscalerFlags:
    """Flags of Cluster Autoscaler, under its own names."""

    gpu_time_buffer: timedelta = timedelta(seconds=30)
    unneeded_time: timedelta = timedelta(minutes=10)
    delay_after_add: timedelta = timedelta(minutes=10)
    max_empty_bulk_delete: int = 10
    max_bulk_soft_taint_count: int = 10


class ClusterAutoscaler:
    """Kubernetes' Cluster Autoscaler with the documented defaults that decide the number of nodes.

    Every `--scan-interval` (10 s), unschedulable pods are packed, largest first, by first fit onto existing and
    upcoming nodes, then onto new ones of the node group with the least waste (`--expander`). GPU pods are considered 30
    s after their creation (`unschedulablePodWithGpuTimeBuffer`, hard-coded in core/static_autoscaler.go). An empty node
    that no waiting pod would use is removed after `--scale-down-unneeded-time` (10 min), and not before
    `--scale-down-delay-after-add` (10 min) since the last growth of any group, at most `--max-empty-bulk-delete` (10)
    at a time. An unneeded node carries a soft taint; at most `--max-bulk-soft-taint-count` (10) nodes change per scan.
    Nothing is drained: training pods without a replica set do not consent. Sources: the FAQ and main.go of
    kubernetes/autoscaler 1.32 (https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md).

    *most* are the maximum sizes of its node groups by pool id.
    """

    def __init__(self, world: World, most: Mapping[str, int], flags: ClusterAutoscalerFlags | None = None) -> None:
        self._world, self._most = world, most
        self._flags = flags or ClusterAutoscalerFlags()
        self._eyes, self._rests = Eyes(world), Rests()
        self._grew_at = world.now - self._flags.delay_after_add
        self.actions = 0

    def look(self, now: datetime) -> datetime | None:
        view = self._eyes.look()
        ripe_at = [pod.created_at + self._flags.gpu_time_buffer for pod in view.waiting]
        ripe = [pod for pod, at in zip(view.waiting, ripe_at, strict=True) if at <= now]
        ripe.sort(key=lambda pod: (-pod.gpus, pod.created_at))
        unplaced, used = fill(ripe, view.nodes)
        calls = bought(self._world, self._most, unplaced, view)
        if calls:
            self.actions += calls
            self._grew_at = now
        resting = self._rests.at(view, used)
        later = self._shrink(resting, now)
        self._taint({node.name for node, _ in resting})
        return min([*later, *(at for at in ripe_at if at > now)], default=None)

    def _shrink(self, resting: Sequence[tuple[PeerNode, datetime]], now: datetime) -> list[datetime]:
        """Remove the resting nodes that are due; return when the others are."""
        settled_at = self._grew_at + self._flags.delay_after_add
        ready = [(node, max(since + self._flags.unneeded_time, settled_at)) for node, since in resting]
        due = [node for node, at in ready if at <= now]
        for node in due[: self._flags.max_empty_bulk_delete]:
            remove(self._world, node)
            self.actions += 1
        looks = [now] if len(due) > self._flags.max_empty_bulk_delete else []
        return looks + [at for _, at in ready if at > now]

    def _taint(self, unneeded: Set[str]) -> None:
        """Let the *unneeded* nodes, and no others, carry the soft taint."""
        wrong = [n for n in self._world.nodes.values() if (SOFT_TAINT in n.taints) != (n.name in unneeded)]
        for node in wrong[: self._flags.max_bulk_soft_taint_count]:
            other_taints = (t for t in node.taints if t != SOFT_TAINT)
            self._world.patch_node(node.name, taints=(*other_taints, *([SOFT_TAINT] if node.name in unneeded else [])))


class WhenEmpty:
    """Karpenter with `consolidationPolicy: WhenEmpty` and `consolidateAfter: 30s`.

    Pending pods are batched until one second passes without a new one, or ten seconds (`BATCH_IDLE_DURATION`,
    `BATCH_MAX_DURATION`). They are packed by first fit, largest first, onto existing and upcoming nodes and new ones of
    the smallest size that fits. A node that has been empty for CONSOLIDATE_AFTER, and that no waiting pod would use, is
    removed. Sources: https://karpenter.sh/docs/reference/settings/ (the durations) and
    https://karpenter.sh/docs/concepts/disruption/ (consolidation). Its node pools are the cloud's pools here. Its
    disruption budget (10 % of the nodes at a time) is left out: it would delay removals by seconds only.
    """

    CONSOLIDATE_AFTER = timedelta(seconds=30)

    def __init__(self, world: World, most: Mapping[str, int]) -> None:
        self._world, self._most = world, most
        self._eyes, self._rests = Eyes(world), Rests()
        self._batched: set[str] = set()  # pods of earlier batches
        self.actions = 0

    def look(self, now: datetime) -> datetime | None:
        """End a batch that is due, and remove the nodes that have been empty for long enough."""
        view = self._eyes.look()
        again: list[datetime] = []
        arrivals = [pod.created_at for pod in view.waiting if pod.uid not in self._batched]
        over_at = min(max(arrivals) + BATCH_IDLE, min(arrivals) + BATCH_MAX) if arrivals else now
        unplaced, used = fill(sorted(view.waiting, key=lambda pod: -pod.gpus), view.nodes)
        if over_at > now:
            again.append(over_at)
        else:
            self._batched = {pod.uid for pod in view.waiting}
            self.actions += bought(self._world, self._most, unplaced, view)
        for node, since in self._rests.at(view, used):
            if since + self.CONSOLIDATE_AFTER <= now:
                remove(self._world, node)
                self.actions += 1
            else:
                again.append(since + self.CONSOLIDATE_AFTER)
        return min(again, default=None)


class AlwaysOnPeer:
    """A careful team without an autoscaler: nodes for the peak, bought before the first job and kept.

    The peak is the number of nodes that first fit takes for this trace when every pod starts at once. A team would have
    to guess it, and would guess higher. Nodes come from the pool with the largest nodes first.
    """

    actions = 0

    def __init__(self, world: World, most: Mapping[str, int], jobs: Sequence[Job]) -> None:
        def fits(pool: str, job: Job) -> bool:
            return lets_in(world.pools[pool], {job.resource: job.gpus_per_pod}, job)

        sizes, timings = {pool: gpus_of(world, pool) for pool in most}, world.config.timings
        lasts = timings.schedule + timings.image_pull * (1 + timings.jitter)  # before a pod runs, at the longest
        for pool, count in peak(jobs, sizes, most, lasts=lasts, fits=fits).items():
            world.begin_with(pool, count)

    def look(self, now: datetime) -> datetime | None:  # noqa: ARG002 (it needs no time)
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
    """Return the nodes of each pool that let every pod start at its submission.

    *sizes* are the GPUs of a node by pool, *most* the maximum nodes of each; pods beyond that do not count. A pod holds
    its GPUs for its duration and *lasts*; *fits* says whether a pool admits a job.
    """
    free: list[int] = []  # by node, in the order of first fit
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


@dataclass(frozen=True, slots=True)
class PeerPolicy:
    """An autoscaler with the interval *every* of its loop. *make* takes a world that has not begun, the maximum nodes
    by pool, and the trace."""

    every: timedelta
    make: Callable[[World, Mapping[str, int], Sequence[Job]], Controller]

    def __call__(self, world: World, most: Mapping[str, int], jobs: Sequence[Job]) -> Controller:
        return _Paced(self.make(world, most, jobs), self.every)


class _Paced:
    """A controller that looks no more often than its interval, however many changes there are."""

    def __init__(self, controller: Controller, every: timedelta) -> None:
        self._controller, self._every = controller, every
        self._next_at: datetime | None = None

    @property
    def actions(self) -> int:
        return self._controller.actions

    def look(self, now: datetime) -> datetime | None:
        if self._next_at is not None and now < self._next_at:
            return self._next_at
        self._next_at = now + self._every
        return self._controller.look(now)


def _cluster_autoscaler(idle: timedelta) -> PeerPolicy:
    """Return Cluster Autoscaler when it removes empty nodes after *idle*."""
    flags = ClusterAutoscalerFlags(unneeded_time=idle, delay_after_add=idle)
    return PeerPolicy(timedelta(seconds=10), lambda world, most, _: ClusterAutoscaler(world, most, flags))


PEERS: Mapping[str, PeerPolicy] = {
    "always-on": PeerPolicy(timedelta(minutes=1), AlwaysOnPeer),
    "cluster-autoscaler": _cluster_autoscaler(timedelta(minutes=10)),  # its defaults
    "cluster-autoscaler-1m": _cluster_autoscaler(timedelta(minutes=1)),
    "cluster-autoscaler-30m": _cluster_autoscaler(timedelta(minutes=30)),
    "karpenter-when-empty": PeerPolicy(timedelta(seconds=1), lambda world, most, _: WhenEmpty(world, most)),
}
