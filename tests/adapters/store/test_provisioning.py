"""What the store remembers of provisioning: back-off, late counts, and what somebody else changed."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import type_coerce, update

from receiver.adapters.store import SqlStore
from receiver.adapters.store.columns import Json
from receiver.adapters.store.database import Database, parse
from receiver.adapters.store.schema import actions
from receiver.core.model.actions import ActionKind, Because, OutcomeKind, Victim
from receiver.core.model.flights import Flight
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import Backoff, Drift
from tests.adapters.store.builders import NOW, POOL, after, grow, outcome, retire

FAILING = Backoff(failures=2, until=after(minutes=2), reason="never became usable", instances=("i-1", "i-2"))
LATE = Flight(pool=POOL, kind=ActionKind.RETIRE, target=2, sent_at=NOW, shown=3)
DRIFT = Drift(at=after(seconds=10), from_count=2, to_count=5)


def remembered(store: SqlStore, now: datetime = NOW) -> PoolMemory:
    return store.memory(now, NOW).pools[POOL]


# --- provisioning back-off


def test_the_provisioning_backoff_is_kept_with_the_action_that_removes_the_nodes(store: SqlStore) -> None:
    assert store.opened(retire(), FAILING)
    assert remembered(store).provisioning == FAILING
    assert (remembered(store).backoff, remembered(store).removal_backoff) == (None, None)


def test_an_action_that_is_not_opened_keeps_no_provisioning_backoff(store: SqlStore) -> None:
    store.opened(grow(1))
    assert not store.opened(retire(2), FAILING)
    assert store.memory(NOW, NOW).pools[POOL].provisioning is None


def test_an_action_opened_without_one_leaves_the_provisioning_backoff(store: SqlStore) -> None:
    store.opened(retire(1), FAILING)
    store.closed(retire(1), outcome(), None)
    store.opened(retire(2))
    assert remembered(store).provisioning == FAILING


def test_opening_keeps_the_pools_required_count(store: SqlStore) -> None:
    store.saw((), {POOL: 5}, NOW)
    store.opened(retire(from_count=3), FAILING)
    assert remembered(store).required == 5


@pytest.mark.parametrize("kind", list(ActionKind))
@pytest.mark.parametrize("end", list(OutcomeKind))
def test_no_end_of_an_action_ends_the_provisioning_backoff(store: SqlStore, kind: ActionKind, end: OutcomeKind) -> None:
    action = grow() if kind is ActionKind.GROW else retire()
    store.opened(action, FAILING)
    store.closed(action, outcome(end), None)
    assert remembered(store).provisioning == FAILING


@pytest.mark.parametrize("read_before", [True, False], ids=["after a look", "blindly"])
def test_a_pool_that_works_ends_its_provisioning_backoff(store: SqlStore, read_before: bool) -> None:
    store.saw((), {POOL: 3}, NOW)
    store.opened(retire(), FAILING)
    store.opened(retire(2, pool="other"), FAILING)
    if read_before:
        store.memory(NOW, NOW)
    store.saw((), {POOL: 3}, after(seconds=10), works=[POOL])
    assert remembered(store).provisioning is None
    assert store.memory(NOW, NOW).pools["other"].provisioning == FAILING


# --- late counts


def late_pool(store: SqlStore) -> None:
    """A pool whose removal of one of three nodes Civo's count does not show."""
    store.saw((), {POOL: 3}, NOW)
    store.opened(retire(from_count=3, to_count=2))
    store.closed(retire(from_count=3, to_count=2), outcome(), None, late=LATE)


def test_a_late_count_is_kept_with_the_end_of_its_removal(store: SqlStore) -> None:
    late_pool(store)
    assert remembered(store).late == LATE
    assert remembered(store).required == 3


def test_closing_twice_keeps_no_late_count(store: SqlStore) -> None:
    store.opened(retire())
    store.closed(retire(), outcome(), None)
    store.closed(retire(), outcome(), None, late=LATE)
    assert remembered(store).late is None


@pytest.mark.parametrize("read_before", [True, False], ids=["after a look", "blindly"])
@pytest.mark.parametrize(("shown", "late"), [(3, LATE), (2, None), (4, None)])
def test_a_late_count_ends_when_civo_shows_another_count(
    store: SqlStore, shown: int, late: Flight | None, read_before: bool
) -> None:
    late_pool(store)
    if read_before:
        store.memory(NOW, NOW)
    store.saw((), {POOL: shown}, after(seconds=10))
    assert remembered(store).late == late


def test_a_late_count_that_the_remembered_count_is_not_of_ends_too(store: SqlStore) -> None:
    store.saw((), {POOL: 5}, NOW)
    store.opened(retire())
    store.closed(retire(), outcome(), None, late=LATE)
    store.memory(NOW, NOW)
    store.saw((), {POOL: 5}, after(seconds=10))
    assert remembered(store).late is None


def test_a_look_at_another_pool_leaves_a_late_count(store: SqlStore) -> None:
    late_pool(store)
    store.saw((), {"other": 1}, after(seconds=10))
    assert remembered(store).late == LATE


@pytest.mark.parametrize(
    ("end", "late"),
    [(k, replace(LATE, target=3, shown=4) if k is OutcomeKind.CONFIRMED else LATE) for k in OutcomeKind],
)
def test_confirmed_growth_alone_moves_a_late_count(store: SqlStore, end: OutcomeKind, late: Flight | None) -> None:
    """The removed node is still counted beside the new one."""
    late_pool(store)
    store.opened(grow(2, from_count=2, to_count=3))
    store.closed(grow(2, from_count=2, to_count=3), outcome(end), None)
    assert remembered(store).late == late


