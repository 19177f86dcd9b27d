"""Windows that evict running work: when, which nodes, how many, and what is never evicted."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from receiver.core.model.actions import Action, Because, Decision, Verdict, VictimStage
from receiver.core.model.model import Backoff, CordonedBy, Node, Source, Spend, Stage
from receiver.core.model.overrides import OverrideKind
from receiver.core.model.pods import Pod, PodPhase, Toleration
from receiver.core.model.policy import Budget, KeepOut, Limits, Policy, Pool
from receiver.core.model.signals import SignalAction
from receiver.core.model.windows import Window, stays_open
from receiver.core.scaling.assign import assign
from receiver.core.scaling.bounds import topic_of
from receiver.core.scaling.decide import plan
from tests.core.builders import (
    GPU,
    MINUTE,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_removal,
    a_signal,
    a_silence,
    a_state,
    all_up,
    an_override,
    facts,
    rules,
    run,
    with_fields,
)
from tests.core.worlds import LAWS

GRACE = 30 * MINUTE
NIGHT = Window(name="night", times=((11 * 60, 13 * 60),), max_nodes=1, evict_after=GRACE)  # opened an hour ago
OPENED = NOW - timedelta(hours=1)


def a_guest(name: str = "guest", gpus: int = 1, minutes: float = 60, **changes: Any) -> Pod:
    """A pod whose owner said nothing, which has been running for so many *minutes*."""
    given: dict[str, Any] = {
        "phase": PodPhase.RUNNING,
        "owner": "ReplicaSet/web",
        "running_since": NOW - minutes * MINUTE,
    }
    return a_pod(name, gpus, **{**given, **changes})


def holding(name: str, *pods: Pod, **changes: Any) -> Node:
    """A node of eight GPUs in the middle of its paid hour."""
    given: dict[str, Any] = {"idle_since": None, "allocatable": {GPU: 8}, "pods": pods, "was_usable": True}
    return a_node(name, **{**given, **changes})


def busy(name: str, **changes: Any) -> Node:
    return holding(name, a_guest(f"on-{name}"), **changes)


def the_pool(*windows: Window, **changes: Any) -> Pool:
    return a_pool(resources={GPU: 8}, windows=windows or (NIGHT,), **changes)


def answer(*nodes: Node, pool: Pool | None = None, told: datetime | None = OPENED, **given: Any) -> Decision:
    pool = pool or the_pool()
    policy = a_policy(pool, **given.pop("policy", {}))
    state = a_state(*nodes, **given.pop("state", {}))
    words = {} if told is None else {topic_of(w, pool): told for w in pool.windows}
    return run(facts(state, told_to_go=words, **given), policy)[1]["l40s"]


def evicted(*nodes: Node, **given: Any) -> list[str]:
    decision = answer(*nodes, **given)
    going = decision.candidates[: decision.present - decision.target]
    return [i.removeprefix("i-") for i in going if i in decision.evicted]


# --- when


def test_running_work_beyond_the_maximum_is_evicted_once_the_grace_is_over() -> None:
    decision = answer(busy("a"), busy("b"))
    assert (decision.target, decision.candidates, decision.evicted) == (1, ("i-a",), ("i-a",))
    assert decision.deciding.rule == "evict_after"
    assert decision.deciding.detail == "a: window night allows 1 node, and its grace is over"


@pytest.mark.parametrize(
    ("told", "gone"),
    [
        pytest.param(NOW - GRACE, ["a"], id="as long ago as the grace"),
        pytest.param(NOW - GRACE + timedelta(microseconds=1), [], id="an instant less"),
        pytest.param(None, [], id="never: nobody is evicted who was not told"),
        pytest.param(OPENED - MINUTE, [], id="before the window opened: that was another night"),
        pytest.param(NOW + MINUTE, [], id="in the future: the clock was wrong then"),
    ],
)
def test_the_grace_counts_from_when_it_was_told(told: datetime | None, gone: list[str]) -> None:
    assert evicted(busy("a"), busy("b"), told=told) == gone


def test_a_decision_names_the_end_of_the_grace_and_says_what_comes() -> None:
    told = NOW - 10 * MINUTE
    decision = answer(busy("a"), busy("b"), told=told)
    assert decision.reconsider_at == told + GRACE
    [note] = [r for r in decision.reasons if r.rule == "evict_after"]
    assert note.detail == "window night takes 1 node beyond 1 from 12:20:00 UTC on"


def test_a_window_that_is_closed_evicts_nothing() -> None:
    assert evicted(busy("a"), busy("b"), pool=the_pool(replace(NIGHT, times=((13 * 60, 14 * 60),)))) == []


def test_a_window_without_the_key_evicts_nothing_however_low_its_maximum() -> None:
    closed = replace(NIGHT, name="closed", max_nodes=0, evict_after=None)
    assert evicted(busy("a"), busy("b"), busy("c"), pool=the_pool(closed)) == []
    assert evicted(busy("a"), busy("b"), busy("c"), pool=the_pool(closed, NIGHT)) == ["a", "b"]


def test_of_several_windows_each_speaks_for_its_own_maximum_after_its_own_grace() -> None:
    patient = replace(NIGHT, name="patient", max_nodes=0, evict_after=2 * timedelta(hours=1))
    nodes = (busy("a"), busy("b"), busy("c"))
    assert evicted(*nodes, pool=the_pool(NIGHT, patient)) == ["a", "b"]
    assert evicted(*nodes, pool=the_pool(NIGHT, replace(patient, evict_after=GRACE))) == ["a", "b", "c"]


def test_a_window_that_meets_itself_at_midnight_stays_open() -> None:
    night = Window(name="n", times=((20 * 60, 24 * 60), (0, 7 * 60)))
    evening = datetime(2026, 11, 19, 20, 0, tzinfo=NOW.tzinfo)
    assert stays_open(night, evening, evening + timedelta(hours=11) - timedelta(seconds=1))
    assert not stays_open(night, evening, evening + timedelta(hours=11))
    assert not stays_open(night, evening, evening + timedelta(days=1))
    assert not stays_open(night, evening - timedelta(seconds=1), evening)


@pytest.mark.parametrize(("days", "open_still"), [(20, True), (32, False)])
def test_a_window_that_is_open_for_weeks_stays_open_until_it_closes(days: int, open_still: bool) -> None:
    november = Window(name="november", months=((11, 11),))
    first = datetime(2026, 11, 1, tzinfo=NOW.tzinfo)
    assert stays_open(november, first, first + timedelta(days=days)) is open_still


# --- which


def test_idle_nodes_go_first_and_at_once_in_the_middle_of_their_hour() -> None:
    idle = a_node("idle", allocatable={GPU: 8}, idle_since=NOW)
    decision = answer(busy("a"), busy("b"), idle)
    assert (decision.target, decision.candidates, decision.evicted) == (1, ("i-idle", "i-a"), ("i-a",))
    action = plan(decision, a_state(busy("a"), busy("b"), idle), a_policy(the_pool()))
    assert action is not None
    assert [v.because for v in action.victims] == [Because.IDLE, Because.EVICTED]


def test_nodes_that_hold_the_fewest_gpus_go_then_those_that_lose_the_fewest_gpu_hours() -> None:
    large = holding("a", a_guest("p", gpus=4, minutes=1))
    long = holding("b", a_guest("q", gpus=2, minutes=90))
    short = holding("c", a_guest("r", gpus=1, minutes=100), a_guest("s", gpus=1, minutes=10))
    none = replace(NIGHT, max_nodes=0)
    assert evicted(large, long, short, pool=the_pool(none)) == ["c", "b", "a"]


def test_a_node_that_is_being_evicted_is_finished_before_another_is_begun() -> None:
    action = a_removal("b", from_count=2, because=Because.EVICTED)
    emptied = a_node("b", allocatable={GPU: 8}, idle_since=NOW, cordoned_by=CordonedBy.US)
    for node in (busy("b", cordoned_by=CordonedBy.US), emptied):
        assert answer(busy("a"), node, state={"open_action": action}).candidates == ("i-b",)


def begun(*names: str, stage: VictimStage = VictimStage.CORDONED) -> dict[str, Action]:
    """An open action that empties the nodes of these *names* for a window."""
    return {"open_action": a_removal(*names, from_count=3, to_count=2, stage=stage, because=Because.EVICTED)}


def emptied(name: str, **changes: Any) -> Node:
    return a_node(name, **{"allocatable": {GPU: 8}, "idle_since": NOW, "cordoned_by": CordonedBy.US, **changes})


@pytest.mark.parametrize("node", [emptied("b"), busy("b", cordoned_by=CordonedBy.US)], ids=["emptied", "busy still"])
def test_what_was_begun_goes_on_when_the_word_is_gone_and_what_was_evicted_waits_for_its_node(node: Node) -> None:
    none = the_pool(replace(NIGHT, max_nodes=0))
    decision = answer(node, pool=none, told=None, waiting=[a_pod(gpus=1)], state=begun("b"))
    assert (decision.target, decision.candidates) == (0, ("i-b",))
    assert decision.deciding.detail == "b: window night allows 0 nodes, and its grace is over"


def test_an_emptied_node_goes_whose_startup_taint_came_back_for_its_work_was_evicted_for_that() -> None:
    tainted = emptied("b", stage=Stage.INSTALLING, idle_since=None, startup_taint="node.cilium.io/agent-not-ready")
    decision = answer(busy("a"), tainted, state=begun("b"))
    assert (decision.candidates, [r.rule for r in decision.reasons if r.verdict is Verdict.WANTS]) == (
        ("i-b",),
        ["evict_after"],
    )
    assert answer(busy("a"), tainted).candidates == ()  # one that nobody began to empty is on its way


def test_without_the_word_only_what_was_begun_goes() -> None:
    assert answer(busy("a"), emptied("b"), busy("c"), told=None, state=begun("b")).candidates == ("i-b",)
    assert answer(busy("a"), emptied("b"), told=None, state=begun("b", stage=VictimStage.CHOSEN)).candidates == ()


def test_what_was_begun_stays_where_the_window_has_closed_or_no_node_is_too_many_any_more() -> None:
    closed = the_pool(replace(NIGHT, times=((13 * 60, 14 * 60),)))
    assert answer(emptied("b"), pool=closed, state=begun("b")).candidates == ()
    assert answer(emptied("b"), state=begun("b")).candidates == ()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"protected": True}, id="is protected"),
        pytest.param({"cordoned_by": CordonedBy.SOMEONE}, id="somebody else cordoned"),
        pytest.param({"pods": (a_guest(protected=True),), "idle_since": None}, id="got a pod that may not go"),
    ],
)
def test_what_was_begun_stays_that(changes: dict[str, Any]) -> None:
    assert answer(busy("a", protected=True), emptied("b", **changes), state=begun("b")).candidates == ()


def test_what_was_begun_goes_before_other_idle_nodes_where_removals_are_few() -> None:
    limits = {"limits": Limits(max_removals_per_hour=1)}
    idle = a_node("a", allocatable={GPU: 8}, idle_since=OPENED, created_at=NOW - timedelta(minutes=57))
    none = the_pool(replace(NIGHT, max_nodes=0))
    for node in (emptied("b"), busy("b", cordoned_by=CordonedBy.US)):
        decision = answer(idle, node, pool=none, policy=limits, state=begun("b"))
        assert (decision.target, decision.candidates[0]) == (1, "i-b")


def test_what_was_begun_goes_though_its_gpus_seem_in_use_for_a_moment() -> None:
    assert answer(busy("a"), emptied("b", unknown_since=NOW), state=begun("b")).candidates == ("i-b",)


def test_what_waits_gets_no_room_on_a_node_that_is_being_evicted() -> None:
    """Otherwise what was evicted would get its node back at once, and be evicted again."""
    action = a_removal("b", from_count=2, because=Because.EVICTED)
    pool = the_pool()
    emptied = a_node("b", allocatable={GPU: 8}, idle_since=NOW, cordoned_by=CordonedBy.US)
    full = holding("a", a_guest(gpus=8))
    found = facts(
        a_state(full, emptied, open_action=action),
        waiting=[a_pod(gpus=1)],
        told_to_go={topic_of(NIGHT, pool): OPENED},
    )
    policy = a_policy(pool)
    assert assign(found, policy).pools["l40s-id"].nodes.needed == frozenset()
    assert run(found, policy)[1]["l40s"].target == 1
    assert assign(with_fields(found, told_to_go={}), policy).pools["l40s-id"].nodes.needed == frozenset()
    closed = a_policy(the_pool(replace(NIGHT, times=((13 * 60, 14 * 60),))))
    assert assign(found, closed).pools["l40s-id"].nodes.needed == {"i-b"}


def test_work_that_waits_holds_no_eviction_up() -> None:
    assert evicted(busy("a"), busy("b"), waiting=[a_pod(gpus=8)]) == ["a"]


def test_a_node_on_its_way_is_not_counted_as_too_many() -> None:
    coming = a_node("c", stage=Stage.BOOTING, idle_since=None, allocatable={}, created_at=NOW - MINUTE)
    assert evicted(busy("a"), coming) == []


def test_no_more_go_than_are_asked_for_at_civo() -> None:
    assert evicted(busy("a"), busy("b"), busy("c"), state={"required": 2}) == ["a"]


# --- what is never evicted


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"protected": True}, id="protected"),
        pytest.param({"gang": "ml/g"}, id="of a gang"),
        pytest.param({"owner": ""}, id="that nothing starts again"),
        pytest.param({"owner": "Node/n1"}, id="of the kubelet"),
        pytest.param({"owner": "Node/n1", "evictable": True}, id="of the kubelet, whatever it says"),
        pytest.param({"owner": "", "evictable": True}, id="that nothing starts again, though it consented"),
        pytest.param({"owner": "Job/train"}, id="of a Job, which may end for good with it"),
        pytest.param({"owner": "PyTorchJob/train"}, id="of an operator"),
        pytest.param({"daemon": True}, id="of a DaemonSet"),
        pytest.param({"tolerations": (Toleration(operator="Exists"),)}, id="that comes back to a cordoned node"),
    ],
)
def test_a_node_is_not_evicted_that_holds_one_pod(said: dict[str, Any]) -> None:
    stays = holding("a", a_guest("yields"), a_guest("stays", **said))
    assert evicted(stays, busy("b")) == ["b"]
    assert evicted(stays, holding("b", a_guest(**said))) == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"cordoned_by": CordonedBy.SOMEONE}, id="somebody else cordoned"),
        pytest.param({"protected": True}, id="is protected"),
        pytest.param({"hosts": ("prometheus-0",)}, id="hosts Prometheus"),
        pytest.param({"kept_until": NOW + MINUTE}, id="a workload keeps"),
        pytest.param({"stage": Stage.BROKEN}, id="is broken"),
    ],
)
def test_a_busy_node_is_not_evicted_that(changes: dict[str, Any]) -> None:
    assert "a" not in evicted(busy("a", **changes), busy("b"), busy("c"))


@pytest.mark.parametrize("owner", ["StatefulSet/db", "ReplicationController/old"])
def test_pods_go_whose_controller_replaces_every_one(owner: str) -> None:
    assert evicted(holding("a", a_guest(owner=owner)), busy("b", protected=True)) == ["a"]


@pytest.mark.parametrize("owner", ["Job/train", "PyTorchJob/train"])
def test_pods_of_any_controller_go_whose_owner_consented(owner: str) -> None:
    assert evicted(holding("a", a_guest(owner=owner, evictable=True)), busy("b", protected=True)) == ["a"]


def test_at_a_budgets_stop_nothing_is_evicted_for_it_could_start_nowhere_again() -> None:
    spent = {"policy": {"budget": Budget(monthly_usd=Decimal(10))}, "spend": Spend(month="2026-11", usd=Decimal(20))}
    assert evicted(busy("a"), busy("b"), **spent) == []


def test_what_would_be_kept_out_if_it_started_again_is_not_evicted() -> None:
    held = KeepOut(namespaces=("ml",))
    given = {"policy": {"budget": Budget(monthly_usd=Decimal(10**6), keep_out=held)}, "kept_out": {"ml": NOW}}
    there = (busy("a"), holding("b", a_guest(namespace="other")))
    assert evicted(*there, **given) == ["b"]


def test_an_idle_node_whose_gpus_are_in_use_without_a_pod_stays() -> None:
    used = a_node("used", allocatable={GPU: 8}, unknown_since=NOW)
    assert answer(busy("a"), used).candidates == ("i-a",)


def test_a_node_that_was_refused_a_moment_ago_lets_another_go() -> None:
    backoff = Backoff(failures=1, until=NOW + MINUTE, reason="a PodDisruptionBudget", instances=("i-a",))
    assert evicted(busy("a"), busy("b"), state={"removal_backoff": backoff}) == ["b"]


@pytest.mark.parametrize(
    ("given_up", "gone"),
    [
        pytest.param(OPENED + MINUTE, ["b"], id="in this opening"),
        pytest.param(OPENED - MINUTE, ["a"], id="another night"),
    ],
)
def test_a_node_that_was_given_up_is_left_alone_until_the_window_closes(given_up: datetime, gone: list[str]) -> None:
    assert evicted(busy("a"), busy("b"), given_up={"i-a": given_up}) == gone


def test_an_idle_node_that_was_given_up_goes_all_the_same() -> None:
    idle = a_node("idle", allocatable={GPU: 8}, idle_since=NOW)
    assert answer(busy("a"), idle, given_up={"i-idle": NOW}).candidates == ("i-idle",)


def test_while_an_alert_freezes_the_pool_nothing_is_evicted() -> None:
    assert evicted(busy("a"), busy("b"), signals=(a_signal(SignalAction.FREEZE),)) == []


def test_that_the_gpus_are_busy_saves_no_work_from_a_window_that_is_there_to_end_it() -> None:
    assert evicted(busy("a"), busy("b"), signals=(a_signal(SignalAction.HOLD),)) == ["a"]


@pytest.mark.parametrize(
    ("kind", "nodes", "gone"),
    [
        (OverrideKind.PAUSE, None, []),
        (OverrideKind.SNOOZE, None, []),
        (OverrideKind.PIN, 2, []),
        (OverrideKind.PIN, 1, []),
        (OverrideKind.CEILING, 1, []),
        (OverrideKind.FLOOR, 3, []),
        (OverrideKind.FLOOR, 2, ["a"]),
        (OverrideKind.FLOOR, 1, ["a", "b"]),
    ],
)
def test_a_persons_word_goes_before_the_window(kind: OverrideKind, nodes: int | None, gone: list[str]) -> None:
    """A pin and a ceiling stand in the place of the windows' maximum, and take idle nodes only."""
    assert evicted(busy("a"), busy("b"), busy("c"), overrides=(an_override(kind, nodes),)) == gone


