"""Which pools get how many nodes for what waits: pods, gangs beside single pods, and pods that claim devices."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.devices import CLAIMS, Claim, DeviceRequest, claim_name, kind_name, question_id
from receiver.core.model.model import Backoff, CordonedBy, Node, PoolState, Source, Stage
from receiver.core.model.pods import Pod, PodPhase, Preference, Requirement, Toleration
from receiver.core.model.policy import Budget, Limits, Pool, Taint
from receiver.core.model.signals import SignalAction
from receiver.core.scaling import filling, gangs, placing
from receiver.core.scaling.assign import assign
from receiver.core.scaling.capacity import Tally
from receiver.core.scaling.demand import workloads
from receiver.core.scaling.failures import Failures
from receiver.core.scaling.filling import Seats
from receiver.core.scaling.rooms import Bin
from receiver.core.scaling.rows import Room
from receiver.core.scaling.template import is_believed, offer_of
from receiver.core.scaling.wanted import Wanted
from tests.core.builders import (
    GPU,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_signal,
    a_state,
    all_up,
    facts,
    rules,
    run,
)

COMING = (Stage.BUILDING, Stage.BOOTING, Stage.INSTALLING)


def coming(stage: Stage, name: str = "n1") -> Node:
    return a_node(name, stage=stage, allocatable={}, idle_since=None, created_at=NOW - timedelta(minutes=2))


def test_forty_one_gpu_pods_want_exactly_forty_nodes() -> None:
    pods = [a_pod(f"p{n}") for n in range(40)]
    assignment, _ = run(facts(a_state(), waiting=pods), a_policy(a_pool(max_nodes=100)))
    assert assignment.pools["l40s-id"].new_nodes == 40


@pytest.mark.parametrize("stage", COMING)
def test_a_node_on_its_way_is_not_asked_for_again(stage: Stage) -> None:
    _, decisions = run(facts(a_state(coming(stage)), waiting=[a_pod()]), a_policy())
    assert decisions["l40s"].target == 1


def test_a_node_that_civo_does_not_list_yet_is_not_asked_for_again() -> None:
    _, decisions = run(facts(a_state(required=1), waiting=[a_pod()]), a_policy())
    assert decisions["l40s"].target == 1


def test_pods_share_a_node_that_offers_several_gpus() -> None:
    pool = a_pool(resources={GPU: 8})
    pods = [a_pod("a", 4), a_pod("b", 2), a_pod("c", 2), a_pod("d", 1)]
    assignment, _ = run(facts(a_state(), waiting=pods), a_policy(pool))
    assert assignment.pools[pool.id].new_nodes == 2


def test_free_gpus_of_a_usable_node_are_filled_before_a_node_is_bought() -> None:
    node = a_busy_node(allocatable={GPU: 2})
    assignment, _ = run(facts(a_state(node), waiting=[a_pod()]), a_policy(a_pool(resources={GPU: 2})))
    wanted = assignment.pools["l40s-id"]
    assert (wanted.new_nodes, wanted.nodes.needed) == (0, frozenset({"i-n1"}))


def test_a_node_in_part_use_is_filled_before_an_empty_one() -> None:
    running = a_pod("runs", phase=PodPhase.RUNNING, node="n2")
    nodes = a_node("n1", allocatable={GPU: 2}), a_node("n2", allocatable={GPU: 2}, pods=(running,))
    found = assign(facts(a_state(*nodes), waiting=[a_pod()]), a_policy(a_pool(resources={GPU: 2})))
    assert found.pools["l40s-id"].work.placed == (("ml/train", "i-n2"),)


def test_a_usable_node_that_the_scheduler_ignores_stops_the_buying_and_says_so() -> None:
    _, decisions = run(facts(a_state(a_node()), waiting=[a_pod()]), a_policy())
    decision = decisions["l40s"]
    assert decision.target == 1
    assert "would fit a usable node" in decision.deciding.detail


def test_a_cordon_of_somebody_else_takes_the_node_out_of_the_capacity() -> None:
    node = a_node(cordoned_by=CordonedBy.SOMEONE)
    _, decisions = run(facts(a_state(node), waiting=[a_pod()]), a_policy())
    assert decisions["l40s"].target == 2


def test_a_node_cordoned_by_us_serves_the_pod_that_arrived_meanwhile() -> None:
    node = a_node(cordoned_by=CordonedBy.US)
    assignment, decisions = run(facts(a_state(node), waiting=[a_pod()]), a_policy())
    assert decisions["l40s"].target == 1
    assert assignment.pools["l40s-id"].nodes.needed == {"i-n1"}


@pytest.mark.parametrize(
    ("pods", "targets"),
    [(1, (1, 0)), (6, (6, 0)), (7, (0, 1)), (8, (0, 1)), (10, (2, 1)), (16, (0, 2))],
    ids=["one alone", "six", "seven fill most of it", "eight fill it", "two beside it", "two full ones"],
)
def test_the_pool_that_is_cheapest_per_gpu_that_the_work_uses_is_bought(pods: int, targets: tuple[int, int]) -> None:
    small = a_pool("small", price_usd_per_hour=Decimal("1.29"), max_nodes=20)
    large = a_pool("large", resources={GPU: 8}, price_usd_per_hour=Decimal("8.00"))
    waiting = [a_pod(f"p{n:02}") for n in range(pods)]
    _, decisions = run(
        facts(a_state(pool="small-id"), a_state(pool="large-id"), waiting=waiting), a_policy(small, large)
    )
    assert (decisions["small"].target, decisions["large"].target) == targets


def test_a_preferred_pool_is_bought_although_it_costs_more_and_left_when_it_is_full() -> None:
    cheap, dear = a_pool("cheap"), a_pool("dear", price_usd_per_hour=Decimal(9), labels={"nvlink": "yes"}, max_nodes=1)
    wish = Preference(weight=50, term=(Requirement(key="nvlink", operator="Exists"),))
    waiting = [a_pod(f"p{n}", preferred=(wish,)) for n in range(3)]
    _, decisions = run(facts(a_state(pool="cheap-id"), a_state(pool="dear-id"), waiting=waiting), a_policy(cheap, dear))
    assert (decisions["cheap"].target, decisions["dear"].target) == (2, 1)


def test_a_gang_whose_pods_do_not_all_exist_yet_buys_nothing_and_says_so() -> None:
    waiting = [a_pod(f"rank{n}", gang="ml/train", gang_min=4) for n in range(3)]
    assignment, decisions = run(facts(a_state(), waiting=waiting), a_policy())
    assert decisions["l40s"].target == 0
    [held] = assignment.pools["l40s-id"].work.held
    assert (held.rule, held.detail) == (
        "gang_is_complete",
        "gang ml/train lacks 1 pod of 4; no node helps until they exist",
    )


def test_only_the_minimum_of_an_elastic_gang_must_come_together() -> None:
    waiting = [a_pod(f"rank{n}", gang="ml/train", gang_min=2) for n in range(5)]
    _, decisions = run(facts(a_state(), waiting=waiting), a_policy(a_pool(max_nodes=3)))
    assert decisions["l40s"].target == 3


def test_pods_beyond_the_minimum_of_a_gang_wait_for_it() -> None:
    waiting = [a_pod(f"rank{n}", gang="ml/train", gang_min=4) for n in range(6)]
    assignment, decisions = run(facts(a_state(), waiting=waiting), a_policy(a_pool(max_nodes=3)))
    assert decisions["l40s"].target == 0
    assert [h.rule for h in assignment.pools["l40s-id"].work.held] == ["gangs_whole"] * 3
    _, decisions = run(facts(a_state(), waiting=waiting), a_policy(a_pool(max_nodes=5)))
    assert decisions["l40s"].target == 5


def test_pods_of_a_gang_that_run_count_towards_its_minimum() -> None:
    waiting = [a_pod("rank3", gang="ml/train", gang_min=4)]
    _, decisions = run(facts(a_state(), waiting=waiting, bound_gangs={"ml/train": 3}), a_policy())
    assert decisions["l40s"].target == 1


def test_a_gang_whose_parts_fit_different_pools_is_bought_whole_or_not_at_all() -> None:
    one, two = a_pool("one", labels={"role": "a"}), a_pool("two", labels={"role": "b"})
    waiting = [a_pod(f"r{n}", gang="ml/train", node_selector={"role": "ab"[n % 2]}) for n in range(4)]
    found = facts(a_state(pool="one-id"), a_state(pool="two-id"), waiting=waiting)
    _, decisions = run(found, a_policy(one, two))
    assert (decisions["one"].target, decisions["two"].target) == (2, 2)
    assignment, decisions = run(found, a_policy(one, replace(two, max_nodes=1)))
    assert (decisions["one"].target, decisions["two"].target) == (0, 0)
    assert [h.rule for w in assignment.pools.values() for h in w.work.held] == ["gangs_whole"]


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ({"allocatable": {GPU: 1}}, "it asks for 2 nvidia.com/gpu, a node offers 1"),
        ({"labels": {"other": "label"}}, "its node selector wants gpu=l40s, nodes carry no gpu"),
        ({"taints": (Taint(key="maintenance"),)}, "it does not tolerate the taint maintenance=:NoSchedule"),
    ],
)
def test_a_node_that_came_otherwise_than_configured_stops_the_buying_and_names_the_difference(
    shown: dict[str, Any], why: str
) -> None:
    pool = a_pool(resources={GPU: 2}, labels={"gpu": "l40s"})
    seen = {"seen_since": NOW - timedelta(minutes=20), "usable_since": NOW}
    node = a_busy_node(**{"allocatable": {GPU: 2}, "labels": {"gpu": "l40s"}, **seen, **shown})
    state = a_state(node, offer=offer_of(pool, [node], None, NOW))
    found = facts(state, waiting=[a_pod(gpus=2, node_selector={"gpu": "l40s"})])
    assignment, decisions = run(found, a_policy(pool))
    assert decisions["l40s"].target == 1
    assert [m.detail for m in assignment.misfits] == [
        f"No GPU pool can hold pod ml/train. l40s: node n1 shows otherwise than configured: {why}"
    ]


def test_what_a_node_showed_is_believed_for_a_day_and_for_the_same_configuration() -> None:
    pool = a_pool(labels={"gpu": "l40s"})
    offer = offer_of(pool, [a_node(labels={"gpu": "other"})], None, NOW)
    assert offer is not None
    day = timedelta(hours=24)
    assert is_believed(offer, pool, NOW + day)
    assert not is_believed(offer, pool, NOW + day + timedelta(seconds=1))
    assert not is_believed(offer, replace(pool, labels={"gpu": "l40"}), NOW)


def test_a_node_that_lost_a_gpu_says_nothing_of_the_next_one() -> None:
    pool = a_pool(resources={GPU: 8})
    sound, hurt = (a_node(name, labels={"x": "y"}, allocatable={GPU: n}) for name, n in (("n1", 8), ("n2", 7)))
    before = offer_of(pool, [sound], None, NOW)
    for nodes in ([sound, hurt], [hurt]):
        offer = offer_of(pool, nodes, before, NOW)
        assert offer is not None
        assert offer.allocatable == {GPU: 8}


def test_a_pod_that_fits_many_pools_does_not_take_the_node_that_was_bought_for_one_that_fits_few() -> None:
    here, there = a_pool("here", resources={GPU: 2}), a_pool("there", price_usd_per_hour=Decimal(1), labels={"x": "y"})
    waiting = [
        a_pod("a", node_selector={"kubernetes.civo.com/civo-node-pool": "here-id"}),
        a_pod("b"),
        a_pod("c", node_selector={"x": "y"}),
    ]
    policy = a_policy(here, there)
    _, first = run(facts(a_state(pool="here-id"), a_state(pool="there-id"), waiting=waiting), policy)
    assert (first["here"].target, first["there"].target) == (1, 1)
    bought = [a_state(pool=f"{name}-id", required=1) for name in ("here", "there")]
    _, second = run(facts(*bought, waiting=waiting), policy)
    assert (second["here"].target, second["there"].target) == (1, 1)


def test_a_pool_that_backs_off_leaves_the_pod_to_the_next_one() -> None:
    cheap, dear = a_pool("cheap"), a_pool("dear", price_usd_per_hour=Decimal(9))
    out = Backoff(failures=1, until=NOW + timedelta(minutes=1), reason="gpu_count_exceeded")
    found = facts(a_state(pool="cheap-id", backoff=out), a_state(pool="dear-id"), waiting=[a_pod()])
    _, decisions = run(found, a_policy(cheap, dear))
    assert (decisions["cheap"].target, decisions["dear"].target) == (0, 1)


@pytest.mark.parametrize("gang", [None, "ml/train"], ids=["a pod", "a gang"])
def test_a_node_that_a_guardrail_holds_back_attracts_no_pod_that_another_pool_can_serve(gang: str | None) -> None:
    held = a_pool("held", resources={GPU: 8}, price_usd_per_hour=None, labels={"gpu": "held"})
    first = a_pod("first", node_selector={"gpu": "held"}, priority=10, gang=gang)
    found = facts(a_state(pool="held-id"), a_state(), waiting=[first, a_pod("second")])
    _, decisions = run(found, a_policy(held, a_pool()))
    assert (decisions["held"].target, decisions["l40s"].target) == (0, 1)


def test_a_full_pool_leaves_the_pod_to_the_next_one() -> None:
    cheap, dear = a_pool("cheap", max_nodes=1), a_pool("dear", price_usd_per_hour=Decimal(9))
    found = facts(a_state(a_busy_node(), pool="cheap-id"), a_state(pool="dear-id"), waiting=[a_pod()])
    _, decisions = run(found, a_policy(cheap, dear))
    assert (decisions["cheap"].target, decisions["dear"].target) == (1, 1)


def test_a_pool_whose_count_is_still_to_fall_leaves_the_pod_to_the_next_one() -> None:
    states = a_state(pool="cheap-id", uncounted=1), a_state(pool="dear-id")
    policy = a_policy(a_pool("cheap"), a_pool("dear", price_usd_per_hour=Decimal(3)))
    _, decisions = run(facts(*states, waiting=[a_pod()]), policy)
    assert (decisions["cheap"].target, decisions["dear"].target) == (0, 1)


def test_a_frozen_pool_leaves_the_pod_to_the_next_one() -> None:
    cheap, dear = a_pool("cheap"), a_pool("dear", price_usd_per_hour=Decimal(9))
    found = facts(
        a_state(pool="cheap-id"),
        a_state(pool="dear-id"),
        waiting=[a_pod()],
        signals=(a_signal(SignalAction.FREEZE, "cheap-id"),),
    )
    _, decisions = run(found, a_policy(cheap, dear))
    assert (decisions["cheap"].target, decisions["dear"].target) == (0, 1)


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        pytest.param(a_pod(gpus=16), "asks for 16 nvidia.com/gpu, a node offers 1", id="too many GPUs for a node"),
        pytest.param(a_pod(node_selector={"gpu": "h100"}), "node selector wants gpu=h100", id="selector"),
        pytest.param(
            a_pod(affinity=((Requirement(key="zone", operator="In", values=("b",)),),)),
            "affinity wants zone",
            id="affinity",
        ),
        pytest.param(
            a_pod(requests={"nvidia.com/mig-1g.10gb": 1}), "1 nvidia.com/mig-1g.10gb, a node offers 0", id="MIG"
        ),
    ],
)
def test_a_pod_that_no_pool_fits_is_told_with_the_reason_and_buys_nothing(pod, why) -> None:  # type: ignore[no-untyped-def] # ids above carry the types
    assignment, decisions = run(facts(a_state(), waiting=[pod]), a_policy())
    assert decisions["l40s"].target == 0
    assert why in assignment.misfits[0].detail


def test_a_reason_does_not_repeat_a_megabyte_that_a_pod_lists() -> None:
    values = tuple(f"{n}-{'x' * 200}" for n in range(5000))
    pod = a_pod(affinity=((Requirement(key="zone", operator="In", values=values),),))
    assignment, _ = run(facts(a_state(), waiting=[pod]), a_policy())
    assert len(assignment.misfits[0].detail) < 600
    assert "and 4995 more" in assignment.misfits[0].detail


def test_a_taint_of_the_pool_keeps_out_pods_that_do_not_tolerate_it() -> None:
    pool = a_pool(taints=(Taint(key="gpu", value="true"),))
    tolerant = a_pod("tolerant", tolerations=(Toleration(key="gpu", operator="Exists"),))
    assignment, decisions = run(facts(a_state(), waiting=[tolerant, a_pod("not")]), a_policy(pool))
    assert decisions["l40s"].target == 1
    assert [m.workload.key for m in assignment.misfits] == ["ml/not"]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(daemon=True), id="DaemonSet pod"),
        pytest.param(a_pod(terminating=True), id="terminating pod"),
        pytest.param(a_pod(namespace="gpu-operator"), id="validation pod of the GPU operator"),
        pytest.param(a_pod(phase=PodPhase.OTHER), id="gated pod"),
        pytest.param(a_pod(phase=PodPhase.STARTING, node="n9"), id="pod that pulls its image"),
    ],
)
def test_no_demand_comes_from_a(pod) -> None:  # type: ignore[no-untyped-def] # ids above carry the types
    assert workloads([pod]) == ()


def gang(count: int) -> list:  # type: ignore[type-arg] # of pods
    return [a_pod(f"rank{n}", gang="ml/train") for n in range(count)]


def test_a_gang_gets_all_its_nodes_in_one_decision() -> None:
    _, decisions = run(facts(a_state(), waiting=gang(4)), a_policy())
    assert decisions["l40s"].target == 4


def test_a_gang_that_the_maximum_cannot_hold_buys_nothing_and_says_so() -> None:
    _, decisions = run(facts(a_state(), waiting=gang(4)), a_policy(a_pool(max_nodes=3)))
    assert decisions["l40s"].target == 0
    assert "gangs_whole" in rules(decisions["l40s"], "notes")


def test_a_gang_that_the_budget_cannot_pay_whole_buys_nothing() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(5)))  # 3 first hours fit, 4 do not
    _, decisions = run(facts(a_state(), waiting=gang(4)), policy)
    assert decisions["l40s"].target == 0


def test_a_small_pod_is_served_while_a_gang_waits_for_room() -> None:
    _, decisions = run(facts(a_state(), waiting=[*gang(4), a_pod("alone")]), a_policy(a_pool(max_nodes=3)))
    assert decisions["l40s"].target == 1


def test_a_gang_goes_to_the_pool_that_can_hold_it_whole() -> None:
    cheap, dear = a_pool("cheap", max_nodes=2), a_pool("dear", price_usd_per_hour=Decimal(9))
    found = facts(a_state(pool="cheap-id"), a_state(pool="dear-id"), waiting=gang(4))
    _, decisions = run(found, a_policy(cheap, dear))
    assert (decisions["cheap"].target, decisions["dear"].target) == (0, 4)


def test_two_pools_do_not_spend_the_same_last_dollar() -> None:
    one, two = a_pool("one", labels={"kind": "1"}), a_pool("two", labels={"kind": "2"})
    pods = [a_pod("a", node_selector={"kind": "1"}), a_pod("b", node_selector={"kind": "2"})]
    policy = a_policy(one, two, budget=Budget(monthly_usd=Decimal("2.00")))  # one first hour of 1.29
    _, decisions = run(facts(a_state(pool="one-id"), a_state(pool="two-id"), waiting=pods), policy)
    assert decisions["one"].target + decisions["two"].target == 1


def test_higher_priority_is_served_first_when_the_budget_serves_one() -> None:
    pods = [a_pod("low", node_selector={"kind": "1"}), a_pod("high", node_selector={"kind": "2"}, priority=100)]
    one, two = a_pool("one", labels={"kind": "1"}), a_pool("two", labels={"kind": "2"})
    policy = a_policy(one, two, budget=Budget(monthly_usd=Decimal("2.00")))
    _, decisions = run(facts(a_state(pool="one-id"), a_state(pool="two-id"), waiting=pods), policy)
    assert (decisions["one"].target, decisions["two"].target) == (0, 1)


def test_standby_is_kept_beyond_need_and_dropped_first_by_the_budget() -> None:
    pool = a_pool(standby_nodes=1)
    _, rich = run(facts(a_state(), waiting=[a_pod()]), a_policy(pool))
    _, poor = run(facts(a_state(), waiting=[a_pod()]), a_policy(pool, budget=Budget(monthly_usd=Decimal("1.30"))))
    assert (rich["l40s"].target, poor["l40s"].target) == (2, 1)


def test_the_floor_is_held_without_any_demand() -> None:
    _, decisions = run(facts(a_state()), a_policy(a_pool(min_nodes=2)))
    assert decisions["l40s"].target == 2


def test_without_kubernetes_demand_comes_from_kube_state_metrics_with_its_pool_hint() -> None:
    one, two = a_pool("one"), a_pool("two", price_usd_per_hour=Decimal(9))
    pod = a_pod(pool_hint="two-id")
    found = facts(a_state(pool="one-id"), a_state(pool="two-id"), waiting=[pod], sources=all_up(Source.KUBERNETES))
    _, decisions = run(found, a_policy(one, two))
    assert (decisions["one"].target, decisions["two"].target) == (0, 1)
    assert decisions["two"].evidence["counted_by"] == "kube-state-metrics"


CHEAP = a_pool("cheap", price_usd_per_hour=Decimal(1), labels={"pool": "cheap"})
DEAR = a_pool("dear", price_usd_per_hour=Decimal("1.50"), labels={"pool": "dear"})
WIDE = a_pool("wide", price_usd_per_hour=Decimal("3.50"), resources={GPU: 4})
JUST_REFUSED = Backoff(failures=1, until=NOW + timedelta(minutes=1), reason="out of stock")


def a_gang(count: int, name: str = "g", gpus: int = 1, **changes: Any) -> list[Pod]:
    return [a_pod(f"{name}{n}", gpus, gang=f"ml/{name}", **changes) for n in range(count)]


def arriving(count: int, name: str = "c", **changes: Any) -> list[Node]:
    given: dict[str, Any] = {"stage": Stage.BOOTING, "allocatable": {}, "idle_since": None, "created_at": NOW}
    return [a_node(f"{name}{n}", **{**given, **changes}) for n in range(count)]


def idle(count: int, name: str = "n", **changes: Any) -> list[Node]:
    return [a_node(f"{name}{n}", **changes) for n in range(count)]


def wanted(
    waiting: Sequence[Pod], *there: tuple[Pool, Sequence[Node]], failures: Failures | None = None, **state: Any
) -> list[Wanted]:
    """What is wanted of each pool; *state* is of the first."""
    states = [a_state(*nodes, pool=pool.id, **(state if n == 0 else {})) for n, (pool, nodes) in enumerate(there)]
    pools = assign(facts(*states, waiting=waiting), a_policy(*(pool for pool, _ in there)), failures).pools
    return [pools[pool.id] for pool, _ in there]


def demand(waiting: Sequence[Pod], *there: tuple[Pool, Sequence[Node]], **state: Any) -> list[int]:
    return [found.for_demand for found in wanted(waiting, *there, **state)]


def taken(waiting: Sequence[Pod], *there: tuple[Pool, Sequence[Node]]) -> list[set[str]]:
    return [{i.removeprefix("i-") for i in found.nodes.needed} for found in wanted(waiting, *there)]


def test_gangs_do_not_make_a_wide_node_cheap_for_a_single_pod() -> None:
    incomplete = [pod for name in "ghij" for pod in a_gang(1, name, gang_min=9)]
    assert demand([a_pod("single"), *incomplete], (CHEAP, ()), (WIDE, ())) == [1, 0]


def test_single_pods_that_wait_beside_a_gang_are_all_counted() -> None:
    incomplete = a_gang(1, gang_min=9, priority=9)
    assert demand([*incomplete, *(a_pod(f"p{n}") for n in range(4))], (CHEAP, ()), (WIDE, ())) == [0, 1]


@pytest.mark.parametrize("count", [2, 30])
def test_gangs_that_ask_for_the_same_are_packed_once_while_no_room_changes(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only node has room for two of the three pods of each gang, and no other may be bought."""
    packed: list[str] = []
    fill = gangs._fill

    def count_and_fill(bins: list[Bin], pods: Sequence[Pod], tally: Tally) -> list[int] | None:
        packed.append(tally.pool.id)
        return fill(bins, pods, tally)

    monkeypatch.setattr(gangs, "_fill", count_and_fill)
    monkeypatch.setattr(placing, "rearranged", lambda *_: iter(()))
    waiting = [pod for n in range(count) for pod in a_gang(3, f"g{n}")]
    node = a_node(allocatable={GPU: 2})
    assignment, _ = run(facts(a_state(node), waiting=waiting), a_policy(a_pool(resources={GPU: 2}, max_nodes=1)))
    assert len(assignment.pools["l40s-id"].work.held) == count
    assert packed == ["l40s-id"]


