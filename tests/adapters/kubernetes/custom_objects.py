"""Objects of Kueue, Volcano and coscheduling as their controllers write them: say only what matters."""

from typing import Any

from receiver.ports import BUDGET_CHECK

CREATED = "2026-11-20T10:00:00Z"
GPU = "nvidia.com/gpu"

KUEUE = "/apis/kueue.x-k8s.io/v1beta2/workloads"
KUEUE_BEFORE = "/apis/kueue.x-k8s.io/v1beta1/workloads"
VOLCANO_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
VOLCANO_QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
VOLCANO_JOBS = "/apis/batch.volcano.sh/v1alpha1/jobs"
COSCHEDULING_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
IN_COSCHEDULING_GROUP: dict[str, Any] = {"labels": {"scheduling.x-k8s.io/pod-group": "big"}}
QUOTA_RESERVED = {"type": "QuotaReserved", "status": "True"}


def a_template(gpus: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a pod template whose container asks for *gpus*, with *spec* on top."""
    requests = {"cpu": "4", **({GPU: str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "train", "resources": {"requests": requests}}
    return {"metadata": {"labels": {"team": "vision"}}, "spec": {"containers": [container], **spec}}


def a_pod_set(count: int = 2, *, name: str = "main", **more: Any) -> dict[str, Any]:
    """Return a Kueue podSet; *more* replaces its fields."""
    return {"name": name, "count": count, "template": a_template(), **more}


def a_workload(name: str = "job-train-1f2a3", *pod_sets: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a Kueue Workload that waits for quota; *changes* go to status (conditions ...), metadata or spec."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-of-job", "controller": True}
    metadata: dict[str, Any] = {"namespace": "ml", "name": name, "uid": f"uid-of-{name}", "creationTimestamp": CREATED}
    spec: dict[str, Any] = {"active": True, "queueName": "gpus", "podSets": list(pod_sets) or [a_pod_set()]}
    pending = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "insufficient quota"}
    status: dict[str, Any] = {"conditions": [pending]}
    metadata["ownerReferences"] = [owner]
    for key, value in changes.items():
        part = status if key in ("conditions", "reclaimablePods") else spec
        (metadata if key in ("deletionTimestamp", "creationTimestamp", "ownerReferences") else part)[key] = value
    return {"metadata": metadata, "spec": spec, "status": status}


def a_group(name: str = "train-pg", size: int = 2, **changes: Any) -> dict[str, Any]:
    """Return a PodGroup, pending; *changes* go to status (phase, succeeded), metadata or spec."""
    metadata: dict[str, Any] = {"namespace": "ml", "name": name, "uid": f"uid-of-{name}", "creationTimestamp": CREATED}
    spec: dict[str, Any] = {"minMember": size, "queue": "default"}
    status: dict[str, Any] = {"phase": "Pending"}
    for key, value in changes.items():
        part = status if key in ("phase", "succeeded", "running") else spec
        (metadata if key in ("deletionTimestamp", "creationTimestamp", "ownerReferences") else part)[key] = value
    return {"metadata": metadata, "spec": spec, "status": status}


def of_gpus(count: int) -> dict[str, str]:
    """Return minResources as Volcano's job controller writes them for *count* GPUs."""
    return {"cpu": "8", "pods": "2", GPU: str(count), f"requests.{GPU}": str(count)}


def a_queue(name: str = "default", *, capability: int | None = None, allocated: int = 0, state: str = "Open") -> Any:
    """Return a Volcano Queue; *capability* and *allocated* are GPUs."""
    spec: dict[str, Any] = {"weight": 1, "reclaimable": True}
    if capability is not None:
        spec["capability"] = {"cpu": "64", GPU: str(capability)}
    return {"metadata": {"name": name}, "spec": spec, "status": {"state": state, "allocated": {GPU: str(allocated)}}}


def a_vcjob(name: str, *tasks: dict[str, Any]) -> dict[str, Any]:
    """Return a Volcano Job of *tasks* (name, replicas, minAvailable, template)."""
    return {"metadata": {"namespace": "ml", "name": name}, "spec": {"tasks": list(tasks)}}


def owned_by_vcjob(name: str) -> list[dict[str, Any]]:
    """Return ownerReferences that name a Volcano Job."""
    return [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "controller": True, "uid": "u"}]


def an_admission_check(name: str = "budget", controller: str = BUDGET_CHECK, **said: Any) -> dict[str, Any]:
    """An AdmissionCheck; *said* are annotations or conditions."""
    metadata: dict[str, Any] = {
        "name": name,
        "uid": f"uid-of-{name}",
        "resourceVersion": "3",
        "annotations": said.get("annotations", {}),
    }
    return {
        "metadata": metadata,
        "spec": {"controllerName": controller},
        "status": {"conditions": said.get("conditions", [])},
    }


def a_check_state(name: str = "budget", state: str = "Pending", **more: Any) -> dict[str, Any]:
    """The state of an AdmissionCheck in a Workload's status."""
    return {"name": name, "state": state, "message": "", "lastTransitionTime": CREATED, **more}


def a_checked_workload(
    *states: dict[str, Any], conditions: Any = (QUOTA_RESERVED,), admission: Any = None, **changes: Any
) -> Any:
    """A Workload ml/train with quota, whose checks are in *states*."""
    found = a_workload("train", *changes.pop("pod_sets", ()), conditions=list(conditions), **changes)
    found["metadata"]["resourceVersion"] = "9"
    found["status"] |= {"admissionChecks": list(states or (a_check_state(),)), "admission": admission or {}}
    return found
