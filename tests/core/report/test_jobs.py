"""How workloads ended, and how long they waited."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.usage import WorkloadLife
from receiver.core.report.report import Jobs, count_jobs, of_month, percentile, queue_waits
from tests.core.builders import MINUTE
from tests.core.report.builders import START, a_workload, at

END = at(24)


@pytest.mark.parametrize(
    ("workload", "standing"),
    [
        (a_workload(ended_at=at(2), completed=True), "completed"),
        (a_workload(ended_at=at(2), completed=False), "failed"),
        (a_workload(ended_at=at(2), completed=None), "gone"),
        (a_workload(waited=None, ended_at=at(2), completed=None), "gave_up"),
        (a_workload(), "running"),
        (a_workload(waited=None), "waiting"),
        (a_workload(ended_at=at(25), completed=True), "running"),
        (a_workload(created=23, waited=90), "waiting"),
    ],
)
def test_a_workload_counts_as_it_stands_at_the_end(workload: WorkloadLife, standing: str) -> None:
    found = count_jobs([workload], END)
    assert found == Jobs(seen=1, **{standing: 1})


def test_workloads_of_other_months_are_left_out() -> None:
    before = a_workload("old", -5, ended_at=at(-1), completed=True)
    over = a_workload("over", -5, ended_at=at(1), completed=True)
    after = a_workload("new", 24)
    assert [w.workload for w in of_month([before, over, after], START, END)] == ["ml/Job/over"]


def test_waits_are_told_as_nearest_ranks() -> None:
    found = queue_waits([a_workload(f"w{n}", 1, n) for n in range(1, 21)], START, END)
    assert (found.started, found.p50, found.p95, found.longest) == (20, 10 * MINUTE, 19 * MINUTE, 20 * MINUTE)


def test_who_still_waits_is_counted_beside_the_waits_that_ended() -> None:
    found = queue_waits([a_workload("a", 1, 5), a_workload("b", 22, None), a_workload("c", 23, None)], START, END)
    assert (found.started, found.p95, found.still, found.still_longest) == (1, 5 * MINUTE, 2, 120 * MINUTE)


def test_without_workloads_there_is_no_wait() -> None:
    found = queue_waits([], START, END)
    assert (found.started, found.p50, found.p95, found.longest, found.still_longest) == (0, None, None, None, None)


def test_who_started_last_month_does_not_count_again() -> None:
    assert queue_waits([a_workload("a", -2, 5)], START, END).started == 0


def test_a_binding_before_the_creation_is_no_negative_wait() -> None:
    assert queue_waits([a_workload("a", 1, -3)], START, END).longest == timedelta(0)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=40), st.floats(0.01, 1))
def test_a_percentile_is_one_of_the_values_that_enough_do_not_exceed(values: list[int], ratio: float) -> None:
    ordered = sorted(timedelta(seconds=v) for v in values)
    found = percentile(ordered, ratio)
    assert found in ordered
    assert found is not None
    assert sum(v <= found for v in ordered) >= ratio * len(ordered)
