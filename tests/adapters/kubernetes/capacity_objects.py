"""ProvisioningRequests, CapacityBuffers and their pod templates, as the API server shows them."""

from typing import Any

from receiver.ports import PROVISIONING_CLASS
from tests.adapters.kubernetes.custom_objects import CREATED, GPU

PROVISIONING_REQUESTS = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
POD_TEMPLATES = "/api/v1/podtemplates"
CONSUMES_REQUEST = {"autoscaling.x-k8s.io/consume-provisioning-request": "r"}
CAPACITY_BUFFERS = "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers"
RESOURCE_QUOTAS = "/api/v1/resourcequotas"
ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"


def a_provisioning_request(
    *pod_sets: tuple[str, int], conditions: Any = (), owner: str = "", **spec: Any
) -> dict[str, Any]:
    """A request ml/r for so many pods of each template."""
    metadata: dict[str, Any] = {"namespace": "ml", "name": "r", "uid": "uid-of-r", "creationTimestamp": CREATED}
    metadata |= {"resourceVersion": "4", "ownerReferences": [{"kind": "Workload", "name": "w", "uid": owner}]}
    sets = [{"podTemplateRef": {"name": name}, "count": count} for name, count in pod_sets or (("ppt", 2),)]
    said = {"provisioningClassName": PROVISIONING_CLASS, "podSets": sets, **spec}
    return {"metadata": metadata, "spec": said, "status": {"conditions": list(conditions)}}


def a_named_template(name: str, template: dict[str, Any]) -> dict[str, Any]:
    """A PodTemplate ml/*name* with *template*."""
    return {"metadata": {"namespace": "ml", "name": name}, "template": template}


def a_capacity_buffer(name: str = "warm", template: str | None = "chunk", **changes: Any) -> dict[str, Any]:
    """A CapacityBuffer; *changes* go to metadata (generation, creationTimestamp), status or spec."""
    metadata = {"namespace": "ml", "name": name, "uid": f"uid-of-{name}", "creationTimestamp": CREATED}
    metadata |= {"resourceVersion": "5"}
    spec: dict[str, Any] = {"provisioningStrategy": ACTIVE_CAPACITY}
    spec |= {"podTemplateRef": {"name": template}} if template else {}
    for field in ("generation", "creationTimestamp", "deletionTimestamp"):
        metadata |= {field: changes.pop(field)} if field in changes else {}
    return {"metadata": metadata, "status": changes.pop("status", {}), "spec": {**spec, **changes}}


def a_chunk_spec(gpus: int = 1, cpu: str = "100m", memory: str = "4Gi", **spec: Any) -> dict[str, Any]:
    """The spec of a pod for which a chunk of a buffer has room."""
    requests = {"cpu": cpu, "memory": memory, **({GPU: str(gpus)} if gpus else {})}
    return {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec}


def a_chunk_template(name: str = "chunk", generation: int = 1, **spec: Any) -> dict[str, Any]:
    """A PodTemplate ml/*name* with such a pod."""
    metadata = {"namespace": "ml", "name": name, "generation": generation}
    return {
        "metadata": metadata,
        "template": {"metadata": {"labels": {"team": "vision"}}, "spec": a_chunk_spec(**spec)},
    }
