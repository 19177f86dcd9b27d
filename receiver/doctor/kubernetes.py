"""Kubernetes: credentials, rights, the nodes of our pools, the GPU operator, other autoscalers, what surrounds us."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from receiver.adapters.kubernetes.api import section
from receiver.adapters.kubernetes.cluster import credentials
from receiver.adapters.kubernetes.nodes import DEVICE_CLASSES, DRA_GROUP, RESOURCE_SLICES, nodes_of, resources_of
from receiver.adapters.survey.cluster import (
    DAEMON_SETS,
    NETWORK_POLICIES,
    PRIORITY_CLASSES,
    ClusterSurvey,
    SeenNode,
    SeenPod,
)
from receiver.doctor import nodes, rights, surroundings
from receiver.doctor.checks import Area, Check, Finding, Installation, clock_check, judge_clock
from receiver.ports import TryLater, WontWork

CREDENTIALS = Check(
    "kubernetes.credentials",
    "whether the API server takes our service account, or the user of KUBECONFIG",
    ("fail", "skip"),
    "mount the service account's token, or set KUBECONFIG to a file with a valid user",
)
KUBERNETES_CLOCK = clock_check("kubernetes", "the API server's")
CHECKS = (
    CREDENTIALS,
    rights.RIGHTS,
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
Found = TypeVar("Found")


def look(installation: Installation) -> Iterator[Finding]:
    """Ask Kubernetes from the credentials to what surrounds us."""
    settings = installation.settings
    if not settings.configuration.kubernetes.enabled:
        yield CREDENTIALS.skipped(
            "kubernetes.enabled is false: nobody looks at the cluster, and no node is ever removed"
        )
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
        yield CREDENTIALS.passed("the API server takes us")
        yield judge_clock(KUBERNETES_CLOCK, cluster.told)
        pods, cannot = attempted(cluster.pods)
        wanted = rights.needed(settings.configuration, groups, shuts_down=any(pod.shuts_down for pod in pods or ()))
        who = "the user of KUBECONFIG" if settings.environment.kubeconfig else "our service account"
        yield from rights.rights(wanted, cluster.may, settings.configuration.mode, who)
        if pods is None:  # the right that is missing has been named
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
    """Return the cluster as the server would ask it. Raises WontWork without credentials."""
    where = credentials(installation.settings.environment.kubeconfig)
    return ClusterSurvey(where, installation.clock, installation.timeouts)


def attempted(ask: Callable[[], Found]) -> tuple[Found | None, str]:
    """Return what *ask* does, or None and why that is forbidden. Raises what else it raises."""
    try:
        return ask(), ""
    except WontWork as error:
        if error.code != FORBIDDEN:
            raise
        return None, str(error)


def _unseen(why: str) -> Iterator[Finding]:
    """Skip what rests on nodes and pods."""
    labelled = (nodes.POOL_LABELS, nodes.NODE_LABELS, nodes.NODE_TAINTS)
    rest = (*labelled, nodes.ALLOCATABLE, nodes.DRA, surroundings.OPERATOR)
    yield from (check.skipped(why) for check in rest)


def _devices(cluster: ClusterSurvey, groups: frozenset[str]) -> Sequence[Mapping[str, Any]] | Finding:
    """Return the ResourceSlices, or the finding that says why not."""
    if DRA_GROUP not in groups:
        return nodes.DRA.passed(f"the cluster does not serve {DRA_GROUP}")
    try:
        return cluster.every(RESOURCE_SLICES)
    except WontWork as error:
        return nodes.DRA.skipped(may_not(str(error)) if error.code == FORBIDDEN else str(error))


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


def _operator(cluster: ClusterSurvey, installation: Installation, pods: list[SeenPod]) -> Iterator[Finding]:
    sets, why = attempted(lambda: cluster.every(DAEMON_SETS))
    if sets is None:
        yield surroundings.by_pods(pods)
        yield surroundings.TOLERATIONS.skipped(may_not(why))
        return
    yield surroundings.installed([str(section(raw, "metadata").get("name")) for raw in sets], "those of the cluster")
    yield from surroundings.tolerations(sets, installation.settings.policy)


def _around(cluster: ClusterSurvey, installation: Installation, pods: list[SeenPod]) -> Iterator[Finding]:
    """Look at what surrounds us, one kind after another: each may be forbidden by itself."""
    ours = [pod for pod in pods if pod.is_ours]
    configuration = installation.settings.configuration

    def network() -> Finding:
        return surroundings.network(cluster.every(NETWORK_POLICIES), ours)

    def security() -> Finding:
        return surroundings.security(cluster.namespaces(), ours)

    def quotas() -> Finding:
        return surroundings.quotas(cluster.quotas(), pods)

    def classes() -> Finding:
        names = [str(section(raw, "metadata").get("name")) for raw in cluster.every(PRIORITY_CLASSES)]
        return surroundings.classes(names, configuration)

    judges = ((surroundings.NETWORK, network), (surroundings.SECURITY, security), (surroundings.QUOTAS, quotas))
    for check, judge in (*judges, (surroundings.CLASSES, classes)):
        try:
            yield judge()
        except (TryLater, WontWork) as error:
            yield check.skipped(may_not(str(error)) if error.code == FORBIDDEN else str(error))


def may_not(why: str) -> str:
    """Say *why* something could not be seen, and that a role would let it be."""
    return f"{why.partition(': grant')[0]} (gpu-autoscaler-look and the optional role of k8s/doctor let it be seen)"


AREA = Area(
    name="kubernetes",
    source="Kubernetes",
    checks=CHECKS,
    look=look,
    remedy="see that this host reaches the API server (egress rules, proxy), and try again",
)
