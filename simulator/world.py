"""The world of the simulator and of tests: a replay's, with faults, GPU metrics, and what people do to a cluster."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.core.model.signals import Alert, Silence
from receiver.core.model.usage import Course, Sample
from receiver.ports import AlarmFacts, TelemetryFacts
from receiver.replay.ports import WorldAlarms, WorldTelemetry
from receiver.replay.world.cluster import merged
from receiver.replay.world.nodes import pool_labels, with_automatic
from receiver.replay.world.objects import (
    Behaviour,
    CivoPool,
    Denied,
    Fault,
    Faults,
    Job,
    PodSpec,
    WorldConfig,
    WorldPod,
)
from receiver.replay.world.world import World as ReplayWorld
from simulator.civo_calls import CivoCloud
from simulator.cluster_holding import ClusterQueue, HoldQuota
from simulator.dra.devices import device_sets
from simulator.dra.nodes import ServedNodes
from simulator.gpu_metrics import ObservedGpus
from simulator.slow_pods import Reservation, SlowPods

Owner = tuple[str, str, str]  # kind, namespace, name
SAMPLED = timedelta(minutes=2)
XID_TAINT = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}


def _owner(pod: WorldPod) -> Owner:
    return (pod.owner_kind, pod.namespace, pod.owner_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pdb:
    """A PodDisruptionBudget: *min_available* running pods of *namespace* that match *selector* must stay."""

    namespace: str
    selector: Mapping[str, str]
    min_available: int
    name: str = "pdb"

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self.namespace == namespace and all(labels.get(k) == v for k, v in self.selector.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """What a contract with Civo commits to: so many *nodes* of a *pool*, paid for in every hour."""

    pool: str
    nodes: int
    usd_per_hour: Decimal
    since: datetime
    until: datetime


class WorldFaults(Faults):
    """The faults of a world. Counters are by pool id; each fault uses up one. Faults of nodes are those of
    `FaultyNodes`, which the world sets."""

    lose_gpu: Callable[[str], None]
    not_ready: Callable[[str], None]
    condition: Callable[[str, str, str], None]
    unhealthy: Callable[[str, int], None]
    recover: Callable[[str], None]
    recover_all: Callable[[], None]
    set_telemetry_gone: Callable[[bool], None] | None = None

    def __init__(self) -> None:
        super().__init__()
        self._refusals: list[tuple[Denied, int | None]] = []
        self._coming: dict[tuple[str, str], tuple[int, str]] = {}  # by fault and pool: how many, value
        self.failed: dict[str, str] = {}  # nodes with a fatal XID: what Prometheus says of it
        self.recovering: dict[str, str] = {}  # nodes that Civo's node agent restarts: its phase

    @property
    def telemetry_gone(self) -> bool:
        """True while no GPU metrics arrive."""
        return self._telemetry_gone

    @telemetry_gone.setter
    def telemetry_gone(self, gone: bool) -> None:
        self._telemetry_gone = gone
        if self.set_telemetry_gone is not None:
            self.set_telemetry_gone(gone)

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
        self._coming["stuck", pool] = (count, "")

    def gpu_never(self, pool: str, count: int = 1) -> None:
        """The next *count* nodes of *pool* become Ready without ever offering a GPU."""
        self._coming["gpu_never", pool] = (count, "")

    def slices_incomplete(self, pool: str, count: int = 1) -> None:
        """The next *count* nodes of *pool* publish every ResourceSlice but the last, until their driver restarts."""
        self._coming["slices", pool] = (count, "")

    def bare_labels(self, pool: str, count: int = 1) -> None:
        """The next *count* nodes of *pool* register without the pool's labels and taints."""
        self._coming["bare", pool] = (count, "")

    def odd_status(self, pool: str, count: int = 1, status: str = "ERROR") -> None:
        """The next *count* instances of *pool* go to *status* instead of ACTIVE and stay there."""
        self._coming["odd", pool] = (count, status)

    def clear(self) -> None:
        """End all faults. Instances that are stuck stay stuck, and nodes without labels stay so."""
        self.stock.clear()
        self.telemetry_gone = self.rules_dead = False
        self._refusals.clear()
        self._coming.clear()
        self.failed.clear()
        self.recovering.clear()
        self.recover_all()

    def next_refusal(self) -> Denied | None:
        """Use up and return the refusal of the next resize, or None."""
        if not self._refusals:
            return None
        refusal, times = self._refusals.pop(0)
        if times is None or times > 1:
            self._refusals.insert(0, (refusal, None if times is None else times - 1))
        return refusal

    def takes(self, fault: Fault, pool: str) -> str | None:
        """Use up one *fault* of *pool* and return its value (the odd status), or None when none is left."""
        left, value = self._coming.get((fault, pool), (0, ""))
        if left <= 0:
            return None
        self._coming[fault, pool] = (left - 1, value)
        return value


