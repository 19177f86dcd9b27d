"""What a simulated world is made of: pools, timings, and one switch for each thing nobody documents about Civo."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal, Protocol

from receiver.core.model.pods import Preference, Requirement, Toleration
from receiver.core.model.policy import Taint
from receiver.core.model.resources import CPU, GIB, MEMORY, MIB, STORAGE

GANG_ANNOTATION = "gpu-autoscaler.io/gang"
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
GPU = "nvidia.com/gpu"
CLAIMS = "resource.k8s.io/claims"  # what a pod asks for by ResourceClaim; the scheduler places none of these
Packing = Literal["most_allocated", "least_allocated", "first_fit"]


class Denied(Exception):
    """Civo's or Kubernetes' refusal: *code* and *status* as the HTTP face answers, *reason* a sentence."""

    def __init__(self, code: str, status: int, reason: str, details: str = "") -> None:
        super().__init__(f"{code} ({status}): {reason}")
        self.code = code
        self.status = status
        self.reason = reason
        self.details = details


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPool:
    """A node pool as created at Civo. *resources* is what one node offers once its driver runs (GPU resource
    name to whole units), *count* the nodes that exist, ready and usable, when the world begins.

    The defaults are the published row of ``an.g1.l40s.kube.x1`` (12 vCPU, 96 GB, 200 GB, one L40S). *gpus* is
    the number of physical GPUs per node where *resources* does not tell (MIG, time-slicing). A new node carries
    *startup_taints* until it is set up (`Timings.set_up`).
    With *dra* a DRA driver serves the GPUs: ResourceSlices show them and the node's status does not.
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

    @property
    def machine(self) -> Mapping[str, int]:
        """What one machine has (`receiver.core.model.resources`)."""
        return {CPU: self.cpu_cores * 1000, MEMORY: self.ram_mb * MIB, STORAGE: self.disk_gb * GIB}

    @property
    def gpu_units(self) -> int:
        """Physical GPUs of one node: what stock is counted in."""
        if self.gpus is not None:
            return self.gpus
        return self.resources.get(GPU, 1 if self.resources else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How long things take. *jitter* is a ratio: each duration is drawn from d*(1-jitter) to d*(1+jitter).

    Build, boot and driver follow published figures where there are any (GPU build 2-10 min is an assumption,
    driver 3-7 min is generic for the GPU operator).
    """

    create: timedelta = timedelta(0)  # PUT -> the instance is listed
    build: timedelta = timedelta(seconds=120)  # BUILDING -> ACTIVE
    boot: timedelta = timedelta(seconds=20)  # ACTIVE -> node Ready (the node object is there, NotReady, half-way)
    driver: timedelta = timedelta(seconds=180)  # Ready -> GPU allocatable
    set_up: timedelta = timedelta(seconds=60)  # GPU allocatable -> the startup taints go, where there are any
    image_pull: timedelta = timedelta(seconds=5)  # bound -> running
    warmup: timedelta = timedelta(seconds=10)  # running -> the GPU is busy; its memory fills evenly meanwhile
    delete: timedelta = timedelta(seconds=20)  # DELETING -> gone
    node_lingers: timedelta = timedelta(seconds=10)  # the node object outlives its VM by this
    terminate: timedelta = timedelta(seconds=2)  # a pod asked to go -> gone
    label_lag: timedelta = timedelta(0)  # pool labels show on the node this long after it registered
    quota_lag: timedelta = timedelta(seconds=180)  # gone -> quota usage falls
    schedule: timedelta = timedelta(milliseconds=200)  # pod created -> the scheduler tries it
    fill_retry: timedelta = timedelta(seconds=30)  # Civo tries again to build what a pool lacks
    finished_lingers: timedelta | None = None  # a finished pod's object goes after this; None keeps it
    jitter: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The switches for what is unknown at Civo. *decrement* is when the required count falls after an instance
    was deleted by id: at once, that long later, or never (then Civo builds a replacement)."""

    list_zero_pools: bool = False
    list_count: Literal["desired", "actual"] = "desired"
    list_lag: timedelta = timedelta(0)  # lists and the cluster show the required count as it was that long ago
    decrement: Literal["at_once", "never"] | timedelta = "at_once"
    partial_fill: bool = False  # a growth that fits only partly is taken and filled up later, not refused
    rescale_conflict: bool = False  # a second resize while one is under way is refused
    taints_null_wipes: bool = True  # read by the HTTP face: `taints: null` clears the pool's taints
    scaling_status: bool = False  # the cluster shows SCALING while a pool changes
    victims_by_age: Literal["oldest", "newest"] = "oldest"
    rounding: Literal["ceil", "floor_min_one"] = "ceil"
    granularity: timedelta = timedelta(hours=1)
    billed_until: Literal["gone", "delete"] = "gone"  # the later one is the careful assumption


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldConfig:
    """A world at its beginning.

    *stock* is the GPU units per size that can be bought beyond the initial nodes (None or absent: endless).
    *quota* are account limits by bare name (``instance_count``, ``cpu_core``, ``ram_mb``, ``disk_gb``; absent:
    endless), *quota_used_elsewhere* what other things of the account hold. *price* is USD per node-hour by
    size. *backoff_limit* is how often a job may lose pods before it fails (those lost at one moment count once), as
    a Kubernetes Job's `backoffLimit` (6 there); None: it comes back for ever. *journal_limit* bounds the changes kept
    for watches.
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
class Pdb:
    """A PodDisruptionBudget: at least *min_available* running pods of *namespace* matching *selector* stay."""

    namespace: str
    selector: Mapping[str, str]
    min_available: int
    name: str = "pdb"

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """True for a pod with these *labels* in *namespace*."""
        return self.namespace == namespace and all(labels.get(k) == v for k, v in self.selector.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """A pod as somebody creates it. *requests* are GPU resources (empty for a CPU pod), *compute* its other requests in
    millicores and bytes (`receiver.core.model.resources`), *duration* the run time
    (None: it runs until it is deleted), *gpu_util* the activity ratio 0-1 of each of its GPUs once it is loaded,
    *gpu_memory* the ratio of their memory that it holds then (None: what such an activity usually takes).

    A pod with a controller (*owner_kind* other than empty) that is lost or deleted comes back under a new name,
    except a DaemonSet's. *node* binds it directly, as a DaemonSet's pod is. *gang_size* is how many pods of the
    gang must be placed together (0: all that wait); further ones are placed one by one.
    """

    namespace: str
    name: str
    requests: Mapping[str, int] = field(default_factory=dict)
    duration: timedelta | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    preferred: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    priority_class: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    gated: bool = False
    gang_size: int = 0
    gpu_util: float = 0.9
    gpu_memory: float | None = None
    node: str | None = None
    compute: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A Kubernetes Job that asks for GPUs: *pods* pods of *gpus_per_pod* units of *resource* and of *compute*
    (millicores, bytes), each running for *duration*. *gang* declares them to belong together: at least *gang_min* of
    them (None: all) are placed at once, or none. *gpu_util* and *gpu_memory* as in PodSpec. With another *owner_kind*
    it stands for what that controller runs, which is over all the same when its pods are done."""

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
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    preferred: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    priority_class: str = ""
    gpu_util: float = 0.9
    gpu_memory: float | None = None
    compute: Mapping[str, int] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """GPU units that the whole job asks for."""
        return self.pods * self.gpus_per_pod


class Ward(Protocol):
    """Where faults of nodes and of telemetry take effect. Raises Denied (404) for an unknown node."""

    def lose_gpu(self, name: str) -> None:
        """The driver of a node crashes."""

    def not_ready(self, name: str) -> None:
        """The kubelet of a node stops answering."""

    def recover(self, name: str) -> None:
        """Driver and kubelet of a node are well again."""

    def recover_all(self) -> None:
        """Those of every node are."""

    def telemetry_gone(self, gone: bool) -> None:
        """Nobody sees what GPUs do, or everybody again."""


@dataclass(slots=True, kw_only=True)
class Faults:
    """What goes wrong from now on. Counters are per pool id and used up one by one.

    *stock* overrides how many GPU units of a size can still be bought; *rules_dead* is read by whoever shows
    alerts. What happens to nodes and telemetry reaches the world through *ward*, which the world sets.
    """

    stock: dict[str, int | None] = field(default_factory=dict)
    rules_dead: bool = False
    ward: Ward | None = None
    _telemetry_gone: bool = False
    _refusals: list[tuple[Denied, int | None]] = field(default_factory=list)
    _stuck: dict[str, int] = field(default_factory=dict)
    _gpu_never: dict[str, int] = field(default_factory=dict)
    _bare: dict[str, int] = field(default_factory=dict)
    _odd: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def telemetry_gone(self) -> bool:
        """True while nobody sees what GPUs do; settable."""
        return self._telemetry_gone

    @telemetry_gone.setter
    def telemetry_gone(self, gone: bool) -> None:
        self._telemetry_gone = gone
        if self.ward is not None:
            self.ward.telemetry_gone(gone)

    def lose_gpu(self, node: str) -> None:
        """The driver of a usable *node* crashes: it offers no GPU and reports none until `recover`. Pods stay."""
        self._the_ward.lose_gpu(node)

    def not_ready(self, node: str) -> None:
        """A Ready *node* becomes NotReady until `recover`; what runs there goes on."""
        self._the_ward.not_ready(node)

    def recover(self, node: str) -> None:
        """Undo `lose_gpu` and `not_ready`."""
        self._the_ward.recover(node)

    @property
    def _the_ward(self) -> Ward:
        if self.ward is None:
            raise RuntimeError("these faults belong to no world")
        return self.ward

    def refuse_rescale(
        self,
        code: str = "cannot_scale_already_rescaling_cluster",
        *,
        status: int = 409,
        reason: str = "The cluster is already being rescaled",
        times: int | None = 1,
    ) -> None:
        """Refuse the next *times* resizes with *code* (None: until `clear`)."""
        self._refusals.append((Denied(code, status, reason), times))

    def stuck_building(self, pool: str, count: int = 1) -> None:
        """The next *count* instances of *pool* never leave BUILDING."""
        self._stuck[pool] = count

    def gpu_never(self, pool: str, count: int = 1) -> None:
        """The next *count* nodes of *pool* become Ready and never offer a GPU."""
        self._gpu_never[pool] = count

    def bare_labels(self, pool: str, count: int = 1) -> None:
        """The next *count* nodes of *pool* come without the labels and taints that the pool is configured with."""
        self._bare[pool] = count

    def odd_status(self, pool: str, count: int = 1, status: str = "ERROR") -> None:
        """The next *count* instances of *pool* go to *status* instead of ACTIVE and stay there."""
        self._odd[pool] = (count, status)

    def clear(self) -> None:
        """Make the world behave again; what is stuck stays stuck, and bare nodes stay bare."""
        self.stock.clear()
        self.telemetry_gone = self.rules_dead = False
        self._refusals.clear()
        self._stuck.clear()
        self._gpu_never.clear()
        self._bare.clear()
        self._odd.clear()
        if self.ward is not None:
            self.ward.recover_all()

    def next_refusal(self) -> Denied | None:
        """Use up and return the refusal that the next resize meets, or None."""
        if not self._refusals:
            return None
        refusal, times = self._refusals.pop(0)
        if times is None or times > 1:
            self._refusals.insert(0, (refusal, None if times is None else times - 1))
        return refusal

    def takes_stuck(self, pool: str) -> bool:
        """Use up one stuck build of *pool*."""
        return _use_up(self._stuck, pool)

    def takes_gpu_never(self, pool: str) -> bool:
        """Use up one node of *pool* whose GPU never shows."""
        return _use_up(self._gpu_never, pool)

    def takes_bare_labels(self, pool: str) -> bool:
        """Use up one node of *pool* without labels and taints."""
        return _use_up(self._bare, pool)

    def takes_odd_status(self, pool: str) -> str | None:
        """Use up one odd status of *pool* and return it, or None."""
        left, status = self._odd.get(pool, (0, ""))
        if left <= 0:
            return None
        self._odd[pool] = (left - 1, status)
        return status


def _use_up(counters: dict[str, int], pool: str) -> bool:
    left = counters.get(pool, 0)
    if left <= 0:
        return False
    counters[pool] = left - 1
    return True
