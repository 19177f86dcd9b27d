"""Nodes that never came up, or broke: they go by name, and the pool buys one on trial before it buys more."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Action, Because, Change, Verdict
from receiver.core.model.model import ON_ITS_WAY, Backoff, CordonedBy, Node, PoolState, Stage
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Policy
from receiver.core.scaling.decide import join, plan
from receiver.core.scaling.waits import (
    awaited_since,
    probes_left,
    provisioning_failed,
)
from tests.core.builders import (
    GPU,
    HOUR,
    HOUR_ENDS_SOON,
    MINUTE,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    decision_on,
    rules,
)
from tests.core.worlds import LAWS

FAILED = Backoff(failures=2, until=NOW + MINUTE, reason="n0 never became usable")
OVER = replace(FAILED, until=NOW)


def never_up(name: str = "dead", **changes: Any) -> Node:
    """A node that has been on its way for a minute too long."""
    given: dict[str, Any] = {"stage": Stage.INSTALLING, "allocatable": {}, "idle_since": None}
    return a_node(name, **{**given, "created_at": NOW - 21 * MINUTE, **changes})


def lost(name: str = "lost", **changes: Any) -> Node:
    """A node that was usable and has been broken for a minute too long."""
    return never_up(name, **{"stage": Stage.BROKEN, "was_usable": True, "lost_at": NOW - 21 * MINUTE, **changes})


def vanished(name: str = "gone", **changes: Any) -> Node:
    """A young node whose Node object somebody deleted a while ago, before it was usable."""
    given = {"stage": Stage.BROKEN, "registered": False, "created_at": NOW - 5 * MINUTE, "lost_at": NOW - 4 * MINUTE}
    return never_up(name, **{**given, **changes})


def coming(name: str = "coming") -> Node:
    return never_up(name, created_at=NOW)


# --- dead_nodes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "node",
    [
        *(pytest.param(never_up(stage=stage), id=f"has been {stage} for too long") for stage in sorted(ON_ITS_WAY)),
        pytest.param(never_up(stage=Stage.BROKEN), id="came up broken"),
        pytest.param(lost(), id="was usable and broke"),
    ],
)
def test_a_node_goes_that(node: Node) -> None:
    decision = decision_on(a_state(node))
    assert (decision.target, decision.candidates) == (0, (node.instance,))
    assert (decision.deciding.rule, decision.deciding.verdict) == ("dead_nodes", Verdict.WANTS)
    assert decision.deciding.detail == f"{node.name}: not usable {'any more for' if node.was_usable else 'within'} 20m"


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(never_up(created_at=NOW - 20 * MINUTE), id="may still come up"),
        pytest.param(lost(lost_at=NOW - 20 * MINUTE), id="may still come back"),
        pytest.param(lost(lost_at=None), id="broke at an unknown time"),
        pytest.param(lost(pods=(a_pod(),)), id="broke under a pod"),
        pytest.param(never_up(stage=Stage.UNKNOWN), id="could not be looked at"),
        pytest.param(never_up(seen_since=NOW - 20 * MINUTE), id="nobody watched for so long"),
        pytest.param(never_up(protected=True), id="is protected"),
        pytest.param(lost(hosts=("prometheus-0",)), id="hosts Prometheus"),
        pytest.param(never_up(cordoned_by=CordonedBy.SOMEONE), id="somebody else cordoned"),
    ],
)
def test_a_node_stays_that(node: Node) -> None:
    assert decision_on(a_state(node)).candidates == ()


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(lost(ready=False), id="its kubelet is dead"),
        pytest.param(lost(ready=False, registered=False), id="its Node object is gone"),
        pytest.param(vanished(ready=False), id="its Node object went before it was usable"),
        pytest.param(never_up(ready=False, stage=Stage.BOOTING), id="it never became Ready"),
    ],
)
def test_a_pod_that_no_kubelet_will_end_keeps_no_lost_node(node: Node) -> None:
    stuck = a_pod(node=node.name, phase=PodPhase.RUNNING, leaves_at=NOW - 3 * MINUTE)
    assert decision_on(a_state(replace(node, pods=(stuck, replace(stuck, name="other"))))).candidates == (
        node.instance,
    )


@pytest.mark.parametrize(
    ("node", "pod"),
    [
        pytest.param({}, {"leaves_at": NOW - 2 * MINUTE}, id="it may still end"),
        pytest.param({}, {"leaves_at": NOW + MINUTE}, id="its grace goes on"),
        pytest.param({}, {"leaves_at": None}, id="it is not deleted"),
        pytest.param({"ready": True}, {}, id="the kubelet answers, so it may hold its GPUs"),
        pytest.param({"ready": True, "stage": Stage.USABLE, "allocatable": {GPU: 1}}, {}, id="the node is well"),
        pytest.param({"lost_at": NOW - MINUTE}, {}, id="the node may come back"),
        pytest.param({"protected": True}, {}, id="the node is protected"),
    ],
)
def test_a_pod_that_is_terminating_keeps_its_node_while(node: dict[str, Any], pod: dict[str, Any]) -> None:
    ending = a_pod(phase=PodPhase.RUNNING, node="lost", **{"leaves_at": NOW - HOUR, **pod})
    decision = decision_on(a_state(lost(**{"ready": False, "pods": (ending,), **node})))
    assert decision.candidates == ()


def test_a_lost_node_with_a_stuck_pod_and_one_that_is_not_deleted_stays() -> None:
    pods = (a_pod("stuck", leaves_at=NOW - HOUR), a_pod("runs", phase=PodPhase.RUNNING))
    assert decision_on(a_state(lost(ready=False, pods=pods))).candidates == ()


def test_a_lost_node_with_a_stuck_pod_goes_as_one_that_broke_and_evicts_nothing() -> None:
    node = lost(ready=False, pods=(a_pod(node="lost", leaves_at=NOW - HOUR),))
    action = plan(decision_on(a_state(node)), a_state(node), a_policy())
    assert action is not None
    assert [victim.because for victim in action.victims] == [Because.LOST]


def test_a_node_that_kubernetes_does_not_know_stays_while_it_knows_nodes_of_no_instance() -> None:
    node = never_up(registered=False)
    assert decision_on(a_state(node, unjoined=("k3s-other",))).candidates == ()
    assert decision_on(a_state(node)).candidates == ("i-dead",)
    assert decision_on(a_state(never_up(), unjoined=("k3s-other",))).candidates == ("i-dead",)


def test_a_node_that_is_gone_from_kubernetes_goes_before_the_time_of_a_new_one_is_over() -> None:
    decision = decision_on(a_state(vanished()), waiting=[a_pod()])
    assert (decision.target, decision.candidates) == (0, ("i-gone",))
    assert decision.deciding.detail == "gone: no Node object in Kubernetes any more"
    both = decision_on(a_state(vanished(), never_up()))
    assert both.deciding.detail.endswith(": not usable within 20m, or no Node object in Kubernetes any more")


@pytest.mark.parametrize("node", [vanished(), lost(registered=False)], ids=["never usable", "usable before"])
def test_a_node_that_is_gone_stays_while_kubernetes_knows_nodes_of_no_instance(node: Node) -> None:
    assert decision_on(a_state(node, unjoined=("k3s-other",))).candidates == ()
    assert decision_on(a_state(node)).candidates == (node.instance,)


def test_a_node_that_is_gone_and_may_not_go_does_not_stop_growth() -> None:
    decision = decision_on(a_state(vanished(), unjoined=("k3s-other",)), waiting=[a_pod()])
    assert (decision.target, decision.deciding.rule) == (2, "demand")
    late = vanished(created_at=NOW - 21 * MINUTE)
    assert decision_on(a_state(late, unjoined=("k3s-other",)), waiting=[a_pod()]).target == 1


def test_a_dead_node_is_not_kept_for_its_paid_hour() -> None:
    assert decision_on(a_state(never_up(created_at=NOW - 25 * MINUTE))).target == 0


def test_a_node_that_was_lost_is_room_for_three_minutes_more() -> None:
    """A device plugin that restarts takes the GPUs away for a moment; no node is bought for that."""

    def grown(broken: Node) -> int:
        decision = decision_on(a_state(broken), waiting=[a_pod()])
        return decision.target - decision.present

    back_soon = NOW - 3 * MINUTE
    assert grown(lost(lost_at=back_soon)) == 0
    assert grown(lost(lost_at=back_soon - timedelta(microseconds=1))) == 1
    assert grown(lost(lost_at=back_soon, pods=(a_pod("other"),))) == 1


def test_what_grows_waits_until_the_dead_are_gone() -> None:
    decision = decision_on(a_state(never_up()), waiting=[a_pod()])
    assert (decision.present, decision.target) == (1, 0)
    assert rules(decision, "notes") == ["demand"]
    assert rules(decision, "wants") == ["dead_nodes"]


def test_while_work_waits_only_the_dead_go() -> None:
    """The idle node is too small for the pod, so the pool wants to grow."""
    idle = a_node("idle", created_at=HOUR_ENDS_SOON)
    policy = a_policy(a_pool(resources={GPU: 2}))
    state = a_state(idle, never_up())
    assert decision_on(state, policy).target == 0
    decision = decision_on(state, policy, waiting=[a_pod(gpus=2)])
    assert (decision.target, decision.candidates[0]) == (1, "i-dead")


# --- above_the_floor --------------------------------------------------------------------------------------


# --- provisioning_works -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "left"),
    [
        pytest.param(a_state(), None, id="all is well"),
        pytest.param(a_state(provisioning=FAILED), 0, id="backing off"),
        pytest.param(a_state(provisioning=OVER), 1, id="the back-off is over"),
        pytest.param(a_state(a_busy_node(), provisioning=OVER), 1, id="beside a node that works"),
        pytest.param(a_state(coming(), provisioning=OVER), 0, id="one is on its way"),
        pytest.param(a_state(required=1, provisioning=OVER), 0, id="one is asked for and not listed"),
        pytest.param(a_state(coming("a"), coming("b"), provisioning=OVER), 0, id="two were on their way before"),
    ],
)
def test_a_pool_may_have_one_node_on_trial_at_a_time(state: PoolState, left: int | None) -> None:
    assert probes_left(state, NOW) == left


# --- plan.provisioning_failed -----------------------------------------------------------------------------


def removal(state: PoolState, policy: Policy | None = None) -> Action:
    policy = policy or a_policy()
    action = plan(decision_on(state, policy), state, policy)
    assert action is not None
    return action


def failed(state: PoolState) -> Backoff:
    found = provisioning_failed(removal(state), state)
    assert found is not None
    return found


def test_the_dead_are_stuck_or_lost_the_idle_are_idle() -> None:
    state = a_state(a_node("idle", created_at=HOUR_ENDS_SOON), never_up(), lost())
    assert {v.node: v.because for v in removal(state).victims} == {
        "dead": Because.STUCK,
        "lost": Because.LOST,
        "idle": Because.IDLE,
    }


@pytest.mark.parametrize(
    ("beside", "base"),
    [
        pytest.param((), 30 * MINUTE, id="alone"),
        pytest.param((a_busy_node(),), 5 * MINUTE, id="beside a node that works"),
        pytest.param((coming(),), 30 * MINUTE, id="beside one on its way"),
    ],
)
def test_the_first_back_off_is_shorter_beside_nodes_that_work(beside: tuple[Node, ...], base: timedelta) -> None:
    found = failed(a_state(never_up(), *beside))
    assert (found.failures, found.reason) == (1, "dead never became usable")
    assert NOW + base <= found.until <= NOW + base * 1.1


@LAWS
@given(st.integers(1, 40), st.booleans())
def test_the_back_off_doubles_up_to_a_day_with_a_tenth_of_jitter(before: int, works: bool) -> None:
    beside = (a_busy_node(),) if works else ()
    found = failed(a_state(never_up(), *beside, provisioning=replace(OVER, failures=before)))
    base = min((5 if works else 30) * 2 ** min(before, 30) * MINUTE, timedelta(hours=24))
    assert found.failures == before + 1
    assert NOW + base <= found.until <= NOW + base * 1.1
    assert found.holds(NOW, timedelta(hours=27))  # and what a restart reads back is believed


def test_after_a_deleted_node_object_one_other_node_is_tried_at_once_and_later_ones_after_a_while() -> None:
    first = failed(a_state(vanished()))
    assert (first.failures, first.until) == (1, NOW)
    assert decision_on(a_state(provisioning=first), waiting=[a_pod("a"), a_pod("b")]).target == 1
    second = failed(a_state(vanished("other"), provisioning=first))
    assert NOW + 10 * MINUTE <= second.until <= NOW + 11 * MINUTE
    with_another = failed(a_state(vanished(), never_up()))
    assert with_another.until >= NOW + 30 * MINUTE


def test_pools_that_fail_together_do_not_try_again_together() -> None:
    state = a_state(never_up())
    action = removal(state)
    ends = {f.until for n in range(20) if (f := provisioning_failed(replace(action, id=f"{n}"), state)) is not None}
    assert len(ends) > 10


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(lost(), id="had been usable"),
        pytest.param(a_node(created_at=HOUR_ENDS_SOON), id="was idle"),
    ],
)
def test_no_back_off_from_provisioning_follows_a_node_that(node: Node) -> None:
    state = a_state(node)
    assert provisioning_failed(removal(state), state) is None


def test_a_node_whose_removal_is_tried_again_fails_only_once() -> None:
    first = failed(a_state(never_up()))
    assert first.instances == ("i-dead",)
    again = a_state(never_up(), provisioning=first)
    assert provisioning_failed(removal(again), again) is None
    second = failed(a_state(never_up(), never_up("other"), provisioning=first))
    assert (second.failures, second.reason) == (2, "other never became usable")
    assert second.instances == ("i-dead", "i-other")


# --- plan.join --------------------------------------------------------------------------------------------


def test_a_node_whose_moment_came_joins_an_open_removal_and_a_dead_one_does_not() -> None:
    first, second = (a_node(name, created_at=HOUR_ENDS_SOON) for name in ("n1", "n2"))
    state = a_state(first)
    action = removal(state)
    state = a_state(first, second, never_up(), lost(), open_action=action)
    decision = decision_on(state)
    assert len(decision.candidates) == 4
    joined = join(action, decision, state)
    assert [v.node for v in joined.victims] == ["n1", "n2"]
    assert (joined.id, joined.to_count) == (action.id, action.to_count - 1)


def test_nothing_joins_beyond_what_was_let_go() -> None:
    nodes = [a_node(f"n{n}", created_at=HOUR_ENDS_SOON) for n in range(3)]
    action = removal(a_state(nodes[0]))
    state = a_state(*nodes, open_action=action)
    decision = decision_on(state, a_policy(a_pool(min_nodes=2)))
    assert decision.change is Change.SHRINK
    assert join(action, decision, state) == action


@LAWS
@given(
    kinds=st.lists(st.sampled_from(["idle", "dead", "lost", "busy"]), max_size=5),
    floor=st.integers(0, 3),
)
def test_what_joins_a_removal_may_go_and_is_not_dead(kinds: list[str], floor: int) -> None:
    """A focused law: nothing but the floor holds back what joins the removal of one idle node."""
    first = a_node("first", created_at=HOUR_ENDS_SOON)
    idle = partial(a_node, created_at=HOUR_ENDS_SOON)
    make: dict[str, Callable[[str], Node]] = {"idle": idle, "dead": never_up, "lost": lost, "busy": a_busy_node}
    nodes = [make[kind](f"{kind}{n}") for n, kind in enumerate(kinds)]
    action = removal(a_state(first))
    state = a_state(first, *nodes, open_action=action)
    decision = decision_on(state, a_policy(a_pool(min_nodes=floor)))
    joined = join(action, decision, state)
    let_go = {i.removeprefix("i-") for i in decision.candidates[: max(0, decision.present - decision.target)]}
    assert joined.victims[:1] == action.victims
    assert {v.node for v in joined.victims[1:]} == {name for name in let_go if name.startswith("idle")}
    assert joined.to_count == action.to_count - len(joined.victims) + 1


# --- awaited_since ----------------------------------------------------------------------------------------


def test_a_pool_waits_since_its_oldest_node_on_the_way_was_made() -> None:
    assert awaited_since(a_state(coming(), never_up())) == NOW - 21 * MINUTE


def test_a_node_that_was_usable_once_is_not_waited_for() -> None:
    assert awaited_since(a_state(lost(), a_node("works"))) is None


def test_a_node_that_was_found_half_way_is_waited_for_since_then() -> None:
    assert awaited_since(a_state(never_up(seen_since=NOW - MINUTE))) == NOW - MINUTE


def test_nodes_that_civo_does_not_list_are_waited_for_since_they_were_asked_for() -> None:
    assert awaited_since(a_state(coming(), required=2, required_since=NOW - 30 * MINUTE)) == NOW - 30 * MINUTE


def test_a_node_that_goes_again_is_not_waited_for() -> None:
    assert awaited_since(a_state(never_up(stage=Stage.DELETING))) is None
