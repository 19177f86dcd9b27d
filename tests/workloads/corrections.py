"""Forms that circulate in guides of this field and are wrong or outdated: each a check that finds it in an object."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

JSON = dict[str, Any]
GPU_PREFIX = "nvidia.com/"
RETIRED = {
    "autoscaling/v2beta1": "autoscaling/v2",
    "autoscaling/v2beta2": "autoscaling/v2",
    "autoscaling.keda.sh/v1alpha1": "keda.sh/v1alpha1",
    "keda.k8s.io/v1alpha1": "keda.sh/v1alpha1",
    "kueue.x-k8s.io/v1alpha1": "kueue.x-k8s.io/v1beta2",
    "kueue.x-k8s.io/v1beta1": "kueue.x-k8s.io/v1beta2",
    "karpenter.sh/v1beta1": "karpenter.sh/v1",
    "policy/v1beta1": "policy/v1",
    "batch/v1beta1": "batch/v1",
    "admissionregistration.k8s.io/v1alpha1": "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1beta1": "admissionregistration.k8s.io/v1",
}
NAMES = {
    r"nvidiagpuutilization|\bdcgm_gpu_utilization\b|\bdcgm_fb_(?:used|free)\b": "DCGM's metrics are called DCGM_FI_*",
    r'resource="nvidia\.com/gpu"': "kube-state-metrics says nvidia_com_gpu",
    r"max\(\s*kueue_admission_wait_time_seconds": "it is a histogram",
    r"count\(\s*kube_node_labels": "label metrics exist for allowed labels only",
    r"\bDCGM_FI_\w+[^\n]*\bby \(namespace\)|\bby \(namespace\) \(DCGM_FI_": "namespace is the exporter's own",
}


def walk(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value inside *value* with the keys that lead there; list places are left out."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from walk(inner, (*path, str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner, path)


def _sections(body: JSON, name: str) -> list[Any]:
    return [value for path, value in walk(body) if path and path[-1] == name]


def _api_is_retired(body: JSON) -> bool:
    versions = [v for v in _sections(body, "apiVersion") if isinstance(v, str)]
    return any(version in RETIRED for version in versions)


def _labels_are_capitalised(body: JSON) -> bool:
    return any(path and path[-1] in ("Labels", "Annotations") for path, _ in walk(body))


def _cohort_is_under_its_old_name(body: JSON) -> bool:
    return body["kind"] == "ClusterQueue" and "cohort" in body.get("spec", {})


def _a_workload_priority_class_has_a_spec(body: JSON) -> bool:
    return body["kind"] == "WorkloadPriorityClass" and ("spec" in body or "value" not in body)


def _the_queue_is_an_annotation(body: JSON) -> bool:
    return any("kueue.x-k8s.io/queue-name" in (found or {}) for found in _sections(body, "annotations"))


def _single_mig_is_asked_for_slices(body: JSON) -> bool:
    return "nvidia.com/mig-" in str(body) and bool(re.search(r"[sS]trategy: single\b", yaml.safe_dump(body)))


def _the_operator_has_no_such_value(body: JSON) -> bool:
    mig, mps = body.get("mig"), body.get("mps")
    return (isinstance(mig, dict) and "config" in mig) or (
        isinstance(mps, dict) and bool({"enabled", "replicas"} & set(mps))
    )


def _a_target_is_of_an_old_kind(body: JSON) -> bool:
    return any(path and path[-1] in ("targetAverageValue", "targetAverageUtilization") for path, _ in walk(body))


def _prometheus_has_metrics(body: JSON) -> bool:
    return body["kind"] == "Prometheus" and "metrics" in body.get("spec", {})


def _the_selector_is_a_resource(body: JSON) -> bool:
    return any("nvidia.com/gpu" in (found or {}) for found in _sections(body, "nodeSelector"))


def _the_vpa_sizes_gpus(body: JSON) -> bool:
    if body["kind"] != "VerticalPodAutoscaler":
        return False
    return GPU_PREFIX in str(body) or any(p and p[-1] in ("minResources", "maxResources") for p, _ in walk(body))


def _a_quota_is_on_limits_of_gpus(body: JSON) -> bool:
    hard = body.get("spec", {}).get("hard", {}) if body["kind"] == "ResourceQuota" else {}
    return any(key.startswith((f"limits.{GPU_PREFIX}", GPU_PREFIX)) for key in hard)


def _a_limit_range_gives_gpus_out(body: JSON) -> bool:
    """A default above zero, or none beside a max: the API server then takes the max as the default of containers.

    (`SetDefaults_LimitRangeItem` in pkg/apis/core/v1/defaults.go of Kubernetes.)
    """
    if body["kind"] != "LimitRange":
        return False
    for item in body["spec"]["limits"]:
        default, given = item.get("default", {}), item.get("defaultRequest", {})
        for name in {*item.get("max", {}), *default, *given}:
            if name.startswith(GPU_PREFIX):
                effective = default.get(name, item.get("max", {}).get(name, 0))
                if item["type"] != "Container" or str(effective) != "0" or str(given.get(name, effective)) != "0":
                    return True
    return False


def _the_internet_is_a_pod(body: JSON) -> bool:
    if body["kind"] != "NetworkPolicy":
        return False
    for rule in body["spec"].get("egress", ()):
        ports = [p.get("port") for p in rule.get("ports", ())]
        if 443 in ports and any(
            set(peer) == {"podSelector"} and not peer["podSelector"] for peer in rule.get("to", ())
        ):
            return True
    return False


def _karpenter_disrupts_by_its_old_word(body: JSON) -> bool:
    return "WhenUnderutilized" in [value for _, value in walk(body)]


def _volcano_has_no_such_thing(body: JSON) -> bool:
    if not body["apiVersion"].split("/")[0].endswith("volcano.sh"):
        return False
    spec = body.get("spec", {})
    return "sla" in spec.get("plugins", {}) or (body["kind"] == "Queue" and "preemptionPolicy" in spec)


def _the_rights_end_at_the_namespace(body: JSON) -> bool:
    outside = body["metadata"].get("name") == "gpu-autoscaler-prometheus"  # it reads one Service there, no nodes
    return bool(body["kind"] == "Role" and body["metadata"].get("namespace") == "kube-system" and not outside)


def _a_scaling_alert_is_info(body: JSON) -> bool:
    labels = [found for found in _sections(body, "labels") if isinstance(found, dict)]
    return any(found.get("severity") == "info" and "action" in found for found in labels)


def _a_series_is_called_otherwise(body: JSON) -> bool:
    texts = [value for _, value in walk(body) if isinstance(value, str)]
    return any(re.search(pattern, text) for pattern in NAMES for text in texts)


def _a_pod_tolerates_everything(body: JSON) -> bool:
    return any(
        isinstance(t, dict) and t.get("operator") == "Exists" and not t.get("key")
        for found in _sections(body, "tolerations")
        for t in (found or ())
    )


CHECKS: tuple[Callable[[JSON], bool], ...] = (
    _api_is_retired,
    _labels_are_capitalised,
    _cohort_is_under_its_old_name,
    _a_workload_priority_class_has_a_spec,
    _the_queue_is_an_annotation,
    _single_mig_is_asked_for_slices,
    _the_operator_has_no_such_value,
    _a_target_is_of_an_old_kind,
    _prometheus_has_metrics,
    _the_selector_is_a_resource,
    _the_vpa_sizes_gpus,
    _a_quota_is_on_limits_of_gpus,
    _a_limit_range_gives_gpus_out,
    _the_internet_is_a_pod,
    _karpenter_disrupts_by_its_old_word,
    _volcano_has_no_such_thing,
    _the_rights_end_at_the_namespace,
    _a_scaling_alert_is_info,
    _a_series_is_called_otherwise,
    _a_pod_tolerates_everything,
)


def wrong_in(body: JSON) -> list[str]:
    """Return the wrong forms in *body*, each by the name of its check."""
    whole = {"apiVersion": "", "kind": "", "metadata": {}, **body}
    return [check.__name__.strip("_").replace("_", " ") for check in CHECKS if check(whole)]
