"""What an autoscaler that looks at pods and nodes sees of a world: nodes with room, pods without a node.

A node's GPUs are its units of whatever GPU resource its pool offers. As to who may go where, resource, node selector,
node affinity and taints of pools count; preferences do not.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.model.pods import Requirement, Toleration
from receiver.replay.world.config import POOL_LABEL
from receiver.replay.world.matching import selects, untolerated
from receiver.replay.world.objects import PoolAtCivo, WorldPod
from receiver.replay.world.world import World


@dataclass(slots=True, kw_only=True)
class Seen:
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
    nodes: list[Seen]
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
        nodes: list[Seen] = []
        for pool in world.pools.values():
            gpus = gpus_of(world, pool.id)
            for vm in pool.living:
                node = registered.get(vm.id) if vm.listed else None
                nodes.append(
                    Seen(
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
    pool: PoolAtCivo,
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


def fill(pods: Iterable[Asking], nodes: Sequence[Seen]) -> tuple[list[Asking], set[int]]:
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
