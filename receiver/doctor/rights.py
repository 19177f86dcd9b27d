"""The rights that the configured features need, one by one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from receiver.adapters.survey.cluster import Right
from receiver.config import Configuration, Mode
from receiver.config.model import GroupDemand, QueueDemand
from receiver.doctor.finding import Check, Finding

RIGHTS = Check(
    "kubernetes.rights",
    "whether our service account has every right that the configured features need, by SelfSubjectAccessReview",
    ("warn", "fail"),
    "grant it in the ClusterRole (docs/operations.md, Rights in the cluster)",
)
READS = frozenset({"get", "list", "watch"})
ALWAYS = (
    ("list", "nodes", "to see the nodes"),
    ("get patch", "nodes", "to cordon nodes before they are removed"),
    ("list", "pods", "to see who waits and who runs"),
    ("create", "pods/eviction", "to empty nodes before they are removed"),
    ("create", "events", "to tell the owners of waiting pods"),
)
GANGS = "gangs of {} count as complete with the pods that exist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A right, what it is for, and whether its lack only makes something weaker."""

    right: Right
    purpose: str
    weaker: bool = False


def needed(configuration: Configuration, groups: frozenset[str], *, shuts_down: bool) -> Iterator[Needed]:
    """Yield the rights that *configuration* needs in a cluster that serves *groups*.

    *shuts_down* tells that some workload is annotated for idle shutdown.
    """
    for verbs, resource, purpose in ALWAYS:
        yield from _each(verbs, "", resource, purpose)
    if configuration.kubernetes.watch:
        yield from _each("watch", "", "pods", "a waiting pod wakes us at once instead of at the next tick", weaker=True)
    for group, name in (("scheduling.x-k8s.io", "coscheduling"), ("scheduling.volcano.sh", "Volcano")):
        if group in groups:
            yield from _each("list", group, "podgroups", GANGS.format(name), weaker=True)
    if configuration.kueue.demand is QueueDemand.QUEUED:
        yield from _each("list", "kueue.x-k8s.io", "workloads", "kueue.demand is queued")
    if configuration.volcano.demand is GroupDemand.PODGROUPS:
        yield from _each("list", "scheduling.volcano.sh", "podgroups queues", "volcano.demand is podgroups")
        yield from _each("list", "batch.volcano.sh", "jobs", "what the tasks of a Volcano Job ask for", weaker=True)
        yield from _each(
            "list", "scheduling.k8s.io", "priorityclasses", "the priority of Volcano's groups", weaker=True
        )
    yield from _holds(configuration)
    if shuts_down:
        why = "some workload is annotated gpu-autoscaler.io/idle-shutdown"
        owners = "deployments replicasets statefulsets"
        yield from _each("get", "", "pods", why)
        yield from _each("get", "apps", owners, why)
        yield from _each("patch", "apps", " ".join(f"{kind}/scale" for kind in owners.split()), why)
        yield from _each("get patch", "batch", "jobs", why)


def _holds(configuration: Configuration) -> Iterator[Needed]:
    hold = configuration.budget.hold if configuration.budget else None
    if hold and (hold.namespaces or hold.kueue_cluster_queues):
        yield from _each("list get create delete", "", "resourcequotas", "budget.hold keeps new work out")
    if hold and hold.kueue_cluster_queues:
        yield from _each("list patch", "kueue.x-k8s.io", "clusterqueues", "budget.hold names ClusterQueues")


def _each(verbs: str, group: str, resources: str, purpose: str, *, weaker: bool = False) -> Iterator[Needed]:
    for resource in resources.split():
        for verb in verbs.split():
            yield Needed(right=Right(verb, group, resource), purpose=purpose, weaker=weaker)


def rights(needs: Iterator[Needed], may: Callable[[Right], bool], mode: Mode) -> Iterator[Finding]:
    """Ask for each of *needs*; in observe mode nothing is written, so the lack of a right to write only warns."""
    lacking, asked = 0, 0
    for need in needs:
        asked += 1
        if may(need.right):
            continue
        lacking += 1
        later = mode is Mode.OBSERVE and need.right.verb not in READS
        said = f"may not {need.right}: {need.purpose}{' (used in mode act)' if later else ''}"
        where = f'apiGroups: ["{need.right.group}"], resources: [{need.right.resource}], verbs: [{need.right.verb}]'
        remedy = f"grant {{{where}}} in the ClusterRole (docs/operations.md, Rights in the cluster)"
        yield (RIGHTS.warned if need.weaker or later else RIGHTS.failed)(said, remedy)
    if not lacking:
        yield RIGHTS.passed(f"all {asked} rights that the configured features need are there")
