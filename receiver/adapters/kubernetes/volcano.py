"""Volcano's PodGroups without pods: its default creates a group's pods only once the group may be enqueued."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from receiver.adapters.kubernetes.announced_pods import Announcement, Run, announced_pod, bounded, understood
from receiver.adapters.kubernetes.api import CustomResources, ResourceKind
from receiver.adapters.kubernetes.gangs import volcano_group_of, whole
from receiver.adapters.kubernetes.nodes import GPU_PREFIX, compute, entries, gpus, key_of, section
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.resources import CPU
from receiver.ports import TryLater

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
