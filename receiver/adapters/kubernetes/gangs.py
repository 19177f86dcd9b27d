"""Gangs of which an object says the size, or of which pods are yet to come: groups of kube-scheduler, JobSets, and the
groups of a LeaderWorkerSet.

kube-scheduler starts a PodGroup with a gang policy whole or not at all. It places pods of the other two one by one, but
they run together or start again together, so nodes for a part of them are of no use.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes.announced import BY_RESOURCES, Announcement, Reader, Run, announced_pod
from receiver.adapters.kubernetes.api import Json, condition, entries, key_of, section, text
from receiver.adapters.kubernetes.pods import LWS, REPLICATED_JOB, Declaration, SeenPod, whole
from receiver.adapters.kubernetes.queues import Roll, bounded, understood
from receiver.adapters.kubernetes.reflector import Lists, ResourceKind
from receiver.core.model.pods import Pod, PodPhase
from receiver.ports import TryLater

SCHEDULING = "scheduling.k8s.io"
POD_GROUPS = ResourceKind(SCHEDULING, "podgroups", ("v1beta1", "v1alpha3", "v1alpha2"))
WORKLOADS = ResourceKind(SCHEDULING, "workloads", ("v1alpha1",))  # from v1alpha2 on they only hold templates
JOB_SETS = ResourceKind("jobset.x-k8s.io", "jobsets", ("v1alpha2",))
WORKER_SETS = ResourceKind("leaderworkerset.x-k8s.io", "leaderworkersets", ("v1",))
WITHOUT_POLICIES = "pods of groups of kube-scheduler count one by one"
WITHOUT_JOB_SETS = "JobSets count as complete with the pods that exist"
WITHOUT_WORKER_SETS = "workers of a LeaderWorkerSet that do not exist yet count like their leader"
COME_WITHIN = timedelta(hours=1)  # after the last one got its node, so long is room kept for pods that are yet to come
BEGUN = ("active", "ready", "succeeded", "failed")  # counts in a JobSet's status of each replicated Job

Members = Mapping[str, Sequence[SeenPod]]  # the living pods of each gang, by its key
Coming = tuple[str, Json, int]  # a prefix for their names, the template, and how many pods are yet to come


@dataclass(frozen=True, slots=True)
class Declared:
    """How many pods of a gang must run together, by key (0: they are no gang, None: all that exist), and the pods
    *announced* that are yet to come."""

    sizes: Mapping[str, int | None]
    announced: tuple[Pod, ...] = ()


class Gangs:
    """Reads the objects behind the gangs that pods declare; none is read that no pod declares. *read* reads pods."""

    def __init__(self, lists: Lists, read: Reader = BY_RESOURCES) -> None:
        self._lists, self._read = lists, read

    def of(self, living_pods: Sequence[SeenPod], now: datetime) -> tuple[list[Pod], Roll]:
        """Return the GPU pods among *living_pods*, those of their gangs that are yet to come, and the roll of the
        gangs. Pods of a gang that the scheduler did not try wait once another of its pods waits."""
        held = frozenset(s.key for s in living_pods if s.untried or s.unjudged)
        pods = [pod for pod in map(self._read, living_pods) if pod is not None]
        declared = self.declared(living_pods, now)
        roll = Roll(living_pods, frozenset(p.key for p in pods), declared.sizes)
        waiting = {p.gang for p in pods if p.gang and p.phase is PodPhase.WAITING}
        for i, pod in enumerate(pods):
            if pod.gang is not None and pod.gang not in roll.gangs:
                pods[i] = replace(pod, gang=None, gang_min=None)
            elif pod.key in held and pod.gang in waiting:
                pods[i] = replace(pod, phase=PodPhase.WAITING)
        return [*pods, *declared.announced], roll

    def declared(self, living_pods: Iterable[SeenPod], now: datetime) -> Declared:
        """Return what is declared for *living_pods*. Never raises: without an object's answer a gang counts as
        complete with the pods that exist."""
        members: dict[Declaration, dict[str, list[SeenPod]]] = {}
        for pod in living_pods:
            if pod.gang is not None:
                members.setdefault(pod.gang.by, {}).setdefault(pod.gang.key, []).append(pod)
        sizes: dict[str, int | None] = {}
        for by, kind in ((Declaration.POD_GROUP, POD_GROUPS), (Declaration.WORKLOAD, WORKLOADS)):
            if by in members:
                sizes |= self._policies(kind, members[by])
        waiting: list[Announcement] = []
        for by, sized in ((Declaration.JOB_SET, self._job_sets), (Declaration.WORKER_SET, self._worker_sets)):
            for announcement, size in sized(members[by], now) if by in members else ():
                waiting.append(announcement)
                sizes[announcement.key] = 0 if size == 1 else size
        announcements = bounded(waiting, self._lists.remarks.warn)
        pods = (replace(pod, gang=each.key, gang_min=None) for each in announcements for pod in each.pods())
        return Declared(sizes, tuple(pods))

    def _policies(self, kind: ResourceKind, keys: Iterable[str]) -> dict[str, int | None]:
        """Return the minimum of each group, 0 under the basic policy. While the API server cannot tell, all pods that
        exist count together: otherwise nodes would be bought for a part of a gang."""
        try:
            objects = self._lists.if_allowed(kind, WITHOUT_POLICIES)
        except TryLater as error:
            self._lists.remarks.warn("custom resources not read", f"{error}; pods of a group count together")
            return dict.fromkeys(keys)
        if objects is None:
            return dict.fromkeys(keys, 0)
        minimums = {key: least for raw in objects for key, least in _minimums(raw)}
        return {key: minimums.get("/".join(key.split("/")[:3])) for key in keys}  # each replica of a group is a gang

    def _job_sets(self, members: Members, now: datetime) -> Iterator[tuple[Announcement, int | None]]:
        sets = {key_of(raw): raw for raw in self._lists.if_readable(JOB_SETS, WITHOUT_JOB_SETS) or ()}
        for key, pods in members.items():
            total, coming = 0, list[Coming]()
            jobs_of_pods = {pod.labels.get(REPLICATED_JOB) for pod in pods}
            for name, template, count, has_begun in _stages(sets.get(key, {})):
                if has_begun or name in jobs_of_pods:
                    total += count
                elif _will_come(pods, now):
                    coming.append((f"{name}-", template, count))
            announcement = self._announcement(key, pods, coming)
            yield announcement, total + announcement.total if key in sets else None

    def _worker_sets(self, members: Members, now: datetime) -> Iterator[tuple[Announcement, int | None]]:
        """Where a set starts its workers when the leader is ready, a lone leader is its whole group's demand."""
        sizes = {key: max((p.gang.size or 0 for p in pods if p.gang), default=0) for key, pods in members.items()}
        short = {key for key, pods in members.items() if len(pods) < sizes[key] and _will_come(pods, now)}
        sets: dict[str, Json] = {}
        if short:
            sets = {key_of(raw): raw for raw in self._lists.if_readable(WORKER_SETS, WITHOUT_WORKER_SETS) or ()}
        for key, pods in members.items():
            if key not in short:
                yield Announcement(key=key, runs=()), sizes[key] or None
                continue
            spec = section(sets.get(f"{pods[0].namespace}/{pods[0].labels.get(f'{LWS}name')}", {}), "spec")
            alike = {"metadata": pods[0].metadata, "spec": pods[0].spec}
            template = section(section(spec, "leaderWorkerTemplate"), "workerTemplate") or alike
            announcement = self._announcement(key, pods, [("worker-", template, sizes[key] - len(pods))])
            yield announcement, len(pods) + announcement.total  # workers without GPUs need no node here

    def _announcement(self, key: str, pods: Sequence[SeenPod], coming: Sequence[Coming]) -> Announcement:
        """Return what is yet to come of the gang *key*: as old as its *pods*, and of their priority."""
        first = min(pods, key=lambda pod: (pod.phase is not PodPhase.WAITING, pod.key))
        make = partial(_announced, key, first, coming, self._read)
        return understood(make, key, self._lists.remarks.warn)


