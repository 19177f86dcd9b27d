"""How long nodes take: the median that people are told, and the figures of each stage."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from receiver.adapters.store import SqlStore
from receiver.core.model.memory import NodeLife
from tests.adapters.store.builders import NOW, POOL, after, life


def ready_in(store: SqlStore, pool: str = POOL) -> timedelta | None:
    return store.memory(NOW, NOW).pools[pool].ready_in


def provision(store: SqlStore, *lives: NodeLife) -> None:
    """See *lives* when they are created, and again as they became."""
    bare = [life(x.instance, pool=x.pool, created_at=x.created_at) for x in lives]
    store.saw(bare, dict.fromkeys((x.pool for x in lives), 1), NOW)
    store.saw(lives, {}, after(hours=1))


def usable_in(instance: str, minutes: float, **changes: Any) -> NodeLife:
    return life(instance, usable_at=after(minutes=minutes), **changes)


def test_a_pool_without_a_usable_node_is_ready_in_nobody_knows(store: SqlStore) -> None:
    provision(store, life("i-1", active_at=after(minutes=1)))
    assert ready_in(store) is None


def test_ready_in_is_the_median_from_creation_to_usable(store: SqlStore) -> None:
    provision(store, usable_in("a", 4), usable_in("b", 60), usable_in("c", 6), usable_in("d", 5, pool="other"))
    assert ready_in(store) == timedelta(minutes=6)
    assert ready_in(store, "other") == timedelta(minutes=5)


def test_ready_in_of_an_even_number_of_nodes_lies_between_the_middle_two(store: SqlStore) -> None:
    provision(store, usable_in("a", 4), usable_in("b", 5))
    assert ready_in(store) == timedelta(minutes=4, seconds=30)


def test_ready_in_looks_at_the_last_twenty_nodes(store: SqlStore) -> None:
    old = [usable_in(f"old-{n}", 1 + n / 100) for n in range(30)]
    provision(store, *old, *(usable_in(f"new-{n}", 9) for n in range(20)))
    assert ready_in(store) == timedelta(minutes=9)


def test_nodes_that_are_gone_count_for_ready_in(store: SqlStore) -> None:
    provision(store, usable_in("a", 4, gone_at=after(minutes=30)))
    assert ready_in(store) == timedelta(minutes=4)


def test_a_node_that_was_usable_when_first_seen_says_nothing_of_ready_in(store: SqlStore) -> None:
    store.saw((life("old", created_at=after(days=-3), usable_at=NOW),), {POOL: 1}, NOW)
    assert ready_in(store) is None


STAGES: Mapping[str, Mapping[str, Any]] = {
    "build": {"active_at": after(seconds=90)},
    "boot": {"active_at": after(seconds=90), "ready_at": after(seconds=120)},
    "driver": {"ready_at": after(seconds=120), "usable_at": after(seconds=300.25)},
    "start": {"bound_at": after(seconds=301), "running_at": after(seconds=361)},
    "total": {"usable_at": after(seconds=300.25)},
}
TOOK = {"build": 90_000, "boot": 30_000, "driver": 180_250, "start": 60_000, "total": 300_250}
FIT = {"build": "120.0", "boot": "30.0", "driver": "300.0", "start": "60.0", "total": "420.0"}


def counted(store: SqlStore) -> dict[str, int]:
    """The milliseconds by stage of the one pool."""
    return {stage: total for (_, stage), total in store.counts()["provision_milliseconds"].items()}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_is_over_is_counted_with_its_seconds(store: SqlStore, stage: str) -> None:
    provision(store, life(**STAGES[stage]))
    counts = store.counts()
    assert counts["provision_milliseconds"][POOL, stage] == TOOK[stage]
    assert counts["provision_buckets"][POOL, stage, FIT[stage]] == 1


def test_a_whole_provisioning_counts_each_stage_once(store: SqlStore) -> None:
    so_far: dict[str, Any] = {}
    provision(store, life())
    for moments in STAGES.values():
        so_far |= moments
        store.saw((life(**so_far),), {}, after(hours=1))
        store.saw((life(**so_far, idle_since=NOW),), {}, after(hours=2))
    assert counted(store) == TOOK
    assert set(store.counts()["provision_buckets"].values()) == {1}


@pytest.mark.parametrize(
    ("moments", "left_out"),
    [
        ({"ready_at": after(minutes=2)}, "boot"),
        ({"active_at": after(minutes=1), "usable_at": after(minutes=5)}, "driver"),
        ({"running_at": after(minutes=5)}, "start"),
    ],
)
def test_a_stage_whose_beginning_nobody_saw_is_not_counted(
    store: SqlStore, moments: Mapping[str, Any], left_out: str
) -> None:
    provision(store, life(**moments))
    assert left_out not in counted(store)


def test_stages_that_were_over_when_a_node_was_first_seen_are_not_counted(store: SqlStore) -> None:
    behind: dict[str, Any] = dict.fromkeys(("active_at", "ready_at", "usable_at", "bound_at"), NOW)
    store.saw((life(created_at=after(days=-3), **behind),), {POOL: 1}, NOW)
    store.saw((life(created_at=after(days=-3), **behind, running_at=after(seconds=10)),), {}, after(seconds=10))
    assert counted(store) == {}


def test_two_nodes_add_up(store: SqlStore) -> None:
    provision(store, life("a", active_at=after(seconds=90)), life("b", active_at=after(seconds=100)))
    assert counted(store) == {"build": 190_000}
    assert store.counts()["provision_buckets"] == {(POOL, "build", "120.0"): 2}


def test_a_clock_that_was_set_back_makes_a_stage_nothing_long(store: SqlStore) -> None:
    provision(store, life(active_at=after(minutes=2), ready_at=after(minutes=1)))
    assert counted(store)["boot"] == 0
    assert store.counts()["provision_buckets"][POOL, "boot", "5.0"] == 1


@pytest.mark.parametrize(("seconds", "bucket"), [(5, "5.0"), (5.001, "15.0"), (1800, "1800.0"), (1800.001, "+Inf")])
def test_a_bucket_holds_what_takes_at_most_its_seconds(store: SqlStore, seconds: float, bucket: str) -> None:
    provision(store, life(active_at=after(seconds=seconds)))
    assert store.counts()["provision_buckets"] == {(POOL, "build", bucket): 1}


@pytest.mark.database("the store in memory prunes nothing")
def test_figures_of_provisioning_survive_pruning(store: SqlStore) -> None:
    provision(store, life(gone_at=after(hours=1), **STAGES["build"]))
    store.prune(after(days=500))
    assert store.memory(NOW, after(days=-1)).lives == ()
    assert counted(store) == {"build": 90_000}
