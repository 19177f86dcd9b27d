"""Demand that a queue holds back: pods that Kueue or Volcano lets through only once there is room for them.

Both are read only where the configuration asks for it, and then they must be readable: demand that cannot be seen
would otherwise look like no demand.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from typing import Any

from receiver.adapters.kubernetes.api import NOT_FOUND, entries, key_of, section
from receiver.adapters.kubernetes.gangs import KUEUE_LABEL, VOLCANO_GROUPS, volcano_group_of, whole
from receiver.adapters.kubernetes.nodes import GPU_PREFIX, compute, gpus, words
from receiver.adapters.kubernetes.pods import pod_from
from receiver.adapters.kubernetes.reflector import CustomResources, ResourceKind
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.resources import CPU
from receiver.core.notices.wording import named
from receiver.ports import TryLater, WontWork

MOST_OF_ONE = 1_000  # pods that one object announces: room for a gang is looked for pod by pod and node by node
MOST_OF_ALL = 20_000  # that all of a queue announce


@dataclass(frozen=True, slots=True)
class Run:
    """*count* pods like *pod*, which are called by its name, *prefix* and a number from *first* on."""

    pod: Pod
    count: int
    prefix: str = ""
    first: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What the object *key* announces, of which *least* must run together (None: all)."""

    key: str
    runs: tuple[Run, ...]
    least: int | None = None

    @property
    def total(self) -> int:
        """How many pods are announced."""
        return sum(run.count for run in self.runs)

    @property
    def listed(self) -> int:
        """How many of them are made."""
        return min(self.total, MOST_OF_ONE)

    def pods(self) -> tuple[Pod, ...]:
        """Return them; of too many the first, which then wait for the others as those of an unfinished gang do."""
        found = tuple(islice(self._pods(), MOST_OF_ONE))
        if len(found) <= 1:  # a single pod is no gang
            return found
        least = self.total if self.least is None and self.total > len(found) else self.least
        return tuple(replace(p, gang=self.key, gang_min=least) for p in found)

    def _pods(self) -> Iterator[Pod]:
        for run in self.runs:
            for n in range(run.first, run.first + run.count):
                yield replace(run.pod, name=f"{run.pod.name}/{run.prefix}{n}")


def announced_pod(origin: Mapping[str, Any], template: Mapping[str, Any], *, priority: int) -> Pod | None:
    """Return a waiting GPU pod of *template* (PodTemplateSpec v1 core), or None for one without GPUs.

    It has namespace, name, age and owner of *origin*, the object that announces it, and no uid: there is
    nothing yet that an Event could be left on.
    """
    metadata, described = section(origin, "metadata"), section(template, "metadata")
    inherited = ("namespace", "name", "creationTimestamp", "ownerReferences")
    own = {name: metadata[name] for name in inherited if name in metadata}
    said = {name: described[name] for name in ("labels", "annotations") if name in described}
    pod = pod_from({"metadata": {**said, **own}, "spec": {**section(template, "spec"), "nodeName": None}})
    return None if pod is None else replace(pod, phase=PodPhase.WAITING, priority=priority, gang=None, gang_min=None)


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
    counted: set[str] = set()
    left_out: list[str] = []
    for each in sorted(announced, key=lambda a: (a.listed, a.key)):
        room -= each.listed
        if room < 0:
            left_out.append(each.key)
        else:
            counted.add(each.key)
    if left_out:
        warn("queue too long", f"not counted, as all announce more than {MOST_OF_ALL} pods: {named(left_out)}")
    return [each for each in announced if each.key in counted]


VOLCANO_QUEUES = ResourceKind("scheduling.volcano.sh", "queues", ("v1beta1",))
VOLCANO_JOBS = ResourceKind("batch.volcano.sh", "jobs", ("v1alpha1",))
PRIORITY_CLASSES = ResourceKind("scheduling.k8s.io", "priorityclasses", ("v1",))
DEFAULT_QUEUE = "default"
PENDING = ("", "Pending")  # a new group has no phase yet
Candidate = tuple[tuple[Pod, ...], str]  # the pods of one group, and its queue
WITHOUT_JOBS = "pods of pending PodGroups count without node selectors and tolerations"
WITHOUT_CLASSES = "pending PodGroups count with priority 0"


