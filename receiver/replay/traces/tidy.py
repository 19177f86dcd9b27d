"""Traces as CSV, one line per job.

The columns are ``job_id,submit_s,duration_s,gpus,pods,gpus_per_pod,user_or_team,gpu_type,gpu_util``: *submit_s* are
seconds from the beginning, *duration_s* is the run time, ``gpus = pods x gpus_per_pod``; *gpu_util* is a ratio 0-1 or
empty. A job of several pods is a gang. The last three columns are optional. An unknown column is refused, since a
misspelled one would count as missing.
"""

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from receiver.config.values import did_you_mean
from receiver.ports import Trouble
from receiver.replay.traces.trace import NOTHING, BadTrace, Findings, TraceReading, Trace
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
COUNT = "write a whole number of at least 1"


def read_tidy(lines: Iterable[str], source: str, reading: TraceReading) -> Trace:
    """Return the trace in *lines*, which begins at the *start* of *reading*.

    Raises BadTrace with every malformed field of every line. No line is dropped or repaired.
    """
    found = Findings()
    jobs: list[Job] = []
    first_seen: dict[str, int] = {}
    unsorted = 0
    reader = csv.DictReader(lines, strict=True)
    try:
        _check(reader.fieldnames or ())
        for row in reader:
            line = _Line(reader.line_num, row, found)
            job = line.job(reading, first_seen)
            if job is not None:
                unsorted += bool(jobs and job.submit_at < jobs[-1].submit_at)
                jobs.append(job)
    except csv.Error as error:
        where = f"line {reader.line_num + 1}"
        if "new-line" in str(error):
            found.wrong(where, "line", "contains a carriage return alone", "save it with Unix or Windows line endings")
        else:
            found.wrong(where, "line", f"is not CSV ({error})", "check its quotes")
    if unsorted:
        found.notes.append(
            f"{unsorted} of {len(jobs)} lines are out of order; they are replayed in order of submission"
        )
    return found.trace(source, "csv", jobs, reading, reading.start)


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

    def __init__(self, number: int, row: Mapping[str, str | None], found: Findings) -> None:
        self._number = number
        self._row = row
        self._found = found
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
        gpus, pods, each = (int(self._read(name, _no_count, COUNT)) for name in ("gpus", "pods", "gpus_per_pod"))
        if gpus and pods and each and gpus != pods * each:
            self._wrong("gpus", f"{gpus} is not pods x gpus_per_pod = {pods * each}", "correct one of the three")
        util = reading.gpu_util
        if self._text("gpu_util"):
            util = self._read("gpu_util", _no_ratio, "write a ratio from 0 to 1, or leave it empty")
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
            gpus_per_pod=each,
            namespace=reading.namespace,
            team=team,
            gang=pods > 1,
            node_selector=reading.node_selector,
            tolerations=reading.tolerations,
            labels=labels or NOTHING,
            annotations=NOTHING,
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
