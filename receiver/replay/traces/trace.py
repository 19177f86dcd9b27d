"""Traces: jobs that ran elsewhere, their reading from CSV, the errors in them, and jobs that fit no pool."""

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from receiver.config.values import did_you_mean
from receiver.core.model.pods import Toleration
from receiver.core.model.policy import Pool
from receiver.ports import MAY_WAIT, Trouble
from receiver.replay.world.objects import Job
from receiver.replay.world.scheduler import selects, untolerated

SHOWN = 100
KEPT = 10_000  # the most errors of a file that are held in memory
NOTHING: Mapping[str, str] = {}  # shared by all jobs of a trace
# For traces without tolerations. A cordon is a taint too, so not every taint is tolerated.
TOLERATES_GPU_TAINTS = tuple(Toleration(key=key, operator="Exists") for key in ("gpu", "nvidia.com/gpu"))

Format = Literal["csv", "kubernetes"]
FORMATS: tuple[Format, ...] = ("csv", "kubernetes")
REMEDY = "use a pool with larger or more nodes, or leave the job out with `skip_misfits: true` in the file of --timing"


class BadTrace(Exception):
    """A trace that cannot be replayed; *troubles* are the errors of its lines or objects, *more* counts further ones by
    field."""

    def __init__(self, troubles: Iterable[Trouble], more: Mapping[str, int] | None = None) -> None:
        self.troubles = tuple(troubles)
        self.more = dict(more or {})
        super().__init__("\n".join(error_lines(self.troubles, self.more)))


