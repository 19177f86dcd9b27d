"""What every autoscaler here does alike: pack pods onto new nodes, ask the cloud, and watch how long a node rests."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from receiver.replay.peers.view import Asking, Seen, View, fill, gpus_of
from receiver.replay.world.objects import Refused
from receiver.replay.world.world import World


def smallest(world: World, pools: Iterable[str], pod: Asking) -> str | None:
    """Of *pools*, the one with the smallest nodes that *pod* fits on, or None."""
    return min((p for p in pools if p in pod.pools), key=lambda p: (gpus_of(world, p), p), default=None)


def bought(world: World, most: Mapping[str, int], left: Sequence[Asking], seen: View) -> int:
    """Buy as many nodes as the pods that are *left* take when they are packed by first fit, each new node of the pool
    with the smallest that fit and below its maximum in *most*; return how many calls the cloud took."""
    room = {pool: limit - seen.required[pool] for pool, limit in most.items()}
    new: list[Seen] = []
    for pod in left:
        if not fill([pod], new)[0]:
            continue
        pool = smallest(world, [p for p, more in room.items() if more > 0], pod)
        if pool is not None:
            room[pool] -= 1
            gpus = gpus_of(world, pool)
            new.append(Seen(pool=pool, instance=None, created_at=seen.now, gpus=gpus, free=gpus - pod.gpus))
    wanted = {pool: sum(node.pool == pool for node in new) for pool in most}
    return sum(resized(world, pool, seen.required[pool] + more) for pool, more in wanted.items() if more)


def resized(world: World, pool: str, count: int) -> bool:
    """Ask for *count* nodes; False when the cloud refuses, which whoever asks tries again at a later look."""
    try:
        world.resize(pool, count)
    except Refused:
        return False
    return True


def remove(world: World, node: Seen) -> None:
    """Delete *node*, which the cloud lists, by its instance's id."""
    assert node.instance is not None
    world.delete_instance(node.pool, node.instance)


class Rests:
    """Since when each usable node has been empty and wanted by nobody who waits."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def at(self, seen: View, taken: set[int]) -> list[tuple[Seen, datetime]]:
        """The nodes that rest in *seen*, by age, and since when; *taken* are the places of those that waiting pods
        would use."""
        resting = {
            node.instance: node
            for place, node in enumerate(seen.nodes)
            if node.instance and node.usable and node.empty and place not in taken
        }
        self._since = {instance: self._since.get(instance, seen.now) for instance in resting}
        return [(node, self._since[instance]) for instance, node in resting.items()]
