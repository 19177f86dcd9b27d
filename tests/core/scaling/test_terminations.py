"""The room of a pod that is Terminating: who gets it, until when, and what is bought instead."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Action, ActionKind, Because, Decision, Victim, VictimStage
from receiver.core.model.model import CordonedBy, Node, Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.scaling.terminations import LEAST, NODE_TAKES, STUCK_AFTER
from receiver.core.scaling.wanted import Assignment
from tests.core.builders import (
    DAY,
    GPU,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    facts,
    run,
)
from tests.core.worlds import LAWS

KAI_HALF = "kai.scheduler/gpu-fraction=0.5"


def ending(name: str = "old", gpus: int = 1, *, by: timedelta = 30 * SECOND, node: str = "n1", **changes: Any) -> Pod:
    """A pod on *node* that is Terminating and should be gone *by* then."""
    given: dict[str, Any] = {"phase": PodPhase.RUNNING, "node": node, "leaves_at": NOW + by}
    return a_pod(name, gpus, **{**given, **changes})


def left_by(*pods: Pod, **changes: Any) -> Node:
    """A usable node with *pods*, as wide as they are."""
    given: dict[str, Any] = {"pods": pods, "idle_since": None, "was_usable": True}
    return a_node(**{**given, "allocatable": {GPU: sum(p.gpus for p in pods)}, **changes})


def decided(node: Node, *waiting: Pod, gpus: int = 0, **given: Any) -> tuple[Assignment, Decision]:
    pool = given.pop("pool", a_pool(resources={GPU: gpus or node.allocatable[GPU]}))
    more = given.pop("nodes", ())
    assignment, decisions = run(facts(a_state(node, *more, **given), waiting=waiting), a_policy(pool))
    return assignment, decisions["l40s"]


def bought(node: Node, *waiting: Pod, **given: Any) -> int:
    decision = decided(node, *waiting, **given)[1]
    return decision.target - decision.present


def test_the_successor_of_an_ending_pod_buys_no_node() -> None:
    assignment, decision = decided(left_by(ending(gpus=8)), a_pod("new", 8))
    assert (decision.target, assignment.pools["l40s-id"].nodes.needed) == (1, frozenset({"i-n1"}))
    assert "Terminating" in decision.deciding.detail


@pytest.mark.parametrize(
    ("by", "more"),
    [
        pytest.param(timedelta(0), 0, id="no grace"),
        pytest.param(120 * SECOND, 0, id="two minutes"),
        pytest.param(NODE_TAKES - SECOND, 0, id="just shorter than a node takes"),
        pytest.param(NODE_TAKES, 1, id="as long as a node takes"),
        pytest.param(HOUR, 1, id="an hour"),
        pytest.param(-STUCK_AFTER, 0, id="late, and not stuck yet"),
        pytest.param(-STUCK_AFTER - SECOND, 1, id="stuck"),
        pytest.param(-2 * DAY, 1, id="stuck for days"),
    ],
)
def test_room_is_awaited_while_it_comes_sooner_than_a_node(by: timedelta, more: int) -> None:
    assert bought(left_by(ending(by=by)), a_pod("new")) == more


def test_the_time_that_nodes_of_the_pool_take_decides_how_long_room_is_awaited() -> None:
    node = left_by(ending(by=9 * MINUTE))
    assert bought(node, a_pod("new"), ready_in=10 * MINUTE) == 0
    assert bought(node, a_pod("new"), ready_in=8 * MINUTE) == 1


def test_a_pool_whose_nodes_seem_to_come_at_once_awaits_room_too() -> None:
    assert bought(left_by(ending(by=LEAST - SECOND)), a_pod("new"), ready_in=timedelta(0)) == 0


def test_one_ending_pod_serves_one_successor() -> None:
    waiting = [a_pod(f"new-{n}") for n in range(3)]
    assert bought(left_by(ending()), *waiting) == 2


def test_two_ending_pods_leave_room_for_one_that_is_as_large_as_both() -> None:
    assert bought(left_by(ending("a", 4), ending("b", 4)), a_pod("new", 8)) == 0


def test_what_is_free_and_what_ends_hold_one_pod_together() -> None:
    node = left_by(ending(gpus=4), allocatable={GPU: 8})
    assert bought(node, a_pod("new", 8)) == 0


def test_a_pod_that_stays_keeps_its_part_of_the_room() -> None:
    node = left_by(ending("a", 4), a_pod("b", 4, phase=PodPhase.RUNNING, node="n1"))
    assert bought(node, a_pod("new", 8)) == 1


def test_cpu_that_ends_with_the_pod_counts_as_well() -> None:
    node = left_by(ending(compute={"cpu": 4000}), compute={"cpu": 5000})
    assert bought(node, a_pod("new", compute={"cpu": 5000})) == 0


def test_a_share_of_a_gpu_comes_back() -> None:
    halves = (ending("a", requests={KAI_HALF: 1}), a_pod("b", requests={KAI_HALF: 1}, phase=PodPhase.RUNNING))
    assert bought(left_by(*halves, allocatable={GPU: 1}), a_pod("new", requests={KAI_HALF: 1})) == 0


def test_a_gang_that_is_replaced_gets_the_room_of_its_predecessor() -> None:
    nodes = [left_by(ending(f"old-{n}", 8, node=f"n{n}"), name=f"n{n}") for n in range(2)]
    gang = [a_pod(f"new-{n}", 8, gang="ml/train", gang_min=2) for n in range(2)]
    assert bought(nodes[0], *gang, nodes=nodes[1:]) == 0


def test_the_room_of_a_daemon_set_is_for_its_next_pod_alone() -> None:
    assert bought(left_by(ending(daemon=True)), a_pod("new")) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"stage": Stage.BROKEN, "ready": False, "was_usable": True, "lost_at": NOW - MINUTE},
        {"cordoned_by": CordonedBy.SOMEONE},
        {"maintained": "is maintained by the driver manager"},
        {"sick": "XID 79 on GPU 0"},
    ],
    ids=["lost", "cordoned by others", "maintained", "sick"],
)
def test_a_node_that_takes_no_work_gives_no_room(changes: dict[str, Any]) -> None:
    assert bought(left_by(ending(), **changes), a_pod("new")) == 1


def test_work_that_a_window_evicts_does_not_get_the_room_that_it_leaves() -> None:
    victim = Victim(instance="i-n1", node="n1", stage=VictimStage.CORDONED, since=NOW, because=Because.CONSOLIDATED)
    action = Action(id="r", pool="l40s-id", kind=ActionKind.RETIRE, opened_at=NOW, from_count=1, to_count=0)
    node = left_by(ending(), cordoned_by=CordonedBy.US, cordoned_for="r")
    assignment, _ = decided(node, a_pod("new"), open_action=replace(action, victims=(victim,)))
    assert assignment.pools["l40s-id"].new_nodes == 1


def test_really_free_room_is_taken_first() -> None:
    assignment, _ = decided(left_by(ending()), a_pod("new"), nodes=[a_node("n2")])
    assert assignment.pools["l40s-id"].work.placed == (("ml/new", "i-n2"),)


def test_a_pod_that_waits_for_room_is_not_told_that_a_node_should_fit_it() -> None:
    assignment, _ = decided(left_by(ending()), a_pod("new"))
    wanted = assignment.pools["l40s-id"]
    assert (wanted.work.settled, wanted.work.placed) == (("ml/new",), ())
    assert [room.vacant_at for given in wanted.work.rooms for room in given.rooms] == [NOW + 30 * SECOND]


def test_no_work_is_moved_into_room_that_is_not_free_yet() -> None:
    mover = a_pod("mover", phase=PodPhase.RUNNING, node="n2", evictable=True, owner="ReplicaSet/web")
    nodes = [left_by(ending()), a_busy_node("n2", pods=(mover,))]
    assignment, _ = run(facts(a_state(*nodes)), a_policy())
    assert assignment.pools["l40s-id"].nodes.movable == frozenset()


def test_a_node_with_an_ending_pod_is_never_removed() -> None:
    node = left_by(ending(), created_at=NOW - 57 * MINUTE)
    assert decided(node)[1].target == 1


def test_a_restart_beside_a_standby_node_buys_no_other_standby_node() -> None:
    pool = a_pool(standby_nodes=1)
    assert bought(left_by(ending()), a_pod("new"), pool=pool, nodes=[a_node("n2")]) == 0


def test_a_standby_node_is_bought_beside_one_that_a_pod_leaves_in_an_hour() -> None:
    pool = a_pool(standby_nodes=1)
    assert bought(left_by(ending(by=HOUR)), pool=pool) == 1


def test_the_moment_from_which_an_ending_pod_is_stuck_is_looked_at_again() -> None:
    decision = decided(left_by(ending()), a_pod("new"))[1]
    then = NOW + 30 * SECOND + STUCK_AFTER
    assert decision.reconsider_at is not None
    assert then < decision.reconsider_at <= then + SECOND
    assert bought(left_by(ending(by=NOW - decision.reconsider_at + 30 * SECOND)), a_pod("new")) == 1


@LAWS
@given(
    ends=st.lists(st.tuples(st.integers(1, 4), st.integers(-600, 600)), max_size=4),
    asks=st.lists(st.integers(1, 4), max_size=6),
)
def test_never_more_is_awaited_than_ends(ends: list[tuple[int, int]], asks: list[int]) -> None:
    """Whatever ends and waits, the nodes bought hold all that does not fit into room that comes in time."""
    pods = [ending(f"old-{n}", gpus, by=by * SECOND, node=f"n{n}") for n, (gpus, by) in enumerate(ends)]
    nodes = [left_by(pod, name=f"n{n}", allocatable={GPU: 4}) for n, pod in enumerate(pods)]
    waiting = [a_pod(f"new-{n}", gpus) for n, gpus in enumerate(asks)]
    pool = a_pool(resources={GPU: 4}, max_nodes=100)
    assignment, decisions = run(facts(a_state(*nodes), waiting=waiting), a_policy(pool))
    timely = [-STUCK_AFTER.total_seconds() <= by < NODE_TAKES.total_seconds() for _, by in ends]
    room = sum(4 if comes else 4 - gpus for (gpus, _), comes in zip(ends, timely, strict=True))
    new = decisions["l40s"].target - decisions["l40s"].present
    assert sum(asks) <= room + 4 * new
    assert len(assignment.pools[pool.id].work.rooms) == len(asks)
