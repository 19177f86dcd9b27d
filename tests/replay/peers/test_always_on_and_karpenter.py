"""Nodes for the peak, and Karpenter's WhenEmpty."""

from datetime import timedelta

import pytest

from receiver.replay.peers import peak
from tests.replay.peers.small_worlds import asked_at, at, kept_empty, played_by

# --- always on


def test_always_on_has_the_nodes_of_the_peak_from_the_beginning_to_the_end() -> None:
    played = played_by("always-on", [at("a", 0, runs=900), at("b", 100, runs=900), at("c", 4000)])
    assert asked_at(played) == [0, 0]
    assert all(vm.deleted_at is None for vm in played.lives)
    assert played.actions == 0


def test_with_nodes_for_the_peak_nobody_waits() -> None:
    jobs = [at(f"j{n}", 37 * n, runs=100 * n + 50, gpus=1 + n % 5) for n in range(30)]
    played = played_by("always-on", jobs, most=40)
    assert max(done.wait for done in played.finished) <= timedelta(milliseconds=1)


def test_a_peak_beyond_what_the_pools_may_have_is_what_they_may_have() -> None:
    jobs = [at(f"j{n}", 0) for n in range(7)]
    assert peak(jobs, {"small": 4, "large": 8}, {"small": 9, "large": 5}) == {"small": 0, "large": 5}
    assert peak([at("j", 0, gpus=2, pods=3)], {"small": 4, "large": 8}, {"small": 9, "large": 0}) == {
        "small": 2,
        "large": 0,
    }


# --- Karpenter's WhenEmpty


def test_karpenter_waits_for_a_second_of_calm_before_it_buys() -> None:
    assert asked_at(played_by("karpenter-when-empty", [at("j", 4)])) == [5]


def test_karpenter_batches_no_longer_than_ten_seconds() -> None:
    jobs = [at(f"j{n}", 4 + 0.5 * n) for n in range(30)]
    asked = asked_at(played_by("karpenter-when-empty", jobs, most=30))
    assert asked[:21] == [14] * 21  # all that had come by then
    assert asked[21] > 14


def test_karpenter_takes_an_empty_node_after_thirty_seconds() -> None:
    played = played_by("karpenter-when-empty", [at("j", 0), at("later", 4000)])
    assert kept_empty(played, played.lives[0]) == pytest.approx(30, abs=1)


def test_karpenter_buys_exactly_what_packing_takes() -> None:
    jobs = [at(f"j{n}", 0, gpus=gpus) for n, gpus in enumerate((3, 5, 4, 4, 8))]
    assert len(played_by("karpenter-when-empty", jobs).lives) == 3
