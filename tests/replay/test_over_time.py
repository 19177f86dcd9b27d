"""What pictures of a replay are drawn from: averages over slots, waits by hour of day."""

from datetime import timedelta

import pytest

from receiver.replay.over_time import averages, by_hour, over_time
from tests.reconcile.harness import START, a_job
from tests.replay.test_play import by_product, played_by, some_jobs

HOUR = timedelta(hours=1)


def test_a_level_counts_in_each_slot_for_as_long_as_it_held() -> None:
    changes = [(START + HOUR / 2, 4.0), (START + 2 * HOUR, -3.0)]
    assert averages(changes, START, START + 4 * HOUR, 4) == (2.0, 4.0, 1.0, 1.0)


def test_what_came_before_and_after_is_cut_off() -> None:
    changes = [(START - HOUR, 2.0), (START + 9 * HOUR, 5.0)]
    assert averages(changes, START, START + 2 * HOUR, 2) == (2.0, 2.0)


def test_nothing_is_nothing_in_every_slot() -> None:
    assert averages([], START, START + HOUR, 3) == (0.0, 0.0, 0.0)


def test_averages_over_time_add_up_to_what_was_held_and_paid() -> None:
    played = played_by(by_product, some_jobs(11))
    found = over_time(played, played.end, slots=50)
    each = (played.end - played.start) / 50 / timedelta(seconds=1)
    held = sum(p.gpus * ((p.ended_at or played.end) - p.bound_at).total_seconds() for p in played.placements.all)
    existed = sum(8 * ((vm.gone_at or played.end) - vm.created_at).total_seconds() for vm in played.lives)
    assert sum(found.held) * each == pytest.approx(held, rel=0.001)
    assert sum(found.paid) * each == pytest.approx(existed, rel=0.001)
    assert max(found.waiting) > 0
    assert all(h <= p + 0.01 for h, p in zip(found.held, found.paid, strict=True))


def test_waits_are_told_by_the_hour_in_which_a_job_was_submitted() -> None:
    jobs = [a_job("first", submit_at=START), a_job("second", submit_at=START + timedelta(hours=25))]
    found = by_hour(played_by(by_product, jobs))
    assert [(hour.hour, hour.jobs) for hour in found if hour.jobs] == [(12, 1), (13, 1)]
    assert len(found) == 24
    assert found[12].wait_mean_s == found[12].wait_p95_s > 140
    assert found[0].wait_mean_s == 0.0