class VolcanoQueues:
    """Reads what belongs to pending groups: the Jobs that own them and their priority classes, where it may."""

    def __init__(self, resources: CustomResources) -> None:
        self._resources = resources

    def waiting(
        self,
        raws: Sequence[Mapping[str, Any]],
        groups: Sequence[Mapping[str, Any]],
        queues: Sequence[Mapping[str, Any]],
        untried: Sequence[Pod],
    ) -> list[Pod]:
        """Return the pods of pending *groups*, as far as their queue's capability goes.

        A group without pods among *raws* is announced by its minimum, one with pods waits with those *untried*.
        Volcano never enqueues a group beyond the capability, or in a queue that is not open: nodes would not
        help it. Higher priority first, then the oldest; one that does not fit lets smaller ones pass.
        """
        alive = {volcano_group_of(raw) for raw in raws}
        pending = [g for g in groups if _phase(g) in PENDING and not section(g, "metadata").get("deletionTimestamp")]
        candidates = [
            *self._announced([g for g in pending if key_of(g) not in alive]),
            *_held_back([g for g in pending if key_of(g) in alive], untried),
        ]
        room = {str(section(q, "metadata").get("name")): _room(q, groups) for q in queues if _open(q)}
        found: list[Pod] = []
        for pods, queue in sorted(candidates, key=lambda c: (-c[0][0].priority, c[0][0].created_at, c[0][0].key)):
            left = room.get(queue)
            needed: Counter[str] = Counter()
            for pod in pods:
                needed.update(pod.requests)
            if left is None or any(needed[resource] > free for resource, free in left.items()):
                continue
            left.update({resource: free - needed[resource] for resource, free in left.items()})
            found += pods
        return found

    def _announced(self, groups: Sequence[Mapping[str, Any]]) -> list[Candidate]:
        """Return the minimum of pods of each of *groups* that asks for GPUs, with the queue it waits in."""
        jobs = self._jobs() if any(_owning_job(g) for g in groups) else {}
        named = any(section(g, "spec").get("priorityClassName") for g in groups)
        priorities = self._priorities() if named else {}
        found: list[tuple[Announcement, str]] = []
        for group in groups:
            priority = priorities.get(str(section(group, "spec").get("priorityClassName")), 0)
            made = partial(_announcement, group, jobs.get(_owning_job(group)), priority)
            announcement = understood(made, key_of(group), self._resources.warn)
            if announcement.total:
                found.append((announcement, _queue_of(group)))
        counted = frozenset(a.key for a in bounded([a for a, _ in found], self._resources.warn))
        return [(a.pods(), queue) for a, queue in found if a.key in counted]

    def _jobs(self) -> dict[str, Mapping[str, Any]]:
        return {key_of(j): j for j in self._resources.if_readable(VOLCANO_JOBS, WITHOUT_JOBS) or ()}

    def _priorities(self) -> dict[str, int]:
        classes = self._resources.if_readable(PRIORITY_CLASSES, WITHOUT_CLASSES) or ()
        return {str(section(c, "metadata").get("name")): int(c.get("value") or 0) for c in classes}


def _held_back(groups: Sequence[Mapping[str, Any]], untried: Sequence[Pod]) -> list[Candidate]:
    """Return the pods of *groups* that wait untried, up to each group's minimum, with the queue it waits in."""
    found: list[Candidate] = []
    for group in groups:
        size = whole(section(group, "spec").get("minMember")) or 1
        members = sorted((p for p in untried if p.gang == key_of(group)), key=lambda p: p.key)
        if members:
            waiting = tuple(replace(p, phase=PodPhase.WAITING) for p in members[:size])
            found.append((waiting, _queue_of(group)))
    return found


def _announcement(group: Mapping[str, Any], job: Mapping[str, Any] | None, priority: int) -> Announcement:
    """Return the GPU pods of *group*'s minimum, numbered as its pods are."""
    runs: list[Run] = []
    first = 0
    for template, count in _templates(group, job):
        pod = announced_pod(group, template, priority=priority)
        if pod is not None:
            runs.append(Run(pod, count, first=first))
        first += count
    return Announcement(key=key_of(group), runs=tuple(runs))


