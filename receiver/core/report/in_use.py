"""How many of its GPUs a workload ever used at once: what says that it would do with fewer."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate

from receiver.core.model.activity import at_rest
from receiver.core.model.memory import NodeLife
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Policy
from receiver.core.model.usage import Accounted
from receiver.core.money.accounting import SAMPLED
from receiver.core.money.budget import month_of
from receiver.core.money.holders import StepSight
from receiver.core.money.workload_lives import life_of, workload_of


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """The most *gpus* that *workload* held at once in *month*, and the most of them that were not at rest at once.

    *life* tells it apart from others of its name (`core.model.usage.Usage`). Only times count at which each of its
    GPUs was sampled: *seconds* of them.
    """

    month: str
    workload: str
    life: str = ""
    gpus: int
    used: int
    seconds: float


def in_use(before: Accounted, seen: StepSight, policy: Policy) -> tuple[InUse, ...]:
    """Return what the samples of *seen* say, for the time since *before* (a sample speaks for two minutes at most)."""
    passed = timedelta(0) if before.at is None else max(min(seen.at - before.at, SAMPLED), timedelta(0))
    together: dict[tuple[str, str], list[Pod]] = {}
    for node in seen.nodes:
        for pod in node.pods:
            if pod.uid and pod.gpus:
                together.setdefault((workload_of(pod), life_of(pod)), []).append(pod)
    month = month_of(seen.at, policy.timezone).name
    found = []
    for (workload, life), pods in sorted(together.items(), key=lambda named: named[0]):
        used = _used(pods, seen)
        if used is not None and passed:
            gpus = sum(pod.gpus for pod in pods)
            seconds = passed.total_seconds()
            found.append(InUse(month=month, workload=workload, life=life, gpus=gpus, used=used, seconds=seconds))
    return tuple(found)


def _used(pods: Iterable[Pod], seen: StepSight) -> int | None:
    """The GPUs of *pods* that are not at rest, None unless every one of them was sampled."""
    used = 0
    for pod in pods:
        resting = [rest for sample in seen.samples.get(pod.key, ()) if (rest := at_rest(sample)) is not None]
        if len(resting) < pod.gpus:
            return None
        used += sum(not rest for rest in resting)
    return used


NOTHING = timedelta(0)
HOUR_IN_MICROSECONDS = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Node counts within *length*: ``at_least[n - 1]`` is for how long at least n nodes existed."""

    length: timedelta
    at_least: tuple[timedelta, ...] = ()

    @property
    def peak(self) -> int:
        """The most nodes that existed at once."""
        return len(self.at_least)

    @property
    def always(self) -> int:
        """The nodes that existed all the time."""
        return sum(1 for lasted in self.at_least if lasted >= self.length)


def occupancy(lives: Iterable[NodeLife], start: datetime, until: datetime) -> Occupancy:
    """Count the nodes of *lives* that existed between *start* and *until*.

    Existence is counted and not paid time: a node that replaces one whose hour is still paid needs no second slot.
    """
    changes: list[tuple[datetime, int]] = []
    for life in lives:
        begin, end = max(life.created_at, start), min(life.gone_at or until, until)
        if begin < end:
            changes += [(begin, 1), (end, -1)]
    exactly: dict[int, timedelta] = {}
    level, since = 0, start
    for at, change in sorted(changes):  # an end sorts before a beginning of the same moment
        if at > since:
            exactly[level] = exactly.get(level, NOTHING) + (at - since)
        level, since = level + change, at
    longest_first = [exactly.get(n, NOTHING) for n in range(max(exactly, default=0), 0, -1)]
    return Occupancy(length=max(until - start, NOTHING), at_least=tuple(reversed(list(accumulate(longest_first)))))


def hours(length: timedelta) -> Decimal:
    """*length* in hours, exactly."""
    return Decimal(length // timedelta(microseconds=1)) / HOUR_IN_MICROSECONDS
