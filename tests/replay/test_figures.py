"""How policies are compared, and their waits by hour of day."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.replay.figures import Figures, Ratio, by_hour, over_all, ratio
from tests.given.life import START, a_job
from tests.replay.plays import by_product, played_by


def some_figures(**given: Any) -> Figures:
    """Figures of a policy that paid 100 GPU-hours by the second and 120 by the hour."""
    said = {
        "name": "some",
        "node_hours_second": 12.5,
        "node_hours_started": 15,
        "gpu_hours_second": 100.0,
        "gpu_hours_started": 120,
        "usd": Decimal("10.00"),
        "utilization": 0.5,
        "wait_mean_s": 99.0,
        "wait_p50_s": 99.0,
        "wait_p95_s": 99.0,
        "wait_max_s": 99.0,
        "node_starts": 10,
        "actions": 20,
        "kills": 0,
        "jobs": 5,
        "jobs_lost": 0,
    }
    return Figures(**{**said, **given})


@pytest.mark.parametrize(("by_the_hour", "cost"), [(True, 0.5), (False, 0.9)])
def test_cost_is_of_the_gpu_hours_that_are_paid(by_the_hour: bool, cost: float) -> None:
    one = some_figures(gpu_hours_second=90.0, gpu_hours_started=60, node_starts=5)
    assert ratio(one, some_figures(), by_the_hour=by_the_hour) == Ratio(cost=cost, wait=1.0, starts=0.5)


def test_one_second_is_added_to_both_waits_so_that_none_at_all_can_be_compared_with() -> None:
    found = ratio(some_figures(), some_figures(wait_mean_s=0.0), by_the_hour=True)
    assert found is not None
    assert found.wait == 100.0


@pytest.mark.parametrize("nothing", [{"gpu_hours_started": 0}, {"node_starts": 0}])
def test_with_one_that_paid_for_nothing_nothing_is_compared(nothing: dict[str, int]) -> None:
    assert ratio(some_figures(), some_figures(**nothing), by_the_hour=True) is None


def test_over_several_traces_the_geometric_mean_counts() -> None:
    assert over_all([Ratio(0.5, 2.0, 1.0), Ratio(2.0, 8.0, 1.0)]) == Ratio(cost=1.0, wait=4.0, starts=1.0)


def test_a_bound_that_starts_no_node_has_no_mean_of_starts() -> None:
    assert over_all([Ratio(0.5, 2.0, 0.0), Ratio(0.5, 2.0, 1.0)]).starts == 0.0


def test_waits_are_told_by_the_hour_in_which_a_job_was_submitted() -> None:
    jobs = [a_job("first", submit_at=START), a_job("second", submit_at=START + timedelta(hours=25))]
    found = by_hour(played_by(by_product, jobs))
    assert [(hour["hour"], hour["jobs"]) for hour in found if hour["jobs"]] == [(12, 1), (13, 1)]
    assert len(found) == 24
    assert found[12]["wait_mean_s"] == found[12]["wait_p95_s"] > 140
    assert found[0]["wait_mean_s"] == 0.0
