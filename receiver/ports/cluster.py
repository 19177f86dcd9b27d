"""Kubernetes: nodes and GPU pods, and the budget hold."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from receiver.core.model.pods import Pod
from receiver.core.model.policy import Taint
from receiver.core.model.usage import EndedPod
from receiver.ports.outside import Receipt

CORDON_ANNOTATION = "gpu-autoscaler.io/cordoned-for"
STOP_ANNOTATION = "gpu-autoscaler.io/budget-stop"
PROTECT_ANNOTATION = "gpu-autoscaler.io/protect"
GANG_ANNOTATION = "gpu-autoscaler.io/gang"
GANG_SIZE_ANNOTATION = "gpu-autoscaler.io/gang-size"
IDLE_SHUTDOWN_ANNOTATION = "gpu-autoscaler.io/idle-shutdown"
KEEP_UNTIL_ANNOTATION = "gpu-autoscaler.io/keep-until"
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
QUOTA_NAME = "gpu-autoscaler-budget-hold"
QUOTA_LABEL = "gpu-autoscaler.io/budget-hold"
STOP_POLICY_ANNOTATION = "gpu-autoscaler.io/stop-policy-before"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A Kubernetes node. *instance* is the id in ``spec.providerID`` (``civo://<id>``), empty if there is none.

    *compute* is its allocatable CPU, memory, storage and pod slots (`core.model.resources`); *others* is what bound
    pods without GPUs request of that, *daemons* what DaemonSets' and mirror pods request. *dra* is True where
    ResourceSlices show GPUs on it, which *allocatable* never does.
    """

    name: str
    instance: str
    ready: bool
    unschedulable: bool
    allocatable: Mapping[str, int] = field(default_factory=dict)  # GPU resources only
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    hosts: tuple[str, ...] = ()  # monitoring and our own pods that run there
    compute: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    daemons: Mapping[str, int] = field(default_factory=dict)
    dra: bool = False
    kept_by: tuple[str, ...] = ()  # pods without a GPU that draining it would lose, each with its reason
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Nodes, and the GPU pods that wait, start or run (terminated pods are left out).

    *dra_resources* are the extended resources that DRA serves on nodes with a DRA driver (None: not known).
    """

    nodes: tuple[ClusterNode, ...]
    pods: tuple[Pod, ...]
    dra_resources: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPlaces:
    """What the budget hold blocks: namespaces with our ResourceQuota, ClusterQueues that we set to Hold."""

    namespaces: tuple[str, ...] = ()
    cluster_queues: tuple[str, ...] = ()


class WorkGate(Protocol):
    """The budget hold's part of Kubernetes. Every call may raise TryLater or WontWork."""

    def held_places(self, *, queues: bool) -> HeldPlaces:
        """Return the places with our label or annotation; ClusterQueues are read only with *queues*."""

    def hold_namespace(self, namespace: str, resources: Sequence[str], passing: Sequence[str]) -> Receipt:
        """Forbid new pods of *namespace* that request any of *resources*, except in the *passing* priority classes.

        A ResourceQuota of ours with other contents is replaced. One that is not ours stays as it is (DIFFERS).
        """

    def release_namespace(self, namespace: str) -> Receipt:
        """Delete our ResourceQuota from *namespace*. One that is not ours stays as it is (DIFFERS)."""

    def hold_queue(self, queue: str) -> Receipt:
        """Set a ClusterQueue of Kueue to Hold and record its former stop policy in an annotation. A queue that others
        stopped stays as it is (DIFFERS)."""

    def release_queue(self, queue: str) -> Receipt:
        """Restore the stop policy that a ClusterQueue had before `hold_queue`, unless others changed it since."""


class Cluster(WorkGate, Protocol):
    """Kubernetes. Every call may raise TryLater or WontWork."""

    def look(self) -> ClusterFacts:
        """Return the nodes and GPU pods. A cache may answer, which is seconds old at most: a removal reads again."""

    def ended(self, namespaces: Collection[str]) -> Sequence[EndedPod]:
        """Return the GPU pods of *namespaces* that succeeded or failed and still exist."""

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        """Return the GPU pods bound to *node*, read with quorum (no cache)."""

    def missing_rights(self) -> Sequence[str]:
        """Return the rights that a removal needs and that RBAC refuses us (``patch nodes``). Changes nothing."""

    def cordon(self, node: str, action: str) -> Receipt:
        """Mark *node* unschedulable with our annotation naming *action*."""

    def uncordon(self, node: str) -> Receipt:
        """Undo `cordon`. The cordons of others (DIFFERS) and of `cordon_for_budget` stay."""

    def cordon_for_budget(self, node: str, why: str) -> Receipt:
        """Mark *node* unschedulable, with our annotation that gives *why*, while a budget is at its stop. A cordon for
        a removal stays beside it; the cordon of others stays as it is (DIFFERS)."""

    def uncordon_for_budget(self, node: str) -> Receipt:
        """Undo `cordon_for_budget` only: a node that is cordoned for a removal stays unschedulable."""

    def drain(
        self, node: str, *, consenting: bool = False, evicting: bool = False, cordoned_at: datetime | None = None
    ) -> Receipt:
        """Evict the pods that may be evicted: no GPU pods, no DaemonSet or mirror pods. A pod that keeps its node by
        `receiver.core.model.pods` stops the drain (DIFFERS).

        *consenting* also evicts GPU pods whose owner consented (``safe-to-evict: "true"``); *evicting* also evicts
        those that yield (`core.scaling.bounds.window_may_evict`). With either, one GPU pod that did not consent or does
        not yield means that no pod is evicted. No pod is evicted either while a PodDisruptionBudget protects one of
        them, or from a node that has lost our cordon for a removal (DIFFERS).

        A pod that may be evicted, tolerates the cordon and was created after *cordoned_at* is a successor of an evicted
        pod: evicting it too would only bring the next one, so it goes with the node.

        Raises TryLater while a PodDisruptionBudget or a pod that is still terminating blocks it.
        """

    def apply_labels_and_taints(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        """Add *labels* and *taints* to *node* and keep its others. ALREADY when it has them all."""

    def set_soft_taints(self, node: str, taints: Sequence[Taint]) -> Receipt:
        """Give *node* exactly *taints* of our soft ones (`core.scaling.packing.SOFT_TAINTS`) and keep its others.
        ALREADY when it has them."""

    def scale_to_zero(self, pod: Pod) -> Receipt:
        """Scale the owner of *pod* to zero replicas, or suspend it if it is a Job. ALREADY when that is done;
        WontWork for a pod without an owner that can be scaled."""

    def record_event(self, pod: Pod, *, reason: str, message: str) -> Receipt:
        """Write a Kubernetes Event for *pod*."""
