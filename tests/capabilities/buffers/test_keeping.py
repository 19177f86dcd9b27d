"""CapacityBuffers: the room of their chunks, what is bought for them, the idle nodes they keep, what comes first."""

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from receiver.capabilities.buffers import keeping
from receiver.capabilities.buffers.keeping import KeptBuffer
from receiver.core.explain.explain import State, fates
from receiver.core.model.actions import Decision
from receiver.core.model.model import Node, PoolState, Source, Spend, Stage
from receiver.core.model.policy import Approval, Budget, Limits, Objective, Policy
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.core.model.signals import SignalAction
from receiver.core.scaling.failures import Failures
from receiver.core.scaling.wanted import Assignment
from tests.core.builders import (
    GPU,
    HOUR,
    MINUTE,
    NOW,
    a_busy_node,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_signal,
    a_state,
    all_up,
    an_override,
    assigned,
    facts,
    remedies,
    rules,
    run,
    with_fields,
)
from tests.core.worlds import LAWS, World, worlds
from tests.given.requests import a_buffer, buffer_of

KEPT = re.compile(
    r"(?P<placed>\d+) of (?P<chunks>\d+) chunks? ha(?:s|ve) room(?:, (?P<coming>\d+) of them "
    r"on nodes that are on their way)?"
    r"(?:; (?:(?P<unknown>a price is missing)|\$(?P<usd>[\d.]+) per hour|(?P<paid>on nodes that are paid for anyway)))?"
    r"(?:; (?P<held>.+))?"
)
EIGHT = a_pool(resources={GPU: 8}, price_usd_per_hour=8 * Decimal("1.29"))


def read(answer: RoomAnswer) -> KeptBuffer:
    """What *answer* says in its sentence."""
    said = KEPT.fullmatch(answer.message)
    assert said is not None, answer.message
    coming = int(said["coming"] or 0)
    usd = None if said["unknown"] else Decimal(said["usd"] or 0)
    level = KeptBuffer(
        key=answer.key,
        chunks=int(said["chunks"]),
        ready=int(said["placed"]) - coming,
        coming=coming,
        usd_per_hour=usd,
        held=said["held"] or "",
    )
    assert str(level) == answer.message
    return level


def levels(assignment: Assignment) -> tuple[KeptBuffer, ...]:
    return tuple(map(read, assignment.answers))


def decided(
    *nodes: Node,
    policy: Policy | None = None,
    buffers: Sequence[RoomRequest] = (a_buffer(),),
    state: PoolState | None = None,
    **known: Any,
) -> tuple[Assignment, Decision]:
    found = facts(state or a_state(*nodes), requests=tuple(buffers), **known)
    assignment, decisions = run(found, policy or a_policy())
    return assignment, decisions["l40s"]


def kept(*nodes: Node, **known: Any) -> KeptBuffer:
    [found] = levels(decided(*nodes, **known)[0])
    return found


# --- room and purchases -----------------------------------------------------------------------------------


def test_a_node_is_bought_for_each_chunk_without_room() -> None:
    assignment, decision = decided()
    assert (decision.target, rules(decision, "wants")) == (2, ["buffer"])
    assert levels(assignment) == (KeptBuffer(key="ml/warm", chunks=2, coming=2, usd_per_hour=Decimal("2.58")),)


def test_the_decision_names_the_buffer_and_what_would_end_the_purchase() -> None:
    _, decision = decided()
    assert [r.detail for r in decision.reasons if r.rule == "buffer"] == ["2 more nodes for ml/warm"]
    assert list(remedies(decision, "buffer")) == [
        "no node would be bought with fewer replicas in that CapacityBuffer, or without it"
    ]


def test_chunks_on_free_gpus_of_a_busy_node_cost_no_node() -> None:
    busy = a_busy_node(allocatable={GPU: 8})
    assignment, decision = decided(busy, policy=a_policy(EIGHT))
    assert decision.target == 1
    assert levels(assignment) == (KeptBuffer(key="ml/warm", chunks=2, ready=2),)
    assert str(levels(assignment)[0]) == "2 of 2 chunks have room; on nodes that are paid for anyway"


def test_a_buffer_costs_the_whole_nodes_that_it_keeps() -> None:
    """Three chunks of four GPUs need two nodes of eight."""
    assert kept(policy=a_policy(EIGHT), buffers=[a_buffer(3, gpus=4)]).usd_per_hour == 2 * 8 * Decimal("1.29")


