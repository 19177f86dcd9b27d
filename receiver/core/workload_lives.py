"""When workloads were asked for, bound and gone, and whose they are: from the pods that are seen now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from receiver.core.activity import Sample
from receiver.core.memory import NodeLife
from receiver.core.model import Node
from receiver.core.pods import Pod
from receiver.core.policy import Attribution, Policy
from receiver.core.usage import Accounted, Ended, Owner, WorkloadLife, workload_name

# After a longer pause pods may have come and gone. Two accountings, a slow step and a restart fit into it.
CONTINUOUS = timedelta(minutes=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a step saw at *at*: every node life, the nodes of the configured pools, every GPU pod of the cluster.

    *samples* are by ``namespace/name`` of the pod, *ended* are pods that Kubernetes still shows after their end.
    """

    at: datetime
    lives: Sequence[NodeLife]
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    ended: Sequence[Ended] = ()


def workload_of(pod: Pod) -> str:
    """The name of the workload that *pod* belongs to."""
    return workload_name(pod.namespace, pod.owner, pod.name)


def owner_of(labels: Mapping[str, str], attribution: Attribution) -> Owner:
    """Whose a pod with *labels* is."""
    return Owner(
        team=labels.get(attribution.team, ""),
        project=labels.get(attribution.project, ""),
        workload_class=labels.get(attribution.workload_class, ""),
        environment=labels.get(attribution.environment, ""),
        cost_center=labels.get(attribution.cost_center, ""),
    )


def present(seen: Seen) -> dict[str, list[Pod]]:
    """The workloads that wait or hold a GPU of ours, and their pods. Announced pods are none."""
    ours = {pod.uid for node in seen.nodes for pod in node.pods}
    found: dict[str, list[Pod]] = {}
    for pod in seen.pods:
        waits = pod.node is None and not pod.daemon
        if pod.uid and (waits or pod.uid in ours):
            found.setdefault(workload_of(pod), []).append(pod)
    return found


def continues(before: Accounted, seen: Seen) -> bool:
    """True when nothing that matters can have come and gone unseen since *before*."""
    return before.at is not None and seen.at - before.at <= CONTINUOUS


def changed_lives(before: Accounted, seen: Seen, policy: Policy) -> list[WorkloadLife]:
    """The workloads that are new, grew, were bound, or have ended."""
    alive = present(seen)
    running = {life.workload: life for life in before.running}
    changed: list[WorkloadLife] = []
    for workload, pods in alive.items():
        past, gpus = running.get(workload), sum(p.gpus for p in pods)
        bound = [p.bound_at or p.running_since or seen.at for p in pods if p.node is not None]
        if past is not None and past.gpus >= gpus and (past.bound_at is not None or not bound):
            continue  # nothing is new of it
        life = past or _new_life(workload, pods, policy)
        bound_at = life.bound_at or min(bound, default=None)
        changed.append(replace(life, gpus=max(life.gpus, gpus), bound_at=bound_at))
    last = seen.at if continues(before, seen) else before.at or seen.at
    return [*changed, *(_end(life, seen, last) for w, life in running.items() if w not in alive)]


def _end(life: WorkloadLife, seen: Seen, last: datetime) -> WorkloadLife:
    """*life* as it ended: as the pod of it that ended last did, where Kubernetes still shows it."""
    shown = [e for e in seen.ended if e.workload == life.workload and (e.at or last) >= life.created_at]
    final = max(shown, key=lambda e: (e.at or last, e.uid), default=None)
    at = min((final.at if final else None) or last, seen.at)
    return replace(life, ended_at=max(at, life.created_at), completed=final.succeeded if final else None)


def _new_life(workload: str, pods: Sequence[Pod], policy: Policy) -> WorkloadLife:
    oldest = min(pods, key=lambda p: (p.created_at, p.name))
    return WorkloadLife(
        workload=workload,
        namespace=oldest.namespace,
        created_at=oldest.created_at,
        owner=owner_of(oldest.labels, policy.attribution),
        priority_class=oldest.priority_class,
    )
