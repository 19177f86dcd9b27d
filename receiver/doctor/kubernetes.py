"""Kubernetes: credentials, rights, the nodes of the pools, the GPU operator, other autoscalers, the surroundings."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.api import NOT_FOUND, MissingRightError
from receiver.adapters.kubernetes.cluster import Right, credentials
from receiver.adapters.kubernetes.devices import by_node, classes_from, devices_in, slice_from
from receiver.adapters.kubernetes.dra import (
    DEVICE_CLASSES,
    DRA_GROUP,
    RESOURCE_SLICES,
    WITHOUT_CLAIMS,
    WITHOUT_CLASSES,
    WITHOUT_RULES,
    WITHOUT_SLICES,
    gpu_nodes,
)
from receiver.adapters.kubernetes.gangs import (
    JOB_SETS,
    POD_GROUPS,
    SCHEDULING,
    WITHOUT_JOB_SETS,
    WITHOUT_POLICIES,
    WITHOUT_WORKER_SETS,
    WORKER_SETS,
    WORKLOADS,
)
from receiver.adapters.kubernetes.installations import own_key
from receiver.adapters.kubernetes.multikueue import CHECKS, WITHOUT_QUEUES
from receiver.adapters.survey import ClusterSurvey
from receiver.capabilities.capability import RightsCase
from receiver.capabilities.registry import installed
from receiver.config import Mode
from receiver.config.model import GroupDemand, QueueDemand
from receiver.core.model.pods import KeepRule, PodPhase
from receiver.doctor import nodes, surroundings
from receiver.doctor.checks import CALL_TIMEOUTS, Area, Check, Finding, Installation, skipped
from receiver.ports import QUOTA_NAME, TryLater, WontWork

CREDENTIALS = Check(
    "kubernetes.credentials",
    "whether the API server accepts the service account, or the user of KUBECONFIG",
    "mount the service account's token, or set KUBECONFIG to a file with a valid user",
)
RIGHTS = Check(
    "kubernetes.rights",
    "whether the current user (in the pod: the autoscaler's service account) has every permission that the "
    "configured features need",
    "grant it in the ClusterRole (docs/operations.md, Rights in the cluster)",
)
GRANTED_BY = " (granted by the ClusterRoles gpu-autoscaler-look and gpu-autoscaler-doctor)"
UNTOLD = (
    "let this user create selfsubjectaccessreviews (ClusterRole system:basic-user), make sure that the API server's "
    "authorizers answer, and run the doctor again"
)
UNWATCHED = "without it, they are listed at every step, and a waiting pod does not start a step immediately"
LEASES = "coordination.k8s.io"  # listed, and not watched
GATED = "some pod has the scheduling gate gpu-autoscaler.io/may-wait (rights.mayWait of the chart)"
GANGS = "gangs of {} count as complete with the pods that exist"
Found = TypeVar("Found")


def look(installation: Installation) -> Iterator[Finding]:
    """Check Kubernetes from the credentials to the surroundings."""
    settings = installation.settings
    mode, policy = settings.configuration.mode, settings.policy
    if not settings.configuration.kubernetes.enabled:
        yield CREDENTIALS.skipped("kubernetes.enabled is false: the cluster is not read, and no node is ever removed")
        return
    try:
        survey = opened(installation)
        groups = survey.groups()
    except WontWork as error:
        yield CREDENTIALS.failed(str(error))
        return
    with closing(survey) as cluster:
        yield CREDENTIALS.passed("the API server accepts the credentials")
        pods, pods_error = attempted(cluster.pods)
        needs = needed(RightsCase(configuration=settings.configuration, groups=groups, pods=pods or ()))
        who = "the user of KUBECONFIG" if settings.environment.kubeconfig else "the service account"
        yield from rights(needs, cluster.may, mode, who)
        slices, unseen = attempted(lambda: cluster.every(RESOURCE_SLICES) if DRA_GROUP in groups else [])
        served = gpu_nodes({node: devices_in(parts) for node, parts in by_node(map(slice_from, slices or ())).items()})
        cluster_nodes, nodes_error = attempted(lambda: cluster.nodes(served))
        if pods is None or cluster_nodes is None:  # the missing right has been reported
            yield from skipped((*nodes.CHECKS, surroundings.OPERATOR), pods_error or nodes_error)
            return
        yield from nodes.judged(cluster_nodes, policy, mode, installation.clock.now())
        if slices is None:
            yield nodes.DRA.skipped(unseen)
        else:
            classes, _ = attempted(lambda: cluster.every(DEVICE_CLASSES) if slices else [])
            yield from nodes.dra(
                cluster_nodes, None if classes is None else frozenset(classes_from(classes).serving), policy
            )
        yield from surroundings.others(pods, cluster_nodes, policy)
        environment, now = installation.settings.environment, installation.clock.now()
        server_key = own_key(environment.kubeconfig, environment.database_url.get_secret_value())
        leases, hidden = attempted(cluster.installations)
        if leases is None:
            yield surroundings.INSTALLATIONS.skipped(hidden)
        else:
            yield surroundings.installations(leases, server_key, settings.configuration, policy, now)
        for checks, judge in surroundings.judges(cluster, settings.configuration, policy, pods):
            findings, reason = attempted(judge)
            yield from skipped(checks, reason) if findings is None else findings


def opened(installation: Installation) -> ClusterSurvey:
    """Return the cluster with the server's credentials. Raises WontWork without any."""
    where = credentials(installation.settings.environment.kubeconfig)
    survey = ClusterSurvey(where, clock=installation.clock, calls=Calls(timeouts=CALL_TIMEOUTS))
    survey.configured = frozenset(pool.id for pool in installation.settings.policy.pools)
    return survey