def _templates(group: Mapping[str, Any], job: Mapping[str, Any] | None) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield the pod templates of *group*'s minimum and how many pods each is for: its *job*'s tasks, or equal shares
    of what it asks for."""
    spec = section(group, "spec")
    left = whole(spec.get("minMember")) or 1
    if job is None:
        total = section(spec, "minResources")
        beside = {r: f"{-(-n // left)}{'m' if r == CPU else ''}" for r, n in compute(total).items()}
        for share, count in _shares(gpus(total), left):
            yield {"spec": {"containers": [{"resources": {"requests": {**beside, **share}}}]}}, count
        return
    first: list[tuple[Mapping[str, Any], int]] = []
    rest: list[tuple[Mapping[str, Any], int]] = []
    for task in entries(section(job, "spec"), "tasks"):
        replicas = whole(task.get("replicas", 1)) or 0
        least = min(replicas, whole(task.get("minAvailable", replicas)) or 0)
        first.append((section(task, "template"), least))
        rest.append((section(task, "template"), replicas - least))
    for template, wanted in (*first, *rest):
        count = min(wanted, left)
        left -= count
        if count:
            yield template, count


def _shares(total: Mapping[str, int], parts: int) -> Iterator[tuple[dict[str, int], int]]:
    """Yield *total* in *parts* as equal as whole units allow, the larger ones first, and how many are alike."""
    changes = sorted({0, parts, *(n % parts for n in total.values())})
    for first, end in pairwise(changes):
        yield {r: n // parts + (first < n % parts) for r, n in total.items()}, end - first


def _owning_job(group: Mapping[str, Any]) -> str:
    """Return the key of the Volcano Job that *group* belongs to, or an empty string."""
    metadata = section(group, "metadata")
    for owner in entries(metadata, "ownerReferences"):
        if owner.get("kind") == "Job" and str(owner.get("apiVersion")).startswith(f"{VOLCANO_JOBS.group}/"):
            return f"{metadata.get('namespace') or ''}/{owner.get('name') or ''}"
    return ""


def _room(queue: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the GPUs that *queue*'s capability leaves, by resource; a resource that it does not name is unbounded.

    Groups that were enqueued and have not got their GPUs yet have a claim on it too.
    """
    capability = section(section(queue, "spec"), "capability")
    granted, allocated = gpus(capability), gpus(section(section(queue, "status"), "allocated"))
    taken = Counter(allocated)
    for group in groups:
        if _phase(group) == "Inqueue" and _queue_of(group) == section(queue, "metadata").get("name"):
            with suppress(TryLater):  # one that cannot be read has no claim
                taken.update(gpus(section(section(group, "spec"), "minResources")))
    return {r: granted.get(r, 0) - taken[r] for r in capability if r.startswith(GPU_PREFIX)}


def _open(queue: Mapping[str, Any]) -> bool:
    return section(queue, "status").get("state") in (None, "", "Open")


def _phase(group: Mapping[str, Any]) -> str:
    return str(section(group, "status").get("phase") or "")


def _queue_of(group: Mapping[str, Any]) -> str:
    return str(section(group, "spec").get("queue") or DEFAULT_QUEUE)


KUEUE_WORKLOADS = ResourceKind("kueue.x-k8s.io", "workloads", ("v1beta2", "v1beta1"))
KUEUE_WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
LET_THROUGH = frozenset({"QuotaReserved", "Admitted", "Finished"})
INADMISSIBLE = "Inadmissible"  # its LocalQueue or ClusterQueue is missing or stopped: no node helps
KUEUE_SETTING = 'kueue.demand is "queued"'
VOLCANO_SETTING = 'volcano.demand is "podgroups"'


