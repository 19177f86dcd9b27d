"""The values a world shows: instances, nodes, pods, changes, charges and the objects of a budget hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from receiver.core.model.pods import COMPUTE
from receiver.core.model.policy import Taint
from receiver.replay.world.config import PodSpec, WorldPool


@dataclass(slots=True, kw_only=True, eq=False)
class VM:
    """An instance over its whole life. It is billed from *created_at*, when it was ordered. *deleted_at* is when its
    deletion was accepted, *gone_at* when Civo stopped listing it."""

    id: str
    hostname: str
    pool: str
    size: str
    spec: WorldPool
    created_at: datetime
    status: str = "BUILDING"
    listed: bool = False
    active_at: datetime | None = None
    registered_at: datetime | None = None
    ready_at: datetime | None = None
    usable_at: datetime | None = None
    deleted_at: datetime | None = None
    gone_at: datetime | None = None

    @property
    def provider_id(self) -> str:
        return f"civo://{self.id}"

    @property
    def gpus(self) -> int:
        """GPU units of its node."""
        return sum(self.spec.resources.values())

    @property
    def living(self) -> bool:
        return self.deleted_at is None


@dataclass(slots=True, kw_only=True, eq=False)
class CivoPool:
    """A pool at Civo, with nodes like *spec*. *instances* are listed, *coming* are ordered and not listed yet.

    *required* is the requested count, *past_counts* the earlier ones, each with the time of its end.
    *late_decrements* of it are still to be subtracted.
    """

    id: str
    size: str
    spec: WorldPool
    required: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    instances: list[VM] = field(default_factory=list)
    coming: list[VM] = field(default_factory=list)
    late_decrements: int = 0
    past_counts: list[tuple[datetime, int]] = field(default_factory=list)

    @property
    def living(self) -> list[VM]:
        return [vm for vm in (*self.instances, *self.coming) if vm.living]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldNode:
    """A Kubernetes node as it was at *version*.

    *allocatable* are the compute resources (`core.model.pods`) and, once the driver runs, the GPU resources. Those
    that a DRA driver serves (*dra*) are included, although its status does not show them. *taints* include those that
    Kubernetes sets itself.
    """

    name: str
    instance: str
    provider_id: str
    pool: str
    created_at: datetime
    uid: str
    ready: bool = False
    ready_since: datetime | None = None
    unschedulable: bool = False
    allocatable: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    dra: bool = False
    version: int = 0

    @property
    def gpus(self) -> Mapping[str, int]:
        return {r: n for r, n in self.allocatable.items() if r not in COMPUTE}

    @property
    def shown(self) -> Mapping[str, int]:
        """The allocatable resources in its status: without those that a DRA driver serves."""
        return {r: n for r, n in self.allocatable.items() if r in COMPUTE} if self.dra else self.allocatable


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPod(PodSpec):
    """A pod as it was at *version*.

    *scheduled* is its PodScheduled condition: None before the scheduler tried it, False with *reason*
    (``Unschedulable`` or ``SchedulingGated``) and *message*, True once bound; *scheduled_since* is the condition's
    lastTransitionTime. *deletion_at* is its deletionTimestamp.
    """

    uid: str
    created_at: datetime
    gang: str | None = None
    phase: str = "Pending"
    scheduled: bool | None = None
    scheduled_since: datetime | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deletion_at: datetime | None = None
    version: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)

    @property
    def asks(self) -> Mapping[str, int]:
        """All its requests: GPUs and compute resources."""
        return {**self.requests, **self.compute} if self.compute else self.requests

    @property
    def gpus(self) -> int:
        return sum(self.requests.values())

    @property
    def over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldEvent:
    """A Kubernetes Event on an object; *namespace* and *name* are the object's."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    reason: str
    message: str
    type: str = "Normal"
    component: str = ""
    at: datetime
    id: str
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldChange:
    """A visible change: *kind* is Pod, Node, Event or what `World.note` got, *verb* ADDED, MODIFIED or DELETED, *key*
    ``name`` or ``namespace/name``. *obj* is the object after the change, *before* that before it (None for ADDED)."""

    version: int
    kind: str
    verb: str
    key: str
    obj: Any
    before: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldCharge:
    """A record of ``GET /v2/charges``: hours, no money. *to* is None while the instance runs."""

    id: int
    code: str
    label: str
    frm: datetime
    to: datetime | None
    num_hours: float
    size: str
    instance: str
    pool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A pod that lost its node: *ran* is how long it had run, *by* the call that removed the node."""

    at: datetime
    namespace: str
    name: str
    node: str
    instance: str
    gpus: int
    ran: timedelta
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedJob:
    """A job whose pods have all succeeded. *started_at* is when the last of its pods first ran, *restarts* the number
    of pods that it lost."""

    id: str
    submitted_at: datetime
    started_at: datetime
    finished_at: datetime
    gpus: int
    team: str = ""
    restarts: int = 0

    @property
    def wait(self) -> timedelta:
        """From submission until all its pods had started."""
        return self.started_at - self.submitted_at


@dataclass(slots=True, kw_only=True)
class ClusterQueue:
    """A ClusterQueue of Kueue; *stop_policy* None is not set."""

    stop_policy: str | None = None
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class HoldQuota:
    """The ResourceQuota with the name that a budget hold uses; *ours* when it carries our label."""

    spec: Mapping[str, Any]
    ours: bool = True
