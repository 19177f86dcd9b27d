"""Busy nodes that could be emptied: only with the consent of every pod, and only into room that is there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Because, Decision
from receiver.core.model.model import CordonedBy, Node, PoolState
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Policy, Taint
from receiver.core.model.signals import SignalAction
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import plan
from receiver.core.scaling.packing import consents
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    HOUR_ENDS_SOON,
    MINUTE,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_signal,
    a_state,
    an_offer,
    facts,
    rules,
    run,
)
from tests.core.worlds import LAWS, SAID, World, worlds

PAIR = a_pool(resources={GPU: 2})
YES: dict[str, Any] = {"evictable": True, "owner": "ReplicaSet/web"}
LOW, HIGH = a_signal(SignalAction.SCALE_DOWN), a_signal(SignalAction.HOLD)


def a_guest(name: str, gpus: int = 1, **changes: Any) -> Pod:
    """A running pod whose owner consents to its being moved."""
    return a_pod(name, gpus, phase=PodPhase.RUNNING, **{**YES, **changes})


def holding(name: str, *pods: Pod, gpus: int = 2, **changes: Any) -> Node:
    """A node of *gpus* GPUs at its hour's end that holds *pods*."""
    given: dict[str, Any] = {"created_at": HOUR_ENDS_SOON, "idle_since": None, "allocatable": {GPU: gpus}}
    return a_node(name, **{**given, "pods": pods, **changes})


def staying(name: str = "stays", **changes: Any) -> Node:
    """A two-GPU node that holds one pod whose owner said nothing."""
    return holding(name, a_guest(f"on-{name}", evictable=False), **changes)


def emptied(*nodes: Node, policy: Policy | None = None, **given: Any) -> frozenset[str]:
    wanted = assign(facts(a_state(*nodes), **given), policy or a_policy(PAIR)).pools["l40s-id"]
    return frozenset(i.removeprefix("i-") for i in wanted.movable)


def answer(state: PoolState, policy: Policy | None = None, **given: Any) -> Decision:
    return run(facts(state, **given), policy or a_policy(PAIR))[1]["l40s"]


# --- consent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "agreed"),
    [
        pytest.param({}, True, id="the owner consents"),
        pytest.param({"evictable": False}, False, id="the owner said nothing"),
        pytest.param({"protected": True}, False, id="it is protected"),
        pytest.param({"daemon": True}, False, id="a DaemonSet's, which comes back"),
        pytest.param({"gang": "ml/train"}, False, id="part of a gang"),
        pytest.param({"owner": ""}, False, id="bare: nobody starts it again"),
    ],
)
def test_a_pod_is_moved_only_when(changes: dict[str, Any], agreed: bool) -> None:
    guest = a_guest("moves", **changes)
    assert consents(guest) is agreed
    assert emptied(holding("n1", guest), staying()) == ({"n1"} if agreed else set())


def test_one_pod_without_consent_keeps_the_node_of_all() -> None:
    both = holding("n1", a_guest("moves"), a_guest("refuses", evictable=False), gpus=4)
    assert emptied(both, staying(allocatable={GPU: 4}), policy=a_policy(a_pool(resources={GPU: 4}))) == set()


# --- room -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "others",
    [
        pytest.param((), id="there is no other node"),
        pytest.param((a_node("idle", allocatable={GPU: 2}),), id="only an idle node has room: it would be kept for it"),
        pytest.param((holding("full", a_guest("a", 2, evictable=False)),), id="the others are full"),
        pytest.param((staying(cordoned_by=CordonedBy.SOMEONE),), id="somebody cordoned the other"),
        pytest.param((staying(cordoned_by=CordonedBy.US),), id="the other is on its way out"),
    ],
)
def test_no_node_is_emptied_when(others: tuple[Node, ...]) -> None:
    assert emptied(holding("n1", a_guest("moves")), *others) == set()


def test_all_pods_of_a_node_move_or_none() -> None:
    policy = a_policy(a_pool(resources={GPU: 4}))
    three = holding("n1", *(a_guest(f"p{n}") for n in range(3)), gpus=4)
    room_for_two = holding("n2", a_guest("big", 2, evictable=False), gpus=4)
    room_for_one = holding("n3", a_guest("bigger", 3, evictable=False), gpus=4)
    assert emptied(three, room_for_two, policy=policy) == set()
    assert emptied(three, room_for_two, room_for_one, policy=policy) == {"n1"}


