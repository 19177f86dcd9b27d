"""Pods that are nominated for a node: they fill and keep it, until that lapses."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Decision
from receiver.core.model.model import Node, PoolState, Stage
from receiver.core.model.pods import Nomination, Pod, PodPhase
from receiver.core.scaling.bounds import window_may_evict
from receiver.core.scaling.nominations import HOLDS_FOR, LAPSES_AFTER, believed, in_words, without_misplaced
from receiver.core.scaling.packing import consents
from tests.core.builders import (
    AN_INSTANT,
    GPU,
    MINUTE,
    NOW,
    SECOND,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    facts,
    run,
)
from tests.core.worlds import LAWS


def nominated(name: str = "next", gpus: int = 1, *, node: str = "n1", for_: timedelta = MINUTE, **given: Any) -> Pod:
    """A pod that has been nominated for *node* *for_* so long."""
    held: dict[str, Any] = {"phase": PodPhase.RESERVED, "node": node}
    return a_pod(name, gpus, **{**held, "nomination": Nomination(node=node, since=NOW - for_), **given})


def running(name: str = "old", gpus: int = 1, **given: Any) -> Pod:
    return a_pod(name, gpus, phase=PodPhase.RUNNING, node="n1", **given)


def taken(*pods: Pod, **given: Any) -> Node:
    return a_node(**{"pods": pods, "idle_since": None, "was_usable": True, **given})


def judged(*pods: Pod, **node: Any) -> tuple[Node, tuple[Pod, ...]]:
    """What `without_misplaced` leaves of a node with *pods*, and which are demand again."""
    state, again = without_misplaced(a_state(taken(*pods, **node)), NOW)
    return state.nodes[0], again


def decided(*nodes: Node, waiting: Sequence[Pod] = (), gpus: int = 1) -> Decision:
    _, decisions = run(facts(a_state(*nodes), waiting=list(waiting)), a_policy(a_pool(resources={GPU: gpus})))
    return decisions["l40s"]


# --- a reservation is a pod on its node -------------------------------------------------------------------


def test_a_reserved_node_is_not_removed_at_the_end_of_its_paid_hour() -> None:
    assert decided(a_due_node()).target == 0
    assert decided(a_due_node(pods=(nominated(),), idle_since=None)).target == 1


def test_a_reserved_room_is_not_given_to_other_work() -> None:
    assert decided(taken(nominated()), waiting=[a_pod()]).target == 2


def test_a_reservation_of_a_part_leaves_the_rest() -> None:
    node = taken(nominated(gpus=2), allocatable={GPU: 4})
    assert decided(node, waiting=[a_pod(gpus=2)], gpus=4).target == 1
    assert decided(node, waiting=[a_pod(gpus=3)], gpus=4).target == 2


def test_nothing_is_bought_for_a_pod_with_a_reservation() -> None:
    assert decided(taken(nominated())).target == 1


@pytest.mark.parametrize("may", [consents, window_may_evict])
def test_a_pod_that_is_not_bound_is_never_evicted(may: Any) -> None:
    pod = nominated(evictable=True, owner="ReplicaSet/web")
    assert may(replace(pod, phase=PodPhase.RUNNING))
    assert not may(pod)


# --- when it lapses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("age", [timedelta(0), LAPSES_AFTER - AN_INSTANT])
def test_a_node_that_a_list_lacks_for_a_moment_may_be_there(age: timedelta) -> None:
    pod = nominated(for_=age)
    assert believed(pod, (), NOW) == pod


@pytest.mark.parametrize(
    ("age", "nodes", "why"),
    [
        (LAPSES_AFTER, (), "was nominated to node n1, which does not exist"),
        (HOLDS_FOR, ("n1",), "was nominated to node n1, which it has not been bound to within 15m"),
    ],
    ids=["the node is gone", "it lasts too long"],
)
def test_a_nomination_lapses_and_says_why(age: timedelta, nodes: Sequence[str], why: str) -> None:
    pod = believed(nominated(for_=age), nodes, NOW)
    assert (pod.phase, pod.node) == (PodPhase.WAITING, None)
    assert pod.nomination is not None
    assert in_words(pod.nomination) == why


def test_a_nomination_holds_while_volumes_are_attached() -> None:
    pod = nominated(for_=HOLDS_FOR - AN_INSTANT)
    assert believed(pod, {"n1"}, NOW) == pod


def test_a_bound_pod_has_no_nomination_that_lapses() -> None:
    pod = running(nomination=Nomination(node="n1", since=NOW - 60 * MINUTE))
    assert believed(pod, (), NOW) == pod


def test_a_nominated_pod_whose_node_others_fill_is_demand_again_after_two_minutes() -> None:
    node, again = judged(running(), nominated(for_=LAPSES_AFTER - AN_INSTANT))
    assert ([p.name for p in node.pods], again) == (["old"], ())
    node, (pod,) = judged(running(), nominated(for_=LAPSES_AFTER))
    assert [p.name for p in node.pods] == ["old"]
    assert pod.nomination is not None
    assert in_words(pod.nomination) == "was nominated to node n1, which is full: ml/old holds what it asks for"
    assert decided(node, waiting=[pod]).target == 2


def test_a_preemptor_keeps_its_node_while_its_victims_end() -> None:
    victim = running(leaves_at=NOW + 20 * SECOND)
    node, again = judged(victim, nominated(for_=5 * MINUTE))
    assert ([p.name for p in node.pods], again) == (["old", "next"], ())
    assert decided(node).target == 1


def test_the_room_of_a_victim_is_for_the_preemptor_and_not_for_its_own_successor() -> None:
    node, _ = judged(running(leaves_at=NOW + 20 * SECOND), nominated())
    assert decided(node, waiting=[a_pod("successor")]).target == 2


def test_a_preemptor_does_not_wait_for_a_stuck_victim() -> None:
    _, again = judged(running(leaves_at=NOW - 3 * MINUTE), nominated(for_=5 * MINUTE))
    assert [p.name for p in again] == ["next"]


def test_of_two_nominated_pods_for_one_room_the_first_keeps_it() -> None:
    node, again = judged(nominated("late", for_=3 * MINUTE), nominated("first", for_=4 * MINUTE))
    assert ([p.name for p in node.pods], [p.name for p in again]) == (["first"], ["late"])


def test_the_nominated_pod_of_higher_priority_comes_first() -> None:
    node, _ = judged(nominated("first", for_=4 * MINUTE), nominated("high", for_=3 * MINUTE, priority=10))
    assert [p.name for p in node.pods] == ["high"]


def test_a_pod_that_is_nominated_for_a_node_on_its_way_waits_for_it_as_others_do() -> None:
    node, (pod,) = judged(nominated(), stage=Stage.BOOTING, was_usable=False, allocatable={})
    assert (node.pods, pod.phase) == ((), PodPhase.WAITING)
    assert pod.nomination is not None
    assert in_words(pod.nomination) == ""


def test_a_lapsed_nomination_whose_node_has_room_buys_nothing() -> None:
    waiting = believed(nominated(for_=HOLDS_FOR), {"n1"}, NOW)
    assert decided(a_node(), waiting=[waiting]).target == 1


def test_pools_without_nominations_stay_as_they_are() -> None:
    state = a_state(taken(running()))
    assert without_misplaced(state, NOW)[0] is state


@LAWS
@given(
    asked=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 900)), min_size=1, max_size=4),
    bound=st.integers(0, 4),
    waits=st.lists(st.integers(1, 4), max_size=4),
)
def test_a_reserved_node_is_neither_removed_nor_given_away(
    asked: list[tuple[int, int]], bound: int, waits: list[int]
) -> None:
    """Whatever is nominated, bound and waiting: what fits is kept, what does not is demand or just nominated, and other
    work gets only what is left."""
    pods = [nominated(f"next-{n}", gpus, for_=age * SECOND) for n, (gpus, age) in enumerate(asked)]
    there = [running(gpus=bound)] if bound else []
    state: PoolState = a_state(taken(*there, *pods, allocatable={GPU: 4}))
    state, again = without_misplaced(state, NOW)
    [node] = state.nodes
    kept = [pod for pod in node.pods if pod.reserved]
    assert sum(pod.gpus for pod in kept) <= 4 - bound
    assert all(pod in kept or pod.uid in {p.uid for p in again} or _is_young(pod) for pod in pods)
    waiting = [*again, *(a_pod(f"new-{n}", gpus) for n, gpus in enumerate(waits))]
    pool = a_pool(resources={GPU: 4}, max_nodes=100)
    assignment, decisions = run(facts(state, waiting=waiting), a_policy(pool))
    inside = [given for given in assignment.pools[pool.id].work.rooms if given.rooms[0].instance == "i-n1"]
    assert sum(given.workload.gpus for given in inside) <= 4 - bound - sum(pod.gpus for pod in kept)
    assert not kept or decisions["l40s"].target >= 1


def _is_young(pod: Pod) -> bool:
    return pod.nomination is not None and NOW - pod.nomination.since < LAPSES_AFTER


def test_the_moment_at_which_a_nomination_lapses_is_looked_at_again() -> None:
    node = taken(nominated(for_=HOLDS_FOR - 20 * SECOND), usable_since=NOW - 15 * MINUTE)
    assert decided(node).reconsider_at == NOW + 20 * SECOND
