"""The straight line from facts to acts, on a simulated world: what is written, once, and what is not."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Literal

import pytest

from receiver.core.model.actions import OutcomeKind
from receiver.core.model.policy import Billing, Budget
from receiver.core.model.signals import Alert
from receiver.ports import CORDON_ANNOTATION, Delivery, Store, TryLater, WontWork, WriterLostError
from receiver.replay.world.objects import Behaviour, PodSpec, Timings
from receiver.reports.observed import ObservedDocument
from receiver.reports.picture import kept_picture
from receiver.step.reconcile import step
from tests.core.builders import HOUR, MINUTE
from tests.expect import removed
from tests.given import lives
from tests.given.life import GPU, START, TICK, Life, a_job, a_policy, until_cordoned

pytestmark = pytest.mark.chores(False)


@pytest.fixture
def life(store: Store) -> Life:
    return lives.at_zero(store)


@pytest.mark.chores(True)
def test_a_pod_gets_a_node_runs_and_the_pool_goes_back_to_zero_at_the_end_of_the_paid_hour(life: Life) -> None:
    life.submit(a_job())
    life.run(70 * MINUTE)
    assert life.writes("resize") == [("resize", ("l40s-id", 1))]
    assert [w[0] for w in life.writes("retire")] == ["retire"]
    assert life.required() == 0
    assert len(life.world.finished) == 1
    assert life.world.kills == []
    [node] = life.world.lives
    assert node.gone_at is not None
    assert 55 * MINUTE <= node.gone_at - node.created_at <= HOUR
    assert list(life.notices())[:2] == ["GPU pool l40s: 0 -> 1 nodes", "GPU pool l40s: 1 -> 0 nodes"]


def test_forty_jobs_at_once_buy_exactly_forty_gpus_while_drivers_install(store: Store) -> None:
    pool = a_policy().pools[0]
    life = lives.waiting(store, *(a_job(f"j{n}") for n in range(40)), pool=replace(pool, max_nodes=100))
    life.run(20 * MINUTE)
    assert len(life.world.lives) == 40
    assert len(life.writes("resize")) == 1


def test_many_steps_on_the_same_facts_act_once(life: Life) -> None:
    life.submit(a_job())
    for _ in range(10):
        life.step()
    assert len(life.writes("resize")) == 1


@pytest.mark.chores(True)
def test_the_decision_names_the_deliveries_that_woke_it_and_they_are_considered_once(life: Life) -> None:
    life.heartbeats = False
    life.submit(a_job())
    alert = Alert(fingerprint="f", labels={"alertname": "GpuPodsPending", "action": "scale_up"}, starts_at=START)
    number = life.store.remember(Delivery(receiver="r", group_key="g", alerts=(alert,)), life.now)
    life.step()
    grown = next(d for d in life.store.decisions() if d.decision.target == 1)
    assert grown.decision.evidence["woken_by"] == [number]
    assert life.step().facts.deliveries == ()


def test_a_lost_answer_to_the_put_is_not_repeated(life: Life) -> None:
    life.submit(a_job())
    life.cloud.fail_after(TryLater("no answer", code="timeout"), "resize")
    life.run(2 * MINUTE)
    assert life.writes("resize") == [("resize", ("l40s-id", 1))]
    assert life.store.actions()[0].outcome is not None


def test_a_put_that_never_arrived_is_repeated_until_it_does(life: Life) -> None:
    life.submit(a_job())
    life.cloud.fail_next(TryLater("connection refused", code="unavailable"), "resize")
    life.run(MINUTE)
    assert life.writes("resize") == [("resize", ("l40s-id", 1))]


def test_an_open_growth_is_withdrawn_when_the_pod_goes_away(life: Life) -> None:
    life.world.add_pod(PodSpec(namespace="ml", name="bare", requests={GPU: 1}))
    life.pass_time(timedelta(seconds=1))
    life.cloud.fail_next(TryLater("connection refused"), "resize")
    life.step()
    life.world.delete_pod("ml", "bare")
    life.run(MINUTE)
    assert life.writes("resize") == []
    outcome = life.store.actions()[0].outcome
    assert outcome is not None
    assert outcome.kind is OutcomeKind.WITHDRAWN


@pytest.mark.chores(True)
def test_a_stock_out_backs_the_pool_off_and_does_not_consume_the_cooldown(life: Life) -> None:
    life.submit(a_job())
    life.cloud.fail_next(WontWork("none left", code="gpu_count_exceeded"), "resize")
    life.step()
    state = life.step().facts.pool("l40s-id")
    assert state.backoffs.growth is not None
    assert state.backoffs.growth.failures == 1
    assert state.last_changes.grown_at is None
    life.run(3 * MINUTE)
    assert len(life.writes("resize")) == 1
    assert "GPU pool l40s: too few an.g1.l40s.kube.x1 are free at Civo, 0 -> 1 node refused" in life.notices()


def test_repeated_stock_outs_back_off_for_longer_each_time(life: Life) -> None:
    life.submit(a_job(duration=10 * HOUR))
    untils = []
    for _ in range(4):
        life.cloud.fail_next(WontWork("none left", code="gpu_count_exceeded"), "resize")
        life.step()
        backoff = life.step().facts.pool("l40s-id").backoffs.growth
        assert backoff is not None
        untils.append(backoff.until - life.now)
        life.world.advance(backoff.until)
    assert untils == sorted(untils)
    assert untils[3] > 2 * untils[1]


def test_nothing_is_written_once_somebody_else_is_the_writer(life: Life) -> None:
    life.submit(a_job())
    life.writer = False
    with pytest.raises(WriterLostError):
        life.step()
    assert life.writes() == []


def test_growth_by_somebody_else_is_adopted(life: Life) -> None:
    life.submit(a_job())
    life.world.resize("l40s-id", 3)
    life.run(MINUTE)
    assert life.writes("resize") == []
    assert life.required() == 3


def test_a_pod_that_lands_after_the_cordon_saves_its_node(life: Life) -> None:
    node = until_cordoned(life)
    life.world.patch_node(node, unschedulable=False)  # the scheduler had decided before our cordon reached it
    life.submit(a_job("late", duration=30 * MINUTE))
    life.world.patch_node(node, unschedulable=True)
    life.run(MINUTE)
    assert life.writes("retire") == []
    assert not life.world.nodes[node].unschedulable
    assert life.world.kills == []


def test_a_pod_that_waits_for_the_cordoned_node_gets_it_back(life: Life) -> None:
    node = until_cordoned(life)
    life.submit(a_job("late"))
    life.run(20 * timedelta(seconds=1))
    assert life.writes("retire") == []
    assert CORDON_ANNOTATION not in life.world.nodes[node].annotations
    assert len(life.writes("resize")) == 1


def test_there_are_five_seconds_between_the_cordon_and_the_delete(life: Life) -> None:
    until_cordoned(life)
    life.world.advance(life.now + timedelta(seconds=4, milliseconds=900))
    life.step()
    assert life.writes("retire") == []
    life.world.advance(life.now + timedelta(milliseconds=100))
    life.step()
    assert removed(life) == 1


def test_a_cordon_that_outlived_its_action_is_lifted(life: Life) -> None:
    life.submit(a_job(duration=HOUR))
    life.run(10 * MINUTE)
    node = next(iter(life.world.nodes))
    life.world.patch_node(node, unschedulable=True, annotations={CORDON_ANNOTATION: "an action nobody remembers"})
    life.step()
    assert not life.world.nodes[node].unschedulable


def test_a_cordon_of_somebody_else_is_left_alone(life: Life) -> None:
    life.submit(a_job())
    life.run(15 * MINUTE)
    node = next(iter(life.world.nodes))
    life.world.patch_node(node, unschedulable=True)
    life.run(2 * HOUR)
    assert life.writes("uncordon", "retire") == []
    assert life.world.nodes[node].unschedulable


@pytest.mark.parametrize("decrement", ["never", timedelta(minutes=10)], ids=["never", "ten minutes late"])
def test_a_count_that_does_not_fall_stops_removals_and_is_never_lowered_by_a_put(
    store: Store, decrement: Literal["never"] | timedelta
) -> None:
    life = lives.waiting(store, behaviour=Behaviour(decrement=decrement))
    life.run(80 * MINUTE)
    assert [args for _, args in life.writes("resize")] == [("l40s-id", 1)]
    assert removed(life) <= 2


@pytest.mark.chores(True)
def test_observe_mode_writes_nothing_and_tells_once(store: Store) -> None:
    life = lives.waiting(store, mode="observe")
    life.run(10 * MINUTE)
    assert life.writes() == []
    told = [t for t in life.notices() if "l40s" in t]
    assert told == ["GPU pool l40s: would go 0 -> 1 nodes (observing, nothing was changed)"]


@pytest.mark.chores(True)
def test_observe_mode_does_not_cordon_an_idle_node(store: Store) -> None:
    life = lives.waiting(store)
    life.run(40 * MINUTE)
    before = life.writes()
    lives.observing(life)
    life.run(HOUR)
    assert life.writes() == before
    assert any("would go 1 -> 0" in t for t in life.notices())


@pytest.mark.chores(True)
def test_a_budget_hold_keeps_new_work_out_and_running_work_goes_on(store: Store) -> None:
    budget = Budget(monthly_usd=Decimal("3.20"))  # two paid hours are 2.58: past the hold line of 2.56
    life = lives.waiting(store, a_job("one", duration=3 * HOUR), budget=budget)
    life.run(65 * MINUTE)
    life.submit(a_job("two"))
    life.run(20 * MINUTE)
    assert life.required() == 1
    assert life.world.kills == []
    titles = list(life.notices())
    assert "GPU cluster budget 2026-11 has reached its hold line (80%)" in titles
    assert "GPU pool l40s does not grow: the cluster budget is past its hold line; 1 pod waits" in titles


def test_a_gang_is_bought_whole_and_starts_together(store: Store) -> None:
    life = lives.waiting(store, a_job("gang", pods=3, gang=True))
    life.run(10 * MINUTE)
    assert life.writes("resize") == [("resize", ("l40s-id", 3))]
    starts = {p.started_at for p in life.world.pods.values()}
    assert len(starts) == 1


@pytest.mark.chores(True)
def test_a_pod_that_no_pool_fits_is_told_once_to_people_and_to_the_pod(life: Life) -> None:
    life.submit(a_job("giant", gpus_per_pod=16))
    life.run(5 * MINUTE)
    assert life.writes("resize") == []
    assert sum("No GPU pool can hold" in t for t in life.notices()) == 1
    assert [w[1][1] for w in life.writes("record_event")] == ["NotTriggerScaleUp"]


def test_eight_nodes_of_one_age_all_go_in_the_last_minutes_of_their_paid_hour(life: Life) -> None:
    life.submit(*(a_job(f"j{n}") for n in range(8)))
    life.run(62 * MINUTE)
    ages = [n.gone_at - n.created_at for n in life.world.lives if n.gone_at]
    assert len(ages) == 8
    assert all(55 * MINUTE <= age <= HOUR for age in ages)


def test_where_seconds_are_billed_a_node_goes_after_idle_for(store: Store) -> None:
    billing = Billing(granularity=timedelta(seconds=1), removal_margin=timedelta(0))
    life = lives.waiting(store, billing=billing)
    life.run(30 * MINUTE)
    [node] = life.world.lives
    assert node.gone_at is not None
    assert node.gone_at - START < 26 * MINUTE


@pytest.mark.chores(True)
def test_without_a_heartbeat_nothing_is_removed_and_people_are_told(life: Life) -> None:
    life.submit(a_job())
    life.run(20 * MINUTE)
    life.heartbeats = False
    life.run(HOUR)  # beyond the end of its paid hour
    assert life.writes("retire", "cordon") == []
    assert "The heartbeat alert no longer arrives: no GPU node is removed; growth continues" in life.notices()


def test_a_civo_that_is_silent_for_a_while_changes_nothing_that_was_under_way(life: Life) -> None:
    until_cordoned(life)
    life.cloud.fail_always(TryLater("connection refused"))
    life.run(timedelta(seconds=30))
    life.cloud.fail_always(None)
    life.run(2 * MINUTE)
    assert removed(life) == 1
    assert life.required() == 0


def test_the_ledger_agrees_with_what_civo_charges(life: Life) -> None:
    life.submit(*(a_job(f"j{n}", duration=timedelta(minutes=20 * (n + 1))) for n in range(4)))
    life.run(4 * HOUR)
    spent = life.step().facts.spend.usd
    charged = sum(c.num_hours for c in life.world.charges(START, life.now))
    assert spent == Decimal(str(charged)) * Decimal("1.29")


def test_slow_builds_do_not_buy_twice(store: Store) -> None:
    slow = Timings(create=timedelta(minutes=2), build=timedelta(minutes=8), boot=MINUTE, driver=timedelta(minutes=7))
    life = lives.waiting(store, timings=slow)
    life.run(19 * MINUTE)
    assert life.writes("resize") == [("resize", ("l40s-id", 1))]


@pytest.mark.chores(True)
def test_what_was_observed_is_published_and_outlives_a_restart(life: Life, store: Store) -> None:
    life.mode = "observe"
    sources = replace(life.sources, observed=lambda: ObservedDocument(would_usd=Decimal(10)))
    step(sources, life.hands, life.policy, "observe", life.now)
    life.pass_time(TICK)
    life.step()  # of a new process, which knows nothing yet
    assert kept_picture(store)[0].observed == ObservedDocument(would_usd=Decimal(10))
    life.mode = "act"
    life.step()
    assert kept_picture(store)[0].observed is None


@pytest.mark.chores(True)
def test_a_step_without_readers_decides_and_keeps_no_picture(life: Life, store: Store) -> None:
    life.submit(a_job())
    life.step_without_chores()
    assert [stored.decision.target for stored in store.decisions()] == [1]
    assert store.snapshot() is None
