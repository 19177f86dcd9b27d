"""Whether promises come true: the first promise to each workload that waits for a node, and how it ended."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from receiver.core.model.pods import Pod, PodPhase, Workload
from receiver.core.promises.promise import Promise


class Came(StrEnum):
    """How a promise ended: when the workload began to run."""

    BY_P50 = "by_p50"
    BY_P90 = "by_p90"
    LATE = "late"  # or it still waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """The first promise to a workload, for *pool* (an id). *counted*: it has ended, and the workload waits still."""

    pool: str
    starts_p50: datetime
    starts_p90: datetime
    counted: bool = False


class OpenPromises:
    """The promises to workloads that wait, by workload. They outlive the process in the picture of each step."""

    def __init__(self) -> None:
        self.open: dict[str, Promised] = {}
        self.at: datetime | None = None  # of the last step that these promises are of

    def begin(self, promises: Mapping[str, Promised], at: datetime) -> None:
        """Go on with the *promises* in the picture of *at*; those that were late by then are counted."""
        self.open = {key: replace(each, counted=each.starts_p90 < at) for key, each in promises.items()}

    def ended(self, pods: Iterable[Pod], now: datetime) -> Mapping[tuple[str, Came], int]:
        """Remove the promises that have ended by *now*, and count them by pool. A workload that is gone is not counted:
        it may have been deleted. One that begins at the promised moment came true."""
        members: dict[str, list[Pod]] = {}
        for pod in pods:
            for key in {pod.gang or pod.key, pod.key} & self.open.keys():
                members.setdefault(key, []).append(pod)
        counts: Counter[tuple[str, Came]] = Counter()
        for key, promised in list(self.open.items()):
            mine = members.get(key, ())
            runs = all(p.phase is PodPhase.RUNNING for p in mine)
            if not mine or (promised.counted and runs):
                del self.open[key]
            elif not promised.counted and (runs or now > promised.starts_p90):
                began = max(p.times.running_since or now for p in mine) if runs else now
                came = Came.BY_P50 if began <= promised.starts_p50 else Came.BY_P90
                counts[promised.pool, Came.LATE if began > promised.starts_p90 else came] += 1
                self.open[key] = replace(promised, counted=True)
        return counts

    def make(self, workload: Workload, pool: str, promise: Promise, now: datetime) -> None:
        """Keep the first *promise* to *workload* that rests on what nodes have shown, and that is about a start to
        come."""
        p50, p90 = promise.starts_p50, promise.starts_p90
        if promise.learnt and p50 is not None and p90 is not None and p90 > now and workload.key not in self.open:
            self.open[workload.key] = Promised(pool=pool, starts_p50=p50, starts_p90=p90)
