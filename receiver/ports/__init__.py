"""Ports: the interfaces through which the product uses everything outside, and the ways in which calls can fail."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from receiver.core.model.charges import Charge
from receiver.core.model.devices import DeviceId, NodeDevices, Question
from receiver.core.model.installations import ALONE, OtherInstallations
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Pool, Taint
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.core.model.signals import Alert, Silence
from receiver.core.model.usage import Activity, Course, EndedPod, Sample
from receiver.ports.store import Arrival as Arrival
from receiver.ports.store import DecisionFilter as DecisionFilter
from receiver.ports.store import DecisionKind as DecisionKind
from receiver.ports.store import Delivery as Delivery
from receiver.ports.store import Grounds as Grounds
from receiver.ports.store import GroundsKept as GroundsKept
from receiver.ports.store import OutboxStore as OutboxStore
from receiver.ports.store import ReadStore as ReadStore
from receiver.ports.store import RecordStore as RecordStore
from receiver.ports.store import ShownStore as ShownStore
from receiver.ports.store import Snapshot as Snapshot
from receiver.ports.store import StepStore as StepStore
from receiver.ports.store import Store as Store
from receiver.ports.store import StoredAction as StoredAction
from receiver.ports.store import StoredDecision as StoredDecision
from receiver.ports.store import StoredNotice as StoredNotice
from receiver.ports.store import StoredOverride as StoredOverride
from receiver.ports.store import Telling as Telling
from receiver.ports.store import WebStore as WebStore

CORDON_ANNOTATION = "gpu-autoscaler.io/cordoned-for"
STOP_ANNOTATION = "gpu-autoscaler.io/budget-stop"
PROTECT_ANNOTATION = "gpu-autoscaler.io/protect"
GANG_ANNOTATION = "gpu-autoscaler.io/gang"
GANG_SIZE_ANNOTATION = "gpu-autoscaler.io/gang-size"
IDLE_SHUTDOWN_ANNOTATION = "gpu-autoscaler.io/idle-shutdown"
NEVER = "never"  # its value that refuses
KEEP_UNTIL_ANNOTATION = "gpu-autoscaler.io/keep-until"
MAY_WAIT = "gpu-autoscaler.io/may-wait"  # an annotation, and a scheduling gate
BUDGET_CHECK = "gpu-autoscaler.io/budget"  # the controller name of our AdmissionChecks of Kueue
PROVISIONING_CLASS = "atomic.gpu-autoscaler.io"  # of ProvisioningRequests
UPSTREAM_CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
REJECT_TOO_LARGE = "gpu-autoscaler.io/reject-too-large"  # an annotation on such a check
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
QUOTA_NAME = "gpu-autoscaler-budget-hold"
QUOTA_LABEL = "gpu-autoscaler.io/budget-hold"
STOP_POLICY_ANNOTATION = "gpu-autoscaler.io/stop-policy-before"


class Did(StrEnum):
    """The effect of a write."""

    DONE = "done"
    ALREADY = "already"  # the target state was reached already; nothing was sent
    DIFFERS = "differs"  # the state is not the one that was decided on; nothing was sent
    OBSERVED = "observed"  # observe mode: nothing was sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The effect of a write, in one sentence; *required* is the cloud's count afterwards, where it was read."""

    did: Did
    sentence: str
    required: int | None = None


DRAINING = "draining"  # the code of a drain that has evicted pods, while they leave


