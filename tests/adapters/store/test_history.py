"""What the pages draw over time: samples by the minute, the turns of nodes, alerts that came, messages told."""

from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.core.explain.samples import Doing, NodeTurn, PoolMinutes, PoolSample
from tests.adapters.store.builders import NOW, POOL, after, alert, delivery, migrated, notice
from tests.stores import ill

MINUTE = NOW.replace(second=0, microsecond=0)


def at(minutes: float) -> datetime:
    return MINUTE + timedelta(minutes=minutes)


def a_sample(minutes: float = 0, **changes: Any) -> PoolSample:
    counts: dict[str, Any] = {"required": 3, "ready": 2, "building": 1, "busy": 1, "idle": 1, "unknown": 0}
    return PoolSample(**{"pool": POOL, "at": at(minutes), **counts, "pending_gpus": 4, "utilization": 0.5, **changes})


def a_turn(minutes: float = 0, doing: Doing = Doing.BUSY, instance: str = "i-1", pool: str = POOL) -> NodeTurn:
    return NodeTurn(instance=instance, pool=pool, at=at(minutes), doing=doing)


def kept(store: SqlStore) -> list[tuple[str, datetime, Doing]]:
    return [(t.instance, t.at, t.doing) for t in store.turns(POOL, at(-60), at(600))]


def test_samples_come_back_oldest_first_and_what_nobody_could_tell_stays_unknown(store: SqlStore) -> None:
    blind = a_sample(1, required=None, ready=None, building=None, busy=None, idle=None, unknown=None, utilization=None)
    store.keep_samples([a_sample(0)], (), at(0))
    store.keep_samples([blind], (), at(1))
    assert store.samples(at(0), at(5), pool=POOL) == (a_sample(0), blind)


def test_samples_are_read_by_time_and_by_pool(store: SqlStore) -> None:
    for minute in range(4):
        store.keep_samples([a_sample(minute), a_sample(minute, pool="other")], (), at(minute))
    assert store.samples(at(1), at(2), pool=POOL) == (a_sample(1), a_sample(2))


def test_minutes_are_summed_by_pool_and_those_that_nobody_could_tell_are_not_known(store: SqlStore) -> None:
    for minute, busy in enumerate((1, 2, None, 4, 8)):
        store.keep_samples([a_sample(minute, busy=busy, idle=1), a_sample(minute, pool="b", busy=0)], (), at(minute))
    found = store.pool_minutes(at(1), at(4))
    assert found[POOL] == PoolMinutes(known=2, busy=6, idle=3)
    assert (found["b"].known, found["b"].busy) == (3, 0)
    assert store.pool_minutes(at(60), at(90)) == {}


def test_a_minute_is_sampled_once(store: SqlStore) -> None:
    store.keep_samples([a_sample()], (), at(0.1))
    store.keep_samples([a_sample(busy=2)], (), at(0.9))
    assert store.samples(at(0), at(5), pool=POOL) == (a_sample(),)


def test_a_minute_that_was_sampled_needs_no_write(tmp_path: Path) -> None:
    with closing(open_store(migrated(tmp_path / "ledger.db"))) as store:
        store.keep_samples([a_sample()], [a_turn()], at(0))
        with ill(store, "read_only"):
            store.keep_samples([a_sample()], [a_turn()], at(0.9))


def test_a_minute_that_another_process_sampled_is_left_as_it_is(store: SqlStore, url: str) -> None:
    store.keep_samples([a_sample()], [a_turn()], at(0.1))
    other = open_store(url)
    other.keep_samples([a_sample(busy=2)], [a_turn(doing=Doing.IDLE)], at(0.5))
    other.close()
    assert store.samples(at(0), at(5), pool=POOL) == (a_sample(),)
    assert kept(store) == [("i-1", at(0), Doing.BUSY)]


def test_only_what_a_node_newly_does_is_kept(store: SqlStore) -> None:
    for minute, doing in enumerate([Doing.BUILDING, Doing.BUSY, Doing.BUSY, Doing.IDLE]):
        store.keep_samples([], [a_turn(minute, doing)], at(minute))
    assert kept(store) == [("i-1", at(0), Doing.BUILDING), ("i-1", at(1), Doing.BUSY), ("i-1", at(3), Doing.IDLE)]


def test_a_node_that_is_no_longer_there_is_gone(store: SqlStore) -> None:
    store.keep_samples([], [a_turn(0)], at(0))
    store.keep_samples([], [], at(1))
    store.keep_samples([], [], at(2))
    assert kept(store) == [("i-1", at(0), Doing.BUSY), ("i-1", at(1), Doing.GONE)]


