"""Kueue: its GPU quota compared with the maxima of the pools, and its flavors' labels with those of the pools."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from receiver.adapters.kubernetes.api import entries, section, words
from receiver.adapters.kubernetes.nodes import GPU_PREFIX
from receiver.adapters.survey import CLUSTER_QUEUES, RESOURCE_FLAVORS, name_of
from receiver.config.model import QueueDemand
from receiver.core.model.policy import Policy
from receiver.doctor.checks import Area, Check, Finding, Installation, skipped
from receiver.doctor.kubernetes import attempted, opened

FLAVORS = Check(
    "kueue.flavors",
    "whether the nodeLabels of every ResourceFlavor with GPUs are those of a configured pool",
    "correct spec.nodeLabels of the ResourceFlavor or `labels` of the pool: work that Kueue admits there fits no node",
)
QUOTA = Check(
    "kueue.quota",
    "whether ClusterQueues admit no more GPUs of a flavor than its pools have at `max_nodes`",
    "lower nominalQuota in the ClusterQueues, or raise max_nodes: the excess is admitted and waits as pods",
)
HELD = Check(
    "kueue.held_queues",
    "whether the ClusterQueues in `budget.hold` exist",
    "correct budget.hold.kueue_cluster_queues: the hold cannot block a missing queue",
)
DEMAND = Check(
    "kueue.demand",
    "whether Kueue is installed where `kueue.demand` is `queued`",
    "install Kueue, or set kueue.demand: admitted: until then no node is bought for queued work",
)
AGE = Check(
    "kueue.age",
    "whether Kueue is 0.15 or newer (API v1beta2), which an AdmissionCheck can tell for how long to wait",
    "upgrade Kueue: before 0.15 a Workload that the budget does not cover asks for quota again at once",
)
CHECKS = (FLAVORS, QUOTA, HELD, DEMAND, AGE)
Objects = Sequence[Mapping[str, Any]]


def look(installation: Installation) -> Iterator[Finding]:
    """Check queues and flavors if Kueue is installed."""
    policy = installation.settings.policy
    if not installation.settings.configuration.kubernetes.enabled:
        yield from skipped(CHECKS, "kubernetes.enabled is false")
        return
    with closing(opened(installation)) as cluster:
        groups = cluster.groups()
        installed = "kueue.x-k8s.io" in groups
        yield demanded(installation.settings.configuration.kueue.demand, installed=installed)
        yield aged(installed=installed, new="kueue.x-k8s.io/v1beta2" in groups)
        queues, reason = attempted(lambda: cluster.every(CLUSTER_QUEUES) if installed else [])
        if queues is None:
            yield from skipped((FLAVORS, QUOTA, HELD), reason)
            return
        yield held([name_of(raw) for raw in queues], policy)
        if not installed:
            yield from skipped((FLAVORS, QUOTA), "Kueue is not installed")
            return
        flavors, reason = attempted(lambda: cluster.every(RESOURCE_FLAVORS))
        yield from skipped((FLAVORS, QUOTA), reason) if flavors is None else compared(queues, flavors, policy)


def demanded(demand: QueueDemand, *, installed: bool) -> Finding:
    """Judge whether the queue that is configured to count exists."""
    if demand is not QueueDemand.QUEUED:
        return DEMAND.passed("kueue.demand is admitted")
    return DEMAND.passed("Kueue is installed") if installed else DEMAND.failed("kueue.demand is queued, without Kueue")


def aged(*, installed: bool, new: bool) -> Finding:
    """Judge whether Kueue knows every field that we write."""
    if not installed:
        return AGE.skipped("Kueue is not installed")
    return AGE.passed("Kueue serves v1beta2") if new else AGE.warned("Kueue serves v1beta1 alone")


def held(queues: Sequence[str], policy: Policy) -> Finding:
    """Judge whether the ClusterQueues of the budget hold exist."""
    named = policy.budget.keep_out.cluster_queues if policy.budget else ()
    if not named:
        return HELD.skipped("budget.hold names no ClusterQueue")
    missing = [name for name in named if name not in queues]
    well = "every ClusterQueue in budget.hold exists"
    return HELD.failed_if(missing, f"there is no ClusterQueue {', '.join(missing)}", well)


def compared(queues: Objects, flavors: Objects, policy: Policy) -> Iterator[Finding]:
    """Compare the GPU quotas of *queues* (resourceGroups of v1beta1 and v1beta2) with the maxima of the pools."""
    nominal: dict[tuple[str, str], int] = {}  # of a resource in a flavor
    for group in (group for raw in queues for group in entries(section(raw, "spec"), "resourceGroups")):
        for flavor in entries(group, "flavors"):
            for resource in entries(flavor, "resources"):
                quota, key = str(resource.get("nominalQuota")), (str(flavor.get("name")), str(resource.get("name")))
                if key[1].startswith(GPU_PREFIX):  # devices: a whole number or its text
                    nominal[key] = nominal.get(key, 0) + (int(quota) if quota.isdigit() else 0)
    if not nominal:
        yield from skipped((FLAVORS, QUOTA), "no ClusterQueue has a GPU quota")
        return
    labels_of = {name_of(raw): words(section(raw, "spec"), "nodeLabels") for raw in flavors}
    homeless, over = [], []
    for (name, device), admitted in sorted(nominal.items()):
        labels = labels_of.get(name)
        if labels is None:
            homeless.append(f"flavor {name} does not exist")
            continue
        offering = [pool for pool in policy.pools if device in pool.resources]
        pools = [pool for pool in offering if labels.items() <= dict(pool.offered_labels).items()]
        most = sum(pool.max_nodes * pool.resources[device] for pool in pools)
        if not pools and admitted:
            label_text = ", ".join(f"{k}={v}" for k, v in labels.items()) or "none"
            homeless.append(f"flavor {name} ({label_text}) fits no configured pool with {device}")
        elif pools and admitted > most:
            names = ", ".join(pool.name for pool in pools)
            over.append(f"flavor {name} may admit {admitted} {device}, but {names} can have {most}")
    yield from FLAVORS.failures(homeless, "every flavor with GPUs fits a pool")
    yield from QUOTA.warnings(over, "no flavor admits more than its pools can have")


AREA = Area(
    name="kueue",
    source="Kueue's objects",
    checks=CHECKS,
    look=look,
    remedy="check that this host can reach the API server, and run the doctor again",
)
