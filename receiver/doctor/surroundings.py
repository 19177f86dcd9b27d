"""Judges the surroundings in the cluster: GPU operator, other autoscalers, policies, quotas and priority classes."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from receiver.adapters.kubernetes.api import entries, section, words
from receiver.adapters.survey.cluster import OURS, SeenNode, SurveyedPod
from receiver.config import Configuration
from receiver.core.model.pods import Toleration
from receiver.core.model.policy import Policy
from receiver.core.scaling.demand import IGNORED_NAMESPACES, tolerates
from receiver.doctor.checks import Check, Finding, taint_text
from receiver.doctor.nodes import of_pool
from receiver.ports import QUOTA_LABEL

OPERATOR = Check(
    "kubernetes.gpu_operator",
    "whether the NVIDIA device plugin and the DCGM exporter are installed (the GPU operator brings both)",
    ("warn", "fail", "skip"),
    "install the GPU operator (docs/getting-started.md): without the device plugin no node offers a GPU",
)
TOLERATIONS = Check(
    "kubernetes.operator_tolerations",
    "whether the operator's DaemonSets tolerate the taints of every configured pool",
    ("warn", "fail", "skip"),
    "give the pool's taint to daemonsets.tolerations and node-feature-discovery.worker.tolerations of the operator's "
    "chart (docs/operations.md, Before the first start)",
)
PLUGIN, EXPORTER = "nvidia-device-plugin", "dcgm-exporter"
PARTS = (PLUGIN, EXPORTER, "nvidia-driver", "nvidia-container-toolkit", "gpu-feature-discovery")

# Finds GPUs and labels nodes; the operator's own DaemonSets select nodes by that label.
DISCOVERY = "node-feature-discovery-worker"
LABELS_MISSING = "nodes there get no GPU label, and the operator's DaemonSets select nodes by that label"
AUTOSCALERS = Check(
    "kubernetes.other_autoscaler",
    "whether Cluster Autoscaler, Karpenter or another node autoscaler acts on a configured pool",
    ("warn", "fail"),
    "remove the pool from its `--nodes` (and `:workers`, which means every pool), or uninstall it "
    "(docs/why-not-cluster-autoscaler.md)",
)
CLUSTER_AUTOSCALER = "cluster-autoscaler"
OTHERS = ("karpenter", "cluster-turndown", "escalator", "k8s-spot-rescheduler")
EVERY_POOL = "workers"  # Cluster Autoscaler's provider for Civo: the same bounds for every pool
MARKS = ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler")
NODES = re.compile(r"(\d+):(\d+):([A-Za-z0-9._-]+)")
NETWORK = Check(
    "kubernetes.network_policy",
    "whether a NetworkPolicy restricts access to the autoscaler's pods",
    ("warn", "skip"),
    "apply the NetworkPolicy of k8s/ to its namespace: few need the pages and the webhook",
)
SECURITY = Check(
    "kubernetes.pod_security",
    "whether the autoscaler's namespace enforces Pod Security `restricted` or `baseline`",
    ("warn", "skip"),
    "label the namespace pod-security.kubernetes.io/enforce=restricted",
)
QUOTAS = Check(
    "kubernetes.quotas",
    "whether every namespace with GPU pods has a ResourceQuota of GPUs (Kueue's queues count as one)",
    ("warn", "skip"),
    "give the namespace a ResourceQuota with requests.nvidia.com/gpu (k8s/workloads)",
)
CLASSES = Check(
    "kubernetes.priority_classes",
    "whether there are PriorityClasses beside those of the system and the autoscaler, and those in "
    "`budget.passing_priority_classes`",
    ("warn", "fail", "skip"),
    "create PriorityClasses for production, training and development (k8s/workloads)",
)
NOT_HERE = "no pod in the cluster is labelled app.kubernetes.io/name=gpu-autoscaler"
ENFORCE = "pod-security.kubernetes.io/enforce"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
SYSTEM = "system-"


def installed(names: Sequence[str], where: str) -> Finding:
    """Judge by the *names* of DaemonSets *where* they were found."""
    plugin, exporter = (any(part in name for name in names) for part in (PLUGIN, EXPORTER))
    if not plugin:
        return OPERATOR.failed(f"no DaemonSet of the NVIDIA device plugin among {where}")
    if not exporter:
        said = f"no DaemonSet of the DCGM exporter among {where}: utilization is unknown"
        return OPERATOR.warned(said, "enable it in the GPU operator's chart (dcgmExporter.enabled)")
    return OPERATOR.passed("the device plugin and the DCGM exporter are installed")


def by_pods(pods: Sequence[SurveyedPod]) -> Finding:
    """Judge by the pods of DaemonSets alone; without GPU nodes there may be none."""
    names = sorted({pod.daemon for pod in pods if any(part in pod.daemon for part in PARTS)})
    if not names:
        said = "listing DaemonSets is forbidden (the role of k8s/doctor grants it), and no pod of the operator runs"
        return OPERATOR.skipped(said)
    return installed(names, "those with pods")


def tolerations(daemon_sets: Sequence[Mapping[str, Any]], policy: Policy) -> Iterator[Finding]:
    """Find taints of pools that the operator's DaemonSets do not tolerate."""
    found = there = False
    for raw in daemon_sets:
        name = str(section(raw, "metadata").get("name"))
        discovers = DISCOVERY in name
        if not discovers and not any(part in name for part in PARTS):
            continue
        there = there or not discovers
        pod = section(section(section(raw, "spec"), "template"), "spec")
        given = [_toleration(t) for t in entries(pod, "tolerations")]
        for pool in policy.pools:
            hard = [taint for taint in pool.taints if taint.effect != "PreferNoSchedule"]
            kept_away = [taint_text(taint) for taint in hard if not any(tolerates(t, taint) for t in given)]
            if kept_away:
                found = True
                said = (
                    f"DaemonSet {name} does not tolerate {', '.join(kept_away)}, so it cannot run in pool {pool.name}"
                )
                # It may be a second installation for other nodes.
                yield TOLERATIONS.warned(f"{said}; {LABELS_MISSING}") if discovers else TOLERATIONS.failed(said)
    if not found and not there:
        yield TOLERATIONS.skipped("the operator has no DaemonSet")
    elif not found:
        yield TOLERATIONS.passed("the operator's DaemonSets tolerate the taints of every configured pool")


