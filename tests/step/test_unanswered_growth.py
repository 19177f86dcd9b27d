"""A growth that Civo did not answer may have reached it: what it costs is not given to another pool meanwhile."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.policy import Budget, Limits
from receiver.ports import Receipt, Store, TryLater, WontWork
from tests.core.builders import MINUTE
from tests.given import lives
from tests.given.life import PRICE, Life, Wrapped, a_job

pytestmark = pytest.mark.chores(False)

FIRST, SECOND = "first-id", "second-id"
ONE_NODE = Budget(monthly_usd=Decimal("2.00"))  # covers a node of 1.29, not two


def two_pools(store: Store, **changes: Any) -> Life:
    """Two pools of one price for the same work; the first is tried first."""
    same = {"price_usd_per_hour": PRICE}
    return lives.two_pools(store, "first", "second", other=same, **{"budget": ONE_NODE, **changes})


def unanswered(life: Life) -> None:
    """From now on nothing is heard from Civo after a PUT for the first pool."""

    def resize(pool: str, **asked: int) -> Receipt:
        if pool == FIRST:
            raise TryLater("no answer", code="timeout")
        return life.cloud.resize(pool, decided_on=asked["decided_on"], target=asked["target"])

    life.wrap_cloud = lambda inner: Wrapped(inner, resize=resize)


def paused_before_an_answer(store: Store, **changes: Any) -> Life:
    """The first pool's PUT is on its way, unanswered, and the pool is paused."""
    life = two_pools(store, **changes)
    unanswered(life)
    life.submit(a_job(duration=timedelta(hours=2)))
    life.step()
    assert [s.action.pool for s in store.actions()] == [FIRST]
    life.set_override("pause", lasts=timedelta(hours=3), pool=FIRST)
    life.pass_time(timedelta(seconds=10))
    return life


def test_a_request_that_arrives_late_is_not_paid_for_twice(store: Store) -> None:
    life = paused_before_an_answer(store)
    life.run(3 * MINUTE)
    life.world.resize(FIRST, 1)  # now it reaches Civo
    life.run(20 * MINUTE)
    assert (life.required(FIRST), life.required(SECOND)) == (1, 0)


@pytest.mark.database("what outlives a process is in it")
def test_the_money_is_kept_over_a_restart(store: Store) -> None:
    before = paused_before_an_answer(store)
    before.step()
    again = lives.restarted(before, store)
    again.run(4 * MINUTE)
    assert again.required(SECOND) == 0
    budget = again.steps[-1].assignment.budget
    assert budget is not None
    assert budget.reserved == PRICE


def test_when_nothing_has_shown_for_five_minutes_another_pool_gets_the_money(store: Store) -> None:
    life = paused_before_an_answer(store)
    life.run(7 * MINUTE)
    assert (life.required(FIRST), life.required(SECOND)) == (0, 1)


def test_a_pool_that_gives_up_without_an_answer_keeps_its_money_for_as_long(store: Store) -> None:
    life = two_pools(store)
    unanswered(life)
    life.submit(a_job(duration=timedelta(hours=2)))
    life.run_until(lambda: any(s.outcome for s in store.actions()), tick=timedelta(seconds=5))
    life.run(4 * MINUTE)
    assert life.required(SECOND) == 0
    life.run(20 * MINUTE, tick=MINUTE)  # each further try of the first pool keeps it for as long again
    assert life.required(SECOND) == 1


def test_a_refusal_gives_the_money_to_another_pool_at_once(store: Store) -> None:
    life = two_pools(store)
    life.cloud.fail_next(WontWork("none left", code="out_of_capacity"), "resize")
    life.submit(a_job(duration=timedelta(hours=2)))
    life.run(MINUTE)
    assert (life.required(FIRST), life.required(SECOND)) == (0, 1)


@pytest.mark.parametrize("limits", [Limits(max_gpus=1), Limits(max_growth_per_hour=1)], ids=["gpus", "growth"])
def test_what_may_still_come_counts_for_the_limits_too(store: Store, limits: Limits) -> None:
    life = paused_before_an_answer(store, budget=None, limits=limits)
    life.run(4 * MINUTE)
    assert life.required(SECOND) == 0


def test_a_growth_that_shows_late_is_no_change_by_somebody_else(store: Store) -> None:
    life = paused_before_an_answer(store)
    life.run(MINUTE)
    life.world.resize(FIRST, 1)
    life.run(MINUTE)
    assert life.steps[-1].facts.pool(FIRST).count.drifts == ()


def test_an_unanswered_growth_of_a_pool_that_left_the_configuration_keeps_its_money(store: Store) -> None:
    life = two_pools(store)
    life.rest = MINUTE
    unanswered(life)
    life.submit(a_job(duration=timedelta(hours=2)))
    life.step()
    life.policy = replace(life.policy, pools=life.policy.pools[1:])
    life.pass_time(timedelta(seconds=10))
    life.run(4 * MINUTE)
    assert life.required(SECOND) == 0
    life.run(3 * MINUTE)
    assert life.required(SECOND) == 1
