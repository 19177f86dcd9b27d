"""The lives of pods: created, tried, bound, running, done, evicted, or lost with their node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from receiver.replay.world.activity import Gpus
from receiver.replay.world.cluster import Agenda, ClusterObjects, Dice, Key, merged
from receiver.replay.world.config import GANG_ANNOTATION, Denied, Job, Packing, Pdb, PodSpec, Timings
from receiver.replay.world.objects import VM, FinishedJob, Kill, WorldPod
from receiver.replay.world.scheduler import Scheduler

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
NAME_LABEL = "batch.kubernetes.io/job-name"


@dataclass(slots=True)
class _Course:
    job: Job
    submitted_at: datetime
    running: set[str] = field(default_factory=set)  # indexes that have run at least once
    done: set[str] = field(default_factory=set)
    started_at: datetime | None = None
    restarts: int = 0
    losses: int = 0  # moments at which it lost pods
    lost_at: datetime | None = None


class JobRuns:
    """Follows jobs from submission to their last pod's success. *backoff_limit* is how often one may lose pods before
    it is given up (those lost at one moment count once); None: as often as it likes."""

    def __init__(self, backoff_limit: int | None = None) -> None:
        self._backoff_limit = backoff_limit
        self._courses: dict[str, _Course] = {}
        self._cancelled: set[str] = set()
        self.finished: list[FinishedJob] = []
        self.failed: dict[str, datetime] = {}  # given up, and when

    def pods_of(self, job: Job, now: datetime) -> Iterable[PodSpec]:
        """Begin to follow *job* and return what its pods are. Raises ValueError for an id that is in use."""
        if job.id in self._courses:
            raise ValueError(f"job {job.id!r} was submitted before")
        self._courses[job.id] = _Course(job, now)
        labels = {**job.labels, NAME_LABEL: job.id}
        if job.team:
            labels.setdefault("team", job.team)
        annotations = dict(job.annotations)
        if job.gang:
            annotations.setdefault(GANG_ANNOTATION, job.id)
        for index in range(job.pods):
            yield PodSpec(
                namespace=job.namespace,
                name=f"{job.id}-{index}",
                requests={job.resource: job.gpus_per_pod} if job.gpus_per_pod else {},
                duration=job.duration,
                labels={**labels, INDEX_LABEL: str(index)},
                annotations=annotations,
                node_selector=job.node_selector,
                affinity=job.affinity,
                preferred=job.preferred,
                tolerations=job.tolerations,
                priority=job.priority,
                priority_class=job.priority_class,
                owner_kind=job.owner_kind,
                owner_name=job.id,
                gang_size=(job.gang_min or job.pods) if job.gang else 0,
                gpu_util=job.gpu_util,
                gpu_memory=job.gpu_memory,
                compute=job.compute,
            )

    def ran(self, pod: WorldPod, now: datetime) -> None:
        """*pod* began to run."""
        course = self._of(pod)
        if course is not None and course.started_at is None:
            course.running.add(pod.labels.get(INDEX_LABEL, pod.name))
            if len(course.running) >= course.job.pods:
                course.started_at = now

    def succeeded(self, pod: WorldPod, now: datetime) -> None:
        """*pod* is done; the job with it when it was the last."""
        course = self._of(pod)
        if course is None:
            return
        course.done.add(pod.labels.get(INDEX_LABEL, pod.name))
        if len(course.done) >= course.job.pods:
            del self._courses[course.job.id]
            self.finished.append(
                FinishedJob(
                    id=course.job.id,
                    submitted_at=course.submitted_at,
                    started_at=course.started_at or now,
                    finished_at=now,
                    gpus=course.job.gpus,
                    team=course.job.team,
                    restarts=course.restarts,
                )
            )

    def comes_back(self, pod: WorldPod, now: datetime) -> bool:
        """Count a lost pod of a job; False when the job was cancelled or is given up, so that no pod replaces it."""
        course = self._of(pod)
        if course is None:
            return pod.owner_kind != "Job" and pod.owner_name not in self._cancelled
        course.restarts += 1
        if course.lost_at != now:
            course.losses, course.lost_at = course.losses + 1, now
        if self._backoff_limit is None or course.losses <= self._backoff_limit:
            return True
        self.cancel(course.job.id)
        self.failed[course.job.id] = now
        return False

    def kind_of(self, job_id: str) -> str:
        """What owns the pods of a job."""
        course = self._courses.get(job_id)
        return course.job.owner_kind if course is not None else "Job"

    def cancel(self, job_id: str) -> None:
        """Stop to follow a job."""
        self._cancelled.add(job_id)
        self._courses.pop(job_id, None)

    def _of(self, pod: WorldPod) -> _Course | None:
        course = self._courses.get(pod.owner_name)
        return course if course is not None and course.job.owner_kind == pod.owner_kind else None


Owner = tuple[str, str, str]  # kind, namespace, name
AT_ONCE = frozenset({"ReplicaSet", "ReplicationController"})  # they replace a pod as soon as it is asked to go


class Pods:
    """Moves pods along. A pod lost with its node, evicted or deleted comes back when a controller owns it: a ReplicaSet
    starts another as soon as one is asked to go, other controllers when it is gone."""

    def __init__(
        self,
        cluster: ClusterObjects,
        agenda: Agenda,
        timings: Timings,
        dice: Dice,
        activity: Gpus,
        jobs: JobRuns,
        packing: Packing,
    ) -> None:
        self._cluster = cluster
        self._agenda = agenda
        self._timings = timings
        self._dice = dice
        self._activity = activity
        self._jobs = jobs
        self.scheduler = Scheduler(cluster, agenda, self._bind, packing)
        self.pdbs: list[Pdb] = []
        self.kills: list[Kill] = []
        self._specs: dict[Key, PodSpec] = {}
        self._origins: dict[Key, tuple[str, int]] = {}  # first name, how often it came back
        self._lost: set[str] = set()  # uids of pods whose node died under them
        self._at_zero: set[Owner] = set()  # controllers that replace nothing

    # --- coming ---

    def add(self, spec: PodSpec, origin: tuple[str, int] | None = None) -> WorldPod:
        """Create a pod. Raises Denied (409) when the name is taken."""
        key = (spec.namespace, spec.name)
        if key in self._cluster.pods:
            raise Denied("AlreadyExists", 409, f'pods "{spec.name}" already exists')
        now = self._agenda.now
        pod = self._cluster.add_pod(
            WorldPod(
                namespace=spec.namespace,
                name=spec.name,
                uid=self._dice.uuid(),
                created_at=now,
                labels=dict(spec.labels),
                annotations=dict(spec.annotations),
                requests={r: n for r, n in spec.requests.items() if n},
                node_selector=dict(spec.node_selector),
                affinity=spec.affinity,
                preferred=spec.preferred,
                tolerations=spec.tolerations,
                priority=spec.priority,
                priority_class=spec.priority_class,
                owner_kind=spec.owner_kind,
                owner_name=spec.owner_name,
                gang=spec.annotations.get(GANG_ANNOTATION) or None,
                gang_size=spec.gang_size,
                gated=spec.gated,
                duration=spec.duration,
                gpu_util=spec.gpu_util,
                gpu_memory=spec.gpu_memory,
                compute={r: n for r, n in spec.compute.items() if n},
                scheduled=False if spec.gated else None,
                scheduled_since=now if spec.gated else None,
                reason="SchedulingGated" if spec.gated else "",
                message="Scheduling is blocked due to non-empty scheduling gates" if spec.gated else "",
            )
        )
        self._at_zero.discard((spec.owner_kind, spec.namespace, spec.owner_name))
        self._specs[key] = spec
        self._origins[key] = origin or (spec.name, 0)
        if spec.node is not None:
            self._bind(pod, spec.node)
        elif not spec.gated:
            self._agenda.after(self._timings.schedule, self._tried, key, pod.uid)
        return self._cluster.pods[key]

    def ungate(self, key: Key) -> None:
        """Remove the scheduling gate."""
        pod = self._cluster.pod(key)
        if pod.gated:
            self._cluster.change_pod(pod, gated=False, scheduled=None, scheduled_since=None, reason="", message="")
            self._agenda.after(self._timings.schedule, self._tried, key, pod.uid)

    def patch(
        self, key: Key, labels: Mapping[str, str | None] | None, annotations: Mapping[str, str | None] | None
    ) -> WorldPod:
        """Change labels or annotations. Raises Denied (404)."""
        pod = self._cluster.pod(key)
        wanted = {"labels": merged(pod.labels, labels), "annotations": merged(pod.annotations, annotations)}
        changes = {k: v for k, v in wanted.items() if v != getattr(pod, k)}
        return self._cluster.change_pod(pod, **changes) if changes else pod

    def bind(self, key: Key, node: str) -> None:
        """Put a waiting pod on *node* past the scheduler. Raises Denied (404, 409)."""
        pod = self._cluster.pod(key)
        self._cluster.node(node)
        if pod.node is not None:
            raise Denied("Conflict", 409, f"pod {pod.name} is already assigned to node {pod.node!r}")
        self.scheduler.forget(pod)
        self._bind(pod, node)

    def work(self, key: Key, engine: float, memory: float | None) -> None:
        """Change what the pod's GPUs do. Raises Denied (404)."""
        pod = self._cluster.pod(key)
        held = pod.gpu_memory if memory is None else memory
        self._activity.change(self._cluster.change_pod(pod, gpu_util=engine, gpu_memory=held))

    def _tried(self, key: Key, uid: str) -> None:
        pod = self._cluster.living(key, uid)
        if pod is not None and pod.node is None:
            self.scheduler.enqueue(pod)

    def _bind(self, pod: WorldPod, node: str) -> None:
        self._cluster.change_pod(
            pod, node=node, scheduled=True, scheduled_since=self._agenda.now, reason="", message=""
        )
        self._cluster.occupy(pod, node)
        self._activity.hold(pod, node)
        self._agenda.after(self._dice.spread(self._timings.image_pull), self._start, pod.key, pod.uid)

    def _start(self, key: Key, uid: str) -> None:
        pod = self._cluster.living(key, uid)
        if pod is None or uid in self._lost or pod.deletion_at is not None:
            return
        pod = self._cluster.change_pod(pod, phase="Running", started_at=self._agenda.now)
        self._activity.run(pod, self._timings.warmup)
        self._jobs.ran(pod, self._agenda.now)
        self._agenda.after(self._timings.warmup, self._warm, key, uid)
        if pod.duration is not None:
            self._agenda.after(pod.duration, self._finish, key, uid)

    def _warm(self, key: Key, uid: str) -> None:
        pod = self._cluster.living(key, uid)
        if pod is not None and uid not in self._lost:
            self._activity.warm(pod)

    # --- going ---

    def _finish(self, key: Key, uid: str) -> None:
        pod = self._cluster.living(key, uid)
        if pod is None or uid in self._lost or pod.deletion_at is not None:
            return
        self._activity.stop(pod)
        pod = self._cluster.change_pod(pod, phase="Succeeded", finished_at=self._agenda.now)
        self._free(pod)
        self._jobs.succeeded(pod, self._agenda.now)
        if self._timings.finished_lingers is not None:
            self._agenda.after(self._timings.finished_lingers, self._collect, key, uid)

    def delete(self, key: Key, *, for_good: bool = False) -> None:
        """Ask a pod to go; *for_good* keeps its controller from replacing it. Raises Denied (404)."""
        pod = self._cluster.pod(key)
        if for_good:
            self._specs.pop(key, None)
        if pod.over or pod.node is None:
            self._remove(key, pod.uid)
        elif pod.deletion_at is None:
            self._cluster.change_pod(pod, deletion_at=self._agenda.now + self._timings.terminate)
            self._agenda.after(self._timings.terminate, self._remove, key, pod.uid)
            if pod.owner_kind in AT_ONCE:
                self._replace(pod, self._specs.pop(key, None), self._origins[key])

    def evict(self, key: Key, *, dry_run: bool = False) -> None:
        """As `delete`, or nothing in a *dry_run*. Raises Denied (429) when a PodDisruptionBudget forbids it."""
        pod = self._cluster.pod(key)
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
            self.delete(key)

    def scale_to_zero(self, owner: Owner) -> None:
        """*owner* wants no pods any more: those that it has are asked to go, and none comes back."""
        self._at_zero.add(owner)
        for key in [p.key for p in self._cluster.active.values() if _owner(p) == owner]:
            self.delete(key)

    def at_zero(self, owner: Owner) -> bool:
        """True once *owner* was scaled to zero, until it gets a pod again."""
        return owner in self._at_zero

    def _healthy(self, pdb: Pdb) -> int:
        return sum(
            1
            for p in self._cluster.active.values()
            if p.phase == "Running" and p.deletion_at is None and p.uid not in self._lost
            if pdb.covers(p.namespace, p.labels)
        )

    def _collect(self, key: Key, uid: str) -> None:
        pod = self._cluster.pods.get(key)
        if pod is not None and pod.uid == uid:
            self._drop(pod)

    def _remove(self, key: Key, uid: str) -> None:
        pod = self._cluster.pods.get(key)
        if pod is None or pod.uid != uid:
            return
        if pod.phase == "Running" and uid not in self._lost:
            self._activity.stop(pod)
        self._lost.discard(uid)
        self.scheduler.forget(pod)
        if not pod.over:
            self._free(pod)
        spec, origin = self._specs.get(key), self._origins[key]
        self._drop(pod)
        self._replace(pod, spec, origin)

    def _replace(self, pod: WorldPod, spec: PodSpec | None, origin: tuple[str, int]) -> None:
        """Let the controller of *pod* start another from *spec* (None: it did already, or will not)."""
        first, times = origin
        returns = pod.owner_kind not in ("", "DaemonSet") and not pod.over and _owner(pod) not in self._at_zero
        if spec is None or not returns:
            return
        if self._jobs.comes_back(pod, self._agenda.now):
            again = _renamed(spec, f"{first}-r{times + 1}")
            self.add(again, (first, times + 1))
        elif pod.owner_name in self._jobs.failed:
            self.delete_owned(pod.owner_kind, pod.owner_name)

    def delete_owned(self, kind: str, name: str) -> None:
        """Delete the pods of an owner for good."""
        for key in [k for k, p in self._cluster.active.items() if (p.owner_kind, p.owner_name) == (kind, name)]:
            self.delete(key, for_good=True)

    def _drop(self, pod: WorldPod) -> None:
        self._specs.pop(pod.key, None)
        self._origins.pop(pod.key, None)
        self._cluster.drop_pod(pod.key)

    def _free(self, pod: WorldPod) -> None:
        self._activity.release(pod)
        if self._cluster.vacate(pod) and pod.node is not None:
            self.scheduler.room_changed(pod.node)

    # --- with their node ---

    def node_died(self, node: str, vm: VM, by: str) -> None:
        """Everything on *node* stops at once; the pod objects stay until the node object goes."""
        now = self._agenda.now
        for key in list(self._cluster.pods_on.get(node, ())):
            pod = self._cluster.pods[key]
            if pod.uid in self._lost:
                continue
            if pod.phase == "Running":
                self._activity.stop(pod)
            self._lost.add(pod.uid)
            if pod.owner_kind == "DaemonSet" or pod.deletion_at is not None:
                continue
            self.kills.append(
                Kill(
                    at=now,
                    namespace=pod.namespace,
                    name=pod.name,
                    node=node,
                    instance=vm.id,
                    gpus=pod.gpus,
                    ran=now - pod.started_at if pod.started_at else timedelta(0),
                    by=by,
                )
            )

    def node_removed(self, node: str) -> None:
        """The node object is gone: its pods are collected, and come back elsewhere."""
        for key in list(self._cluster.pods_on.get(node, ())):
            self._remove(key, self._cluster.pods[key].uid)


def _owner(pod: WorldPod) -> Owner:
    return (pod.owner_kind, pod.namespace, pod.owner_name)


def _renamed(spec: PodSpec, name: str) -> PodSpec:
    return replace(spec, name=name, node=None)
