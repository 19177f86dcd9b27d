"""The world as a whole: one clockwork behind which Civo's side and the cluster's side meet."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.policy import Taint
from receiver.replay.world.config import Job, Pdb, PodSpec, WorldConfig, WorldPool
from receiver.replay.world.faults import Faults
from receiver.replay.world.objects import (
    VM,
    Change,
    Charge,
    FinishedJob,
    GpuSample,
    Kill,
    PoolAtCivo,
    WorldEvent,
    WorldNode,
    WorldPod,
)


class World:
    """A GPU cloud and its cluster. Time moves by `advance` alone; everything else happens at `now`.

    Writes that Civo or Kubernetes would refuse raise Refused with the code and status of the HTTP answer.
    """

    def __init__(self, config: WorldConfig, start: datetime) -> None:
        self.config = config
        self.faults = Faults()
        self.pdbs: list[Pdb] = []
        raise NotImplementedError

    # --- the clock ---

    @property
    def now(self) -> datetime:
        """The world's time, UTC."""
        raise NotImplementedError

    def advance(self, to: datetime) -> None:
        """Let everything happen up to and including *to*. Raises ValueError when *to* lies in the past."""
        raise NotImplementedError

    def next_event_at(self) -> datetime | None:
        """When something changes unaided, or None."""
        raise NotImplementedError

    # --- Civo ---

    @property
    def pools(self) -> Mapping[str, PoolAtCivo]:
        """Every pool that Civo keeps a required count for, by id; those at zero too."""
        raise NotImplementedError

    @property
    def lives(self) -> Sequence[VM]:
        """Every instance that ever was, oldest first."""
        raise NotImplementedError

    @property
    def cluster_status(self) -> str:
        """ACTIVE, or SCALING while a pool changes and Behaviour.scaling_status says so."""
        raise NotImplementedError

    def listed_count(self, pool: str) -> int:
        """The ``count`` that a pool list shows (Behaviour.list_count)."""
        raise NotImplementedError

    def resize(self, pool: str, count: int) -> None:
        """PUT a pool's count (absolute)."""
        raise NotImplementedError

    def relabel(
        self, pool: str, *, labels: Mapping[str, str] | None = None, taints: tuple[Taint, ...] | None = None
    ) -> None:
        """PUT a pool's labels or taints; living nodes take them over too. None leaves them."""
        raise NotImplementedError

    def delete_instance(self, pool: str, instance: str) -> None:
        """DELETE one instance by id. Unknown: 404 ``database_cluster_pool_instance_not_found``."""
        raise NotImplementedError

    def recycle(self, hostname: str) -> None:
        """Replace one node: same count, new instance, new name, no drain."""
        raise NotImplementedError

    def create_pool(self, pool: WorldPool) -> None:
        """POST a new pool; its *count* is ordered, not there at once."""
        raise NotImplementedError

    def delete_pool(self, pool: str) -> None:
        """DELETE a pool with all its instances."""
        raise NotImplementedError

    def replace_pools(self, counts: Mapping[str, int]) -> None:
        """PUT the cluster with a full list of pools: those not listed are deleted."""
        raise NotImplementedError

    def quota_usage(self) -> Mapping[str, int]:
        """Account usage by bare name: instance_count, cpu_core, ram_mb, disk_gb."""
        raise NotImplementedError

    def charges(self, frm: datetime, to: datetime) -> list[Charge]:
        """Records that overlap the window, unclipped. Over 31 days: 400 ``parameter_date_range_too_long``."""
        raise NotImplementedError

    def paid(self, now: datetime | None = None) -> Decimal:
        """USD for every started unit of every instance so far; sizes without a price count nothing."""
        raise NotImplementedError

    def paid_gpu_seconds(self) -> float:
        """GPU-seconds that are paid for so far, rounded as billed."""
        raise NotImplementedError

    # --- Kubernetes ---

    @property
    def version(self) -> int:
        """Grows with every visible change of the cluster (resourceVersion)."""
        raise NotImplementedError

    @property
    def nodes(self) -> Mapping[str, WorldNode]:
        """Node objects by name."""
        raise NotImplementedError

    @property
    def pods(self) -> Mapping[tuple[str, str], WorldPod]:
        """Pod objects by (namespace, name), finished ones included."""
        raise NotImplementedError

    @property
    def active_pods(self) -> Mapping[tuple[str, str], WorldPod]:
        """The pods that have not terminated."""
        raise NotImplementedError

    @property
    def journal(self) -> Sequence[Change]:
        """The changes still kept, oldest first."""
        raise NotImplementedError

    @property
    def oldest_version(self) -> int:
        """Changes up to this version were compacted away."""
        raise NotImplementedError

    def changes_since(self, version: int, kind: str | None = None) -> list[Change]:
        """Changes after *version*. Raises Refused(status=410) when some of them were compacted away."""
        raise NotImplementedError

    def compact(self, before_version: int) -> None:
        """Forget changes older than *before_version*."""
        raise NotImplementedError

    @property
    def events(self) -> Sequence[WorldEvent]:
        """Kubernetes Events, oldest first."""
        raise NotImplementedError

    def submit(self, job: Job) -> list[WorldPod]:
        """Create a job's pods now, whatever its *submit_at*."""
        raise NotImplementedError

    def submit_later(self, jobs: Iterable[Job]) -> None:
        """Submit each job at its *submit_at* (now, when that has passed)."""
        raise NotImplementedError

    def cancel_job(self, job_id: str) -> None:
        """Delete a job's pods for good."""
        raise NotImplementedError

    def add_pod(self, spec: PodSpec) -> WorldPod:
        """Create one pod. An existing name: 409 ``AlreadyExists``."""
        raise NotImplementedError

    def ungate(self, namespace: str, name: str) -> None:
        """Remove a pod's scheduling gate."""
        raise NotImplementedError

    def delete_pod(self, namespace: str, name: str) -> None:
        """Ask a pod to go (graceful); a controller's pod comes back. Unknown: 404."""
        raise NotImplementedError

    def evict(self, namespace: str, name: str) -> None:
        """As delete_pod, but 429 when a PodDisruptionBudget forbids it."""
        raise NotImplementedError

    def patch_node(
        self,
        name: str,
        *,
        unschedulable: bool | None = None,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
        taints: Sequence[Taint] | None = None,
    ) -> WorldNode:
        """Change a node; a value of None removes the key. Unknown: 404."""
        raise NotImplementedError

    def delete_node(self, name: str) -> None:
        """Delete the node object: its VM stays, billed, and the pool's count with it."""
        raise NotImplementedError

    def record_event(
        self,
        *,
        kind: str,
        namespace: str,
        name: str,
        reason: str,
        message: str,
        type_: str = "Normal",
        uid: str = "",
        component: str = "",
    ) -> WorldEvent:
        """Keep a Kubernetes Event."""
        raise NotImplementedError

    # --- GPU activity and facts for assertions ---

    def gpu_samples(self) -> list[GpuSample]:
        """What every GPU reports now (GPUs of nodes whose driver runs)."""
        raise NotImplementedError

    def utilization(self, pool: str, window: timedelta = timedelta(minutes=5)) -> float | None:
        """A pool's GPU activity (ratio), averaged over GPUs and *window*; None without GPUs in it."""
        raise NotImplementedError

    @property
    def gpu_seconds(self) -> float:
        """GPU-seconds that running pods have held so far."""
        raise NotImplementedError

    @property
    def kills(self) -> Sequence[Kill]:
        """GPU pods that lost their node to a deletion."""
        raise NotImplementedError

    @property
    def finished(self) -> Sequence[FinishedJob]:
        """Jobs whose pods have all succeeded."""
        raise NotImplementedError