@pytest.mark.parametrize("source", [Source.KUBERNETES, Source.PROMETHEUS, Source.HEARTBEAT, Source.ALERTMANAGER])
def test_nothing_is_evicted_while_a_source_is_silent(source: Source) -> None:
    assert evicted(busy("a"), busy("b"), sources=all_up(source)) == []


def test_a_silence_holds_it() -> None:
    assert evicted(busy("a"), busy("b"), state={"silence": a_silence()}) == []


def test_removals_per_hour_bound_it() -> None:
    decision = answer(
        busy("a"), busy("b"), busy("c"), policy={"limits": Limits(max_removals_per_hour=1)}, removed_last_hour=0
    )
    assert (decision.target, rules(decision, "limits")) == (2, ["within_limits"])


def test_pods_that_consented_are_evicted_as_well() -> None:
    policy: Policy = a_policy(the_pool())
    node = holding("a", a_guest(evictable=True))
    decision = answer(node, busy("b"))
    action = plan(decision, a_state(node, busy("b")), policy)
    assert action is not None
    assert [(v.node, v.because) for v in action.victims] == [("a", Because.EVICTED)]


# --- what holds for any pool


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """A node of a pool that has a window's grace behind it, with or without something that keeps it."""
    name = f"n{draw(st.integers(0, 10**6))}"
    keeping: list[dict[str, Any]] = [
        {"protected": True},
        {"gang": "ml/g"},
        {"owner": ""},
        {"owner": "Job/j"},
        {"daemon": True},
    ]
    stays = draw(st.sampled_from([{}, {}, {}, *keeping]))
    pods = (a_guest(f"on-{name}", gpus=draw(st.integers(1, 8)), minutes=draw(st.integers(0, 90)), **stays),)
    held = pods * draw(st.sampled_from([0, 1, 1, 1]))
    return holding(
        name,
        *held,
        stage=draw(st.sampled_from([Stage.USABLE] * 4 + [Stage.BOOTING])),
        idle_since=None if held else NOW - 10 * MINUTE,
        unknown_since=draw(st.sampled_from([None, None, NOW])) if not held else None,
        kept_until=draw(st.sampled_from([None, None, None, NOW + MINUTE])),
        protected=draw(st.sampled_from([False, False, False, True])),
    )


