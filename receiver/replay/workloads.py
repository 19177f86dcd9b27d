"""What runs in a replayed world: jobs read from a CSV trace, and the small workload of the demo.

A trace has one line per job and the columns
``job_id,submit_s,duration_s,gpus,pods,gpus_per_pod,user_or_team,gpu_type,gpu_util``: *submit_s* are seconds
from the beginning, *duration_s* seconds of running, ``gpus = pods x gpus_per_pod``; *gpu_util* is a ratio
0-1 or empty. A job of several pods is a gang.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from receiver.core.pods import Toleration
from receiver.replay.world.config import Job

COLUMNS = (
    "job_id",
    "submit_s",
    "duration_s",
    "gpus",
    "pods",
    "gpus_per_pod",
    "user_or_team",
    "gpu_type",
    "gpu_util",
)
NEEDED = COLUMNS[:6]
LONGEST_SECONDS = 10 * 365 * 86400
SHOWN = 20
TOLERATES_GPU_TAINT = (Toleration(key="gpu", operator="Exists"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadField:
    """What is wrong with one field of one line (the header is line 1)."""

    line: int
    field: str
    problem: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.field}: {self.problem}"


class BadWorkload(Exception):
    """A trace that cannot be replayed as it stands; *errors* names every field that is wrong."""

    def __init__(self, errors: Iterable[BadField]) -> None:
        self.errors = tuple(errors)
        more = len(self.errors) - SHOWN
        told = [str(e) for e in self.errors[:SHOWN]] + ([f"and {more} more"] if more > 0 else [])
        super().__init__("\n".join(told))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefaults:
    """What a trace does not say: where its jobs run and what they tolerate. *gpu_util* is a ratio 0-1."""

    namespace: str = "replay"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = TOLERATES_GPU_TAINT
    gpu_util: float = 0.9


def load_jobs(path: Path, start: datetime, defaults: JobDefaults | None = None) -> list[Job]:
    """Read a trace file; see `read_jobs`. Raises OSError and BadWorkload."""
    with path.open(encoding="utf-8", newline="") as file:
        return read_jobs(file, start, defaults)


def read_jobs(lines: Iterable[str], start: datetime, defaults: JobDefaults | None = None) -> list[Job]:
    """Return the jobs of a trace that begins at *start*, in order of submission.

    Raises BadWorkload with every wrong field of every line: no line is dropped, none is repaired.
    """
    reader = csv.DictReader(lines, strict=True)
    errors: list[BadField] = []
    jobs: list[Job] = []
    first_seen: dict[str, int] = {}
    try:
        absent = [c for c in NEEDED if c not in (reader.fieldnames or ())]
        if absent:
            raise BadWorkload(BadField(line=1, field=c, problem="the column is missing") for c in absent)
        for row in reader:
            line = _Line(reader.line_num, row)
            job = line.job(start, defaults or JobDefaults())
            if line.job_id in first_seen:
                line.wrong("job_id", f"{line.job_id!r} was used in line {first_seen[line.job_id]} before")
            first_seen.setdefault(line.job_id, reader.line_num)
            errors.extend(line.errors)
            jobs.append(job)
    except csv.Error as error:
        errors.append(BadField(line=reader.line_num, field="line", problem=str(error)))
    if errors:
        raise BadWorkload(errors)
    return sorted(jobs, key=lambda j: j.submit_at)


class _Line:
    """One line under reading; problems collect in *errors*, and stand-ins keep the reading going."""

    def __init__(self, number: int, row: Mapping[str, str | None]) -> None:
        self._number = number
        self._row = row
        self.errors: list[BadField] = []
        self.job_id = self._text("job_id")
        if None in row:
            self.wrong("line", f"{len(COLUMNS)} columns were expected, there are more")

    def wrong(self, name: str, problem: str) -> None:
        """Note a problem of field *name*."""
        self.errors.append(BadField(line=self._number, field=name, problem=problem))

    def job(self, start: datetime, defaults: JobDefaults) -> Job:
        """Return the job of this line; it counts only without errors."""
        if not self.job_id:
            self.wrong("job_id", "is empty")
        submit = self._seconds("submit_s", at_least=0)
        duration = self._seconds("duration_s", at_least=0)
        gpus, pods, each = self._whole("gpus"), self._whole("pods"), self._whole("gpus_per_pod")
        if not self.errors and gpus != pods * each:
            self.wrong("gpus", f"{gpus} is not pods x gpus_per_pod = {pods * each}")
        gpu_type = self._text("gpu_type")
        return Job(
            id=self.job_id,
            submit_at=start + timedelta(seconds=submit),
            duration=timedelta(seconds=duration),
            pods=pods,
            gpus_per_pod=each,
            namespace=defaults.namespace,
            team=self._text("user_or_team"),
            gang=pods > 1,
            node_selector=defaults.node_selector,
            tolerations=defaults.tolerations,
            labels={"gpu-type": gpu_type} if gpu_type else {},
            gpu_util=self._ratio("gpu_util", defaults.gpu_util),
        )

    def _text(self, name: str) -> str:
        return (self._row.get(name) or "").strip()

    def _number_of(self, name: str) -> float | None:
        text = self._text(name)
        try:
            value = float(text)
        except ValueError:
            self.wrong(name, f"{text!r} is no number" if text else "is empty")
            return None
        if not math.isfinite(value):
            self.wrong(name, f"{text!r} is no finite number")
            return None
        return value

    def _seconds(self, name: str, *, at_least: float) -> float:
        value = self._number_of(name)
        if value is None:
            return 0.0
        if not at_least <= value <= LONGEST_SECONDS:
            self.wrong(name, f"{value:g} seconds is not between {at_least:g} and ten years")
            return 0.0
        return value

    def _whole(self, name: str) -> int:
        value = self._number_of(name)
        if value is None:
            return 1
        if value < 1 or value != int(value):
            self.wrong(name, f"{value:g} is no whole number of at least 1")
            return 1
        return int(value)

    def _ratio(self, name: str, default: float) -> float:
        if not self._text(name):
            return default
        value = self._number_of(name)
        if value is None:
            return default
        if not 0 <= value <= 1:
            self.wrong(name, f"{value:g} is no ratio between 0 and 1")
            return default
        return value


# --- the demo ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """When the demo's jobs come and how long they run: seconds from its start. All tuning happens here."""

    namespace: str = "demo"
    singles_at: tuple[float, ...] = (2.0, 3.0, 8.0)
    single_runs: float = 18.0
    gang_at: float = 24.0
    gang_pods: int = 2
    gang_gpus_per_pod: int = 1
    gang_runs: float = 20.0
    too_big_at: float = 34.0
    too_big_gpus: int = 16
    nowhere_at: float = 40.0
    nowhere_selector: tuple[str, str] = ("gpu", "quantum")
    late_at: tuple[float, ...] = (66.0, 68.0, 70.0)  # by then the budget is used up to its hold line
    late_runs: float = 15.0
    odd_runs: float = 10.0  # of what never gets to run
    gpu_util: float = 0.92