def attempted(ask: Callable[[], Found]) -> tuple[Found | None, str]:
    """Return the result of *ask*, or None and the reason if that is forbidden, with the roles that grant it, or not
    served. Raises every other error of *ask*."""
    try:
        return ask(), ""
    except WontWork as error:
        if isinstance(error, MissingRightError):
            return None, f"{error.answer}{GRANTED_BY}"
        if error.code != NOT_FOUND:
            raise
        return None, str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A right and its purpose. Without a *weaker* one a feature only works less well; *acts* is not needed in mode
    observe."""

    right: Right
    purpose: str
    weaker: bool = False
    acts: bool = False


def needed(case: RightsCase) -> Iterator[Needed]:
    """Yield the rights that are needed in *case*, whose groups also stand there with their versions."""
    configuration, groups = case.configuration, case.groups
    gated = any(pod.phase is PodPhase.DEFERRED for pod in case.pods)
    hold = configuration.budget.hold if configuration.budget else None
    queues = bool(hold and hold.kueue_cluster_queues)
    holds = queues or bool(hold and hold.namespaces)
    podgroups = configuration.volcano.demand is GroupDemand.PODGROUPS
    disrupted = KeepRule.KUBE_SYSTEM in configuration.kubernetes.keep_nodes_for
    budgets = "without it, a pod of kube-system keeps its GPU node, even where a PodDisruptionBudget covers it"
    holding, held = "budget.hold blocks new GPU pods", "budget.hold names ClusterQueues"
    grouped = any(f"{SCHEDULING}/{version}" in groups for version in (*POD_GROUPS.versions, *WORKLOADS.versions))
    kueue, queued = CHECKS.group in groups, configuration.kueue.demand is QueueDemand.QUEUED
    # whether it is needed, verbs, API group, resources, purpose, and whether it is weaker or acts
    rows = (
        (True, "list", "", "nodes", "to see the nodes", ""),
        (True, "list", "", "pods", "to see waiting and running pods", ""),
        (True, "get patch", "", "nodes", "to cordon nodes before they are removed", "acts"),
        (True, "create", "", "pods/eviction", "to drain nodes before they are removed", "acts"),
        (True, "create", "", "events", "to inform the owners of waiting pods", "acts"),
        (True, "list", LEASES, "leases", "to leave the work of other installations to them", "weaker"),
        (disrupted, "list", "policy", "poddisruptionbudgets", budgets, "weaker"),
        ("scheduling.x-k8s.io" in groups, "list", "scheduling.x-k8s.io", "podgroups", GANGS.format("coscheduling"),
         "weaker"),
        ("scheduling.volcano.sh" in groups, "list", "scheduling.volcano.sh", "podgroups", GANGS.format("Volcano"),
         "weaker"),
        (grouped, "list", SCHEDULING, f"{POD_GROUPS.plural} {WORKLOADS.plural}", WITHOUT_POLICIES, "weaker"),
        (JOB_SETS.group in groups, "list", JOB_SETS.group, JOB_SETS.plural, WITHOUT_JOB_SETS, "weaker"),
        (WORKER_SETS.group in groups, "list", WORKER_SETS.group, WORKER_SETS.plural, WITHOUT_WORKER_SETS, "weaker"),
        (queued, "list", CHECKS.group, "workloads", "kueue.demand is queued", ""),
        (kueue and queued, "list", CHECKS.group, "localqueues", WITHOUT_QUEUES, "weaker"),
        (kueue and queued and not queues, "list", CHECKS.group, "clusterqueues", WITHOUT_QUEUES, "weaker"),
        (podgroups, "list", "scheduling.volcano.sh", "podgroups queues", "volcano.demand is podgroups", ""),
        (podgroups, "list", "batch.volcano.sh", "jobs", "the requests of a Volcano Job's tasks", "weaker"),
        (podgroups, "list", "scheduling.k8s.io", "priorityclasses", "the priority of Volcano's groups", "weaker"),
        (DRA_GROUP in groups, "list", DRA_GROUP, "resourceslices", WITHOUT_SLICES, "weaker"),
        (DRA_GROUP in groups, "list", DRA_GROUP, "deviceclasses", WITHOUT_CLASSES, "weaker"),
        (DRA_GROUP in groups, "list", DRA_GROUP, "resourceclaims resourceclaimtemplates", WITHOUT_CLAIMS, "weaker"),
        (DRA_GROUP in groups, "list", DRA_GROUP, "devicetaintrules", WITHOUT_RULES, "weaker"),
        (holds, "list", "", "resourcequotas", holding, ""),
        (holds, "create", "", "resourcequotas", holding, "acts"),
        (holds, f"get/{QUOTA_NAME} delete/{QUOTA_NAME}", "", "resourcequotas", holding, "acts"),
        (queues, "list", "kueue.x-k8s.io", "clusterqueues", held, ""),
        (queues, "patch", "kueue.x-k8s.io", "clusterqueues", held, "acts"),
        (gated, "get patch", "", "pods", GATED, "acts"),
    )  # fmt: skip
    known: set[Right] = set()
    added = [row for capability in installed() for row in capability.rights(case)]
    for wanted, verbs, group, resources, purpose, kind in (*rows, *added):
        for resource in resources.split() if wanted else ():
            for word in verbs.split():
                verb, _, name = word.partition("/")
                right = Right(verb, group, resource, name)
                if right in known:  # two features need it
                    continue
                known.add(right)
                yield Needed(right=right, purpose=purpose, weaker=kind == "weaker", acts=kind == "acts")
                if verb == "list" and configuration.kubernetes.watch and group != LEASES:
                    yield Needed(right=Right("watch", group, resource), purpose=UNWATCHED, weaker=True)


def rights(needs: Iterable[Needed], may: Callable[[Right], bool], mode: Mode, who: str) -> Iterator[Finding]:
    """Judge whether *who* has each of *needs*; missing rights that mode observe does not need are only listed there."""
    later: list[str] = []
    lacking = checked_count = 0
    for need in needs:
        try:
            allowed = may(need.right)
        except (TryLater, WontWork) as error:  # the other checks of the area can still run
            yield RIGHTS.warned(f"cannot check whether {who} may {need.right}: {error}", UNTOLD)
            return
        if need.acts and mode is Mode.OBSERVE and not allowed:
            later.append(str(need.right))
            continue
        checked_count += 1
        if not allowed:
            lacking += 1
            rule = f'apiGroups: ["{need.right.group}"], resources: [{need.right.resource}], verbs: [{need.right.verb}]'
            remedy = f"grant {{{rule}}} in the ClusterRole (docs/operations.md, Rights in the cluster)"
            judge = RIGHTS.warned if need.weaker else RIGHTS.failed
            yield judge(f"{who} may not {need.right}: {need.purpose}", remedy)
    if later:
        yield RIGHTS.skipped(f"needed in mode act only, and missing: {', '.join(later)}")
    if not lacking:
        summary = f"{who} has all {checked_count} permissions that mode {mode.value} and the configured features need"
        yield RIGHTS.passed(summary)


AREA = Area(
    name="kubernetes",
    source="Kubernetes",
    checks=(CREDENTIALS, RIGHTS, *nodes.CHECKS, *surroundings.CHECKS),
    look=look,
    remedy="check that this host can reach the API server (egress rules, proxy), and run the doctor again",
)
