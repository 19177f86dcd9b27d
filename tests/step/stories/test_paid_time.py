"""What must show of time that is paid for: hours and seconds, spare nodes by the clock, and what a budget drops."""

from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.core.model.policy import Anchor, Billing, Budget
from receiver.core.model.windows import Window
from receiver.ports import Store
from receiver.replay.world.objects import Behaviour
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, paid_hours, titles
from tests.given import lives
from tests.given.life import POOL, START, a_job

pytestmark = pytest.mark.chores(False)

BY_THE_SECOND = Billing(granularity=SECOND, removal_margin=timedelta(0))


def test_an_idle_node_is_warm_for_the_next_job_until_its_hour_ends(store: Store) -> None:
    """Cluster Autoscaler #251, #2684, #4957: ten minutes after the last pod the node goes, fifty paid ones unused,
    and the next job waits for a new one."""
    life = lives.waiting(store, a_job("one"))
    life.run(45 * MINUTE, tick=20 * SECOND)
    life.submit(a_job("two", duration=5 * MINUTE, submit_at=life.now))
    life.run(20 * MINUTE)
    assert bought(life) == 1
    assert life.world.finished[1].wait < MINUTE
    assert paid_hours(life.world.lives[0], life.now) == 1


def test_a_node_that_is_busy_at_its_hours_end_pays_another_one_and_goes_at_the_end_of_that(store: Store) -> None:
    life = lives.waiting(store, a_job(duration=70 * MINUTE))
    life.run(125 * MINUTE, tick=20 * SECOND)
    [vm] = life.world.lives
    assert vm.gone_at is not None
    assert 115 * MINUTE <= vm.gone_at - vm.created_at <= 2 * HOUR


def test_where_hours_begin_on_the_clock_a_node_goes_before_the_clock_strikes(store: Store) -> None:
    life = lives.at_zero(store, billing=Billing(anchor=Anchor.CLOCK))
    life.world.advance(START + 20 * MINUTE)
    life.submit(a_job(duration=5 * MINUTE))
    life.run(42 * MINUTE)
    [vm] = life.world.lives
    assert vm.gone_at is not None
    assert START + 55 * MINUTE <= vm.gone_at <= START + HOUR


def test_where_seconds_are_billed_idle_for_rules_and_not_the_hour(store: Store) -> None:
    life = lives.waiting(
        store, pool=a_pool(idle_for=7 * MINUTE), behaviour=Behaviour(granularity=SECOND), billing=BY_THE_SECOND
    )
    life.run(30 * MINUTE)
    [vm] = life.world.lives
    done = life.world.finished[0].finished_at
    assert vm.deleted_at is not None
    assert 7 * MINUTE <= vm.deleted_at - done <= 7 * MINUTE + 30 * SECOND


def test_where_seconds_are_billed_new_work_begins_the_idle_time_anew(store: Store) -> None:
    life = lives.idle_nodes(store, 1, a_pool(idle_for=10 * MINUTE), billing=BY_THE_SECOND)
    for number in range(4):
        life.run(8 * MINUTE)
        life.submit(a_job(f"j{number}", duration=MINUTE))
        life.run(2 * MINUTE)
    assert bought(life) == 1
    assert life.writes("cordon") == []
    life.run(11 * MINUTE)
    assert living(life) == []


def test_where_seconds_are_billed_the_shrink_cooldown_spaces_removals(store: Store) -> None:
    life = lives.waiting(
        store,
        a_job("one", duration=5 * MINUTE),
        a_job("two", duration=7 * MINUTE),
        pool=a_pool(shrink_cooldown=10 * MINUTE),
        billing=BY_THE_SECOND,
    )
    life.run(45 * MINUTE)
    first, second = sorted(vm.deleted_at for vm in life.world.lives if vm.deleted_at)
    assert second - first >= 10 * MINUTE


DAY = Window(name="day", times=((13 * 60, 17 * 60),), standby_nodes=2)


