"""Usage of paid nodes by workloads, as the ledger stores it: the basis of attribution and reports."""

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
    """The usage of one instance by one workload of one owner in one calendar month of the budget's zone.

    *month* (``2026-11``) is that in which the paid unit began, so that usage and cost fall into the same month.
    *workload* is ``namespace/Kind/name`` of the controller of its pods (of the pod itself if there is none).
    All seconds are GPU-seconds: *held* were allocated to it, *measured* of them have DCGM samples, *idle* of those
    had an engine and a memory at rest (`core.model.activity.at_rest`), *busy* is engine utilization (ratio 0-1)
    times seconds, *memory* is used memory (ratio 0-1) times seconds. *peak_engine* and *peak_memory* are the highest
    of one GPU (ratio 0-1), None if not measured.

    *life* is the uid of that controller (of the pod), because names are reused. Slices and shares of a GPU count as
    fractions (`core.model.resources`). *node_seconds* is the same time as a part of the node, by the GPUs that the node
    offered *then*, so that later knowledge does not change the past (None: by the GPUs of its life).
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
    """One observed workload: requested at *created_at*, its first pod bound at *bound_at*, gone at *ended_at*.

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
    """Unobserved GPU-seconds of one instance in one month: this process did not run, or did not know the node yet.

    Time that is accounted to pods which still exist is not included. *month* and *node_seconds* are as in `Usage`.
    """

    month: str
    instance: str
    seconds: float
    node_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHolding:
    """A pod that held *gpus* GPUs of *instance* when usage was last accounted for; the others as in `Usage`.

    *until* is the time up to which that is in the ledger, if Civo did not list the instance (None: the accounting's).
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
    """The state of the account: everything before *at* is in the ledger (None: nothing yet).

    *holdings* are the pods that held GPUs then, *running* the workloads that had not ended.
    """

    at: datetime | None = None
    holdings: tuple[GpuHolding, ...] = ()
    running: tuple[WorkloadLife, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """The result of one accounting: *usage* and *unwatched* are increments, *lives* are new or changed,
    *holdings* replace the ones before."""

    usage: tuple[Usage, ...] = ()
    unwatched: tuple[Unwatched, ...] = ()
    lives: tuple[WorkloadLife, ...] = ()
    holdings: tuple[GpuHolding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPod:
    """A GPU pod that Kubernetes still shows after its end: *succeeded* or failed, *at* (None: unknown).

    *life* is the uid of its controller, or its own (empty: unknown).
    """

    uid: str
    workload: str
    succeeded: bool
    at: datetime | None = None
    life: str = ""
