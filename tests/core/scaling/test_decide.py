"""How many nodes a pool should have, and which of them may go; its guardrails have files of their own beside."""

from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.core.model.actions import ActionKind, Change
from receiver.core.model.model import (
    CordonedBy,
    Node,
    Source,
    Stage,
)
from receiver.core.model.signals import SignalAction
from receiver.core.scaling.decide import plan
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    HOUR_ENDS_SOON,
    MID_HOUR,
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
    decision_on,
)

# --- growth ---------------------------------------------------------------


def test_a_waiting_pod_grows_the_pool_and_names_the_delivery_that_woke_the_step() -> None:
    decision = decision_on(a_state(), waiting=[a_pod()], deliveries=(7,))
    assert (decision.present, decision.target, decision.change) == (0, 1, Change.GROW)
    assert decision.evidence["woken_by"] == [7]
    assert decision.evidence["asking"] == ["ml/train"]


# --- removal ----------------------------------------------------------------------------------------------


def test_an_idle_node_stays_while_its_hour_is_paid_and_the_decision_names_the_moment() -> None:
    decision = decision_on(a_state(a_node(created_at=MID_HOUR)))
    assert decision.target == 1
    assert decision.reconsider_at == MID_HOUR + timedelta(minutes=55)


def test_an_idle_node_goes_in_the_last_minutes_of_its_paid_hour() -> None:
    decision = decision_on(a_state(a_due_node()))
    assert (decision.target, decision.candidates) == (0, ("i-n1",))


def test_eight_nodes_of_one_age_go_together_while_another_is_being_built() -> None:
    nodes = [a_due_node(f"n{n}") for n in range(8)]
    young = a_node("young", stage=Stage.BUILDING, idle_since=None, created_at=NOW)
    decision = decision_on(a_state(*nodes, young), a_policy(a_pool(max_nodes=9)))
    assert decision.target == 1


def test_where_seconds_are_billed_a_node_goes_after_idle_for() -> None:
    policy = a_policy(billing=EVERY_SECOND)
    assert decision_on(a_state(a_node(idle_since=NOW - timedelta(minutes=10))), policy).target == 0
    assert decision_on(a_state(a_node(idle_since=NOW - timedelta(minutes=9, seconds=59))), policy).target == 1


def test_a_node_that_worked_a_moment_ago_is_not_judged_idle_at_the_hours_end() -> None:
    assert decision_on(a_state(a_due_node(idle_since=NOW - timedelta(seconds=9)))).target == 1


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(a_busy_node(created_at=HOUR_ENDS_SOON), id="runs a GPU pod"),
        pytest.param(
            a_busy_node(created_at=HOUR_ENDS_SOON, idle_since=NOW - timedelta(hours=1)),
            id="runs a GPU pod though it was noted as idle",
        ),
        pytest.param(a_due_node(idle_since=None), id="is not known to be idle"),
        pytest.param(a_due_node(stage=Stage.UNKNOWN), id="could not be looked at"),
        pytest.param(a_node(stage=Stage.INSTALLING), id="is on its way"),
        pytest.param(a_due_node(unknown_since=NOW), id="has GPUs in use that no pod holds"),
        pytest.param(a_due_node(protected=True), id="is protected"),
        pytest.param(a_due_node(hosts=("prometheus-0",)), id="hosts Prometheus"),
        pytest.param(a_due_node(cordoned_by=CordonedBy.SOMEONE), id="was cordoned by someone else"),
    ],
)
def test_a_node_is_never_removed_that(node: Node) -> None:
    decision = decision_on(a_state(node, a_node("n2", created_at=MID_HOUR)))  # so that a spare node is there
    assert decision.target == 2
    assert decision.candidates == ()


def test_an_idle_node_that_a_waiting_gang_needs_stays() -> None:
    gang = [a_pod(f"rank{n}", gang="ml/train") for n in range(2)]
    assert decision_on(a_state(a_due_node()), waiting=gang).target == 2


def test_an_idle_node_that_a_waiting_pod_will_land_on_stays_while_another_is_spare() -> None:
    nodes = [a_due_node("n1"), a_node("n2", created_at=MID_HOUR)]
    assert decision_on(a_state(*nodes), waiting=[a_pod()]).candidates == ()


def test_a_pool_grows_for_a_pod_that_an_idle_node_cannot_hold_before_that_node_goes() -> None:
    half = a_due_node(allocatable={GPU: 1})  # one of its two GPUs is lost
    decision = decision_on(a_state(half), a_policy(a_pool(resources={GPU: 2})), waiting=[a_pod(gpus=2)])
    assert decision.target == 2


def test_an_idle_node_goes_at_its_hours_end_when_the_gang_cannot_be_completed() -> None:
    gang = [a_pod(f"rank{n}", gang="ml/train") for n in range(5)]
    assert decision_on(a_state(a_due_node()), a_policy(a_pool(max_nodes=3)), waiting=gang).target == 0


def test_standby_nodes_stay() -> None:
    nodes = [a_due_node("n1"), a_due_node("n2")]
    assert decision_on(a_state(*nodes), a_policy(a_pool(standby_nodes=1))).target == 1


def test_the_evidence_says_when_activity_was_counted_in_pods() -> None:
    assert decision_on(a_state(a_busy_node()), sources=all_up(Source.DCGM)).evidence["activity"] == "pod counts"


# --- signals that alone move nothing ------------------------------------------------------------------------


def test_a_scale_up_signal_without_waiting_pods_grows_nothing() -> None:
    assert decision_on(a_state(), signals=(a_signal(SignalAction.SCALE_UP),)).target == 0


# --- plan -------------------------------------------------------------------------------------------------


def test_growth_becomes_one_absolute_count_with_its_first_hours_reserved() -> None:
    state, policy = a_state(a_busy_node()), a_policy()
    action = plan(decision_on(state, policy, waiting=[a_pod("a"), a_pod("b")]), state, policy)
    assert action is not None
    assert (action.kind, action.from_count, action.to_count) == (ActionKind.GROW, 1, 3)
    assert action.reserved_usd == Decimal("2.58")


def test_removal_names_its_victims_and_the_one_paid_up_first_goes_first() -> None:
    sooner = a_due_node("b", created_at=NOW - timedelta(minutes=59))
    later = a_due_node("a", created_at=NOW - timedelta(minutes=56))
    state, policy = a_state(later, sooner), a_policy(a_pool(min_nodes=1))
    action = plan(decision_on(state, policy), state, policy)
    assert action is not None
    assert [v.node for v in action.victims] == ["b"]
    assert (action.kind, action.to_count) == (ActionKind.RETIRE, 1)


def test_the_same_decision_gives_the_same_action() -> None:
    state, policy = a_state(a_due_node()), a_policy()
    assert plan(decision_on(state, policy), state, policy) == plan(decision_on(state, policy), state, policy)


def test_a_hold_becomes_no_action() -> None:
    state, policy = a_state(), a_policy()
    assert plan(decision_on(state, policy), state, policy) is None