def test_a_gang_that_asks_for_the_same_as_one_before_is_packed_into_what_that_left() -> None:
    waiting = [pod for name in "gh" for pod in a_gang(2, name)]
    node = a_node(allocatable={GPU: 3})
    assignment, _ = run(facts(a_state(node), waiting=waiting), a_policy(a_pool(resources={GPU: 3}, max_nodes=1)))
    assert assignment.pools["l40s-id"].work.settled == ("ml/g",)
    assert [held.workload for held in assignment.pools["l40s-id"].work.held] == ["ml/h"]


def test_a_gang_that_lacks_pods_takes_no_room() -> None:
    assert taken(a_gang(2, gang_min=3), (CHEAP, idle(2))) == [set()]


def test_a_pool_that_was_just_refused_keeps_its_pods_for_these_seconds() -> None:
    pods = [a_pod(f"p{n}") for n in range(4)]
    assert demand(pods, (CHEAP, ()), (DEAR, ()), backoff=JUST_REFUSED, refused=3) == [4, 0]


@pytest.mark.parametrize(("refused", "fits"), [(5, True), (4, False)])
def test_a_gang_smaller_than_what_civo_refused_is_requested_whole(refused: int, fits: bool) -> None:
    [found] = wanted(a_gang(4), (CHEAP, ()), backoff=JUST_REFUSED, refused=refused)
    assert found.for_demand == (4 if fits else 0)
    assert found.allowed.stock == 4 or not fits