def _toleration(raw: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=str(raw.get("key") or ""),
        operator=str(raw.get("operator") or "Equal"),
        value=str(raw.get("value") or ""),
        effect=str(raw.get("effect") or ""),
    )


def others(pods: Sequence[SurveyedPod], nodes: Sequence[SeenNode], policy: Policy) -> Iterator[Finding]:
    """Find pods of other autoscalers, by their images, and their taints on nodes of the pools."""
    found = list(_found(pods, nodes, policy))
    yield from found or [AUTOSCALERS.passed("no other autoscaler acts on a configured pool")]


def _found(pods: Sequence[SurveyedPod], nodes: Sequence[SeenNode], policy: Policy) -> Iterator[Finding]:
    ours = {pool.id: pool.name for pool in policy.pools}
    for pod in pods:
        image = pod.words[0] if pod.words else ""
        if pod.is_ours or not image:
            continue
        if CLUSTER_AUTOSCALER in image:
            if taken := _targets(pod) & {*ours, EVERY_POOL} if _targets(pod) else {EVERY_POOL}:
                whose = ", ".join("every pool" if t == EVERY_POOL else f"pool {ours[t]}" for t in sorted(taken))
                yield AUTOSCALERS.failed(f"{pod.key} is Cluster Autoscaler and resizes {whose}")
        elif other := next((name for name in OTHERS if name in image), None):
            yield AUTOSCALERS.warned(
                f"{pod.key} is {other}, which may remove nodes of configured pools", "exclude the configured pools"
            )
    for pool in policy.pools:
        marked = [s.node.name for s in of_pool(nodes, pool) if any(t.key in MARKS for t in s.node.taints)]
        if marked:
            yield AUTOSCALERS.failed(f"Cluster Autoscaler has tainted nodes of pool {pool.name}: {', '.join(marked)}")


def _targets(pod: SurveyedPod) -> set[str]:
    """Return the pools of ``--nodes=min:max:POOL``; with the name of a pool ``workers`` has no effect."""
    named = {found.group(3) for word in pod.words if (found := NODES.search(word)) and "node" in _flag(pod, word)}
    return named - {EVERY_POOL} or named


