"""What reports keep beside usage: counts of units of work, GPUs in use, since when pools are watched."""

from dataclasses import replace

from receiver.adapters.store import SqlStore
from receiver.core.report.in_use import InUse
from receiver.core.report.units import Counted
from tests.store.builders import NOW, POOL, after

EPOCHS = Counted(month="2026-11", name="epoch", count=412.25, at=NOW)


def test_the_last_count_of_a_month_and_name_is_kept_exactly(store: SqlStore) -> None:
    steps = Counted(month="2026-11", name="steps", count=1e12 + 0.5, at=NOW)
    for counted in (replace(EPOCHS, count=1.0), steps, EPOCHS):
        store.keep_unit_count(counted)
    assert store.unit_counts("2026-11") == {"epoch": EPOCHS, "steps": steps}
    assert store.unit_counts("2026-10") == {}


def test_a_pool_is_watched_since_its_count_was_read_first(store: SqlStore) -> None:
    store.saw((), {POOL: 2}, NOW)
    store.saw((), {POOL: 3, "other": 0}, after(days=9))
    assert store.watched() == {POOL: NOW, "other": after(days=9)}


def test_the_higher_numbers_of_gpus_in_use_are_kept_and_the_seconds_added(store: SqlStore) -> None:
    first = InUse(month="2026-11", workload="ml/Job/a", gpus=8, used=2, seconds=60.0)
    other = replace(first, workload="ml/Job/b")
    store.keep_in_use([first, other])
    store.keep_in_use([replace(first, gpus=4, used=3, seconds=30.0)])
    store.keep_in_use([])
    assert store.in_use("2026-11") == (replace(first, used=3, seconds=90.0), other)
    assert store.in_use("2026-10") == ()


def test_counts_are_forgotten_with_the_usage_of_their_month(store: SqlStore) -> None:
    store.keep_unit_count(EPOCHS)
    store.prune(after(days=300))
    assert store.unit_counts("2026-11") == {"epoch": EPOCHS}
    store.prune(after(days=500))
    assert store.unit_counts("2026-11") == {}
