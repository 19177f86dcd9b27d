"""Deliveries: kept, considered, and the alerts they leave behind."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from receiver.adapters.store import SqlStore, inbox, open_store
from receiver.core.model.memory import Control
from receiver.core.model.policy import BudgetChange, Scope
from receiver.ports import Delivery, TryLater
from tests.adapters.store.builders import NOW, after, alert, delivery, heartbeat, migrated, notice
from tests.e2e.waiting import until


def test_a_remembered_delivery_waits_to_be_considered(store: SqlStore) -> None:
    number = store.remember(delivery(alert()), NOW)
    assert store.memory(NOW, NOW).deliveries == (number,)


def test_a_considered_delivery_no_longer_waits(store: SqlStore) -> None:
    first, second = store.remember(delivery(alert()), NOW), store.remember(delivery(alert()), NOW)
    store.keep_control(Control(at=after(seconds=1)), [first])
    assert store.memory(NOW, NOW).deliveries == (second,)


def test_a_thousand_deliveries_are_considered_at_once_with_some_that_are_not_there(store: SqlStore) -> None:
    numbers = [store.remember(delivery(), NOW) for _ in range(3)]
    store.keep_control(Control(at=NOW), [*range(10_000, 11_200), *numbers])
    assert store.memory(NOW, NOW).deliveries == ()


def test_storms_of_any_size_are_served_by_the_same_few_statements(tmp_path: Path) -> None:
    # each connection keeps the last 128 texts compiled: one for each number of alerts was 7 MB that never came back
    texts: set[str] = set()
    store = open_store(migrated(tmp_path / "store.db"))
    event.listen(store._database.engine, "connect", lambda one, _: one.set_trace_callback(texts.add))

    def storm(alerts: int) -> set[str]:
        texts.clear()
        numbers = [store.remember(delivery(*(alert(str(n)) for n in range(alerts))), NOW) for _ in range(alerts)]
        assert len(store.remembered_alerts(NOW - timedelta(hours=1))) >= alerts
        store.memory(NOW, NOW)
        store.keep_control(Control(at=NOW), numbers)
        return {re.sub(r"'(?:[^']|'')*'|\d+", "?", text) for text in texts}

    store._database.engine.dispose()
    assert storm(2) == storm(9) != set()
    store.close()


@pytest.mark.database("it hangs")
def test_while_the_database_hangs_a_few_deliveries_wait_and_the_others_are_refused(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, write = threading.Event(), inbox._remember

    def slowly(connection: Connection, one: Delivery, at: datetime) -> int:
        assert hangs.wait(60)
        return write(connection, one, at)

    monkeypatch.setattr(inbox, "ENTRY_SECONDS", 0.05)
    monkeypatch.setattr(inbox, "_remember", slowly)
    with ThreadPoolExecutor(inbox.DELIVERIES_AT_ONCE) as threads:
        waiting = [threads.submit(store.remember, delivery(), NOW) for _ in range(inbox.DELIVERIES_AT_ONCE)]
        until(lambda: store._entry._value == 0, "as many wait as may")
        with pytest.raises(TryLater, match="too many deliveries are waiting"):
            store.remember(delivery(), NOW)
        hangs.set()
        assert len({answer.result(60) for answer in waiting}) == inbox.DELIVERIES_AT_ONCE
    assert store.remember(delivery(), NOW) > 0


@pytest.mark.database("integers in memory have no limit")
@pytest.mark.parametrize("truncated", [10**30])  # no engine's integer holds it
def test_a_delivery_that_the_database_refuses_leaves_nothing_behind(store: SqlStore, truncated: int) -> None:
    with pytest.raises((TryLater, OverflowError)):
        store.remember(delivery(alert(), truncated=truncated), NOW)
    assert (store.memory(NOW, NOW).deliveries, store.counts()["deliveries"]) == ((), 0)
    assert store.remember(delivery(), NOW) > 0


def test_the_same_delivery_twice_is_remembered_twice(store: SqlStore) -> None:
    same = delivery(alert())
    assert store.remember(same, NOW) != store.remember(same, NOW)
    assert len(store.memory(NOW, NOW).deliveries) == 2


def test_each_delivery_and_each_notice_is_the_newest_until_the_next(store: SqlStore) -> None:
    """By that the leader learns that another replica has stored something."""
    seen = [store.newest()]
    store.remember(delivery(), NOW)
    seen.append(store.newest())
    change = BudgetChange(
        scope=Scope.CLUSTER, name="", month="2026-11", monthly_usd=Decimal(9), who="ada", why="", at=NOW
    )
    store.change_budget(change, notice())
    seen.append(store.newest())
    assert seen[2] == store.newest()
    assert all(one != other for one, other in pairwise(seen))


def test_an_alert_comes_back_as_it_was_delivered_with_the_number_of_its_delivery(store: SqlStore) -> None:
    told = alert(labels={"alertname": "x", "pool": "ü"}, annotations={"summary": "a\nb"}, firing=False)
    number = store.remember(delivery(told), NOW)
    assert store.remembered_alerts(NOW - timedelta(seconds=1)) == (replace(told, delivery=number),)


def test_the_newest_alert_per_fingerprint_is_remembered(store: SqlStore) -> None:
    store.remember(delivery(alert("a"), alert("b")), NOW)
    store.remember(delivery(alert("a", firing=False)), after(minutes=1))
    found = {a.fingerprint: a.firing for a in store.remembered_alerts(NOW - timedelta(hours=1))}
    assert found == {"a": False, "b": True}


def test_of_two_deliveries_in_the_same_instant_the_later_number_wins(store: SqlStore) -> None:
    store.remember(delivery(alert("a")), NOW)
    store.remember(delivery(alert("a", firing=False)), NOW)
    assert [a.firing for a in store.remembered_alerts(NOW - timedelta(hours=1))] == [False]


def test_alerts_received_at_or_before_since_are_not_remembered(store: SqlStore) -> None:
    store.remember(delivery(alert("old")), NOW)
    store.remember(delivery(alert("new")), after(microseconds=1))
    assert [a.fingerprint for a in store.remembered_alerts(NOW)] == ["new"]


def test_no_heartbeat_was_heard_before_the_first(store: SqlStore) -> None:
    store.remember(delivery(alert()), NOW)
    assert store.memory(NOW, NOW).heartbeat_at is None


def test_a_firing_heartbeat_alert_is_heard(store: SqlStore) -> None:
    store.remember(delivery(heartbeat()), NOW)
    assert store.memory(NOW, NOW).heartbeat_at == NOW


def test_a_resolved_heartbeat_is_not_heard(store: SqlStore) -> None:
    store.remember(delivery(heartbeat(firing=False)), NOW)
    assert store.memory(NOW, NOW).heartbeat_at is None


def test_a_heartbeat_under_a_clock_that_was_ahead_is_replaced_by_the_next_one(store: SqlStore) -> None:
    store.remember(delivery(heartbeat()), after(minutes=1))
    store.remember(delivery(heartbeat()), NOW)
    assert store.memory(NOW, NOW).heartbeat_at == NOW


def test_a_delivery_with_what_no_database_can_hold_is_kept_all_the_same(store: SqlStore) -> None:
    odd = alert("f\x00\ud800", labels={"alertname": "a\x00b", "note": "\ud83d"})
    store.remember(delivery(odd, body="\ud800", group_key="\x00"), NOW)
    (kept,) = store.remembered_alerts(NOW - timedelta(hours=1))
    assert kept.labels == {"alertname": "a\x00b", "note": "\ud83d"}
    assert kept.fingerprint == "f��"


def test_a_naive_time_is_refused(store: SqlStore) -> None:
    with pytest.raises(ValueError, match="naive datetime"):
        store.remember(delivery(alert()), NOW.replace(tzinfo=None))
    assert store.memory(NOW, NOW).deliveries == ()
