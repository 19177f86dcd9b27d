"""When workloads were asked for, bound and gone, and whose they are: from the pods that are seen now."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.pods import Pod
from receiver.core.model.policy import Attribution, Policy
from receiver.core.model.usage import Accounted, Owner, WorkloadLife, workload_name
from receiver.core.money.holders import StepSight

# After a longer pause pods may have come and gone. Two accountings, a slow step and a restart fit into it.
CONTINUOUS = timedelta(minutes=3)

Named = tuple[str, str]  # the workload and which life of that name


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


def life_of(pod: Pod) -> str:
    """What tells the workload of *pod* apart from others of its name: the uid of its controller, or its own."""
    return pod.owner_uid if pod.owner else pod.uid


def present(seen: StepSight, ours: Container[str]) -> dict[Named, list[Pod]]:
    """The workloads that wait or hold a GPU of *ours* (uids of pods), and their pods. Announced pods are none."""
    found: dict[Named, list[Pod]] = {}
    for pod in seen.pods:
        waits = pod.node is None and not pod.daemon
        if pod.uid and (waits or pod.uid in ours):
            found.setdefault((workload_of(pod), life_of(pod)), []).append(pod)
    return found


def ended_of(before: Accounted, alive: Container[Named]) -> list[WorkloadLife]:
    """The workloads that ran at *before* and of which no pod is left."""
    return [life for life in before.running if (life.workload, life.life) not in alive]


def continues(before: Accounted, seen: StepSight) -> bool:
    """True when nothing that matters can have come and gone unseen since *before*."""
    return before.at is not None and timedelta(0) <= seen.at - before.at <= CONTINUOUS


def changed_lives(before: Accounted, seen: StepSight, ours: Container[str], policy: Policy) -> list[WorkloadLife]:
    """The workloads that are new, grew, were bound, changed hands, or have ended; *ours* as in `present`."""
    alive = present(seen, ours)
    running = {(life.workload, life.life): life for life in before.running}
    changed: list[WorkloadLife] = []
    for named, pods in alive.items():
        past = running.get(named)
        life = past or _new_life(named, pods)
        bound = [p.bound_at or p.running_since or seen.at for p in pods if p.node is not None]
        newest = max(pods, key=lambda p: (p.created_at, p.name))
        now = replace(
            life,
            owner=owner_of(newest.labels, policy.attribution),
            priority_class=newest.priority_class,
            gpus=max(life.gpus, sum(p.gpus for p in pods)),
            bound_at=life.bound_at or min(bound, default=None),
        )
        if now != past:
            changed.append(now)
    last = seen.at if continues(before, seen) else before.at or seen.at
    return [*changed, *(_end(life, seen, last) for life in ended_of(before, alive))]


def _end(life: WorkloadLife, seen: StepSight, last: datetime) -> WorkloadLife:
    """*life* as it ended: as the pod of it that ended last did, where Kubernetes still shows it."""
    shown = [
        e
        for e in seen.ended
        if e.workload == life.workload and e.life in ("", life.life) and (e.at or last) >= life.created_at
    ]
    final = max(shown, key=lambda e: (e.at or last, e.uid), default=None)
    at = min((final.at if final else None) or last, seen.at)
    return replace(life, ended_at=max(at, life.created_at), completed=final.succeeded if final else None)


def _new_life(named: Named, pods: Sequence[Pod]) -> WorkloadLife:
    oldest = min(pods, key=lambda p: (p.created_at, p.name))
    workload, life = named
    return WorkloadLife(workload=workload, life=life, namespace=oldest.namespace, created_at=oldest.created_at)
