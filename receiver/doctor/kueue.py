"""Kueue: its GPU quota compared with the maxima of the pools, and its flavors' labels with those of the pools."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from receiver.adapters.kubernetes.api import entries, section, words
from receiver.adapters.kubernetes.nodes import GPU_PREFIX
from receiver.adapters.survey.cluster import CLUSTER_QUEUES, RESOURCE_FLAVORS
from receiver.core.model.policy import Policy, Pool
from receiver.doctor.checks import Area, Check, Finding, Installation
from receiver.doctor.kubernetes import attempted, may_not, opened

FLAVORS = Check(
    "kueue.flavors",
    "whether the nodeLabels of every ResourceFlavor with GPUs are those of a configured pool",
    ("fail", "skip"),
    "correct spec.nodeLabels of the ResourceFlavor or `labels` of the pool: work that Kueue admits there fits no node",
)
QUOTA = Check(
    "kueue.quota",
    "whether ClusterQueues admit no more GPUs of a flavor than its pools have at `max_nodes`",
    ("warn", "skip"),
    "lower nominalQuota in the ClusterQueues, or raise max_nodes: the excess is admitted and waits as pods",
)
HELD = Check(
    "kueue.held_queues",
    "whether the ClusterQueues in `budget.hold` exist",
    ("fail", "skip"),
    "correct budget.hold.kueue_cluster_queues: the hold does not keep work out of a missing queue",
)
CHECKS = (FLAVORS, QUOTA, HELD)
GROUP = "kueue.x-k8s.io"


@dataclass(frozen=True, slots=True)
class QueueShare:
    """The nominal quota of a GPU resource in a flavor of a ClusterQueue."""

    queue: str
    flavor: str
    resource: str
    nominal: int


def look(installation: Installation) -> Iterator[Finding]:
    """Check queues and flavors if Kueue is installed."""
    policy = installation.settings.policy
    if not installation.settings.configuration.kubernetes.enabled:
        yield from (check.skipped("kubernetes.enabled is false") for check in CHECKS)
        return
    with closing(opened(installation)) as cluster:
        if GROUP not in cluster.groups():
            yield from (check.skipped("Kueue is not installed") for check in (FLAVORS, QUOTA))
            yield held((), policy)
            return
        queues, why = attempted(lambda: cluster.every(CLUSTER_QUEUES))
        if queues is None:
            yield from (check.skipped(may_not(why)) for check in CHECKS)
            return
        yield held([str(section(raw, "metadata").get("name")) for raw in queues], policy)
        flavors, why = attempted(lambda: cluster.every(RESOURCE_FLAVORS))
        if flavors is None:
            yield from (check.skipped(may_not(why)) for check in (FLAVORS, QUOTA))
            return
        yield from compared(shares(queues), labels_of(flavors), policy)


def held(queues: Sequence[str], policy: Policy) -> Finding:
    """Judge whether the ClusterQueues of the budget hold exist."""
    named = policy.budget.keep_out.cluster_queues if policy.budget else ()
    missing = [name for name in named if name not in queues]
    if not named:
        return HELD.skipped("budget.hold names no ClusterQueue")
    if missing:
        return HELD.failed(f"there is no ClusterQueue {', '.join(missing)}")
    return HELD.passed(f"exist: {', '.join(named)}")


def shares(queues: Sequence[Mapping[str, Any]]) -> list[QueueShare]:
    """Return the GPU quotas of ClusterQueues, flavor by flavor (resourceGroups of v1beta1 and v1beta2)."""
    return [
        QueueShare(
            str(section(raw, "metadata").get("name")),
            str(flavor.get("name")),
            str(resource.get("name")),
            _whole(resource.get("nominalQuota")),
        )
        for raw in queues
        for group in entries(section(raw, "spec"), "resourceGroups")
        for flavor in entries(group, "flavors")
        for resource in entries(flavor, "resources")
        if str(resource.get("name")).startswith(GPU_PREFIX)
    ]


def labels_of(flavors: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, str]]:
    """Return the nodeLabels of each flavor."""
    return {str(section(raw, "metadata").get("name")): words(section(raw, "spec"), "nodeLabels") for raw in flavors}


def compared(
    found: Sequence[QueueShare], flavors: Mapping[str, Mapping[str, str]], policy: Policy
) -> Iterator[Finding]:
    """Compare the quotas with the maxima of the pools."""
    if not found:
        yield from (check.skipped("no ClusterQueue has a GPU quota") for check in (FLAVORS, QUOTA))
        return
    homeless = []
    over = []
    for flavor, resource in sorted({(s.flavor, s.resource) for s in found}):
        labels = flavors.get(flavor)
        pools = [] if labels is None else [p for p in policy.pools if _fits(p, labels, resource)]
        nominal = sum(s.nominal for s in found if (s.flavor, s.resource) == (flavor, resource))
        if labels is None:
            homeless.append(f"flavor {flavor} does not exist")
        elif not pools and nominal:
            told = ", ".join(f"{k}={v}" for k, v in labels.items()) or "none"
            homeless.append(f"flavor {flavor} ({told}) fits no configured pool with {resource}")
        elif pools:
            most = sum(p.max_nodes * p.resources[resource] for p in pools)
            if nominal > most:
                names = ", ".join(p.name for p in pools)
                over.append(f"flavor {flavor} may admit {nominal} {resource}, but {names} can have {most}")
    yield from [FLAVORS.failed(said) for said in homeless] or [FLAVORS.passed("every flavor with GPUs fits a pool")]
    yield from [QUOTA.warned(said) for said in over] or [QUOTA.passed("no flavor admits more than its pools can have")]


def _fits(pool: Pool, labels: Mapping[str, str], resource: str) -> bool:
    return labels.items() <= dict(pool.offered_labels).items() and resource in pool.resources


def _whole(value: object) -> int:
    """Return a quantity of devices, a whole number or its text."""
    text = str(value)
    return int(text) if text.isdigit() else 0


AREA = Area(
    name="kueue",
    source="Kueue's objects",
    checks=CHECKS,
    look=look,
    remedy="check that this host can reach the API server, and run the doctor again",
)
