"""Node lives, required counts and the picture."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, select, update

from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.schema import pools
from receiver.core.model.memory import Memory, NodeLife, PoolMemory
from receiver.core.model.model import Offer
from receiver.core.model.policy import Taint
from receiver.core.scaling.template import refuses
from receiver.ports import TryLater, WriterLostError
from tests.adapters.store.builders import NOW, POOL, after, decision, grow, life, outcome

MONTH = NOW.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def test_a_new_store_remembers_nothing(store: SqlStore) -> None:
    assert store.memory(NOW, MONTH) == Memory()
    assert store.snapshot() is None


def test_a_life_comes_back_exactly(store: SqlStore) -> None:
    moments = [name for name in NodeLife.__slots__ if name.endswith(("_at", "_since"))]
    dates = {name: after(minutes=n, microseconds=n) for n, name in enumerate(moments)}
    full = life("full", price_usd_per_hour=Decimal("1.290"), **dates)
    bare = life("bare")
    store.saw((full, bare), {}, NOW)
    found = {x.instance: x for x in store.memory(NOW, MONTH).lives}
    assert found == {"full": full, "bare": bare}
    assert str(found["full"].price_usd_per_hour) == "1.290"


def test_a_life_seen_again_is_brought_up_to_date(store: SqlStore) -> None:
    store.saw((life(idle_since=NOW),), {}, NOW)
    changed = life(usable_at=after(minutes=4), price_usd_per_hour=Decimal(2))
    store.saw((changed,), {}, after(minutes=4))
    assert store.memory(NOW, MONTH).lives == (changed,)


def test_lives_that_ended_before_the_month_are_left_out(store: SqlStore) -> None:
    early = life("early", created_at=MONTH - timedelta(days=3), gone_at=MONTH)
    late = replace(early, instance="late", gone_at=MONTH + timedelta(microseconds=1))
    old_and_living = replace(early, instance="living", gone_at=None)
    store.saw((early, late, old_and_living), {}, NOW)
    assert {x.instance for x in store.memory(NOW, MONTH).lives} == {"late", "living"}


def test_more_lives_than_one_statement_takes_are_kept(store: SqlStore) -> None:
    many = tuple(life(f"i-{n:04}") for n in range(1_100))
    store.saw(many, {}, NOW)
    store.saw(many, {}, NOW)
    assert store.memory(NOW, MONTH).lives == many


def test_the_last_required_counts_are_remembered(store: SqlStore) -> None:
    store.saw((), {POOL: 2, "other": 1}, NOW)
    store.saw((), {POOL: 0}, after(seconds=10))
    store.saw((), {POOL: 0, "other": 1}, after(seconds=20))
    assert store.memory(NOW, MONTH).pools == {
        POOL: PoolMemory(required=0, required_since=after(seconds=10)),
        "other": PoolMemory(required=1, required_since=NOW),
    }


def test_a_pool_known_by_its_open_action_alone_is_remembered(store: SqlStore) -> None:
    action = grow(from_count=1)
    store.opened(action)
    assert store.memory(NOW, MONTH).pools == {POOL: PoolMemory(required=1, open_action=action)}


def test_what_was_written_since_memory_was_read_is_compared_with(store: SqlStore) -> None:
    store.saw((life(),), {POOL: 1}, NOW)
    before = store.memory(NOW, MONTH)
    store.saw((life(idle_since=NOW),), {POOL: 2}, after(seconds=10))
    store.saw(before.lives, {POOL: 1}, after(seconds=20))
    found = store.memory(NOW, MONTH)
    assert (found.lives, found.pools[POOL].required) == (before.lives, 1)


def test_a_count_that_an_action_changed_since_memory_was_read_is_compared_with(store: SqlStore) -> None:
    store.saw((), {POOL: 1}, NOW)
    store.memory(NOW, MONTH)
    store.opened(grow(from_count=1, to_count=3))
    store.closed(grow(from_count=1, to_count=3), outcome(), None)
    store.saw((), {POOL: 1}, after(seconds=10))
    assert store.memory(NOW, MONTH).pools[POOL].required == 1


def test_a_step_that_saw_nothing_new_does_not_ask_for_a_write(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db", lock_wait=0.05)
    store.saw((life(),), {POOL: 1}, NOW)
    store.memory(NOW, MONTH)
    number = store.decided(decision())
    other = create_engine(f"sqlite:///{tmp_path}/store.db", isolation_level="AUTOCOMMIT")
    with other.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        store.saw((life(),), {POOL: 1}, after(seconds=10))
        assert store.decided(decision()) == number
        with pytest.raises(TryLater):
            store.saw((life(idle_since=NOW),), {POOL: 1}, after(seconds=10))
        connection.exec_driver_sql("ROLLBACK")
    other.dispose()
    store.close()


@pytest.mark.database("another reader has a fence of its own")
def test_the_picture_is_replaced(store: SqlStore) -> None:
    store.keep_snapshot({"pools": []}, NOW)
    picture = {"pools": [{"name": "l40s", "ratio": 0.5, "because": None}], "budget": {"usd": "1.10"}}
    store.keep_snapshot(picture, after(seconds=10))
    assert store.snapshot() == (picture, after(seconds=10))
    assert store.fenced(lambda _: None).snapshot() == (picture, after(seconds=10))  # as another reader finds it


@pytest.mark.database("fences are of transactions")
def test_a_picture_that_could_not_be_written_is_not_shown(store: SqlStore) -> None:
    def fence(_: Connection) -> None:
        raise WriterLostError("another replica leads")

    store.keep_snapshot({"n": 1}, NOW)
    follower = store.fenced(fence)
    with pytest.raises(WriterLostError):
        follower.keep_snapshot({"n": 2}, NOW)
    assert follower.snapshot() == ({"n": 1}, NOW)


def test_a_picture_kept_again_at_the_same_time_is_the_last_one(store: SqlStore) -> None:
    store.keep_snapshot({"n": 1}, NOW)
    assert store.snapshot() == store.snapshot() == ({"n": 1}, NOW)
    store.keep_snapshot({"n": 2}, NOW)
    assert store.snapshot() == ({"n": 2}, NOW)


def test_a_picture_that_another_process_replaced_is_read_anew(store: SqlStore, url: str) -> None:
    store.keep_snapshot({"n": 1}, NOW)
    store.snapshot()
    other = open_store(url)
    other.keep_snapshot({"n": 2}, after(seconds=10))
    other.close()
    assert store.snapshot() == ({"n": 2}, after(seconds=10))


def test_a_store_that_works_passes_its_check(store: SqlStore) -> None:
    store.check()
    store.check()


@pytest.mark.parametrize("price", [1.5, Decimal("NaN")])
def test_money_that_is_no_exact_number_is_refused(store: SqlStore, price: Decimal) -> None:
    with pytest.raises(ValueError, match="finite Decimal"):
        store.saw((life(price_usd_per_hour=price),), {}, NOW)


OFFER = Offer(node="n1", at=NOW, configured="c", allocatable={"nvidia.com/gpu": 1}, labels={"a": "b"})


def test_an_offer_comes_back_with_the_template_before_it(store: SqlStore) -> None:
    before = replace(OFFER, node="n0", since=NOW, taints=(Taint(key="t", value="v"),))
    offer = replace(OFFER, since=after(minutes=1), others=(before,))
    store.saw((), {POOL: 1}, NOW, offers={POOL: offer})
    assert store.memory(NOW, MONTH).pools[POOL].offer == offer


def test_an_offer_that_an_older_version_stored_refuses_nothing(own_store: SqlStore, url: str) -> None:
    own_store.saw((), {POOL: 1}, NOW)
    row = {"node": "n1", "at": NOW, "configured": "c", "allocatable": OFFER.allocatable, "labels": OFFER.labels}
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(update(pools).values(offer={**row, "taints": [["t", "v", "NoSchedule"]], "devices": ""}))
    engine.dispose()
    found = own_store.memory(NOW, MONTH).pools[POOL].offer
    assert found == replace(OFFER, taints=(Taint(key="t", value="v"),))
    assert not refuses(found)


def test_an_older_version_takes_a_stored_offer_for_that_of_another_configuration(own_store: SqlStore, url: str) -> None:
    own_store.saw((), {POOL: 1}, NOW, offers={POOL: OFFER})
    engine = create_engine(url)
    with engine.connect() as connection:
        [stored] = connection.execute(select(pools.c.offer)).scalars()
    engine.dispose()
    assert stored["configured"] != OFFER.configured
    assert stored.keys() <= {"node", "at", "configured", "allocatable", "labels", "taints", "devices"}
