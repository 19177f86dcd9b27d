"""Ways to spend more than was meant, or to count it wrongly: each happened once."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.core.model.actions import OutcomeKind
from receiver.core.model.model import CordonedBy, Spend
from receiver.core.model.policy import Billing, Budget, Limits
from receiver.ports import Store, TryLater
from receiver.replay.world.objects import Behaviour, PodSpec
from tests.core.builders import HOUR, MINUTE, NOW, a_node, a_pod, a_pool, a_silence, a_state, facts, run
from tests.core.builders import a_policy as core_policy
from tests.expect import removed
from tests.given import lives, troubles
from tests.given.life import GPU, PRICE, a_job, a_policy

pytestmark = pytest.mark.chores(False)

POOL = "kubernetes.civo.com/civo-node-pool"


def test_nodes_that_always_come_up_broken_do_not_fill_the_pool_to_its_maximum(store: Store) -> None:
    life = lives.at_zero(store)
    life.world.faults.odd_status("l40s-id", 100)
    life.submit(a_job())
    life.run(HOUR)
    assert life.required() <= 3


def test_without_kubernetes_a_pod_that_keeps_waiting_is_not_bought_a_node_every_twenty_minutes(store: Store) -> None:
    life = lives.at_zero(store)
    life.world.faults.gpu_never("l40s-id", 100)
    life.submit(a_job())
    troubles.kubernetes_down(life)
    life.run(90 * MINUTE, tick=MINUTE)
    assert life.required() <= 2


def test_an_open_growth_does_not_reserve_its_money_twice(store: Store) -> None:
    budget = Budget(monthly_usd=Decimal("2.00"))  # covers one node of 1.29, not two
    life = lives.waiting(store, budget=budget)
    for _ in range(30):
        life.cloud.fail_next(TryLater("already rescaling", code="cannot_scale_already_rescaling_cluster"), "resize")
    life.run(3 * MINUTE)
    outcomes = [a.outcome.kind for a in life.store.actions() if a.outcome]
    assert OutcomeKind.WITHDRAWN not in outcomes


def test_removals_of_all_pools_in_one_step_stay_within_the_limit() -> None:
    a, b = a_pool("a"), a_pool("b")
    due = {"created_at": NOW - timedelta(minutes=57), "idle_since": NOW - timedelta(minutes=20)}
    states = [a_state(*(a_node(f"{name}{n}", **due) for n in range(3)), pool=f"{name}-id") for name in ("a", "b")]
    policy = core_policy(a, b, limits=Limits(max_removals_per_hour=3))
    _, decisions = run(facts(*states), policy)
    assert sum(d.present - d.target for d in decisions.values()) <= 3


def test_removals_under_way_count_for_the_limit(store: Store) -> None:
    """The count falls late, so the first removal is still open when the second pool's node is due."""
    life = lives.two_pools(
        store, limits=Limits(max_removals_per_hour=1), behaviour=Behaviour(decrement=timedelta(minutes=12))
    )
    life.submit(a_job("ja", node_selector={POOL: "a-id"}))
    life.run(2 * MINUTE)
    life.submit(a_job("jb", node_selector={POOL: "b-id"}))
    life.run(70 * MINUTE)
    assert removed(life) <= 1


def test_growth_confirmed_by_the_look_counts_for_the_hour_in_the_same_step(store: Store) -> None:
    life = lives.two_pools(store, limits=Limits(max_growth_per_hour=1))
    life.submit(a_job("ja", node_selector={"kubernetes.civo.com/civo-node-pool": "a-id"}))
    life.cloud.fail_after(TryLater("no answer", code="timeout"), "resize")
    life.step()
    assert life.required("a-id") == 1
    life.submit(a_job("jb", node_selector={"kubernetes.civo.com/civo-node-pool": "b-id"}))
    life.run(2 * MINUTE)
    assert life.required("a-id") + life.required("b-id") <= 1


