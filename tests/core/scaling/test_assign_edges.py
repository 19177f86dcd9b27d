"""What the assignment does at its edges: pools and work that fail, and what one thing leaves for the next."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.model import Backoff, PoolState, Spend, Stage
from receiver.core.model.pods import Pod, PodPhase, Requirement
from receiver.core.model.policy import Budget, KeepOut, Limits, Policy, Pool
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.signals import SignalAction
from receiver.core.scaling import packing
from receiver.core.scaling.assign import assign
from receiver.core.scaling.bounds import BoundsInForce
from receiver.core.scaling.demand import refusal, workloads
from receiver.core.scaling.failures import Failure, Failures
from receiver.core.scaling.wanted import Assignment, Rank, SizeSource, Wanted
from receiver.core.scaling.witness import request_of
from tests.core.builders import (
    GPU,
    HOUR,
    HOUR_ENDS_SOON,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_signal,
    a_state,
    facts,
    run,
)

ONE, TWO = a_pool("one", labels={"pool": "one"}), a_pool("two", labels={"pool": "two"})
POLICY = a_policy(ONE, TWO)


UNREADABLE: Any = object()


def bound_for(pool: str, name: str, **changes: Any) -> Pod:
    return a_pod(name, node_selector={"pool": pool}, **changes)


def test_what_a_pool_wants_is_the_sum_of_what_is_asked_for() -> None:
    bounds = BoundsInForce(min_nodes=0, max_nodes=9, standby_nodes=0)
    wanted = Wanted(pool="p", bounds=bounds, by_source={"demand": 1, "floor": 2, "standby": 4, "headroom": 8})
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


@pytest.mark.parametrize("waiting", [[], [bound_for("two", "p")]], ids=["no work waits", "work waits"])
def test_a_pool_whose_labels_cannot_be_read_is_set_aside_and_the_others_are_served(waiting: list[Pod]) -> None:
    found, failures = facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=waiting), Failures()
    pools = assign(found, a_policy(replace(ONE, labels=UNREADABLE), TWO), failures).pools
    assert list(failures.set_aside) == [ONE.id]
    assert (pools[ONE.id].new_nodes, pools[TWO.id].new_nodes) == (0, len(waiting))


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


def test_a_bug_in_moving_the_work_of_one_pool_sets_that_pool_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(pod: Pod) -> bool:
        raise RuntimeError("a bug")

    monkeypatch.setattr(packing, "consents", fails)
    busy = a_state(a_node("n1", pods=(guest("g"),), **PAIR), pool=ONE.id)
    found, failures = facts(busy, a_state(pool=TWO.id), waiting=[bound_for("two", "p")]), Failures()
    pools = assign(found, POLICY, failures).pools
    assert [(failure.pool, failure.workload) for failure in failures.all] == [(ONE.id, None)]
    assert (pools[ONE.id].failed, pools[TWO.id].new_nodes) == ("RuntimeError: a bug", 1)


def test_running_work_that_cannot_be_moved_to_a_pool_because_of_a_bug_sets_neither_pool_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(pod: Pod, pool: Pool, state: PoolState) -> str | None:
        if (pod.name, pool.id) == ("g", ONE.id):
            raise RuntimeError("a bug")
        return refusal(pod, pool, state)

    monkeypatch.setattr(packing, "refusal", fails)
    work, failures = a_state(a_node("n2", pods=(guest("g"),), **PAIR), pool=TWO.id), Failures()
    assert movable_in(ROOM, work, policy=OF_PAIRS, failures=failures) == frozenset()
    assert [(failure.pool, failure.workload) for failure in failures.all] == [(ONE.id, "ml/ReplicaSet/web")]
    assert failures.set_aside == {}


def test_a_bug_in_what_the_scheduler_refuses_holds_up_no_waiting_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("receiver.core.scaling.assign.barred", fails)
    failures = Failures()
    found = facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=[bound_for("one", "p")])
    pools = assign(found, POLICY, failures).pools
    assert (pools[ONE.id].new_nodes, len(failures.all), failures.set_aside) == (1, 1, {})


@pytest.mark.parametrize("rank", Rank)
def test_a_source_of_size_that_fails_even_without_work_of_its_own_is_left_out(rank: Rank) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    failures, source = Failures(), SizeSource(kind="odd", rank=rank, serve=fails)
    found = facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=[bound_for("one", "p")])
    pools = assign(found, POLICY, failures, [source]).pools
    assert (pools[ONE.id].new_nodes, len(failures.all), failures.set_aside) == (1, 1, {})


def test_a_bug_that_belongs_to_no_pool_and_no_work_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("receiver.core.scaling.assign.views", fails)
    with pytest.raises(RuntimeError, match="a bug"):
        assign(facts(a_state(pool=ONE.id)), POLICY, Failures())


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


def movable_in(
    *states: PoolState, policy: Policy = POLICY, failures: Failures | None = None, **known: Any
) -> frozenset[str]:
    """The busy nodes of pool two whose work may move and has room elsewhere."""
    return assign(facts(*states, **known), policy, failures).pools[TWO.id].nodes.movable


def guest(name: str, **changes: Any) -> Pod:
    """A running pod whose owner consents to its being moved."""
    given: dict[str, Any] = {"phase": PodPhase.RUNNING, "evictable": True, "owner": "ReplicaSet/web"}
    return a_pod(name, **{**given, **changes})


PAIR = {"allocatable": {GPU: 2}, "idle_since": None, "created_at": HOUR_ENDS_SOON}
OF_PAIRS = a_policy(*(replace(pool, resources={GPU: 2}) for pool in (ONE, TWO)))
ROOM = a_state(*(a_node(f"n{n}", pods=(guest(f"s{n}", evictable=False),), **PAIR) for n in range(2)), pool=ONE.id)


def test_work_does_not_move_to_a_pool_that_failed_before() -> None:
    work = a_state(a_node("n2", pods=(guest("g"),), **PAIR), pool=TWO.id)
    assert movable_in(ROOM, work, policy=OF_PAIRS) == {"i-n2"}
    assert movable_in(ROOM, work, policy=OF_PAIRS, failures=set_aside(ONE.id)) == frozenset()


@pytest.mark.parametrize(
    ("usd", "kept_out", "moves"),
    [
        pytest.param(0, False, True, id="no hold"),
        pytest.param(90, False, False, id="a hold"),
        pytest.param(0, True, False, id="a hold that has ended and still keeps work out"),
    ],
)
def test_work_that_a_hold_would_keep_out_stays_where_it_runs(usd: int, kept_out: bool, moves: bool) -> None:
    policy = replace(OF_PAIRS, budget=Budget(monthly_usd=Decimal(100), keep_out=KeepOut(namespaces=("ml",))))
    work = a_state(a_node("n2", pods=(guest("g"), guest("f", namespace="web")), **PAIR), pool=TWO.id)
    spend = Spend(month="2026-11", usd=Decimal(usd), teams={})
    found = movable_in(ROOM, work, policy=policy, spend=spend, kept_out={"namespace/ml": NOW} if kept_out else {})
    assert found == ({"i-n2"} if moves else frozenset())


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


def refused(waiting: list[Pod]) -> Assignment:
    """The assignment of *waiting*, whose first workload the scheduler refuses."""
    request = request_of(workloads(waiting)[0])
    refusal = SchedulerRefusal(request=request, configured="", seen_at=NOW, refused_at=NOW, until=NOW + HOUR)
    return assign(facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=waiting, refusals=(refusal,)), POLICY)


@pytest.mark.parametrize(
    ("fits_first", "fits_second", "pool"),
    [
        pytest.param(["one", "two"], ["two"], TWO, id="the one pool that fits all of it"),
        pytest.param(["one"], ["two"], ONE, id="the first of several"),
    ],
)
def test_a_refused_gang_is_named_in_a_pool_that_it_fits(
    fits_first: list[str], fits_second: list[str], pool: Pool
) -> None:
    pools = refused([part("a", *fits_first), part("b", *fits_second)]).pools
    held = {name: [each.rule for each in wanted.work.held] for name, wanted in pools.items() if wanted.work.held}
    assert held == {pool.id: ["scheduler_refuses"]}


def test_pods_beyond_the_minimum_of_a_refused_gang_wait() -> None:
    pools = refused([part(name, "one", least=2) for name in ("a", "b", "c")]).pools
    assert pools[ONE.id].new_nodes == 0
    assert [each.rule for each in pools[ONE.id].work.held] == ["scheduler_refuses", "gangs_whole"]


def test_refused_work_that_may_wait_is_refused_and_does_not_wait_for_a_later_purchase() -> None:
    found = refused([bound_for("one", "p", may_wait=12 * HOUR)])
    assert (found.patient, found.pools[ONE.id].buys_at) == ((), None)
    assert [each.rule for each in found.pools[ONE.id].work.held] == ["scheduler_refuses"]


@pytest.mark.parametrize("name", ["a", "z"])
def test_a_gang_that_fits_nowhere_is_told_with_the_pod_that_does_not_fit(name: str) -> None:
    waiting = [part("m", "one"), part(name, "nowhere")]
    [misfit] = assign(facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=waiting), POLICY).misfits
    assert misfit.detail.startswith("No GPU pool can hold gang ml/g of 2 pods. one: ")
    assert "; two: " in misfit.detail


def test_what_a_gang_in_parts_did_not_get_is_left_for_others() -> None:
    policy = a_policy(ONE, replace(TWO, max_nodes=0), limits=Limits(max_growth_per_hour=1))
    waiting = [part("a", "one"), part("b", "two"), a_pod("single")]
    wanted = assign(facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=waiting), policy).pools[ONE.id]
    assert (wanted.for_demand, wanted.allowed.limits) == (1, 1)


def test_a_part_of_a_gang_goes_to_a_pool_that_is_not_held() -> None:
    cheap = replace(ONE, price_usd_per_hour=Decimal("0.10"))
    third = a_pool("three", labels={"pool": "three"})
    found = facts(
        *(a_state(pool=pool.id) for pool in (cheap, TWO, third)),
        waiting=[part("a", "one", "two"), part("b", "three")],
        signals=(a_signal(SignalAction.FREEZE, cheap.id),),
    )
    pools = assign(found, a_policy(cheap, TWO, third)).pools
    assert [pools[pool.id].for_demand for pool in (cheap, TWO, third)] == [0, 1, 1]


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
        assert wanted.work.gpus == 3
        assert [held.workload for held in wanted.work.held] == ["ml/g"]
        assert (wanted.work.held[0].uncovered is not None) is uncovered


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


def test_a_team_without_a_budget_takes_nothing_from_one() -> None:
    found = facts(a_state(a_node()), waiting=[of_team("p1", "vision"), of_team("p2", "research")], spend=KNOWN)
    assert run(found, a_policy(budget=TEAMS))[1]["l40s"].target == 2


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


# --- work that gets no node -------------------------------------------------------------------------------

PAIRS = a_pool(resources={GPU: 2})
TWO_PODS = [a_pod("p1"), a_pod("p2")]


@pytest.mark.parametrize(
    ("policy", "known", "refused"),
    [
        pytest.param(a_policy(replace(PAIRS, max_nodes=0)), {}, set(), id="by the maximum"),
        pytest.param(a_policy(PAIRS, limits=Limits(max_gpus=0)), {}, set(), id="by a limit"),
        pytest.param(a_policy(PAIRS, budget=Budget(monthly_usd=Decimal(1))), {}, {"ml/p1", "ml/p2"}, id="by a budget"),
        pytest.param(a_policy(PAIRS), {"signals": (a_signal(SignalAction.FREEZE),)}, set(), id="by an alert"),
    ],
)
def test_pods_that_are_held_share_the_node_that_they_would_get(
    policy: Policy, known: dict[str, Any], refused: set[str]
) -> None:
    wanted = assign(facts(a_state(), waiting=TWO_PODS, **known), policy).pools["l40s-id"]
    assert wanted.for_demand == 1
    assert [workload.key for workload in wanted.work.asking] == ["ml/p1", "ml/p2"]
    assert set(wanted.work.refused) == refused


def test_work_that_may_be_bought_for_does_not_wait_in_the_node_of_work_that_may_not() -> None:
    waiting = [of_team("p1", "research"), of_team("p2", "vision")]
    policy = a_policy(PAIRS, budget=Budget(monthly_usd=Decimal(1000), teams={"research": Decimal(1)}))
    wanted = assign(facts(a_state(), waiting=waiting, spend=KNOWN), policy).pools["l40s-id"]
    assert (wanted.for_demand, wanted.allowed.limits) == (2, 1)


CHEAP, DEAR = a_pool("cheap", price_usd_per_hour=Decimal(1)), a_pool("dear", price_usd_per_hour=Decimal("1.50"))
FROZEN = (a_signal(SignalAction.FREEZE, CHEAP.id),)


def asked(waiting: list[Pod], *pools: Pool, **known: Any) -> list[int]:
    """Nodes wanted in each of *pools* for work that waits."""
    policy = a_policy(*pools, **{k: known.pop(k) for k in ("budget", "limits") if k in known})
    found = facts(*(a_state(pool=pool.id) for pool in pools), waiting=waiting, **known)
    wanted = assign(found, policy).pools
    return [wanted[pool.id].for_demand for pool in pools]


@pytest.mark.parametrize("gang", [None, "ml/g"])
def test_work_that_no_pool_gets_a_node_for_waits_for_the_cheapest_that_is_neither_held_nor_full(
    gang: str | None,
) -> None:
    waiting, poor = [a_pod(gang=gang)], Budget(monthly_usd=Decimal("0.10"))

    def told(*pools: Pool, **known: Any) -> list[bool]:
        found = facts(*(a_state(pool=pool.id) for pool in pools), waiting=waiting, **known)
        wanted = assign(found, a_policy(*pools, budget=poor)).pools
        return [wanted[pool.id].work.gpus > 0 for pool in pools]

    assert told(CHEAP, DEAR) == [True, False]
    assert told(CHEAP, DEAR, signals=FROZEN) == [False, True]
    if gang is None:
        assert told(replace(CHEAP, max_nodes=0), DEAR) == [False, True]


def test_work_waits_for_a_pool_that_is_held_rather_than_for_one_that_is_full() -> None:
    full = replace(CHEAP, max_nodes=0)
    frozen = (a_signal(SignalAction.FREEZE, DEAR.id),)
    assert asked([a_pod()], full, DEAR, signals=frozen) == [0, 1]


GANG = [a_pod(f"g{n}", gang="ml/g") for n in range(3)]
REFUSED = Backoff(failures=1, until=NOW + timedelta(minutes=1), reason="out of stock")


@pytest.mark.parametrize(
    ("policy", "state", "met", "why"),
    [
        pytest.param(
            a_policy(a_pool(max_nodes=2)), a_state(), "within_maximum", "3 new nodes", id="beyond the maximum"
        ),
        pytest.param(
            a_policy(limits=Limits(max_gpus=2)), a_state(), "within_limits", "3 new nodes", id="beyond a limit"
        ),
        pytest.param(
            a_policy(a_pool(max_nodes=2)), a_state(a_node()), "within_maximum", "2 new nodes", id="beside an idle node"
        ),
        pytest.param(
            a_policy(budget=Budget(monthly_usd=Decimal(2))), a_state(), "within_budget", "3 new nodes", id="too dear"
        ),
        pytest.param(
            a_policy(a_pool(price_usd_per_hour=None), budget=Budget(monthly_usd=Decimal(2))),
            a_state(),
            "within_budget",
            "3 new nodes",
            id="without a price",
        ),
        pytest.param(
            a_policy(a_pool(max_nodes=2)),
            a_state(backoff=REFUSED, refused=3),
            "within_maximum",
            "3 new nodes",
            id="just refused, and beyond the maximum",
        ),
        pytest.param(a_policy(), a_state(backoff=REFUSED, refused=3), "", "3 new nodes", id="just refused"),
    ],
)
def test_a_gang_that_gets_no_room_is_told_how_many_nodes_it_needs_and_what_leaves_fewer(
    policy: Policy, state: PoolState, met: str, why: str
) -> None:
    wanted = assign(facts(state, waiting=GANG), policy).pools["l40s-id"]
    assert wanted.for_demand == 0
    [held] = wanted.work.held
    assert (held.rule, held.met) == ("gangs_whole", met)
    assert held.detail.startswith(f"gang ml/g needs {why} at once, but ")
    if not met:
        assert held.detail.endswith("Civo has just refused 3 nodes in all for pool l40s")
    elif met == "within_budget" and policy.pools[0].price_usd_per_hour is not None:
        assert held.detail.endswith("spent in 2026-11)") or "within_budget allows fewer (" in held.detail
        assert held.uncovered is not None
    else:
        assert held.detail.endswith(f"guardrail {met} allows fewer")
        assert held.uncovered is None


def test_a_gang_goes_where_it_needs_the_cheapest_new_nodes_beside_what_is_there() -> None:
    pair = GANG[:2]
    coming = a_node("n2", stage=Stage.BOOTING, allocatable={}, idle_since=None, created_at=NOW)
    for there, expected in (((), [2, 0]), ((a_node(),), [0, 1]), ((coming,), [0, 1])):
        found = facts(a_state(pool=CHEAP.id), a_state(*there, pool=DEAR.id), waiting=pair)
        pools = assign(found, a_policy(CHEAP, DEAR)).pools
        assert [pools[pool.id].for_demand for pool in (CHEAP, DEAR)] == expected


def test_a_gang_takes_usable_nodes_rather_than_those_on_their_way() -> None:
    coming = [a_node(f"c{n}", stage=Stage.BOOTING, allocatable={}, idle_since=None, created_at=NOW) for n in range(2)]
    idle = [a_node(f"n{n}") for n in range(2)]
    found = facts(a_state(*coming, pool=CHEAP.id), a_state(*idle, pool=DEAR.id), waiting=GANG[:2])
    pools = assign(found, a_policy(CHEAP, DEAR)).pools
    assert [len(pools[pool.id].nodes.needed) for pool in (CHEAP, DEAR)] == [0, 2]


def test_a_gang_goes_to_a_pool_that_is_not_held() -> None:
    assert asked(GANG, CHEAP, DEAR, signals=FROZEN) == [0, 3]


def test_a_node_that_a_pod_will_use_is_needed_although_a_gang_passes_it_over() -> None:
    nodes = [a_node(f"n{n}", allocatable={GPU: 2}) for n in range(3)]
    gang = [a_pod(f"g{n}", 2, gang="ml/g") for n in range(2)]
    found = facts(a_state(*nodes), waiting=[a_pod("first", priority=9), *gang])
    wanted = assign(found, a_policy(PAIRS)).pools["l40s-id"]
    assert (wanted.for_demand, len(wanted.nodes.needed)) == (0, 3)


def test_a_gang_that_scattered_room_does_not_hold_is_bought_for_where_that_is_cheapest() -> None:
    dear, cheap = replace(DEAR, resources={GPU: 2}), replace(CHEAP, resources={GPU: 2})
    held = [
        a_node(f"n{n}", allocatable={GPU: 2}, idle_since=None, pods=(guest(f"s{n}", evictable=False),))
        for n in range(4)
    ]
    waiting = [a_pod(f"g{n}", 2, gang="ml/g") for n in range(2)]
    found = facts(a_state(*held, pool=DEAR.id), a_state(pool=CHEAP.id), waiting=waiting)
    pools = assign(found, a_policy(dear, cheap)).pools
    assert [pools[pool.id].for_demand for pool in (dear, cheap)] == [0, 2]


def test_two_gangs_do_not_get_the_same_room() -> None:
    others = [a_pod(f"h{n}", gang="ml/h") for n in range(2)]
    three = [a_node(f"n{n}") for n in range(3)]
    wanted = assign(facts(a_state(*three), waiting=[*GANG[:2], *others]), a_policy()).pools["l40s-id"]
    assert (wanted.for_demand, len(wanted.nodes.needed)) == (1, 3)


def test_a_node_on_its_way_that_a_gang_takes_is_there_for_nobody_else() -> None:
    coming = [a_node(f"n{n}", stage=Stage.BOOTING, allocatable={}, idle_since=None, created_at=NOW) for n in range(2)]
    wanted = assign(facts(a_state(*coming), waiting=[*GANG[:2], a_pod("single")]), a_policy()).pools["l40s-id"]
    assert (wanted.for_demand, wanted.work.settled) == (1, ("ml/g",))


def test_a_floor_that_is_bought_is_spare_too() -> None:
    policy = a_policy(a_pool(min_nodes=1, standby_nodes=1))
    assert assign(facts(a_state()), policy).pools["l40s-id"].new_nodes == 1