def test_of_two_pools_in_which_it_needs_as_many_new_nodes_a_gang_takes_the_one_that_it_prefers() -> None:
    likes = Preference(weight=10, term=(Requirement(key="pool", operator="In", values=("dear",)),))
    gang = a_gang(2, preferred=(likes,))
    assert demand(gang, (CHEAP, idle(1)), (DEAR, idle(1, "m"))) == [0, 1]
    assert demand(a_gang(2), (CHEAP, idle(1)), (DEAR, idle(1, "m"))) == [1, 0]


def test_of_two_pools_in_which_it_needs_one_new_node_a_gang_takes_the_one_where_that_costs_less() -> None:
    wide = replace(WIDE, price_usd_per_hour=Decimal("2.50"))  # less than two nodes of the other, more than one
    assert demand(a_gang(2), (wide, ()), (DEAR, idle(1))) == [0, 1]
    assert demand(a_gang(2), (wide, ()), (DEAR, ())) == [1, 0]


def test_room_that_a_gang_leaves_on_a_node_on_its_way_is_filled_before_another_is_begun() -> None:
    pairs = replace(DEAR, resources={GPU: 2})
    gang = a_gang(1, priority=9, node_selector={"pool": "dear"})
    assert taken([*gang, a_pod("single")], (CHEAP, arriving(1)), (pairs, arriving(1, "d"))) == [set(), {"d0"}]