def test_a_second_removal_replaces_the_late_count(store: SqlStore) -> None:
    late_pool(store)
    store.opened(retire(2))
    again = replace(LATE, target=1, sent_at=after(minutes=1))
    store.closed(retire(2), outcome(), None, late=again)
    assert remembered(store).late == again


# --- the count that confirmed growth leaves


def confirmed(store: SqlStore, target: int, end: OutcomeKind = OutcomeKind.CONFIRMED) -> PoolMemory:
    action = grow(7, from_count=2, to_count=target)
    store.opened(action)
    store.closed(action, outcome(end, after(minutes=1)), None)
    return remembered(store)


def test_confirmed_growth_is_the_count_that_the_next_look_expects(store: SqlStore) -> None:
    store.saw((), {POOL: 2}, NOW)
    pool = confirmed(store, 4)
    assert (pool.required, pool.required_since) == (4, after(minutes=1))


def test_confirmed_growth_below_the_shown_count_leaves_it(store: SqlStore) -> None:
    store.saw((), {POOL: 5}, NOW)
    pool = confirmed(store, 4)
    assert (pool.required, pool.required_since) == (5, NOW)


def test_growth_that_fills_a_late_count_is_asked_for_since_then(store: SqlStore) -> None:
    late_pool(store)
    pool = confirmed(store, 3)
    assert (pool.required, pool.required_since) == (3, after(minutes=1))


@pytest.mark.parametrize("end", [k for k in OutcomeKind if k is not OutcomeKind.CONFIRMED])
def test_growth_that_was_not_confirmed_leaves_the_count(store: SqlStore, end: OutcomeKind) -> None:
    store.saw((), {POOL: 2}, NOW)
    assert confirmed(store, 4, end).required == 2


def test_a_confirmed_removal_leaves_the_count_to_the_look(store: SqlStore) -> None:
    store.saw((), {POOL: 3}, NOW)
    store.opened(retire())
    store.closed(retire(), outcome(), None)
    assert (remembered(store).required, remembered(store).required_since) == (3, NOW)


def test_confirmed_growth_of_a_pool_never_seen_is_remembered(store: SqlStore) -> None:
    pool = confirmed(store, 4)
    assert (pool.required, pool.required_since) == (4, after(minutes=1))


def test_a_count_that_stood_for_an_action_is_dated_by_the_first_look(store: SqlStore) -> None:
    store.opened(retire(from_count=3), FAILING)
    store.memory(NOW, NOW)
    store.saw((), {POOL: 3}, after(seconds=10))
    assert remembered(store).required_since == after(seconds=10)


# --- drifts


def test_drifts_of_the_last_two_days_are_remembered_oldest_first(store: SqlStore) -> None:
    later = Drift(at=after(hours=1), from_count=5, to_count=4)
    store.saw((), {POOL: 5, "other": 0}, DRIFT.at, drifts={POOL: DRIFT})
    store.saw((), {POOL: 4}, later.at, drifts={POOL: later})
    assert remembered(store, after(hours=24)).drifts == (DRIFT, later)
    assert store.memory(after(hours=24), NOW).pools["other"].drifts == ()
    assert remembered(store, DRIFT.at + timedelta(hours=48)).drifts == (later,)


def test_a_drift_from_a_clock_that_went_ahead_is_not_remembered(store: SqlStore) -> None:
    store.saw((), {POOL: 5}, DRIFT.at, drifts={POOL: DRIFT})
    assert remembered(store, NOW).drifts == ()


def test_a_drift_is_kept_even_when_nothing_else_is_new(store: SqlStore) -> None:
    store.saw((), {POOL: 5}, NOW)
    store.memory(NOW, NOW)
    store.saw((), {POOL: 5}, DRIFT.at, drifts={POOL: DRIFT})
    assert remembered(store, DRIFT.at).drifts == (DRIFT,)


def test_a_drift_told_twice_in_one_step_is_one(store: SqlStore) -> None:
    store.saw((), {POOL: 5}, DRIFT.at, drifts={POOL: DRIFT})
    store.saw((), {POOL: 5}, DRIFT.at, drifts={POOL: DRIFT})
    assert remembered(store, DRIFT.at).drifts == (DRIFT,)
    assert store.counts()["drifts"] == {POOL: 1}


@pytest.mark.database("the store in memory prunes nothing")
def test_drifts_are_pruned_after_a_week(store: SqlStore) -> None:
    store.saw((), {POOL: 5}, DRIFT.at, drifts={POOL: DRIFT})
    assert store.prune(DRIFT.at + timedelta(days=7)) == 0
    assert store.prune(DRIFT.at + timedelta(days=7, seconds=1)) == 1


# --- victims


@pytest.mark.parametrize("because", list(Because))
def test_a_victim_keeps_why_it_goes(store: SqlStore, because: Because) -> None:
    action = retire(1, Victim(instance="i", node="n", because=because))
    store.opened(action)
    assert remembered(store).open_action == action


def test_a_victim_kept_without_a_reason_was_idle(store: SqlStore, url: str) -> None:
    store.opened(retire(1, Victim(instance="i", node="n", because=Because.STUCK)))
    database = Database(parse(url))
    with database.write() as connection:
        old = [{"instance": "i", "node": "n", "stage": "chosen", "since": None}]
        connection.execute(update(actions).values(victims=type_coerce(old, Json)))
    database.close()
    assert remembered(store).open_action == retire(1, Victim(instance="i", node="n"))
