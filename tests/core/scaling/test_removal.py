"""Which nodes may go, in which order, and how many; and which busy nodes could be emptied, with every pod's consent."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Because, Decision
from receiver.core.model.model import Backoff, CordonedBy, Node, PoolState, Spend, Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Budget, Policy, Taint
from receiver.core.model.signals import SignalAction
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import plan
from receiver.core.scaling.packing import consents
from receiver.core.scaling.removal import AN_INSTANT
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    HOUR_ENDS_SOON,
    MINUTE,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_removal,
    a_signal,
    a_state,
    an_offer,
    facts,
    rules,
    run,
)
from tests.core.worlds import LAWS, SAID, World, worlds

PAIR = a_pool(resources={GPU: 2})


def idle(name: str = "idle", minutes: float = 57, **changes: Any) -> Node:
    """An idle node created so many *minutes* ago."""
    return a_node(name, **{"created_at": NOW - minutes * MINUTE, "allocatable": {GPU: 2}, **changes})


def dead(name: str = "dead", minutes: float = 30) -> Node:
    return idle(name, minutes, stage=Stage.BOOTING, idle_since=None, allocatable={})


def movable(name: str = "moved", minutes: float = 57) -> Node:
    pod = a_pod(f"on-{name}", phase=PodPhase.RUNNING, evictable=True, owner="ReplicaSet/web")
    return idle(name, minutes, pods=(pod,), idle_since=None)


def staying() -> Node:
    pod = a_pod("stays", phase=PodPhase.RUNNING)
    return idle("stays", pods=(pod,), idle_since=None)


def answer(state: PoolState, policy: Policy | None = None, **given: Any) -> Decision:
    return run(facts(state, **given), policy or a_policy(PAIR))[1]["l40s"]


def go(*nodes: Node, **changes: Any) -> list[str]:
    policy = changes.pop("policy", None)
    return [i.removeprefix("i-") for i in answer(a_state(*nodes, **changes), policy).candidates]


def test_the_dead_go_first_then_the_idle_then_the_busy_that_can_be_emptied() -> None:
    assert go(movable(), idle(), staying(), dead()) == ["dead", "idle", "moved"]


def test_among_alike_the_soonest_paid_unit_goes_first_then_the_name() -> None:
    assert go(idle("c", 56), idle("b", 58), idle("a", 56)) == ["b", "a", "c"]
    assert go(dead("c", 30), dead("b", 50), dead("a", 30)) == ["b", "a", "c"]


def test_never_more_go_than_are_asked_for() -> None:
    """Where fewer are asked for than live, Civo is about to take one itself."""
    assert go(idle("a"), idle("b"), dead(), required=2) == ["dead", "a"]
    assert go(idle("a"), idle("b"), required=0) == []


def test_a_node_whose_gpus_are_in_use_without_a_pod_stays() -> None:
    assert go(idle("used", unknown_since=NOW - timedelta(days=1)), idle("free")) == ["free"]


@pytest.mark.parametrize(
    ("standby", "gone"),
    [(0, ["a", "b", "c"]), (1, ["a", "b"]), (2, ["a"]), (3, [])],
)
def test_spare_nodes_are_kept(standby: int, gone: list[str]) -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=standby))
    assert go(idle("a"), idle("b"), idle("c"), policy=policy) == gone


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(idle("other", pods=(a_pod(),), idle_since=None), id="busy"),
        pytest.param(idle("other", cordoned_by=CordonedBy.SOMEONE), id="cordoned by somebody else"),
        pytest.param(dead("other", minutes=1), id="on its way"),
    ],
)
def test_a_node_is_no_spare_one_that_is(other: Node) -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1))
    assert go(idle("spare"), other, policy=policy) == []


def test_a_back_off_that_a_clock_far_ahead_set_keeps_no_node() -> None:
    ahead = Backoff(failures=1, until=NOW + timedelta(days=30), reason="no", instances=("i-a",))
    assert go(idle("a"), removal_backoff=ahead) == ["a"]
    assert go(idle("a"), removal_backoff=replace(ahead, until=NOW + MINUTE)) == []


def test_of_equal_nodes_the_one_that_is_going_already_goes() -> None:
    """With billing by the second the paid units of two nodes end in turns."""
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1), billing=EVERY_SECOND)
    cordoned = idle("b", cordoned_by=CordonedBy.US, cordoned_for="retire-1")
    assert go(idle("a"), cordoned, policy=policy, open_action=a_removal("b", from_count=2)) == ["b"]


def test_a_spare_node_that_may_not_go_yet_lets_another_go() -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1))
    assert go(idle("due"), idle("young", 10), policy=policy) == ["due"]


def test_dead_and_emptied_nodes_are_no_spare_ones() -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1))
    assert go(dead(), idle("spare"), movable(), staying(), policy=policy) == ["dead", "moved"]


def test_at_the_budget_stop_no_spare_node_is_kept() -> None:
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=1), budget=Budget(monthly_usd=Decimal(10)))
    stopped = answer(a_state(idle()), policy, spend=Spend(month="2026-11", usd=Decimal(10)))
    assert stopped.target == 0


# --- a node that we just emptied --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("because", "gone"),
    [(Because.CONSOLIDATED, ["idle"]), (Because.IDLE, [])],
)
def test_a_node_that_was_emptied_for_its_removal_need_not_rest(because: Because, gone: list[str]) -> None:
    assert go(idle(idle_since=NOW), open_action=a_removal("idle", because=because)) == gone


def test_a_node_that_was_emptied_stays_once_the_next_hour_is_paid() -> None:
    assert go(idle(minutes=60, idle_since=NOW), open_action=a_removal("idle", because=Because.CONSOLIDATED)) == []


def test_where_seconds_are_billed_an_emptied_node_goes_at_once() -> None:
    policy = a_policy(PAIR, billing=EVERY_SECOND)
    emptied = a_removal("idle", because=Because.CONSOLIDATED)
    assert go(idle(idle_since=NOW), open_action=emptied, policy=policy) == ["idle"]


# --- laws -------------------------------------------------------------------------------------------------


@LAWS
@given(
    dead_ones=st.integers(0, 3),
    idle_ones=st.integers(0, 4),
    young=st.integers(0, 2),
    busy=st.integers(0, 2),
    standby=st.integers(0, 3),
    asked=st.integers(-2, 0),
)
def test_how_many_go_and_that_the_dead_are_first(
    dead_ones: int, idle_ones: int, young: int, busy: int, standby: int, asked: int
) -> None:
    nodes = [
        *(a_busy_node(f"b{n}", allocatable={GPU: 2}) for n in range(busy)),
        *(idle(f"y{n}", 10) for n in range(young)),
        *(idle(f"i{n}") for n in range(idle_ones)),
        *(dead(f"d{n}") for n in range(dead_ones)),
    ]
    required = max(0, len(nodes) + asked)
    policy = a_policy(a_pool(resources={GPU: 2}, standby_nodes=min(standby, 8)))
    gone = go(*nodes, policy=policy, required=required)
    due = max(0, min(idle_ones, idle_ones + young - standby))
    assert gone == [*(f"d{n}" for n in range(dead_ones)), *(f"i{n}" for n in range(due))][:required]


def small() -> Node:
    """An idle node that has one of the two GPUs that the waiting pod asks for, at the end of its paid hour."""
    return idle("small", allocatable={GPU: 1})


def wide_work() -> dict[str, Any]:
    return {"waiting": (a_pod("wide", requests={GPU: 2}),)}


def test_an_idle_node_that_waiting_work_cannot_use_goes_at_its_paid_hour_where_the_maximum_allows_no_other() -> None:
    decision = answer(a_state(small(), required=1), a_policy(replace(PAIR, max_nodes=1)), **wide_work())
    assert (decision.present, decision.target, decision.candidates) == (1, 0, ("i-small",))


def test_an_idle_node_that_waiting_work_cannot_use_goes_at_its_paid_hour_where_no_price_is_known() -> None:
    pool = replace(PAIR, max_nodes=2, price_usd_per_hour=None)
    decision = answer(a_state(small(), required=1), a_policy(pool), **wide_work())
    assert (decision.present, decision.target, decision.candidates) == (1, 0, ("i-small",))


def test_an_idle_node_that_waiting_work_cannot_use_is_no_standby_node_where_no_other_may_come() -> None:
    policy = a_policy(replace(PAIR, max_nodes=1, standby_nodes=1))
    assert answer(a_state(small(), required=1), policy, **wide_work()).candidates == ("i-small",)
    assert answer(a_state(small(), required=1), policy).candidates == ()


def test_an_idle_node_that_waiting_work_cannot_use_delays_no_growth_that_may_come() -> None:
    decision = answer(a_state(small(), required=1), a_policy(replace(PAIR, max_nodes=2)), **wide_work())
    assert decision.target == 2


def test_no_idle_node_goes_because_growth_waits_for_its_cooldown() -> None:
    state = a_state(small(), required=1, last_grow_at=NOW - MINUTE)
    pool = replace(PAIR, max_nodes=2, grow_cooldown=5 * MINUTE)
    assert answer(state, a_policy(pool), **wide_work()).target == 1


YES: dict[str, Any] = {"evictable": True, "owner": "ReplicaSet/web"}
LOW, HIGH = a_signal(SignalAction.SCALE_DOWN), a_signal(SignalAction.HOLD)


def a_guest(name: str, gpus: int = 1, **changes: Any) -> Pod:
    """A running pod whose owner consents to its being moved."""
    return a_pod(name, gpus, phase=PodPhase.RUNNING, **{**YES, **changes})


def holding(name: str, *pods: Pod, gpus: int = 2, **changes: Any) -> Node:
    """A node of *gpus* GPUs at its hour's end that holds *pods*."""
    given: dict[str, Any] = {"created_at": HOUR_ENDS_SOON, "idle_since": None, "allocatable": {GPU: gpus}}
    return a_node(name, **{**given, "pods": pods, **changes})


