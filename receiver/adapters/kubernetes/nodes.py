"""Kubernetes nodes as values, from the API server's JSON."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

from kubernetes.utils.quantity import parse_quantity

from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes import sharing
from receiver.adapters.kubernetes.api import Json, condition, entries, section, text, words
from receiver.adapters.kubernetes.reflector import Lists, ResourceKind
from receiver.core.model.pods import CPU, MEMORY, SLOTS, STORAGE
from receiver.core.model.policy import Taint
from receiver.core.model.text import cut, harmless
from receiver.ports import Clock, ClusterNode, TryLater

GPU_PREFIX = "nvidia.com/"  # nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb
PROVIDER_PREFIX = "civo://"
MOST_UNITS = Decimal(10**9)
MOST_BYTES = Decimal(2**60)
IN_A_WHOLE = {CPU: 1000, MEMORY: 1, STORAGE: 1, SLOTS: 1}  # CPU counts in millicores
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
        compute={**compute(offered), **shared},
        created_at=moment(metadata.get("creationTimestamp")),
        conditions={text(c, "type"): text(c, "status") for c in entries(status, "conditions")},
        capacity=capacity,
    )


def gpus(quantities: Json) -> dict[str, int]:
    """Return the GPU resources among *quantities* in whole units; zeros are left out."""
    found = {name: _units(name, value) for name, value in quantities.items() if name.startswith(GPU_PREFIX)}
    return {name: count for name, count in found.items() if count > 0}


def compute(quantities: Json) -> dict[str, int]:
    """Return the compute resources among *quantities* (`receiver.core.model.pods`), rounded up as Kubernetes does. A
    pod that cannot be read is left out: one malformed object must not hide the others."""
    found: dict[str, int] = {}
    for name, value in quantities.items():  # a loop: this is called for every container of the cluster
        if name in IN_A_WHOLE and (amount := _amount(name, str(value))) is not None:
            found[name] = amount
    return found


def taint_from(raw: Json) -> Taint:
    return Taint(key=text(raw, "key"), value=text(raw, "value"), effect=text(raw, "effect") or "NoSchedule")


def named(value: object) -> str:
    """Return the name in *value* that Kubernetes does not check: an annotation's text, a controller's kind, name,
    uid. A pod's author may put a long text with line breaks there, which a database index refuses."""
    said = str(value or "")
    if said.isascii() and said.isprintable() and len(said) <= LONGEST_NAME:
        return said.strip()
    plain = harmless(" ".join(said[: 2 * LONGEST_NAME].split()))
    return plain.encode()[:LONGEST_NAME].decode(errors="ignore")


def _units(name: str, value: object) -> int:
    try:
        return int(bounded(value, MOST_UNITS))
    except (ValueError, ArithmeticError):
        said = cut(repr(value), SHOWN)
        raise TryLater(f"Kubernetes' answer is not understood: {name} is {said}", code="malformed") from None


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


HARD = ("NoSchedule", "NoExecute")
DRA_GROUP = "resource.k8s.io"
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
RESOURCE_SLICES = ResourceKind(DRA_GROUP, "resourceslices", DRA_VERSIONS)
DEVICE_CLASSES = ResourceKind(DRA_GROUP, "deviceclasses", DRA_VERSIONS)
DRA_DRIVER = "gpu.nvidia.com"
OF_DRA_DRIVER = f"spec.driver={DRA_DRIVER}"
UNREAD_FOR = timedelta(minutes=5)
WITHOUT_SLICES = "nodes whose GPUs a DRA driver serves look like nodes whose GPUs never come"
WITHOUT_CLASSES = "every GPU resource is believed to be served on nodes with a DRA driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraServed:
    """What DRA serves: GPUs on *nodes* (names), and the extended *resources* by which pods may ask for devices without
    a ResourceClaim (None: not known). *devices* counts a node's, *sick* names those that a taint keeps pods from."""

    nodes: frozenset[str] = frozenset()
    devices: Mapping[str, int] = field(default_factory=dict)
    sick: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    resources: frozenset[str] | None = None

    def on(self, node: ClusterNode) -> ClusterNode:
        """Return *node* with what slices show of it."""
        if node.name not in self.nodes:
            return node
        devices, sick = self.devices.get(node.name, 0), self.sick.get(node.name, ())
        return replace(node, dra=True, devices=devices, sick_devices=sick)


class Dra:
    """Reads what DRA serves. What was read last counts while the API server cannot tell."""

    def __init__(self, lists: Lists, clock: Clock) -> None:
        self._lists = lists
        self._clock = clock
        self._last: DraServed | None = None
        self._unread_since: datetime | None = None

    def served(self) -> DraServed:
        """Return what DRA serves now; nothing where the API or the right to list slices is missing. Raises TryLater
        while the API server cannot tell and never has, for a few minutes: a node with a DRA driver must not be taken
        for one whose GPUs never came. After that it is as without the API."""
        try:
            slices = self._lists.if_allowed(RESOURCE_SLICES, WITHOUT_SLICES, field_selector=OF_DRA_DRIVER)
            classes = None if slices is None else self._lists.if_allowed(DEVICE_CLASSES, WITHOUT_CLASSES)
        except TryLater as error:
            if self._last is not None:
                return self._last
            now = self._clock.now()
            self._unread_since = self._unread_since or now
            if timedelta(0) <= now - self._unread_since < UNREAD_FOR:
                raise
            self._lists.remarks.warn("ResourceSlices not read", f"{error}; {WITHOUT_SLICES}")
            return DraServed()
        resources = None if classes is None else resources_of(classes)
        devices, sick = devices_of(slices or ())
        self._last = DraServed(nodes=nodes_of(slices or ()), resources=resources, devices=devices, sick=sick)
        return self._last


def nodes_of(slices: Collection[Json]) -> frozenset[str]:
    """Return the names of the nodes on which *slices* show devices of the GPU driver."""
    specs = (section(raw, "spec") for raw in slices)
    shown = (s for s in specs if s.get("driver") == DRA_DRIVER and entries(s, "devices"))
    return frozenset(text(s, "nodeName") for s in shown) - {""}


def devices_of(slices: Collection[Json]) -> tuple[Mapping[str, int], Mapping[str, tuple[str, ...]]]:
    """Return how many devices of the GPU driver *slices* show by node, and those with a taint that keeps pods away
    (DeviceTaint of resource.k8s.io), each with its key."""
    count, sick = Counter[str](), defaultdict[str, tuple[str, ...]](tuple)
    for spec in (section(raw, "spec") for raw in slices):
        devices = [section(device, "basic") or device for device in entries(spec, "devices")]  # v1beta1 wraps them
        for raw, device in zip(entries(spec, "devices"), devices, strict=True):
            count[text(spec, "nodeName")] += 1
            hard = [text(t, "key") for t in entries(device, "taints") if text(t, "effect") in HARD]
            sick[text(spec, "nodeName")] += tuple(f"{text(raw, 'name')} ({key})" for key in hard[:1])
    return count, {node: names for node, names in sick.items() if names}


def resources_of(classes: Collection[Json]) -> frozenset[str]:
    """Return the extended resources that *classes* answer to."""
    return frozenset(text(section(raw, "spec"), "extendedResourceName") for raw in classes) - {""}
