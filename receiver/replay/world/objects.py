"""A simulated world's configuration, and the values that it shows. Each undocumented behaviour of Civo is a switch in
`Behaviour`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from receiver.core.model.pods import COMPUTE, CPU, GIB, MEMORY, MIB, STORAGE, Preference, Requirement, Toleration
from receiver.core.model.policy import Taint

GANG_ANNOTATION = "gpu-autoscaler.io/gang"
IMAGE_ANNOTATION = "simulator/image"  # of a pod's one container
PLACED_WHOLE_ANNOTATION = "simulator/gang"  # a gang of the scheduler's whose pods declare another one to the product
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
GPU = "nvidia.com/gpu"
CLAIMS = "resource.k8s.io/claims"  # counts the claims of a pod, and the devices that it got once it is bound
Fault = Literal["stuck", "gpu_never", "bare", "odd", "slices"]
Packing = Literal["most_allocated", "least_allocated", "first_fit"]


class Denied(Exception):
    """A refusal by Civo or Kubernetes: *code* and *status* of the HTTP answer, *reason* a sentence."""

    def __init__(self, code: str, status: int, reason: str, details: str = "") -> None:
        super().__init__(f"{code} ({status}): {reason}")
        self.code = code
        self.status = status
        self.reason = reason
        self.details = details


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSet:
    """The devices of one *driver* on a node: *devices* are Devices, *counters* CounterSets. *slices* is the number of
    ResourceSlices with devices; counters are in one of their own."""

    devices: tuple[Mapping[str, Any], ...]
    counters: tuple[Mapping[str, Any], ...] = ()
    driver: str = "gpu.nvidia.com"
    slices: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """A claim of a pod: its *name* there, and a ResourceClaim or the *template* of one."""

    name: str
    claim: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPool:
    """A node pool as created at Civo. *resources* are the GPU resources of one node whose driver runs (name to whole
    units), *count* the usable nodes at the beginning.

    The defaults are the published row of ``an.g1.l40s.kube.x1`` (12 vCPU, 96 GB, 200 GB, one L40S). *gpus* are the
    physical GPUs per node where *resources* does not say (MIG, time-slicing). A new node carries *startup_taints*
    until `Timings.set_up` has passed. With *dra* a DRA driver serves the GPUs: ResourceSlices show them, the node's
    status does not, and DeviceClasses answer to the resources. With *devices* it serves these, by claim alone unless
    *dra* is set. Only the simulator's world has such drivers.
    """

    id: str
    size: str
    resources: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    count: int = 0
    cpu_cores: int = 12
    ram_mb: int = 98304
    disk_gb: int = 200
    gpu_type: str = "nvidia.com/AD102GL_L40S"
    model_name: str = "NVIDIA L40S"
    mig: bool = False
    gpus: int | None = None
    startup_taints: tuple[Taint, ...] = ()
    dra: bool = False
    devices: tuple[DeviceSet, ...] = ()

    @property
    def served_by_dra(self) -> bool:
        return bool(self.devices) or (self.dra and any(self.resources.values()))

    @property
    def machine(self) -> Mapping[str, int]:
        return {CPU: self.cpu_cores * 1000, MEMORY: self.ram_mb * MIB, STORAGE: self.disk_gb * GIB}

    @property
    def gpu_units(self) -> int:
        """Physical GPUs of one node, the unit of stock."""
        if self.gpus is not None:
            return self.gpus
        return self.resources.get(GPU, 1 if self.resources else 0)

    @property
    def gpu_labels(self) -> Mapping[str, str]:
        """The labels that GPU feature discovery sets once the driver runs."""
        return {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.count": str(self.gpu_units),
            "nvidia.com/gpu.product": self.model_name.replace(" ", "-"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Durations. *jitter* is a ratio: each duration d is drawn from d*(1-jitter) to d*(1+jitter).

    Civo publishes no figures: 2-10 min for a GPU build is an assumption, 3-7 min for the driver is typical of the GPU
    operator.
    """

    create: timedelta = timedelta(0)  # PUT -> the instance is listed
    build: timedelta = timedelta(seconds=120)  # BUILDING -> ACTIVE
    boot: timedelta = timedelta(seconds=20)  # ACTIVE -> node Ready (the node object is there, NotReady, half-way)
    driver: timedelta = timedelta(seconds=180)  # Ready -> GPU allocatable
    slices: timedelta = timedelta(0)  # GPU allocatable -> the first ResourceSlice, and from each to the next
    set_up: timedelta = timedelta(seconds=60)  # GPU allocatable -> the startup taints go, where there are any
    image_pull: timedelta = timedelta(seconds=5)  # bound -> running
    pulls: Mapping[str, timedelta] = field(default_factory=dict)  # instead, for the first pod of an image on a node
    warmup: timedelta = timedelta(seconds=10)  # running -> the GPU is busy; its memory fills evenly meanwhile
    delete: timedelta = timedelta(seconds=20)  # DELETING -> gone
    node_lingers: timedelta = timedelta(seconds=10)  # the node object outlives its VM by this
    terminate: timedelta = timedelta(seconds=2)  # a pod asked to go -> gone
    label_lag: timedelta = timedelta(0)  # pool labels show on the node this long after it registered
    quota_lag: timedelta = timedelta(seconds=180)  # gone -> quota usage falls
    schedule: timedelta = timedelta(milliseconds=200)  # pod created -> the scheduler tries it
    fill_retry: timedelta = timedelta(seconds=30)  # Civo tries again to build what a pool lacks
    finished_lingers: timedelta | None = None  # a finished pod's object is deleted after this; None keeps it
    jitter: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Switches for undocumented behaviour of Civo. *decrement* is when the required count falls after an instance was
    deleted by id: at once, that long later, or never (Civo then builds a replacement)."""

    list_zero_pools: bool = False
    list_count: Literal["desired", "actual"] = "desired"
    list_lag: timedelta = timedelta(0)  # lists and the cluster show the required count of that long ago
    decrement: Literal["at_once", "never"] | timedelta = "at_once"
    partial_fill: bool = False  # accept a growth that fits only partly, and fill it up later
    rescale_conflict: bool = False  # refuse a resize while another one is under way
    taints_null_wipes: bool = True  # `taints: null` over HTTP clears the pool's taints
    scaling_status: bool = False  # the cluster shows SCALING while a pool changes
    victims_by_age: Literal["oldest", "newest"] = "oldest"
    rounding: Literal["ceil", "floor_min_one"] = "ceil"
    granularity: timedelta = timedelta(hours=1)
    billed_until: Literal["gone", "delete"] = "gone"  # the later one is the safe assumption


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldConfig:
    """A world at its beginning.

    *stock* are the GPU units by size left to buy beyond the initial nodes (None or absent: unlimited). *quota* are
    account limits by name (``instance_count``, ``cpu_core``, ``ram_mb``, ``disk_gb``; absent: unlimited),
    *quota_used_elsewhere* is the rest of the account. *price* is USD per node-hour by size. *backoff_limit* is how
    often a job may lose pods before it fails, as `backoffLimit` of a Kubernetes Job (pods lost at the same moment count
    once; None: unlimited). *journal_limit* bounds the changes kept for watches.
    """

    pools: tuple[WorldPool, ...]
    cluster_id: str = "c1a55e5e-0000-4000-8000-000000000001"
    cluster_name: str = "demo"
    region: str = "lon1"
    timings: Timings = field(default_factory=Timings)
    behaviour: Behaviour = field(default_factory=Behaviour)
    stock: Mapping[str, int | None] = field(default_factory=dict)
    quota: Mapping[str, int] = field(default_factory=dict)
    quota_used_elsewhere: Mapping[str, int] = field(default_factory=dict)
    price: Mapping[str, Decimal] = field(default_factory=dict)
    seed: int = 0
    packing: Packing = "most_allocated"
    backoff_limit: int | None = None
    journal_limit: int = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """The parts that pods and jobs share. *gpu_util* and *gpu_memory* are the activity and used memory (ratios 0-1) of
    each GPU after warm-up; memory None follows from the activity. In its last *idle_tail* a pod does nothing and holds
    its GPUs and their memory. *compute* are the requests beside GPUs in millicores
    and bytes (`receiver.core.model.pods`). *claims* count in the simulator's world alone."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    preferred: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    priority_class: str = ""
    owner_kind: str = ""
    gpu_util: float = 0.9
    gpu_memory: float | None = None
    idle_tail: timedelta = timedelta(0)
    compute: Mapping[str, int] = field(default_factory=dict)
    gate: str = ""  # the name of a scheduling gate
    claims: tuple[PodClaim, ...] = ()
    group: str = ""  # its PodGroup, which kube-scheduler starts whole; ``workload/group`` in scheduling.k8s.io/v1alpha1


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec(PodTemplate):
    """A pod to create. *requests* are GPU resources (empty for a CPU pod); *duration* None runs until it is deleted.

    A controller (*owner_kind* not empty) replaces a lost or deleted pod under a new name, except a DaemonSet. *node*
    binds the pod directly, as a DaemonSet's. *gang_size* pods of a gang must be placed together (0: all that wait);
    further ones are placed one by one.
    """

    namespace: str
    name: str
    requests: Mapping[str, int] = field(default_factory=dict)
    duration: timedelta | None = None
    owner_name: str = ""
    gang_size: int = 0
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(PodTemplate):
    """A Kubernetes Job of *pods* pods that each request *gpus_per_pod* units of *resource* for *duration*.

    With *gang*, at least *gang_min* of them (None: all) are placed at once, or none. Another *owner_kind* stands for
    that controller, which ends when its pods are done.
    """

    id: str
    submit_at: datetime
    duration: timedelta
    pods: int = 1
    gpus_per_pod: int = 1
    namespace: str = "default"
    team: str = ""
    gang: bool = False
    gang_min: int | None = None
    owner_kind: str = "Job"
    resource: str = GPU

    @property
    def gpus(self) -> int:
        return self.pods * self.gpus_per_pod


