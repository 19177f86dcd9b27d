"""The effect of budgets in a replay: pauses, and the jobs that waited because of them.

A job is delayed from the first step at which no budget covers a node for one of its pods to the first at which none
refuses it: the month has turned, or the nodes that it needs became free. A budget refuses all but passing priority
classes beyond its hold line, every job beyond its stop line, and before them those for which the rest of the budget
does not cover the reservation. The start of the node after that is not part of the delay.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from receiver.core.model.pods import Workload
from receiver.core.money.budget import BudgetStage, BudgetView, Key
from receiver.core.scaling.assign import Assignment, Wanted
from receiver.replay.play import Played

HOUR = timedelta(hours=1)
PAUSING = (BudgetStage.HOLD, BudgetStage.STOP)
SHOWN = 10  # jobs that a sentence names


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A time in *month* (``2026-01``) in which *budget* (its title) was beyond its hold or stop line. *goes_on*: it had
    not ended when the replay did."""

    budget: str
    stage: BudgetStage
    month: str
    since: datetime
    until: datetime
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A job that no budget covered, first *since* and last *until*, for *waited* altogether. *gpu_hours* are the
    refused GPUs times that time. *ran* is False for a job that had not begun at the end."""

    job: str
    since: datetime
    until: datetime
    waited: timedelta
    gpu_hours: float
    ran: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """The pauses of a replay in order, and the delayed jobs by the beginning of their delay."""

    pauses: tuple[Pause, ...] = ()
    jobs: tuple[Delay, ...] = ()

    @property
    def job_hours(self) -> float:
        """The sum of the jobs' delays in hours."""
        return sum((delay.waited / HOUR for delay in self.jobs), 0.0)

    @property
    def gpu_hours(self) -> float:
        """The sum of the jobs' delays in GPU-hours."""
        return sum((delay.gpu_hours for delay in self.jobs), 0.0)

    @property
    def never_ran(self) -> tuple[str, ...]:
        return tuple(delay.job for delay in self.jobs if not delay.ran)

    def document(self) -> dict[str, Any]:
        """Return the JSON: times are ISO 8601 in UTC, durations hours or seconds as their names say."""
        return {
            "pauses": [_plain(pause) for pause in self.pauses],
            "delayed_jobs": len(self.jobs),
            "job_hours": round(self.job_hours, 3),
            "gpu_hours": round(self.gpu_hours, 3),
            "never_ran": list(self.never_ran),
            "sentences": list(self.sentences()),
            "jobs": [_plain(delay) for delay in self.jobs],
        }

    def sentences(self) -> Iterator[str]:
        """Yield one line per pause, one on the delayed jobs, one on those that never ran; nothing without any."""
        for pause in self.pauses:
            until = "the end of the replay" if pause.goes_on else f"{pause.until:%Y-%m-%d %H:%M} UTC"
            yield (
                f"{pause.budget} {pause.stage.value} in {pause.month}: {pause.since:%Y-%m-%d %H:%M} UTC to {until} "
                f"({(pause.until - pause.since) / HOUR:.1f} h)"
            )
        if self.jobs:
            yield (
                f"delayed jobs: {len(self.jobs)}, for {self.job_hours:.1f} job-hours ({self.gpu_hours:.1f} GPU-hours) "
                "altogether"
            )
        if never := self.never_ran:
            more = f" and {len(never) - SHOWN} more" if len(never) > SHOWN else ""
            yield f"never ran: {', '.join(never[:SHOWN])}{more}"


def _plain(one: Pause | Delay) -> dict[str, Any]:
    """Return the fields of *one* as JSON values."""
    found: dict[str, Any] = {}
    for name, value in asdict(one).items():
        if isinstance(value, timedelta):
            found[f"{name}_s"] = round(value.total_seconds(), 3)
        elif isinstance(value, datetime):
            found[name] = value.isoformat()
        elif isinstance(value, float):
            found[name] = round(value, 3)
        else:
            found[name] = value.value if isinstance(value, BudgetStage) else value
    return found


@dataclass(slots=True)
class _Refused:
    """A workload that no budget covers."""

    job: str
    gpus: int
    since: datetime
    until: datetime | None = None


