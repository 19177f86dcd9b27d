"""Kubernetes' Cluster Autoscaler with its documented defaults, as far as they decide how many nodes there are.

Every `--scan-interval` (10 s) pods that the scheduler found no room for are packed, the largest first, by first fit
onto nodes that exist or are upcoming, then onto new ones of the node group with the least waste (`--expander`, where
there are several groups). Pods that ask for GPUs are looked at only 30 s after their creation
(`unschedulablePodWithGpuTimeBuffer`, hard-coded in core/static_autoscaler.go). A node without pods that nobody waiting
would use is removed after `--scale-down-unneeded-time` (10 min) and not before `--scale-down-delay-after-add` (10 min)
has passed since the last growth of any group, at most `--max-empty-bulk-delete` (10) at a time. A node that is unneeded
carries a soft taint, put on or taken off at most `--max-bulk-soft-taint-count` (10) nodes a scan. It drains nothing
here: training pods without a replica set do not consent. Sources: the FAQ and main.go of kubernetes/autoscaler 1.32
(https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md).
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.policy import Taint
from receiver.replay.peers.moves import Rests, bought, remove
from receiver.replay.peers.view import Eyes, Seen, fill
from receiver.replay.world.world import World

SOFT_TAINT = Taint(key="DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Its flags, in its own words."""

    gpu_time_buffer: timedelta = timedelta(seconds=30)
    unneeded_time: timedelta = timedelta(minutes=10)
    delay_after_add: timedelta = timedelta(minutes=10)
    max_empty_bulk_delete: int = 10
    max_bulk_soft_taint_count: int = 10


class ClusterAutoscaler:
    """One that looks when it is told to; *most* are the maximum sizes of its node groups by pool id."""

    def __init__(self, world: World, most: Mapping[str, int], defaults: Defaults | None = None) -> None:
        self._world, self._most = world, most
        self._flags = defaults or Defaults()
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

    def _shrink(self, resting: Sequence[tuple[Seen, datetime]], now: datetime) -> datetime | None:
        """Remove what is due of the nodes that rest; return when the next node is."""
        due: list[Seen] = []
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