def test_what_could_not_be_moved_leaves_its_room_to_others() -> None:
    """The two pods of one node find room for one of them only; the one of the next node takes that."""
    policy = a_policy(a_pool(resources={GPU: 4}))
    small = holding("a-small", a_guest("a", 2), a_guest("b", node_selector={"none": "such"}), gpus=4)
    large = holding("large", a_guest("c", 3), gpus=4)
    room = holding("room", a_guest("d", evictable=False), gpus=4)
    assert emptied(small, large, room, policy=policy) == {"large"}


def test_the_emptiest_goes_first_and_what_took_its_pods_stays() -> None:
    policy = a_policy(a_pool(resources={GPU: 4}))
    one, two = holding("b-one", a_guest("a"), gpus=4), holding("a-two", a_guest("b", 2), gpus=4)
    assert emptied(one, two, policy=policy) == {"b-one"}


def test_of_two_alike_one_goes() -> None:
    assert emptied(holding("n1", a_guest("a")), holding("n2", a_guest("b"))) == {"n1"}


def test_waiting_work_has_its_room_first() -> None:
    assert emptied(holding("n1", a_guest("a")), holding("n2", a_guest("b")), waiting=[a_pod()]) == set()


def test_an_idle_node_that_waiting_work_needs_may_take_pods_too() -> None:
    big = a_pool(resources={GPU: 4})
    nodes = holding("n1", a_guest("a", 3), gpus=4), a_node("needed", allocatable={GPU: 8}, created_at=NOW)
    assert emptied(*nodes, policy=a_policy(big)) == set()
    assert emptied(*nodes, policy=a_policy(big), waiting=[a_pod(gpus=4)]) == {"n1"}


@pytest.mark.parametrize(
    ("offer", "pod"),
    [
        pytest.param(None, {"node_selector": {"kind": "one"}}, id="its selector names another pool"),
        pytest.param({"labels": {}}, {"node_selector": {"kind": "two"}}, id="the nodes there lack the label"),
        pytest.param({"taints": (Taint(key="other"),)}, {}, id="the nodes there carry a taint"),
    ],
)
def test_pods_do_not_move_to_a_pool_that_they_do_not_fit(offer: dict[str, Any] | None, pod: dict[str, Any]) -> None:
    one, two = (a_pool(kind, resources={GPU: 2}, labels={"kind": kind}) for kind in ("one", "two"))

    def moved(fits: dict[str, Any], shown: dict[str, Any] | None) -> frozenset[str]:
        states = (
            a_state(holding("n1", a_guest("moves", **fits)), pool="one-id"),
            a_state(staying(), pool="two-id", offer=None if shown is None else an_offer(two, **shown)),
        )
        return assign(facts(*states), a_policy(one, two)).pools["one-id"].movable

    assert moved({}, {}) == {"i-n1"}
    assert moved(pod, offer) == set()


# --- when they go -----------------------------------------------------------------------------------------


def test_an_emptied_node_goes_at_its_hours_end_and_says_why() -> None:
    state = a_state(holding("n1", a_guest("moves")), staying())
    decision = answer(state)
    assert (decision.target, decision.candidates) == (1, ("i-n1",))
    assert decision.deciding.rule == "consolidation"
    assert decision.deciding.detail == "n1: its pods may be moved and fit on other nodes"
    action = plan(decision, state, a_policy(PAIR))
    assert action is not None
    assert [v.because for v in action.victims] == [Because.CONSOLIDATED]


def test_before_its_hours_end_it_stays_and_the_moment_is_named() -> None:
    decision = answer(a_state(holding("n1", a_guest("moves"), created_at=NOW - 30 * MINUTE), staying()))
    assert (decision.target, decision.reconsider_at) == (2, NOW + 25 * MINUTE)


@pytest.mark.parametrize(
    ("signals", "gone"),
    [
        pytest.param((), 0, id="nothing fires"),
        pytest.param((LOW,), 1, id="utilization is low"),
        pytest.param((LOW, HIGH), 0, id="and high"),
        pytest.param((a_signal(SignalAction.SCALE_DOWN, "other-id"),), 0, id="another pool's is low"),
    ],
)
def test_where_seconds_are_billed_low_utilization_must_have_lasted(signals: Any, gone: int) -> None:
    policy = a_policy(PAIR, billing=EVERY_SECOND)
    decision = answer(a_state(holding("n1", a_guest("moves")), staying()), policy, signals=signals)
    assert decision.present - decision.target == gone


def test_hold_keeps_busy_nodes_where_hours_are_billed_too() -> None:
    assert answer(a_state(holding("n1", a_guest("moves")), staying()), signals=(HIGH,)).target == 2


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"protected": True}, id="is protected"),
        pytest.param({"hosts": ("prometheus-0",)}, id="hosts Prometheus"),
        pytest.param({"cordoned_by": CordonedBy.SOMEONE}, id="somebody else cordoned"),
    ],
)
def test_no_busy_node_is_emptied_that(changes: dict[str, Any]) -> None:
    assert answer(a_state(holding("n1", a_guest("moves"), **changes), staying())).candidates == ()


