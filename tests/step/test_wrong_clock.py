"""One step under a wrong clock, or a few, leave nothing behind that cannot be taken back."""

from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.core.model.pods import KEEP_UNTIL
from receiver.core.model.policy import Budget, KeepOut, KeepUntil, Limits
from receiver.ports import Store, TryLater
from receiver.step.reconcile import step
from simulator.cluster_holding import ClusterQueue
from tests.core.builders import HOUR, MINUTE
from tests.given import lives
from tests.given.life import GPU, PRICE, START, Life, a_job

pytestmark = pytest.mark.chores(False)


def a_step_ahead(life: Life, by: timedelta) -> None:
    """One step under a clock that is ahead *by* so much; then the clock is right again."""
    step(life.sources, life.hands, life.policy, life.mode, life.now + by)


@pytest.mark.chores(True)
@pytest.mark.parametrize("ahead", [timedelta(days=1), timedelta(days=31)])
def test_one_step_under_a_clock_ahead_ends_no_override(store: Store, ahead: timedelta) -> None:
    life = lives.at_zero(store)
    life.set_override("pin", 2)
    life.run(10 * MINUTE, tick=2 * MINUTE)
    a_step_ahead(life, ahead)
    life.run(MINUTE)
    assert life.required() == 2
    assert life.steps[-1].assignment.pools["l40s-id"].bounds.overrides.pin is not None
    assert [t for t in life.notices() if "no longer" in t] == []
    life.run(HOUR, tick=5 * MINUTE)
    assert [t for t in life.notices() if "no longer" in t] == ["GPU pool l40s: no longer pinned to 2 nodes"]


@pytest.mark.chores(True)
def test_an_override_comes_back_when_a_clock_that_was_ahead_for_a_while_is_right_again(store: Store) -> None:
    life = lives.at_zero(store)
    pin = life.set_override("pin", 2)
    life.run(10 * MINUTE, tick=2 * MINUTE)
    for _ in range(3):
        a_step_ahead(life, timedelta(days=1))
    assert store.memory(life.now, life.now).overrides == ()
    life.run(MINUTE)
    assert store.memory(life.now, life.now).overrides == (pin,)
    assert "GPU pool l40s: pinned to 2 nodes again until 2026-11-20 13:00 UTC" in life.notices()
    life.run(HOUR, tick=5 * MINUTE)
    assert [t for t in life.notices() if "no longer" in t] == ["GPU pool l40s: no longer pinned to 2 nodes"] * 2


@pytest.mark.chores(True)
def test_one_step_under_a_clock_behind_brings_no_override_back(store: Store) -> None:
    life = lives.at_zero(store)
    life.set_override("pin", 2)
    life.run(2 * HOUR, tick=10 * MINUTE)
    before = list(life.notices())
    a_step_ahead(life, -timedelta(hours=1, minutes=30))
    life.run(MINUTE)
    assert list(life.notices()) == before


def test_a_node_seen_to_go_under_a_clock_ahead_does_not_cost_until_then(store: Store) -> None:
    life = lives.waiting(store, a_job(duration=5 * MINUTE))
    life.run(10 * MINUTE, tick=2 * MINUTE)
    [vm] = life.world.pools["l40s-id"].living
    life.world.delete_instance("l40s-id", vm.id)
    life.pass_time(MINUTE)
    a_step_ahead(life, timedelta(days=1))
    life.run(2 * HOUR, tick=10 * MINUTE)
    assert life.steps[-1].facts.spend.usd == PRICE


def test_a_node_seen_first_under_a_clock_ahead_goes_as_soon_as_any_other(store: Store) -> None:
    life = lives.at_zero(store)
    life.world.resize("l40s-id", 1)
    life.pass_time(10 * MINUTE)
    a_step_ahead(life, timedelta(days=1))
    life.run(HOUR, tick=5 * MINUTE)
    assert life.required() == 0


def test_moments_are_not_moved_back_by_one_step_under_a_clock_behind(store: Store) -> None:
    life = lives.waiting(store, a_job(duration=5 * MINUTE))
    life.run(3 * HOUR, tick=10 * MINUTE)
    before = {x.instance: x.gone_at for x in store.node_lives(START)}
    a_step_ahead(life, -timedelta(hours=2, minutes=30))
    life.run(MINUTE)
    assert {x.instance: x.gone_at for x in store.node_lives(START)} == before


def test_growth_under_a_clock_a_day_ahead_does_not_use_up_the_limit_of_each_hour_until_then(store: Store) -> None:
    life = lives.waiting(store, a_job("one"), limits=Limits(max_growth_per_hour=1))
    a_step_ahead(life, timedelta(days=1))
    life.submit(a_job("two"))
    life.run(2 * HOUR, tick=10 * MINUTE)
    assert len(life.writes("resize")) == 2


def test_growth_under_a_clock_a_day_ahead_is_not_waited_for_until_then(store: Store) -> None:
    life = lives.waiting(store, a_job("one"), a_job("two"))
    life.cloud.fail_next(TryLater("no answer", code="timeout"), "resize")
    a_step_ahead(life, timedelta(days=1))
    life.world.cancel_job("two")
    life.run(10 * MINUTE)
    assert life.required() == 1