def test_a_node_on_its_way_is_not_bought_twice() -> None:
    building = a_node(stage=Stage.BUILDING)
    assignment, decision = decided(building)
    assert (decision.target, levels(assignment)[0].coming) == (2, 2)


def test_a_node_that_civo_does_not_list_yet_is_not_bought_twice() -> None:
    assert decided(state=a_state(required=2, required_since=NOW))[1].target == 2


def test_chunks_share_a_node_that_holds_several() -> None:
    assert decided(policy=a_policy(EIGHT), buffers=[a_buffer(9)])[1].target == 2


def test_the_cheapest_pool_that_fits_is_bought_from() -> None:
    cheap = a_pool("cheap", price_usd_per_hour=Decimal("0.50"))
    states = (a_state(), a_state(pool="cheap-id"))
    _, decisions = run(facts(*states, requests=(a_buffer(),)), a_policy(a_pool(), cheap))
    assert (decisions["l40s"].target, decisions["cheap"].target) == (0, 2)


def test_many_chunks_go_to_the_pool_that_is_cheapest_for_all_of_them() -> None:
    small = a_pool("small", price_usd_per_hour=Decimal("1.50"))
    states = (a_state(), a_state(pool="small-id"))
    policy = a_policy(EIGHT, small)
    for chunks, wide, narrow in ((8, 1, 0), (2, 0, 2)):
        _, decisions = run(facts(*states, requests=(a_buffer(chunks),)), policy)
        assert (decisions["l40s"].target, decisions["small"].target) == (wide, narrow)


def test_a_chunk_that_fits_no_pool_says_why() -> None:
    found = kept(buffers=[a_buffer(1, gpus=2)])
    assert found.held == "no GPU pool can hold a chunk (l40s: it asks for 2 nvidia.com/gpu, a node offers 1)"


def test_buffers_add_up() -> None:
    assert decided(buffers=[a_buffer(1), a_buffer(2, name="other")])[1].target == 3


def test_a_buffer_without_chunks_or_with_a_problem_asks_for_nothing() -> None:
    empty = buffer_of("ml/empty", a_pod("chunk"))
    broken = buffer_of("ml/broken", None, problem="no template")
    assignment, decision = decided(buffers=[empty, broken])
    assert (decision.target, levels(assignment)) == (0, ())


def test_the_same_gpus_are_not_free_for_two_buffers() -> None:
    assert decided(a_node(), buffers=[a_buffer(1), a_buffer(1, name="other")])[1].target == 2


def test_the_pool_without_a_price_makes_the_buffers_price_unknown() -> None:
    unpriced = a_pool(price_usd_per_hour=None)
    assert kept(a_node(), policy=a_policy(unpriced), buffers=[a_buffer(1)]).usd_per_hour is None


# --- beside other work ------------------------------------------------------------------------------------


def test_waiting_work_takes_the_free_room_and_the_buffer_is_refilled() -> None:
    assignment, decision = decided(a_node(), a_node("n2"), waiting=[a_pod()])
    assert rules(decision, "wants") == ["buffer"]
    assert (decision.target, assignment.pools["l40s-id"].work.settled) == (3, ("ml/train",))


def test_chunks_use_standby_nodes() -> None:
    _, decision = decided(policy=a_policy(a_pool(standby_nodes=1)))
    assert (decision.target, rules(decision, "wants")) == (2, ["standby", "buffer"])


def test_chunks_use_the_room_beside_waiting_work_on_a_new_node() -> None:
    _, decision = decided(policy=a_policy(EIGHT), waiting=[a_pod()])
    assert (decision.target, rules(decision, "wants")) == (1, ["demand"])


def test_chunks_use_headroom() -> None:
    policy = a_policy(objective=Objective.WAIT)
    _, without = decided(policy=policy, buffers=(), waiting=[a_pod(f"p{n}") for n in range(3)])
    _, beside = decided(policy=policy, buffers=[a_buffer(1)], waiting=[a_pod(f"p{n}") for n in range(3)])
    assert "headroom" in rules(without, "wants")
    assert without.target == beside.target


# --- idle nodes -------------------------------------------------------------------------------------------


def test_an_idle_node_stays_for_a_chunk_and_goes_with_the_buffer() -> None:
    _, stays = decided(a_due_node(), buffers=[a_buffer(1)])
    _, goes = decided(a_due_node(), buffers=())
    assert (stays.target, goes.target) == (1, 0)
    assert "n1 stays: CapacityBuffer ml/warm keeps it free" in stays.reasons[0].detail


