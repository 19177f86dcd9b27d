"""Observe mode: what would be written to Civo and to the cluster becomes a sentence instead.

Promises that the inner object's writes are never called; the reads pass through.
"""

from collections.abc import Collection, Mapping, Sequence

from receiver.core.model.pods import Pod
from receiver.core.model.policy import Taint
from receiver.core.model.usage import EndedPod
from receiver.ports import QUOTA_NAME, Cloud, CloudPool, Cluster, ClusterFacts, Did, HeldPlaces, Receipt


class ObservedCloud:
    """A `Cloud` that is only looked at."""

    def __init__(self, inner: Cloud) -> None:
        self._inner = inner

    def look(self) -> Mapping[str, CloudPool]:
        """Return what *inner* sees."""
        return self._inner.look()

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        """Say what would be asked for."""
        return _would(f"ask Civo for {target} nodes in pool {pool} instead of {shown or decided_on}")

    def retire(self, pool: str, instance: str) -> Receipt:
        """Say what would be deleted."""
        return _would(f"delete instance {instance} of pool {pool}")


class ObservedCluster:
    """A `Cluster` that is only looked at."""

    def __init__(self, inner: Cluster) -> None:
        self._inner = inner

    def look(self) -> ClusterFacts:
        """Return what *inner* sees."""
        return self._inner.look()

    def ended(self, namespaces: Collection[str]) -> Sequence[EndedPod]:
        """Return what *inner* sees in *namespaces*."""
        return self._inner.ended(namespaces)

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        """Return what *inner* sees on *node*."""
        return self._inner.gpu_pods_on(node)

    def missing_rights(self) -> Sequence[str]:
        """Return what *inner* is told."""
        return self._inner.missing_rights()

    def cordon(self, node: str, action: str) -> Receipt:
        """Say what would be cordoned."""
        return _would(f"cordon node {node} for action {action}")

    def uncordon(self, node: str) -> Receipt:
        """Say what would be made schedulable."""
        return _would(f"make node {node} schedulable again if the cordon is ours")

    def cordon_for_budget(self, node: str, why: str) -> Receipt:
        """Say what would be closed to new work."""
        return _would(f"shut node {node} to new work: {why}")

    def uncordon_for_budget(self, node: str) -> Receipt:
        """Say what would be opened to new work."""
        return _would(f"open node {node} to new work again if we closed it")

    def drain(self, node: str, *, consenting: bool = False, evicting: bool = False) -> Receipt:
        """Say what would be drained."""
        too = ", GPU pods too" if evicting else ", GPU pods that consented too" if consenting else ""
        return _would(f"evict from node {node} what may go{too}")

    def apply_labels_and_taints(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        """Say which labels and taints would be put on *node*."""
        what = [*(f"{k}={v}" for k, v in sorted(labels.items())), *(f"{t.key}={t.value}:{t.effect}" for t in taints)]
        return _would(f"put {', '.join(what)} on node {node}")

    def set_soft_taints(self, node: str, taints: Sequence[Taint]) -> Receipt:
        """Say which soft taints *node* would carry."""
        return _would(f"let node {node} carry {', '.join(t.key for t in taints) or 'no soft taint'}")

    def scale_to_zero(self, pod: Pod) -> Receipt:
        """Say what would be scaled to zero."""
        return _would(f"scale {pod.owner} of {pod.namespace} to zero")

    def held_places(self, *, queues: bool) -> HeldPlaces:
        """Return what *inner* sees."""
        return self._inner.held_places(queues=queues)

    def hold_namespace(self, namespace: str, resources: Sequence[str], passing: Sequence[str]) -> Receipt:
        """Say what would be kept out."""
        but = f", but for {', '.join(passing)}" if passing else ""
        return _would(
            f"create ResourceQuota {namespace}/{QUOTA_NAME}: no new pod may ask for {', '.join(resources)}{but}"
        )

    def release_namespace(self, namespace: str) -> Receipt:
        """Say what would be deleted."""
        return _would(f"delete ResourceQuota {namespace}/{QUOTA_NAME} if it is ours")

    def hold_queue(self, queue: str) -> Receipt:
        """Say which queue would be put on Hold."""
        return _would(f"put ClusterQueue {queue} on Hold unless somebody stopped it")

    def release_queue(self, queue: str) -> Receipt:
        """Say which queue would run again."""
        return _would(f"give ClusterQueue {queue} its stop policy back if we hold it")

    def record_event(self, pod: Pod, *, reason: str, message: str) -> Receipt:
        """Say which Event would be left."""
        return _would(f"leave the Event {reason} on pod {pod.key}: {message}")


def _would(what: str) -> Receipt:
    return Receipt(did=Did.OBSERVED, sentence=f"would {what}")
