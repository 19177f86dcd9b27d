"""Refused work is not demand: nothing is bought or kept for it, and none of it counts as likely to come again."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from receiver.core.model.actions import Decision
from receiver.core.model.model import Node, Spend
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Approval, Budget, Limits, Objective, Policy
from receiver.core.scaling.assign import Assignment, assign
from receiver.core.scaling.demand import workloads
from tests.core.builders import GPU, NOW, a_busy_node, a_node, a_pod, a_policy, a_pool, a_state, facts, run
from tests.core.worlds import LAWS, RARE, World, worlds

SMALL = a_pool("small", max_nodes=6)
WIDE = a_pool("wide", resources={GPU: 4}, price_usd_per_hour=4 * Decimal("1.29"), max_nodes=1)
BOTH = a_policy(SMALL, WIDE)
TEAM = "team"


def gang(count: int, least: int | None = None, **changes: Any) -> list[Pod]:
    return [a_pod(f"rank{n}", gang="ml/train", gang_min=least, **changes) for n in range(count)]


def decided(
    waiting: Sequence[Pod], policy: Policy = BOTH, small: Sequence[Node] = (), **known: object
) -> tuple[Assignment, dict[str, Decision]]:
    states = (a_state(*small, pool="small-id"), a_state(pool="wide-id"))
    return run(facts(*states, waiting=waiting, **known), policy)


def target(waiting: Sequence[Pod], policy: Policy = BOTH, small: Sequence[Node] = (), **known: object) -> int:
    return decided(waiting, policy, small, **known)[1]["small"].target


def test_a_gang_beyond_the_maximum_buys_no_headroom() -> None:
    assert target(gang(8), small=[a_node()]) == 1


def test_a_gang_beyond_the_maximum_keeps_no_idle_node_beyond_its_paid_hour() -> None:
    due = [a_node(f"n{n}", created_at=NOW - timedelta(minutes=57)) for n in range(3)]
    assert target(gang(8), small=due) == 0


def test_a_gang_that_lacks_pods_buys_no_headroom() -> None:
    assert target(gang(5, least=8), small=[a_node()]) == 1


def test_a_gang_that_lacks_pods_leaves_the_headroom_of_others_as_it_is() -> None:
    others = [a_pod(f"p{n}", node_selector={"gpu": "small"}) for n in range(4)]
    small = replace(SMALL, labels={"gpu": "small"})
    policy = a_policy(small, replace(WIDE, labels={"gpu": "wide"}))
    elsewhere = gang(3, least=8, node_selector={"gpu": "wide"})
    alone, _ = decided(others, policy)
    beside, _ = decided([*others, *elsewhere], policy)
    assert alone.pools["small-id"].for_headroom == beside.pools["small-id"].for_headroom == 2


def test_the_pods_of_a_refused_gang_that_got_a_node_count_no_more_than_the_others() -> None:
    """Each one that starts on a warm node would ask for another warm node, up to the maximum."""
    running = [
        a_busy_node(f"n{n}", pods=(a_pod(f"rank{n}", gang="ml/train", phase=PodPhase.RUNNING, node=f"n{n}"),))
        for n in range(3)
    ]
    rest = [a_pod(f"rank{n}", gang="ml/train", gang_min=12) for n in range(3, 12)]
    assert target(rest, small=running, bound_gangs={"ml/train": 3}) == 3
    assignment, decisions = decided(rest[:-1], small=running, bound_gangs={"ml/train": 3})
    headroom = assignment.pools["small-id"].headroom
    assert headroom is not None
    assert (decisions["small"].target, headroom.asked) == (3, 0)


def test_no_pool_is_kept_warm_while_a_rule_refuses_a_gang() -> None:
    """As with a single pod: idle nodes make room under the limit, and the budget, that the gang waits for."""
    small, wide = replace(SMALL, labels={"gpu": "small"}), replace(WIDE, labels={"gpu": "wide"}, max_nodes=8)
    refused = gang(8, node_selector={"gpu": "small"})
    others = [a_pod(f"p{n}", 4, node_selector={"gpu": "wide"}) for n in range(3)]
    policy = a_policy(small, wide, objective=Objective.WAIT)
    assert decided(others, policy)[1]["wide"].target == 5
    assert decided([*others, *refused], policy)[1]["wide"].target == 3


def test_a_gang_of_which_one_pod_fits_nowhere_buys_no_headroom() -> None:
    assert target([*gang(5), a_pod("rank5", 99, gang="ml/train")]) == 0


@pytest.mark.parametrize(
    ("waiting", "standby"),
    [
        pytest.param(gang(8), 0, id="a gang beyond the maximum"),
        pytest.param(gang(3, least=8), 0, id="a gang that lacks pods"),
        pytest.param([a_pod(gpus=99)], 1, id="a pod that fits nowhere cannot take the spare node"),
        pytest.param([], 1, id="nothing"),
    ],
)
def test_no_spare_node_is_bought_where_refused_work_would_start_on_it(waiting: list[Pod], standby: int) -> None:
    policy = a_policy(replace(SMALL, standby_nodes=1), WIDE, objective=Objective.COST)
    assert target(waiting, policy) == standby


def test_a_teams_refused_pod_gets_no_spare_node_of_another_pool_that_it_fits() -> None:
    one, two = a_pool("small", standby_nodes=1), a_pool("wide", standby_nodes=1, price_usd_per_hour=Decimal(2))
    budget = Budget(monthly_usd=Decimal(1000), teams={"vision": Decimal(1)})
    waiting = [a_pod(labels={TEAM: "vision"})]
    spend = Spend(month="2026-11", usd=Decimal(0), teams={})
    _, decisions = decided(waiting, a_policy(one, two, budget=budget), spend=spend)
    assert (decisions["small"].target, decisions["wide"].target) == (0, 0)


ASKS = replace(SMALL, approval=Approval(growth_above_usd_per_hour=Decimal(4)))


def test_nothing_is_kept_warm_for_work_that_waits_for_an_approval() -> None:
    policy = a_policy(ASKS, WIDE)
    assignment, decisions = decided([a_pod(f"p{n}") for n in range(4)], policy)  # 4 nodes cost 5.16
    wanted = assignment.pools["small-id"]
    assert (decisions["small"].target, wanted.for_demand, wanted.for_headroom) == (0, 4, 0)
    assert wanted.headroom is None or wanted.headroom.asked == 0


def test_work_that_needs_no_approval_does_not_wait_for_that_of_its_headroom() -> None:
    assert target([a_pod(f"p{n}") for n in range(3)], a_policy(ASKS, WIDE)) == 3  # 3.87; with headroom 6.45


# --- laws ---


@RARE
@given(worlds(), st.sampled_from(Objective))
def test_without_the_refused_work_as_much_is_bought_for_later_or_more(world: World, objective: Objective) -> None:
    """What the pools share is left out: a spare node that is not bought leaves more of it to others."""
    found, policy = world
    policy = replace(policy, objective=objective, budget=None, limits=Limits())
    assignment = assign(found, policy)
    refused = {m.workload.key for m in assignment.misfits}
    refused |= {held.workload for wanted in assignment.pools.values() for held in wanted.held}
    gone = {p.key for w in workloads(found.waiting, found.bound_gangs) if w.key in refused for p in w.pods}
    assume(gone)
    without = assign(replace(found, waiting=tuple(p for p in found.waiting if p.key not in gone)), policy)
    for pool, wanted in assignment.pools.items():
        other = without.pools[pool]
        assert wanted.for_standby <= other.for_standby
        assert wanted.for_headroom <= other.for_headroom
        assert wanted.headroom is None or (other.headroom is not None and wanted.headroom.gpus <= other.headroom.gpus)


@LAWS
@given(
    pods=st.integers(1, 12),
    least=st.none() | st.integers(9, 16),
    idle=st.integers(0, 4),
    standby=st.integers(0, 3),
    objective=st.sampled_from(Objective),
)
def test_a_refused_gang_buys_nothing_however_many_of_its_pods_start(
    pods: int, least: int | None, idle: int, standby: int, objective: Objective
) -> None:
    """A focused law: a scheduler without gangs puts one pod of it after the other on whatever is free."""
    size = pods if least is None else least
    assume(size > 6)
    small = replace(SMALL, standby_nodes=standby, labels={"gpu": "small"})
    policy = a_policy(small, WIDE, objective=objective)
    there = [a_node(f"n{n}") for n in range(idle)]
    for started in range(min(idle, pods) + 1):
        waiting = gang(pods, size, node_selector={"gpu": "small"})[started:]
        nodes = [
            replace(node, pods=(replace(pod, node=node.name, phase=PodPhase.RUNNING),), idle_since=None)
            for node, pod in zip(there, gang(pods, size), strict=False)
        ]
        now = [*nodes[:started], *there[started:]]
        found = facts(
            a_state(*now, pool="small-id"), a_state(pool="wide-id"), waiting=waiting, bound_gangs={"ml/train": started}
        )
        if not waiting:
            break
        _, decisions = run(found, policy)
        assert (decisions["small"].target, decisions["wide"].target) <= (idle, 0)