class FaultyNodes(ServedNodes):
    """Nodes whose driver may crash and whose kubelet may fall silent."""

    _activity: ObservedGpus
    _pods: SlowPods

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.crashed: set[str] = set()  # nodes whose driver crashed
        self.silent: set[str] = set()  # nodes whose kubelet does not answer
        self.ailing: set[str] = set()  # nodes with a condition or an unhealthy GPU
        self._tainted: dict[str, list[str]] = {}  # devices by node

    def condition(self, name: str, kind: str, status: str) -> None:
        """Set the condition *kind* of a node until `recover`. Unknown: 404."""
        node = self._cluster.node(name)
        self.ailing.add(name)
        self._change(node, conditions={**node.conditions, kind: status})

    def unhealthy(self, name: str, count: int) -> None:
        """Take *count* of a node's GPUs out of what it offers, until `recover`; pods stay. Unknown: 404."""
        node = self._cluster.node(name)
        if node.dra:
            self.ailing.add(name)
            self._tainted[name] = [f"gpu-{n}" for n in range(count)]
            for gpu in self._tainted[name]:
                self.drivers.taint(name, gpu, XID_TAINT)
            return
        resource = next((r for r, n in node.gpus.items() if n >= count), None)
        if resource is not None and not node.unhealthy:
            self.ailing.add(name)
            left = {**node.allocatable, resource: node.allocatable[resource] - count}
            self._change(node, unhealthy=count, allocatable=left)

    def lose_gpu(self, name: str) -> None:
        """Crash the driver of a node: no GPU is allocatable or reported until `recover`. Pods stay. Unknown: 404."""
        node = self._cluster.node(name)
        if any(node.gpus.values()):
            self.crashed.add(name)
            self._activity.node_down(name)
            self.drivers.stop(name)
            self._change(node, allocatable={**node.allocatable, **dict.fromkeys(node.gpus, 0)})

    def not_ready(self, name: str) -> None:
        """Make a Ready node NotReady until `recover`. Its pods keep running. Unknown: 404."""
        node = self._cluster.node(name)
        if node.ready:
            self.silent.add(name)
            self._set_ready(node, ready=False)

    def kubelet_dies(self, name: str) -> None:
        """Silence the kubelet of a node for good: no pod there starts or ends any more. Unknown: 404."""
        node = self._cluster.node(name)
        self._pods.kubelet_died(name)
        self._set_ready(node, ready=False)

    def recover(self, name: str) -> None:
        """Undo what happened to a node, unless the machine is gone. Unknown: 404."""
        self._cluster.node(name)
        vm = self._machines[name]
        if name in self.silent and vm.living:
            self._set_ready(self._cluster.node(name), ready=True)
        if name in self.crashed and vm.living:
            node = self._cluster.node(name)
            node = self._change(node, allocatable={**node.allocatable, **vm.spec.resources})
            self._gpus_up(name, vm)
            self.drivers.start(node, device_sets(vm.spec), partial(self._shown, vm))
        if name in self.ailing and vm.living:
            node = self._cluster.node(name)
            whole = vm.spec.resources if any(node.gpus.values()) or node.unhealthy else {}
            self._change(node, conditions={}, unhealthy=0, allocatable={**node.allocatable, **whole})
            for gpu in self._tainted.pop(name, ()):
                self.drivers.taint(name, gpu, None)
        for names in (self.silent, self.crashed, self.ailing):
            names.discard(name)

    def recover_all(self) -> None:
        for name in sorted(self.silent | self.crashed | self.ailing):
            self.recover(name)

    def pool_relabelled(self, pool: CivoPool) -> None:
        for vm in pool.living:
            node = self._node_of(vm)
            if node is not None:
                taints = with_automatic(pool.taints, ready=node.ready, unschedulable=node.unschedulable)
                self._change(node, labels={**node.labels, **pool_labels(pool)}, taints=taints)

    def delete(self, name: str) -> None:
        """Delete the node object alone: its VM stays and is billed, and the pool's count stays. Unknown: 404."""
        self._cluster.node(name)
        vm = self._machines[name]
        self._activity.node_down(name)
        self._pods.node_died(name, vm, "delete_node")
        self._by_instance.pop(vm.id, None)
        self._drop_object(name)

    def _drop_object(self, name: str) -> None:
        self.crashed.discard(name)
        self.silent.discard(name)
        self.ailing.discard(name)
        self._activity.stop_using(name)
        super()._drop_object(name)