class TryLater(Exception):
    """A failure that may pass. *delay* is the least time to wait, if the other side named one. *code* is a short word
    for metrics and messages (``timeout``, ``http_503``, Civo's error ``code``)."""

    def __init__(self, detail: str, *, code: str = "unavailable", delay: timedelta | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.delay = delay


class WontWork(Exception):
    """A failure that lasts until something is changed; *code* as in TryLater."""

    def __init__(self, detail: str, *, code: str = "refused") -> None:
        super().__init__(detail)
        self.code = code


class WriterLostError(Exception):
    """This process is no longer the writer, or may cease to be before a call ends: it must not write outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance as Civo lists it. *status* is Civo's term (BUILDING, ACTIVE, DELETING, ...), empty where the
    response has none; *created_at* is None where it has no usable time."""

    id: str
    hostname: str
    status: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPool:
    """A pool at Civo: the *required* count and the instances that exist. Where it is *unreadable*, which says what the
    response lacks, the count is meaningless and some instances may be missing."""

    id: str
    required: int
    size: str
    instances: tuple[Instance, ...] = ()
    unreadable: str = ""


class Cloud(Protocol):
    """The API of node pools. Every call may raise TryLater or WontWork."""

    def look(self) -> Mapping[str, CloudPool]:
        """Return every pool of the cluster by id. What the response lacks about one pool makes that one unreadable."""

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        """Request *target* nodes, an absolute count above *decided_on*. Idempotent.

        Re-reads the required count first. Nothing is sent if it is at or above *target* (ALREADY), differs from
        *decided_on* (DIFFERS), or more nodes than *target* are alive (DIFFERS: the request would remove some). *shown*
        is the count that Civo is known to show until our last change takes effect: a lower one than *decided_on* is a
        growth that does not show yet, and is accepted; a higher one has yet to fall after a removal (DIFFERS).
        """

    def retire(self, pool: str, instance: str) -> Receipt:
        """Delete one named instance; ALREADY when it is gone."""


class Sizes(Protocol):
    """The list of node sizes."""

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        """Return CPU, memory and ephemeral storage of each size's machine (`receiver.core.model.pods`), by name.
        Unknown sizes are left out. Never raises, and usually answers from a cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """Civo's charges: the readable records, and a description of each unreadable one."""

    records: tuple[Charge, ...] = ()
    unreadable: tuple[str, ...] = ()


class Accounts(Protocol):
    """The API of the account's charges. The call may raise TryLater or WontWork."""

    def charges(self, frm: datetime, to: datetime) -> Charges:
        """Return the charges of the whole account between *frm* and *to*: hours, without amounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryFacts:
    """The values of the recording rules. *utilization* and *coverage* are ratios by pool id; *waiting* are pods
    as kube-state-metrics reports them (with a pool hint); *rules_alive* is true when the heartbeat alert
    fires in Prometheus, which proves that our rules are evaluated. By node name, *nodes* is DCGM's activity, *failed*
    names GPUs with a fatal XID (``XID 79 on GPU 0``), *recovering* the phase of a restart by Civo's node agent.
    *missing* are the nodes that do not deliver a counter which every GPU has, by counter."""

    utilization: Mapping[str, float] = field(default_factory=dict)
    coverage: Mapping[str, float] = field(default_factory=dict)
    waiting: tuple[Pod, ...] = ()
    nodes: Mapping[str, Activity] = field(default_factory=dict)
    rules_alive: bool = False
    failed: Mapping[str, str] = field(default_factory=dict)
    recovering: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Telemetry(Protocol):
    """Prometheus, or another server with its HTTP API. May raise TryLater or WontWork."""

    def look(self) -> TelemetryFacts:
        """Return the latest values."""

    def courses(self, window: timedelta) -> Mapping[str, Course]:
        """Return the activity of each pod's GPUs over the last *window*, by ``namespace/name``, without pods that were
        not observed in it."""

    def value(self, query: str, at: datetime) -> float | None:
        """Return the value of *query* at *at*, None unless it has exactly one."""

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """Return the activity of each GPU of each pod over the last two minutes, by ``namespace/name`` of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmFacts:
    """Our firing alerts (of all peers) that no peer silences, the active silences, and when the peer that started last
    did so (None: unknown). It keeps alerts in memory, and Prometheus sends them again within minutes."""

    alerts: tuple[Alert, ...] = ()
    silences: tuple[Silence, ...] = ()
    started_at: datetime | None = None


class Alarms(Protocol):
    """Alertmanager. May raise TryLater or WontWork."""

    def look(self) -> AlarmFacts:
        """Return the firing alerts and the silences."""


class Clock(Protocol):
    """The source of `now`, read once per step."""

    def now(self) -> datetime:
        """Return the time, timezone-aware UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The leading process, *mine* if it is this one. *term* counts the store's leaders so far (None: not counted)."""

    name: str
    term: int | None = None
    mine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHealth:
    """How the loop does at this moment (docs/http-api.md, /healthz and /readyz).

    *state* is ``starting``, ``leading``, ``waiting`` (for the leader lock) or ``stopped``. *beat_age* is the time since
    the last beat, or since the start when there was none; up to *fresh* it counts as alive. *good_age* is the age of
    the last good step, or the time since this loop began to lead; None where it does not lead. From *good_within* on
    steps count as failing. *steps* and *errors* count since the process started.
    """

    state: str
    beat_age: timedelta
    fresh: timedelta
    steps: int
    errors: int
    good_age: timedelta | None
    good_within: timedelta
    leader: Leader | None

    @property
    def alive(self) -> bool:
        """True while the loop beats; one that waits for the leader lock is as healthy as the leader."""
        return self.state != "stopped" and self.beat_age <= self.fresh

    @property
    def status(self) -> str:
        """``ok`` or ``stale``."""
        return "ok" if self.alive else "stale"

    @property
    def steps_well(self) -> bool:
        """True unless this loop leads and no step of it has gone well for too long."""
        return self.good_age is None or self.good_age <= self.good_within


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A Kubernetes node. *instance* is the id in ``spec.providerID`` (``civo://<id>``), empty if there is none.

    *compute* is its allocatable CPU, memory, storage and pod slots (`core.model.pods`), and the memory of its GPUs;
    *others* is what bound pods without GPUs request of that, *daemons* what DaemonSets' and mirror pods request. *dra*
    is True where ResourceSlices show GPUs on it, which *allocatable* never does. *devices* are those of its complete
    pools of ResourceSlices, of any driver (None: it has none), *taken* those of them that claims hold,
    each with when the pods that use it, all of them Terminating, will have left it (None: not known).
    """

    name: str
    instance: str
    ready: bool
    unschedulable: bool
    allocatable: Mapping[str, int] = field(default_factory=dict)  # GPU resources only
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tainted_since: Mapping[str, datetime] = field(default_factory=dict)  # of taints that stand for conditions, by key
    hosts: tuple[str, ...] = ()  # monitoring and our own pods that run there
    compute: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    daemons: Mapping[str, int] = field(default_factory=dict)
    dra: bool = False
    devices: NodeDevices | None = None
    taken: Mapping[DeviceId, datetime | None] = field(default_factory=dict)
    kept_by: tuple[str, ...] = ()  # pods without a GPU that draining it would lose, each with its reason
    created_at: datetime | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)  # ``True``, ``False`` or ``Unknown`` by type
    capacity: Mapping[str, int] = field(default_factory=dict)  # GPU resources, unhealthy devices included
    gpu_devices: int = 0  # that ResourceSlices show of the GPU driver
    sick_devices: tuple[str, ...] = ()  # those of them with a taint that keeps pods away, with its key


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Nodes, and the GPU pods that wait, start or run (terminated pods are left out). *dra_resources* are the extended
    resources that DRA serves on nodes with a DRA driver, each with the selectors of its DeviceClass (None: not known).
    *unread* says which queues are configured to count and cannot be read, *others* which installations of the
    autoscaler share the cluster.
    """

    nodes: tuple[ClusterNode, ...]
    pods: tuple[Pod, ...]
    dra_resources: Mapping[str, Question] | None = None
    requests: tuple[RoomRequest, ...] = ()
    unread: str = ""
    others: OtherInstallations = ALONE


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
        """Forbid new pods of *namespace* that request any of *resources*, except in the *passing* priority classes. A
        ResourceQuota of ours with other contents is replaced. One that is not ours stays as it is (DIFFERS)."""

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

    def has_node(self, node: str) -> bool:
        """True if the Node object *node* exists, read with quorum: a list may lack it for a moment."""

    def missing_rights(self) -> Sequence[str]:
        """Return the rights that a removal needs and that RBAC refuses us (``patch nodes``). Changes nothing."""

    def make_known(self, pools: Sequence[Pool]) -> Receipt:
        """Tell other installations in the cluster of this one and its *pools*. ALREADY when that was done a moment
        ago."""

    def answer_request(self, answer: RoomAnswer) -> Receipt:
        """Write *answer* into the status of a request of the last look. ALREADY when nothing differs, DIFFERS when
        there is no such request."""

    def keep_active(self, kind: str) -> Receipt:
        """Tell the users of requests of *kind* that they are answered, where that is not said. ALREADY when it is."""

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

        A pod that may be evicted, tolerates the cordon and was created after *cordoned_at*, the latest moment at which
        the cordon may have been made, is a successor of an evicted pod: evicting it too would only bring the next one,
        so it goes with the node.

        Raises TryLater while a PodDisruptionBudget or a pod that is still terminating blocks it.
        """

    def apply_labels_and_taints(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        """Add *labels* and *taints* to *node* and keep its others. ALREADY when it has them all."""

    def set_soft_taints(self, node: str, taints: Sequence[Taint]) -> Receipt:
        """Give *node* exactly *taints* of our soft ones (`core.scaling.packing.SOFT_TAINTS`) and keep its others.
        ALREADY when it has them."""

    def scale_to_zero(self, pod: Pod, *, covered: bool = False) -> Receipt:
        """Scale the owner of *pod* to zero replicas, or suspend it if it is a Job. ALREADY when that is done; DIFFERS
        for a pod that is gone or going, whose wishes changed since, or that does not consent
        (`IDLE_SHUTDOWN_ANNOTATION`; where the policy on idle workloads *covered* it, not refusing is enough); WontWork
        for one without an owner that can be scaled."""

    def admit(self, pod: Pod) -> Receipt:
        """Remove our scheduling gate from *pod*. ALREADY when it has none; DIFFERS when it is gone or going."""

    def record_event(self, pod: Pod, *, reason: str, message: str) -> Receipt:
        """Write a Kubernetes Event for *pod*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An unusable entry: *where* it is (``line 12``, ``Job ml/train``), its *field*, the *problem*, and the *remedy* in
    one clause."""

    where: str
    field: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}, {self.field}: {self.problem}; {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPod:
    """A GPU pod and when it held its GPUs. *held_from* is when the kubelet took it over (None: it never ran),
    *held_until* when its last container ended (None: after the end of the period read). *above* is the controller of
    its controller, ``Kind/name``. *gpu_util* is the mean activity of its GPUs (ratio 0-1), None if not measured."""

    pod: Pod
    held_from: datetime | None
    held_until: datetime | None
    above: str = ""
    gpu_util: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The pods that were read, from *since* (None: as far back as the source reaches) to *until*. *begins* is when the
    source's samples begin, None where that is not later. *tolerations_known* says whether the pods have theirs.
    *troubles* are unusable entries; *uncounted* is the number of intentionally skipped ones by kind; *notes* are
    sentences about the reliability of the data."""

    pods: Sequence[PastPod]
    until: datetime
    since: datetime | None = None
    begins: datetime | None = None
    tolerations_known: bool = True
    troubles: Sequence[Trouble] = ()
    uncounted: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
