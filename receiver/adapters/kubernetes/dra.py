"""GPUs that a driver serves by Dynamic Resource Allocation: ResourceSlices show them, the node's status never does."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from receiver.adapters.kubernetes.api import CustomResources, ResourceKind
from receiver.adapters.kubernetes.nodes import entries, section
from receiver.ports import Clock, TryLater

GROUP = "resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")
SLICES = ResourceKind(GROUP, "resourceslices", VERSIONS)
CLASSES = ResourceKind(GROUP, "deviceclasses", VERSIONS)
DRIVER = "gpu.nvidia.com"
OF_DRIVER = f"spec.driver={DRIVER}"
UNREAD_FOR = timedelta(minutes=5)
WITHOUT_SLICES = "nodes whose GPUs a DRA driver serves look like nodes whose GPUs never come"
WITHOUT_CLASSES = "every GPU resource is believed to be served on nodes with a DRA driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraServed:
    """What DRA serves: GPUs on *nodes* (names), and the extended *resources* by which pods may ask for devices without
    a ResourceClaim (None: not known)."""

    nodes: frozenset[str] = frozenset()
    resources: frozenset[str] | None = None


class Dra:
    """Reads what DRA serves. What was read last counts while the API server cannot tell."""

    def __init__(self, resources: CustomResources, clock: Clock) -> None:
        self._resources = resources
        self._clock = clock
        self._last: DraServed | None = None
        self._unread_since: datetime | None = None

    def served(self) -> DraServed:
        """Return what DRA serves now; nothing where the API or the right to list slices is missing.

        Raises TryLater while the API server cannot tell and never has, for a few minutes: a node with a DRA driver must
        not be taken for one whose GPUs never came. After that it is as without the API.
        """
        try:
            slices = self._resources.if_allowed(SLICES, WITHOUT_SLICES, field_selector=OF_DRIVER)
            classes = None if slices is None else self._resources.if_allowed(CLASSES, WITHOUT_CLASSES)
        except TryLater as error:
            if self._last is not None:
                return self._last
            now = self._clock.now()
            self._unread_since = self._unread_since or now
            if timedelta(0) <= now - self._unread_since < UNREAD_FOR:
                raise
            self._resources.warn("ResourceSlices not read", f"{error}; {WITHOUT_SLICES}")
            return DraServed()
        self._last = DraServed(
            nodes=nodes_of(slices or ()), resources=None if classes is None else resources_of(classes)
        )
        return self._last


def nodes_of(slices: Collection[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names of the nodes on which *slices* show devices of the GPU driver."""
    specs = [section(raw, "spec") for raw in slices]
    return frozenset(
        str(s["nodeName"]) for s in specs if s.get("driver") == DRIVER and s.get("nodeName") and entries(s, "devices")
    )


def resources_of(classes: Collection[Mapping[str, Any]]) -> frozenset[str]:
    """Return the extended resources that *classes* answer to."""
    named = (section(raw, "spec").get("extendedResourceName") for raw in classes)
    return frozenset(str(name) for name in named if name)
