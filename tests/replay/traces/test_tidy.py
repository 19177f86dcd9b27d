"""Traces in the tidy form: CSV with one line per job."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from receiver.core.model.policy import Taint
from receiver.replay.traces import load_jobs
from receiver.replay.traces.trace import BadTrace, Trace, TraceReading, read_tidy
from receiver.replay.world.nodes import UNSCHEDULABLE
from receiver.replay.world.objects import Job
from receiver.replay.world.scheduler import untolerated
from tests.replay.builders import T0, after, seconds

HEADER = "job_id,submit_s,duration_s,gpus,pods,gpus_per_pod,user_or_team,gpu_type,gpu_util\n"


def read(*lines: str, header: str = HEADER, **reading: Any) -> Trace:
    """The trace of *lines*, which begins at T0."""
    return read_tidy([header, *(line + "\n" for line in lines)], "t.csv", TraceReading(start=T0, **reading))


def one(line: str, **reading: Any) -> Job:
    """The only job of a trace."""
    (job,) = read(line, **reading).jobs
    return job


def test_a_line_becomes_a_job() -> None:
    job = one("a-1,90,3600.5,8,2,4,vision,L40S,0.75")
    assert (job.id, job.submit_at, job.duration) == ("a-1", after(90), seconds(3600.5))
    assert (job.pods, job.gpus_per_pod, job.gpus, job.gang) == (2, 4, 8, True)
    assert (job.team, job.labels, job.gpu_util) == ("vision", {"gpu-type": "L40S"}, 0.75)


def test_empty_optional_fields_take_what_the_reading_says() -> None:
    job = one("a,0,1,1,1,1,,,", namespace="ml", node_selector={"k": "v"}, gpu_util=0.5)
    assert (job.team, job.labels, job.gpu_util, job.gang) == ("", {}, 0.5, False)
    assert (job.namespace, job.node_selector) == ("ml", {"k": "v"})


def test_a_trace_knows_no_taints_so_its_jobs_tolerate_those_of_gpu_nodes_but_no_cordon() -> None:
    tolerations = one("a,0,1,1,1,1,,,").tolerations
    gpu = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
    assert untolerated([gpu], tolerations) is None
    assert untolerated([gpu, UNSCHEDULABLE], tolerations) == UNSCHEDULABLE


def test_the_team_stands_under_the_label_by_which_the_product_knows_teams() -> None:
    assert one("a,0,1,1,1,1,vision,,", team_label="squad").labels == {"squad": "vision"}


def test_optional_columns_may_be_missing_and_the_order_is_free() -> None:
    trace = read("1,0,a,1,1,1", header="gpus,submit_s,job_id,duration_s,pods,gpus_per_pod\n")
    assert [j.id for j in trace.jobs] == ["a"]


def test_lines_out_of_order_are_taken_in_order_of_submission_and_said_so() -> None:
    trace = read("late,9,1,1,1,1,,,", "early,1,1,1,1,1,,,", "last,10,1,1,1,1,,,")
    assert [j.id for j in trace.jobs] == ["early", "late", "last"]
    assert trace.report == ["1 of 3 lines are out of order; they are replayed in order of submission"]


def test_a_trace_in_order_has_nothing_to_report() -> None:
    assert read("a,0,1,1,1,1,,,", "b,0,1,1,1,1,,,").report == []


def test_the_replay_begins_where_the_trace_counts_from() -> None:
    assert read("a,7200,1,1,1,1,,,").start == T0


def test_wrong_lines_are_left_out_and_told_where_that_is_wanted() -> None:
    trace = read("a,0,1,1,1,1,,,", "b,0,-5,1,1,1,,,", skip_bad=True)
    assert [j.id for j in trace.jobs] == ["a"]
    assert trace.report == ["line 3, duration_s: -5 is negative; write the seconds that it ran"]


def test_of_very_many_wrong_lines_the_first_are_told_and_the_others_counted_by_field() -> None:
    with pytest.raises(BadTrace) as refused:
        read(*(f"j{i},soon,1,1,1,1,,," for i in range(10_050)))
    assert len(refused.value.troubles) == 10_000
    assert str(refused.value).splitlines()[-1] == "and 9950 more: 9950 of submit_s"


def test_a_quoted_field_may_hold_commas_and_line_ends() -> None:
    trace = read('"a,', '1",0,1,1,1,1,,,', "b,-1,1,1,1,1,,,", skip_bad=True)
    assert [j.id for j in trace.jobs] == ["a,\n1"]
    assert trace.left_out[0].where == "line 4"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_of_windows_and_a_byte_order_mark_do_not_matter(tmp_path: Path, end: str, mark: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text((mark + HEADER + "a,0,1,1,1,1,vision,,\n").replace("\n", end), encoding="utf-8", newline="")
    assert [(j.id, j.team, j.gpu_util) for j in load_jobs(file, T0)] == [("a", "vision", 0.9)]


def test_lines_are_read_one_by_one() -> None:
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        yield HEADER
        for taken in range(1, 4):
            yield f"j{taken},0,1,1,1,1,,,\n"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        read_tidy(lines(), "t.csv", TraceReading())
    assert taken == 3
