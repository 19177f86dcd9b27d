"""What a store looks like after the soak gave it a past."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from campaigns.soak.past import add_past
from receiver.adapters.store import open_store
from receiver.adapters.store.sql_store import SqlStore
from receiver.core.explain.samples import PoolSample
from tests.adapters.store.builders import NOW, POOL, after, decision, life, migrated

MINUTE = NOW.replace(second=0, microsecond=0)
NOTHING = dict.fromkeys(("required", "ready", "building", "busy", "idle", "unknown", "pending_gpus", "utilization"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """A store that saw one node come and go, another that is there, a minute and a decision, with ten days of past."""
    url = migrated(tmp_path / "ledger.db")
    young = open_store(url)
    young.saw((life("gone", gone_at=after(hours=1)), life("there")), {}, NOW)
    young.keep_samples([PoolSample(pool=POOL, at=MINUTE, **NOTHING)], [], NOW)
    young.decided(decision(at=NOW))
    young.close()
    add_past(url, timedelta(days=1), days=10)
    old = open_store(url)
    yield old
    old.close()


def test_what_has_ended_is_there_once_for_each_day_under_names_of_its_own(store: SqlStore) -> None:
    gone = [x for x in store.node_lives(after(days=-60)) if x.gone_at is not None]
    assert len({x.instance for x in gone}) == 11
    assert sorted(x.created_at for x in gone) == [after(days=-n) for n in range(10, -1, -1)]
    assert {x.gone_at - x.created_at for x in gone if x.gone_at} == {timedelta(hours=1)}


def test_what_has_not_ended_is_there_once(store: SqlStore) -> None:
    assert [x.instance for x in store.node_lives(after(days=-60)) if x.gone_at is None] == ["there"]


def test_nothing_is_older_than_its_table_keeps_it(store: SqlStore) -> None:
    assert store.prune(MINUTE) == 0
    assert len(store.samples(after(days=-60), after(days=1), pool=POOL)) == 9  # eight days and this one


def test_the_newest_decision_remains_the_last(store: SqlStore) -> None:
    stored = store.decisions(limit=20)
    assert len(stored) == 11
    assert stored[0].decision.at == NOW
