"""What an autoscaler that looks at pods and nodes sees of a world, and the moves that they all make.

A node's GPUs are its units of whatever GPU resource its pool offers. As to who may go where, resource, node selector,
node affinity and taints of pools count; preferences do not.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.model.pods import Requirement, Toleration
from receiver.replay.world.config import POOL_LABEL
from receiver.replay.world.matching import selects, untolerated
from receiver.replay.world.objects import CivoPool, Denied, WorldPod
from receiver.replay.world.world import World


@dataclass(slots=True, kw_only=True)
class PeerNode:
    """One node, there or on its way. *free* are its free GPUs, *usable* is True once its GPUs are allocatable;
    *instance* is None for one that was asked for and is not listed yet, *name* is empty until it has registered."""

    pool: str
    instance: str | None
    name: str = ""
    created_at: datetime
    gpus: int
    free: int
    usable: bool = False

    @property
    def empty(self) -> bool:
        """True when no GPU pod is on it."""
        return self.free == self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A GPU pod without a node: how many GPUs it asks for, since when, and the pools whose nodes let it in."""

    uid: str
    gpus: int
    created_at: datetime
    pools: frozenset[str]


@dataclass(slots=True, kw_only=True)
class View:
    """A world at one moment: nodes by age, and the GPU pods without a node, the oldest first."""

    now: datetime
    nodes: list[PeerNode]
    waiting: list[Asking]
    required: dict[str, int] = field(default_factory=dict)


class Eyes:
    """What one looks at *world* with."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._let_in: dict[Hashable, frozenset[str]] = {}

    def look(self) -> View:
        """Return what there is to see now."""
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
        """The pools whose nodes let *pod* in."""
        asks = (tuple(pod.requests.items()), tuple(pod.node_selector.items()), pod.affinity, pod.tolerations)
        if asks not in self._let_in:
            self._let_in[asks] = frozenset(
                pool.id
                for pool in self._world.pools.values()
                if lets_in(pool, pod.requests, pod.node_selector, pod.affinity, pod.tolerations)
            )
        return self._let_in[asks]


def gpus_of(world: World, pool: str) -> int:
    """GPUs of one node of *pool*."""
    return sum(world.pools[pool].spec.resources.values())


def lets_in(
    pool: CivoPool,
    requests: Mapping[str, int],
    node_selector: Mapping[str, str],
    affinity: tuple[tuple[Requirement, ...], ...],
    tolerations: tuple[Toleration, ...],
) -> bool:
    """True when an empty node of *pool* could run a pod that asks for this."""
    spec = pool.spec
    labels = {
        "node.kubernetes.io/instance-type": pool.size,
        "kubernetes.civo.com/civo-node-size": pool.size,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(spec.gpu_units),
        "nvidia.com/gpu.product": spec.model_name.replace(" ", "-"),
        POOL_LABEL: pool.id,
        **pool.labels,
    }
    return (
        all(spec.resources.get(resource, 0) >= count for resource, count in requests.items())
        and selects(labels, node_selector, affinity)
        and untolerated(pool.taints, tolerations) is None
    )


def fill(pods: Iterable[Asking], nodes: Sequence[PeerNode]) -> tuple[list[Asking], set[int]]:
    """Give each of *pods* room on the first of *nodes* that lets it in and has some (first fit); return those without
    room, and the places in *nodes* of those that took one."""
    left: list[Asking] = []
    taken: set[int] = set()
    for pod in pods:
        for place, node in enumerate(nodes):
            if node.free >= pod.gpus and node.pool in pod.pools:
                node.free -= pod.gpus
                taken.add(place)
                break
        else:
            left.append(pod)
    return left, taken


def smallest(world: World, pools: Iterable[str], pod: Asking) -> str | None:
    """Of *pools*, the one with the smallest nodes that *pod* fits on, or None."""
    return min((p for p in pools if p in pod.pools), key=lambda p: (gpus_of(world, p), p), default=None)


def bought(world: World, most: Mapping[str, int], left: Sequence[Asking], seen: View) -> int:
    """Buy as many nodes as the pods that are *left* take when they are packed by first fit, each new node of the pool
    with the smallest that fit and below its maximum in *most*; return how many calls the cloud took."""
    room = {pool: limit - seen.required[pool] for pool, limit in most.items()}
    new: list[PeerNode] = []
    for pod in left:
        if not fill([pod], new)[0]:
            continue
        pool = smallest(world, [p for p, more in room.items() if more > 0], pod)
        if pool is not None:
            room[pool] -= 1
            gpus = gpus_of(world, pool)
            new.append(PeerNode(pool=pool, instance=None, created_at=seen.now, gpus=gpus, free=gpus - pod.gpus))
    wanted = {pool: sum(node.pool == pool for node in new) for pool in most}
    return sum(resized(world, pool, seen.required[pool] + more) for pool, more in wanted.items() if more)


def resized(world: World, pool: str, count: int) -> bool:
    """Ask for *count* nodes; False when the cloud refuses, which whoever asks tries again at a later look."""
    try:
        world.resize(pool, count)
    except Denied:
        return False
    return True


def remove(world: World, node: PeerNode) -> None:
    """Delete *node*, which the cloud lists, by its instance's id."""
    assert node.instance is not None
    world.delete_instance(node.pool, node.instance)


class Rests:
    """Since when each usable node has been empty and wanted by nobody who waits."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def at(self, seen: View, taken: set[int]) -> list[tuple[PeerNode, datetime]]:
        """The nodes that rest in *seen*, by age, and since when; *taken* are the places of those that waiting pods
        would use."""
        resting = {
            node.instance: node
            for place, node in enumerate(seen.nodes)
            if node.instance and node.usable and node.empty and place not in taken
        }
        self._since = {instance: self._since.get(instance, seen.now) for instance in resting}
        return [(node, self._since[instance]) for instance, node in resting.items()]
