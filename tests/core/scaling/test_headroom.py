"""What is kept warm for what comes next, and which idle nodes go early, where pools differ in size."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.model.actions import Decision, Verdict
from receiver.core.model.model import Node, PoolState, Source, Spend
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Budget, Limits, Objective, Policy, Pool, Taint
from receiver.core.model.windows import Window
from receiver.core.scaling.market import ASKED_WITHIN, USED_WITHIN
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    HOUR,
    HOUR_ENDS_SOON,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    all_up,
    an_override,
    facts,
    run,
)

FEW = settings(max_examples=40, deadline=None)
SMALL = a_pool("small", max_nodes=200)
WIDE = a_pool("wide", resources={GPU: 8}, price_usd_per_hour=8 * Decimal("1.29"))
BOTH = a_policy(SMALL, WIDE)
TO_BE_LET_GO = NOW - timedelta(minutes=90)
HOUR_LONG = timedelta(hours=1)


def asked(count: int, gpus: int = 1) -> list[Pod]:
    return [a_pod(f"p{n:02}", gpus) for n in range(count)]


def ran(count: int) -> tuple[Node, ...]:
    """Small nodes that hold pods of long ago."""
    return tuple(
        a_busy_node(f"b{n:02}", pods=(a_pod(f"r{n}", phase=PodPhase.RUNNING, node=f"b{n:02}", created_at=NOW - HOUR),))
        for n in range(count)
    )


def idle(count: int) -> tuple[Node, ...]:
    """Small idle nodes whose moment has come."""
    return tuple(a_node(f"i{n:02}", created_at=HOUR_ENDS_SOON) for n in range(count))


def decided(
    waiting: Sequence[Pod] = (),
    policy: Policy = BOTH,
    small: PoolState | None = None,
    wide: PoolState | None = None,
    **known: object,
) -> dict[str, Decision]:
    states = (small or a_state(pool="small-id"), wide or a_state(pool="wide-id"))
    return run(facts(*states, waiting=waiting, **known), policy)[1]


def state_of(*nodes: Node, pool: str = "small-id") -> PoolState:
    return a_state(*nodes, pool=pool)


def wide_node(**changes: object) -> Node:
    return a_node("w", allocatable={GPU: 8}, **changes)


def extra(decision: Decision) -> int:
    """Nodes that it wants for what comes next."""
    wants = [r for r in decision.reasons if r.verdict is Verdict.WANTS]
    before = next((a.target for a, b in pairwise(wants) if b.rule == "headroom"), decision.present)
    return next((r.target - before for r in wants if r.rule == "headroom"), 0)


def test_small_nodes_are_bought_for_those_that_follow() -> None:
    decision = decided(asked(3))["small"]
    assert (decision.target, extra(decision)) == (5, 2)
    said = next(r.detail for r in decision.reasons if r.rule == "headroom")
    assert said == "2 GPUs kept warm (3 asked for within 10m): 2 more nodes"


@pytest.mark.parametrize(("count", "more"), [(1, 1), (5, 3), (20, 8), (80, 24)])
def test_headroom_grows_more_slowly_than_what_is_asked_for(count: int, more: int) -> None:
    assert extra(decided(asked(count))["small"]) == more


def test_one_node_is_kept_for_three_hours_after_the_last_pod_came() -> None:
    def after(age: timedelta) -> int:
        pods = [replace(pod, created_at=NOW - age) for pod in asked(5)]
        return extra(decided(pods)["small"])

    assert (after(ASKED_WITHIN), after(USED_WITHIN - timedelta(seconds=1)), after(USED_WITHIN)) == (1, 1, 0)


@pytest.mark.parametrize(("idle_for", "stays"), [(USED_WITHIN - timedelta(seconds=1), 1), (USED_WITHIN, 0)])
def test_the_last_idle_small_node_goes_three_hours_after_its_last_pod_ended(idle_for: timedelta, stays: int) -> None:
    nodes = (a_node(f"i{n}", created_at=HOUR_ENDS_SOON - 4 * HOUR_LONG, idle_since=NOW - idle_for) for n in range(2))
    assert decided(small=state_of(*nodes))["small"].target == stays


def test_each_pool_of_small_nodes_is_kept_warm_for_its_own_pods() -> None:
    pair = a_pool("pair", resources={GPU: 2}, price_usd_per_hour=2 * Decimal("1.29"))
    found = facts(*(a_state(pool=f"{name}-id") for name in ("small", "pair", "wide")), waiting=asked(1, gpus=2))
    decisions = run(found, a_policy(SMALL, pair, WIDE))[1]
    assert {name: extra(decision) for name, decision in decisions.items()} == {"small": 0, "pair": 1, "wide": 0}


@pytest.mark.parametrize(("claims", "more"), [((), 2), (("claim train",), 0)])
def test_gpus_that_are_held_by_claim_warm_no_pool_that_may_not_serve_it(claims: tuple[str, ...], more: int) -> None:
    pods = [a_pod(f"p{n}", phase=PodPhase.RUNNING, node=f"n{n}", claims=claims) for n in range(3)]
    nodes = (a_busy_node(f"n{n}", pods=(pod,)) for n, pod in enumerate(pods))
    found = facts(a_state(pool="small-id"), a_state(*nodes, pool="dear-id"))
    dear = a_pool("dear", price_usd_per_hour=Decimal(2))
    decisions = run(found, a_policy(SMALL, dear, objective=Objective.WAIT))[1]
    assert extra(decisions["small"]) == more


def test_pods_that_a_wide_node_is_for_warm_no_small_one() -> None:
    decisions = decided(asked(3, gpus=8))
    assert (decisions["small"].target, decisions["wide"].target) == (0, 3)


def test_free_gpus_of_wide_nodes_are_no_headroom_of_small_pods() -> None:
    wide = state_of(wide_node(), pool="wide-id")
    assert extra(decided(small=state_of(*ran(1)), wide=wide)["small"]) == 1


def test_nothing_is_bought_while_the_headroom_is_free() -> None:
    held = state_of(*ran(80), a_node("spare1"))
    assert decided(small=held)["small"].target == 81


@pytest.mark.parametrize(
    ("policy", "bought"),
    [
        pytest.param(replace(BOTH, objective=Objective.COST), (3, 0), id="cost"),
        pytest.param(BOTH, (5, 0), id="balanced"),
        pytest.param(replace(BOTH, objective=Objective.WAIT), (5, 0), id="wait"),
        pytest.param(replace(BOTH, billing=EVERY_SECOND), (3, 0), id="balanced, every second billed"),
        pytest.param(a_policy(SMALL, replace(WIDE, price_usd_per_hour=Decimal(16))), (3, 0), id="other GPUs"),
        pytest.param(a_policy(SMALL, replace(WIDE, taints=(Taint(key="wide"),))), (3, 0), id="other taints"),
    ],
)
def test_the_objective_says_where_gpus_are_kept_warm(policy: Policy, bought: tuple[int, int]) -> None:
    decisions = decided(asked(3), policy)
    assert (decisions["small"].target, decisions["wide"].target) == bought


@pytest.mark.parametrize(("objective", "target"), [(Objective.COST, 1), (Objective.BALANCED, 1), (Objective.WAIT, 2)])
def test_a_pool_on_its_own_is_kept_warm_only_where_waits_go_first(objective: Objective, target: int) -> None:
    found = facts(a_state(pool="wide-id"), waiting=asked(7))
    assert run(found, a_policy(WIDE, objective=objective))[1]["wide"].target == target


def test_idle_nodes_stay_while_they_are_the_headroom() -> None:
    decision = decided(small=state_of(*ran(100), *idle(2)))["small"]
    assert decision.target == 101
    stays = decided(small=state_of(*ran(100), *idle(1)))["small"]
    assert stays.reasons[-1].target == 101
    kept = "1 idle node, paid for; the first can be removed at 14:58:00 UTC (1 GPU kept warm (work within 3h))"
    assert kept in [r.detail for r in stays.reasons]


def test_the_decision_names_the_moment_when_the_headroom_falls() -> None:
    pod = a_pod("now", phase=PodPhase.RUNNING, node="n1")
    held = state_of(
        a_busy_node(pods=(pod,), created_at=TO_BE_LET_GO), a_node("spare", created_at=NOW - timedelta(minutes=2))
    )
    moment = decided(small=held)["small"].reconsider_at
    assert moment == pod.created_at + ASKED_WITHIN


def test_nothing_is_kept_warm_while_work_waits_that_a_rule_refuses() -> None:
    limited = replace(BOTH, limits=Limits(max_gpus=9))
    waiting = [*asked(5), *(replace(p, name="w", uid="w") for p in asked(1, gpus=8))]
    decisions = decided(waiting, limited)
    assert extra(decisions["small"]) == 0
    held = decided(waiting, limited, small=state_of(*idle(1), *ran(0)))
    assert extra(held["small"]) == 0


def test_nothing_is_kept_warm_while_kubernetes_is_silent() -> None:
    decisions = decided(asked(3), sources=all_up(Source.KUBERNETES))
    assert decisions["small"].target == 3


def test_nothing_is_kept_warm_while_a_budget_holds() -> None:
    policy = replace(BOTH, budget=Budget(monthly_usd=Decimal(1000)))
    held = state_of(*ran(100), *idle(3))
    spent = Spend(month="2026-11", usd=Decimal(850))
    assert decided((), policy, held, spend=spent)["small"].target == 100


def test_a_window_that_allows_fewer_nodes_leaves_no_headroom() -> None:
    night = replace(SMALL, windows=(Window(name="night", max_nodes=50),))
    held = state_of(*ran(60), *idle(2))
    assert decided((), a_policy(night, WIDE), held)["small"].target == 60


def test_a_pin_is_the_size_whatever_comes() -> None:
    pin = an_override("pin", 3, pool="small-id")
    assert decided(asked(5), overrides=(pin,))["small"].target == 3


# --- wide nodes go early ---


@pytest.mark.parametrize(
    ("policy", "created_at", "stays"),
    [
        pytest.param(BOTH, TO_BE_LET_GO, 0, id="in its second hour"),
        pytest.param(BOTH, NOW - timedelta(minutes=30), 1, id="in its first hour"),
        pytest.param(a_policy(SMALL, WIDE, objective=Objective.COST), TO_BE_LET_GO, 0, id="cost"),
        pytest.param(a_policy(SMALL, WIDE, objective=Objective.WAIT), TO_BE_LET_GO, 1, id="wait"),
        pytest.param(
            a_policy(SMALL, replace(WIDE, price_usd_per_hour=Decimal("9.50"))), TO_BE_LET_GO, 0, id="near price"
        ),
        pytest.param(a_policy(SMALL, replace(WIDE, price_usd_per_hour=Decimal(16))), TO_BE_LET_GO, 1, id="other GPUs"),
        pytest.param(a_policy(replace(SMALL, resources={GPU: 4}), WIDE), TO_BE_LET_GO, 1, id="hardly wider"),
    ],
)
def test_an_idle_wide_node_beside_small_ones_goes_after_its_first_paid_hour(
    policy: Policy, created_at: object, stays: int
) -> None:
    wide = state_of(wide_node(created_at=created_at), pool="wide-id")
    assert decided((), policy, wide=wide)["wide"].target == stays


def test_a_wide_node_that_work_waits_for_stays() -> None:
    wide = state_of(wide_node(created_at=TO_BE_LET_GO), pool="wide-id")
    assert decided(asked(1, gpus=8), wide=wide)["wide"].target == 1


def test_a_wide_node_rests_before_it_goes() -> None:
    resting = wide_node(created_at=TO_BE_LET_GO, idle_since=NOW - timedelta(seconds=9))
    decision = decided(wide=state_of(resting, pool="wide-id"))["wide"]
    assert (decision.target, decision.reconsider_at) == (1, NOW + timedelta(seconds=1))


# --- laws ---


@FEW
@given(
    waiting=st.integers(0, 12),
    held=st.integers(0, 20),
    free=st.integers(0, 4),
    most=st.integers(0, 40),
    gpus=st.none() | st.integers(0, 40),
    growth=st.none() | st.integers(0, 20),
)
def test_headroom_never_asks_for_what_a_rule_refuses(
    waiting: int, held: int, free: int, most: int, gpus: int | None, growth: int | None
) -> None:
    pool: Pool = replace(SMALL, max_nodes=most)
    policy = replace(a_policy(pool, WIDE), limits=Limits(max_gpus=gpus, max_growth_per_hour=growth))
    decision = decided(asked(waiting), policy, state_of(*ran(held), *(a_node(f"f{n:02}") for n in range(free))))[
        "small"
    ]
    assert all(r.verdict is Verdict.ALLOWS for r in decision.reasons[-18:] if extra(decision)), decision.reasons
    assert extra(decision) <= max(waiting, 1)


@FEW
@given(held=st.integers(0, 60), spare=st.integers(0, 5))
def test_idle_nodes_go_down_to_the_headroom(held: int, spare: int) -> None:
    decision = decided(small=state_of(*ran(held), *idle(spare)))["small"]
    assert decision.target - held == (1 if held or spare else 0)
