"""Devices of Dynamic Resource Allocation (`resource.k8s.io`): what claims ask for, and whether a node has it.

What decides is worked out once in a step: which devices answer the selectors of which request (`step.devices`). Then a
claim is one resource name among a pod's requests, and free devices that nothing tells apart are one name among a node's
free resources. So pods without claims are placed as before, at the same speed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Protocol

from receiver.core.model.policy import Taint

CLAIMS = "resource.k8s.io/claims"  # devices of GPUs that no extended resource stands for
CLAIM = "resource.k8s.io/claim="  # what a waiting pod claims; the rest of the name says it
KIND = "resource.k8s.io/device="  # free devices of one kind on a node; the rest of the name says which
COUNTER = "resource.k8s.io/counter="  # what is left of a counter that devices of a node share
NOT_GPUS = (KIND, COUNTER)
MOST_DEVICES = 32  # of one claim (AllocationResultsMaxSize in resource/v1)
MOST_TRIES = 2_000  # devices tried for one claim on one node: a claim that needs more fits nowhere

Attribute = tuple[str, int | bool | str]  # its kind (int, bool, string, version, list) and its value
DeviceId = tuple[str, str, str]  # driver, pool, name


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of a pod or of a device request; *operator* is Equal or Exists; an empty key with Exists tolerates
    everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device as its ResourceSlice describes it. Attributes and capacities carry their domain
    (``gpu.nvidia.com/type``), a capacity is a quantity as written. *uses* is what it takes of the counters of its node
    (``pool/set/counter``). *taints* are those with effect NoSchedule or NoExecute."""

    driver: str
    pool: str = ""
    name: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    uses: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    @property
    def id(self) -> DeviceId:
        return self.driver, self.pool, self.name


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity: it is a key of caches
class NodeDevices:
    """The devices of one node in complete pools, in the order of their slices, and their shared *counters*
    (``pool/set/counter``)."""

    devices: tuple[Device, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)


Question = tuple[str, ...]  # CEL expressions that a device must meet, in this order


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """*count* devices of *device_class* (0: all that match) that meet *selectors*, those of the class first. *name* is
    ``request`` or ``request/subrequest``."""

    name: str
    device_class: str
    selectors: Question
    count: int = 1
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """The devices of *requests* (empty: of all) have the same value of *attribute*, or with *distinct* all different
    ones."""

    requests: tuple[str, ...]
    attribute: str
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim that has no devices yet. Each of *requests* lists its alternatives in order. Requests with admin access
    are left out: they take no device. *shared* is True for a ResourceClaim that several pods may name.

    *problem* says why no node can be bought for it; then it has no *requests*.
    """

    key: str  # ``namespace/name`` of the claim, or of its template
    requests: tuple[tuple[DeviceRequest, ...], ...] = ()
    constraints: tuple[Constraint, ...] = ()
    shared: bool = False
    problem: str = ""


class Judge(Protocol):
    """Evaluates CEL expressions on devices."""

    def __call__(self, expression: str, device: Device) -> bool | None:
        """Return whether *device* meets *expression*; None where that cannot be judged. Never raises."""
