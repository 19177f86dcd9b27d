"""The metrics of Kueue's controller for the Workloads in the simulator (names and labels of 0.19).

A LocalQueue feeds the ClusterQueue of its name unless the Workload's admission names another. A Workload waits until it
has the condition QuotaReserved; its wait ends with the condition Admitted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from simulator.exposition import Family

JSON = Mapping[str, Any]
ROLE = {"replica_role": "leader"}
STATES = ("active", "inadmissible")
# Seconds, as a client in Go writes them: an integer without a point, which Prometheus 3 then stores as a float.
WAIT_BOUNDS = ("1", *(f"{2.5 * 2**n:g}" for n in range(13)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Queued:
    """A Workload as the metrics see it. *state* is ``active`` or ``inadmissible`` while it waits, ``admitted`` while it
    runs, else empty; *waited* seconds until its admission, None before it."""

    queue: str
    local: str
    namespace: str
    state: str
    priority_class: str
    asks: Counter[str]
    waited: float | None


def kueue(workloads: Sequence[JSON]) -> list[Family]:
    """Return the families; with no Workload there is nothing in them, as where Kueue is not installed."""
    known = [_read(workload) for workload in workloads]
    waiting = [w for w in known if w.state in STATES]
    return [*_depths(known, waiting), _asked(known, waiting), _waits(known)]


def _depths(known: Sequence[_Queued], waiting: Sequence[_Queued]) -> Iterator[Family]:
    pending = Family("kueue_pending_workloads", "The number of pending workloads, per 'cluster_queue' and 'status'.")
    active = Family("kueue_admitted_active_workloads", "The number of admitted Workloads that are active.")
    counts = Counter((w.queue, w.state) for w in known)
    for queue in sorted({w.queue for w in known}):
        for state in STATES:
            pending.add(counts[queue, state], cluster_queue=queue, status=state, **ROLE)
        active.add(counts[queue, "admitted"], cluster_queue=queue, **ROLE)
    local = Family("kueue_local_queue_pending_workloads", "The number of pending workloads, per 'local_queue'.")
    for (name, namespace, state), count in sorted(Counter((w.local, w.namespace, w.state) for w in waiting).items()):
        local.add(count, name=name, namespace=namespace, status=state, **ROLE)
    yield from (pending, active, local)


def _asked(known: Sequence[_Queued], waiting: Sequence[_Queued]) -> Family:
    family = Family("kueue_cluster_queue_resource_pending", "The total resources pending in the ClusterQueue.")
    totals = {(w.queue, resource): 0 for w in known for resource in w.asks}
    for workload in waiting:
        for resource, amount in workload.asks.items():
            totals[workload.queue, resource] += amount
    for (queue, resource), amount in sorted(totals.items()):
        family.add(amount, cluster_queue=queue, resource=resource, **ROLE)
    return family


def _waits(known: Sequence[_Queued]) -> Family:
    text = "The time between a workload was created or requeued until admission, per 'cluster_queue'"
    family = Family("kueue_admission_wait_time_seconds", text, "histogram")
    seen: dict[tuple[str, str], list[float]] = {}
    for workload in known:
        if workload.waited is not None:
            seen.setdefault((workload.queue, workload.priority_class), []).append(workload.waited)
    for (queue, priority_class), waits in sorted(seen.items()):
        family.observe({"cluster_queue": queue, "priority_class": priority_class, **ROLE}, WAIT_BOUNDS, waits)
    return family


def _read(workload: JSON) -> _Queued:
    metadata, spec, status = workload["metadata"], workload.get("spec") or {}, workload.get("status") or {}
    conditions = {str(c.get("type")): c for c in status.get("conditions") or ()}
    local = str(spec.get("queueName") or "")
    waited = None
    if _holds(conditions, "Admitted"):
        since = conditions["Admitted"].get("lastTransitionTime") or metadata["creationTimestamp"]
        waited = max(0.0, (_moment(since) - _moment(metadata["creationTimestamp"])).total_seconds())
    return _Queued(
        queue=str((status.get("admission") or {}).get("clusterQueue") or local),
        local=local,
        namespace=str(metadata.get("namespace") or "default"),
        state=_state(spec, conditions),
        priority_class=str((spec.get("priorityClassRef") or {}).get("name") or spec.get("priorityClassName") or ""),
        asks=asks(spec.get("podSets") or ()),
        waited=waited,
    )


def _state(spec: JSON, conditions: Mapping[str, JSON]) -> str:
    if _holds(conditions, "Finished") or spec.get("active") is False:
        return ""
    if _holds(conditions, "Admitted"):
        return "admitted"
    if _holds(conditions, "QuotaReserved"):
        return ""
    return "inadmissible" if (conditions.get("QuotaReserved") or {}).get("reason") == "Inadmissible" else "active"


def _holds(conditions: Mapping[str, JSON], kind: str) -> bool:
    return (conditions.get(kind) or {}).get("status") == "True"


def _moment(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


def asks(pod_sets: Sequence[JSON]) -> Counter[str]:
    """The requests of a Workload's pods in whole units, without CPU and memory."""
    found: Counter[str] = Counter()
    for pods in pod_sets:
        for container in ((pods.get("template") or {}).get("spec") or {}).get("containers") or ():
            given = container.get("resources") or {}
            for resource, amount in {**(given.get("limits") or {}), **(given.get("requests") or {})}.items():
                if "/" in resource:
                    found[resource] += int(amount) * int(pods.get("count", 1))
    return found
