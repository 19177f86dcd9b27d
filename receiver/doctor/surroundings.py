"""Judges the surroundings in the cluster: GPU operator, other autoscalers, policies, quotas and priority classes."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from receiver.adapters.kubernetes.api import section, words
from receiver.adapters.kubernetes.drain import selects
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.adapters.survey import (
    DAEMON_SETS,
    NETWORK_POLICIES,
    OURS,
    PRIORITY_CLASSES,
    ClusterSurvey,
    SurveyedPod,
    name_of,
)
from receiver.config import Configuration
from receiver.core.model.installations import InstallationLease
from receiver.core.model.policy import Policy
from receiver.core.scaling.demand import IGNORED_NAMESPACES, tolerates
from receiver.doctor.checks import Check, Finding, taint_text
from receiver.doctor.nodes import of_pool
from receiver.ports import QUOTA_LABEL, ClusterNode

OPERATOR = Check(
    "kubernetes.gpu_operator",
    "whether the NVIDIA device plugin and the DCGM exporter are installed (the GPU operator brings both)",
    "install the GPU operator (docs/getting-started.md): without the device plugin no node offers a GPU",
)
TOLERATIONS = Check(
    "kubernetes.operator_tolerations",
    "whether the operator's DaemonSets tolerate the taints of every configured pool",
    "give the pool's taint to daemonsets.tolerations and node-feature-discovery.worker.tolerations of the operator's "
    "chart (docs/install.md, Before the first start)",
)
AUTOSCALERS = Check(
    "kubernetes.other_autoscaler",
    "whether no other node autoscaler, such as Cluster Autoscaler or Karpenter, acts on a configured pool",
    "remove the pool from its `--nodes` (and `:workers`, which means every pool), or uninstall it "
    "(docs/why-not-cluster-autoscaler.md)",
)
NETWORK = Check(
    "kubernetes.network_policy",
    "whether a NetworkPolicy restricts access to the autoscaler's pods",
    "apply the NetworkPolicy of k8s/ to its namespace: few need the pages and the webhook",
)
SECURITY = Check(
    "kubernetes.pod_security",
    "whether the autoscaler's namespace enforces Pod Security `restricted` or `baseline`",
    "label the namespace pod-security.kubernetes.io/enforce=restricted",
)
QUOTAS = Check(
    "kubernetes.quotas",
    "whether every namespace with GPU pods has a ResourceQuota of GPUs (Kueue's queues count as one)",
    "give the namespace a ResourceQuota with requests.nvidia.com/gpu (k8s/workloads)",
)
CLASSES = Check(
    "kubernetes.priority_classes",
    "whether there are PriorityClasses besides those of the system and the autoscaler, and those in "
    "`budget.passing_priority_classes`",
    "create PriorityClasses for production, training and development (k8s/workloads)",
)
INSTALLATIONS = Check(
    "kubernetes.installations",
    "whether no other installation of the autoscaler in the cluster manages a configured pool",
    "remove the pool from one configuration, set mode: observe in one, or uninstall one "
    "(docs/operations.md, Two installations in one cluster)",
)
CHECKS = (OPERATOR, TOLERATIONS, AUTOSCALERS, NETWORK, SECURITY, QUOTAS, CLASSES, INSTALLATIONS)
PLUGIN, EXPORTER = "nvidia-device-plugin", "dcgm-exporter"
PARTS = (PLUGIN, EXPORTER, "nvidia-driver", "nvidia-container-toolkit", "gpu-feature-discovery")
# Finds GPUs and labels nodes; the operator's own DaemonSets select nodes by that label.
DISCOVERY = "node-feature-discovery-worker"
LABELS_MISSING = "nodes there get no GPU label, and the operator's DaemonSets select nodes by that label"
CLUSTER_AUTOSCALER = "cluster-autoscaler"
OTHERS = ("karpenter", "cluster-turndown", "escalator", "k8s-spot-rescheduler")
EVERY_POOL = "workers"  # Cluster Autoscaler's provider for Civo: the same bounds for every pool
MARKS = ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler")
TARGET = re.compile(r"--?nodes[= ]\d+:\d+:([A-Za-z0-9._-]+)")
NOT_HERE = "no pod in the cluster is labelled app.kubernetes.io/name=gpu-autoscaler"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
Objects = Sequence[Mapping[str, Any]]
Judge = Callable[[], list[Finding]]


def judges(
    cluster: ClusterSurvey, configuration: Configuration, policy: Policy, pods: Sequence[SurveyedPod]
) -> list[tuple[tuple[Check, ...], Judge]]:
    """Return what judges the surroundings, kind by kind, with its checks: each kind may be forbidden to list."""
    server_pods = [pod for pod in pods if pod.is_ours]
    return [
        ((OPERATOR, TOLERATIONS), lambda: list(operator(cluster.every(DAEMON_SETS), policy))),
        ((NETWORK,), lambda: [network(cluster.every(NETWORK_POLICIES), server_pods)]),
        ((SECURITY,), lambda: [security(cluster.core("namespaces"), server_pods)]),
        ((QUOTAS,), lambda: [quotas(cluster.core("resourcequotas"), pods)]),
        ((CLASSES,), lambda: [classes([name_of(raw) for raw in cluster.every(PRIORITY_CLASSES)], configuration)]),
    ]


def installations(
    leases: Collection[InstallationLease], server_key: str, configuration: Configuration, policy: Policy, now: datetime
) -> Finding:
    """Judge *leases*, those of all installations; *server_key* is the key of the server whose environment this process
    has. On another host that key is another one: a twin with the same name and pools may be the server."""
    names, neighbours, conflicts = {pool.id: pool.name for pool in policy.pools}, [], []
    keys = {lease.key for lease in leases}
    for lease in leases:
        if lease.key == server_key or not lease.is_live(now):
            continue
        twin = lease.cluster_name == configuration.cluster_name and {pool.id for pool in lease.pools} == names.keys()
        if twin and server_key not in keys:
            return INSTALLATIONS.passed(f"{lease.key} has the pools and the name of this configuration")
        common = [names[pool.id] for pool in lease.pools if pool.id in names]
        neighbours.append(str(lease))
        conflicts += [f"{lease.key} manages {', '.join(common)} too"] if common else []
    if conflicts:
        return INSTALLATIONS.failed("; ".join(conflicts))
    if neighbours:
        return INSTALLATIONS.passed(f"beside this one: {', '.join(neighbours)}; no pool is in two of them")
    return INSTALLATIONS.passed("no other installation has a Lease in the cluster")


def operator(daemon_sets: Objects, policy: Policy) -> Iterator[Finding]:
    """Find what is missing of the GPU operator, and taints of pools that its DaemonSets do not tolerate."""
    names = [name_of(raw) for raw in daemon_sets]
    if not any(PLUGIN in name for name in names):
        yield OPERATOR.failed("the cluster has no DaemonSet of the NVIDIA device plugin")
    elif not any(EXPORTER in name for name in names):
        problem = "the cluster has no DaemonSet of the DCGM exporter: utilization is unknown"
        yield OPERATOR.warned(problem, "enable it in the GPU operator's chart (dcgmExporter.enabled)")
    else:
        yield OPERATOR.passed("the device plugin and the DCGM exporter are installed")
    any_refusal = False
    for name, raw in zip(names, daemon_sets, strict=True):
        if not any(part in name for part in (*PARTS, DISCOVERY)):
            continue
        tolerations = SeenPod(section(section(raw, "spec"), "template")).tolerations
        for pool in policy.pools:
            hard = [taint for taint in pool.taints if taint.effect != "PreferNoSchedule"]
            kept_away = [taint_text(taint) for taint in hard if not any(tolerates(t, taint) for t in tolerations)]
            if kept_away:
                any_refusal = True
                problem = f"DaemonSet {name} does not tolerate {', '.join(kept_away)}"
                problem += f", so it cannot run in pool {pool.name}"
                # Another discovery may be a second installation for other nodes.
                discovers = DISCOVERY in name
                yield TOLERATIONS.warned(f"{problem}; {LABELS_MISSING}") if discovers else TOLERATIONS.failed(problem)
    if not any(part in name for name in names for part in PARTS):
        yield TOLERATIONS.skipped("the operator has no DaemonSet")
    elif not any_refusal:
        yield TOLERATIONS.passed("the operator's DaemonSets tolerate the taints of every configured pool")


def others(pods: Sequence[SurveyedPod], nodes: Sequence[ClusterNode], policy: Policy) -> Iterator[Finding]:
    """Find pods of other autoscalers, by their images, and their taints on nodes of the pools."""
    pool_titles = {pool.id: f"pool {pool.name}" for pool in policy.pools} | {EVERY_POOL: "every pool"}
    problems = []
    for pod in pods:
        if CLUSTER_AUTOSCALER in pod.image and not pod.is_ours:
            named = set(TARGET.findall(pod.words)) or {EVERY_POOL}
            named = named - {EVERY_POOL} or named  # beside the name of a pool ``workers`` has no effect
            if resized_pools := sorted(pool_titles[pool] for pool in named & pool_titles.keys()):
                problems.append(f"{pod.key} is Cluster Autoscaler and resizes {', '.join(resized_pools)}")
        elif autoscaler := next((name for name in OTHERS if name in pod.image), None):
            problem = f"{pod.key} is {autoscaler}, which may remove nodes of configured pools"
            yield AUTOSCALERS.warned(problem, "exclude the configured pools")
    for pool in policy.pools:
        marked = [node.name for node in of_pool(nodes, pool) if any(taint.key in MARKS for taint in node.taints)]
        if marked:
            problems.append(f"Cluster Autoscaler has tainted nodes of pool {pool.name}: {', '.join(marked)}")
    yield from AUTOSCALERS.failures(problems, "Cluster Autoscaler acts on no configured pool")


def network(policies: Objects, server_pods: Sequence[SurveyedPod]) -> Finding:
    """Judge whether a NetworkPolicy for ingress selects *server_pods*."""
    if not server_pods:
        return NETWORK.skipped(NOT_HERE)
    pod = server_pods[0]
    for raw in policies:
        spec = section(raw, "spec")
        same_namespace = section(raw, "metadata").get("namespace") == pod.namespace
        ingress = "Ingress" in (spec.get("policyTypes") or ["Ingress"])  # the API server's default
        if same_namespace and ingress and selects(section(spec, "podSelector"), pod.labels):
            return NETWORK.passed(f"{name_of(raw)} selects {pod.key}")
    problem = f"no NetworkPolicy for ingress in {pod.namespace} selects {pod.key}"
    return NETWORK.warned(f"{problem}: every pod of the cluster can reach it")


def security(namespaces: Objects, server_pods: Sequence[SurveyedPod]) -> Finding:
    """Judge the Pod Security label of the namespace of *server_pods*."""
    if not server_pods:
        return SECURITY.skipped(NOT_HERE)
    namespace = server_pods[0].namespace
    labels = next((words(section(raw, "metadata"), "labels") for raw in namespaces if name_of(raw) == namespace), {})
    level = labels.get("pod-security.kubernetes.io/enforce", "")
    judge = SECURITY.passed if level in ("restricted", "baseline") else SECURITY.warned
    return judge(f"{namespace} enforces {level or 'nothing'}")


def quotas(resource_quotas: Objects, pods: Sequence[SurveyedPod]) -> Finding:
    """Find namespaces with GPU pods and without a quota of GPUs."""
    counted = (p for p in pods if p.held and not p.daemon and p.namespace not in IGNORED_NAMESPACES)
    asking = {p.namespace for p in counted if KUEUE_QUEUE not in p.labels}
    bounded = {
        section(raw, "metadata").get("namespace")
        for raw in resource_quotas
        if QUOTA_LABEL not in words(section(raw, "metadata"), "labels")
        and any("nvidia.com/" in resource for resource in section(section(raw, "spec"), "hard"))
    }
    if free := sorted(asking - bounded):
        return QUOTAS.warned(f"GPU pods run without a quota in {', '.join(free)}: one team can take all GPUs")
    if not asking:
        return QUOTAS.passed("no namespace has GPU pods outside of Kueue")
    return QUOTAS.passed(f"with a quota: {', '.join(sorted(asking))}")


def classes(class_names: Collection[str], configuration: Configuration) -> Finding:
    """Judge the names of the PriorityClasses."""
    passing = configuration.budget.passing_priority_classes if configuration.budget else ()
    if missing := sorted({*passing} - {*class_names}):
        problem = f"budget.passing_priority_classes names {', '.join(missing)}, and there is no such PriorityClass"
        return CLASSES.failed(problem, "create it, or correct the name: no work passes at the hold line")
    custom = sorted(name for name in class_names if not name.startswith("system-") and name != OURS)
    if custom:
        return CLASSES.passed(f"there are {', '.join(custom[:6])}")
    problem = "there is no PriorityClass beside those of the system and the autoscaler, so no work takes precedence"
    return CLASSES.warned(problem)
