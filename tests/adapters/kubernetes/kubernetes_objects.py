"""Kubernetes objects as the API server writes them: valid defaults, say only what matters."""

from typing import Any

from kubernetes import client

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import ClusterOptions, KubernetesCluster

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
PODS_OF_ML = "/api/v1/namespaces/ml/pods"


def denied(verb: str, resource: str) -> dict[str, Any]:
    """What RBAC answers, with status 403, to who may not *verb* *resource*."""
    said = (
        f'{resource} is forbidden: User "system:serviceaccount:a:b" cannot {verb} resource "{resource}" in API group ""'
    )
    return {"kind": "Status", "reason": "Forbidden", "message": said}


def a_cluster_at(url: str, *, read_timeout: float = 60, **options: Any) -> KubernetesCluster:
    """Return the adapter under test, pointed at *url*; *options* are its clock, and fields of
    `Calls` and `ClusterOptions`."""
    configuration = client.Configuration(host=url.rstrip("/"))
    calls = {name: options.pop(name) for name in ("before_write", "last_word", "write_seconds") if name in options}
    clock = options.pop("clock", None)
    return KubernetesCluster(
        configuration,
        calls=Calls(timeouts=(1.0, read_timeout), **calls),
        options=ClusterOptions(**options),
        clock=clock,
    )


def a_list(*items: dict[str, Any], more: str | None = None) -> dict[str, Any]:
    """Return a list answer; *more* is the token of the next page."""
    return {"metadata": {"resourceVersion": "7", **({"continue": more} if more else {})}, "items": list(items)}


def a_node(name: str = "gpu-1", **changes: Any) -> dict[str, Any]:
    """Return a Ready node with one GPU; *changes* replace ``annotations``, ``unschedulable``, ``conditions`` ..."""
    return {
        "metadata": {
            "name": name,
            "resourceVersion": "41",
            "labels": {"kubernetes.civo.com/civo-node-pool": "pool-a"},
            "annotations": changes.pop("annotations", {}),
        },
        "spec": {
            "providerID": changes.pop("provider_id", f"civo://instance-of-{name}"),
            "taints": changes.pop("taints", None),
            **({"unschedulable": True} if changes.pop("unschedulable", False) else {}),
        },
        "status": {
            "allocatable": changes.pop("allocatable", {"cpu": "11900m", "nvidia.com/gpu": "1"}),
            "conditions": changes.pop("conditions", [{"type": "Ready", "status": "True"}]),
        },
    }


def a_pod(name: str = "train-0", *, gpus: int = 1, node: str | None = None, **changes: Any) -> dict[str, Any]:
    """Return a pod, unschedulable unless *node* is given; *changes* go to metadata, spec or status by name."""
    resources = {"requests": {"cpu": "4", "nvidia.com/gpu": str(gpus)}} if gpus else {"requests": {"cpu": "4"}}
    metadata: dict[str, Any] = {
        "namespace": "ml",
        "name": name,
        "uid": f"uid-of-{name}",
        "creationTimestamp": "2026-11-20T10:00:00Z",
    }
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": resources}]}
    status: dict[str, Any] = {"phase": "Running" if node else "Pending"}
    if node:
        spec["nodeName"] = node
    else:
        status["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    for key, value in changes.items():
        if key in ("annotations", "labels", "ownerReferences", "deletionTimestamp", "namespace", "creationTimestamp"):
            metadata[key] = value
        elif key in ("phase", "conditions", "nominatedNodeName"):
            status[key] = value
        else:
            spec[key] = value
    return {"metadata": metadata, "spec": spec, "status": status}


def owned_by(kind: str, name: str = "owner", *, controller: bool = True) -> list[dict[str, Any]]:
    """Return ownerReferences with one owner."""
    return [{"apiVersion": "v1", "kind": kind, "name": name, "uid": f"uid-of-{kind}-{name}", "controller": controller}]


def scheduling_refusal(reason: str) -> dict[str, Any]:
    """The status of a pod that the scheduler has refused for *reason*."""
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]}