@dataclass(slots=True)
class BudgetLog:
    """The pauses and refusals of a replay, step by step."""

    _pauses: list[Pause] = field(default_factory=list)
    _paused: dict[Key, tuple[BudgetView, datetime]] = field(default_factory=dict)
    _refused: dict[str, _Refused] = field(default_factory=dict)  # by workload, while it is
    _over: list[_Refused] = field(default_factory=list)

    def note(self, assignment: Assignment, now: datetime) -> None:
        """Record the step at *now*."""
        for view in assignment.budgets.views:
            self._pause(view, now)
        if not self._refused and not any(wanted.refused or wanted.held for wanted in assignment.pools.values()):
            return
        refused = _refused(assignment.pools)
        for key in self._refused.keys() - refused.keys():
            ended = self._refused.pop(key)
            ended.until = now
            self._over.append(ended)
        for key in refused.keys() - self._refused.keys():
            workload = refused[key]
            self._refused[key] = _Refused(workload.pods[0].owner.partition("/")[2], workload.gpus, now)

    def _pause(self, view: BudgetView, now: datetime) -> None:
        past = self._paused.get(view.key)
        if past is not None and (past[0].stage, past[0].month) != (view.stage, view.month):
            del self._paused[view.key]
            self._pauses.append(_paused(*past, now))
            past = None
        if past is None and view.stage in PAUSING:
            self._paused[view.key] = view, now

    def refused(self) -> Sequence[_Refused]:
        """Return the times of refusal of each workload; those without an end go on."""
        return [*self._over, *self._refused.values()]

    def pauses(self, end: datetime) -> Iterator[Pause]:
        """Yield all pauses; those that have not ended go on at *end*."""
        yield from self._pauses
        for view, since in self._paused.values():
            yield _paused(view, since, end, goes_on=True)


def delays(played: Played, log: BudgetLog) -> Delays:
    """Return the delays that *log* recorded in *played*."""
    ran = (p.pod for p in played.placements.all if p.started_at is not None)
    waiting = {job.id for job in played.left} - {name.partition("/")[2].rpartition("-")[0] for name in ran}
    began = {job.id: job.started_at for job in played.finished}
    spans: dict[str, list[tuple[datetime, datetime]]] = {}
    gpu_hours: dict[str, float] = {}
    for refused in log.refused():
        job, since, seen_until = refused.job, refused.since, refused.until or played.end
        until = min(seen_until, max(since, began.get(job, seen_until)))  # a pod that found room began before the step
        spans.setdefault(job, []).append((since, until))
        gpu_hours[job] = gpu_hours.get(job, 0.0) + refused.gpus * ((until - since) / HOUR)
    found = (
        Delay(
            job=job,
            since=min(since for since, _ in times),
            until=max(until for _, until in times),
            waited=_covered(times),
            gpu_hours=gpu_hours[job],
            ran=job not in waiting,
        )
        for job, times in spans.items()
    )
    return Delays(
        pauses=tuple(sorted(log.pauses(played.end), key=lambda p: (p.since, p.budget))),
        jobs=tuple(sorted(found, key=lambda d: (d.since, d.job))),
    )


def _refused(pools: Mapping[str, Wanted]) -> dict[str, Workload]:
    """Return the workloads that a budget refuses in a pool and that no other pool takes."""
    taken = {w.key for wanted in pools.values() for w in wanted.asking if w.key not in wanted.refused}
    alone = (w for wanted in pools.values() if wanted.refused for w in wanted.asking if w.key in wanted.refused)
    gangs = (held.uncovered for wanted in pools.values() for held in wanted.held if held.uncovered is not None)
    return {w.key: w for w in (*alone, *gangs) if w.key not in taken}


def _paused(view: BudgetView, since: datetime, until: datetime, *, goes_on: bool = False) -> Pause:
    return Pause(budget=view.title, stage=view.stage, month=view.month, since=since, until=until, goes_on=goes_on)


def _covered(times: Iterable[tuple[datetime, datetime]]) -> timedelta:
    """Return how long at least one of *times* lasted."""
    total = timedelta(0)
    reached: datetime | None = None
    for since, until in sorted(times):
        begin = since if reached is None else max(since, reached)
        total += max(until - begin, timedelta(0))
        reached = until if reached is None else max(reached, until)
    return total