def error_lines(troubles: Sequence[Trouble], more: Mapping[str, int] | None = None, limit: int = SHOWN) -> list[str]:
    """Return a line for each of the first *limit* errors, and one that counts the others by field."""
    others = Counter(t.field for t in troubles[limit:]) + Counter(more or {})
    lines = [str(t) for t in troubles[:limit]]
    if others:
        lines.append(f"and {others.total()} more: {', '.join(f'{n} of {name}' for name, n in others.most_common())}")
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReading:
    """How a trace is read.

    A CSV trace counts its seconds from *start*. *format* None is recognised by content. *made_at* is when an export of
    Kubernetes was made (None: when its file was written). *skip_bad* leaves out and reports malformed lines and
    objects, which otherwise refuse the trace. *gangs* ``together`` makes a gang of all pods that one owner created
    together, ``declared`` only of those that say so, or whose owner's kind does. Without *placement*, pods run on every
    pool whatever their node selectors, affinities and tolerations.

    The others are defaults for what a trace does not have: *namespace*, *node_selector*, *tolerations*, and *gpu_util*
    (ratio 0-1) of jobs. *team_label* is the pod label of the team.
    """

    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    format: Format | None = None
    made_at: datetime | None = None
    skip_bad: bool = False
    gangs: Literal["declared", "together"] = "declared"
    placement: bool = True
    namespace: str = "replay"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = TOLERATES_GPU_TAINTS
    gpu_util: float = 0.9
    team_label: str = "team"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in order of submission; the replay begins at *start*.

    *source* is its name for people (a file's name, a URL). *left_out* are malformed lines and objects, *uncounted* the
    number of records that are not jobs by kind, *notes* are sentences on how accurate the rest is.
    """

    source: str
    format: str
    start: datetime
    jobs: Sequence[Job] = field(repr=False)
    left_out: Sequence[Trouble] = ()
    uncounted: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def report(self) -> list[str]:
        """The lines to read before the figures."""
        counted = [f"not counted, {kind}: {number}" for kind, number in self.uncounted.items()]
        return [*error_lines(self.left_out), *counted, *self.notes]


class Findings:
    """Collects errors, counts and notes while a trace is read; the first KEPT errors one by one."""

    def __init__(self) -> None:
        self._more: Counter[str] = Counter()
        self.troubles: list[Trouble] = []
        self.uncounted: Counter[str] = Counter()
        self.notes: list[str] = []

    def wrong(self, where: str, name: str, problem: str, remedy: str) -> None:
        self.take(Trouble(where=where, field=name, problem=problem, remedy=remedy))

    def take(self, trouble: Trouble) -> None:
        if len(self.troubles) < KEPT:
            self.troubles.append(trouble)
        else:
            self._more[trouble.field] += 1

    def trace(
        self, source: str, form: str, jobs: Iterable[Job], reading: TraceReading, start: datetime | None
    ) -> Trace:
        """Return the trace of *jobs*, beginning at *start*, or at the full hour before its first job.

        Raises BadTrace for errors that *reading* does not skip, and without any job.
        """
        if self.troubles and not reading.skip_bad:
            raise BadTrace(self.troubles, self._more)
        ordered = sorted(jobs, key=lambda job: job.submit_at)
        if not ordered:
            kinds = [f"{kind}: {number}" for kind, number in self.uncounted.items()]
            if self.troubles:
                kinds.append(f"wrong: {len(self.troubles) + self._more.total()}")
            problem = f"none held GPUs ({', '.join(kinds)})" if kinds else "there are none"
            nothing = Trouble(
                where="trace", field="jobs", problem=problem, remedy="export a longer time, or another cluster"
            )
            raise BadTrace([*self.troubles, nothing], self._more)
        if self._more:
            self.notes.append(error_lines((), self._more)[0])
        return Trace(
            source=source,
            format=form,
            start=start or ordered[0].submit_at.replace(minute=0, second=0, microsecond=0),
            jobs=ordered,
            left_out=tuple(self.troubles),
            uncounted=dict(self.uncounted),
            notes=tuple(self.notes),
        )


def misfits(jobs: Iterable[Job], pools: Sequence[Pool]) -> dict[str, Trouble]:
    """Return, by job id, why a job fits no pool: a pod is larger than any node or admitted by none, or a gang is larger
    than the maximum of each pool."""
    reasons: dict[object, tuple[str, str] | None] = {}
    troubles: dict[str, Trouble] = {}
    for job in jobs:
        least = (job.gang_min or job.pods) if job.gang else 1
        shape = (job.resource, job.gpus_per_pod, least, tuple(job.node_selector.items()), job.affinity, job.tolerations)
        if shape not in reasons:
            reasons[shape] = _why(job, least, pools)
        reason = reasons[shape]
        if reason is not None:
            name, problem = reason
            troubles[job.id] = Trouble(where=f"job {job.id}", field=name, problem=problem, remedy=REMEDY)
    return troubles


def _why(job: Job, least: int, pools: Sequence[Pool]) -> tuple[str, str] | None:
    """Return the field that prevents the job and the problem, None where it fits."""
    big = [p for p in pools if p.resources.get(job.resource, 0) >= job.gpus_per_pod]
    if not big:
        largest = max((p.resources.get(job.resource, 0) for p in pools), default=0)
        return "gpus_per_pod", f"a pod requests {job.gpus_per_pod} {job.resource}, the largest node has {largest}"
    chosen = [p for p in big if selects(p.offered_labels, job.node_selector, job.affinity)]
    if not chosen:
        labels = ", ".join(f"{k}={v}" for k, v in sorted(job.node_selector.items())) or "its node affinity"
        return "node_selector", f"no pool with large enough nodes has the labels {labels}"
    let_in = [p for p in chosen if untolerated(p.taints, job.tolerations) is None]
    if not let_in:
        taint = untolerated(chosen[0].taints, job.tolerations)
        named = f"{taint.key}={taint.value}:{taint.effect}" if taint else ""
        return "tolerations", f"it does not tolerate {named} of pool {chosen[0].name}"
    # The product places a whole gang in one pool.
    room = max(p.max_nodes * (p.resources[job.resource] // job.gpus_per_pod) for p in let_in)
    if room < least:
        pods = f"{least} pods of {job.gpus_per_pod} {job.resource}"
        return "pods", f"it needs {pods} at once, and no pool has room for more than {room}"
    return None


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
    "may_wait_s",
)
NEEDED = COLUMNS[:6]
LONGEST_SECONDS = 10 * 365 * 86400
COUNT = "write a whole number of at least 1"


def read_tidy(lines: Iterable[str], source: str, reading: TraceReading) -> Trace:
    """Return the trace in *lines*, a CSV table with COLUMNS, which begins at the *start* of *reading*.

    *submit_s* are seconds from the beginning, *duration_s* is the run time, ``gpus = pods x gpus_per_pod``; *gpu_util*
    is a ratio 0-1 or empty; a job with *may_wait_s* waits behind our scheduling gate. A job of several pods is a gang.
    An unknown column is refused, since a misspelled one would count as missing. Raises BadTrace with every malformed
    field of every line. No line is dropped or repaired.
    """
    findings = Findings()
    jobs: list[Job] = []
    first_seen: dict[str, int] = {}
    unsorted = 0
    reader = csv.DictReader(lines, strict=True)
    try:
        _check(reader.fieldnames or ())
        for row in reader:
            line = _Line(reader.line_num, row, findings)
            job = line.job(reading, first_seen)
            if job is not None:
                unsorted += bool(jobs and job.submit_at < jobs[-1].submit_at)
                jobs.append(job)
    except csv.Error as error:
        where = f"line {reader.line_num + 1}"
        if "new-line" in str(error):
            findings.wrong(
                where, "line", "contains a carriage return alone", "save it with Unix or Windows line endings"
            )
        else:
            findings.wrong(where, "line", f"is not CSV ({error})", "check its quotes")
    if unsorted:
        findings.notes.append(
            f"{unsorted} of {len(jobs)} lines are out of order; they are replayed in order of submission"
        )
    return findings.trace(source, "csv", jobs, reading, reading.start)


def _check(header: Iterable[str]) -> None:
    """Raise BadTrace unless *header* has the columns, each once, and no others."""
    names = list(header)
    unknown = [n for n in names if n not in COLUMNS]
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise BadTrace([_header("header", "its columns are not separated by commas", "save it with commas")])
    absent = [_header(c, "the column is missing", "add it") for c in NEEDED if c not in names]
    twice = [_header(c, "the column is given twice", "keep one") for c in COLUMNS if names.count(c) > 1]
    odd = [_header(n or "header", "the column is unknown", f"{did_you_mean(n, COLUMNS)}") for n in unknown]
    if absent or twice or odd:
        raise BadTrace([*absent, *twice, *odd])


def _header(name: str, problem: str, remedy: str) -> Trouble:
    return Trouble(where="line 1", field=name, problem=problem, remedy=remedy)


class _Line:
    """One line. After an error, default values let the reading go on, so that all errors are reported."""

    def __init__(self, number: int, row: Mapping[str, str | None], findings: Findings) -> None:
        self._number = number
        self._row = row
        self._found = findings
        self._fine = True
        if None in row:
            self._wrong("line", "has more columns than the header", "quote fields that contain a comma")

    def _wrong(self, name: str, problem: str, remedy: str) -> None:
        self._fine = False
        self._found.wrong(f"line {self._number}", name, problem, remedy)

    def job(self, reading: TraceReading, first_seen: dict[str, int]) -> Job | None:
        """Return the job of this line, None after an error."""
        job_id = self._text("job_id")
        if not job_id:
            self._wrong("job_id", "is empty", "give every job an id")
        submit = self._read("submit_s", _no_time, "write seconds from the beginning of the trace")
        duration = self._read("duration_s", _no_time, "write the seconds that it ran")
        gpus, pods, per_pod = (int(self._read(name, _no_count, COUNT)) for name in ("gpus", "pods", "gpus_per_pod"))
        if gpus and pods and per_pod and gpus != pods * per_pod:
            self._wrong("gpus", f"{gpus} is not pods x gpus_per_pod = {pods * per_pod}", "correct one of the three")
        util = reading.gpu_util
        if self._text("gpu_util"):
            util = self._read("gpu_util", _no_ratio, "write a ratio from 0 to 1, or leave it empty")
        waits = (
            self._read("may_wait_s", _no_time, "write seconds, or leave it empty") if self._text("may_wait_s") else 0.0
        )
        if job_id in first_seen:
            self._wrong("job_id", f"{job_id!r} is also in line {first_seen[job_id]}", "give each job its own id")
        elif job_id:
            first_seen[job_id] = self._number
        if not self._fine:
            return None
        team, gpu_type = self._text("user_or_team"), self._text("gpu_type")
        labels = {"gpu-type": gpu_type} if gpu_type else {}
        if team and reading.team_label != "team":
            labels[reading.team_label] = team
        return Job(
            id=job_id,
            submit_at=reading.start + timedelta(seconds=submit),
            duration=timedelta(seconds=duration),
            pods=pods,
            gpus_per_pod=per_pod,
            namespace=reading.namespace,
            team=team,
            gang=pods > 1,
            node_selector=reading.node_selector,
            tolerations=reading.tolerations,
            labels=labels or NOTHING,
            annotations={MAY_WAIT: f"{round(waits)}s"} if waits else NOTHING,
            gate=MAY_WAIT if waits else "",
            gpu_util=util,
        )

    def _text(self, name: str) -> str:
        return (self._row.get(name) or "").strip()

    def _read(self, name: str, wrong: Callable[[float], str], remedy: str) -> float:
        """Return a number, 0 after an error; *wrong* says what is wrong with one."""
        text = self._text(name)
        try:
            value = float(text)
        except ValueError:
            problem = f"{text!r} is not a number" if text else "is empty"
        else:
            problem = wrong(value) if math.isfinite(value) else f"{text!r} is not a finite number"
        if problem:
            self._wrong(name, problem, remedy)
            return 0.0
        return value


def _no_time(value: float) -> str:
    if value < 0:
        return f"{value:g} is negative"
    return f"{value:,.0f} seconds are more than ten years" if value > LONGEST_SECONDS else ""


def _no_count(value: float) -> str:
    return "" if value >= 1 and value == int(value) else f"{value:g} is not a valid count"


def _no_ratio(value: float) -> str:
    return "" if 0 <= value <= 1 else f"{value:g} is not between 0 and 1"
