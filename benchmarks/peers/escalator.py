"""Atlassian's Escalator with its sample configuration, its thresholds applied to GPUs instead of CPU and memory.

Every `--scaninterval` (60 s), per node group: utilization is what the group's pods ask for, running or waiting, over
what its untainted nodes offer. Above `scale_up_threshold_percent` (70) nodes are untainted, the newest first, then
bought, until it would be below again, and at least one when the largest waiting pod fits on no node's rest; after a
purchase nothing is done for `scale_up_cool_down_period` (2 min) nor until the nodes are there, at most
`scale_up_cool_down_timeout` (10 min). Below `taint_upper_capacity_threshold_percent` (40) the 2 oldest nodes are
tainted (`slow_node_removal_rate`), below `taint_lower_capacity_threshold_percent` (10) the 5 oldest
(`fast_node_removal_rate`), busy or not. A tainted node takes no new pod, and is deleted once it is empty and
`soft_delete_grace_period` (1 min) has passed, or, whatever runs on it, after `hard_delete_grace_period` (10 min).
Sources, all in https://github.com/atlassian/escalator: the sample escalator-cm.yaml, the pages "Scale Process",
"Algorithm and Calculations" and "Node Group Configuration", and controller, scale_up, scale_down and util of
pkg/controller.

Two settings are not the sample's. `min_nodes` is 0 instead of 1: every other autoscaler here may go to zero too. And
`scale_on_starve` is on: without it a pod that fits on no node's rest waits for good while utilization is under 70 %.
A pod belongs to the group with the smallest nodes that it fits on, as its label would say.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.policy import Taint
from receiver.replay.peers import Asking, Eyes, PeerNode, gpus_of, remove, resized, smallest
from receiver.replay.world.world import World

SCAN = timedelta(seconds=60)
TO_BE_REMOVED = Taint(key="atlassian.com/escalator", effect="NoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleGroup:
    """The sample's node group, in its own words; thresholds are ratios. *hard_delete_grace_period* None: never."""

    scale_up_threshold: float = 0.70
    taint_upper_capacity_threshold: float = 0.40
    taint_lower_capacity_threshold: float = 0.10
    slow_node_removal_rate: int = 2
    fast_node_removal_rate: int = 5
    scale_up_cool_down_period: timedelta = timedelta(minutes=2)
    scale_up_cool_down_timeout: timedelta = timedelta(minutes=10)
    soft_delete_grace_period: timedelta = timedelta(minutes=1)
    hard_delete_grace_period: timedelta | None = timedelta(minutes=10)


@dataclass(slots=True)
class _Group:
    """A node group at one scan: its nodes with GPUs, by age, and the pods that wait for it."""

    pool: str
    untainted: Sequence[PeerNode]
    tainted: Sequence[PeerNode]
    waiting: Sequence[Asking]

    @property
    def requests(self) -> int:
        """GPUs asked for by its pods."""
        held = sum(node.gpus - node.free for node in (*self.untainted, *self.tainted))
        return held + sum(pod.gpus for pod in self.waiting)

    @property
    def starved(self) -> bool:
        """True when its largest waiting pod fits on no untainted node as they are."""
        largest = max((pod.gpus for pod in self.waiting), default=0)
        return largest > max((node.free for node in self.untainted), default=0)


class Escalator:
    """Its scans run at each look."""

    def __init__(self, world: World, most: Mapping[str, int], sample: SampleGroup | None = None) -> None:
        self._world, self._most, self._sample = world, most, sample or SampleGroup()
        self._tainted: dict[str, datetime] = {}
        self._locked: dict[str, datetime] = {}  # since when a purchase is under way, by pool
        self._eyes = Eyes(world)
        self.actions = 0

    def look(self, now: datetime) -> datetime | None:
        """One scan of every group."""
        seen = self._eyes.look()
        there = {node.instance for node in seen.nodes}
        self._tainted = {instance: at for instance, at in self._tainted.items() if instance in there}
        again = False
        for pool in self._most:
            nodes = [node for node in seen.nodes if node.pool == pool and node.usable and node.instance]
            group = _Group(
                pool,
                untainted=[node for node in nodes if node.instance not in self._tainted],
                tainted=[node for node in nodes if node.instance in self._tainted],
                waiting=[pod for pod in seen.waiting if smallest(self._world, self._most, pod) == pool],
            )
            again = self._scan(group, seen.required[pool], now) or again
        return now + SCAN if again else None

    def _scan(self, group: _Group, required: int, now: datetime) -> bool:
        """Scan a group; True when another scan could do more although nothing changed."""
        if self._is_locked(group, required, now):
            return True
        delta = self._delta(group)
        if group.starved and len(group.untainted) < self._most[group.pool]:
            delta = max(delta, 1)
        if delta > 0:
            return self._up(group, required, delta, now)
        self._reap(group, now)
        tainted = [node for node in group.untainted if node.name][:-delta] if delta else []
        for node in tainted:
            self._taint(node, now)
        return bool(tainted) or any(self._will_go(node) for node in group.tainted)

    def _is_locked(self, group: _Group, required: int, now: datetime) -> bool:
        since = self._locked.get(group.pool)
        if since is None:
            return False
        arrived = len(group.untainted) + len(group.tainted) >= required
        waited = now - since
        over = waited >= self._sample.scale_up_cool_down_timeout
        if over or (arrived and waited >= self._sample.scale_up_cool_down_period):
            del self._locked[group.pool]
        return group.pool in self._locked

    def _delta(self, group: _Group) -> int:
        """Nodes to add, or, negative, to taint."""
        sample = self._sample
        threshold = sample.scale_up_threshold
        each = gpus_of(self._world, group.pool)
        capacity = each * len(group.untainted)
        if not capacity:
            return math.ceil(round(group.requests / each / threshold, 9)) if group.requests else 0
        utilization = group.requests / capacity
        if utilization < sample.taint_lower_capacity_threshold:
            return -sample.fast_node_removal_rate
        if utilization < sample.taint_upper_capacity_threshold:
            return -sample.slow_node_removal_rate
        if utilization > threshold:
            return math.ceil(round(len(group.untainted) * (utilization - threshold) / threshold, 9))
        return 0

    def _up(self, group: _Group, required: int, delta: int, now: datetime) -> bool:
        newest = sorted(group.tainted, key=lambda n: n.created_at, reverse=True)[:delta]
        for node in newest:
            self._untaint(node)
        more = min(delta - len(newest), self._most[group.pool] - required)
        if more > 0 and resized(self._world, group.pool, required + more):
            self.actions += 1
            self._locked[group.pool] = now
        return bool(newest) or more > 0

    def _reap(self, group: _Group, now: datetime) -> None:
        hard = self._sample.hard_delete_grace_period
        for node in group.tainted:
            since = now - self._tainted[node.instance or ""]
            ripe = since > self._sample.soft_delete_grace_period and node.free == node.gpus
            if ripe or (hard is not None and since > hard):
                remove(self._world, node)
                self.actions += 1

    def _will_go(self, node: PeerNode) -> bool:
        return node.free == node.gpus or self._sample.hard_delete_grace_period is not None

    def _taint(self, node: PeerNode, now: datetime) -> None:
        self._tainted[node.instance or ""] = now
        taints = self._world.nodes[node.name].taints
        self._world.patch_node(node.name, taints=(*taints, TO_BE_REMOVED))

    def _untaint(self, node: PeerNode) -> None:
        del self._tainted[node.instance or ""]
        taints = self._world.nodes[node.name].taints
        self._world.patch_node(node.name, taints=[taint for taint in taints if taint != TO_BE_REMOVED])
