"""Pods that reserve a node for a while before they are bound, and those that a dead kubelet does not let go."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from receiver.replay.world.cluster import Key
from receiver.replay.world.objects import WorldPod
from simulator.dra.pods import ClaimingPods
from simulator.scheduling import OBSTACLE_ANNOTATION, HinderedScheduler

BINDS_IN = "simulator/binds-in"  # seconds from the reservation of a node until the pod is bound (PreBind)
FAILS = "simulator/binding-fails"  # how many of its bindings fail
KEEPS_NOMINATION = "simulator/keeps-nomination"  # its nominatedNodeName outlives a reservation that failed
EVICTED_AFTER = timedelta(minutes=5)  # of silence of a kubelet: the node controller deletes the pods there


class Reservation(NamedTuple):
    """A node that is reserved for a pod, and since when."""

    node: str
    since: datetime


class SlowPods(ClaimingPods):
    """Pods whose binding and whose end take time. The scheduler counts a reserved pod as one on its node; the node's
    list of pods does not have it. Gangs and pods with claims are bound at once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reserved: dict[Key, Reservation] = {}
        self.dead: set[str] = set()  # nodes without a kubelet
        self._failures: dict[Key, int] = {}

    def _new_scheduler(self) -> HinderedScheduler:
        return HinderedScheduler(self._cluster, self._agenda, self._reserve, self._packing, claims=self.claims)

    def remove_obstacle(self, key: Key) -> None:
        """Let the scheduler bind a pod that it refused. Unknown: 404."""
        pod = self._cluster.pod(key)
        self._specs[key] = replace(self._specs[key], annotations=_without_obstacle(pod))
        pod = self._cluster.change_pod(pod, annotations=_without_obstacle(pod))
        if pod.node is None and not pod.gate and pod.deletion_at is None:
            self.scheduler.forget(pod)
            self.scheduler.enqueue(pod)

    # --- reserve, then bind ---

    def _reserve(self, pod: WorldPod, node: str) -> None:
        """Bind *pod*, or reserve *node* for it first."""
        delay = pod.annotations.get(BINDS_IN)
        if delay is None or pod.gang is not None or pod.claims:
            self._bind(pod, node)
            return
        self._cluster.change_pod(pod, nominated=node)
        self.reserved[pod.key] = Reservation(node, self._agenda.now)
        self._count(pod, node, 1)
        self._agenda.after(timedelta(seconds=float(delay)), self._reserved_for_long, pod.key, pod.uid)

    def _reserved_for_long(self, key: Key, uid: str) -> None:
        pod = self._cluster.living(key, uid)
        if pod is None:
            return
        name = self._release(pod)
        node = self._cluster.nodes.get(name)
        failed = self._failures.get(key, 0)
        if node is not None and node.ready and failed >= int(pod.annotations.get(FAILS, "0")):
            self._bind(pod, name)
            return
        self._failures[key] = failed + 1
        self.claims.release(pod)  # kube-scheduler deletes the claim that it made for resources that DRA serves
        pod = self._cluster.change_pod(pod, special_claim="")
        if KEEPS_NOMINATION not in pod.annotations:
            pod = self._cluster.change_pod(pod, nominated="")
        self.scheduler.enqueue(pod)
        self.scheduler.room_changed(name)

    def _release(self, pod: WorldPod) -> str:
        name = self.reserved.pop(pod.key).node
        self._count(pod, name, -1)
        return name

    def _count(self, pod: WorldPod, node: str, sign: int) -> None:
        used = self._cluster.used.setdefault(node, {})
        for resource, count in pod.asks.items():
            used[resource] = used.get(resource, 0) + sign * count

    def _remove(self, key: Key, uid: str) -> None:
        pod = self._cluster.living(key, uid)
        if pod is not None and key in self.reserved:
            self.scheduler.room_changed(self._release(pod))
        if pod is None or pod.node not in self.dead:
            super()._remove(key, uid)

    # --- a kubelet that is gone ---

    def kubelet_died(self, node: str) -> None:
        """Nothing ends on *node* any more; after a while every pod there is asked to end."""
        if node not in self.dead:
            self.dead.add(node)
            self._agenda.after(EVICTED_AFTER, self._evict_all, node)

    def _evict_all(self, node: str) -> None:
        for pod in self._cluster.on(node) if node in self.dead else ():
            if pod.owner_kind != "DaemonSet":
                self.delete(*pod.key)

    def _start(self, key: Key, uid: str) -> None:
        if not self._is_dead(key):
            super()._start(key, uid)

    def _finish(self, key: Key, uid: str) -> None:
        if not self._is_dead(key):
            super()._finish(key, uid)

    def _is_dead(self, key: Key) -> bool:
        pod = self._cluster.pods.get(key)
        return pod is not None and pod.node in self.dead

    def node_removed(self, node: str) -> None:
        self.dead.discard(node)
        super().node_removed(node)


def _without_obstacle(pod: WorldPod) -> Mapping[str, str]:
    return {k: v for k, v in pod.annotations.items() if k != OBSTACLE_ANNOTATION}
