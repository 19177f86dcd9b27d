"""What workloads held of the nodes that were paid for, as the ledger keeps it: the basis of attribution and reports."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a workload is, by the pod labels that `attribution` names; an empty one was not given."""

    team: str = ""
    project: str = ""
    workload_class: str = ""
    environment: str = ""
    cost_center: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one workload held of one instance within one calendar month of the budget's zone.

    *month* (``2026-11``) is that in which the paid unit began, so that usage and cost fall into the same month.
    *workload* is ``namespace/Kind/name`` of the controller of its pods (of the pod itself if there is none).
    All seconds are GPU-seconds: *held* were allocated to it, *measured* of them have DCGM samples, *idle* of those
    had an engine and a memory at rest, *busy* is engine utilization (ratio 0-1) times seconds, *memory* is used
    memory (ratio 0-1) times seconds. *peak_memory* is the highest used memory (ratio 0-1), None if not measured.
    """

    month: str
    instance: str
    workload: str
    namespace: str
    owner: Owner = Owner()
    priority_class: str = ""
    held: float = 0.0
    measured: float = 0.0
    idle: float = 0.0
    busy: float = 0.0
    memory: float = 0.0
    peak_engine: float | None = None
    peak_memory: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadLife:
    """One workload as it was seen: asked for at *created_at*, its first pod bound at *bound_at*, gone at *ended_at*.

    *gpus* is the most that its pods asked for at once. *completed* is True when its pods succeeded, False when one
    of them failed last, None while it runs or when nobody saw its end.
    """

    workload: str
    namespace: str
    created_at: datetime
    owner: Owner = Owner()
    priority_class: str = ""
    gpus: int = 0
    bound_at: datetime | None = None
    ended_at: datetime | None = None
    completed: bool | None = None