def test_the_idle_node_whose_paid_hour_ends_first_goes() -> None:
    young = a_node("a", created_at=NOW - 10 * MINUTE)
    old = a_due_node("b")
    for nodes in ((young, old), (old, young)):
        assert decided(*nodes, buffers=[a_buffer(1)])[1].candidates == ("i-b",)


def test_a_standby_node_that_holds_a_chunk_counts_for_both() -> None:
    nodes = (a_due_node("a"), a_due_node("b"))
    assert decided(*nodes, policy=a_policy(a_pool(standby_nodes=1)), buffers=[a_buffer(1)])[1].target == 1


def test_a_busy_node_is_not_emptied_while_a_chunk_has_room_on_it() -> None:
    consenting: dict[str, Any] = {"owner": "ReplicaSet/a", "evictable": True}
    small = a_busy_node(
        "n1", allocatable={GPU: 8}, pods=(a_pod("p1", node="n1", **consenting),), created_at=NOW - HOUR + 3 * MINUTE
    )
    other = a_busy_node("n2", allocatable={GPU: 8}, pods=(a_pod("p2", gpus=4, node="n2"),))
    assert decided(small, other, policy=a_policy(EIGHT), buffers=())[1].target == 1
    assert decided(small, other, policy=a_policy(EIGHT), buffers=[a_buffer(1, gpus=7)])[1].target == 2


def test_a_ceiling_takes_the_nodes_of_a_buffer() -> None:
    nodes = (a_node("a"), a_node("b"))
    ceiling = an_override("ceiling", 1)
    assignment, decision = decided(*nodes, overrides=(ceiling,))
    assert decision.target == 1
    assert levels(assignment)[0].held == "no GPU pool can hold a chunk (l40s: beyond its maximum or set aside)"


def test_an_unclear_kubernetes_takes_no_node() -> None:
    assert decided(a_due_node(), buffers=(), sources=all_up(Source.KUBERNETES))[1].target == 1


# --- who comes first --------------------------------------------------------------------------------------


def test_no_buffer_takes_a_pool_beyond_its_maximum() -> None:
    assignment, decision = decided(policy=a_policy(a_pool(max_nodes=1)))
    assert (decision.target, levels(assignment)[0].coming) == (1, 1)
    assert levels(assignment)[0].held == "the pool is at its maximum (pool l40s)"


def test_no_buffer_buys_beyond_the_limits() -> None:
    found = kept(policy=a_policy(limits=Limits(max_gpus=1)))
    assert (found.coming, found.held) == (1, "the limits allow no more nodes (pool l40s)")


def test_no_buffer_buys_beyond_the_budget() -> None:
    found = kept(policy=a_policy(budget=Budget(monthly_usd=Decimal(2))))
    assert (found.coming, found.held) == (1, "the budget does not cover another node (pool l40s)")


def test_a_team_without_budget_gets_no_node_for_its_buffer() -> None:
    budget = Budget(monthly_usd=Decimal(1000), teams={"vision": Decimal(1)})
    spend = Spend(month="2026-11", usd=Decimal(0), teams={})
    found = kept(policy=a_policy(budget=budget), buffers=[a_buffer(labels={"team": "vision"})], spend=spend)
    assert (found.coming, found.held) == (0, "the budget does not cover another node (pool l40s)")


def test_a_budget_that_holds_drops_buffers_and_their_idle_nodes() -> None:
    spend = Spend(month="2026-11", usd=Decimal(85))
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100)))
    assignment, decision = decided(a_due_node(), policy=policy, spend=spend)
    assert decision.target == 0
    assert levels(assignment)[0].held == "the cluster budget is at its hold line"


def test_a_budget_that_refuses_waiting_work_drops_buffers() -> None:
    policy = a_policy(EIGHT, budget=Budget(monthly_usd=Decimal(25)))
    waiting = [a_pod(f"p{n}", gpus=8) for n in range(3)]
    assignment, decision = decided(a_due_node(allocatable={GPU: 8}), policy=policy, waiting=waiting)
    assert "buffer" not in rules(decision, "wants")
    assert levels(assignment)[0].held == "a budget does not cover the nodes that come before it"


def test_limits_that_refuse_waiting_work_drop_buffers() -> None:
    waiting = [a_pod(f"p{n}") for n in range(2)]
    found = kept(policy=a_policy(limits=Limits(max_gpus=1)), waiting=waiting)
    assert (found.coming, found.held) == (0, "limits refuse nodes that come before it")


