"""Demand that a queue holds back: pods that Kueue or Volcano lets through only once there is room for them.

Both are read only where the configuration asks for it, and then they must be readable: demand that cannot be seen
would otherwise look like no demand.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from receiver.adapters.kubernetes.announced_pods import Announcement, Run, announced_pod, bounded, understood
from receiver.adapters.kubernetes.api import CustomResources, ResourceKind
from receiver.adapters.kubernetes.gangs import KUEUE_LABEL, VOLCANO_GROUPS, whole
from receiver.adapters.kubernetes.nodes import entries, key_of, section, words
from receiver.adapters.kubernetes.volcano import VOLCANO_QUEUES, VolcanoQueues
from receiver.adapters.kubernetes.wire import NOT_FOUND
from receiver.core.model.pods import Pod
from receiver.ports import WontWork

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
    """Return the names of all that has pods beyond the queue, which speak for themselves.

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