@dataclass(slots=True)
class Faults:
    """The faults of a world, none in a replay. *stock* overrides the GPU units of a size that are left to buy.
    *rules_dead* stops all alerts, *telemetry_gone* all GPU metrics."""

    stock: dict[str, int | None] = field(default_factory=dict)
    rules_dead: bool = False
    telemetry_gone: bool = False

    def next_refusal(self) -> Denied | None:
        """Use up and return the refusal of the next resize, or None."""
        return None

    def takes(self, fault: Fault, pool: str) -> str | None:  # noqa: ARG002
        """Use up one *fault* of *pool* and return its value (the odd status), or None when none is left."""
        return None


@dataclass(slots=True, kw_only=True, eq=False)
class VM:
    """An instance over its whole life. It is billed from *created_at*, when it was ordered. *deleted_at* is when its
    deletion was accepted, *gone_at* when Civo stopped listing it."""

    id: str
    hostname: str
    pool: str
    size: str
    spec: WorldPool
    created_at: datetime
    status: str = "BUILDING"
    listed: bool = False
    active_at: datetime | None = None
    registered_at: datetime | None = None
    ready_at: datetime | None = None
    shown: bool = False  # each of its GPUs is allocatable or in a ResourceSlice
    usable_at: datetime | None = None
    deleted_at: datetime | None = None
    gone_at: datetime | None = None

    @property
    def provider_id(self) -> str:
        return f"civo://{self.id}"

    @property
    def gpus(self) -> int:
        return sum(self.spec.resources.values())

    @property
    def living(self) -> bool:
        return self.deleted_at is None


