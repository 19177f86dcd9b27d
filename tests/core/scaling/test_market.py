"""Where a new node is bought, and what is kept warm for what comes next where pools differ in size.

Refused work is not demand: nothing is bought or kept for it, and none of it counts as likely to come again.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from receiver.core.model.actions import Decision, Verdict
from receiver.core.model.model import Node, PoolState, Source, Spend
from receiver.core.model.pods import Pod, PodPhase, Preference, Requirement
from receiver.core.model.policy import Budget, Limits, Objective, Policy, Pool, Taint
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.windows import Window
from receiver.core.scaling.assign import assign
from receiver.core.scaling.demand import workloads
from receiver.core.scaling.wanted import ASKED_WITHIN, USED_WITHIN, Assignment
from receiver.core.scaling.witness import request_of
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
    a_silence,
    a_state,
    all_up,
    an_offer,
    an_override,
    facts,
    run,
)
from tests.core.worlds import LAWS, RARE, World, worlds

PASSING = Taint(key="node.kubernetes.io/unschedulable")
FOREIGN = Taint(key="maintenance")


def a_wish(kind: str, weight: int) -> Preference:
    return Preference(weight=weight, term=(Requirement(key="kind", operator="In", values=(kind,)),))


def a_kind(name: str, price: str | None, gpus: int = 1, **changes: Any) -> Pool:
    usd = None if price is None else Decimal(price)
    given = {"resources": {GPU: gpus}, "price_usd_per_hour": usd, "labels": {"kind": name}, "max_nodes": 99}
    return a_pool(name, **{**given, **changes})


def bought(pools: Sequence[Pool], *waiting: Pod, **known: Any) -> dict[str, int]:
    """New nodes by pool, where there is none yet and nothing is kept warm, with what else is *known*."""
    decisions: dict[str, Decision] = run(
        facts(*(a_state(pool=p.id) for p in pools), waiting=waiting, **known),
        a_policy(*pools, objective=Objective.COST),
    )[1]
    return {name: d.target for name, d in decisions.items() if d.target}


# --- which pool is cheapest -------------------------------------------------------------------------------


def test_gpus_that_nobody_waits_for_do_not_make_a_node_cheap() -> None:
    pools = [a_kind("small", "2"), a_kind("large", "8", gpus=8)]
    assert bought(pools, a_pod()) == {"small": 1}
    assert bought(pools, *(a_pod(f"p{n}") for n in range(5))) == {"large": 1}


def test_pods_of_other_pools_do_not_make_a_node_cheap() -> None:
    pools = [a_kind("small", "2"), a_kind("large", "8", gpus=8)]
    others = (a_pod(f"p{n}", node_selector={"kind": "small"}) for n in range(5))
    assert bought(pools, a_pod("any"), *others) == {"small": 6}


def test_pods_that_the_scheduler_refuses_do_not_change_which_node_is_cheap() -> None:
    pools = [a_kind("small", "2"), a_kind("large", "8", gpus=8)]
    refused = [a_pod(f"r{n}", owner="Job/refused", created_at=NOW - HOUR) for n in range(5)]
    request = request_of(workloads(refused)[0])
    refusal = SchedulerRefusal(request=request, configured="", seen_at=NOW, refused_at=NOW, until=NOW + HOUR)
    assert bought(pools, *refused, a_pod(), refusals=(refusal,)) == {"small": 1}
    assert bought(pools, *refused, *(a_pod(f"p{n}") for n in range(5)), refusals=(refusal,)) == {"large": 1}


def test_the_larger_of_those_that_wait_are_counted_first() -> None:
    """A node of four holds the pods of one and of three: 7 USD for four GPUs, not for two."""
    pools = [a_kind("four", "7", gpus=4), a_kind("three", "6", gpus=3)]
    assert bought(pools, a_pod("a"), a_pod("b"), a_pod("c", 3)) == {"four": 1, "three": 1}


def test_with_all_else_alike_the_cheaper_full_node_wins_then_the_name() -> None:
    assert bought([a_kind("b", "1"), a_kind("a", "2", gpus=4)], a_pod()) == {"b": 1}
    assert bought([a_kind("b", "2"), a_kind("a", "2", gpus=4)], a_pod()) == {"a": 1}
    assert bought([a_kind("b", "2"), a_kind("a", "2")], a_pod()) == {"a": 1}


def test_a_pool_without_a_price_comes_last() -> None:
    pools = [a_kind("a", None), a_kind("b", "99")]
    assert bought(pools, a_pod()) == {"b": 1}
    held = facts(a_state(pool="a-id"), a_state(pool="b-id", silence=a_silence()), waiting=[a_pod()])
    assert run(held, a_policy(*pools))[1]["b"].deciding.rule == "not_silenced"  # it is b that is asked


@pytest.mark.parametrize("gang", [None, "ml/train"])
def test_what_the_pods_prefer_goes_before_the_price(gang: str | None) -> None:
    pools = [a_kind("cheap", "1"), a_kind("dear", "9")]
    pods = [a_pod(f"p{n}", gang=gang, preferred=(a_wish("dear", 1),)) for n in range(2)]
    assert bought(pools, *pods) == {"dear": 2}


def test_the_heavier_wish_wins() -> None:
    wishes = (a_wish("a", 10), a_wish("b", 20))
    assert bought([a_kind("a", "1"), a_kind("b", "1")], a_pod(preferred=wishes)) == {"b": 1}


def test_a_gang_is_priced_by_the_nodes_that_it_fills() -> None:
    pools = [a_kind("large", "8", gpus=8), a_kind("small", "2")]

    def gang(size: int) -> list[Pod]:
        return [a_pod(f"p{n}", gang="ml/train") for n in range(size)]

    assert bought(pools, *gang(3)) == {"small": 3}
    assert bought(pools, *gang(5)) == {"large": 1}


@LAWS
@given(
    pods=st.integers(0, 20),
    gpus=st.integers(1, 8),
    cents=st.tuples(st.integers(1, 400), st.integers(1, 3200)),
)
def test_each_new_node_is_the_cheapest_per_gpu_that_is_used_of_it(pods: int, gpus: int, cents: tuple[int, int]) -> None:
    """A focused law: pods of one GPU, a pool of one-GPU nodes and one of larger ones."""
    small, large = cents
    expected = {"small": 0, "large": 0}
    left = pods
    while left > 0:
        used = min(gpus, left)
        # Where a used GPU costs the same, the full node's price per GPU decides, then the name.
        one_of_many = Decimal(large) / used, Decimal(large) / gpus, "large"
        name = min(one_of_many, (Decimal(small), Decimal(small), "small"))[2]
        expected[name] += 1
        left -= used if name == "large" else 1
    pools = [a_kind("large", f"{large / 100:.2f}", gpus=gpus), a_kind("small", f"{small / 100:.2f}")]
    found = bought(pools, *(a_pod(f"p{n:02}") for n in range(pods)))
    assert {name: found.get(name, 0) for name in expected} == expected


def test_work_goes_to_another_pool_where_the_last_node_did_not_fit() -> None:
    cheap, dear = a_kind("cheap", "1"), a_kind("dear", "9")
    states = a_state(pool="cheap-id", offer=an_offer(cheap, taints=(FOREIGN,))), a_state(pool="dear-id")
    decisions = run(facts(*states, waiting=[a_pod()]), a_policy(cheap, dear))[1]
    assert (decisions["cheap"].target, decisions["dear"].target) == (0, 1)


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


SIX_SMALL = a_pool("small", max_nodes=6)
ONE_WIDE = a_pool("wide", resources={GPU: 4}, price_usd_per_hour=4 * Decimal("1.29"), max_nodes=1)
SIX_AND_ONE = a_policy(SIX_SMALL, ONE_WIDE)
TEAM = "team"


def gang(count: int, least: int | None = None, **changes: Any) -> list[Pod]:
    return [a_pod(f"rank{n}", gang="ml/train", gang_min=least, **changes) for n in range(count)]


def decided_for_both(
    waiting: Sequence[Pod], policy: Policy = SIX_AND_ONE, small: Sequence[Node] = (), **known: object
) -> tuple[Assignment, dict[str, Decision]]:
    states = (a_state(*small, pool="small-id"), a_state(pool="wide-id"))
    return run(facts(*states, waiting=waiting, **known), policy)


def target(waiting: Sequence[Pod], policy: Policy = SIX_AND_ONE, small: Sequence[Node] = (), **known: object) -> int:
    return decided_for_both(waiting, policy, small, **known)[1]["small"].target


def test_a_gang_beyond_the_maximum_buys_no_headroom() -> None:
    assert target(gang(8), small=[a_node()]) == 1


def test_a_gang_beyond_the_maximum_keeps_no_idle_node_beyond_its_paid_hour() -> None:
    due = [a_node(f"n{n}", created_at=NOW - timedelta(minutes=57)) for n in range(3)]
    assert target(gang(8), small=due) == 0


def test_a_gang_that_lacks_pods_buys_no_headroom() -> None:
    assert target(gang(5, least=8), small=[a_node()]) == 1


def test_a_gang_that_lacks_pods_leaves_the_headroom_of_others_as_it_is() -> None:
    others = [a_pod(f"p{n}", node_selector={"gpu": "small"}) for n in range(4)]
    small = replace(SIX_SMALL, labels={"gpu": "small"})
    policy = a_policy(small, replace(ONE_WIDE, labels={"gpu": "wide"}))
    elsewhere = gang(3, least=8, node_selector={"gpu": "wide"})
    alone, _ = decided_for_both(others, policy)
    beside, _ = decided_for_both([*others, *elsewhere], policy)
    assert alone.pools["small-id"].by_source["headroom"] == beside.pools["small-id"].by_source["headroom"] == 2


def test_the_pods_of_a_refused_gang_that_got_a_node_count_no_more_than_the_others() -> None:
    """Each one that starts on a warm node would ask for another warm node, up to the maximum."""
    running = [
        a_busy_node(f"n{n}", pods=(a_pod(f"rank{n}", gang="ml/train", phase=PodPhase.RUNNING, node=f"n{n}"),))
        for n in range(3)
    ]
    rest = [a_pod(f"rank{n}", gang="ml/train", gang_min=12) for n in range(3, 12)]
    assert target(rest, small=running, bound_gangs={"ml/train": 3}) == 3
    assignment, decisions = decided_for_both(rest[:-1], small=running, bound_gangs={"ml/train": 3})
    headroom = assignment.pools["small-id"].headroom
    assert headroom is not None
    assert (decisions["small"].target, headroom.asked) == (3, 0)


def test_no_pool_is_kept_warm_while_a_rule_refuses_a_gang() -> None:
    """As with a single pod: idle nodes make room under the limit, and the budget, that the gang waits for."""
    small, wide = replace(SIX_SMALL, labels={"gpu": "small"}), replace(ONE_WIDE, labels={"gpu": "wide"}, max_nodes=8)
    refused = gang(8, node_selector={"gpu": "small"})
    others = [a_pod(f"p{n}", 4, node_selector={"gpu": "wide"}) for n in range(3)]
    policy = a_policy(small, wide, objective=Objective.WAIT)
    assert decided_for_both(others, policy)[1]["wide"].target == 5
    assert decided_for_both([*others, *refused], policy)[1]["wide"].target == 3


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
    policy = a_policy(replace(SIX_SMALL, standby_nodes=1), ONE_WIDE, objective=Objective.COST)
    assert target(waiting, policy) == standby


def test_a_teams_refused_pod_gets_no_spare_node_of_another_pool_that_it_fits() -> None:
    one, two = a_pool("small", standby_nodes=1), a_pool("wide", standby_nodes=1, price_usd_per_hour=Decimal(2))
    budget = Budget(monthly_usd=Decimal(1000), teams={"vision": Decimal(1)})
    waiting = [a_pod(labels={TEAM: "vision"})]
    spend = Spend(month="2026-11", usd=Decimal(0), teams={})
    _, decisions = decided_for_both(waiting, a_policy(one, two, budget=budget), spend=spend)
    assert (decisions["small"].target, decisions["wide"].target) == (0, 0)


# --- laws ---


@RARE
@given(worlds(), st.sampled_from(Objective))
def test_without_the_refused_work_as_much_is_bought_for_later_or_more(world: World, objective: Objective) -> None:
    """What the pools share is left out: a spare node that is not bought leaves more of it to others."""
    found, policy = world
    policy = replace(policy, objective=objective, budget=None, limits=Limits())
    assignment = assign(found, policy)
    refused = {m.workload.key for m in assignment.misfits}
    refused |= {held.workload for wanted in assignment.pools.values() for held in wanted.work.held}
    gone = {p.key for w in workloads(found.waiting, found.other_work.bound_gangs) if w.key in refused for p in w.pods}
    assume(gone)
    without = assign(replace(found, waiting=tuple(p for p in found.waiting if p.key not in gone)), policy)
    for pool, wanted in assignment.pools.items():
        other = without.pools[pool]
        assert wanted.by_source["standby"] <= other.by_source["standby"]
        assert wanted.by_source["headroom"] <= other.by_source["headroom"]
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
    small = replace(SIX_SMALL, standby_nodes=standby, labels={"gpu": "small"})
    policy = a_policy(small, ONE_WIDE, objective=objective)
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
