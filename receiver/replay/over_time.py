"""What a played trace did over time, for its pictures: GPUs paid, held and waited for; waits by hour of day."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from receiver.replay.figures import quantile
from receiver.replay.play import Played

SLOTS = 240  # as many as a picture has room for
Change = tuple[datetime, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """Averages over equal slots from the beginning to the moment asked for: GPUs of nodes that were paid, GPUs that
    pods held, GPUs that pods waited for."""

    paid: tuple[float, ...]
    held: tuple[float, ...]
    waiting: tuple[float, ...]

    def document(self) -> dict[str, Any]:
        """JSON-able."""
        return {name: list(values) for name, values in asdict(self).items()}


def over_time(played: Played, until: datetime, slots: int = SLOTS) -> OverTime:
    """Return what was between the beginning of *played* and *until*."""
    gpus = [(vm.created_at, vm.gone_at or played.end, sum(vm.spec.resources.values())) for vm in played.lives]
    held = [(p.bound_at, p.ended_at or played.end, p.gpus) for p in played.placements.all]
    return OverTime(
        paid=averages(_both_ends(gpus), played.start, until, slots),
        held=averages(_both_ends(held), played.start, until, slots),
        waiting=averages(played.placements.waiting, played.start, until, slots),
    )


def averages(changes: Iterable[Change], start: datetime, until: datetime, slots: int) -> tuple[float, ...]:
    """Return the average of a number that begins at 0 and moves by *changes*, over each of *slots* equal parts."""
    each = (until - start) / slots
    sums = [0.0] * slots
    level, since = 0.0, start
    for at, by in [*sorted(changes), (until, 0.0)]:
        end = min(max(at, start), until)
        if level:
            _add(sums, level, (since - start) / each, (end - start) / each)
        level, since = level + by, end
    return tuple(round(total, 2) for total in sums)


def _add(sums: list[float], level: float, begin: float, end: float) -> None:
    """Add *level* to the slots from *begin* to *end*, both counted in slots: to the first and the last in part."""
    slot = int(begin)
    while begin < end and slot < len(sums):
        border = min(float(slot + 1), end)
        sums[slot] += level * (border - begin)
        begin, slot = border, slot + 1


def _both_ends(spans: Iterable[tuple[datetime, datetime, int]]) -> list[Change]:
    return [change for begin, end, count in spans for change in ((begin, float(count)), (end, -float(count)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class HourOfDay:
    """The jobs submitted in one hour of the day (UTC) that finished: waits in seconds."""

    hour: int
    jobs: int
    wait_mean_s: float
    wait_p95_s: float


def by_hour(played: Played) -> tuple[HourOfDay, ...]:
    """Return the waits of all 24 hours, those without a job as 0."""
    waits: list[list[float]] = [[] for _ in range(24)]
    for job in played.finished:
        waits[job.submitted_at.hour].append(job.wait / timedelta(seconds=1))
    return tuple(_hour(hour, sorted(of_hour)) for hour, of_hour in enumerate(waits))


def _hour(hour: int, waits: Sequence[float]) -> HourOfDay:
    mean = round(sum(waits) / len(waits), 3) if waits else 0.0
    return HourOfDay(hour=hour, jobs=len(waits), wait_mean_s=mean, wait_p95_s=quantile(waits, 0.95))