@dataclass(slots=True, kw_only=True, eq=False)
class CivoPool:
    """A pool at Civo, with nodes like *spec*. *instances* are listed, *coming* are ordered and not listed yet.

    *required* is the requested count, *past_counts* the earlier ones, each with the time of its end.
    *late_decrements* of it are still to be subtracted.
    """

    id: str
    size: str
    spec: WorldPool
    required: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    instances: list[VM] = field(default_factory=list)
    coming: list[VM] = field(default_factory=list)
    late_decrements: int = 0
    past_counts: list[tuple[datetime, int]] = field(default_factory=list)

    @property
    def living(self) -> list[VM]:
        return [vm for vm in (*self.instances, *self.coming) if vm.living]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldNode:
    """A Kubernetes node as it was at *version*.

    *allocatable* are the compute resources (`core.model.resources`) and, once the driver runs, the GPU resources. Those
    that a DRA driver serves (*dra*) are included, although its status does not show them. *taints* include those that
    Kubernetes sets itself, *conditions* are those beside its own, and *unhealthy* GPUs are no longer allocatable.
    """

    name: str
    instance: str
    provider_id: str
    pool: str
    created_at: datetime
    uid: str
    ready: bool = False
    ready_since: datetime | None = None
    unschedulable: bool = False
    allocatable: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    dra: bool = False
    conditions: Mapping[str, str] = field(default_factory=dict)
    unhealthy: int = 0
    version: int = 0

    @property
    def gpus(self) -> Mapping[str, int]:
        return {r: n for r, n in self.allocatable.items() if r not in COMPUTE}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPod(PodSpec):
    """A pod as it was at *version*.

    *scheduled* is its PodScheduled condition: None before the scheduler tried it, False with *reason*
    (``Unschedulable`` or ``SchedulingGated``) and *message*, True once bound; *scheduled_since* is the condition's
    lastTransitionTime. *deletion_at* is its deletionTimestamp. *nominated* is its nominatedNodeName. *claim_names* are
    the ResourceClaims that were generated for its claims, *special_claim* is the one for its extended resources.
    """

    uid: str
    created_at: datetime
    gang: str | None = None
    phase: str = "Pending"
    scheduled: bool | None = None
    scheduled_since: datetime | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deletion_at: datetime | None = None
    nominated: str = ""
    claim_names: Mapping[str, str] = field(default_factory=dict)
    special_claim: str = ""
    version: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)

    @property
    def image(self) -> str:
        """Of its one container."""
        return self.annotations.get(IMAGE_ANNOTATION, "example/workload:1")

    @property
    def asks(self) -> Mapping[str, int]:
        return {**self.requests, **self.compute} if self.compute else self.requests

    @property
    def gpus(self) -> int:
        return sum(self.requests.values())

    @property
    def over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldEvent:
    """A Kubernetes Event on an object; *namespace* and *name* are the object's."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    reason: str
    message: str
    type: str = "Normal"
    component: str = ""
    at: datetime
    id: str
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldChange:
    """A visible change: *kind* is Pod, Node, Event or what `World.note` got, *verb* ADDED, MODIFIED or DELETED, *key*
    ``name`` or ``namespace/name``. *obj* is the object after the change, *before* that before it (None for ADDED)."""

    version: int
    kind: str
    verb: str
    key: str
    obj: Any
    before: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldCharge:
    """A record of ``GET /v2/charges``: hours, no money. *to* is None while the instance runs."""

    id: int
    code: str
    label: str
    frm: datetime
    to: datetime | None
    num_hours: float
    size: str
    instance: str
    pool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A pod that lost its node: *ran* is how long it had run, *by* the call that removed the node."""

    at: datetime
    namespace: str
    name: str
    node: str
    instance: str
    gpus: int
    ran: timedelta
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedJob:
    """A job whose pods have all succeeded. *started_at* is when the last of its pods first ran, *restarts* the number
    of pods that it lost."""

    id: str
    submitted_at: datetime
    started_at: datetime
    finished_at: datetime
    gpus: int
    team: str = ""
    restarts: int = 0

    @property
    def wait(self) -> timedelta:
        return self.started_at - self.submitted_at
