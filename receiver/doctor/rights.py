"""The rights that the configured features need, one by one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from receiver.adapters.kubernetes.cluster import Right
from receiver.adapters.kubernetes.nodes import DRA_GROUP, WITHOUT_CLASSES, WITHOUT_SLICES
from receiver.config import Configuration, Mode
from receiver.config.model import GroupDemand, QueueDemand
from receiver.core.model.pods import KeepRule
from receiver.doctor.checks import Check, Finding
from receiver.ports import QUOTA_NAME, TryLater, WontWork

RIGHTS = Check(
    "kubernetes.rights",
    "whether who runs this has every right that the configured features need, by SelfSubjectAccessReview; to judge our "
    "service account run it in the pod",
    ("warn", "fail", "skip"),
    "grant it in the ClusterRole (k8s/base/rbac.yaml; docs/operations.md, Rights in the cluster)",
)
ALWAYS = (
    ("list", "nodes", "to see the nodes", False),
    ("list", "pods", "to see who waits and who runs", False),
    ("get patch", "nodes", "to cordon nodes before they are removed", True),
    ("create", "pods/eviction", "to empty nodes before they are removed", True),
    ("create", "events", "to tell the owners of waiting pods", True),
)
UNTOLD = (
    "let who runs this create selfsubjectaccessreviews (ClusterRole system:basic-user), and see that the API server's "
    "authorizers answer; then ask again"
)
WATCHED = {"pods": "a waiting pod wakes us at once instead of at the next tick, and pods are not listed at every step"}
GANGS = "gangs of {} count as complete with the pods that exist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A right and what it is for: *weaker*, its lack only makes something weaker; *acts*, mode observe does without."""

    right: Right
    purpose: str
    weaker: bool = False
    acts: bool = False


def needed(configuration: Configuration, groups: frozenset[str], *, shuts_down: bool) -> Iterator[Needed]:
    """Yield the rights that *configuration* needs in a cluster that serves *groups*.

    *shuts_down* tells that some workload is annotated for idle shutdown.
    """
    for need in _needed(configuration, groups, shuts_down=shuts_down):
        yield need
        if need.right.verb == "list" and configuration.kubernetes.watch:
            watch = Right("watch", need.right.group, need.right.resource)
            yield Needed(
                right=watch,
                purpose=WATCHED.get(watch.resource, "without it they are listed at every step"),
                weaker=True,
            )


def _needed(configuration: Configuration, groups: frozenset[str], *, shuts_down: bool) -> Iterator[Needed]:
    for verbs, resource, purpose, acts in ALWAYS:
        yield from _each(verbs, "", resource, purpose, acts=acts)
    if KeepRule.KUBE_SYSTEM in configuration.kubernetes.keep_nodes_for:
        why = "without it a pod of kube-system keeps its GPU node, even where a PodDisruptionBudget covers it"
        yield from _each("list", "policy", "poddisruptionbudgets", why, weaker=True)
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
    if DRA_GROUP in groups:
        yield from _each("list", DRA_GROUP, "resourceslices", WITHOUT_SLICES, weaker=True)
        yield from _each("list", DRA_GROUP, "deviceclasses", WITHOUT_CLASSES, weaker=True)
    yield from _holds(configuration)
    if shuts_down:
        why = "some workload is annotated gpu-autoscaler.io/idle-shutdown"
        owners = "deployments replicasets statefulsets"
        yield from _each("get", "", "pods", why, acts=True)
        yield from _each("get", "apps", owners, why, acts=True)
        yield from _each("patch", "apps", " ".join(f"{kind}/scale" for kind in owners.split()), why, acts=True)
        yield from _each("get patch", "batch", "jobs", why, acts=True)


def _holds(configuration: Configuration) -> Iterator[Needed]:
    hold = configuration.budget.hold if configuration.budget else None
    if hold and (hold.namespaces or hold.kueue_cluster_queues):
        why = "budget.hold keeps new work out"
        yield from _each("list", "", "resourcequotas", why)
        yield from _each("create", "", "resourcequotas", why, acts=True)
        yield from _each("get delete", "", "resourcequotas", why, acts=True, name=QUOTA_NAME)
    if hold and hold.kueue_cluster_queues:
        yield from _each("list", "kueue.x-k8s.io", "clusterqueues", "budget.hold names ClusterQueues")
        yield from _each("patch", "kueue.x-k8s.io", "clusterqueues", "budget.hold names ClusterQueues", acts=True)


def _each(
    verbs: str, group: str, resources: str, purpose: str, *, weaker: bool = False, acts: bool = False, name: str = ""
) -> Iterator[Needed]:
    for resource in resources.split():
        for verb in verbs.split():
            yield Needed(right=Right(verb, group, resource, name), purpose=purpose, weaker=weaker, acts=acts)


def rights(needs: Iterator[Needed], may: Callable[[Right], bool], mode: Mode, who: str) -> Iterator[Finding]:
    """Ask whether *who* has each of *needs*; those that mode observe does without are only named there."""
    later: list[str] = []
    lacking, asked = 0, 0
    for need in needs:
        try:
            allowed = may(need.right)
        except (TryLater, WontWork) as error:  # the rest of the area can be looked at all the same
            yield RIGHTS.warned(f"it cannot be told whether {who} may {need.right}: {error}", UNTOLD)
            return
        asked += 1
        if allowed:
            continue
        if need.acts and mode is Mode.OBSERVE:
            later.append(str(need.right))
            continue
        lacking += 1
        where = f'apiGroups: ["{need.right.group}"], resources: [{need.right.resource}], verbs: [{need.right.verb}]'
        remedy = f"grant {{{where}}} in the ClusterRole (docs/operations.md, Rights in the cluster)"
        yield (RIGHTS.warned if need.weaker else RIGHTS.failed)(f"{who} may not {need.right}: {need.purpose}", remedy)
    if later:
        yield RIGHTS.skipped(f"mode observe does without, mode act does not: {', '.join(later)}")
    if not lacking:
        there = f"has all {asked - len(later)} rights that mode {mode.value} and its features need"
        yield RIGHTS.passed(f"{who} {there}")
