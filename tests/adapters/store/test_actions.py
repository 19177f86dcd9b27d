"""Actions: one open per pool, and what their end means for the pool."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from receiver.adapters.store import SqlStore
from receiver.core.model.actions import Action, OutcomeKind, Victim, VictimStage
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import Backoff
from receiver.ports import StoredAction
from tests.adapters.store.builders import NOW, POOL, after, grow, life, outcome, retire

BACKOFF = Backoff(failures=2, until=after(minutes=2), reason="quota_exceeded: no")
TOOK_NO_EFFECT = [OutcomeKind.FAILED, OutcomeKind.WITHDRAWN, OutcomeKind.SUPERSEDED]
TOOK_EFFECT = [OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED]
STAGES = tuple(Victim(instance=s.value, node=f"n-{s.value}", stage=s, since=NOW) for s in VictimStage)


def remembered(store: SqlStore, now: datetime = NOW) -> PoolMemory:
    return store.memory(now, NOW).pools[POOL]


def ended(store: SqlStore, action: Action, kind: OutcomeKind, at: datetime = NOW) -> None:
    assert store.opened(action)
    store.closed(action, outcome(kind, at), None)


def test_an_opened_action_is_the_pools_open_action(store: SqlStore) -> None:
    action = grow()
    assert store.opened(action)
    assert remembered(store).open_action == action


def test_a_second_open_action_of_a_pool_is_refused(store: SqlStore) -> None:
    assert store.opened(grow(1))
    assert not store.opened(retire(2))
    assert [a.action.id for a in store.actions()] == ["grow-1"]


def test_another_pool_may_open_one_at_the_same_time(store: SqlStore) -> None:
    assert store.opened(grow(1))
    assert store.opened(grow(2, pool="other"))


def test_an_id_is_used_once_even_after_it_closed(store: SqlStore) -> None:
    ended(store, grow(1), OutcomeKind.FAILED)
    assert not store.opened(grow(1))


def test_after_an_action_closed_the_next_may_open(store: SqlStore) -> None:
    ended(store, grow(1), OutcomeKind.CONFIRMED)
    assert store.opened(grow(2))


def test_an_action_comes_back_exactly(store: SqlStore) -> None:
    action = retire(
        1, *STAGES, decision=7, reserved_usd=Decimal("1.10"), attempts=3, retry_at=after(seconds=8), last_error="x: y"
    )
    assert store.opened(action)
    assert store.actions() == (StoredAction(action=action),)
    assert str(store.actions()[0].action.reserved_usd) == "1.10"


def test_progress_updates_an_open_action(store: SqlStore) -> None:
    chosen = Victim(instance="i", node="n")
    action = retire(1, chosen)
    store.opened(action)
    moved = replace(
        action,
        victims=(replace(chosen, stage=VictimStage.CORDONED, since=NOW),),
        attempts=1,
        retry_at=after(seconds=2),
        last_error="timeout: civo",
    )
    store.progressed(moved)
    assert remembered(store).open_action == moved


def test_progress_after_the_end_changes_nothing(store: SqlStore) -> None:
    ended(store, grow(), OutcomeKind.CONFIRMED)
    store.progressed(grow(attempts=9))
    assert store.actions()[0].action.attempts == 0


def test_a_closed_action_shows_its_outcome_and_its_last_state(store: SqlStore) -> None:
    store.opened(retire(1, Victim(instance="i", node="n")))
    gone = retire(1, Victim(instance="i", node="n", stage=VictimStage.GONE, since=NOW))
    store.closed(gone, outcome(detail="1 node removed"), None)
    assert store.actions() == (StoredAction(action=gone, outcome=outcome(detail="1 node removed")),)
    assert remembered(store).open_action is None


def test_actions_are_listed_newest_first_and_by_pool(store: SqlStore) -> None:
    ended(store, grow(1), OutcomeKind.CONFIRMED)
    ended(store, grow(2, opened_at=after(minutes=1)), OutcomeKind.CONFIRMED)
    ended(store, grow(3, pool="other", opened_at=after(minutes=2)), OutcomeKind.CONFIRMED)
    assert [a.action.id for a in store.actions()] == ["grow-3", "grow-2", "grow-1"]
    assert [a.action.id for a in store.actions(pool=POOL, limit=1)] == ["grow-2"]


@pytest.mark.parametrize("kind", TOOK_EFFECT)
def test_growth_that_took_effect_starts_the_growth_cooldown(store: SqlStore, kind: OutcomeKind) -> None:
    ended(store, grow(), kind, after(seconds=5))
    assert remembered(store).last_grow_at == after(seconds=5)
    assert remembered(store).last_shrink_at is None


@pytest.mark.parametrize("kind", TOOK_EFFECT)
def test_a_removal_that_took_effect_starts_the_shrink_cooldown(store: SqlStore, kind: OutcomeKind) -> None:
    ended(store, retire(), kind, after(seconds=5))
    assert remembered(store).last_shrink_at == after(seconds=5)
    assert remembered(store).last_grow_at is None


@pytest.mark.parametrize("kind", TOOK_NO_EFFECT)
def test_an_action_without_effect_does_not_consume_a_cooldown(store: SqlStore, kind: OutcomeKind) -> None:
    ended(store, grow(1), OutcomeKind.CONFIRMED, NOW)
    ended(store, grow(2), kind, after(minutes=1))
    ended(store, retire(3), kind, after(minutes=1))
    assert (remembered(store).last_grow_at, remembered(store).last_shrink_at) == (NOW, None)


def test_a_failed_action_sets_the_given_backoff(store: SqlStore) -> None:
    store.opened(grow())
    store.closed(grow(), outcome(OutcomeKind.FAILED), BACKOFF)
    assert remembered(store).backoff == BACKOFF


@pytest.mark.parametrize("kind", TOOK_EFFECT)
def test_an_action_that_took_effect_ends_the_backoff(store: SqlStore, kind: OutcomeKind) -> None:
    store.opened(grow(1))
    store.closed(grow(1), outcome(OutcomeKind.FAILED), BACKOFF)
    ended(store, grow(2), kind)
    assert remembered(store).backoff is None


@pytest.mark.parametrize("kind", [OutcomeKind.WITHDRAWN, OutcomeKind.SUPERSEDED])
def test_an_action_that_was_dropped_leaves_the_backoff(store: SqlStore, kind: OutcomeKind) -> None:
    store.opened(grow(1))
    store.closed(grow(1), outcome(OutcomeKind.FAILED), BACKOFF)
    ended(store, grow(2), kind)
    assert remembered(store).backoff == BACKOFF


def test_closing_twice_keeps_the_first_end(store: SqlStore) -> None:
    ended(store, grow(), OutcomeKind.CONFIRMED, NOW)
    store.closed(grow(), outcome(OutcomeKind.FAILED, after(minutes=1)), BACKOFF)
    assert store.actions()[0].outcome == outcome(OutcomeKind.CONFIRMED)
    assert remembered(store).backoff is None
    assert store.counts()["actions"] == {(POOL, "grow", "confirmed"): 1}


def test_closing_an_action_keeps_the_pools_required_count(store: SqlStore) -> None:
    store.saw((), {POOL: 5}, NOW)
    ended(store, grow(from_count=1), OutcomeKind.CONFIRMED)
    assert remembered(store).required == 5


def test_growth_of_the_last_hour_counts_nodes_that_were_asked_for(store: SqlStore) -> None:
    ended(store, grow(1, from_count=1, to_count=4), OutcomeKind.CONFIRMED, after(minutes=1))
    ended(store, grow(2, from_count=4, to_count=6), OutcomeKind.OBSERVED, after(minutes=2))
    ended(store, grow(3, from_count=4, to_count=9), OutcomeKind.FAILED, after(minutes=2))
    assert store.memory(after(minutes=60, seconds=59), NOW).grown_last_hour == 3
    assert store.memory(after(minutes=61), NOW).grown_last_hour == 0


def test_growth_without_an_answer_counts_as_far_as_its_nodes_showed(store: SqlStore) -> None:
    ended(store, grow(1, from_count=1, to_count=4, attempts=2), OutcomeKind.FAILED, after(minutes=2))
    assert store.memory(after(minutes=3), NOW).grown_last_hour == 0
    built = life("new", created_at=after(minutes=1), gone_at=after(minutes=3))
    store.saw((built, life("old", created_at=after(hours=-2)), life("other", pool="b")), {}, after(minutes=3))
    found = store.memory(after(minutes=4), after(days=-1))
    assert (found.grown_last_hour, found.first_changed_at) == (1, after(minutes=2))
    ended(store, grow(2, from_count=1, to_count=2), OutcomeKind.CONFIRMED, after(minutes=4))
    assert store.memory(after(minutes=5), after(days=-1)).grown_last_hour == 1


def test_the_first_change_of_the_last_hour_is_the_first_that_counts(store: SqlStore) -> None:
    ended(store, grow(1, from_count=1, to_count=4), OutcomeKind.FAILED, after(minutes=1))
    ended(store, grow(2, from_count=1, to_count=4), OutcomeKind.CONFIRMED, after(minutes=3))
    ended(store, retire(3, *STAGES), OutcomeKind.CONFIRMED, after(minutes=2))
    assert store.memory(after(minutes=60), NOW).first_changed_at == after(minutes=2)
    assert store.memory(after(minutes=62), NOW).first_changed_at == after(minutes=3)
    assert store.memory(after(minutes=63), NOW).first_changed_at is None


@pytest.mark.parametrize("kind", list(OutcomeKind))
def test_removals_of_the_last_hour_count_nodes_that_went_however_the_action_ended(
    store: SqlStore, kind: OutcomeKind
) -> None:
    ended(store, retire(1, *STAGES), kind, after(minutes=1))
    assert store.memory(after(minutes=60), NOW).removed_last_hour == 2
    assert store.memory(after(minutes=60), NOW).grown_last_hour == 0
    assert store.memory(after(minutes=1) + timedelta(hours=1), NOW).removed_last_hour == 0