def immovable(name: str = "stays", **changes: Any) -> Node:
    """A two-GPU node that holds one pod whose owner said nothing."""
    return holding(name, a_guest(f"on-{name}", evictable=False), **changes)


def emptied(*nodes: Node, policy: Policy | None = None, **given: Any) -> frozenset[str]:
    wanted = assign(facts(a_state(*nodes), **given), policy or a_policy(PAIR)).pools["l40s-id"]
    return frozenset(i.removeprefix("i-") for i in wanted.nodes.movable)


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
    assert emptied(holding("n1", guest), immovable()) == ({"n1"} if agreed else set())


def test_one_pod_without_consent_keeps_the_node_of_all() -> None:
    both = holding("n1", a_guest("moves"), a_guest("refuses", evictable=False), gpus=4)
    assert emptied(both, immovable(allocatable={GPU: 4}), policy=a_policy(a_pool(resources={GPU: 4}))) == set()


# --- room -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "others",
    [
        pytest.param((), id="there is no other node"),
        pytest.param((a_node("idle", allocatable={GPU: 2}),), id="only an idle node has room: it would be kept for it"),
        pytest.param((holding("full", a_guest("a", 2, evictable=False)),), id="the others are full"),
        pytest.param((immovable(cordoned_by=CordonedBy.SOMEONE),), id="somebody cordoned the other"),
        pytest.param((immovable(cordoned_by=CordonedBy.US),), id="the other is on its way out"),
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
            a_state(immovable(), pool="two-id", offer=None if shown is None else an_offer(two, **shown)),
        )
        return assign(facts(*states), a_policy(one, two)).pools["one-id"].nodes.movable

    assert moved({}, {}) == {"i-n1"}
    assert moved(pod, offer) == set()


