"""Nodes are closed to new work while a budget is at its stop, and exactly our own cordons are undone when it ends."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.adapters.store import open_store
from receiver.core.model.policy import Billing, Budget, BudgetChange, Scope
from receiver.core.notices.money_notices import budget_changed
from receiver.ports import CORDON_ANNOTATION, STOP_ANNOTATION, Store, TryLater, WontWork
from tests.adapters.store.builders import migrated
from tests.core.builders import MINUTE
from tests.expect import closed, nodes, published, removed
from tests.given import lives
from tests.given.life import TICK, a_job

pytestmark = pytest.mark.chores(False)

WHY = "cluster budget 2026-11"


def test_at_the_stop_every_node_is_closed_and_says_why(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    assert [(n.unschedulable, n.annotations.get(STOP_ANNOTATION)) for n in nodes(life)] == [(True, WHY), (True, WHY)]


def test_before_the_stop_no_node_is_closed(store: Store) -> None:
    life = lives.at_the_stop(store, "3.00")  # 86 %: beyond the hold
    life.step()
    assert life.writes("cordon_for_budget") == []


def test_what_runs_goes_on_and_what_waits_does_not_begin(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    life.submit(a_job("waits", priority=1000))
    life.run(5 * MINUTE)
    assert {p.owner_name: p.node is not None for p in life.world.active_pods.values()} == {"runs": True, "waits": False}


@pytest.mark.chores(True)
def test_a_pod_that_waits_at_a_closed_node_is_told_of_the_budget_and_of_nothing_else(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    told = set(life.notices())
    life.submit(a_job("waits"))
    life.run(10 * MINUTE)
    news = set(life.notices()) - told
    assert news == {"GPU pool l40s does not grow: the cluster budget is past its stop line; 1 pod waits"}
    (waiting,) = published(life.store)["waiting"]
    assert (waiting["state"], waiting["rule"]) == ("held", "within_budget")
    assert "the cluster budget is past its stop line" in waiting["detail"]


def test_a_node_that_comes_after_the_line_is_closed_before_its_gpu_is_usable(store: Store) -> None:
    life = lives.at_zero(store, budget=Budget(monthly_usd=Decimal("1.00")))
    life.world.resize("l40s-id", 2)
    life.run(2 * MINUTE)
    assert closed(life) == [True, True]
    assert not any(n.gpus for n in nodes(life))
    life.submit(a_job())
    life.run(5 * MINUTE)
    assert all(n.gpus for n in nodes(life))
    assert all(p.node is None for p in life.world.active_pods.values())


def test_a_closed_node_that_is_empty_goes_at_the_end_of_its_paid_hour_although_work_waits(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    life.submit(a_job("waits"))
    life.run(45 * MINUTE, tick=3 * MINUTE)
    assert life.writes("retire") == []
    life.run(8 * MINUTE, tick=MINUTE)
    assert (removed(life), life.required()) == (1, 1)


@pytest.mark.chores(True)
@pytest.mark.parametrize("usd", ["1000", None], ids=["the budget is raised", "the budget is gone"])
def test_when_the_stop_ends_the_nodes_are_open_again_and_it_is_told(store: Store, usd: str | None) -> None:
    life = lives.at_the_stop(store)
    life.step()
    lives.with_budget(life, usd).step()
    assert [(n.unschedulable, STOP_ANNOTATION in n.annotations) for n in nodes(life)] == [(False, False)] * 2
    assert "GPU pool l40s: nodes are uncordoned" in life.notices()


CLOSED_AGAIN = "GPU pool l40s: nodes are cordoned again"


@pytest.mark.chores(True)
def test_that_nodes_are_closed_again_is_told_where_they_were_opened_in_the_same_month(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    assert CLOSED_AGAIN not in life.notices()
    lives.with_budget(life, "1000").step()
    lives.with_budget(life, "1.00").step()
    assert closed(life) == [True, True]
    assert CLOSED_AGAIN in life.notices()


@pytest.mark.chores(True)
def test_the_month_in_which_nodes_were_opened_is_that_of_the_budgets_zone(store: Store) -> None:
    """In the next one the line of the budget is told anew, and that says that the nodes are closed."""
    life = lives.at_the_stop(store)
    assert life.policy.budget is not None
    life.policy = replace(life.policy, budget=replace(life.policy.budget, timezone="Etc/GMT-14"))
    life.step()
    for hour, usd in ((9, "100000"), (11, "1.00")):  # 23:00, and 01:00 on 1 December
        lives.with_budget(life, usd)
        life.world.advance(life.now.replace(day=30, hour=hour, minute=0))
        life.step()
        life.pass_time(TICK)
        life.step()
    assert closed(life) == [True, True]
    assert "GPU pool l40s: nodes are uncordoned" in life.notices()
    assert CLOSED_AGAIN not in life.notices()


def test_an_allowance_set_at_run_time_opens_the_nodes(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    change = BudgetChange(
        scope=Scope.CLUSTER,
        name="",
        month="2026-11",
        monthly_usd=Decimal(1000),
        who="ada",
        why="one more run",
        at=life.now,
    )
    store.change_budget(change, budget_changed(change, "cluster budget"))
    life.step()
    assert closed(life) == [False, False]


def test_a_new_month_opens_the_nodes(store: Store) -> None:
    life = lives.at_the_stop(store, "5.00")
    life.world.advance(life.now + timedelta(hours=2))  # six paid hours
    life.step()
    assert closed(life) == [True, True]
    life.pauses_are_jumps = True
    life.world.advance(life.now.replace(month=12, day=1, hour=0, minute=0))  # two
    life.step()
    assert closed(life) == [True, True], "one step alone may be under a clock that jumped"
    life.run(TICK + TICK)
    assert closed(life) == [False, False]


@pytest.mark.chores(True)
def test_nobody_is_told_that_a_pod_is_ignored_in_the_moment_in_which_its_node_opens(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    life.submit(a_job("waits"))
    life.run(5 * MINUTE)
    lives.with_budget(life, "1000").step()
    assert not any("is pending although" in title for title in life.notices())


def test_a_cordon_of_somebody_else_is_neither_taken_over_nor_undone(store: Store) -> None:
    life = lives.at_the_stop(store)
    theirs = nodes(life)[0].name
    life.world.patch_node(theirs, unschedulable=True)
    life.step()
    assert STOP_ANNOTATION not in life.world.nodes[theirs].annotations
    lives.with_budget(life, "1000").step()
    assert life.world.nodes[theirs].unschedulable


def test_a_node_that_somebody_makes_schedulable_is_closed_again(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    life.world.patch_node(nodes(life)[0].name, unschedulable=False)
    life.step()
    assert closed(life) == [True, True]


def test_a_lost_store_neither_opens_nor_forgets_what_is_closed(store: Store, tmp_path: Any) -> None:
    life = lives.at_the_stop(store)
    life.step()
    other = open_store(migrated(tmp_path / "new.db"))
    again = lives.restarted(life, other)
    again.accounts.fail_always(TryLater("timeout"))
    again.step()
    assert again.steps[-1].facts.spend.unknown
    assert closed(again) == [True, True]
    lives.with_budget(again, None).run(TICK + TICK)
    other.close()
    assert closed(again) == [False, False]


def test_a_removal_that_is_given_up_leaves_its_node_closed(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    node = next(n.name for n in nodes(life) if not life.world.pods_on(n.name))
    life.cluster.cordon(node, "a-removal")
    life.step()  # nobody knows of that removal: the cordon for it is an orphan
    assert CORDON_ANNOTATION not in life.world.nodes[node].annotations
    assert closed(life) == [True, True]


def test_a_node_that_is_on_its_way_out_stays_cordoned_when_the_stop_ends(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    node = next(n.name for n in nodes(life) if not life.world.pods_on(n.name))
    life.cluster.cordon(node, "a-removal")
    life.cluster.uncordon_for_budget(node)
    assert life.world.nodes[node].unschedulable
    assert life.world.nodes[node].annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION} == {CORDON_ANNOTATION}


def test_nodes_of_a_pool_that_left_the_configuration_are_opened(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    pool = replace(life.policy.pools[0], id="other-id", name="other")
    life.policy = replace(life.policy, pools=(pool,))
    life.step()
    assert closed(life) == [False, False]


def test_after_a_pause_nodes_of_such_a_pool_wait_for_the_second_step_like_all_others(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    life.policy = replace(life.policy, pools=(replace(life.policy.pools[0], id="other-id", name="other"),))
    life.pauses_are_jumps = True
    life.pass_time(20 * MINUTE)
    life.step()
    assert closed(life) == [True, True]
    life.pass_time(MINUTE)
    life.step()
    assert closed(life) == [False, False]


def test_a_pools_own_stop_closes_that_pool(store: Store) -> None:
    life = lives.at_the_stop(store, "1000")
    pool = replace(life.policy.pools[0], budget_usd=Decimal(1))
    life.policy = replace(life.policy, pools=(pool,))
    life.step()
    assert {n.annotations.get(STOP_ANNOTATION) for n in nodes(life)} == {"budget of pool l40s 2026-11"}


def test_a_teams_stop_closes_nothing(store: Store) -> None:
    life = lives.at_the_stop(store, "1000")
    assert life.policy.budget is not None
    life.policy = replace(life.policy, budget=replace(life.policy.budget, teams={"vision": Decimal("0.01")}))
    life.run(3 * MINUTE)
    assert life.writes("cordon_for_budget") == []


@pytest.mark.chores(True)
def test_observe_mode_writes_nothing_and_says_what_would_be_closed(store: Store) -> None:
    life = lives.at_the_stop(store, mode="observe")
    life.step()
    assert life.writes() == []
    assert "GPU pool l40s: 2 nodes would be cordoned (observing)" in life.notices()


@pytest.mark.chores(True)
def test_what_nobody_may_do_is_told_and_holds_up_nothing(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.cluster.fail_next(WontWork("forbidden", code="http_403"), "cordon_for_budget")
    life.step()
    assert "GPU pool l40s: could not cordon nodes" in life.notices()
    life.step()
    assert closed(life) == [True, True]


def test_one_lost_answer_does_not_leave_the_other_nodes_open(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.cluster.fail_next(TryLater("timeout"), "cordon_for_budget")
    life.step()
    assert sorted(closed(life)) == [False, True]
    life.step()
    assert closed(life) == [True, True]


def test_where_seconds_are_billed_an_empty_node_does_not_wait_at_the_stop(store: Store) -> None:
    life = lives.at_the_stop(store, "0.05")
    assert life.policy.budget is not None
    life.policy = replace(life.policy, billing=Billing(granularity=timedelta(seconds=1), removal_margin=timedelta(0)))
    life.run(2 * MINUTE)
    assert removed(life) == 1  # not after idle_for, which is ten minutes


@pytest.mark.chores(True)
def test_the_stops_message_says_that_no_new_work_begins(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    bodies = [n.notice.body for n in store.notices_due(life.now + timedelta(days=1), limit=1000)]
    assert any("Until the stop ends all nodes are cordoned, so no new work starts on them" in b for b in bodies)
