"""The objects of a budget hold in a world: ResourceQuotas and ClusterQueues.

They have no effect there: no quota refuses a job, and no Kueue runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from receiver.ports import STOP_POLICY_ANNOTATION, Did, HeldPlaces, Receipt
from receiver.replay.ports import WorldPort

if TYPE_CHECKING:
    from simulator.world import World


@dataclass(slots=True, kw_only=True)
class ClusterQueue:
    """A ClusterQueue of Kueue; *stop_policy* None is not set."""

    stop_policy: str | None = None
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class HoldQuota:
    """The ResourceQuota with the name that a budget hold uses; *ours* when it carries our label."""

    spec: Mapping[str, Any]
    ours: bool = True


class WorldHolding(WorldPort):
    """Holds and releases the namespaces and ClusterQueues of a world."""

    _world: "World"

    def held_places(self, *, queues: bool) -> HeldPlaces:
        held = [n for n, q in self._world.cluster_queues.items() if STOP_POLICY_ANNOTATION in q.annotations]
        return HeldPlaces(
            namespaces=tuple(sorted(n for n, q in self._world.quotas.items() if q.ours)),
            cluster_queues=tuple(sorted(held)) if queues else (),
        )

    def hold_namespace(self, namespace: str, resources: Sequence[str], passing: Sequence[str]) -> Receipt:
        quotas = self._world.quotas
        existing = quotas.get(namespace)
        quota = HoldQuota(spec={"resources": sorted(resources), "passing": sorted(passing)})
        if existing is not None and not existing.ours:
            return Receipt(did=Did.DIFFERS, sentence=f"the quota of {namespace} is not ours and is left alone")
        if existing == quota:
            return Receipt(did=Did.ALREADY, sentence=f"the quota of {namespace} exists already")
        sentence = f"created the quota of {namespace}"
        return self.write(lambda: quotas.update({namespace: quota}), sentence, "hold_namespace", namespace)

    def release_namespace(self, namespace: str) -> Receipt:
        quotas = self._world.quotas
        existing = quotas.get(namespace)
        if existing is None or not existing.ours:
            did = Did.ALREADY if existing is None else Did.DIFFERS
            return Receipt(did=did, sentence=f"no quota of ours is in {namespace}")
        sentence = f"deleted the quota of {namespace}"
        return self.write(lambda: quotas.pop(namespace), sentence, "release_namespace", namespace)

    def hold_queue(self, queue: str) -> Receipt:
        cluster_queue = self._world.cluster_queues.get(queue)
        if cluster_queue is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no ClusterQueue {queue}")
        if cluster_queue.stop_policy not in (None, "None"):
            did = Did.ALREADY if STOP_POLICY_ANNOTATION in cluster_queue.annotations else Did.DIFFERS
            return Receipt(did=did, sentence=f"ClusterQueue {queue} is stopped already ({cluster_queue.stop_policy})")

        def hold() -> None:
            cluster_queue.annotations.setdefault(STOP_POLICY_ANNOTATION, cluster_queue.stop_policy or "")
            cluster_queue.stop_policy = "Hold"

        return self.write(hold, f"put ClusterQueue {queue} on Hold", "hold_queue", queue)

    def release_queue(self, queue: str) -> Receipt:
        cluster_queue = self._world.cluster_queues.get(queue)
        if cluster_queue is None or STOP_POLICY_ANNOTATION not in cluster_queue.annotations:
            return Receipt(did=Did.ALREADY, sentence=f"ClusterQueue {queue} is not held by us")

        def release() -> None:
            before = cluster_queue.annotations.pop(STOP_POLICY_ANNOTATION) or None
            cluster_queue.stop_policy = before if cluster_queue.stop_policy == "Hold" else cluster_queue.stop_policy

        return self.write(release, f"released ClusterQueue {queue}", "release_queue", queue)
