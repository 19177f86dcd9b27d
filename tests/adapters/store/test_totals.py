"""Totals never fall, and what is old goes."""

from datetime import timedelta

import pytest

from receiver.adapters.store import SqlStore
from receiver.core.model.actions import OutcomeKind
from receiver.core.model.memory import Control
from receiver.core.model.model import Drift
from receiver.ports import Telling
from tests.adapters.store.builders import (
    NOW,
    POOL,
    after,
    alert,
    decision,
    delivery,
    grow,
    heartbeat,
    life,
    notice,
    outcome,
)

MONTH = NOW - timedelta(days=20)


def test_a_new_store_counts_nothing(store: SqlStore) -> None:
    assert store.counts() == {
        "deliveries": 0,
        "alerts_by_action": {},
        "decisions": {},
        "actions": {},
        "notices": {"pending": 0, "sent": 0, "failed": 0},
        "messages": {},
        "oldest_notice_at": None,
        "drifts": {},
        "promises": {},
        "provision_buckets": {},
        "provision_milliseconds": {},
        "open_actions": {},
        "last_delivery_at": None,
        "heartbeat_at": None,
        "last_step_at": None,
    }


def _everything(store: SqlStore) -> None:
    """One of each that is finished, and one of each that is not."""
    invented = alert("x", labels={"action": "made-up"})
    done = store.remember(delivery(alert("a"), alert("b"), invented, heartbeat()), NOW)
    store.keep_control(Control(at=NOW), [done])
    store.remember(delivery(alert("a")), after(minutes=1))
    for target in (3, 1, 4):
        store.decided(decision(target=target))
    store.opened(grow(1))
    store.closed(grow(1), outcome(OutcomeKind.FAILED), None)
    store.opened(grow(2, opened_at=after(minutes=2)))
    for key in "abc":
        store.say(notice(key=key), NOW)
    sent, given_up, _ = store.notices_due(NOW)
    store.tell({sent.id: Telling(reached_at=NOW)}, "d1", ("destination 1", "delivered"))
    store.notice_sent(sent.id, NOW)
    store.notice_failed(given_up.id, NOW, None, "gone")
    store.saw((life("living", active_at=after(seconds=90)), life("gone", gone_at=NOW)), {POOL: 1}, NOW)
    store.count_promises({(POOL, "late"): 1})
    store.saw((), {POOL: 2}, after(seconds=10), drifts={POOL: Drift(at=after(seconds=10), from_count=1, to_count=2)})


TOTALS = {
    "deliveries": 2,
    "alerts_by_action": {"scale_up": 3, "heartbeat": 1, "other": 1},
    "decisions": {(POOL, "grow"): 2, (POOL, "hold"): 1},
    "actions": {(POOL, "grow", "failed"): 1},
    "notices": {"pending": 1, "sent": 1, "failed": 1},
    "messages": {("destination 1", "delivered"): 1},
    "oldest_notice_at": NOW,
    "drifts": {POOL: 1},
    "promises": {(POOL, "late"): 1},
    "provision_buckets": {(POOL, "build", "120.0"): 1},
    "provision_milliseconds": {(POOL, "build"): 90_000},
    "open_actions": {POOL: after(minutes=2)},
    "last_delivery_at": after(minutes=1),
    "heartbeat_at": NOW,
    "last_step_at": NOW,
}


def test_totals_count_by_label(store: SqlStore) -> None:
    _everything(store)
    assert store.counts() == TOTALS


@pytest.mark.database("the store in memory prunes nothing")
def test_totals_do_not_fall_when_rows_are_pruned(store: SqlStore) -> None:
    _everything(store)
    assert store.prune(after(days=500)) > 0
    assert store.counts() == TOTALS


@pytest.mark.database("the store in memory prunes nothing")
def test_what_is_unfinished_is_never_pruned(store: SqlStore) -> None:
    _everything(store)
    before = store.memory(NOW, after(days=1))
    store.prune(after(days=500))
    assert store.memory(NOW, after(days=1)) == before
    assert len(before.deliveries) == 1
    assert [x.instance for x in before.lives] == ["living"]
    assert len(store.notices_due(after(days=500))) == 1


@pytest.mark.database("the store in memory prunes nothing")
def test_the_last_decision_of_a_pool_is_never_pruned(store: SqlStore) -> None:
    _everything(store)
    store.prune(after(days=500))
    assert [d.decision.target for d in store.decisions()] == [4]
    assert store.decided(decision(target=4)) == store.decisions()[0].id


@pytest.mark.database("the store in memory prunes nothing")
def test_nothing_young_is_pruned(store: SqlStore) -> None:
    _everything(store)
    assert store.prune(after(days=6)) == 0


@pytest.mark.database("the store in memory prunes nothing")
def test_pruning_takes_a_deliverys_alerts_with_it(store: SqlStore) -> None:
    _everything(store)
    store.prune(after(days=8))
    assert [a.fingerprint for a in store.remembered_alerts(MONTH)] == ["a"]


@pytest.mark.database("the store in memory prunes nothing")
def test_what_was_told_stays_told_after_its_notice_was_pruned(store: SqlStore) -> None:
    store.say(notice("budget", "2026-11:warn"), NOW)
    store.notice_sent(store.notices_due(NOW)[0].id, NOW)
    assert store.prune(after(days=30)) == 1
    assert not store.say(notice("budget", "2026-11:warn"), after(days=30))


@pytest.mark.database("the store in memory prunes nothing")
def test_lives_and_actions_are_kept_for_a_year(store: SqlStore) -> None:
    _everything(store)
    store.prune(after(days=399))
    assert {x.instance for x in store.memory(NOW, MONTH).lives} == {"living", "gone"}
    assert len(store.actions()) == 2


@pytest.mark.database("the store in memory prunes nothing")
def test_a_pruned_delivery_number_is_not_given_again(store: SqlStore) -> None:
    first = store.remember(delivery(), NOW)
    store.keep_control(Control(at=NOW), [first])
    store.prune(after(days=30))
    assert store.remember(delivery(), after(days=30)) > first


def test_promises_are_counted_by_pool_and_how_they_ended(store: SqlStore) -> None:
    store.count_promises({(POOL, "by_p50"): 2, (POOL, "late"): 1})
    store.count_promises({(POOL, "by_p50"): 1})
    assert store.counts()["promises"] == {(POOL, "by_p50"): 3, (POOL, "late"): 1}
