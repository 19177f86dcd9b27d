"""The ResourceSlices and DeviceClasses of a DRA driver that serves the GPUs of a pool."""

from datetime import datetime
from typing import Any

from receiver.replay.world.objects import WorldNode
from simulator.kubernetes_objects import stamp, uid_of
from simulator.live import Live

JSON = dict[str, Any]
DRA = "resource.k8s.io"
DRIVER = "gpu.nvidia.com"


def install(live: Live) -> None:
    """Serve the group, with a DeviceClass for each resource of a pool whose GPUs a DRA driver serves."""
    version = f"{DRA}/{live.config.kubernetes.dra}"
    for resource in sorted({r for pool in live.config.pools if pool.dra for r in pool.resources}):
        name = DRIVER if resource == "nvidia.com/gpu" else resource.replace("/", "-")
        spec = {
            "selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}],
            "extendedResourceName": resource,
        }
        live.custom.put(
            [{"apiVersion": version, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}], live.started_at
        )


def resource_slices(live: Live) -> list[JSON]:
    """Return one slice for each node whose driver has come up; hold the world's lock."""
    with live.moved() as world:
        return [found for node in world.nodes.values() if (found := slice_of(live, node)) is not None]


def slice_of(live: Live, node: WorldNode) -> JSON | None:
    """Return the slice of *node*, None before its driver has come up."""
    return _slice(node, live.started_at) if node.dra and (any(node.gpus.values()) or node.unhealthy) else None


def _slice(node: WorldNode, since: datetime) -> JSON:
    whole = sum(node.gpus.values())
    devices = [
        {
            "name": f"gpu-{n}",
            "attributes": {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{uid_of(node.uid, str(n))}"}},
            **({} if n < whole else {"taints": [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}]}),
        }
        for n in range(whole + node.unhealthy)
    ]
    return {
        "metadata": {
            "name": f"{node.name}-{DRIVER}",
            "uid": uid_of("ResourceSlice", node.uid),
            "resourceVersion": str(node.version),
            "creationTimestamp": stamp(max(since, node.created_at)),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}
            ],
        },
        "spec": {
            "driver": DRIVER,
            "nodeName": node.name,
            "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