def _announced(key: str, first: SeenPod, coming: Sequence[Coming], read: Reader) -> Announcement:
    origin, priority = {"metadata": first.metadata}, first.spec.get("priority") or 0
    runs = ((announced_pod(origin, t, priority=priority, read=read), n, prefix) for prefix, t, n in coming)
    return Announcement(key=key, runs=tuple(Run(pod, count, prefix) for pod, count, prefix in runs if pod and count))


def _will_come(pods: Sequence[SeenPod], now: datetime) -> bool:
    """True while the pods that a gang lacks can be expected: of *pods*, some with GPUs or claims wait or run, none is
    leaving, and the last one has not had its node for too long."""
    placed = [moment(condition(p.status, "PodScheduled").get("lastTransitionTime")) for p in pods if p.node]
    late = any(at is not None and now - at >= COME_WITHIN for at in placed)
    demand = (PodPhase.WAITING, PodPhase.RESERVED, PodPhase.STARTING, PodPhase.RUNNING)
    return not late and not any(p.leaving for p in pods) and any(p.wants_devices and p.phase in demand for p in pods)


def _minimums(raw: Json) -> Iterator[tuple[str, int]]:
    """Yield the minimum of a PodGroup, and those of the groups of a Workload (v1alpha1)."""
    spec = section(raw, "spec")
    yield key_of(raw), _minimum(section(spec, "schedulingPolicy"))
    for group in entries(spec, "podGroups"):
        yield f"{key_of(raw)}/{text(group, 'name')}", _minimum(section(group, "policy"))


def _minimum(policy: Json) -> int:
    return 0 if policy.get("gang") is None else whole(section(policy, "gang").get("minCount")) or 1


def _stages(job_set: Json) -> Iterator[tuple[str, Json, int, bool]]:
    """Yield the replicated Jobs that may run now: name, pod template, how many pods the unfinished ones have, and
    whether any has begun. One that waits until another has completed runs after it, not with it."""
    status = {text(s, "name"): s for s in entries(section(job_set, "status"), "replicatedJobsStatus")}
    unfinished, later = set[str](), set[str]()
    for job in entries(section(job_set, "spec"), "replicatedJobs"):
        name, spec = text(job, "name"), section(section(job, "template"), "spec")
        job_status = status.get(name, {})
        jobs = (whole(job.get("replicas", 1)) or 0) - (whole(job_status.get("succeeded")) or 0)
        parallelism = whole(spec.get("parallelism", 1)) or 0
        before = [(text(d, "name"), d.get("status") == "Complete") for d in entries(job, "dependsOn")]
        if jobs > 0:
            unfinished.add(name)
        if any(other in later or (completes and other in unfinished) for other, completes in before):
            later.add(name)
        elif jobs > 0:
            pods = jobs * min(parallelism, whole(spec.get("completions")) or parallelism)
            yield name, section(spec, "template"), pods, any(job_status.get(count) for count in BEGUN)