class ChangingPods(SlowPods):
    """Pods that people and other programs change."""

    _activity: ObservedGpus

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_zero: set[Owner] = set()  # controllers that replace nothing
        self.pdbs: list[Pdb] = []

    def add(self, spec: PodSpec, origin: tuple[str, int] | None = None) -> WorldPod:
        pod = super().add(spec, origin)
        self._at_zero.discard((spec.owner_kind, spec.namespace, spec.owner_name))
        return pod

    def _replace(self, pod: WorldPod, spec: PodSpec | None, origin: tuple[str, int]) -> None:
        if _owner(pod) not in self._at_zero:
            super()._replace(pod, spec, origin)

    def evict(self, namespace: str, name: str, *, dry_run: bool = False) -> None:
        """As `delete`, or nothing in a *dry_run*. Raises Denied (429) when a PodDisruptionBudget forbids it."""
        pod = self._cluster.pod((namespace, name))
        if pod.phase == "Running" and pod.deletion_at is None:
            for pdb in self.pdbs:
                if pdb.covers(pod.namespace, pod.labels) and self._healthy(pdb) - 1 < pdb.min_available:
                    raise Denied(
                        "TooManyRequests",
                        429,
                        "Cannot evict pod as it would violate the pod's disruption budget.",
                        f"The disruption budget {pdb.name} needs {pdb.min_available} healthy pods",
                    )
        if not dry_run:
            self.delete(namespace, name)

    def _healthy(self, pdb: Pdb) -> int:
        return sum(
            p.phase == "Running"
            and p.deletion_at is None
            and p.uid not in self._lost
            and pdb.covers(p.namespace, p.labels)
            for p in self._cluster.active.values()
        )

    def scale_to_zero(self, kind: str, namespace: str, name: str) -> None:
        """Scale a controller to zero replicas, or suspend a Job: its pods are deleted and not replaced."""
        owner = (kind, namespace, name)
        self._at_zero.add(owner)
        for key in [p.key for p in self._cluster.active.values() if _owner(p) == owner]:
            self.delete(*key)

    def at_zero(self, kind: str, namespace: str, name: str) -> bool:
        """True once a controller was scaled to zero, until a pod of it is created again."""
        return (kind, namespace, name) in self._at_zero

    def submit_later(self, jobs: Iterable[Job]) -> None:
        """Submit each job at its *submit_at*, or now when that has passed."""
        for job in jobs:
            self._agenda.at(job.submit_at, self.submit, job)

    def patch(
        self,
        namespace: str,
        name: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
    ) -> WorldPod:
        """Change a pod's labels or annotations; a value of None removes the key."""
        pod = self._cluster.pod((namespace, name))
        wanted = {"labels": merged(pod.labels, labels), "annotations": merged(pod.annotations, annotations)}
        changes = {k: v for k, v in wanted.items() if v != getattr(pod, k)}
        return self._cluster.change_pod(pod, **changes) if changes else pod

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Bind a waiting pod to *node* past the scheduler, whatever its taints. Raises Denied (409) when bound."""
        pod = self._cluster.pod((namespace, name))
        self._cluster.node(node)
        if pod.node is not None:
            raise Denied("Conflict", 409, f"pod {pod.name} is already assigned to node {pod.node!r}")
        self.scheduler.forget(pod)
        self._bind(pod, node)

    def work(self, namespace: str, name: str, *, engine: float, memory: float | None = None) -> None:
        """Change what each GPU of a pod does (ratios), now or at the end of its warm-up; *memory* None leaves it."""
        pod = self._cluster.pod((namespace, name))
        held = pod.gpu_memory if memory is None else memory
        self._activity.change(self._cluster.change_pod(pod, gpu_util=engine, gpu_memory=held))

    def cancel_job(self, job_id: str) -> None:
        self._delete_owned(self._jobs.cancel(job_id), job_id)


class World(ReplayWorld):
    """A GPU cloud and its cluster, to which everything can happen."""

    faults: WorldFaults
    _activity: ObservedGpus
    _nodes: FaultyNodes
    _cloud: CivoCloud
    _pods: ChangingPods
    parts = (WorldFaults, ObservedGpus, ChangingPods, FaultyNodes, CivoCloud)

    def __init__(self, config: WorldConfig, start: datetime) -> None:
        super().__init__(config, start)
        faults, nodes, cloud = self.faults, self._nodes, self._cloud
        pods, activity = self._pods, self._activity
        faults.lose_gpu, faults.not_ready = nodes.lose_gpu, nodes.not_ready
        faults.condition, faults.unhealthy = nodes.condition, nodes.unhealthy
        faults.recover, faults.recover_all = nodes.recover, nodes.recover_all
        faults.set_telemetry_gone = activity.telemetry_gone
        self.quotas: dict[str, HoldQuota] = {}  # by namespace
        self.cluster_queues: dict[str, ClusterQueue] = {}  # by name
        self.requests: tuple[RoomRequest, ...] = ()
        self.answers: dict[tuple[str, str], RoomAnswer] = {}  # in the status of requests, by kind and key
        self.group_objects: dict[str, list[dict[str, Any]]] = {}  # behind gangs, by the name of their kind
        self.crashed_nodes: Collection[str] = nodes.crashed  # by `WorldFaults.lose_gpu`
        self.silent_nodes: Collection[str] = nodes.silent  # by `WorldFaults.not_ready`
        self.dead_nodes: Collection[str] = pods.dead  # by `kubelet_dies`
        self.reserved: Mapping[tuple[str, str], Reservation] = pods.reserved  # by namespace and name
        self.kubelet_dies = nodes.kubelet_dies
        self.ailing_nodes: Collection[str] = nodes.ailing  # by `WorldFaults.condition` and `unhealthy`
        self.delete_node = nodes.delete
        self.taint_device = nodes.drivers.taint
        self.claims = pods.claims
        self.claims.install(config.pools)
        self.listed_count = cloud.listed_count
        self.relabel = cloud.relabel
        self.recycle = cloud.recycle
        self.create_pool = cloud.create_pool
        self.delete_pool = cloud.delete_pool
        self.replace_pools = cloud.replace_pools
        self.submit_later = pods.submit_later
        self.cancel_job = pods.cancel_job
        self.bind = pods.bind
        self.pdbs = pods.pdbs  # PodDisruptionBudgets; append to it
        self.evict = pods.evict
        self.rehearse_eviction = partial(pods.evict, dry_run=True)
        self.scale_to_zero = pods.scale_to_zero
        self.at_zero = pods.at_zero
        self.patch_pod = pods.patch
        self.remove_obstacle = pods.remove_obstacle
        self.work = pods.work
        self.used_outside: Collection[str] = activity.outside  # nodes whose GPUs are used from outside Kubernetes
        self.stop_using = activity.stop_using
        self.courses = activity.courses
        self.gpu_samples = activity.samples
        self.compact = self._journal.compact
        self.keep = self._journal.keep  # an object that is served beside the world's own

    @property
    def cluster_status(self) -> str:
        """ACTIVE, or SCALING while a pool changes and Behaviour.scaling_status is set."""
        return "SCALING" if self.config.behaviour.scaling_status and self._cloud.changing else "ACTIVE"

    @property
    def oldest_version(self) -> int:
        """Changes up to this version were compacted away."""
        return self._journal.oldest_version

    @property
    def gpu_seconds(self) -> float:
        """GPU-seconds that running pods have held so far."""
        return self._activity.gpu_seconds()

    def paid(self, at: datetime | None = None) -> Decimal:
        """Return the USD billed up to now, or up to a later *at* if nothing changes until then. Sizes without a price
        count as 0."""
        granularity = self.config.behaviour.granularity // timedelta(microseconds=1)
        total = Decimal(0)
        for vm in self.lives:
            units = self._books.units(vm, self._books.end_of(vm) or at or self.now)
            price = self.config.price.get(vm.size, Decimal(0))
            total += price * units * granularity / 3_600_000_000  # divided last, so that cents stay exact
        return total

    def invoice(self, commitments: Sequence[Commitment], at: datetime) -> Decimal:
        """Return the USD that Civo invoices up to *at*: the billed units at list prices, except of nodes that a
        commitment covers as the unit begins, the oldest ones; and each commitment in every hour, used or not."""
        unit = self.config.behaviour.granularity
        total = Decimal(0)
        for committed in commitments:
            hours = Decimal(max(0.0, (min(at, committed.until) - committed.since).total_seconds())) / 3600
            total += hours * committed.nodes * committed.usd_per_hour
        for number, vm in enumerate(self.lives):
            older = [x for x in self.lives[:number] if x.pool == vm.pool]
            for count in range(self._books.units(vm, self._books.end_of(vm) or at)):
                begins = vm.created_at + count * unit
                before = sum(1 for x in older if (self._books.end_of(x) or at) > begins)
                covering = [c for c in commitments if c.pool == vm.pool and c.since <= begins < c.until]
                if not any(before < c.nodes for c in covering):
                    total += self.config.price.get(vm.size, Decimal(0)) * Decimal(unit.total_seconds()) / 3600
        return total

    def behave(self, behaviour: Behaviour) -> None:
        """Change Civo's behaviour from now on."""
        self.config = replace(self.config, behaviour=behaviour)
        self._cloud.behaviour = self._books.behaviour = behaviour

    def limit(self, quota: Mapping[str, int]) -> None:
        """Change the account's quota from now on (by name; absent: unlimited)."""
        self.config = replace(self.config, quota=quota)
        self._cloud.accounts.limits = quota

    def note(self, kind: str, verb: str, key: str, make: Callable[[int], Any], before: Any = None) -> Any:
        """Keep a change of an object that is served beside the world's own; *make* gives it its version."""
        self._journal.version += 1
        obj = make(self._journal.version)
        self._journal.note(kind, verb, key, obj, before)
        return obj

    def use_gpu(self, node: str, *, engine: float = 0.9, memory: float = 0.5) -> None:
        """Use every GPU of *node* (ratios) from outside Kubernetes, beside its pods, until `stop_using`. Unknown:
        404."""
        self._cluster.node(node)
        self._activity.use(node, engine, memory)


