"""Exports of Slurm's sacct."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from receiver.cli.imports import trace_from_file
from receiver.replay.traces import BadTrace, Reading, Trace, read_sacct
from receiver.replay.world import Job

COLUMNS = (
    "JobID",
    "User",
    "Account",
    "Partition",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "State",
    "AllocTRES",
    "ReqTRES",
    "NNodes",
)
A_LINE = {
    "JobID": "7",
    "User": "ada",
    "Account": "vision",
    "Partition": "gpu",
    "Submit": "2026-03-02T09:10:00",
    "Start": "2026-03-02T09:30:00",
    "End": "2026-03-02T10:30:00",
    "ElapsedRaw": "3600",
    "State": "COMPLETED",
    "AllocTRES": "billing=16,cpu=64,gres/gpu:a100=16,gres/gpu=16,mem=500G,node=2",
    "ReqTRES": "billing=1,cpu=1,gres/gpu=1,node=1",
    "NNodes": "2",
}


def read(*changes: dict[str, str], columns: tuple[str, ...] = COLUMNS, **reading: Any) -> Trace:
    """The trace of lines that differ from A_LINE by *changes*."""
    rows = ["|".join({**A_LINE, **change}[c] for c in columns) + "\n" for change in changes]
    return read_sacct(["|".join(columns) + "\n", *rows], "t.out", Reading(**reading))


def one(change: dict[str, str] | None = None, columns: tuple[str, ...] = COLUMNS, **reading: Any) -> Job:
    """The only job of a trace."""
    (job,) = read(change or {}, columns=columns, **reading).jobs
    return job


def without(*names: str) -> tuple[str, ...]:
    return tuple(c for c in COLUMNS if c not in names)


def test_a_line_becomes_a_job_at_its_own_time() -> None:
    job = one()
    assert (job.id, job.submit_at) == ("7", datetime(2026, 3, 2, 9, 10, tzinfo=UTC))
    assert (job.duration, job.pods, job.gpus_per_pod, job.gang) == (timedelta(hours=1), 2, 8, True)
    assert (job.team, job.labels) == ("vision", {"gpu-type": "a100", "partition": "gpu"})
    assert [t.key for t in job.tolerations] == ["gpu", "nvidia.com/gpu"]


def test_the_replay_begins_at_the_full_hour_before_the_first_job() -> None:
    assert read({}).start == datetime(2026, 3, 2, 9, tzinfo=UTC)


def test_a_job_on_one_node_is_no_gang() -> None:
    job = one({"AllocTRES": "gres/gpu=4,node=1", "NNodes": "1"})
    assert (job.pods, job.gpus_per_pod, job.gang) == (1, 4, False)


def test_times_are_of_the_zone_that_is_given() -> None:
    trace = read({}, zone=ZoneInfo("Europe/London"))
    assert trace.jobs[0].submit_at == datetime(2026, 3, 2, 9, 10, tzinfo=UTC)
    assert read({"Submit": "2026-07-02T09:10:00", "Start": "2026-07-02T09:30:00"}, zone=ZoneInfo("Europe/London")).jobs[
        0
    ].submit_at == datetime(2026, 7, 2, 8, 10, tzinfo=UTC)
    assert "times without a zone count as Europe/London" in trace.report


def test_a_time_may_be_seconds_or_carry_its_zone() -> None:
    assert one({"Submit": "1772442600"}).submit_at == datetime(2026, 3, 2, 9, 10, tzinfo=UTC)
    assert one({"Submit": "2026-03-02T10:10:00+01:00"}).submit_at == datetime(2026, 3, 2, 9, 10, tzinfo=UTC)


def test_clocks_that_change_while_it_runs_do_not_change_how_long_it_ran() -> None:
    night = {"Submit": "2026-03-29T00:30:00", "Start": "2026-03-29T00:30:00", "End": "2026-03-29T03:30:00"}
    zone = ZoneInfo("Europe/London")  # one o'clock is skipped
    assert one({**night, "ElapsedRaw": "7200"}, zone=zone).duration == timedelta(hours=2)
    assert one(night, without("ElapsedRaw"), zone=zone).duration == timedelta(hours=2)


@pytest.mark.parametrize(
    "text, seconds", [("59:59", 3599), ("01:00:01", 3601), ("2-01:00:00", 176400), ("00:10.500", 10)]
)
def test_elapsed_is_read_as_slurm_writes_it(text: str, seconds: int) -> None:
    columns = (*without("ElapsedRaw", "End"), "Elapsed")
    rows = ["|".join(columns), "|".join({**A_LINE, "Elapsed": text}[c] for c in columns)]
    (job,) = read_sacct(rows, "t.out", Reading()).jobs
    assert job.duration == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "tres, gpus, kind",
    [
        ("gres/gpu=8,node=1", 8, ""),
        ("gres/gpu:a100=8,node=1", 8, "a100"),
        ("gres/gpu:a100=2,gres/gpu:l40s=2,node=1", 4, ""),
        ("gres/gpu:a100_1g.5gb=3,gres/gpu=3,node=1", 3, "a100_1g.5gb"),
        ("billing=900,gres/gpu=2,gres/gpumem=80G,gres/gpuutil=95,node=1", 2, ""),
    ],
)
def test_gpus_are_counted_once_whatever_their_types(tres: str, gpus: int, kind: str) -> None:
    job = one({"AllocTRES": tres, "NNodes": "1"})
    assert (job.gpus, job.labels.get("gpu-type", "")) == (gpus, kind)


def test_without_what_it_held_what_it_asked_for_counts_and_is_told() -> None:
    trace = read({"AllocTRES": "", "NNodes": "1"})
    assert trace.jobs[0].gpus == 1
    assert "1 jobs without AllocTRES: taken with what they asked for (ReqTRES)" in trace.report


def test_nodes_are_those_of_the_allocation_where_no_column_says_so() -> None:
    assert one(columns=without("NNodes")).pods == 2


def test_the_user_is_the_team_where_there_is_no_account() -> None:
    assert one(columns=without("Account")).team == "ada"


def test_lines_that_are_no_jobs_are_counted_by_kind() -> None:
    trace = read(
        {},
        {"JobID": "7.batch"},
        {"JobID": "7.extern"},
        {"JobID": "7.0"},
        {"JobID": "8", "AllocTRES": "cpu=4,node=1"},
        {"JobID": "9", "AllocTRES": "cpu=4,gres/shard=1,node=1"},
        {"JobID": "10", "Start": "None", "State": "CANCELLED by 1000", "AllocTRES": ""},
        {"JobID": "11", "Start": "Unknown", "State": "PENDING", "AllocTRES": ""},
        {"JobID": "12", "State": "REQUEUED"},
        {"JobID": "13_[4-9%2]", "Start": "Unknown", "State": "PENDING", "AllocTRES": ""},
    )
    assert [job.id for job in trace.jobs] == ["7"]
    assert trace.uncounted == {
        "steps (they are part of their jobs)": 3,
        "jobs without a GPU": 1,
        "jobs with a share of a GPU only (gres/mps, gres/shard)": 1,
        "jobs cancelled before they started": 1,
        "jobs that had not started": 3,
    }


@pytest.mark.parametrize(
    "state", ["FAILED", "TIMEOUT", "CANCELLED by 1000", "CANCELLED+", "NODE_FAIL", "OUT_OF_MEMORY"]
)
def test_a_job_that_ran_counts_however_it_ended(state: str) -> None:
    assert one({"State": state}).duration == timedelta(hours=1)


def test_a_job_that_still_runs_counts_with_what_it_has_run_and_is_told() -> None:
    trace = read({"State": "RUNNING", "End": "Unknown", "ElapsedRaw": "600"})
    assert trace.jobs[0].duration == timedelta(minutes=10)
    assert "1 jobs still ran: taken with the time that they had run by then" in trace.report


def test_every_task_of_an_array_is_a_job() -> None:
    assert [job.id for job in read({"JobID": "13_1"}, {"JobID": "13_2"}).jobs] == ["13_1", "13_2"]


def test_components_of_a_heterogeneous_job_are_jobs_of_their_own_and_told() -> None:
    trace = read({"JobID": "14+0"}, {"JobID": "14+1"})
    assert [job.id for job in trace.jobs] == ["14+0", "14+1"]
    assert "2 components of heterogeneous jobs: each taken for a job of its own" in trace.report


def test_columns_that_are_not_used_are_told() -> None:
    rows = ["JobName|" + "|".join(COLUMNS), "train|" + "|".join(A_LINE[c] for c in COLUMNS)]
    assert "columns that are not used: JobName" in read_sacct(rows, "t.out", Reading()).report


def test_a_bar_at_the_end_of_every_line_does_not_matter() -> None:
    rows = ["|".join(COLUMNS) + "|", "|".join(A_LINE[c] for c in COLUMNS) + "|"]
    assert len(read_sacct(rows, "t.out", Reading()).jobs) == 1


def test_columns_may_be_written_in_any_case() -> None:
    rows = ["|".join(COLUMNS).lower(), "|".join(A_LINE[c] for c in COLUMNS)]
    assert len(read_sacct(rows, "t.out", Reading()).jobs) == 1


def test_lines_out_of_order_are_taken_in_order_of_submission_and_said_so() -> None:
    trace = read({}, {"JobID": "6", "Submit": "2026-03-02T09:00:00"})
    assert [job.id for job in trace.jobs] == ["6", "7"]
    assert trace.report[-1] == "1 of 2 jobs stand before an earlier one; replayed in order of submission"


def test_every_wrong_line_is_told_at_once() -> None:
    with pytest.raises(BadTrace) as refused:
        read({"ElapsedRaw": "-5"}, {"JobID": "8", "NNodes": "3"}, {"JobID": "x"})
    assert [(t.where, t.field) for t in refused.value.troubles] == [
        ("line 2", "ElapsedRaw"),
        ("line 3", "AllocTRES"),
        ("line 4", "JobID"),
    ]


def test_wrong_lines_are_left_out_and_told_where_that_is_wanted() -> None:
    trace = read({}, {"JobID": "8", "ElapsedRaw": "-5"}, skip_bad=True)
    assert [job.id for job in trace.jobs] == ["7"]
    assert trace.report[0] == "line 3, ElapsedRaw: -5 is negative; write how many seconds it ran"


def test_an_export_is_recognised_by_its_header(tmp_path: Path) -> None:
    file = tmp_path / "export"
    file.write_bytes(b"\xef\xbb\xbf" + ("|".join(COLUMNS) + "\r\n" + "|".join(A_LINE.values()) + "\r\n").encode())
    trace = trace_from_file(file, Reading())
    assert (trace.format, trace.source, len(trace.jobs)) == ("sacct", "export", 1)
