"""What the assignment does at its edges: pools and work that fail, and what one thing leaves for the next."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.model import Spend
from receiver.core.model.pods import Pod, Requirement
from receiver.core.model.policy import Budget, Policy
from receiver.core.scaling.assign import Wanted, assign
from receiver.core.scaling.bounds import BoundsInForce
from receiver.core.scaling.failures import Failure, Failures
from tests.core.builders import a_node, a_pod, a_policy, a_pool, a_state, facts, run

ONE, TWO = a_pool("one", labels={"pool": "one"}), a_pool("two", labels={"pool": "two"})
POLICY = a_policy(ONE, TWO)


UNREADABLE: Any = object()


def bound_for(pool: str, name: str) -> Any:
    return a_pod(name, node_selector={"pool": pool})


def test_what_a_pool_wants_is_the_sum_of_what_is_asked_for() -> None:
    bounds = BoundsInForce(min_nodes=0, max_nodes=9, standby_nodes=0)
    wanted = Wanted(pool="p", bounds=bounds, for_demand=1, for_floor=2, for_standby=4, for_headroom=8)
    assert wanted.new_nodes == 15


def test_a_pool_that_cannot_be_read_is_set_aside_and_the_others_are_served() -> None:
    states = (a_state(pool=ONE.id, backoff=UNREADABLE), a_state(pool=TWO.id))
    found = facts(*states, waiting=[a_pod("p1"), bound_for("two", "p2")])
    failures = Failures()
    assignment = assign(found, POLICY, failures)
    assert list(failures.set_aside) == [ONE.id]
    aside, served = assignment.pools[ONE.id], assignment.pools[TWO.id]
    assert (aside.new_nodes, aside.failed) == (0, str(failures.set_aside[ONE.id]))
    assert (aside.bounds.min_nodes, aside.bounds.max_nodes) == (ONE.min_nodes, ONE.max_nodes)
    assert (served.new_nodes, served.failed) == (2, "")
    with pytest.raises(AttributeError):
        assign(found, POLICY)


def test_work_that_cannot_be_read_is_left_out_and_the_rest_is_served() -> None:
    bad = a_pod("bad", requests=UNREADABLE)
    found = facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=[bad, a_pod("good")])
    failures = Failures()
    assignment = assign(found, POLICY, failures)
    assert failures.set_aside == {}
    assert [failure.workload for failure in failures.all] == ["ml/bad"]
    assert sum(wanted.new_nodes for wanted in assignment.pools.values()) == 1
    with pytest.raises(AttributeError):
        assign(found, POLICY)


def set_aside(*pools: str) -> Failures:
    failures = Failures()
    for pool in pools:
        failures.sets_aside(pool, Failure(part="drift", error=ValueError("bug"), pool=pool))
    return failures


def test_nothing_is_bought_in_a_pool_that_failed_before_and_its_room_counts() -> None:
    cheap = replace(ONE, price_usd_per_hour=Decimal("0.10"))
    policy = a_policy(cheap, TWO)
    empty = facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=[a_pod("p1")])
    pools = assign(empty, policy, set_aside(ONE.id)).pools
    assert (pools[ONE.id].new_nodes, pools[TWO.id].new_nodes) == (0, 1)
    assert "bug" in pools[ONE.id].failed
    idle = facts(a_state(a_node(), pool=ONE.id), a_state(pool=TWO.id), waiting=[a_pod("p1")])
    assert assign(idle, policy, set_aside(ONE.id)).pools[TWO.id].new_nodes == 0


# --- gangs ------------------------------------------------------------------------------------------------


def part(name: str, *pools: str, gpus: int = 1, least: int | None = None) -> Pod:
    """A pod of a gang that fits *pools* only."""
    wish = Requirement(key="pool", operator="In", values=pools)
    return a_pod(name, gpus, gang="ml/g", gang_min=least, affinity=((wish,),))


def bought(*waiting: Pod, policy: Policy = POLICY) -> tuple[int, ...]:
    found = facts(*(a_state(pool=pool.id) for pool in policy.pools), waiting=waiting)
    assignment = assign(found, policy)
    return tuple(assignment.pools[pool.id].new_nodes for pool in policy.pools)


def test_a_gang_goes_to_the_one_pool_that_fits_all_of_it() -> None:
    cheap = replace(TWO, price_usd_per_hour=Decimal("0.10"))
    assert bought(part("a", "one", "two"), part("b", "one"), policy=a_policy(ONE, cheap)) == (2, 0)


def test_a_gang_that_no_one_pool_fits_goes_to_several() -> None:
    assert sorted(bought(part("a", "one", "two"), part("b", "one"), part("c", "two"))) == [1, 2]


def test_pods_beyond_the_minimum_of_a_gang_wait_where_its_parts_have_no_room() -> None:
    full = a_policy(ONE, replace(TWO, max_nodes=0))
    assert bought(part("a", "one", least=2), part("b", "two", least=2), part("c", "one", least=2), policy=full) == (
        0,
        0,
    )
    assert bought(part("a", "one", least=2), part("b", "two", least=2), part("c", "one", least=2)) == (2, 1)


def test_a_gang_that_fits_nowhere_is_told_with_the_pod_that_does_not_fit() -> None:
    found = facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=[part("a", "one"), part("b", "one", gpus=9)])
    [misfit] = assign(found, POLICY).misfits
    assert misfit.detail.startswith("No GPU pool can hold gang ml/g of 2 pods. one: ")
    assert "9" in misfit.detail


def test_pods_beyond_the_minimum_of_a_gang_that_fits_nowhere_wait() -> None:
    assert bought(part("a", "one", gpus=9, least=2), part("b", "one", gpus=9, least=2), part("c", "one", least=2)) == (
        0,
        0,
    )


def test_the_gpus_of_a_gang_that_waits_count_and_a_budget_that_refused_it_is_named() -> None:
    gang = [a_pod(f"g{n}", gang="ml/g") for n in range(3)]
    for policy, uncovered in (
        (a_policy(budget=Budget(monthly_usd=Decimal(2))), True),
        (a_policy(a_pool(max_nodes=2)), False),
    ):
        wanted = assign(facts(a_state(), waiting=gang), policy).pools["l40s-id"]
        assert wanted.waiting_gpus == 3
        assert [held.workload for held in wanted.held] == ["ml/g"]
        assert (wanted.held[0].uncovered is not None) is uncovered


# --- budgets of teams -------------------------------------------------------------------------------------

TEAMS = Budget(monthly_usd=Decimal(1000), teams={"research": Decimal(2)})
KNOWN = Spend(month="2026-11", usd=Decimal(0), teams={})


def of_team(name: str, team: str, **changes: Any) -> Pod:
    return a_pod(name, labels={"team": team}, **changes)


def test_what_a_team_will_hold_of_nodes_that_exist_is_not_spent_again() -> None:
    pods = [of_team("p1", "research"), of_team("p2", "research"), of_team("p3", "vision")]
    found = facts(a_state(a_node()), waiting=pods, spend=KNOWN)
    _, decisions = run(found, a_policy(budget=TEAMS))
    assert decisions["l40s"].target == 2  # for the other team
    _, decisions = run(facts(a_state(), waiting=pods[1:], spend=KNOWN), a_policy(budget=TEAMS))
    assert decisions["l40s"].target == 2


def test_a_node_without_a_price_makes_it_unknown_what_a_team_will_hold() -> None:
    policy = a_policy(a_pool("free", price_usd_per_hour=None, labels={"pool": "free"}), ONE, budget=TEAMS)
    pods = [
        of_team("p1", "research", node_selector={"pool": "free"}),
        of_team("p2", "research", node_selector={"pool": "one"}),
    ]
    found = facts(a_state(a_node(), pool="free-id"), a_state(pool=ONE.id), waiting=pods, spend=KNOWN)
    decision = run(found, policy)[1]["one"]
    assert (decision.target, decision.deciding.rule) == (0, "within_budget")
    assert "an.g1.l40s.kube.x1" in decision.deciding.detail