def test_two_gangs_take_usable_nodes_rather_than_those_on_their_way() -> None:
    both = [*a_gang(2), *a_gang(2, "h")]
    assert taken(both, (CHEAP, arriving(2)), (DEAR, idle(4))) == [set(), {"n0", "n1", "n2", "n3"}]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_gang_that_scattered_room_does_not_hold_begins_no_node_where_another_pool_has_room(swapped: bool) -> None:
    pairs: dict[str, Any] = {"allocatable": {GPU: 2}}
    stays: dict[str, Any] = {"phase": PodPhase.RUNNING, "owner": "ReplicaSet/web"}
    held = [
        node for n in range(4) for node in idle(1, f"s{n}", idle_since=None, pods=(a_pod(f"on{n}", **stays),), **pairs)
    ]
    first, second = (replace(pool, resources={GPU: 2}) for pool in ((DEAR, CHEAP) if swapped else (CHEAP, DEAR)))
    there = ((first, [*held, *arriving(2)]), (second, idle(2, **pairs)))
    assert taken(a_gang(2, gpus=2), *there) == [set(), {"n0", "n1"}]


def test_a_gang_begins_no_more_nodes_than_it_uses() -> None:
    gang = a_gang(2, priority=9, node_selector={"pool": "dear"})
    there = ((CHEAP, arriving(1)), (DEAR, arriving(3, "d")))
    assert taken([*gang, a_pod("single")], *there) == [{"c0"}, {"d0", "d1"}]