# --- when they go -----------------------------------------------------------------------------------------


def test_an_emptied_node_goes_at_its_hours_end_and_says_why() -> None:
    state = a_state(holding("n1", a_guest("moves")), immovable())
    decision = answer(state)
    assert (decision.target, decision.candidates) == (1, ("i-n1",))
    assert decision.deciding.rule == "consolidation"
    assert decision.deciding.detail == "n1: its pods may be moved and fit on other nodes"
    action = plan(decision, state, a_policy(PAIR))
    assert action is not None
    assert [v.because for v in action.victims] == [Because.CONSOLIDATED]


def test_before_its_hours_end_it_stays_and_the_moment_is_named() -> None:
    decision = answer(a_state(holding("n1", a_guest("moves"), created_at=NOW - 30 * MINUTE), immovable()))
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
    decision = answer(a_state(holding("n1", a_guest("moves")), immovable()), policy, signals=signals)
    assert decision.present - decision.target == gone


def test_hold_keeps_busy_nodes_where_hours_are_billed_too() -> None:
    assert answer(a_state(holding("n1", a_guest("moves")), immovable()), signals=(HIGH,)).target == 2


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"protected": True}, id="is protected"),
        pytest.param({"hosts": ("prometheus-0",)}, id="hosts Prometheus"),
        pytest.param({"cordoned_by": CordonedBy.SOMEONE}, id="somebody else cordoned"),
    ],
)
def test_no_busy_node_is_emptied_that(changes: dict[str, Any]) -> None:
    assert answer(a_state(holding("n1", a_guest("moves"), **changes), immovable())).candidates == ()


