"""What a production cluster has around the workloads: policies, quotas and classes. Pure judgements; all only warn."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from receiver.adapters.kubernetes.nodes import entries, section, words
from receiver.adapters.survey.cluster import OURS, SeenPod
from receiver.config import Configuration
from receiver.core.scaling.demand import IGNORED_NAMESPACES
from receiver.doctor.finding import Check, Finding
from receiver.ports import QUOTA_LABEL

NETWORK = Check(
    "kubernetes.network_policy",
    "whether a NetworkPolicy says who may reach our pods",
    ("warn", "skip"),
    "apply the NetworkPolicy of k8s/ to our namespace: pages and webhook are for few",
)
SECURITY = Check(
    "kubernetes.pod_security",
    "whether our namespace enforces Pod Security `restricted` or `baseline`",
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
    "whether there are PriorityClasses beside the system's and our own, and those that "
    "`budget.passing_priority_classes` names",
    ("warn", "fail", "skip"),
    "create PriorityClasses for production, training and development (k8s/workloads)",
)
ENFORCE = "pod-security.kubernetes.io/enforce"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
SYSTEM = "system-"


def network(policies: Sequence[Mapping[str, Any]], ours: Sequence[SeenPod]) -> Finding:
    """Judge the NetworkPolicies that select our pods; one of egress alone keeps nobody out."""
    if not ours:
        return NETWORK.skipped("no pod in the cluster is labelled app.kubernetes.io/name=gpu-autoscaler")
    pod = ours[0]
    for raw in policies:
        metadata, spec = section(raw, "metadata"), section(raw, "spec")
        types = spec.get("policyTypes") or ["Ingress"]  # as the API server fills it in
        if (
            "Ingress" in types
            and metadata.get("namespace") == pod.namespace
            and selects(section(spec, "podSelector"), pod)
        ):
            return NETWORK.passed(f"{metadata.get('name')} selects {pod.key}")
    return NETWORK.warned(
        f"no NetworkPolicy of ingress in {pod.namespace} selects {pod.key}: every pod of the cluster reaches it"
    )


def selects(selector: Mapping[str, Any], pod: SeenPod) -> bool:
    """True when a label selector of the API selects *pod*; an empty one selects every pod."""

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


def security(namespaces: Mapping[str, Mapping[str, str]], ours: Sequence[SeenPod]) -> Finding:
    """Judge the labels of our namespace."""
    if not ours:
        return SECURITY.skipped("no pod in the cluster is labelled app.kubernetes.io/name=gpu-autoscaler")
    namespace = ours[0].namespace
    level = namespaces.get(namespace, {}).get(ENFORCE, "")
    if level in ("restricted", "baseline"):
        return SECURITY.passed(f"{namespace} enforces {level}")
    return SECURITY.warned(f"{namespace} enforces {level or 'nothing'}")


def quotas(found: Sequence[Mapping[str, Any]], pods: Sequence[SeenPod]) -> Finding:
    """Find namespaces whose GPU pods nothing bounds."""
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
        return QUOTAS.warned(f"GPU pods run without a quota in {', '.join(free)}: one team can take everything")
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
        return CLASSES.failed(said, "create it, or correct the name: at the hold nobody passes")
    if not own:
        return CLASSES.warned(
            "there is no PriorityClass beside the system's and our own, so no work goes before other work"
        )
    return CLASSES.passed(f"there are {', '.join(sorted(own)[:6])}")
