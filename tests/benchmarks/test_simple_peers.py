"""The small rules: the naive watchdog, one step per cooldown."""

import pytest

from tests.replay.peers.small_worlds import asked_at, at, kept_empty, played_by, since_start

# --- the naive watchdog


def test_the_naive_watchdog_adds_a_node_every_ten_seconds_while_a_pod_is_pending() -> None:
    assert asked_at(played_by("naive-watchdog", [at("j", 0, runs=5)], most=3))[:3] == [0, 10, 20]


@pytest.mark.parametrize("name", ["naive-watchdog", "naive-watchdog-one"])
def test_the_naive_watchdog_takes_the_node_from_under_a_job_until_kubernetes_gives_it_up(name: str) -> None:
    played = played_by(name, [at("j", 0, runs=3600)], most=1)
    assert [job.id for job in played.left] == ["j"]
    assert len(played.kills) == 7


def test_the_gentler_watchdog_takes_one_node_per_round() -> None:
    played = played_by("naive-watchdog-one", [at("j", 0, runs=25), at("later", 2000, runs=5)], most=3)
    gone = [since_start(vm.deleted_at) for vm in played.lives[:3] if vm.deleted_at is not None]
    assert sorted(gone) == [150, 160, 170]


# --- step +1


def test_step_up_adds_one_node_per_minute() -> None:
    assert asked_at(played_by("step-up", [at("wide", 0, pods=4)])) == [0, 60, 120, 180]


def test_step_up_gives_a_node_back_after_five_idle_minutes() -> None:
    played = played_by("step-up", [at("j", 0), at("later", 4000)])
    assert kept_empty(played, played.lives[0]) == pytest.approx(300, abs=10)


def test_step_up_steps_in_the_pool_whose_nodes_fit_best() -> None:
    played = played_by("step-up", [at("a", 0, gpus=4), at("b", 0, gpus=1)], 1, 4, 8)
    assert sorted(vm.pool for vm in played.lives) == ["p1", "p4"]