def test_a_bug_in_the_rearranging_is_noted_once_and_costs_a_node_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(_: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(filling._Filling, "saved", raises)
    failures = Failures()
    [found, _] = wanted([a_pod(node_selector={"pool": "cheap"})], (CHEAP, ()), (DEAR, idle(1)), failures=failures)
    assert (found.for_demand, len(failures.all), failures.set_aside) == (1, 1, {})


@pytest.mark.parametrize(("place", "pool"), [(1, 0), (0, 1)], ids=["as many new nodes", "more new nodes"])
def test_another_seating_is_taken_only_if_it_saves_nodes_and_leaves_no_trace_otherwise(
    place: int, pool: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seated(tallies: Sequence[Tally], *_: object) -> Iterator[Seats]:
        """The pod in the other idle node, or in a new one of the other pool."""
        [given] = tallies[0].given
        room = tallies[0].shelves.bins[1] if pool == 0 else tallies[1].new_bin()
        yield [(given.workload, (Room(room, pool, place, {}),))]

    monkeypatch.setattr("receiver.core.scaling.placing.rearranged", seated)
    floor = replace(DEAR, min_nodes=1)
    states = a_state(*idle(2), pool=CHEAP.id), a_state(pool=DEAR.id)
    policy = a_policy(CHEAP, floor, limits=Limits(max_growth_per_hour=1))
    pools = assign(facts(*states, waiting=[a_pod()]), policy).pools
    assert pools[CHEAP.id].nodes.needed == {"i-n0"}
    assert (pools[DEAR.id].for_demand, pools[DEAR.id].by_source["floor"], pools[DEAR.id].allowed.limits) == (0, 1, 1)


GPUS, SLICES = ("gpu",), ("mig",)


def devices(count: int, *answered: tuple[str, ...], of: int | None = None) -> dict[str, int]:
    """What is free of a node of *of* devices that answer these questions, where *count* are free."""
    kind = kind_name(sorted(map(question_id, answered)), (), {}, (), {CLAIMS: 1}, count if of is None else of)
    return {kind: count, CLAIMS: count}


def claiming(name: str, count: int = 1, question: tuple[str, ...] = GPUS, **given: Any) -> Pod:
    way = DeviceRequest(name="r", device_class="gpu", selectors=question, count=count)
    claim = Claim(key=f"ml/{name}", requests=((way,),))
    return a_pod(name, requests={claim_name([claim]): count}, **given)


CLAIMED, OTHER = a_pool("claimed"), a_pool("other")


def new_nodes(*pods: Pod, claimed: PoolState | None = None) -> dict[str, int]:
    """The nodes that are bought in each pool, of which one has two devices a node."""
    state = claimed or a_state(pool=CLAIMED.id, devices=devices(2, GPUS))
    found = assign(facts(state, a_state(pool=OTHER.id), waiting=pods), a_policy(CLAIMED, OTHER))
    return {pool: wanted.allowed.limits for pool, wanted in found.pools.items() if wanted.allowed.limits}


def test_a_node_is_bought_in_the_pool_whose_devices_answer() -> None:
    assert new_nodes(claiming("a"), claiming("b"), claiming("c")) == {CLAIMED.id: 2}
    assert new_nodes(claiming("a", question=SLICES)) == {}
    assert new_nodes(claiming("a", 3)) == {}


def test_a_free_device_serves_a_claim() -> None:
    node = a_node(allocatable={}, devices=devices(2, GPUS))
    state = a_state(node, pool=CLAIMED.id, devices=devices(2, GPUS))
    assert new_nodes(claiming("a", 2), claimed=state) == {}
    assert new_nodes(claiming("a"), claiming("b", 2), claimed=state) == {CLAIMED.id: 1}


def test_a_device_that_a_pod_holds_is_no_room() -> None:
    node = a_busy_node(allocatable={GPU: 1}, devices=devices(0, GPUS, of=1))
    state = a_state(node, pool=CLAIMED.id, devices=devices(1, GPUS))
    assert new_nodes(claiming("a"), claimed=state) == {CLAIMED.id: 1}


def test_a_gang_that_claims_is_bought_whole_or_not_at_all() -> None:
    gang = [claiming(f"g{n}", gang="ml/g", gang_min=5) for n in range(5)]
    assert new_nodes(*gang) == {CLAIMED.id: 3}
    assert new_nodes(*gang[:4]) == {}
    too_many = [claiming(f"g{n}", 2, gang="ml/g", gang_min=9) for n in range(9)]  # the pool has eight nodes at most
    assert new_nodes(*too_many) == {}


def test_pods_with_and_without_claims_share_a_pool() -> None:
    state = a_state(pool=CLAIMED.id, devices={**devices(2, GPUS), GPU: 0})
    assert new_nodes(claiming("a"), a_pod("b"), claimed=state) == {CLAIMED.id: 1, OTHER.id: 1}
