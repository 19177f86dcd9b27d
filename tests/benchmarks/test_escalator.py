"""Escalator as its documents and its sample configuration describe it."""

import pytest

from tests.replay.peers.small_worlds import asked_at, at, played_by, since_start

MINUTE = 60


def test_it_scans_every_minute() -> None:
    assert asked_at(played_by("escalator-safe", [at("j", 61)]))[0] == 2 * MINUTE


def test_from_nothing_it_buys_until_utilization_would_be_at_most_seventy_percent() -> None:
    jobs = [at(f"j{n}", 0, gpus=1) for n in range(12)]
    assert len(played_by("escalator-safe", jobs).lives) == 3  # 12 / (8 x 0.7) = 2.1


def test_above_seventy_percent_it_buys_the_slack() -> None:
    jobs = [at("a", 0, runs=4000, gpus=5), at("b", 600, runs=2000, gpus=2)]
    assert asked_at(played_by("escalator-safe", jobs)) == [0, 600]  # 5/8 = 63 %, then 7/8 = 88 %


def test_a_pod_that_fits_on_no_nodes_rest_gets_a_node_whatever_the_utilization() -> None:
    jobs = [at("a", 0, runs=4000, gpus=1), at("b", 605, runs=600, gpus=1), at("c", 1500, gpus=8)]
    assert len([asked for asked in asked_at(played_by("escalator-safe", jobs)) if asked >= 1500]) >= 1


def test_nothing_is_done_while_a_purchase_is_under_way() -> None:
    jobs = [at("a", 0, runs=2000, gpus=4), at("b", 65, runs=2000, gpus=8)]
    assert asked_at(played_by("escalator-safe", jobs))[:2] == [0, 3 * MINUTE]


def test_a_tainted_node_goes_once_it_is_empty_and_its_grace_is_over() -> None:
    played = played_by("escalator-safe", [at("j", 0, runs=400), at("end", 4000)])
    first = played.lives[0]
    over = since_start(played.finished[0].finished_at)
    assert first.deleted_at is not None
    assert over + MINUTE < since_start(first.deleted_at) <= over + 4 * MINUTE


def test_the_sample_deletes_a_busy_node_ten_minutes_after_its_taint() -> None:
    jobs = [at("long", 0, runs=6000, gpus=1), *(at(f"s{n}", 300, runs=300, gpus=8) for n in range(3))]
    hard = played_by("escalator", jobs)
    safe = played_by("escalator-safe", jobs)
    assert {kill.name for kill in hard.kills} >= {"long-0"}
    assert not safe.kills


def test_a_tainted_node_is_untainted_before_another_is_bought() -> None:
    jobs = [at("a", 0, runs=2000, gpus=3), at("b", 420, runs=500, gpus=3)]
    played = played_by("escalator-safe", jobs)
    assert len(played.lives) == 2  # 3/8 is under 40 %: tainted; then 6/8 of it is above 70 %: taken back, and slack


@pytest.mark.parametrize("name", ["escalator", "escalator-safe"])
def test_each_group_counts_the_pods_of_its_size(name: str) -> None:
    played = played_by(name, [at("one", 0, gpus=1, runs=100), at("eight", 0, gpus=8, runs=100)], 1, 8)
    assert {vm.pool for vm in played.lives} == {"p1", "p8"}
