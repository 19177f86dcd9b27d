"""Traces from Slurm's accounting: ``sacct --parsable2`` with a header (https://slurm.schedmd.com/sacct.html).

A line is a job allocation, or a step of one (``123.batch``, ``123.extern``, ``123.0``). Steps hold nothing that their
job does not hold, so they are counted and not replayed. Every task of an array (``123_4``) is a job, and so is every
component of a heterogeneous job (``123+1``): Slurm places the components together, the replay does not. What a job
holds is AllocTRES; its GPUs are ``gres/gpu``, or without that the sum of the types (``gres/gpu:a100``), spread evenly
over its nodes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from receiver.ports.past import Trouble
from receiver.replay.traces.slurm_fields import AGAIN, BadField, devices, moment, pods_of, run_time
from receiver.replay.traces.trace import NOTHING, BadTrace, Findings, Reading, Trace
from receiver.replay.world.config import Job

NEEDED = ("JobID", "Submit", "Start", "State")
EITHER = (("AllocTRES", "ReqTRES"), ("ElapsedRaw", "Elapsed", "End"))
USED = (*NEEDED, *EITHER[0], *EITHER[1], "NNodes", "AllocNodes", "Account", "User", "Partition")
EXPORT = "sacct -a -P -o JobID,User,Account,Partition,Submit,Start,End,ElapsedRaw,State,AllocTRES,ReqTRES,NNodes"
ALIASES = {name.lower(): name for name in USED}
JOB_ID = re.compile(r"\d+(?:_(?:\d+|\[.*\]))?(?:\+\d+)?(\..+)?")
RUNNING = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"})
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})

SHOWN = 10

STEPS = "steps (they are part of their jobs)"
NO_GPU = "jobs without a GPU"
PART_OF_GPU = "jobs with a share of a GPU only (gres/mps, gres/shard)"
CANCELLED = "jobs cancelled before they started"
NEVER = "jobs that had not started"


def read_sacct(lines: Iterable[str], source: str, reading: Reading) -> Trace:
    """Return the trace in *lines*, at the times of the export.

    Raises BadTrace with every line that is wrong: none is dropped, none is repaired.
    """
    found = Findings()
    sheet = _Sheet(found, reading)
    rows = iter(lines)
    columns = _columns(next(rows, ""), found)
    jobs: list[Job] = []
    unsorted = 0
    for number, text in enumerate(rows, start=2):
        row = text.rstrip("\r\n")
        if not row.strip():
            continue
        cells = row.split("|")
        where = f"line {number}"
        if len(cells) != len(columns):
            problem = f"has {len(cells)} columns, the header has {len(columns)}"
            remedy = "leave out columns that may have a | or a line end in them, such as JobName or Comment"
            found.wrong(where, "line", problem, remedy)
            continue
        try:
            job = sheet.job(where, dict(zip(columns, (cell.strip() for cell in cells), strict=True)))
        except BadField as bad:
            found.wrong(where, bad.name, bad.problem, bad.remedy)
            continue
        if job is not None:
            unsorted += bool(jobs and job.submit_at < jobs[-1].submit_at)
            jobs.append(job)
    found.notes.extend(sheet.notes)
    if unsorted:
        found.notes.append(
            f"{unsorted} of {len(jobs)} jobs stand before an earlier one; replayed in order of submission"
        )
    return found.trace(source, "sacct", jobs, reading, None)


def _columns(header: str, found: Findings) -> Sequence[str]:
    """Return the column names of *header* as this module spells them; what is not used is noted, not refused."""
    names = [name.strip() for name in header.strip().split("|")]
    if len(names) == 1 and len(header.split()) > 1:
        raise BadTrace([_column("header", "the columns are aligned, not separated by |", f"export with {EXPORT}")])
    spelt = [ALIASES.get(name.lower(), name) for name in names]
    groups = [(name,) for name in NEEDED] + list(EITHER)
    missing = [" or ".join(group) for group in groups if not set(group) & set(spelt)]
    twice = [name for name in USED if spelt.count(name) > 1]
    if missing or twice:
        absent = [_column(name, "the column is missing", f"export with {EXPORT}") for name in missing]
        raise BadTrace([*absent, *(_column(name, "the column is there twice", "name it once") for name in twice)])
    idle = [name for name in spelt if name and name not in USED]
    if idle:
        more = f" and {len(idle) - SHOWN} more" if len(idle) > SHOWN else ""  # sacct -o ALL has a hundred
        found.notes.append(f"columns that are not used: {', '.join(idle[:SHOWN])}{more}")
    return spelt


def _column(name: str, problem: str, remedy: str) -> Trouble:
    return Trouble(where="line 1", field=name, problem=problem, remedy=remedy)


class _Sheet:
    """The lines of one export under reading."""

    def __init__(self, found: Findings, reading: Reading) -> None:
        self._found = found
        self._reading = reading
        self._first_seen: dict[str, str] = {}
        self._assumed: Counter[str] = Counter()

    @property
    def notes(self) -> list[str]:
        """What was assumed of the jobs that were taken."""
        said = {
            "running": "jobs still ran: taken with the time that they had run by then",
            "parts": "components of heterogeneous jobs: each taken for a job of its own",
            "asked": "jobs without AllocTRES: taken with what they asked for (ReqTRES)",
        }
        counted = [f"{self._assumed[name]} {text}" for name, text in said.items() if self._assumed[name]]
        return [f"times without a zone count as {self._reading.zone}", *counted]

    def job(self, where: str, row: Mapping[str, str]) -> Job | None:
        """Return the job of a line, None for a line that rightly is none, which is counted. Raises BadField."""
        job_id = row["JobID"]
        match = JOB_ID.fullmatch(job_id)
        if match is None:
            raise BadField("JobID", f"{job_id!r} is no job id of Slurm", AGAIN)
        kind = STEPS if match[1] else self._no_job(row)
        if kind is not None:
            self._found.uncounted[kind] += 1
            return None
        before = self._first_seen.setdefault(job_id, where)
        if before is not where:
            remedy = "export without --duplicates, and each day only once"
            raise BadField("JobID", f"{job_id!r} was used in {before} before", remedy)
        return self._job(job_id, row)

    def _no_job(self, row: Mapping[str, str]) -> str | None:
        """Return as which kind a line counts that held no GPUs, None for one that held some."""
        held, state = devices(row), _state(row)
        if not held.gpus:
            return PART_OF_GPU if held.shares else NO_GPU
        if moment("Start", row["Start"], self._reading.zone) is None:
            return CANCELLED if state == "CANCELLED" else NEVER
        return NEVER if state in WAITING else None  # requeued: the start is an earlier one's, or a guess

    def _job(self, job_id: str, row: Mapping[str, str]) -> Job:
        reading, held = self._reading, devices(row)
        submitted, started = (moment(name, row[name], reading.zone) for name in ("Submit", "Start"))
        if submitted is None or started is None:
            raise BadField("Submit", "is not known", "export it again; every job has one")
        if submitted > started:
            problem = f"{row['Submit']} is later than the start, {row['Start']}"
            raise BadField("Submit", problem, "export all lines in one time zone")
        pods, gpus = pods_of(row, held)
        team = row.get("Account") or row.get("User") or ""
        labels = {"gpu-type": held.kind, "partition": row.get("Partition", "")}
        if reading.team_label != "team":
            labels[reading.team_label] = team
        duration = run_time(row, started, reading.zone)
        self._assumed["running"] += _state(row) in RUNNING
        self._assumed["parts"] += "+" in job_id
        self._assumed["asked"] += not row.get("AllocTRES")
        return Job(
            id=job_id,
            submit_at=submitted,
            duration=duration,
            pods=pods,
            gpus_per_pod=gpus,
            namespace=reading.namespace,
            team=team,
            gang=pods > 1,
            node_selector=reading.node_selector,
            tolerations=reading.tolerations,
            labels={name: value for name, value in labels.items() if value},
            annotations=NOTHING,
            gpu_util=reading.gpu_util,
        )


def _state(row: Mapping[str, str]) -> str:
    """Return the state without who cancelled it (``CANCELLED by 1000``) and without a cut (``CANCELLED+``)."""
    words = row["State"].split()
    return words[0].rstrip("+").upper() if words else ""
