"""Gangs and queues: how many pods must run together, and those that Kueue or Volcano holds back until there is room.

Queues are read only where the configuration asks for it. One that cannot be read announces nothing, which is told;
everything else goes on without it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from receiver.adapters.kubernetes.announced import (
    BY_RESOURCES,
    MOST_OF_ONE,
    Announcement,
    Reader,
    Reading,
    Run,
    announced_pod,
    patience_of,
)
from receiver.adapters.kubernetes.api import (
    CUSTOM,
    FORBIDDEN,
    NOT_FOUND,
    Json,
    controller_of,
    entries,
    key_of,
    section,
    text,
)
from receiver.adapters.kubernetes.multikueue import MULTIKUEUE, MultiKueue
from receiver.adapters.kubernetes.nodes import GPU_PREFIX, compute, gpus
from receiver.adapters.kubernetes.pods import KUEUE_LABEL, Declaration, Gang, SeenPod, whole
from receiver.adapters.kubernetes.reflector import ResourceKind
from receiver.core.model.pods import CPU, Pod, PodPhase
from receiver.core.model.text import listed
from receiver.ports import ClusterFacts, TryLater, WontWork

JOBS = ResourceKind("batch", "jobs", ("v1",))
WITHOUT_JOB_OBJECTS = "only their pods' own annotations say how long they may wait"
COSCHEDULING_GROUPS = ResourceKind("scheduling.x-k8s.io", "podgroups", ("v1alpha1",))
VOLCANO_GROUPS = ResourceKind("scheduling.volcano.sh", "podgroups", ("v1beta1",))
GROUPS: Mapping[Declaration, ResourceKind] = {
    Declaration.COSCHEDULING: COSCHEDULING_GROUPS,
    Declaration.VOLCANO: VOLCANO_GROUPS,
}
WITHOUT_GROUPS = "gangs of them count as complete with the pods that exist"


class Roll:
    """The living pods of each gang; *gpu_pods* are the keys (``namespace/name``) of those that ask for GPUs. A
    group's minimum counts all of its pods, finished ones and those without GPUs too, while a node is looked for only
    for GPU pods that wait. So a minimum is reduced by the pods that need none: those that have succeeded, and those
    without GPUs. One that is nominated for a node counts as bound. *sizes* are those that objects tell (0: these pods
    are no gang), see `gangs.Declared`."""

    def __init__(self, pods: Iterable[SeenPod], gpu_pods: frozenset[str], sizes: Mapping[str, int | None]) -> None:
        self.gangs: dict[str, Gang] = {}
        self._controllers: dict[str, set[str]] = {}
        self._living: Counter[str] = Counter()
        self._settled: Counter[str] = Counter()
        for pod in pods:
            gang = pod.gang
            if gang is None or sizes.get(gang.key) == 0:
                continue
            if gang.key in sizes:
                gang = replace(gang, size=sizes[gang.key])
            entry = self.gangs.setdefault(gang.key, gang)
            if entry.size is None and gang.size is not None:
                self.gangs[gang.key] = gang
            self._controllers.setdefault(gang.key, set()).add(_controller(pod))
            self._living[gang.key] += 1
            if pod.key not in gpu_pods:
                self._settled[gang.key] += 1

    def short_of_size(self) -> frozenset[str]:
        """Return the gangs that declare their own size and have fewer living pods than that."""
        return frozenset(k for k, g in self.gangs.items() if g.size is not None and self._living[k] < g.size)

    def succeeded(self, terminated: Iterable[SeenPod]) -> Counter[str]:
        """Return, by gang, how many of the *terminated* pods belong to it: same gang, same controller."""
        keys = [(g.key, _controller(pod)) for pod in terminated if (g := pod.gang) is not None]
        return Counter(key for key, controller in keys if controller in self._controllers.get(key, ()))

    def minimums(self, groups: Mapping[Declaration, Sequence[Json]], succeeded: Mapping[str, int]) -> dict[str, int]:
        """Return, by gang, how many GPU pods must run together; gangs without a minimum are left out. *succeeded*
        counts finished pods of gangs that declare their own size; a PodGroup counts its own."""
        of_groups = {
            (by, key_of(group)): (
                whole(section(group, "spec").get("minMember")) or 1,  # without one every pod may start alone
                whole(section(group, "status").get("succeeded")) or 0,
            )
            for by, raws in groups.items()
            for group in raws
        }
        least: dict[str, int] = {}
        for key, gang in self.gangs.items():
            size, finished = of_groups.get((gang.by, key), (gang.size, succeeded.get(key, 0)))
            if size is not None:
                least[key] = max(1, size - finished - self._settled[key])
        return least


def _controller(pod: SeenPod) -> str:
    return text(controller_of(pod.metadata), "uid")


MOST_OF_ALL = 20_000  # that all of a queue announce
VOLCANO_SETTING, KUEUE_SETTING = 'volcano.demand is "podgroups"', 'kueue.demand is "queued"'
LAST_READ_COUNTS_FOR = timedelta(minutes=10)
VOLCANO_QUEUES = ResourceKind("scheduling.volcano.sh", "queues", ("v1beta1",))
VOLCANO_JOBS = ResourceKind("batch.volcano.sh", "jobs", ("v1alpha1",))
PRIORITY_CLASSES = ResourceKind("scheduling.k8s.io", "priorityclasses", ("v1",))
WITHOUT_JOBS = "pods of pending PodGroups count without node selectors and tolerations"
WITHOUT_CLASSES = "pending PodGroups count with priority 0"
KUEUE_WORKLOADS = ResourceKind("kueue.x-k8s.io", "workloads", ("v1beta2", "v1beta1"))
KUEUE_WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
LET_THROUGH = frozenset({"QuotaReserved", "Admitted", "Finished"})
INADMISSIBLE = "Inadmissible"  # its LocalQueue or ClusterQueue is missing or stopped: no node helps

Candidate = tuple[tuple[Pod, ...], str]  # the pods of one group, and its queue


class JobWords(NamedTuple):
    """What is read of a Job: a cluster may have thousands."""

    uid: str
    waits: timedelta | None  # how long its pods may
    elsewhere: bool  # its pods start in another cluster


def _words_of(job: Json) -> JobWords:
    managed = section(job, "spec").get("managedBy") == MULTIKUEUE
    return JobWords(text(section(job, "metadata"), "uid"), patience_of(job), managed)


def understood(make: Callable[[], Announcement], key: str, warn: Callable[[str, str], None]) -> Announcement:
    """Return what *make* makes of the object *key*. An unreadable one announces nothing and is passed to *warn*: a
    malformed quantity must not stop the other entries."""
    try:
        return make()
    except TryLater as error:
        warn("queue entry not understood", f"{key}: {error}")
        return Announcement(key=key, runs=())


def bounded(announced: Sequence[Announcement], warn: Callable[[str, str], None]) -> list[Announcement]:
    """Return the entries of *announced* that count. Where they are too many, the largest are left out and passed to
    *warn*, so that no owner crowds out the others."""
    room = MOST_OF_ALL
    left_out: list[str] = []
    for size, key in sorted((min(each.total, MOST_OF_ONE), each.key) for each in announced):
        room -= size
        if room < 0:
            left_out.append(key)
    if left_out:
        warn("queue too long", f"not counted, as all announce more than {MOST_OF_ALL} pods: {listed(left_out)}")
    refused = frozenset(left_out)
    return [each for each in announced if each.key not in refused]


def _held_back(groups: Sequence[Json], untried: Sequence[Pod]) -> Iterator[Candidate]:
    """Yield the pods of *groups* that wait untried, up to each group's minimum, with the queue it waits in."""
    for group in groups:
        size = whole(section(group, "spec").get("minMember")) or 1
        members = sorted((p for p in untried if p.gang == key_of(group)), key=lambda p: p.key)
        if members:
            yield tuple(replace(p, phase=PodPhase.WAITING) for p in members[:size]), _queue_of(group)


