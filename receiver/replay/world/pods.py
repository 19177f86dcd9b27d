"""Pods and the jobs they belong to: created, tried, bound, running, finished, evicted, or lost with their node."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from receiver.replay.world.activity import Gpus, held_memory
from receiver.replay.world.cluster import Agenda, ClusterObjects, Dice, Key
from receiver.replay.world.objects import (
    GANG_ANNOTATION,
    PLACED_WHOLE_ANNOTATION,
    VM,
    Denied,
    FinishedJob,
    Job,
    Kill,
    Packing,
    PodSpec,
    PodTemplate,
    Timings,
    WorldPod,
)
from receiver.replay.world.scheduler import Scheduler

AT_ONCE = frozenset({"ReplicaSet", "ReplicationController"})  # they replace a pod as soon as its deletion begins
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
NAME_LABEL = "batch.kubernetes.io/job-name"


@dataclass(slots=True)
class _Run:
    job: Job
    submitted_at: datetime
    running: set[str] = field(default_factory=set)  # indexes that have run at least once
    done: set[str] = field(default_factory=set)
    started_at: datetime | None = None
    restarts: int = 0
    losses: int = 0  # moments at which it lost pods
    lost_at: datetime | None = None


@dataclass(slots=True, eq=False)
class JobRuns:
    """Follows jobs from submission to the success of their last pod, or until the backoff limit fails them
    (`WorldConfig`)."""

    _backoff_limit: int | None = None
    _runs: dict[str, _Run] = field(default_factory=dict)
    _cancelled: set[str] = field(default_factory=set)
    finished: list[FinishedJob] = field(default_factory=list)
    failed: dict[str, datetime] = field(default_factory=dict)  # when the backoff limit was exceeded

    def pods_of(self, job: Job, now: datetime) -> Iterable[PodSpec]:
        """Begin to follow *job* and yield its pods. Raises ValueError for an id that is in use."""
        if job.id in self._runs:
            raise ValueError(f"job {job.id!r} was submitted before")
        self._runs[job.id] = _Run(job, now)
        shared = _fields_of(job, PodTemplate)
        labels = {**job.labels, NAME_LABEL: job.id}
        if job.team:
            labels.setdefault("team", job.team)
        ours = job.gang and not job.group and PLACED_WHOLE_ANNOTATION not in job.annotations
        shared["annotations"] = {**({GANG_ANNOTATION: job.id} if ours else {}), **job.annotations}
        for index in range(job.pods):
            shared["labels"] = {**labels, INDEX_LABEL: str(index)}
            yield PodSpec(
                **shared,
                namespace=job.namespace,
                name=f"{job.id}-{index}",
                requests={job.resource: job.gpus_per_pod} if job.gpus_per_pod else {},
                duration=job.duration,
                owner_name=job.id,
                gang_size=(job.gang_min or job.pods) if job.gang else 0,
            )

    def ran(self, pod: WorldPod, now: datetime) -> None:
        run = self._of(pod)
        if run is not None and run.started_at is None:
            run.running.add(pod.labels.get(INDEX_LABEL, pod.name))
            if len(run.running) >= run.job.pods:
                run.started_at = now

    def succeeded(self, pod: WorldPod, now: datetime) -> None:
        run = self._of(pod)
        if run is None:
            return
        run.done.add(pod.labels.get(INDEX_LABEL, pod.name))
        if len(run.done) >= run.job.pods:
            del self._runs[run.job.id]
            self.finished.append(
                FinishedJob(
                    id=run.job.id,
                    submitted_at=run.submitted_at,
                    started_at=run.started_at or now,
                    finished_at=now,
                    gpus=run.job.gpus,
                    team=run.job.team,
                    restarts=run.restarts,
                )
            )

    def comes_back(self, pod: WorldPod, now: datetime) -> bool:
        """Count a lost pod; return False when its job is cancelled or has failed, so that nothing replaces it."""
        run = self._of(pod)
        if run is None:
            return pod.owner_kind != "Job" and pod.owner_name not in self._cancelled
        run.restarts += 1
        if run.lost_at != now:
            run.losses, run.lost_at = run.losses + 1, now
        if self._backoff_limit is None or run.losses <= self._backoff_limit:
            return True
        self.cancel(run.job.id)
        self.failed[run.job.id] = now
        return False

    def cancel(self, job_id: str) -> str:
        self._cancelled.add(job_id)
        run = self._runs.pop(job_id, None)
        return run.job.owner_kind if run is not None else "Job"

    def _of(self, pod: WorldPod) -> _Run | None:
        run = self._runs.get(pod.owner_name)
        return run if run is not None and run.job.owner_kind == pod.owner_kind else None


@dataclass(slots=True, eq=False)
class Pods:
    """Moves pods along. Their controller replaces pods that are lost, evicted or deleted: a ReplicaSet as soon as the
    deletion begins, others when the pod is gone. Methods that take the name of a pod raise Denied (404)."""

    _cluster: ClusterObjects
    _agenda: Agenda
    _timings: Timings
    _dice: Dice
    _activity: Gpus
    _jobs: JobRuns
    _packing: Packing
    scheduler: Scheduler = field(init=False)
    kills: list[Kill] = field(default_factory=list)
    _specs: dict[Key, PodSpec] = field(default_factory=dict)
    _origins: dict[Key, tuple[str, int]] = field(default_factory=dict)  # the first name, and how many replacements
    _lost: set[str] = field(default_factory=set)  # uids of pods whose node died under them
    _pulled: dict[tuple[str, str], datetime] = field(default_factory=dict)  # from when on which node has which image

    def __post_init__(self) -> None:
        self.scheduler = self._new_scheduler()

    def _new_scheduler(self) -> Scheduler:
        return Scheduler(self._cluster, self._agenda, self._bind, self._packing)

    # --- creation ---

    def submit(self, job: Job) -> list[WorldPod]:
        return [self.add(spec) for spec in self._jobs.pods_of(job, self._agenda.now)]

    def add(self, spec: PodSpec, origin: tuple[str, int] | None = None) -> WorldPod:
        """Create a pod. Raises Denied (409) when the name is taken."""
        key = (spec.namespace, spec.name)
        if key in self._cluster.pods:
            raise Denied("AlreadyExists", 409, f'pods "{spec.name}" already exists')
        now = self._agenda.now
        state = _fields_of(spec, PodSpec)
        state["requests"] = {r: n for r, n in spec.requests.items() if n}
        state["compute"] = {r: n for r, n in spec.compute.items() if n}
        state["node"] = None
        if spec.gate:
            state |= {"scheduled": False, "scheduled_since": now, "reason": "SchedulingGated"}
            state["message"] = "Scheduling is blocked due to non-empty scheduling gates"
        gang = (
            spec.annotations.get(GANG_ANNOTATION) or spec.group or spec.annotations.get(PLACED_WHOLE_ANNOTATION) or None
        )
        pod = self._create(WorldPod(**state, uid=self._dice.uuid(), created_at=now, gang=gang))
        self._specs[key] = spec
        self._origins[key] = origin or (spec.name, 0)
        if spec.node is not None:
            self._bind(pod, spec.node)
        elif not spec.gate:
            self._agenda.after(self._timings.schedule, self._tried, key, pod.uid)
        return self._cluster.pods[key]

    def _create(self, pod: WorldPod) -> WorldPod:
        return self._cluster.add_pod(pod)

    def ungate(self, namespace: str, name: str) -> None:
        """Remove a pod's scheduling gate: the scheduler tries it then."""
        pod = self._cluster.pod((namespace, name))
        if pod.gate:
            self._cluster.change_pod(pod, gate="", scheduled=None, scheduled_since=None, reason="", message="")
            self._agenda.after(self._timings.schedule, self._tried, pod.key, pod.uid)

    def _tried(self, key: Key, uid: str) -> None:
        pod = self._cluster.living(key, uid)
        if pod is not None and pod.node is None:
            self.scheduler.enqueue(pod)

    def _bind(self, pod: WorldPod, node: str) -> None:
        now = self._agenda.now
        bound: dict[str, Any] = {"node": node, "nominated": ""}
        self._cluster.change_pod(pod, **bound, scheduled=True, scheduled_since=now, reason="", message="")
        self._cluster.occupy(pod, node)
        self._activity.hold(pod, node)
        self._agenda.after(self._pull(pod, node), self._start, pod.key, pod.uid)

    def _pull(self, pod: WorldPod, node: str) -> timedelta:
        """How long until the containers of *pod* run: a node pulls each image once and keeps it."""
        now, takes = self._agenda.now, self._dice.spread(self._timings.image_pull)
        if pod.image not in self._timings.pulls:
            return takes
        if (node, pod.image) not in self._pulled:
            self._pulled[node, pod.image] = now + self._dice.spread(self._timings.pulls[pod.image])
        return max(takes, self._pulled[node, pod.image] - now)

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
        if pod.duration is not None and pod.idle_tail:
            self._agenda.after(max(pod.duration - pod.idle_tail, timedelta(0)), self._rest, key, uid)

    def _warm(self, key: Key, uid: str) -> None:
        pod = self._cluster.living(key, uid)
        if pod is not None and uid not in self._lost:
            self._activity.warm(pod)

    def _rest(self, key: Key, uid: str) -> None:
        """End the work of a pod that goes on holding its GPUs."""
        pod = self._cluster.living(key, uid)
        if pod is not None and uid not in self._lost and pod.deletion_at is None:
            self._activity.warm(self._cluster.change_pod(pod, gpu_util=0.0, gpu_memory=held_memory(pod)))

    # --- deletion ---

    def _finish(self, key: Key, uid: str) -> None:
        pod = self._cluster.living(key, uid)
        if pod is None or uid in self._lost or pod.deletion_at is not None:
            return
        self._activity.stop(pod)
        pod = self._cluster.change_pod(pod, phase="Succeeded", finished_at=self._agenda.now)
        self._free(pod)
        self._jobs.succeeded(pod, self._agenda.now)
        if self._timings.finished_lingers is not None:
            self._agenda.after(self._timings.finished_lingers, self._remove, key, uid)

    def delete(self, namespace: str, name: str, grace: timedelta | None = None) -> None:
        """Begin a pod's graceful deletion, which takes all of *grace* (None: as timed). Its controller replaces it."""
        pod = self._cluster.pod((namespace, name))
        if pod.over or pod.node is None:
            self._remove(pod.key, pod.uid)
        elif pod.deletion_at is None:
            takes = self._timings.terminate if grace is None else grace
            self._cluster.change_pod(pod, deletion_at=self._agenda.now + takes)
            self._agenda.after(takes, self._remove, pod.key, pod.uid)
            if pod.owner_kind in AT_ONCE:
                self._replace(pod, self._specs.pop(pod.key, None), self._origins[pod.key])

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
        """Let the controller of *pod* create another from *spec* (None: it has done so, or must not)."""
        first, times = origin
        returns = pod.owner_kind not in ("", "DaemonSet") and not pod.over
        if spec is None or not returns:
            return
        if self._jobs.comes_back(pod, self._agenda.now):
            self.add(replace(spec, name=f"{first}-r{times + 1}", node=None), (first, times + 1))
        elif pod.owner_name in self._jobs.failed:
            self._delete_owned(pod.owner_kind, pod.owner_name)

    def _delete_owned(self, kind: str, name: str) -> None:
        for key in [k for k, p in self._cluster.active.items() if (p.owner_kind, p.owner_name) == (kind, name)]:
            self._specs.pop(key, None)
            self.delete(*key)

    def _drop(self, pod: WorldPod) -> None:
        self._specs.pop(pod.key, None)
        self._origins.pop(pod.key, None)
        self._cluster.drop_pod(pod.key)

    def _free(self, pod: WorldPod) -> None:
        self._activity.release(pod)
        if self._cluster.vacate(pod) and pod.node is not None:
            self.scheduler.room_changed(pod.node)

    # --- the loss of a node ---

    def node_died(self, node: str, vm: VM, by: str) -> None:
        """Stop everything on *node* at once. The pod objects stay until the node object is deleted."""
        now = self._agenda.now
        for pod in self._cluster.on(node):
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
        for pod in self._cluster.on(node):
            self._remove(pod.key, pod.uid)


def _fields_of(template: PodTemplate, kind: type[PodTemplate]) -> dict[str, Any]:
    return {field.name: getattr(template, field.name) for field in fields(kind)}
