"""GPU pods that ran before, as an export of Kubernetes or the history in Prometheus remembers them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.model.pods import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What cannot be taken as it stands: *where* it is (``line 12``, ``Job ml/train``), in which *field*, the
    *problem*, and the *remedy* in one clause."""

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
    (None: it still held them at the end of what was read). *above* is what controls its controller, ``Kind/name``.
    *gpu_util* is the mean activity of its GPUs, a ratio 0-1, None where nobody measured it.
    """

    pod: Pod
    held_from: datetime | None
    held_until: datetime | None
    above: str = ""
    gpu_util: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What was read. *until* is its end, *since* its beginning (None: whatever still was there).

    *tolerations_known* says whether the pods carry theirs. *troubles* are what could not be taken; *uncounted* says by
    kind how many were rightly left out; *notes* are sentences about how far the pods can be trusted.
    """

    pods: Sequence[PastPod]
    until: datetime
    since: datetime | None = None
    tolerations_known: bool = True
    troubles: Sequence[Trouble] = ()
    uncounted: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
