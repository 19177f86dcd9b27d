"""Workloads of a month: how many ended and how, and how long they waited for their first GPU."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.usage import WorkloadLife


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """From creation to the first bound pod, of the workloads that *started* in the month; None when none did.

    Those that *still* wait have no wait yet: they are counted beside it, the longest with what it has waited so far.
    """

    started: int = 0
    p50: timedelta | None = None
    p95: timedelta | None = None
    longest: timedelta | None = None
    still: int = 0
    still_longest: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Workloads that existed in the month, by how they stand at its end (or now).

    *gone* ended with nobody watching whether they succeeded; *gave_up* ended before a pod of theirs was bound.
    """

    seen: int = 0
    completed: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0
    gone: int = 0
    gave_up: int = 0


def of_month(workloads: Iterable[WorkloadLife], start: datetime, until: datetime) -> tuple[WorkloadLife, ...]:
    """Return the *workloads* that existed between *start* and *until*."""
    return tuple(w for w in workloads if w.created_at < until and (w.ended_at is None or w.ended_at >= start))


def count_jobs(workloads: Iterable[WorkloadLife], until: datetime) -> Jobs:
    """Count *workloads*, all of them of the month, as they stood at *until*."""
    count = dict.fromkeys(("seen", "completed", "failed", "running", "waiting", "gone", "gave_up"), 0)
    for found in workloads:
        count["seen"] += 1
        count[_standing(found, until)] += 1
    return Jobs(**count)


def _standing(found: WorkloadLife, until: datetime) -> str:
    bound = found.bound_at is not None and found.bound_at <= until
    if found.ended_at is None or found.ended_at >= until:
        return "running" if bound else "waiting"
    if found.completed is None:
        return "gone" if bound else "gave_up"
    return "completed" if found.completed else "failed"


def ended_within(found: WorkloadLife, start: datetime, until: datetime) -> bool:
    """True when *found* ended between *start* and *until*, and it is known how."""
    return found.ended_at is not None and start <= found.ended_at < until and found.completed is not None


def queue_waits(workloads: Iterable[WorkloadLife], start: datetime, until: datetime) -> Waits:
    """Return the queue waits of *workloads* between *start* and *until*."""
    took: list[timedelta] = []
    still: list[timedelta] = []
    for found in workloads:
        if found.bound_at is not None and start <= found.bound_at < until:
            took.append(max(found.bound_at - found.created_at, timedelta(0)))  # clocks of two machines may differ
        elif _standing(found, until) == "waiting":
            still.append(until - found.created_at)
    took.sort()
    return Waits(
        started=len(took),
        p50=percentile(took, 0.50),
        p95=percentile(took, 0.95),
        longest=took[-1] if took else None,
        still=len(still),
        still_longest=max(still, default=None),
    )


def percentile(ordered: Sequence[timedelta], ratio: float) -> timedelta | None:
    """Return the smallest of *ordered* that at least *ratio* of them do not exceed (nearest rank); None of nothing."""
    return ordered[max(math.ceil(ratio * len(ordered)), 1) - 1] if ordered else None
