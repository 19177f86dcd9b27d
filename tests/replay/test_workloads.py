"""Reading job traces, and the demo's own workload."""

from pathlib import Path

import pytest

from receiver.replay.workloads import BadWorkload, DemoPlan, JobDefaults, demo_jobs, load_jobs, read_jobs
from receiver.replay.world import World
from tests.replay.builders import T0, after, pool, run, seconds, world

HEADER = "job_id,submit_s,duration_s,gpus,pods,gpus_per_pod,user_or_team,gpu_type,gpu_util\n"


def problems(*lines: str, header: str = HEADER) -> list[tuple[int, str]]:
    """(line, field) of everything that is wrong."""
    with pytest.raises(BadWorkload) as bad:
        read_jobs([header, *(line + "\n" for line in lines)], T0)
    return [(e.line, e.field) for e in bad.value.errors]


def test_a_line_becomes_a_job() -> None:
    (one,) = read_jobs([HEADER, "a-1,90,3600.5,8,2,4,vision,L40S,0.75\n"], T0)
    assert (one.id, one.submit_at, one.duration) == ("a-1", after(90), seconds(3600.5))
    assert (one.pods, one.gpus_per_pod, one.gpus, one.gang) == (2, 4, 8, True)
    assert (one.team, one.labels, one.gpu_util) == ("vision", {"gpu-type": "L40S"}, 0.75)


def test_empty_optional_fields_take_the_defaults() -> None:
    defaults = JobDefaults(namespace="ml", node_selector={"k": "v"}, gpu_util=0.5)
    (one,) = read_jobs([HEADER, "a,0,1,1,1,1,,,\n"], T0, defaults)
    assert (one.team, one.labels, one.gpu_util, one.gang) == ("", {}, 0.5, False)
    assert (one.namespace, one.node_selector) == ("ml", {"k": "v"})


def test_optional_columns_may_be_missing() -> None:
    (one,) = read_jobs(["job_id,submit_s,duration_s,gpus,pods,gpus_per_pod\n", "a,0,1,1,1,1\n"], T0)
    assert one.id == "a"


def test_jobs_come_in_order_of_submission() -> None:
    jobs = read_jobs([HEADER, "late,9,1,1,1,1,,,\n", "early,1,1,1,1,1,,,\n"], T0)
    assert [j.id for j in jobs] == ["early", "late"]


@pytest.mark.parametrize(
    "line, field",
    [
        (",0,1,1,1,1,,,", "job_id"),
        ("a,soon,1,1,1,1,,,", "submit_s"),
        ("a,-1,1,1,1,1,,,", "submit_s"),
        ("a,0,,1,1,1,,,", "duration_s"),
        ("a,0,nan,1,1,1,,,", "duration_s"),
        ("a,0,1e12,1,1,1,,,", "duration_s"),
        ("a,0,1,3,2,1,,,", "gpus"),
        ("a,0,1,1,0,1,,,", "pods"),
        ("a,0,1,1,1,0.5,,,", "gpus_per_pod"),
        ("a,0,1,1,1,1,,,75", "gpu_util"),
        ("a,0,1,1,1,1,,,,extra", "line"),
        ("a,0,1,1", "pods"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(line: str, field: str) -> None:
    assert (3, field) in problems("fine,0,1,1,1,1,,,", line)


def test_every_error_of_every_line_is_told_at_once() -> None:
    assert problems("a,x,1,1,1,1,,,", "b,0,y,z,1,1,,,", "c,0,1,1,1,1,,,") == [
        (2, "submit_s"),
        (3, "duration_s"),
        (3, "gpus"),
    ]


def test_a_job_id_may_be_used_once() -> None:
    assert problems("a,0,1,1,1,1,,,", "a,0,1,1,1,1,,,") == [(3, "job_id")]


def test_missing_columns_are_named() -> None:
    assert problems("a,0,1", header="job_id,submit_s,gpus\n") == [
        (1, "duration_s"),
        (1, "pods"),
        (1, "gpus_per_pod"),
    ]


def test_an_empty_file_is_an_error_and_a_header_alone_is_no_jobs() -> None:
    with pytest.raises(BadWorkload):
        read_jobs([], T0)
    assert read_jobs([HEADER], T0) == []


def test_the_message_shows_line_field_and_problem() -> None:
    with pytest.raises(BadWorkload, match="line 2, submit_s: 'soon' is no number"):
        read_jobs([HEADER, "a,soon,1,1,1,1,,,\n"], T0)


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(HEADER + "a,0,1,1,1,1,,,\n", encoding="utf-8")
    assert [j.id for j in load_jobs(trace, T0)] == ["a"]


def test_the_demo_has_singles_a_gang_and_jobs_that_fit_nowhere_within_its_time() -> None:
    jobs = {j.id: j for j in demo_jobs(T0)}
    assert jobs["gang"].gang
    assert jobs["gang"].pods == 2
    assert jobs["too-big"].gpus_per_pod == 16
    assert jobs["nowhere"].node_selector == {"gpu": "quantum"}
    assert all(T0 <= j.submit_at <= after(100) for j in jobs.values())
    assert {n for n in jobs if n.startswith("late-")} == {"late-1", "late-2", "late-3"}


def test_the_demo_is_the_same_every_time() -> None:
    assert demo_jobs(T0) == demo_jobs(T0)


def test_the_demo_runs_what_fits_and_leaves_waiting_what_does_not() -> None:
    w: World = world(pool(count=4, labels={"gpu": "on-demand"}))
    w.submit_later(demo_jobs(T0, DemoPlan(late_runs=5)))
    run(w, 200)
    assert {j.id for j in w.finished} == {"train-1", "train-2", "train-3", "gang", "late-1", "late-2", "late-3"}
    assert {p.name for p in w.active_pods.values()} == {"too-big-0", "nowhere-0"}
