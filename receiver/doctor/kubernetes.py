"""Kubernetes: credentials, rights, the nodes of the pools, the GPU operator, other autoscalers, the surroundings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from receiver.adapters.kubernetes.api import section
from receiver.adapters.kubernetes.cluster import Right, credentials
from receiver.adapters.kubernetes.nodes import (
    DEVICE_CLASSES,
    DRA_GROUP,
    RESOURCE_SLICES,
    WITHOUT_CLASSES,
    WITHOUT_SLICES,
    nodes_of,
    resources_of,
)
from receiver.adapters.survey.cluster import (
    DAEMON_SETS,
    NETWORK_POLICIES,
    PRIORITY_CLASSES,
    ClusterSurvey,
    SeenNode,
    SurveyedPod,
)
from receiver.config import Configuration, Mode
from receiver.config.model import GroupDemand, QueueDemand
from receiver.core.model.pods import KeepRule
from receiver.doctor import nodes, surroundings
from receiver.doctor.checks import Area, Check, Finding, Installation, clock_check, judge_clock
from receiver.ports import QUOTA_NAME, TryLater, WontWork

CREDENTIALS = Check(
    "kubernetes.credentials",
    "whether the API server accepts the service account, or the user of KUBECONFIG",
    ("fail", "skip"),
    "mount the service account's token, or set KUBECONFIG to a file with a valid user",
)
RIGHTS = Check(
    "kubernetes.rights",
    "whether the current user has every right that the configured features need, by SelfSubjectAccessReview; to check "
    "the autoscaler's service account run it in the pod",
    ("warn", "fail", "skip"),
    "grant it in the ClusterRole (k8s/base/rbac.yaml; docs/operations.md, Rights in the cluster)",
)
KUBERNETES_CLOCK = clock_check("kubernetes", "the API server's")
CHECKS = (
    CREDENTIALS,
    RIGHTS,
    nodes.POOL_LABELS,
    nodes.NODE_LABELS,
    nodes.NODE_TAINTS,
    nodes.ALLOCATABLE,
    nodes.DRA,
    nodes.HOSTS,
    nodes.CORDONS,
    surroundings.OPERATOR,
    surroundings.TOLERATIONS,
    surroundings.AUTOSCALERS,
    surroundings.NETWORK,
    surroundings.SECURITY,
    surroundings.QUOTAS,
    surroundings.CLASSES,
    KUBERNETES_CLOCK,
)
FORBIDDEN = "http_403"
ALWAYS = (
    ("list", "nodes", "to see the nodes", False),
    ("list", "pods", "to see waiting and running pods", False),
    ("get patch", "nodes", "to cordon nodes before they are removed", True),
    ("create", "pods/eviction", "to drain nodes before they are removed", True),
    ("create", "events", "to inform the owners of waiting pods", True),
)
UNTOLD = (
    "let this user create selfsubjectaccessreviews (ClusterRole system:basic-user), make sure that the API server's "
    "authorizers answer, and run the doctor again"
)
WATCHED = {"pods": "a waiting pod starts a step at once, and pods are not listed at every step"}
GANGS = "gangs of {} count as complete with the pods that exist"
Found = TypeVar("Found")


def look(installation: Installation) -> Iterator[Finding]:
    """Check Kubernetes from the credentials to the surroundings."""
    settings = installation.settings
    if not settings.configuration.kubernetes.enabled:
        yield CREDENTIALS.skipped("kubernetes.enabled is false: the cluster is not read, and no node is ever removed")
        return
    try:
        survey = opened(installation)
    except WontWork as error:
        yield CREDENTIALS.failed(str(error))
        return
    with closing(survey) as cluster:
        try:
            groups = cluster.groups()
        except WontWork as error:
            yield CREDENTIALS.failed(str(error))
            return
        yield CREDENTIALS.passed("the API server accepts the credentials")
        yield judge_clock(KUBERNETES_CLOCK, cluster.told)
        pods, cannot = attempted(cluster.pods)
        wanted = needed(settings.configuration, groups, shuts_down=any(pod.shuts_down for pod in pods or ()))
        who = "the user of KUBECONFIG" if settings.environment.kubeconfig else "the service account"
        yield from rights(wanted, cluster.may, settings.configuration.mode, who)
        if pods is None:  # the missing right has been reported
            yield from _unseen(cannot)
            return
        devices = _devices(cluster, groups)
        slices = devices if isinstance(devices, Sequence) else ()
        found, cannot = attempted(lambda: cluster.nodes(nodes_of(slices)))
        if found is None:
            yield from _unseen(cannot)
            return
        now = installation.clock.now()
        yield from nodes.judged(found, settings.policy, settings.configuration.mode, now)
        yield from _dra(cluster, devices, found, installation)
        yield from surroundings.others(pods, found, settings.policy)
        yield from _operator(cluster, installation, pods)
        yield from _around(cluster, installation, pods)


def opened(installation: Installation) -> ClusterSurvey:
    """Return the cluster with the server's credentials. Raises WontWork without any."""
    where = credentials(installation.settings.environment.kubeconfig)
    return ClusterSurvey(where, installation.clock, installation.timeouts)


def attempted(ask: Callable[[], Found]) -> tuple[Found | None, str]:
    """Return the result of *ask*, or None and the reason if that is forbidden. Raises every other error of *ask*."""
    try:
        return ask(), ""
    except WontWork as error:
        if error.code != FORBIDDEN:
            raise
        return None, str(error)


