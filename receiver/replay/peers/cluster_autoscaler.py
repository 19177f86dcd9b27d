"""Kubernetes' Cluster Autoscaler with its documented defaults, as far as they decide how many nodes there are.

Every `--scan-interval` (10 s) pods that the scheduler found no room for are packed by first fit onto nodes that exist
or are upcoming, then onto new ones of the least-waste node group. Pods that ask for GPUs are looked at only 30 s after
their creation (`unschedulablePodWithGpuTimeBuffer`, hard-coded in core/static_autoscaler.go). A node without pods that
nobody waiting would use is removed after `--scale-down-unneeded-time` (10 min) and not before
`--scale-down-delay-after-add` (10 min) has passed since the last growth, at most `--max-empty-bulk-delete` (10) at a
time. It drains nothing here: training pods without a replica set do not consent. Sources: the FAQ and main.go of
kubernetes/autoscaler 1.32 (https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.replay.peers.view import Seen, View, fill, view
from receiver.replay.world.objects import Refused, WorldPod
from receiver.replay.world.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Its flags, in its own words."""

    gpu_time_buffer: timedelta = timedelta(seconds=30)
    unneeded_time: timedelta = timedelta(minutes=10)
    delay_after_add: timedelta = timedelta(minutes=10)
    max_empty_bulk_delete: int = 10


class ClusterAutoscaler:
    """One that looks when it is told to; *most* are the maximum sizes of its node groups by pool id."""

    def __init__(self, world: World, most: Mapping[str, int], defaults: Defaults | None = None) -> None:
        self._world, self._most = world, most
        self._flags = defaults or Defaults()
        self._unneeded: dict[str, datetime] = {}
        self._grew_at = world.now - self._flags.delay_after_add
        self.actions = 0

    def look(self, now: datetime) -> datetime | None:
        """One scan."""
        seen = view(self._world)
        ripe_at = [pod.created_at + self._flags.gpu_time_buffer for pod in seen.waiting]
        ripe = [pod for pod, at in zip(seen.waiting, ripe_at, strict=True) if at <= now]
        ripe.sort(key=lambda pod: (-pod.gpus, pod.created_at))
        left, taken = fill(ripe, seen.nodes)
        if left:
            self._grow(left, seen, now)
        again = [at for at in ripe_at if at > now]
        removal = self._shrink(seen, taken, now)
        return min([*again, *([removal] if removal else [])], default=None)

    def _grow(self, left: list[WorldPod], seen: View, now: datetime) -> None:
        room = {pool: most - seen.required[pool] for pool, most in self._most.items()}
        new: list[Seen] = []
        for pod in left:
            still, _ = fill([pod], new)
            if not still:
                continue
            pool = self._least_waste(pod, room)
            if pool is not None:
                gpus = self._gpus(pool)
                room[pool] -= 1
                new.append(Seen(pool=pool, instance=None, created_at=now, gpus=gpus, free=gpus - pod.gpus))
        for pool in self._most:
            more = sum(node.pool == pool for node in new)
            if more and self._resize(pool, seen.required[pool] + more):
                self._grew_at = now

    def _least_waste(self, pod: WorldPod, room: Mapping[str, int]) -> str | None:
        fitting = [pool for pool, left in room.items() if left > 0 and self._gpus(pool) >= pod.gpus]
        return min(fitting, key=lambda pool: (self._gpus(pool) - pod.gpus, pool), default=None)

    def _gpus(self, pool: str) -> int:
        return sum(self._world.pools[pool].spec.resources.values())

    def _resize(self, pool: str, count: int) -> bool:
        try:
            self._world.resize(pool, count)
        except Refused:
            return False  # it backs off and tries again at a later scan
        self.actions += 1
        return True

    def _shrink(self, seen: View, taken: set[int], now: datetime) -> datetime | None:
        """Remove what is due; return when the next node is."""
        due: list[Seen] = []
        later: list[datetime] = []
        for place, node in enumerate(seen.nodes):
            if node.instance is None:
                continue
            if not node.usable or not node.empty or place in taken:
                self._unneeded.pop(node.instance, None)
                continue
            since = self._unneeded.setdefault(node.instance, now)
            ready = max(since + self._flags.unneeded_time, self._grew_at + self._flags.delay_after_add)
            if ready <= now:
                due.append(node)
            else:
                later.append(ready)
        for node in due[: self._flags.max_empty_bulk_delete]:
            assert node.instance is not None
            self._world.delete_instance(node.pool, node.instance)
            del self._unneeded[node.instance]
            self.actions += 1
        if len(due) > self._flags.max_empty_bulk_delete:
            later.append(now)
        return min(later, default=None)