def test_growth_that_cannot_be_closed_counts_for_the_hour_of_the_other_pools(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = lives.two_pools(store, limits=Limits(max_growth_per_hour=1))
    life.submit(a_job("ja", node_selector={POOL: "a-id"}))
    life.cloud.fail_after(TryLater("no answer", code="timeout"), "resize")
    life.step()
    assert life.required("a-id") == 1
    monkeypatch.setattr("receiver.step.settle.settled", lambda *_: 1 / 0)
    life.submit(a_job("jb", node_selector={POOL: "b-id"}))
    life.run(2 * MINUTE)
    assert life.required("b-id") == 0


def test_at_the_budget_stop_an_empty_node_goes_even_while_the_floor_asks_for_more() -> None:
    pool = a_pool(min_nodes=2)
    node = a_node(created_at=NOW - timedelta(minutes=57))
    policy = core_policy(pool, budget=Budget(monthly_usd=Decimal(10)))
    spend = Spend(month="2026-11", usd=Decimal(11))
    _, decisions = run(facts(a_state(node), spend=spend), policy)
    assert decisions["l40s"].target == 0


def test_at_the_budget_stop_an_empty_node_goes_even_while_standby_asks_for_more() -> None:
    pool = a_pool(standby_nodes=2)
    node = a_node(created_at=NOW - timedelta(minutes=57))
    policy = core_policy(pool, budget=Budget(monthly_usd=Decimal(10)))
    spend = Spend(month="2026-11", usd=Decimal(11))
    _, decisions = run(facts(a_state(node), spend=spend), policy)
    assert decisions["l40s"].target == 0


def test_nodes_of_a_pool_that_left_the_configuration_still_cost_money(store: Store) -> None:
    life = lives.two_pools(store, budget=Budget(monthly_usd=Decimal(1000)))
    life.submit(a_job("ja", duration=10 * HOUR, node_selector={"kubernetes.civo.com/civo-node-pool": "a-id"}))
    life.run(30 * MINUTE)
    life.policy = replace(life.policy, pools=life.policy.pools[1:])
    life.run(4 * HOUR, tick=MINUTE)
    assert life.steps[-1].facts.spend.usd >= 5 * PRICE


def test_a_price_given_later_also_prices_the_nodes_that_are_gone(store: Store) -> None:
    budget = Budget(monthly_usd=Decimal(1000))
    life = lives.idle_nodes(store, 1, a_pool(price_usd_per_hour=None), budget=budget)
    life.run(MINUTE)
    life.world.resize("l40s-id", 0)
    life.run(5 * MINUTE)
    life.policy = a_policy(budget=budget)
    life.submit(a_job())
    life.run(10 * MINUTE)
    assert life.writes("resize")


def test_a_removal_margin_of_zero_still_lets_nodes_go(store: Store) -> None:
    billing = Billing(removal_margin=timedelta(0))
    life = lives.waiting(store, billing=billing)
    life.run(2 * HOUR)
    assert life.required() == 0


def test_a_removal_margin_of_five_seconds_still_lets_nodes_go(store: Store) -> None:
    billing = Billing(removal_margin=timedelta(seconds=5))
    life = lives.waiting(store, billing=billing)
    life.run(2 * HOUR)
    assert life.required() == 0


def test_an_idle_node_cordoned_by_somebody_else_is_no_standby_node() -> None:
    pool = a_pool(standby_nodes=1)
    theirs = a_node("theirs", cordoned_by=CordonedBy.SOMEONE)
    ours = a_node("ours", created_at=NOW - timedelta(minutes=57))
    _, decisions = run(facts(a_state(theirs, ours)), core_policy(pool))
    assert decisions["l40s"].target == 2


@pytest.mark.chores(True)
def test_a_node_kept_for_a_pod_that_never_lands_there_goes_or_people_are_told(store: Store) -> None:
    pool = a_pool(labels={"gpu": "on-demand"})  # the real nodes carry no such label
    life = lives.waiting(store, a_job(node_selector={"gpu": "on-demand"}), pool=pool)
    life.run(3 * HOUR, tick=MINUTE)
    told = [t for t in life.notices() if "->" not in t]
    assert told or life.required() == 0


def test_a_blocked_pool_does_not_use_up_what_other_pools_may_grow_by() -> None:
    a, b = a_pool("a"), a_pool("b")
    pods = [
        a_pod("old", node_selector={"kubernetes.civo.com/civo-node-pool": "a-id"}, created_at=NOW - HOUR),
        a_pod("new", node_selector={"kubernetes.civo.com/civo-node-pool": "b-id"}),
    ]
    policy = core_policy(a, b, limits=Limits(max_growth_per_hour=1))
    states = (a_state(pool="a-id", silence=a_silence()), a_state(pool="b-id"))
    _, decisions = run(facts(*states, waiting=pods), policy)
    assert decisions["a"].target == 0
    assert decisions["b"].target == 1


def test_a_stop_with_fewer_required_than_living_never_aims_below_zero() -> None:
    nodes = [a_node(f"n{n}", created_at=NOW - timedelta(minutes=57)) for n in range(3)]
    policy = core_policy(budget=Budget(monthly_usd=Decimal(10)))
    found = facts(a_state(*nodes, required=1), spend=Spend(month="2026-11", usd=Decimal(11)))
    _, decisions = run(found, policy)
    assert decisions["l40s"].target >= 0


@pytest.mark.chores(True)
def test_the_observed_growth_of_observe_mode_does_not_use_up_the_hourly_limit(store: Store) -> None:

    life = lives.waiting(store, limits=Limits(max_growth_per_hour=4), mode="observe")
    life.run(10 * MINUTE)
    assert not any("does not grow" in t for t in life.notices())
    assert len(life.store.actions()) <= 2


@pytest.mark.chores(True)  # a record of decisions says for which work growth was observed
def test_an_observed_growth_is_told_once_for_the_same_work_and_again_for_other_work(store: Store) -> None:
    life = lives.at_zero(store, mode="observe")
    for name in ("one", "two"):
        life.world.add_pod(PodSpec(namespace="ml", name=name, requests={GPU: 1}))
        life.run(2 * MINUTE)
        life.world.delete_pod("ml", name)
        life.run(MINUTE)
    assert [(s.action.from_count, s.action.to_count) for s in store.actions()] == [(0, 1), (0, 1)]
