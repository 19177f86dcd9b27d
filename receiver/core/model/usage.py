"""What workloads held of the nodes that were paid for, as the ledger keeps it: the basis of attribution and reports."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a workload is: the pod labels that `attribution` names, and the PriorityClass. Empty: not set."""

    team: str = ""
    project: str = ""
    workload_class: str = ""
    environment: str = ""
    cost_center: str = ""
    priority_class: str = ""


def workload_name(namespace: str, controller: str, pod: str) -> str:
    """``namespace/Kind/name`` of a pod's *controller* (``Kind/name``), or of the *pod* itself if it has none."""
    return f"{namespace}/{controller or f'Pod/{pod}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one workload of one owner held of one instance within one calendar month of the budget's zone.

    *month* (``2026-11``) is that in which the paid unit began, so that usage and cost fall into the same month.
    *workload* is ``namespace/Kind/name`` of the controller of its pods (of the pod itself if there is none).
    All seconds are GPU-seconds: *held* were allocated to it, *measured* of them have DCGM samples, *idle* of those
    had an engine and a memory at rest (`core.model.activity.at_rest`), *busy* is engine utilization (ratio 0-1)
    times seconds, *memory* is used memory (ratio 0-1) times seconds. *peak_engine* and *peak_memory* are the highest
    of one GPU (ratio 0-1), None if not measured.

    *life* is the uid of that controller (of the pod), because names are used again. A slice of a GPU and a share in one
    count as such (`core.model.resources`). *node_seconds* is the same time as part of the node: what was held over the
    GPUs that the node offered *then*, so that what is learned of it later does not change what was (None: over what its
    life says now).
    """

    month: str
    instance: str
    workload: str
    namespace: str
    life: str = ""
    owner: Owner = Owner()
    held: float = 0.0
    node_seconds: float | None = None
    measured: float = 0.0
    idle: float = 0.0
    busy: float = 0.0
    memory: float = 0.0
    peak_engine: float | None = None
    peak_memory: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadLife:
    """One workload as it was seen: asked for at *created_at*, its first pod bound at *bound_at*, gone at *ended_at*.

    *life* tells it apart from others of its name, as in `Usage`. *owner* is that of its newest pod. *gpus* is the most
    devices that its pods asked for at once. *completed* is True when its pods succeeded, False when one of them failed
    last, None while it runs or when its end was not seen.
    """

    workload: str
    namespace: str
    created_at: datetime
    life: str = ""
    owner: Owner = Owner()
    gpus: int = 0
    bound_at: datetime | None = None
    ended_at: datetime | None = None
    completed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwatched:
    """GPU-seconds of one instance, counted as `Usage` counts months, of which nobody knows who held them.

    We did not run, or did not know the node yet. What pods that are still there held in that time is not among them.
    *node_seconds* as in `Usage`.
    """

    month: str
    instance: str
    seconds: float
    node_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHolding:
    """A pod that held *gpus* GPUs of *instance* when usage was last accounted for; the others as in `Usage`.

    *until* is up to when that is in the ledger, None for the time of the accounting: Civo did not list the instance.
    """

    uid: str
    instance: str
    workload: str
    gpus: float
    life: str = ""
    owner: Owner = Owner()
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounted:
    """Where the account stands: everything before *at* is in the ledger (None: nothing ever was).

    *holdings* are the pods that held GPUs then, *running* the workloads that had not ended.
    """

    at: datetime | None = None
    holdings: tuple[GpuHolding, ...] = ()
    running: tuple[WorkloadLife, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """What one accounting adds: *usage* and *unwatched* are increments, *lives* are new or changed,
    *holdings* take the place of those before."""

    usage: tuple[Usage, ...] = ()
    unwatched: tuple[Unwatched, ...] = ()
    lives: tuple[WorkloadLife, ...] = ()
    holdings: tuple[GpuHolding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPod:
    """A GPU pod that Kubernetes still shows after its end: *succeeded* or failed, *at* (None: not told).

    *life* is the uid of its controller, or its own (empty: not told).
    """

    uid: str
    workload: str
    succeeded: bool
    at: datetime | None = None
    life: str = ""