class SimulatedTelemetry(WorldTelemetry):
    """Prometheus with the metrics of pods, of failed GPUs and of Civo's node agent."""

    _world: World

    def look(self) -> TelemetryFacts:
        found, faults = super().look(), self._world.faults
        failed = {} if faults.telemetry_gone else dict(faults.failed)
        return replace(found, failed=failed, recovering=dict(faults.recovering))

    def courses(self, window: timedelta) -> Mapping[str, Course]:
        """Return the course over *window* (up to a day) of each pod that holds GPUs and was observed in it."""
        return {pod: course for pod, course in self._world.courses(window).items() if course.engine is not None}

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """Return the current activity of each GPU of each pod, with the change of its memory over two minutes."""
        if self._world.faults.telemetry_gone:
            return {}
        courses = self._world.courses(SAMPLED)
        found: dict[str, list[Sample]] = {}
        for gpu in self._world.gpu_samples():
            if gpu.pod is not None:
                key = "/".join(gpu.pod)
                memory = gpu.memory_used / (gpu.memory_used + gpu.memory_free)
                least = max(0.0, memory - (courses[key].memory or 0.0))
                sample = Sample(engine=gpu.util, memory=memory, peak_memory=memory, least_memory=least)
                found.setdefault(key, []).append(sample)
        return found


class SimulatedAlarms(WorldAlarms):
    """Alertmanager with *silences* and *extra* alerts, which forgot the others when it started (*started_at*)."""

    def __init__(self, world: ReplayWorld) -> None:
        super().__init__(world)
        self.silences: list[Silence] = []
        self.extra: list[Alert] = []
        self.started_at: datetime | None = None

    def look(self) -> AlarmFacts:
        """Return the firing alerts that are not silenced, and the silences."""
        alerts = (*super().look().alerts, *self.extra)
        live = tuple(s for s in self.silences if s.ends_at > self._world.now)
        heard = (a for a in alerts if not any(all(m.matches(a.labels) for m in s.matchers) for s in live))
        return AlarmFacts(alerts=tuple(heard), silences=live, started_at=self.started_at)
