"""Workloads that MultiKueue sends to another cluster. On its manager they wait here, and their pods start there.

By kubernetes-sigs/kueue, ``pkg/controller/admissionchecks/multikueue``: a ClusterQueue whose AdmissionCheck has its
controller name sends every Workload, and a Job that it manages (KEP-4368) starts no pod here.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from receiver.adapters.kubernetes.api import Json, entries, key_of, section, text
from receiver.adapters.kubernetes.budget_hold import CLUSTER_QUEUES
from receiver.adapters.kubernetes.reflector import Lists, ResourceKind
from receiver.core.model.text import listed

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
VERSIONS = ("v1beta2", "v1beta1")
CHECKS = ResourceKind("kueue.x-k8s.io", "admissionchecks", VERSIONS)
LOCAL_QUEUES = ResourceKind("kueue.x-k8s.io", "localqueues", VERSIONS)
WITHOUT_CHECKS = "queued Workloads that MultiKueue sends to other clusters buy nodes here"
WITHOUT_QUEUES = "no queued Workload buys nodes, as MultiKueue may send it to another cluster"


class MultiKueue:
    """The Workloads that it sends away. Checks that were read last count while they cannot be read."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._checks: frozenset[str] = frozenset()

    def sent_away(self, workloads: Sequence[Json], managed_jobs: Callable[[], Collection[str]]) -> frozenset[str]:
        """Return the keys of those of *workloads* that run in another cluster, or may: where a check of MultiKueue
        exists and its queues cannot be read, that is all of them. *managed_jobs* returns the uids of the Jobs that
        other clusters run, and is called where a Job owns one of *workloads*. Never raises."""
        if not workloads:
            return frozenset()
        checks = self._lists.if_readable(CHECKS, WITHOUT_CHECKS)
        self._checks = self._checks if checks is None else checks_of(checks)
        keys = _of_jobs(workloads, managed_jobs)
        if self._checks:
            in_queue = self._queue_test()
            keys |= {key_of(w) for w in workloads if names_one_of(self._checks, w) or in_queue(w)}
        if keys:
            detail = f"{listed(sorted(keys))}: no node is bought here, as their pods start in another cluster"
            self._lists.remarks.warn("Workloads of MultiKueue", detail)
        return frozenset(keys)

    def _queue_test(self) -> Callable[[Json], bool]:
        """Return what says whether the queue of a Workload has one of the checks."""
        cluster_queues = self._lists.if_readable(CLUSTER_QUEUES, WITHOUT_QUEUES)
        local_queues = self._lists.if_readable(LOCAL_QUEUES, WITHOUT_QUEUES)
        if cluster_queues is None or local_queues is None:
            return lambda _: True
        senders = [text(section(q, "metadata"), "name") for q in cluster_queues if _checks_in(q) & self._checks]
        queues = {key_of(queue) for queue in local_queues if text(section(queue, "spec"), "clusterQueue") in senders}
        return lambda workload: _queue_of(workload) in queues


def checks_of(checks: Iterable[Json]) -> frozenset[str]:
    """Return the names of those of *checks* (AdmissionCheck) that MultiKueue answers."""
    ours = (check for check in checks if section(check, "spec").get("controllerName") == MULTIKUEUE)
    return frozenset(text(section(check, "metadata"), "name") for check in ours)


def names_one_of(checks: frozenset[str], workload: Json) -> bool:
    """True when the status of *workload* has one of *checks*."""
    return any(text(entry, "name") in checks for entry in entries(section(workload, "status"), "admissionChecks"))


def _checks_in(cluster_queue: Json) -> frozenset[str]:
    """The checks of a ClusterQueue: a list of names in v1beta1, a strategy in both versions."""
    spec = section(cluster_queue, "spec")
    names = spec.get("admissionChecks")
    rules = entries(section(spec, "admissionChecksStrategy"), "admissionChecks")
    return frozenset([*(map(str, names) if isinstance(names, list) else ()), *(text(rule, "name") for rule in rules)])


def _queue_of(workload: Json) -> str:
    return f"{text(section(workload, 'metadata'), 'namespace')}/{text(section(workload, 'spec'), 'queueName')}"


def _of_jobs(workloads: Sequence[Json], managed_jobs: Callable[[], Collection[str]]) -> set[str]:
    """The keys of those of *workloads* whose Job another cluster runs."""
    owners = {key_of(w): _job_of(w) for w in workloads}
    managed = managed_jobs() if any(owners.values()) else ()
    return {key for key, uid in owners.items() if uid in managed}


def _job_of(workload: Json) -> str:
    owners = entries(section(workload, "metadata"), "ownerReferences")
    jobs = [o for o in owners if o.get("kind") == "Job" and str(o.get("apiVersion")).startswith("batch/")]
    return text(jobs[0], "uid") if jobs else ""