def test_nothing_is_bought_where_refused_work_could_start() -> None:
    gang = [a_pod(f"g{n}", gang="ml/g") for n in range(9)]
    assignment, decision = decided(waiting=gang)
    assert (decision.target, levels(assignment)[0].held) == (0, "growth is held (pool l40s)")


def test_a_gang_that_finds_no_room_takes_no_node_from_a_buffer() -> None:
    gang = [a_pod(f"g{n}", gang="ml/g") for n in range(9)]
    assert decided(a_due_node(), waiting=gang, buffers=[a_buffer(1)])[1].target == 1


def test_a_paused_pool_buys_nothing_for_a_buffer() -> None:
    assert kept(signals=(a_signal(SignalAction.PAUSE_SCALE_UP),)).held == "growth is held (pool l40s)"


def test_a_buffer_makes_no_other_growth_wait_for_an_approval() -> None:
    asks = a_pool(approval=Approval(growth_above_usd_per_hour=Decimal("1.30")))
    _, decision = decided(policy=a_policy(asks), waiting=[a_pod()])
    assert (decision.target, rules(decision, "wants")) == (1, ["demand"])


def test_at_the_stop_of_a_pools_budget_its_idle_nodes_go() -> None:
    policy = a_policy(a_pool(budget_usd=Decimal(10)), budget=Budget(monthly_usd=Decimal(1000)))
    spend = Spend(month="2026-11", usd=Decimal(10), pools={"l40s-id": Decimal(10)})
    assert decided(a_due_node(), policy=policy, buffers=[a_buffer(1)], spend=spend)[1].target == 0


def test_an_error_in_buffers_leaves_them_out_and_holds_up_no_waiting_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> KeptBuffer:
        raise RuntimeError("no")

    monkeypatch.setattr(keeping, "_fill", failing)
    failures = Failures()
    found = facts(a_state(), waiting=[a_pod()], requests=(a_buffer(),))
    wanted = assigned(found, a_policy(), failures).pools["l40s-id"]
    assert (wanted.for_demand, wanted.by_source["buffer"], wanted.failed) == (1, 0, "")
    assert [str(failure) for failure in failures.all] == ["RuntimeError: no"]


@LAWS
@given(worlds())
def test_a_buffer_takes_nothing_from_what_comes_before_it(world: World) -> None:
    found, policy = world
    beside = assigned(found, policy).pools
    for pool, alone in assigned(with_fields(found, requests=()), policy).pools.items():
        found_beside = beside[pool]
        for source in ("demand", "floor", "standby", "headroom"):
            assert found_beside.by_source[source] == alone.by_source[source]
        assert replace(found_beside.work, buffers=()) == alone.work
        assert found_beside.nodes.needed == alone.nodes.needed


@LAWS
@given(worlds())
def test_every_chunk_has_room_once_or_a_reason(world: World) -> None:
    found, policy = world
    assignment = assigned(found, policy)
    assert all(
        k.ready + k.coming == k.chunks if not k.held else k.ready + k.coming < k.chunks for k in levels(assignment)
    )
    assert not any(w.by_source["buffer"] for w in assignment.pools.values()) or not assignment.budgets.holding


def test_patient_work_that_shares_a_coming_node_with_chunks_is_told_of_that_node() -> None:
    coming = a_node("n1", stage=Stage.BUILDING, created_at=NOW - MINUTE, idle_since=None)
    pod, policy = a_pod("patient", may_wait=4 * HOUR), a_policy(EIGHT)
    found = facts(a_state(coming), waiting=[pod], requests=(a_buffer(),))
    assignment, decisions = run(found, policy)
    assert assignment.pools["l40s-id"].nodes.needed == {"i-n1"}
    [(_, fate)] = fates(found, assignment, {d.pool: d for d in decisions.values()}, policy)
    assert (fate.state, fate.node) == (State.ON_ITS_WAY, "n1")


def test_a_full_node_is_tried_once_for_all_buffers_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, fill = list[None](), keeping._fill
    monkeypatch.setattr(keeping, "_fill", lambda *given, **how: tried.append(None) or fill(*given, **how))  # type: ignore[func-returns-value]
    nodes = [a_busy_node(f"b{n}") for n in range(20)]
    policy = a_policy(a_pool(max_nodes=20))
    assignment, _ = decided(*nodes, policy=policy, buffers=[a_buffer(1, name=f"warm{n}") for n in range(30)])
    assert {kept.held for kept in levels(assignment)} == {"the pool is at its maximum (pool l40s)"}
    assert len(tried) == 20
