"""The world as a whole: one clockwork behind which Civo's side and the cluster's side meet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.policy import Taint
from receiver.replay.world.config import Behaviour, Job, Pdb, PodSpec, WorldConfig, WorldPool
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
from receiver.replay.world.parts import Parts


class World:
    """A GPU cloud and its cluster. Time moves by `advance` alone; everything else happens at `now`.

    Writes that Civo or Kubernetes would refuse raise Refused with the code and status of the HTTP answer.
    """

    def __init__(self, config: WorldConfig, start: datetime) -> None:
        self.config = config
        self.faults = Faults()
        parts = Parts(config, start, self.faults)
        self._agenda, self._journal, self._cluster = parts.agenda, parts.journal, parts.cluster
        self._activity, self._jobs, self._books, self._dice = parts.activity, parts.jobs, parts.books, parts.dice
        self._pods, self._nodes, self._cloud = parts.pods, parts.nodes, parts.cloud

    @property
    def pdbs(self) -> list[Pdb]:
        """PodDisruptionBudgets; append to it."""
        return self._pods.pdbs

    def behave(self, behaviour: Behaviour) -> None:
        """Change the switches from now on."""
        self.config = replace(self.config, behaviour=behaviour)
        self._cloud.behaviour = self._books.behaviour = behaviour

    def limit(self, quota: Mapping[str, int]) -> None:
        """Change the account's quota from now on (bare names, absent: endless)."""
        self.config = replace(self.config, quota=quota)
        self._cloud.accounts.limits = quota

    # --- the clock ---

    @property
    def now(self) -> datetime:
        """The world's time, UTC."""
        return self._agenda.now

    def advance(self, to: datetime) -> None:
        """Let everything happen up to and including *to*. Raises ValueError when *to* lies in the past."""
        self._agenda.advance(to)

    def next_event_at(self) -> datetime | None:
        """When something changes unaided, or None."""
        return self._agenda.next_at()

    # --- Civo ---

    @property
    def pools(self) -> Mapping[str, PoolAtCivo]:
        """Every pool that Civo keeps a required count for, by id; those at zero too."""
        return self._cloud.pools

    @property
    def lives(self) -> Sequence[VM]:
        """Every instance that ever was, oldest first."""
        return self._cloud.lives

    @property
    def cluster_status(self) -> str:
        """ACTIVE, or SCALING while a pool changes and Behaviour.scaling_status says so."""
        return "SCALING" if self.config.behaviour.scaling_status and self._cloud.changing else "ACTIVE"

    def listed_count(self, pool: str) -> int:
        """The ``count`` that a pool list shows (Behaviour.list_count)."""
        found = self._cloud.pool(pool)
        return found.required if self.config.behaviour.list_count == "desired" else len(found.instances)

    def resize(self, pool: str, count: int) -> None:
        """PUT a pool's count (absolute)."""
        self._cloud.resize(pool, count)

    def relabel(
        self, pool: str, *, labels: Mapping[str, str] | None = None, taints: tuple[Taint, ...] | None = None
    ) -> None:
        """PUT a pool's labels or taints; living nodes take them over too. None leaves them."""
        self._cloud.relabel(pool, labels, taints)

    def delete_instance(self, pool: str, instance: str) -> None:
        """DELETE one instance by id. Unknown: 404 ``database_cluster_pool_instance_not_found``."""
        self._cloud.delete_instance(pool, instance)

    def recycle(self, hostname: str) -> None:
        """Replace one node: same count, new instance, new name, no drain."""
        self._cloud.recycle(hostname)

    def create_pool(self, pool: WorldPool) -> None:
        """POST a new pool; its *count* is ordered, not there at once."""
        self._cloud.create_pool(pool)

    def delete_pool(self, pool: str) -> None:
        """DELETE a pool with all its instances."""
        self._cloud.delete_pool(pool)

    def replace_pools(self, counts: Mapping[str, int]) -> None:
        """PUT the cluster with a full list of pools: those not listed are deleted."""
        for pool in counts:
            self._cloud.pool(pool)  # an unknown one refuses the whole list
        for pool in [p for p in self._cloud.pools if p not in counts]:
            self._cloud.delete_pool(pool)
        for pool, count in counts.items():
            self._cloud.resize(pool, count)

    def quota_usage(self) -> Mapping[str, int]:
        """Account usage by bare name: instance_count, cpu_core, ram_mb, disk_gb."""
        return dict(self._cloud.accounts.usage)

    def charges(self, frm: datetime, to: datetime) -> list[Charge]:
        """Records that overlap the window, unclipped. Over 31 days: 400 ``parameter_date_range_too_long``."""
        return self._books.charges(self._cloud.lives, frm, to, self.now)

    def paid(self, at: datetime | None = None) -> Decimal:
        """USD for every started unit of every instance, up to now or, if nothing changes until then, up to a later
        *at*; sizes without a price count nothing."""
        return self._books.paid(at or self.now)

    def paid_gpu_seconds(self) -> float:
        """GPU-seconds that are paid for so far, rounded as billed."""
        return self._books.paid_gpu_seconds(self.now)

    # --- Kubernetes ---

    @property
    def version(self) -> int:
        """Grows with every visible change of the cluster (resourceVersion)."""
        return self._journal.version

    @property
    def nodes(self) -> Mapping[str, WorldNode]:
        """Node objects by name."""
        return self._cluster.nodes

    @property
    def pods(self) -> Mapping[tuple[str, str], WorldPod]:
        """Pod objects by (namespace, name), finished ones included."""
        return self._cluster.pods

    @property
    def active_pods(self) -> Mapping[tuple[str, str], WorldPod]:
        """The pods that have not terminated."""
        return self._cluster.active

    def pods_on(self, node: str) -> list[WorldPod]:
        """The pods bound to *node* that have not terminated."""
        return [self._cluster.pods[key] for key in self._cluster.pods_on.get(node, ())]

    @property
    def journal(self) -> Sequence[Change]:
        """The changes still kept, oldest first."""
        return self._journal

    @property
    def oldest_version(self) -> int:
        """Changes up to this version were compacted away."""
        return self._journal.oldest_version

    def changes_since(self, version: int, kind: str | None = None) -> list[Change]:
        """Changes after *version*. Raises Refused(status=410) when some of them were compacted away."""
        return self._journal.since(version, kind)

    def compact(self, before_version: int) -> None:
        """Forget changes older than *before_version*."""
        self._journal.compact(before_version)

    @property
    def events(self) -> Sequence[WorldEvent]:
        """Kubernetes Events, oldest first."""
        return self._cluster.events

    def submit(self, job: Job) -> list[WorldPod]:
        """Create a job's pods now, whatever its *submit_at*."""
        return [self._pods.add(spec) for spec in self._jobs.pods_of(job, self.now)]

    def submit_later(self, jobs: Iterable[Job]) -> None:
        """Submit each job at its *submit_at* (now, when that has passed)."""
        for job in jobs:
            self._agenda.at(job.submit_at, self.submit, job)

    def cancel_job(self, job_id: str) -> None:
        """Delete a job's pods for good."""
        self._jobs.cancel(job_id)
        mine = [k for k, p in self._cluster.active.items() if p.owner_kind == "Job" and p.owner_name == job_id]
        for key in mine:
            self._pods.delete(key, for_good=True)

    def add_pod(self, spec: PodSpec) -> WorldPod:
        """Create one pod. An existing name: 409 ``AlreadyExists``."""
        return self._pods.add(spec)

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Put a waiting pod on *node* past the scheduler, whatever its cordon or taints. Unknown: 404, bound: 409."""
        self._pods.bind((namespace, name), node)

    def scale_to_zero(self, kind: str, namespace: str, name: str) -> None:
        """Scale a controller to zero replicas, or suspend a Job: its pods go and do not come back."""
        self._pods.scale_to_zero((kind, namespace, name))

    def at_zero(self, kind: str, namespace: str, name: str) -> bool:
        """True once a controller was scaled to zero, until a pod of it is created again."""
        return self._pods.at_zero((kind, namespace, name))

    def ungate(self, namespace: str, name: str) -> None:
        """Remove a pod's scheduling gate."""
        self._pods.ungate((namespace, name))

    def patch_pod(
        self,
        namespace: str,
        name: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
    ) -> WorldPod:
        """Change a pod's labels or annotations; a value of None removes the key. Unknown: 404."""
        return self._pods.patch((namespace, name), labels, annotations)

    def delete_pod(self, namespace: str, name: str) -> None:
        """Ask a pod to go (graceful); a controller's pod comes back. Unknown: 404."""
        self._pods.delete((namespace, name))

    def evict(self, namespace: str, name: str) -> None:
        """As delete_pod, but 429 when a PodDisruptionBudget forbids it."""
        self._pods.evict((namespace, name))

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
        return self._nodes.patch(name, unschedulable, labels, annotations, taints)

    def delete_node(self, name: str) -> None:
        """Delete the node object: its VM stays, billed, and the pool's count with it."""
        instance = self._cluster.node(name).instance
        vm = next((v for v in self._cloud.lives if v.id == instance), None)
        self._nodes.delete_object(vm, name)

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
        return self._cluster.record(
            WorldEvent(
                kind=kind,
                namespace=namespace,
                name=name,
                uid=uid,
                reason=reason,
                message=message,
                type=type_,
                component=component,
                at=self.now,
                id=f"{name}.{self._dice.word(16)}",
            )
        )

    # --- GPU activity and facts for assertions ---

    def gpu_samples(self) -> list[GpuSample]:
        """What every GPU reports now (GPUs of nodes whose driver runs)."""
        return list(self._activity.samples())

    def utilization(self, pool: str, window: timedelta = timedelta(minutes=5)) -> float | None:
        """A pool's GPU activity (ratio), averaged over GPUs and *window*; None without GPUs in it."""
        return self._activity.average(pool, window)

    def gpus(self, pool: str) -> int:
        """GPUs of a pool that report now: those of nodes whose driver runs."""
        return self._activity.gpus(pool)

    @property
    def gpu_seconds(self) -> float:
        """GPU-seconds that running pods have held so far."""
        return self._activity.gpu_seconds()

    @property
    def kills(self) -> Sequence[Kill]:
        """GPU pods that lost their node to a deletion."""
        return self._pods.kills

    @property
    def finished(self) -> Sequence[FinishedJob]:
        """Jobs whose pods have all succeeded."""
        return self._jobs.finished