def _announcement(group: Json, job: Json | None, priority: int, read: Reader) -> Announcement:
    runs: list[Run] = []
    first = 0
    for template, count in _templates(group, job):
        pod = announced_pod(group, template, priority=priority, read=read)
        if pod is not None:
            runs.append(Run(pod, count, first=first))
        first += count
    return Announcement(key=key_of(group), runs=tuple(runs))


def _templates(group: Json, job: Json | None) -> Iterator[tuple[Json, int]]:
    """Yield the pod templates of *group*'s minimum and how many pods each is for: its *job*'s tasks, or shares of what
    it asks for, as equal as whole units allow, the larger ones first."""
    spec = section(group, "spec")
    pods_left = whole(spec.get("minMember")) or 1
    if job is None:
        total = section(spec, "minResources")
        beside = {r: f"{-(-n // pods_left)}{'m' if r == CPU else ''}" for r, n in compute(total).items()}
        devices = gpus(total)
        for first, end in pairwise(sorted({0, pods_left, *(n % pods_left for n in devices.values())})):
            share = {r: n // pods_left + (first < n % pods_left) for r, n in devices.items()}
            yield {"spec": {"containers": [{"resources": {"requests": {**beside, **share}}}]}}, end - first
        return
    least: list[tuple[Json, int]] = []
    extras: list[tuple[Json, int]] = []
    for task in entries(section(job, "spec"), "tasks"):
        replicas = whole(task.get("replicas", 1)) or 0
        needed = min(replicas, whole(task.get("minAvailable", replicas)) or 0)
        least.append((section(task, "template"), needed))
        extras.append((section(task, "template"), replicas - needed))
    for template, wanted in (*least, *extras):
        count = min(wanted, pods_left)
        pods_left -= count
        if count:
            yield template, count


def _owning_job(group: Json) -> str:
    metadata = section(group, "metadata")
    for owner in entries(metadata, "ownerReferences"):
        if owner.get("kind") == "Job" and str(owner.get("apiVersion")).startswith(f"{VOLCANO_JOBS.group}/"):
            return f"{text(metadata, 'namespace')}/{text(owner, 'name')}"
    return ""


def _room(queue: Json, groups: Sequence[Json]) -> dict[str, int]:
    """Return the GPUs that *queue*'s capability leaves, by resource; a resource that it does not name is unbounded.
    Groups that were enqueued and have not got their GPUs yet have a claim on it too."""
    capability = section(section(queue, "spec"), "capability")
    granted, taken = gpus(capability), Counter(gpus(section(section(queue, "status"), "allocated")))
    for group in groups:
        if _phase(group) == "Inqueue" and _queue_of(group) == section(queue, "metadata").get("name"):
            with suppress(TryLater):  # one that cannot be read has no claim
                taken.update(gpus(section(section(group, "spec"), "minResources")))
    return {r: granted.get(r, 0) - taken[r] for r in capability if r.startswith(GPU_PREFIX)}


def _phase(group: Json) -> str:
    return text(section(group, "status"), "phase")


def _queue_of(group: Json) -> str:
    return text(section(group, "spec"), "queue") or "default"


class Queues:
    """The queues of Kueue and Volcano, as far as they are to be read; *read* reads the pods that they announce."""

    def __init__(self, reading: Reading, *, kueue: bool, volcano: bool) -> None:
        self._lists, self._clock, self._read = reading.lists, reading.clock, reading.pod
        self._kueue, self._volcano = kueue, volcano
        self._of_groups: dict[Declaration, dict[str, timedelta | None]] = {}  # how long pods may wait, by key
        self._of_jobs: dict[str, JobWords] = {}  # by uid
        self._read_at: dict[ResourceKind, tuple[datetime, list[Json]]] = {}  # what a queue showed last, and when
        self._unread: dict[ResourceKind, str] = {}
        self._multikueue = MultiKueue(self._lists)

    def add_to(self, facts: ClusterFacts, _living_pods: Sequence[SeenPod]) -> ClusterFacts:
        """Return *facts* with which queues count as empty because they cannot be read, and why."""
        return replace(facts, unread="; ".join(self._unread.values()))

    def groups(self, declarations: Iterable[Declaration]) -> dict[Declaration, list[Json]]:
        """Return the PodGroups behind *declarations*, without those that cannot be read, and every one of Volcano where
        its queue is to be read."""
        objects: dict[Declaration, list[Json]] = {}
        volcano = self._required(VOLCANO_GROUPS, VOLCANO_SETTING) if self._volcano else None
        if volcano is not None:
            objects[Declaration.VOLCANO] = volcano
        others = set(declarations) - ({Declaration.VOLCANO} if self._volcano else set())
        for by in sorted(others & GROUPS.keys()):
            groups = self._lists.if_readable(GROUPS[by], WITHOUT_GROUPS)
            if groups is not None:
                objects[by] = groups
        return objects

    def patient(self, pods: Sequence[Pod], groups: Mapping[Declaration, Sequence[Json]]) -> Iterator[Pod]:
        """Yield *pods*; those that wait and do not say how long they may have the patience of their PodGroup or Job.
        What was read last counts while the API server cannot tell: otherwise nodes would be bought for them."""
        self._of_groups |= {by: {key_of(g): patience_of(g) for g in raws} for by, raws in groups.items()}
        gangs = {key: waits for raws in self._of_groups.values() for key, waits in raws.items()}
        waiting = (PodPhase.WAITING, PodPhase.DEFERRED)
        job_pods = [p for p in pods if p.phase in waiting and p.wishes.may_wait is None and p.owner.startswith("Job/")]
        jobs = self._jobs() if job_pods else {}
        for pod in pods:
            waits = pod.wishes.may_wait
            if pod.phase in waiting and waits is None:
                job = jobs.get(pod.owner_uid)
                waits = gangs.get(pod.gang or "") or (job.waits if job else None)
            yield pod if waits == pod.wishes.may_wait else replace(pod, wishes=replace(pod.wishes, may_wait=waits))

    def _jobs(self) -> Mapping[str, JobWords]:
        where = (JOBS.group, *JOBS.versions, JOBS.plural)
        try:
            jobs: list[JobWords] = self._lists.every(JOBS.name, CUSTOM, *where, view=_words_of)
            self._of_jobs = {job.uid: job for job in jobs}
        except WontWork as error:
            self._of_jobs = {}
            self._lists.remarks.warn("Jobs not read", f"{error}; {WITHOUT_JOB_OBJECTS}")
        except TryLater as error:
            self._lists.remarks.warn("Jobs not read", f"{error}; what was read last counts")
        return self._of_jobs

    def waiting(
        self, living_pods: Sequence[SeenPod], groups: Sequence[Json], untried: Sequence[Pod]
    ) -> tuple[Pod, ...]:
        """Return the GPU pods that the queues hold back, most of which do not exist yet. *groups* are Volcano's
        PodGroups, *untried* the GPU pods that Volcano did not try. Never raises."""
        pods: list[Pod] = []
        if self._kueue:
            workloads = self._required(KUEUE_WORKLOADS, KUEUE_SETTING) or ()
            running = at_work(living_pods)
            warn = self._lists.remarks.warn
            queued = [w for w in workloads if _queued(w) and not names_of(w) & running]
            elsewhere = self._multikueue.sent_away(queued, self._managed_jobs)
            local_workloads = [w for w in queued if key_of(w) not in elsewhere]
            waiting = [understood(partial(announced, w, self._read), key_of(w), warn) for w in local_workloads]
            pods += [pod for announcement in bounded(waiting, warn) for pod in announcement.pods()]
        if self._volcano:
            queues = self._required(VOLCANO_QUEUES, VOLCANO_SETTING) or ()
            pods += self._of_volcano(living_pods, groups, queues, untried)
        return tuple(pods)

    def _managed_jobs(self) -> frozenset[str]:
        return frozenset(job.uid for job in self._jobs().values() if job.elsewhere)

    def _of_volcano(
        self, living_pods: Iterable[SeenPod], groups: Sequence[Json], queues: Sequence[Json], untried: Sequence[Pod]
    ) -> list[Pod]:
        """Return the pods of pending *groups*, as far as their queue's capability goes. A group without pods among
        *living_pods* is announced by its minimum, one with pods waits with those *untried*. Volcano never enqueues a
        group beyond the capability, or in a queue that is not open: nodes would not help it. Higher priority first,
        then the oldest; one that does not fit lets smaller ones pass."""
        alive = {pod.volcano_group for pod in living_pods}
        pending = [
            g  # a new group has no phase yet
            for g in groups
            if _phase(g) in ("", "Pending") and not section(g, "metadata").get("deletionTimestamp")
        ]
        candidates = [
            *self._minimums([g for g in pending if key_of(g) not in alive]),
            *_held_back([g for g in pending if key_of(g) in alive], untried),
        ]
        room = {
            text(section(queue, "metadata"), "name"): _room(queue, groups)
            for queue in queues
            if section(queue, "status").get("state") in (None, "", "Open")
        }
        announced_pods: list[Pod] = []
        for pods, queue in sorted(candidates, key=lambda c: (-c[0][0].priority, c[0][0].created_at, c[0][0].key)):
            capacity = room.get(queue)
            needed: Counter[str] = Counter()
            for pod in pods:
                needed.update(pod.requests)
            if capacity is None or any(needed[resource] > free for resource, free in capacity.items()):
                continue
            capacity.update({resource: free - needed[resource] for resource, free in capacity.items()})
            announced_pods += pods
        return announced_pods

    def _minimums(self, groups: Sequence[Json]) -> list[Candidate]:
        """Return the minimum of pods of each of *groups* that asks for GPUs, with the queue it waits in."""
        read, jobs, priorities = self._lists.if_readable, dict[str, Json](), dict[str, int]()
        if any(_owning_job(g) for g in groups):
            jobs = {key_of(j): j for j in read(VOLCANO_JOBS, WITHOUT_JOBS) or ()}
        if any(section(g, "spec").get("priorityClassName") for g in groups):
            classes = read(PRIORITY_CLASSES, WITHOUT_CLASSES) or ()
            priorities = {text(section(c, "metadata"), "name"): int(c.get("value") or 0) for c in classes}
        minimums: list[tuple[Announcement, str]] = []
        for group in groups:
            priority = priorities.get(text(section(group, "spec"), "priorityClassName"), 0)
            announce = partial(_announcement, group, jobs.get(_owning_job(group)), priority, self._read)
            announcement = understood(announce, key_of(group), self._lists.remarks.warn)
            if announcement.total:
                minimums.append((announcement, _queue_of(group)))
        counted = frozenset(a.key for a in bounded([a for a, _ in minimums], self._lists.remarks.warn))
        return [(a.pods(), queue) for a, queue in minimums if a.key in counted]

    def _required(self, kind: ResourceKind, setting: str) -> list[Json] | None:
        """Return every object of *kind*, which *setting* asks for. While the API server fails, what was read last
        counts for a while. After that, and where it refuses, None: no more is known than without the queue."""
        now = self._clock.now()
        try:
            objects = self._lists.every_of(kind)
        except TryLater as error:
            since, last = self._read_at.setdefault(kind, (now, []))
            if timedelta(0) <= now - since < LAST_READ_COUNTS_FOR:
                self._lists.remarks.warn("queue not read", f"{error}; what was read last counts")
                return last
            self._not_read(kind, setting, f"{error}")
            return None
        except WontWork as error:
            rule = f'apiGroups: ["{kind.group}"], resources: ["{kind.plural}"], verbs: ["list"]'
            remedy = {NOT_FOUND: ": install it or change that", FORBIDDEN: f": the ClusterRole needs {rule}"}
            self._read_at.pop(kind, None)
            self._not_read(kind, setting, f"{error}{remedy.get(error.code, '')}")
            return None
        self._read_at[kind] = now, objects
        self._unread.pop(kind, None)
        return objects

    def _not_read(self, kind: ResourceKind, setting: str, reason: str) -> None:
        self._unread[kind] = f"{setting}, and {kind.name} cannot be read: {reason}"
        self._lists.remarks.warn("queue not read", self._unread[kind])


def _queued(workload: Json) -> bool:
    if section(workload, "spec").get("active") is False or section(workload, "metadata").get("deletionTimestamp"):
        return False
    return not any(
        str(c.get("type")) in LET_THROUGH and (c.get("status") == "True" or c.get("reason") == INADMISSIBLE)
        for c in entries(section(workload, "status"), "conditions")
    )


def announced(workload: Json, read: Reader = BY_RESOURCES) -> Announcement:
    """Return what a Workload of Kueue announces."""
    spec = section(workload, "spec")
    freed = {r.get("name"): whole(r.get("count")) or 0 for r in entries(section(workload, "status"), "reclaimablePods")}
    runs: list[Run] = []
    dispensable = 0
    for pod_set in entries(spec, "podSets"):
        name = text(pod_set, "name") or "main"
        count = max(0, (whole(pod_set.get("count", 1)) or 0) - freed.get(name, 0))
        pod = announced_pod(workload, section(pod_set, "template"), priority=spec.get("priority") or 0, read=read)
        if pod is not None and count:
            runs.append(Run(pod, count, prefix=f"{name}-"))
            dispensable += max(0, count - (whole(pod_set.get("minCount")) or count))
    least = sum(run.count for run in runs) - dispensable if dispensable else None
    return Announcement(key=key_of(workload), runs=tuple(runs), least=least)


def names_of(workload: Json) -> set[str]:
    """Return what pods of *workload* are known by: its own key, and the uids of its owners."""
    owners = {text(o, "uid") for o in entries(section(workload, "metadata"), "ownerReferences")}
    return owners - {""} | {key_of(workload)}


def at_work(living_pods: Sequence[SeenPod]) -> set[str]:
    """Return the names of all workloads whose pods exist, which are counted themselves. Kueue takes quota away from
    a Workload before its pods are gone, and they must not be counted twice."""
    names: set[str] = set()
    for pod in living_pods:
        if pod.spec.get("schedulingGates") or pod.leaving:
            continue
        groups = (pod.labels.get(KUEUE_LABEL), pod.annotations.get(KUEUE_WORKLOAD_ANNOTATION))
        names |= {f"{pod.namespace}/{name}" for name in groups if name}
        names |= {text(r, "uid") for r in (pod.metadata, *entries(pod.metadata, "ownerReferences"))}
    return names - {""}