@LAWS
@drawn(st.lists(nodes(), min_size=1, max_size=8, unique_by=lambda n: n.name), st.integers(0, 3))
def test_exactly_as_many_are_evicted_as_are_too_many_and_may_be(there: list[Node], most: int) -> None:
    pool = the_pool(replace(NIGHT, max_nodes=most))
    decision = answer(*there, pool=pool)
    gone = {i.removeprefix("i-") for i in decision.candidates[: decision.present - decision.target]}

    usable = [n for n in there if n.stage is Stage.USABLE]
    may = {
        n.name
        for n in usable
        if not n.keep.protected
        and n.keep.until is None
        and n.times.unknown_since is None
        and all(
            p.owner.startswith("ReplicaSet/") and not p.wishes.protected and not p.daemon and p.gang is None
            for p in n.pods
        )
    }
    assert gone <= may
    assert len(gone) == min(len(may), max(0, len(usable) - most))


@LAWS
@drawn(st.lists(nodes(), min_size=1, max_size=8, unique_by=lambda n: n.name), st.integers(0, 3), st.data())
def test_what_was_begun_is_carried_through_without_the_word_and_nothing_else(
    there: list[Node], most: int, data: st.DataObject
) -> None:
    names = data.draw(st.sets(st.sampled_from([n.name for n in there])))
    there = [with_fields(n, cordoned_by=CordonedBy.US) if n.name in names else n for n in there]
    pool, waits = the_pool(replace(NIGHT, max_nodes=most)), [a_pod(gpus=8)] * data.draw(st.integers(0, 1))
    known = answer(*there, pool=pool, waiting=waits, state=begun(*names))
    untold = answer(*there, pool=pool, told=None, waiting=waits, state=begun(*names))
    gone = set(untold.candidates[: untold.present - untold.target])
    assert gone <= {f"i-{name}" for name in names}
    assert gone == {i for i in known.candidates if i.removeprefix("i-") in names}