def skipped(check: Check, error: TryLater | WontWork) -> Finding:
    """Skip *check* because of *error*; a missing right is named with the role that grants it."""
    return check.skipped(may_not(str(error)) if error.code == FORBIDDEN else str(error))


def may_not(why: str) -> str:
    """Return *why* something cannot be read, and which role grants it."""
    return f"{why.partition(': grant')[0]} (granted by gpu-autoscaler-look and the optional role of k8s/doctor)"


def _unseen(why: str) -> Iterator[Finding]:
    """Skip the checks of nodes and pods."""
    labelled = (nodes.POOL_LABELS, nodes.NODE_LABELS, nodes.NODE_TAINTS)
    yield from (check.skipped(why) for check in (*labelled, nodes.ALLOCATABLE, nodes.DRA, surroundings.OPERATOR))


def _devices(cluster: ClusterSurvey, groups: frozenset[str]) -> Sequence[Mapping[str, Any]] | Finding:
    """Return the ResourceSlices, or the finding that explains why there are none."""
    if DRA_GROUP not in groups:
        return nodes.DRA.passed(f"the cluster does not serve {DRA_GROUP}")
    try:
        return cluster.every(RESOURCE_SLICES)
    except WontWork as error:
        return skipped(nodes.DRA, error)


def _dra(
    cluster: ClusterSurvey,
    devices: Sequence[Mapping[str, Any]] | Finding,
    found: Sequence[SeenNode],
    installation: Installation,
) -> Iterator[Finding]:
    if isinstance(devices, Finding):
        yield devices
        return
    classes, _ = attempted(lambda: cluster.every(DEVICE_CLASSES))
    yield from nodes.dra(found, None if classes is None else resources_of(classes), installation.settings.policy)


def _operator(cluster: ClusterSurvey, installation: Installation, pods: list[SurveyedPod]) -> Iterator[Finding]:
    sets, why = attempted(lambda: cluster.every(DAEMON_SETS))
    if sets is None:
        yield surroundings.by_pods(pods)
        yield surroundings.TOLERATIONS.skipped(may_not(why))
        return
    yield surroundings.installed([str(section(raw, "metadata").get("name")) for raw in sets], "those of the cluster")
    yield from surroundings.tolerations(sets, installation.settings.policy)


def _around(cluster: ClusterSurvey, installation: Installation, pods: list[SurveyedPod]) -> Iterator[Finding]:
    """Check the surroundings, one kind after another: each may be forbidden."""
    ours = [pod for pod in pods if pod.is_ours]

    def classes() -> Finding:
        names = [str(section(raw, "metadata").get("name")) for raw in cluster.every(PRIORITY_CLASSES)]
        return surroundings.classes(names, installation.settings.configuration)

    judges: Sequence[tuple[Check, Callable[[], Finding]]] = (
        (surroundings.NETWORK, lambda: surroundings.network(cluster.every(NETWORK_POLICIES), ours)),
        (surroundings.SECURITY, lambda: surroundings.security(cluster.namespaces(), ours)),
        (surroundings.QUOTAS, lambda: surroundings.quotas(cluster.quotas(), pods)),
        (surroundings.CLASSES, classes),
    )
    for check, judge in judges:
        try:
            yield judge()
        except (TryLater, WontWork) as error:
            yield skipped(check, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A right and its purpose. Without a *weaker* one a feature only works less well; *acts* is not needed in mode
    observe."""

    right: Right
    purpose: str
    weaker: bool = False
    acts: bool = False


def needed(configuration: Configuration, groups: frozenset[str], *, shuts_down: bool) -> Iterator[Needed]:
    """Yield the rights that *configuration* needs in a cluster that serves *groups*.

    *shuts_down*: some workload is annotated for idle shutdown.
    """
    for need in _needed(configuration, groups, shuts_down=shuts_down):
        yield need
        if need.right.verb == "list" and configuration.kubernetes.watch:
            resource = need.right.resource
            why = WATCHED.get(resource, "without it they are listed at every step")
            yield from _each("watch", need.right.group, resource, why, weaker=True)


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
        yield from _each("list", "batch.volcano.sh", "jobs", "the requests of a Volcano Job's tasks", weaker=True)
        why = "the priority of Volcano's groups"
        yield from _each("list", "scheduling.k8s.io", "priorityclasses", why, weaker=True)
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
    """Judge whether *who* has each of *needs*; missing rights that mode observe does not need are only listed there."""
    later: list[str] = []
    lacking, asked = 0, 0
    for need in needs:
        try:
            allowed = may(need.right)
        except (TryLater, WontWork) as error:  # the other checks of the area can still run
            yield RIGHTS.warned(f"it is unknown whether {who} may {need.right}: {error}", UNTOLD)
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
        yield RIGHTS.skipped(f"not needed in mode observe, but in mode act: {', '.join(later)}")
    if not lacking:
        there = f"has all {asked - len(later)} rights that mode {mode.value} and its features need"
        yield RIGHTS.passed(f"{who} {there}")


AREA = Area(
    name="kubernetes",
    source="Kubernetes",
    checks=CHECKS,
    look=look,
    remedy="check that this host can reach the API server (egress rules, proxy), and run the doctor again",
)