def test_spare_nodes_are_there_while_their_window_is_open_and_go_after_it(store: Store) -> None:
    """Cluster Autoscaler #4005: no warm pool, and none by the clock."""
    life = lives.at_zero(store, a_pool(windows=(DAY,)))
    life.run(59 * MINUTE, tick=30 * SECOND)  # it is twelve o'clock
    assert bought(life) == 0
    life.run(2 * MINUTE)
    assert life.required() == 2
    life.run(3 * HOUR + 58 * MINUTE, tick=MINUTE)
    assert [vm.usable_at is not None for vm in living(life)] == [True, True]
    assert bought(life) == 2  # the same two all the time
    life.run(HOUR + 5 * MINUTE, tick=30 * SECOND)
    assert living(life) == []
    assert all(paid_hours(vm, life.now) <= 5 for vm in life.world.lives)


def test_a_job_that_takes_a_spare_node_starts_at_once_and_the_spare_is_made_up_for(store: Store) -> None:
    life = lives.at_zero(store, a_pool(standby_nodes=1))
    life.run(10 * MINUTE)
    life.submit(a_job(submit_at=life.now, duration=HOUR))
    life.run(5 * MINUTE)
    [pod] = life.world.pods.values()
    assert pod.started_at is not None
    assert pod.started_at - pod.created_at < MINUTE
    assert life.required() == 2


def test_a_budget_that_cannot_serve_all_drops_spare_nodes_first(store: Store) -> None:
    """Two jobs and two spare nodes; two first hours are covered: USD 2.58 of the 2.80 below the hold line."""
    budget = Budget(monthly_usd=Decimal("3.50"))
    life = lives.waiting(store, a_job("one"), a_job("two"), pool=a_pool(standby_nodes=2), budget=budget)
    life.run(10 * MINUTE)
    assert life.required() == 2
    assert {p.name for p in life.world.pods.values() if p.node} == {"one-0", "two-0"}
    held = [r for r in life.steps[-1].decisions[POOL].reasons if r.rule == "within_budget"]
    assert [r.verdict.value for r in held] == ["holds"]


def test_spare_nodes_of_one_pool_give_way_to_the_work_of_another(store: Store) -> None:
    other = a_pool(id="other-id", name="other", standby_nodes=0)
    pools = (a_pool(standby_nodes=2), other)
    life = lives.at_zero(store, *pools, budget=Budget(monthly_usd=Decimal("2.00")))
    life.submit(a_job(node_selector={"kubernetes.civo.com/civo-node-pool": "other-id"}))
    life.run(5 * MINUTE)
    assert (life.required(POOL), life.required("other-id")) == (0, 1)


@pytest.mark.chores(True)
def test_at_the_stop_line_no_empty_node_enters_another_hour_and_running_work_goes_on(store: Store) -> None:
    budget = Budget(monthly_usd=Decimal("5.10"), hold_at=Decimal("0.9"))
    life = lives.idle_nodes(store, 2, a_pool(min_nodes=1, standby_nodes=1), budget=budget)
    life.submit(a_job(duration=4 * HOUR))
    life.run(5 * HOUR, tick=30 * SECOND)
    empty, busy = sorted(life.world.lives, key=lambda vm: vm.gone_at or life.now)
    assert empty.gone_at is not None
    assert [job.restarts for job in life.world.finished] == [0]
    assert bought(life) == 2
    assert titles(life, "stop line") or paid_hours(busy, life.now) >= 4


def test_a_maximum_of_zero_by_night_takes_idle_nodes_and_lets_running_work_end(store: Store) -> None:
    """kube-downscaler and its kin stop what runs when their window closes."""
    nights = Window(name="nights", times=((14 * 60, 24 * 60),), max_nodes=0)
    life = lives.waiting(store, a_job("short"), a_job("long", duration=3 * HOUR), pool=a_pool(windows=(nights,)))
    life.run(2 * HOUR + 10 * MINUTE, tick=30 * SECOND)
    life.submit(a_job("late"))
    life.run(3 * HOUR, tick=30 * SECOND)
    assert [job.restarts for job in life.world.finished] == [0, 0, 0]  # the late one took over the long one's node
    assert bought(life) == 2
    assert living(life) == []