def _flag(pod: SurveyedPod, word: str) -> str:
    """Return the flag that *word* belongs to: its own, or the word before it."""
    if "=" in word:
        return word.partition("=")[0]
    before = pod.words.index(word) - 1
    return pod.words[before] if before >= 0 else ""


def network(policies: Sequence[Mapping[str, Any]], ours: Sequence[SurveyedPod]) -> Finding:
    """Judge whether a NetworkPolicy for ingress selects the pods *ours*."""
    if not ours:
        return NETWORK.skipped(NOT_HERE)
    pod = ours[0]
    for raw in policies:
        metadata, spec = section(raw, "metadata"), section(raw, "spec")
        types = spec.get("policyTypes") or ["Ingress"]  # the API server's default
        if (
            "Ingress" in types
            and metadata.get("namespace") == pod.namespace
            and selects(section(spec, "podSelector"), pod)
        ):
            return NETWORK.passed(f"{metadata.get('name')} selects {pod.key}")
    return NETWORK.warned(
        f"no NetworkPolicy for ingress in {pod.namespace} selects {pod.key}: every pod of the cluster can reach it"
    )


def selects(selector: Mapping[str, Any], pod: SurveyedPod) -> bool:
    """Return whether a label selector of the API selects *pod*; an empty one selects every pod."""

    def holds(expression: Mapping[str, Any]) -> bool:
        key, values = str(expression.get("key")), expression.get("values") or []
        match expression.get("operator"):
            case "In":
                return pod.labels.get(key) in values
            case "NotIn":
                return pod.labels.get(key) not in values
            case "Exists":
                return key in pod.labels
            case _:
                return key not in pod.labels

    labels = words(selector, "matchLabels").items() <= pod.labels.items()
    return labels and all(holds(expression) for expression in entries(selector, "matchExpressions"))


def security(namespaces: Mapping[str, Mapping[str, str]], ours: Sequence[SurveyedPod]) -> Finding:
    """Judge the Pod Security label of the namespace of *ours*."""
    if not ours:
        return SECURITY.skipped(NOT_HERE)
    namespace = ours[0].namespace
    level = namespaces.get(namespace, {}).get(ENFORCE, "")
    if level in ("restricted", "baseline"):
        return SECURITY.passed(f"{namespace} enforces {level}")
    return SECURITY.warned(f"{namespace} enforces {level or 'nothing'}")


def quotas(found: Sequence[Mapping[str, Any]], pods: Sequence[SurveyedPod]) -> Finding:
    """Find namespaces with GPU pods and without a quota of GPUs."""
    counted = (p for p in pods if p.gpus and not p.daemon and p.namespace not in IGNORED_NAMESPACES)
    asking = {p.namespace for p in counted if KUEUE_QUEUE not in p.labels}
    bounded = {
        str(section(raw, "metadata").get("namespace"))
        for raw in found
        if QUOTA_LABEL not in words(section(raw, "metadata"), "labels")
        and any("nvidia.com/" in resource for resource in section(section(raw, "spec"), "hard"))
    }
    free = sorted(asking - bounded)
    if free:
        return QUOTAS.warned(f"GPU pods run without a quota in {', '.join(free)}: one team can take all GPUs")
    if not asking:
        return QUOTAS.passed("no namespace has GPU pods outside of Kueue")
    return QUOTAS.passed(f"with a quota: {', '.join(sorted(asking))}")


def classes(found: Collection[str], configuration: Configuration) -> Finding:
    """Judge the names of the PriorityClasses."""
    own = {name for name in found if not name.startswith(SYSTEM) and name != OURS}
    passing = set(configuration.budget.passing_priority_classes) if configuration.budget else set()
    missing = sorted(passing - set(found))
    if missing:
        said = f"budget.passing_priority_classes names {', '.join(missing)}, and there is no such PriorityClass"
        return CLASSES.failed(said, "create it, or correct the name: no work passes at the hold line")
    if not own:
        return CLASSES.warned(
            "there is no PriorityClass beside those of the system and the autoscaler, so no work takes precedence"
        )
    return CLASSES.passed(f"there are {', '.join(sorted(own)[:6])}")
