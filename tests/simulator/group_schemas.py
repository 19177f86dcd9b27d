"""The shapes of groups, JobSets and LeaderWorkerSets, by the OpenAPI of Kubernetes 1.35 to 1.37 (scheduling.k8s.io) and
the CRDs of jobset.x-k8s.io/v1alpha2 and leaderworkerset.x-k8s.io/v1.

A shape names the fields of an object and the shape of each; ``!`` ends the names that are required. A list of one shape
is a list of such objects, a type is a value of it. `ANY` is described elsewhere: metadata, pod templates.
"""

from collections.abc import Mapping
from typing import Any

ANY = object()
OBJECT = {"apiVersion": str, "kind": str, "metadata!": ANY}
POLICY: dict[str, Any] = {"basic": {}, "gang": {"minCount!": int}}
TOPOLOGY = ANY
TYPED = {"apiGroup": str, "kind!": str, "name!": str}
WORKLOAD_V1ALPHA1 = {
    **OBJECT,
    "spec!": {"controllerRef": TYPED, "podGroups!": [{"name!": str, "policy!": POLICY}]},
}
GROUP = {"schedulingPolicy!": POLICY, "schedulingConstraints": TOPOLOGY}
GROUP_OF_1_36 = {**GROUP, "podGroupTemplateRef": {"workload": {"workloadName!": str, "podGroupTemplateName!": str}}}
GROUP_OF_1_37 = {
    **GROUP,
    "workloadRef": {"workloadName!": str, "templateName!": str},
    "resourceClaims": ANY,
    "priorityClassName": str,
    "priority": int,
    "preemptionPolicy": str,
    "disruptionMode": {"single": {}, "all": {}},
}
TEMPLATE: dict[str, Any] = {"metadata": ANY, "spec": ANY}
COUNTS = {f"{count}!": int for count in ("active", "failed", "ready", "succeeded", "suspended")}
JOB = {"parallelism": int, "completions": int, "completionMode": str, "backoffLimit": int, "template!": TEMPLATE}
JOB_SET = {
    **OBJECT,
    "spec!": {
        "replicatedJobs": [
            {
                "name!": str,
                "groupName": str,
                "replicas": int,
                "dependsOn": [{"name!": str, "status!": str}],
                "template!": {"metadata": ANY, "spec": JOB},
            }
        ],
        "startupPolicy": {"startupPolicyOrder!": str},
        "coordinator": ANY,
        "failurePolicy": ANY,
        "network": ANY,
        "successPolicy": ANY,
        "suspend": bool,
    },
    "status": {"conditions": [ANY], "replicatedJobsStatus": [{"name!": str, **COUNTS}], "restarts": int},
}
WORKER_SET = {
    **OBJECT,
    "spec!": {
        "replicas": int,
        "leaderWorkerTemplate!": {
            "size": int,
            "restartPolicy": str,
            "leaderTemplate": TEMPLATE,
            "workerTemplate!": TEMPLATE,
        },
        "startupPolicy": str,
        "rolloutStrategy": ANY,
        "networkConfig": ANY,
    },
    "status": ANY,
}
KINDS: Mapping[tuple[str, str], Any] = {
    ("scheduling.k8s.io/v1alpha1", "Workload"): WORKLOAD_V1ALPHA1,
    ("scheduling.k8s.io/v1alpha2", "PodGroup"): {**OBJECT, "spec!": GROUP_OF_1_36, "status": ANY},
    ("scheduling.k8s.io/v1alpha3", "PodGroup"): {**OBJECT, "spec!": GROUP_OF_1_37, "status": ANY},
    ("scheduling.k8s.io/v1beta1", "PodGroup"): {**OBJECT, "spec!": GROUP_OF_1_37, "status": ANY},
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): JOB_SET,
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): WORKER_SET,
}
IN_GROUP = {"schedulingGroup!": {"podGroupName!": str}}
IN_WORKLOAD = {"workloadRef!": {"name!": str, "podGroup!": str, "podGroupReplicaKey": str}}
PLACES: Mapping[str, Any] = {  # the fields of a pod's spec, by the API that they refer to
    "scheduling.k8s.io/v1alpha1": IN_WORKLOAD,
    **dict.fromkeys((f"scheduling.k8s.io/{v}" for v in ("v1alpha2", "v1alpha3", "v1beta1")), IN_GROUP),
}


def faults_of(shape: Any, shown: Any, where: str = "", *, partly: bool = False) -> list[str]:
    """Return how *shown* differs from *shape*; *partly*: the shape does not name every field."""
    if shape is ANY:
        return []
    if isinstance(shape, list):
        each = enumerate(shown) if isinstance(shown, list) else [(-1, shown)]
        return [fault for n, one in each for fault in faults_of(shape[0], one, f"{where}[{n}]")]
    if isinstance(shape, type):
        return [] if type(shown) is shape else [f"{where} is {shown!r}"]
    if not isinstance(shown, dict):
        return [f"{where} is {shown!r}"]
    fields = {name.removesuffix("!"): of for name, of in shape.items()}
    unknown = [] if partly else [f"{where}.{name} is unknown" for name in shown if name not in fields]
    lacking = [f"{where}.{n[:-1]} is missing" for n in shape if n.endswith("!") and n[:-1] not in shown]
    inside = [faults_of(of, shown[name], f"{where}.{name}") for name, of in fields.items() if name in shown]
    return [*unknown, *lacking, *(fault for faults in inside for fault in faults)]
