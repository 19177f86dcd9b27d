"""What an autoscaler that looks at pods and nodes sees of a world: nodes with room, pods without a node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from receiver.replay.world.config import GPU
from receiver.replay.world.objects import WorldPod
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


@dataclass(slots=True, kw_only=True)
class View:
    """A world at one moment: nodes by age, and the GPU pods without a node, the oldest first."""

    now: datetime
    nodes: list[Seen]
    waiting: list[WorldPod]
    required: dict[str, int] = field(default_factory=dict)


def view(world: World) -> View:
    """Return what there is to see now."""
    used: dict[str, int] = {}
    waiting: list[WorldPod] = []
    for pod in world.active_pods.values():
        if not pod.requests:
            continue
        if pod.node is None:
            waiting.append(pod)
        else:
            used[pod.node] = used.get(pod.node, 0) + pod.gpus
    registered = {node.instance: node for node in world.nodes.values()}
    nodes: list[Seen] = []
    for pool in world.pools.values():
        gpus = pool.spec.resources.get(GPU, 0)
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
                    usable=node is not None and node.gpus.get(GPU, 0) > 0,
                )
            )
    nodes.sort(key=lambda n: (n.created_at, n.instance or ""))
    return View(now=world.now, nodes=nodes, waiting=waiting, required={p.id: p.required for p in world.pools.values()})


def fill(pods: Iterable[WorldPod], nodes: Sequence[Seen]) -> tuple[list[WorldPod], set[int]]:
    """Give each of *pods* room on the first of *nodes* that has some (first fit); return those without room, and the
    places in *nodes* of those that took one."""
    left: list[WorldPod] = []
    taken: set[int] = set()
    for pod in pods:
        for place, node in enumerate(nodes):
            if node.free >= pod.gpus:
                node.free -= pod.gpus
                taken.add(place)
                break
        else:
            left.append(pod)
    return left, taken
