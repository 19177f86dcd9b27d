"""Notices that flood or hide, and counts that fall late: each went wrong once."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.adapters.store import SqlStore
from receiver.capabilities.costs.monthly import MonthEnd
from receiver.core.model.actions import Action, ActionKind, Victim, VictimStage
from receiver.core.model.policy import Budget, Limits
from receiver.ports import Store, TryLater
from receiver.replay.world.objects import Behaviour
from receiver.server.bootstrap import EXTENSION, stop
from receiver.step.carry_out import settled
from tests.core.builders import HOUR, MINUTE, NOW, a_state
from tests.expect import removed
from tests.given import lives
from tests.given.life import Life, a_job, a_policy
from tests.step.process_builders import an_app


def test_one_job_of_many_pods_that_fit_nowhere_is_one_notice(store: Store) -> None:
    life = lives.waiting(store, a_job("giant", gpus_per_pod=16, pods=50))
    life.run(MINUTE)
    assert sum("No GPU pool can hold" in t for t in life.notices()) <= 3


def test_a_step_writes_a_bounded_number_of_events_for_pods_that_fit_nowhere(store: Store) -> None:
    life = lives.waiting(store, a_job("giant", gpus_per_pod=16, pods=300))
    life.step()
    assert len(life.writes("record_event")) <= 100


def test_two_rules_that_take_turns_in_holding_a_pool_are_told_once_each_and_again_the_next_day(store: Store) -> None:
    life = lives.at_zero(store, budget=Budget(monthly_usd=Decimal("1.00")))
    short, full = life.policy, replace(life.policy, budget=None, limits=Limits(max_gpus=0))

    told: list[str] = []
    life.submit(a_job())
    for life.policy in (short, full) * 10:
        life.step()
        told += sent(life)
        life.pass_time(10 * MINUTE)
    assert len([title for title in told if "does not grow" in title]) == 2
    life.pass_time(24 * HOUR)
    for life.policy in (short, full) * 2:
        life.step()
        told += sent(life)
    assert len([title for title in told if "does not grow" in title]) == 4


def sent(life: Life) -> list[str]:
    """Deliver what waits in the outbox; return the titles."""
    due = life.store.notices_due(life.now + HOUR, limit=1000)
    for stored in due:
        life.store.notice_sent(stored.id, life.now)
    return [stored.notice.title for stored in due]


def test_a_hold_is_not_told_again_with_every_pod_that_comes(store: Store) -> None:
    budget = Budget(monthly_usd=Decimal("1.00"))
    life = lives.at_zero(store, budget=budget)
    for number in range(12):
        life.submit(a_job(f"j{number}"))
        life.run(30 * timedelta(seconds=1))
    assert sum("does not grow" in t for t in life.notices()) <= 3


def test_a_hold_that_ended_is_told_when_it_comes_back(store: Store) -> None:
    pool = a_policy().pools[0]
    life = lives.waiting(store, a_job("train"), pool=pool, limits=Limits(max_gpus=0))
    life.run(MINUTE)
    told = sent(life)
    life.world.cancel_job("train")
    life.run(20 * 24 * HOUR, tick=12 * HOUR)
    life.submit(a_job("train", submit_at=life.now))
    life.run(MINUTE)
    assert sum("does not grow" in title for title in [*told, *sent(life)]) == 2


def test_a_removal_is_confirmed_beside_a_node_that_civo_does_not_list_yet() -> None:
    action = Action(
        id="x",
        pool="l40s-id",
        kind=ActionKind.RETIRE,
        opened_at=NOW,
        from_count=2,
        to_count=1,
        victims=(Victim(instance="i-n1", node="n1", stage=VictimStage.DELETED, since=NOW),),
    )
    assert settled(action, a_state(required=1), NOW) is not None


def test_a_count_that_falls_late_does_not_keep_a_later_node_beyond_its_paid_hour(store: Store) -> None:
    life = lives.waiting(store, a_job("one"), behaviour=Behaviour(decrement=12 * MINUTE))
    life.run(2 * MINUTE)
    life.submit(a_job("two"))
    life.run(64 * MINUTE)
    assert removed(life) == 2


def test_pods_do_not_wait_for_the_count_to_fall_when_another_pool_fits(store: Store) -> None:
    life = lives.two_pools(store, behaviour=Behaviour(decrement=12 * MINUTE))
    life.submit(a_job("one"))
    for _ in range(1000):
        wake = life.wake_after_step(timedelta(seconds=5))
        if life.writes("retire"):
            break
        life.world.advance(wake)
    life.submit(a_job("late"))
    life.run(3 * MINUTE)
    assert len(life.writes("resize")) == 2


@pytest.mark.usefixtures("own_logs")
def test_a_store_that_cannot_forget_still_lets_the_loop_step(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pruning fails (a statement timeout over a large backlog): it must not stand before every step for ever."""
    app = an_app(tmp_path)
    loop = app.extensions[EXTENSION].loop

    def prune(_store: SqlStore, _now: Any) -> int:
        raise TryLater("store: canceling statement due to statement timeout", code="store")

    monkeypatch.setattr(SqlStore, "prune", prune)
    try:
        later = loop._clock.now() + 2 * HOUR
        assert loop._step(later).facts.at == later
    finally:
        stop(app)


@pytest.mark.usefixtures("own_logs")
def test_reports_are_told_whether_the_clock_was_believed_for_an_hour(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[bool] = []
    monkeypatch.setattr(MonthEnd, "look", lambda _self, _now, *, sure: said.append(sure))
    app = an_app(tmp_path)
    try:
        loop = app.extensions[EXTENSION].loop
        begin = loop._clock.now()
        for minutes in (0, 10, 20, 30, 40, 50, 60, 70, 60 * 24, 60 * 24 + 10):
            loop._step(begin + timedelta(minutes=minutes))
    finally:
        stop(app)
    assert said == [False] * 6 + [True, False]