def demo_jobs(start: datetime, plan: DemoPlan | None = None) -> list[Job]:
    """Return the demo's jobs, about 100 s of them: singles, a gang, two that fit nowhere, and late ones."""
    return sorted(_demo_jobs(start, plan or DemoPlan()), key=lambda j: j.submit_at)


def _demo_jobs(start: datetime, plan: DemoPlan) -> Iterator[Job]:
    def job(
        name: str,
        at: float,
        runs: float,
        team: str,
        *,
        pods: int = 1,
        gpus_per_pod: int = 1,
        selector: Mapping[str, str] | None = None,
    ) -> Job:
        return Job(
            id=name,
            submit_at=start + timedelta(seconds=at),
            duration=timedelta(seconds=runs),
            pods=pods,
            gpus_per_pod=gpus_per_pod,
            gang=pods > 1,
            namespace=plan.namespace,
            team=team,
            node_selector=selector or {},
            tolerations=TOLERATES_GPU_TAINT,
            gpu_util=plan.gpu_util,
        )

    for number, at in enumerate(plan.singles_at, start=1):
        yield job(f"train-{number}", at, plan.single_runs, "vision")
    yield job(
        "gang", plan.gang_at, plan.gang_runs, "language", pods=plan.gang_pods, gpus_per_pod=plan.gang_gpus_per_pod
    )
    yield job("too-big", plan.too_big_at, plan.odd_runs, "research", gpus_per_pod=plan.too_big_gpus)
    yield job("nowhere", plan.nowhere_at, plan.odd_runs, "research", selector=dict([plan.nowhere_selector]))
    for number, at in enumerate(plan.late_at, start=1):
        yield job(f"late-{number}", at, plan.late_runs, "vision")