def test_the_floor_holds_against_consolidation() -> None:
    decision = answer(
        a_state(holding("n1", a_guest("moves")), immovable()), a_policy(a_pool(resources={GPU: 2}, min_nodes=2))
    )
    assert (decision.target, decision.deciding.rule) == (2, "above_the_floor")


def test_nothing_is_emptied_while_the_pool_wants_to_grow() -> None:
    state = a_state(holding("n1", a_guest("moves")), immovable())
    decision = answer(state, waiting=[a_pod(gpus=2)])
    assert decision.target == 3
    assert "consolidation" not in rules(decision, "wants")


# --- laws -------------------------------------------------------------------------------------------------


@LAWS
@given(worlds())
def test_what_is_emptied_fits_into_what_else_runs(world: World) -> None:
    found, policy = world
    wanted = assign(found, policy).pools
    moves = {i for w in wanted.values() for i in w.nodes.movable}
    needed = {i for w in wanted.values() for i in w.nodes.needed}
    nodes = [n for s in found.pools for n in s.nodes]
    guests = [p for n in nodes for p in n.pods if n.instance in moves]
    assert all(consents(p) for p in guests)
    assert not moves & needed
    rest = [n for n in nodes if n.instance not in moves and n.cordon.by is None and (n.pods or n.instance in needed)]
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
    room = immovable(allocatable={GPU: 16})
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
    assert not wanted.nodes.movable & wanted.nodes.needed


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


def test_a_node_that_has_only_just_become_idle_is_looked_at_again_when_its_paid_hour_ends() -> None:
    created = NOW - timedelta(minutes=54, seconds=50)  # its removal margin begins in ten seconds
    node = a_node(created_at=created, idle_since=NOW - timedelta(seconds=5))
    decision = run(facts(a_state(node)), a_policy())[1]["l40s"]

    assert decision.reconsider_at == NOW + timedelta(seconds=10)


def test_a_node_that_civo_took_on_and_does_not_list_is_looked_at_when_its_time_to_come_is_over() -> None:
    since = NOW - timedelta(minutes=19)
    pool = a_pool(provision_timeout=timedelta(minutes=20))
    found = facts(a_state(required=1, required_since=since), waiting=[a_pod()])
    decision = run(found, a_policy(pool))[1]["l40s"]

    assert decision.reconsider_at == NOW + timedelta(minutes=1) + AN_INSTANT
