"""Kubernetes: nodes and GPU pods, what keeps new GPU work out, and the watch that wakes the loop."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Nodes, and the GPU pods that wait, start or run (terminated pods are left out).

    *dra_resources* are the extended resources that DRA serves on nodes with a DRA driver (None: not known).
    """

    nodes: tuple[ClusterNode, ...]
    pods: tuple[Pod, ...]
    dra_resources: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOut:
    """Where new work is kept out by us: namespaces with our ResourceQuota, ClusterQueues that we put on Hold."""

    namespaces: tuple[str, ...] = ()
    cluster_queues: tuple[str, ...] = ()


class WorkGate(Protocol):
    """The part of Kubernetes that keeps new work out. Every call may raise TryLater or WontWork."""

    def kept_out(self, *, queues: bool) -> KeptOut:
        """Return what is ours, by its label or annotation; Kueue is only asked with *queues*."""

    def keep_out(self, namespace: str, resources: Sequence[str], passing: Sequence[str]) -> Receipt:
        """Let no new pod of *namespace* ask for one of *resources*, but for those of the *passing* priority classes.

        One of ours that says otherwise is replaced; an object of that name that is not ours is left alone (DIFFERS).
        """

    def let_in(self, namespace: str) -> Receipt:
        """Delete our ResourceQuota of *namespace*; somebody else's is left alone (DIFFERS)."""

    def hold_queue(self, queue: str) -> Receipt:
        """Put a ClusterQueue of Kueue on Hold and note on it what it was; one that somebody stopped is left alone
        (DIFFERS)."""

    def release_queue(self, queue: str) -> Receipt:
        """Give a ClusterQueue the stop policy back that it had before `hold_queue`; what somebody changed since
        stays."""


class Cluster(WorkGate, Protocol):
    """Kubernetes. Every call may raise TryLater or WontWork."""

    def look(self) -> ClusterFacts:
        """Return what exists now."""

    def ended(self, namespaces: Collection[str]) -> Sequence[EndedPod]:
        """Return the GPU pods of *namespaces* that have succeeded or failed and are still there."""

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        """Return the GPU pods bound to *node*, read with quorum (no cache)."""

    def lacking(self) -> Sequence[str]:
        """Return the rights that a removal needs and that we do not have (``patch nodes``); nothing is changed."""

    def cordon(self, node: str, action: str) -> Receipt:
        """Mark *node* unschedulable with our annotation naming *action*."""

    def uncordon(self, node: str) -> Receipt:
        """Undo what `cordon` did; a cordon of someone else is left alone (DIFFERS), and so is that of `shut`."""

    def shut(self, node: str, why: str) -> Receipt:
        """Let no new pod begin on *node* while a budget is at its stop: unschedulable, with our annotation that says
        *why*. A cordon for a removal stays beside it; one of someone else is left alone (DIFFERS)."""

    def reopen(self, node: str) -> Receipt:
        """Undo what `shut` did, and nothing else: a node that is cordoned for a removal stays so."""

    def drain(self, node: str, *, consenting: bool = False, evicting: bool = False) -> Receipt:
        """Evict what may go (no GPU pod, no DaemonSet or mirror pod, none that keeps its node by
        `receiver.core.model.pods`: DIFFERS). TryLater while a PodDisruptionBudget
        or a pod that is still leaving stands in the way. *consenting* evicts GPU pods too whose owner
        consented (``safe-to-evict: "true"``), and nothing at all while one GPU pod there did not; *evicting* those
        that yield (`core.scaling.bounds.yields`), and nothing at all while one does not. Nobody is evicted
        either while a PodDisruptionBudget holds one of those that would go, nor from a node that does not bear our
        cordon for a removal, because somebody lifted it meanwhile (DIFFERS)."""

    def dress(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        """Put *labels* and *taints* on *node*; others that it carries stay. ALREADY when it has them all."""

    def prefer(self, node: str, taints: Sequence[Taint]) -> Receipt:
        """Let *node* carry exactly *taints* of our soft ones (`core.scaling.packing.SOFT_TAINTS`); all others stay.
        ALREADY when it does."""

    def scale_to_zero(self, pod: Pod) -> Receipt:
        """Scale the owner of *pod* to zero replicas, or suspend it if it is a Job. ALREADY when it is there;
        WontWork for a pod without an owner that can be scaled."""

    def announce(self, pod: Pod, *, reason: str, message: str) -> Receipt:
        """Leave a Kubernetes Event on *pod*."""


class DemandWatch(Protocol):
    """A connection that stays open. Whoever hears of a pod looks at everything anew."""

    def follow(self, stands: Callable[[], None], found: Callable[[], None]) -> None:
        """Call *stands* when the connection is there and *found* whenever a pod is found to need a node; return when
        it has ended in good order. Called again it goes on where it was.

        Raises TryLater when it broke or is refused for now, WontWork when it will not come by itself.
        """

    def close(self) -> None:
        """End `follow` from another thread, for good."""
