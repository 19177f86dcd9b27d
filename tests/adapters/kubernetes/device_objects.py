"""Device classes, claims and their templates of resource.k8s.io, as the API server shows them."""

from collections.abc import Sequence
from typing import Any

JSON = dict[str, Any]
DRIVER = "gpu.nvidia.com"
OF_DRIVER = f"device.driver == '{DRIVER}'"


def a_device_class(
    name: str = DRIVER, resource: str = "", at: str = "2026-11-01T00:00:00Z", *, of: str = OF_DRIVER
) -> JSON:
    """A DeviceClass created *at*; *of* is its selector in CEL."""
    spec = {"selectors": [{"cel": {"expression": of}}], **({"extendedResourceName": resource} if resource else {})}
    return {"metadata": {"name": name, "creationTimestamp": at}, "spec": spec}


def a_device_request(count: int = 1, name: str = "gpu", **exactly: Any) -> JSON:
    """A request for *count* devices of the driver's class."""
    return {"name": name, "exactly": {"deviceClassName": DRIVER, "count": count, **exactly}}


def a_claim_spec(*requests: JSON, **devices: Any) -> JSON:
    """The spec of a claim with *requests*."""
    return {"devices": {"requests": list(requests), **devices}}


def a_resource_claim(
    name: str, spec: JSON | None = None, *given: str, pods: Sequence[str] = (), admin: bool = False
) -> JSON:
    """The claim ml/*name*, which has the devices *given* of node n1 for *pods* (uids)."""
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": d, **({"adminAccess": True} if admin else {})}
        for d in given
    ]
    status = {"allocation": {"devices": {"results": results}}} if given else {}
    users = [{"resource": "pods", "name": uid, "uid": uid} for uid in pods]
    meta = {"name": name, "namespace": "ml"}
    return {
        "metadata": meta,
        "spec": spec or a_claim_spec(a_device_request()),
        "status": {**status, "reservedFor": users},
    }


def a_claim_template(name: str, spec: JSON) -> JSON:
    """A ResourceClaimTemplate ml/*name*."""
    return {"metadata": {"name": name, "namespace": "ml"}, "spec": {"spec": spec}}