class Queues:
    """The queues of Kueue and Volcano, as far as they are to be read."""

    def __init__(self, resources: CustomResources, *, kueue: bool, volcano: bool) -> None:
        self._resources = resources
        self._kueue = kueue
        self._volcano = VolcanoQueues(resources) if volcano else None

    def volcano_groups(self) -> list[Mapping[str, Any]] | None:
        """Return every PodGroup of Volcano, or None where its queue is not to be read."""
        return self._required(VOLCANO_GROUPS, VOLCANO_SETTING) if self._volcano else None

    def waiting(
        self, raws: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]], untried: Sequence[Pod]
    ) -> tuple[Pod, ...]:
        """Return the GPU pods that the queues hold back, most of which do not exist yet.

        *raws* are the living pods, *groups* Volcano's PodGroups, *untried* the GPU pods that Volcano did not try.
        Raises WontWork with the rule to grant, or TryLater, when a queue cannot be read.
        """
        found: list[Pod] = []
        if self._kueue:
            workloads = self._required(KUEUE_WORKLOADS, KUEUE_SETTING)
            at_work = _at_work(raws)
            warn = self._resources.warn
            queued = [w for w in workloads if _queued(w) and not _names(w) & at_work]
            waiting = [understood(partial(_announced, w), key_of(w), warn) for w in queued]
            found += [pod for announcement in bounded(waiting, warn) for pod in announcement.pods()]
        if self._volcano:
            queues = self._required(VOLCANO_QUEUES, VOLCANO_SETTING)
            found += self._volcano.waiting(raws, groups, queues, untried)
        return tuple(found)

    def _required(self, kind: ResourceKind, setting: str) -> list[Mapping[str, Any]]:
        try:
            return self._resources.every(kind)
        except WontWork as error:
            rule = f'apiGroups: ["{kind.group}"], resources: ["{kind.plural}"], verbs: ["list"]'
            remedy = "install it or change that" if error.code == NOT_FOUND else f"the ClusterRole needs {rule}"
            raise WontWork(f"{error}; {setting}: {remedy}", code=error.code) from error


def _queued(workload: Mapping[str, Any]) -> bool:
    """True for a Kueue Workload that waits for quota."""
    if section(workload, "spec").get("active") is False or section(workload, "metadata").get("deletionTimestamp"):
        return False
    for condition in entries(section(workload, "status"), "conditions"):
        kind, holds = str(condition.get("type")), condition.get("status") == "True"
        if kind in LET_THROUGH and (holds or condition.get("reason") == INADMISSIBLE):
            return False
    return True


def _announced(workload: Mapping[str, Any]) -> Announcement:
    """Return the GPU pods that *workload* will have, less those whose work is done already."""
    spec = section(workload, "spec")
    done = {r.get("name"): whole(r.get("count")) or 0 for r in entries(section(workload, "status"), "reclaimablePods")}
    runs: list[Run] = []
    dispensable = 0
    for pod_set in entries(spec, "podSets"):
        name = str(pod_set.get("name") or "main")
        count = max(0, (whole(pod_set.get("count", 1)) or 0) - done.get(name, 0))
        pod = announced_pod(workload, section(pod_set, "template"), priority=spec.get("priority") or 0)
        if pod is not None and count:
            runs.append(Run(pod, count, prefix=f"{name}-"))
            dispensable += max(0, count - (whole(pod_set.get("minCount")) or count))
    least = sum(run.count for run in runs) - dispensable if dispensable else None
    return Announcement(key=key_of(workload), runs=tuple(runs), least=least)


def _names(workload: Mapping[str, Any]) -> frozenset[str]:
    """Return what pods of *workload* are known by: its own key, and the uids of its owners."""
    owners = {str(o.get("uid") or "") for o in entries(section(workload, "metadata"), "ownerReferences")}
    return frozenset(owners - {""} | {key_of(workload)})


def _at_work(raws: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names of all workloads whose pods exist, which are counted themselves.

    Kueue takes quota away from a Workload before its pods are gone, and they must not be counted twice.
    """
    found: set[str] = set()
    for raw in raws:
        metadata = section(raw, "metadata")
        if section(raw, "spec").get("schedulingGates") or metadata.get("deletionTimestamp"):
            continue
        namespace = metadata.get("namespace") or ""
        labels, annotations = words(metadata, "labels"), words(metadata, "annotations")
        groups = (labels.get(KUEUE_LABEL), annotations.get(KUEUE_WORKLOAD_ANNOTATION))
        found |= {f"{namespace}/{name}" for name in groups if name}
        found |= {str(r.get("uid") or "") for r in (metadata, *entries(metadata, "ownerReferences"))}
    return frozenset(found - {""})