def test_the_floor_holds_against_consolidation() -> None:
    decision = answer(
        a_state(holding("n1", a_guest("moves")), staying()), a_policy(a_pool(resources={GPU: 2}, min_nodes=2))
    )
    assert (decision.target, decision.deciding.rule) == (2, "above_the_floor")


def test_nothing_is_emptied_while_the_pool_wants_to_grow() -> None:
    state = a_state(holding("n1", a_guest("moves")), staying())
    decision = answer(state, waiting=[a_pod(gpus=2)])
    assert decision.target == 3
    assert "consolidation" not in rules(decision, "wants")


# --- laws -------------------------------------------------------------------------------------------------


@LAWS
@given(worlds())
def test_what_is_emptied_fits_into_what_else_runs(world: World) -> None:
    found, policy = world
    wanted = assign(found, policy).pools
    moves = {i for w in wanted.values() for i in w.movable}
    needed = {i for w in wanted.values() for i in w.needed}
    nodes = [n for s in found.pools for n in s.nodes]
    guests = [p for n in nodes for p in n.pods if n.instance in moves]
    assert all(consents(p) for p in guests)
    assert not moves & needed
    rest = [n for n in nodes if n.instance not in moves and n.cordoned_by is None and (n.pods or n.instance in needed)]
    assert sum(p.gpus for p in guests) <= sum(max(0, sum(n.free.values())) for n in rest)


# What speaks for a node, whatever its pods say.
KEPT: tuple[dict[str, Any], ...] = ({}, {}, {}, {"protected": True}, {"hosts": ("prometheus-0",)})


@LAWS
@given(st.lists(st.tuples(st.lists(st.sampled_from(SAID), min_size=1, max_size=2), st.sampled_from(KEPT)), max_size=4))
def test_exactly_the_nodes_whose_pods_all_consent_can_be_emptied(
    said: list[tuple[list[dict[str, Any]], dict[str, Any]]],
) -> None:
    """A focused law: full nodes, and one beside them with room for everything."""
    silent = {"evictable": False, "owner": ""}
    full = []
    for n, (owners, kept) in enumerate(said):
        guests = [a_guest(f"p{n}-{i}", **{**silent, **says}) for i, says in enumerate(owners)]
        full.append(holding(f"n{n}", *guests, gpus=len(guests), **kept))
    room = staying(allocatable={GPU: 16})
    agreed = {f"n{n}" for n, (owners, _) in enumerate(said) if all(says == YES for says in owners)}
    policy = a_policy(a_pool(resources={GPU: 16}, max_nodes=16))
    assert emptied(*full, room, policy=policy) == agreed
    may_go = {f"i-{name}" for name in agreed if not said[int(name[1:])][1]}
    assert set(answer(a_state(*full, room), policy).candidates) == may_go


@LAWS
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_no_node_is_emptied_that_waiting_work_needs(pods: list[int], waiting: list[int]) -> None:
    """A focused law: nodes of four GPUs with one pod each, whose owner consents."""
    nodes = [holding(f"n{n}", a_guest(f"p{n}", g), gpus=4) for n, g in enumerate(pods)]
    found = facts(a_state(*nodes), waiting=[a_pod(f"w{n}", g) for n, g in enumerate(waiting)])
    wanted = assign(found, a_policy(a_pool(resources={GPU: 4}, max_nodes=16))).pools["l40s-id"]
    assert not wanted.movable & wanted.needed


@LAWS
@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=7))
def test_no_node_is_emptied_into_room_that_is_not_there_and_none_is_left_that_could_be(
    pods: list[tuple[int, bool]],
) -> None:
    """A focused law: nodes of four GPUs with one pod each; what stays holds the others, and none fits another more."""
    nodes = [holding(f"n{n}", a_guest(f"p{n}", g, evictable=yes), gpus=4) for n, (g, yes) in enumerate(pods)]
    gone = emptied(*nodes, policy=a_policy(a_pool(resources={GPU: 4})))
    sizes = {f"n{n}": (g, yes) for n, (g, yes) in enumerate(pods)}
    assert all(sizes[name][1] for name in gone)
    stay = [g for name, (g, _) in sizes.items() if name not in gone]
    assert sum(sizes[name][0] for name in gone) <= sum(4 - g for g in stay)
    if not gone:
        willing = [(name, g) for name, (g, yes) in sizes.items() if yes]
        assert all(g + h > 4 for name, g in willing for other, (h, _) in sizes.items() if other != name)