def test_a_clock_is_believed_from_the_second_step_on(store: Store) -> None:
    life = lives.at_zero(store)
    life.pauses_are_jumps = True
    told = [life.step().trusted, life.step().trusted]
    a_step_ahead(life, timedelta(days=31))
    told += [life.step().trusted, life.step().trusted]
    life.pass_time(HOUR)
    told += [life.step().trusted]
    assert told == [False, True, False, True, False]


def test_a_wish_to_be_kept_outlives_a_step_under_a_clock_ahead(store: Store) -> None:
    life = lives.at_zero(store, keep_until=KeepUntil(namespaces=frozenset({"ml"})))
    wish = (life.now + 4 * HOUR).isoformat()
    life.submit(a_job(duration=5 * MINUTE, annotations={KEEP_UNTIL: wish}))
    life.run(20 * MINUTE, tick=2 * MINUTE)
    a_step_ahead(life, timedelta(days=1))
    life.step()
    [node] = life.steps[-1].facts.pool("l40s-id").nodes
    assert node.keep.lasts(life.now)


def test_one_step_under_the_clock_of_another_month_lets_no_work_into_what_a_hold_keeps_shut(store: Store) -> None:
    budget = Budget(monthly_usd=Decimal("3.00"), keep_out=KeepOut(namespaces=("ml",), cluster_queues=("gpus",)))
    life = lives.at_zero(store, budget=budget)
    life.world.cluster_queues["gpus"] = ClusterQueue(stop_policy="None")
    life.submit(a_job(duration=10 * HOUR))
    life.run(70 * MINUTE, tick=5 * MINUTE)  # two paid hours
    assert set(life.world.quotas) == {"ml"}
    a_step_ahead(life, life.now.replace(month=12, day=1, hour=0, minute=5) - life.now)
    assert set(life.world.quotas) == {"ml"}
    assert life.world.cluster_queues["gpus"].stop_policy == "Hold"
    life.run(MINUTE)
    assert set(life.world.quotas) == {"ml"}
    assert life.writes("release_namespace", "release_queue") == []


def test_a_month_that_began_lets_work_in_with_the_second_step(store: Store) -> None:
    budget = Budget(monthly_usd=Decimal("1.50"), keep_out=KeepOut(namespaces=("ml",)))
    life = lives.waiting(store, a_job(duration=MINUTE), budget=budget)
    life.run(5 * MINUTE, tick=MINUTE)
    life.run(2 * HOUR, tick=5 * MINUTE)
    assert life.required() == 0
    life.pauses_are_jumps = True
    life.world.advance(life.now.replace(month=12, day=1, hour=0, minute=5))
    life.step()
    assert set(life.world.quotas) == {"ml"}
    life.pass_time(timedelta(seconds=10))
    life.step()
    assert life.world.quotas == {}


def jumping(life: Life) -> Life:
    """The same life, whose first step and those after a pause do not trust the clock, as in production."""
    life.pauses_are_jumps = True
    return life


def test_the_first_step_of_a_new_store_writes_nothing_and_the_next_one_follows_at_once(store: Store) -> None:
    life = jumping(lives.waiting(store))
    first = life.step()
    assert life.writes() == []
    assert first.reconsider_at is not None
    assert first.reconsider_at - life.now <= timedelta(milliseconds=100)
    life.step()
    assert life.writes("resize")


def test_a_step_after_a_pause_writes_nothing(store: Store) -> None:
    life = jumping(lives.idle_nodes(store, 2))
    life.run(10 * MINUTE)
    before = life.writes()
    life.submit(*(a_job(f"j{n}", duration=10 * HOUR) for n in range(4)))
    life.pass_time(HOUR)
    life.step()
    assert life.writes() == before
    life.step()
    assert life.required() == 4


def test_an_action_is_not_closed_by_a_step_after_a_pause(store: Store) -> None:
    life = jumping(lives.waiting(store))
    life.step()
    life.cloud.fail_next(TryLater("no answer", code="timeout"), "resize")
    life.step()
    life.world.resize("l40s-id", 1)
    life.pass_time(HOUR)
    assert life.step().facts.pool("l40s-id").open_action is not None
    life.pass_time(timedelta(milliseconds=100))
    assert life.step().facts.pool("l40s-id").open_action is None


def test_an_alert_stays_unconsidered_in_a_step_after_a_pause(store: Store) -> None:
    life = jumping(lives.at_zero(store))
    life.step()
    assert store.memory(life.now, life.now).deliveries
    life.step()
    assert store.memory(life.now, life.now).deliveries == ()


def test_what_an_earlier_process_held_is_read_by_a_step_after_a_pause_and_lifted_by_the_next(store: Store) -> None:
    life = jumping(lives.at_zero(store, budget=Budget(monthly_usd=Decimal(500))))
    life.cluster.hold_namespace("ml", (GPU,), ())
    assert set(life.step().facts.earlier.kept_out or ()) == {"ml"}
    assert set(life.world.quotas) == {"ml"}
    life.pass_time(timedelta(milliseconds=100))
    life.step()
    assert life.world.quotas == {}
