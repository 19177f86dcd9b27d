"""Devices as DRA drivers publish them, in the shapes of resource.k8s.io/v1: sets of a node, slices, complete pools."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from receiver.replay.world.objects import DeviceSet, WorldPool

JSON = dict[str, Any]
Judge = Callable[[str, JSON], bool | None]  # a CEL expression on a device with its driver; None: it cannot be judged
DRA = "resource.k8s.io"
DRIVER = "gpu.nvidia.com"
_UNITS: Mapping[str, Decimal] = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{letter: Decimal(1000**power) for power, letter in enumerate("kMGTP", 1)},
    **{f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTP", 1)},
}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kMGTP]|[KMGTP]i)?")
_TERM = re.compile(
    r"""device\.(?:driver|attributes\[(['"])(?P<domain>[^'"]+)\1\]\.(?P<name>\w+))\s*==\s*"""
    r"""(?:(['"])(?P<text>[^'"]*)\4|(?P<number>-?\d+)|(?P<flag>true|false))"""
)


class DeviceId(NamedTuple):
    driver: str
    pool: str
    name: str


class DevicePool(NamedTuple):
    """A complete pool: its devices, and the totals of its counters by set and name."""

    driver: str
    name: str
    devices: Mapping[str, JSON]
    counters: Mapping[tuple[str, str], Decimal]


def stamp(moment: datetime) -> str:
    """Return a Time as Kubernetes writes it: whole seconds, Z."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def uid_of(*words: str) -> str:
    """Return a UID that is always the same for the same words."""
    text = hashlib.sha256("/".join(words).encode()).hexdigest()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:32]}"


def amount(text: object) -> Decimal:
    """Return the quantity. Raises ValueError for a text that is none."""
    quantity = _QUANTITY.fullmatch(str(text))
    if quantity is None:
        raise ValueError(f"{text!r} is no quantity")
    return Decimal(quantity[1]) * _UNITS[quantity[2] or ""]


def device_sets(pool: WorldPool) -> tuple[DeviceSet, ...]:
    """Return what a DRA driver serves on a node of *pool*: its devices, or NVIDIA's for its resources."""
    return pool.devices or (_gpus_of(pool.resources) if pool.dra else ())


def _gpus_of(resources: Mapping[str, int]) -> tuple[DeviceSet, ...]:
    devices = [
        {"name": f"gpu-{n}", "attributes": _kind(resource)}
        for n, resource in enumerate(r for r, count in resources.items() for _ in range(count))
    ]
    return (DeviceSet(devices=tuple(devices)),) if devices else ()


def _kind(resource: str) -> JSON:
    if resource == "nvidia.com/gpu":
        return {"type": {"string": "gpu"}}
    return {"type": {"string": "mig"}, "profile": {"string": resource.rpartition("/")[2]}}


def device_class(resource: str | None, name: str = "") -> JSON:
    """Return the spec of NVIDIA's DeviceClass for *resource*; without one that of *name*, ``gpu`` or ``mig``."""
    of = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}']."
    if resource is None:
        return {"selectors": [{"cel": {"expression": f"{of}type == '{name}'"}}]}
    terms = [f"{of}{attribute} == '{value['string']}'" for attribute, value in _kind(resource).items()]
    return {"selectors": [{"cel": {"expression": t}} for t in terms], "extendedResourceName": resource}


def slices_of(device_set: DeviceSet, node: str, uid: str, generation: int) -> list[JSON]:
    """Return the ResourceSlices of a set on the node with that name and *uid*: that of the counters first."""
    devices = [_with_uuid(device, device_set.driver, uid, n) for n, device in enumerate(device_set.devices)]
    slice_size = max(1, -(-len(devices) // device_set.slices))
    parts = [{"devices": devices[n : n + slice_size]} for n in range(0, len(devices), slice_size)]
    parts = [{"sharedCounters": [dict(c) for c in device_set.counters]}] * bool(device_set.counters) + parts
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    pool = {"name": node, "generation": generation, "resourceSliceCount": len(parts)}
    return [
        {
            "metadata": {"name": f"{node}-{device_set.driver}-{n}", "ownerReferences": [owner]},
            "spec": {"driver": device_set.driver, "nodeName": node, "pool": pool, **part},
        }
        for n, part in enumerate(parts)
    ]


def _with_uuid(device: Mapping[str, Any], driver: str, uid: str, number: int) -> JSON:
    if driver != DRIVER:
        return dict(device)
    uuid = {"uuid": {"string": f"GPU-{uid_of(uid, str(number))}"}}
    return {**device, "attributes": {**uuid, **device.get("attributes", {})}}


def complete_pools(slices: Iterable[JSON], rules: Iterable[JSON] = ()) -> list[DevicePool]:
    """Return the pools of which every slice of the newest generation is there, with the taints of DeviceTaintRules."""
    groups: dict[tuple[str, str], list[JSON]] = {}
    for spec in (one["spec"] for one in slices if "pool" in one["spec"]):
        groups.setdefault((spec["driver"], spec["pool"]["name"]), []).append(spec)
    pools = []
    for (driver, name), specs in groups.items():
        newest = max(spec["pool"]["generation"] for spec in specs)
        specs = [spec for spec in specs if spec["pool"]["generation"] == newest]
        devices = [device for spec in specs for device in spec.get("devices") or ()]
        whole = len(specs) == specs[0]["pool"]["resourceSliceCount"]
        if whole and len({device["name"] for device in devices}) == len(devices):
            counters = {
                (one["name"], counter): amount(value["value"])
                for spec in specs
                for one in spec.get("sharedCounters") or ()
                for counter, value in one["counters"].items()
            }
            tainted = {d["name"]: _tainted(d, DeviceId(driver, name, d["name"]), rules) for d in devices}
            pools.append(DevicePool(driver, name, tainted, counters))
    return pools


def _tainted(device: JSON, name: DeviceId, rules: Iterable[JSON]) -> JSON:
    taints = list(device.get("taints") or ())
    for rule in (one["spec"] for one in rules):
        chosen = rule.get("deviceSelector")  # without one it selects nothing
        selectors = zip(("driver", "pool", "device"), name, strict=True)
        if chosen is not None and all(chosen.get(key) in (None, value) for key, value in selectors):
            taints.append(rule["taint"])
    return {**device, "taints": taints} if taints else device


def attribute(device: JSON, driver: str, name: str) -> tuple[str, Any] | None:
    """Return the kind and value of the attribute with the fully qualified *name*; None for none, and for a list."""
    domain, _, bare = name.rpartition("/")
    attributes = device.get("attributes") or {}
    typed_value = attributes.get(name) or (attributes.get(bare) if domain == driver else None)
    [(kind, value)] = typed_value.items() if typed_value else [("", [])]
    return None if isinstance(value, list) else (kind, value)


def simple_judge(expression: str, device: JSON) -> bool | None:
    """Judge comparisons of the driver and of attributes with constants, joined by ``&&``; None for anything else."""
    for part in expression.split("&&"):
        term = _TERM.fullmatch(part.strip())
        if term is None:
            return None
        have: Any = device["driver"]
        if term["domain"]:
            typed_value = attribute(device, device["driver"], f"{term['domain']}/{term['name']}")
            if typed_value is None:
                return None
            have = typed_value[1]
        constant: Any = term["text"]
        if constant is None:
            constant = int(term["number"]) if term["number"] else term["flag"] == "true"
        if have != constant:
            return False
    return True
