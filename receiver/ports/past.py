"""GPU pods of the past, from an export of Kubernetes or the history in Prometheus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.model.pods import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An unusable entry: *where* it is (``line 12``, ``Job ml/train``), its *field*, the *problem*, and the *remedy* in
    one clause."""

    where: str
    field: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}, {self.field}: {self.problem}; {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPod:
    """A GPU pod and when it held its GPUs.

    *held_from* is when the kubelet took it over (None: it never ran), *held_until* when its last container ended
    (None: after the end of the period read). *above* is the controller of its controller, ``Kind/name``.
    *gpu_util* is the mean activity of its GPUs (ratio 0-1), None if not measured.
    """

    pod: Pod
    held_from: datetime | None
    held_until: datetime | None
    above: str = ""
    gpu_util: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The pods that were read, from *since* (None: as far back as the source reaches) to *until*.

    *tolerations_known* says whether the pods have their tolerations. *troubles* are unusable entries; *uncounted* is
    the number of intentionally skipped ones by kind; *notes* are sentences about the reliability of the data.
    """

    pods: Sequence[PastPod]
    until: datetime
    since: datetime | None = None
    tolerations_known: bool = True
    troubles: Sequence[Trouble] = ()
    uncounted: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
