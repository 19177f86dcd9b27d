"""Observe mode: writes to Civo and Kubernetes become sentences. Never calls the inner object's writes; reads pass."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from receiver.core.model.pods import Pod
from receiver.core.model.policy import Pool, Taint
from receiver.core.model.room_requests import RoomAnswer
from receiver.core.model.text import some
from receiver.core.model.usage import EndedPod
from receiver.ports import QUOTA_NAME, Cloud, CloudPool, Cluster, ClusterFacts, Did, HeldPlaces, Receipt


class ObservedCloud:
    """A `Cloud` that only reads."""

    def __init__(self, inner: Cloud) -> None:
        self._inner = inner

    def look(self) -> Mapping[str, CloudPool]:
        return self._inner.look()

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        return _would(f"request {some(target, 'node')} in pool {pool} instead of {shown or decided_on}")

    def retire(self, pool: str, instance: str) -> Receipt:
        return _would(f"delete instance {instance} of pool {pool}")


class ObservedCluster:
    """A `Cluster` that only reads."""

    def __init__(self, inner: Cluster) -> None:
        self._inner = inner

    def look(self) -> ClusterFacts:
        return self._inner.look()

    def ended(self, namespaces: Collection[str]) -> Sequence[EndedPod]:
        return self._inner.ended(namespaces)

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        return self._inner.gpu_pods_on(node)

    def has_node(self, node: str) -> bool:
        return self._inner.has_node(node)

    def missing_rights(self) -> Sequence[str]:
        return self._inner.missing_rights()

    def make_known(self, pools: Sequence[Pool]) -> Receipt:
        return _would(f"renew the Lease of this installation with {some(len(pools), 'pool')}")

    def answer_request(self, answer: RoomAnswer) -> Receipt:
        state = f"{answer.state}, " if answer.state else ""
        return _would(f"answer request {answer.key} ({answer.kind.replace('_', ' ')}): {state}{answer.message}")

    def keep_active(self, kind: str) -> Receipt:
        return _would(f"say that requests ({kind.replace('_', ' ')}) are answered")

    def cordon(self, node: str, action: str) -> Receipt:
        return _would(f"cordon node {node} for action {action}")

    def uncordon(self, node: str) -> Receipt:
        return _would(f"uncordon node {node} if the cordon is ours")

    def cordon_for_budget(self, node: str, why: str) -> Receipt:
        return _would(f"cordon node {node} for a budget: {why}")

    def uncordon_for_budget(self, node: str) -> Receipt:
        return _would(f"uncordon node {node} if we cordoned it for a budget")

    def drain(
        self,
        node: str,
        *,
        consenting: bool = False,
        evicting: bool = False,
        cordoned_at: datetime | None = None,  # noqa: ARG002
    ) -> Receipt:
        too = ", including GPU pods" if evicting else ", including GPU pods that consented" if consenting else ""
        return _would(f"evict the pods of node {node} that may be evicted{too}")

    def apply_labels_and_taints(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        marks = [*(f"{k}={v}" for k, v in sorted(labels.items())), *(f"{t.key}={t.value}:{t.effect}" for t in taints)]
        return _would(f"add {', '.join(marks)} to node {node}")

    def set_soft_taints(self, node: str, taints: Sequence[Taint]) -> Receipt:
        return _would(f"set the soft taints of node {node} to {', '.join(t.key for t in taints) or 'none'}")

    def scale_to_zero(self, pod: Pod, *, covered: bool = False) -> Receipt:  # noqa: ARG002
        return _would(f"scale {pod.owner} of {pod.namespace} to zero")

    def held_places(self, *, queues: bool) -> HeldPlaces:
        return self._inner.held_places(queues=queues)

    def hold_namespace(self, namespace: str, resources: Sequence[str], passing: Sequence[str]) -> Receipt:
        but = f" except in the classes {', '.join(passing)}" if passing else ""
        return _would(
            f"create ResourceQuota {namespace}/{QUOTA_NAME}: no new pod may request {', '.join(resources)}{but}"
        )

    def release_namespace(self, namespace: str) -> Receipt:
        return _would(f"delete ResourceQuota {namespace}/{QUOTA_NAME} if it is ours")

    def hold_queue(self, queue: str) -> Receipt:
        return _would(f"set ClusterQueue {queue} to Hold unless others stopped it")

    def release_queue(self, queue: str) -> Receipt:
        return _would(f"restore the stop policy of ClusterQueue {queue} if we hold it")

    def admit(self, pod: Pod) -> Receipt:
        return _would(f"remove the scheduling gate of pod {pod.key}")

    def record_event(self, pod: Pod, *, reason: str, message: str) -> Receipt:
        return _would(f"write the Event {reason} for pod {pod.key}: {message}")


def _would(what: str) -> Receipt:
    return Receipt(did=Did.OBSERVED, sentence=f"would {what}")
