"""Kubernetes nodes as values, from the API server's JSON."""

from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

from kubernetes.utils.quantity import parse_quantity

from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes import sharing
from receiver.adapters.kubernetes.api import Json, condition, entries, section, text, words
from receiver.core.model.pods import CPU, MEMORY, SLOTS, STORAGE
from receiver.core.model.policy import Taint
from receiver.core.model.text import cut, harmless
from receiver.ports import ClusterNode, TryLater

GPU_PREFIX = "nvidia.com/"  # nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb
PROVIDER_PREFIX = "civo://"
MOST_UNITS = Decimal(10**9)
MOST_BYTES = Decimal(2**60)
IN_A_WHOLE = {CPU: 1000, MEMORY: 1, STORAGE: 1, SLOTS: 1}  # CPU counts in millicores
NO_DEVICES = ("kubernetes.io/", "requests.", "attachable-volumes-")
# The taints that the node lifecycle controller sets by conditions of the kubelet, and takes away again.
CONDITIONS = {
    "node.kubernetes.io/not-ready": "Ready",
    "node.kubernetes.io/unreachable": "Ready",
    "node.kubernetes.io/memory-pressure": "MemoryPressure",
    "node.kubernetes.io/disk-pressure": "DiskPressure",
    "node.kubernetes.io/pid-pressure": "PIDPressure",
    "node.kubernetes.io/network-unavailable": "NetworkUnavailable",
}
SHOWN = 60  # characters of what is not understood
LONGEST_NAME = 253  # bytes; no object's name is longer


def node_from(raw: Json) -> ClusterNode:
    """Return the node in *raw* (Node v1 core)."""
    metadata, spec, status = section(raw, "metadata"), section(raw, "spec"), section(raw, "status")
    provider = text(spec, "providerID")
    offered, labels = section(status, "allocatable"), words(metadata, "labels")
    annotations = words(metadata, "annotations")
    devices, shared = sharing.of_node(gpus(offered), labels, annotations)
    capacity, _ = sharing.of_node(gpus(section(status, "capacity")), labels, annotations)
    return ClusterNode(
        name=text(metadata, "name"),
        instance=provider.removeprefix(PROVIDER_PREFIX) if provider.startswith(PROVIDER_PREFIX) else "",
        ready=bool(condition(status, "Ready")),
        unschedulable=spec.get("unschedulable") is True,
        allocatable=devices,
        labels=labels,
        annotations=annotations,
        taints=tuple(taint_from(t) for t in entries(spec, "taints")),
        tainted_since=_tainted_since(spec, status),
        compute={**compute(offered), **shared},
        created_at=moment(metadata.get("creationTimestamp")),
        conditions={text(c, "type"): text(c, "status") for c in entries(status, "conditions")},
        capacity=capacity,
    )


def gpus(quantities: Json) -> dict[str, int]:
    """Return the GPU resources among *quantities* in whole units; zeros are left out."""
    counts = {name: _units(name, value) for name, value in quantities.items() if name.startswith(GPU_PREFIX)}
    return {name: count for name, count in counts.items() if count > 0}


def named_resources(quantities: Json) -> dict[str, int]:
    """Return the extended resources among *quantities* that are not NVIDIA's, in whole units, as far as readable."""
    others = (n for n in quantities if "/" in n and not n.startswith((GPU_PREFIX, *NO_DEVICES)))
    return {name: n for name in others if (n := _amount(SLOTS, str(quantities[name])))}


def compute(quantities: Json) -> dict[str, int]:
    """Return the compute resources among *quantities* (`receiver.core.model.pods`), rounded up as Kubernetes does. A
    pod that cannot be read is left out: one malformed object must not hide the others."""
    amounts: dict[str, int] = {}
    for name, value in quantities.items():  # a loop: this is called for every container of the cluster
        if name in IN_A_WHOLE and (amount := _amount(name, str(value))) is not None:
            amounts[name] = amount
    return amounts


def taint_from(raw: Json) -> Taint:
    return Taint(key=text(raw, "key"), value=text(raw, "value"), effect=text(raw, "effect") or "NoSchedule")


def _tainted_since(spec: Json, status: Json) -> dict[str, datetime]:
    """When the taints that stand for a condition of the node appeared, by key."""
    since_by_key: dict[str, datetime] = {}
    for raw in entries(spec, "taints"):
        kind = CONDITIONS.get(text(raw, "key"))
        if kind is None:
            continue
        changes = [c.get("lastTransitionTime") for c in entries(status, "conditions") if text(c, "type") == kind]
        since = moment(raw.get("timeAdded")) or next((at for at in map(moment, changes) if at is not None), None)
        if since is not None:
            since_by_key[text(raw, "key")] = since
    return since_by_key


def named(value: object) -> str:
    """Return the name in *value* that Kubernetes does not check: an annotation's text, a controller's kind, name,
    uid. A pod's author may put a long text with line breaks there, which a database index refuses."""
    name = str(value or "")
    if name.isascii() and name.isprintable() and len(name) <= LONGEST_NAME:
        return name.strip()
    plain = harmless(" ".join(name[: 2 * LONGEST_NAME].split()))
    return plain.encode()[:LONGEST_NAME].decode(errors="ignore")


class NotUnderstoodError(TryLater):
    """An answer that is not what Kubernetes gives; *what* is the part of it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"Kubernetes' answer is not understood: {what}", code="malformed")
        self.what = what


def _units(name: str, value: object) -> int:
    try:
        return int(bounded(value, MOST_UNITS))
    except (ValueError, ArithmeticError):
        excerpt = cut(repr(value), SHOWN)
        raise NotUnderstoodError(f"{name} is {excerpt}") from None


@lru_cache(maxsize=4096)  # the pods of a cluster ask for few different amounts
def _amount(name: str, value: str) -> int | None:
    try:
        return int((bounded(value, MOST_BYTES) * IN_A_WHOLE[name]).to_integral_value(ROUND_CEILING))
    except (ValueError, ArithmeticError):
        return None


def bounded(value: object, most: Decimal) -> Decimal:
    """Return the quantity from 0 to *most*: ``1e999999999`` is eleven characters and a billion digits."""
    amount: Decimal = parse_quantity(value)
    return max(Decimal(0), min(amount, most))