def test_while_nobody_knows_what_nodes_do_they_are_unknown_and_not_gone(store: SqlStore) -> None:
    store.keep_samples([], [a_turn(0)], at(0))
    store.keep_samples([], None, at(1))
    store.keep_samples([], [a_turn(2)], at(2))
    assert [doing for _, _, doing in kept(store)] == [Doing.BUSY, Doing.UNKNOWN, Doing.BUSY]


def test_after_a_restart_what_a_node_did_before_is_still_known(store: SqlStore, url: str) -> None:
    store.keep_samples([], [a_turn(0), a_turn(0, instance="i-2")], at(0))
    again = open_store(url)
    again.keep_samples([], [a_turn(30)], at(30))
    again.close()
    assert kept(store) == [("i-1", at(0), Doing.BUSY), ("i-2", at(0), Doing.BUSY), ("i-2", at(30), Doing.GONE)]


def test_what_another_process_wrote_during_a_pause_is_looked_up(store: SqlStore, url: str) -> None:
    store.keep_samples([], [a_turn(0)], at(0))
    other = open_store(url)
    other.keep_samples([], [a_turn(5, Doing.IDLE)], at(5))
    other.close()
    store.keep_samples([], [a_turn(9)], at(9))
    assert [doing for _, _, doing in kept(store)] == [Doing.BUSY, Doing.IDLE, Doing.BUSY]


def test_turns_begin_with_what_each_node_did_before(store: SqlStore) -> None:
    for minute, doing in [(0, Doing.BUILDING), (1, Doing.BUSY), (5, Doing.IDLE)]:
        store.keep_samples([], [a_turn(minute, doing), a_turn(minute, instance="i-9", pool="other")], at(minute))
    found = store.turns(POOL, at(3), at(9))
    assert [(t.at, t.doing) for t in found] == [(at(1), Doing.BUSY), (at(5), Doing.IDLE)]
    assert [(t.at, t.doing) for t in store.turns(POOL, at(5), at(9))] == [(at(1), Doing.BUSY), (at(5), Doing.IDLE)]


@pytest.mark.database("the store in memory prunes nothing")
def test_samples_and_turns_are_forgotten_after_eight_days_but_not_what_a_living_node_does(store: SqlStore) -> None:
    store.keep_samples([a_sample(0)], [a_turn(0, Doing.BUILDING), a_turn(0, instance="i-2")], at(0))
    store.keep_samples([a_sample(1)], [a_turn(1, Doing.BUSY)], at(1))
    store.prune(at(0) + timedelta(days=8, minutes=3))
    assert store.samples(at(0), at(5), pool=POOL) == ()
    assert kept(store) == [("i-1", at(1), Doing.BUSY)]


@pytest.mark.database("the store in memory prunes nothing")
def test_samples_of_seven_days_are_kept(store: SqlStore) -> None:
    store.keep_samples([a_sample(0)], [a_turn(0, Doing.BUILDING)], at(0))
    store.prune(at(0) + timedelta(days=7))
    assert store.samples(at(0), at(5), pool=POOL) == (a_sample(),)


def test_an_alert_that_is_repeated_came_once_and_its_end_is_news(store: SqlStore) -> None:
    store.remember(delivery(alert("f1")), NOW)
    store.remember(delivery(alert("f1"), alert("f2")), after(minutes=1))
    store.remember(delivery(alert("f1", firing=False)), after(minutes=2))
    found = store.arrivals(NOW, after(minutes=5))
    assert [(a.alert.fingerprint, a.alert.firing, a.at) for a in found] == [
        ("f1", False, after(minutes=2)),
        ("f2", True, after(minutes=1)),
        ("f1", True, NOW),
    ]
    assert store.arrivals(after(minutes=3), after(minutes=5)) == ()


def test_messages_are_listed_with_what_became_of_them(store: SqlStore) -> None:
    store.say(notice("a", pool=POOL), NOW)
    store.say(notice("b", pool="other"), after(minutes=1))
    first, second = store.notices_due(after(minutes=2))
    store.notice_sent(first.id, after(minutes=2))
    store.notice_failed(second.id, after(minutes=2), after(minutes=3), "refused")
    found = store.messages(NOW, after(minutes=9))
    assert [(m.notice.topic, m.sent_at, m.attempts, m.last_error) for m in found] == [
        ("b", None, 1, "refused"),
        ("a", after(minutes=2), 0, ""),
    ]
    assert [m.notice.topic for m in store.messages(NOW, after(minutes=9), pool=POOL)] == ["a"]
    assert store.messages(after(minutes=5), after(minutes=9)) == ()


def test_what_waits_in_the_outbox_is_listed_oldest_first(store: SqlStore) -> None:
    for number, topic in enumerate("abc"):
        store.say(notice(topic), after(minutes=number))
    store.notice_sent(store.notices_due(after(minutes=9))[1].id, after(minutes=9))
    assert [m.notice.topic for m in store.undelivered()] == ["a", "c"]
