"""What Kueue's controller says about the Workloads that were put into the simulator (names and labels of 0.19).

A LocalQueue's name stands for its ClusterQueue's as well. A Workload waits until it has the condition QuotaReserved;
its wait ends with the condition Admitted.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from simulator.exposition import Family

JSON = Mapping[str, Any]
ROLE = {"replica_role": "leader"}
BOUNDS = (1.0, 2.5, *(5.0 * 2**n for n in range(13)))  # seconds


def kueue(workloads: Sequence[JSON]) -> list[Family]:
    """Return the families; with no Workload there is none, as where Kueue is not installed."""
    pending = Family("kueue_pending_workloads", "Number of pending workloads, per 'cluster_queue' and 'status'.")
    asked = Family("kueue_cluster_queue_resource_pending", "Resources that pending workloads ask for.")
    queues = sorted({_queue(w) for w in workloads})
    waiting = [w for w in workloads if _since(w, "QuotaReserved") is None and _since(w, "Finished") is None]
    for queue in queues:
        there = [w for w in waiting if _queue(w) == queue]
        for status, count in (("active", len(there)), ("inadmissible", 0)):
            pending.put({"cluster_queue": queue, "status": status, **ROLE}, count)
        for resource in sorted({r for w in workloads if _queue(w) == queue for r, _ in _requests(w)}):
            total = sum(n for w in there for r, n in _requests(w) if r == resource)
            asked.put({"cluster_queue": queue, "resource": resource, **ROLE}, total)
    return [pending, asked, *_waits(workloads)]


def _waits(workloads: Sequence[JSON]) -> Sequence[Family]:
    name, text = "kueue_admission_wait_time_seconds", "The time from creation until admission."
    buckets, total, count = (Family(f"{name}_{part}", text, "counter") for part in ("bucket", "sum", "count"))
    waits: dict[tuple[str, str], list[float]] = {}
    for workload in workloads:
        admitted = _since(workload, "Admitted")
        if admitted is not None:
            key = _queue(workload), str((workload.get("spec") or {}).get("priorityClassName") or "")
            created = datetime.fromisoformat(workload["metadata"]["creationTimestamp"])
            waits.setdefault(key, []).append(max(0.0, (admitted - created).total_seconds()))
    for (queue, priority_class), seconds in sorted(waits.items()):
        labels = {"cluster_queue": queue, "priority_class": priority_class, **ROLE}
        for bound in (*BOUNDS, float("inf")):
            le = "+Inf" if bound == float("inf") else f"{bound:g}"
            buckets.put({**labels, "le": le}, sum(s <= bound for s in seconds))
        total.put(labels, sum(seconds))
        count.put(labels, len(seconds))
    return buckets, total, count


def _queue(workload: JSON) -> str:
    return str((workload.get("spec") or {}).get("queueName") or "")


def _since(workload: JSON, condition: str) -> datetime | None:
    for found in (workload.get("status") or {}).get("conditions") or ():
        if found.get("type") == condition and found.get("status") == "True":
            return datetime.fromisoformat(found["lastTransitionTime"])
    return None


def _requests(workload: JSON) -> Iterator[tuple[str, int]]:
    for pods in (workload.get("spec") or {}).get("podSets") or ():
        for container in pods["template"]["spec"]["containers"]:
            for resource, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                if str(amount).isdigit():
                    yield resource, int(pods.get("count", 1)) * int(amount)
