"""Counts of units of work: the last one of a month is kept, on every engine, and old months are forgotten."""

from dataclasses import replace

from receiver.adapters.store import SqlStore
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


def test_counts_are_forgotten_with_the_usage_of_their_month(store: SqlStore) -> None:
    store.keep_unit_count(EPOCHS)
    store.prune(after(days=300))
    assert store.unit_counts("2026-11") == {"epoch": EPOCHS}
    store.prune(after(days=500))
    assert store.unit_counts("2026-11") == {}
