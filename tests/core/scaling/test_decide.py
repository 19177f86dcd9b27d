"""How many nodes a pool should have, and why: one example test per guardrail and per row of the tables."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.actions import Action, ActionKind, Change, Decision, Victim, VictimStage
from receiver.core.model.model import (
    Backoff,
    CordonedBy,
    Node,
    PoolState,
    Source,
    SourceState,
    Spend,
    Stage,
    never_asked,
)
from receiver.core.model.policy import Budget, Fallback, Limits, Policy
from receiver.core.model.signals import SignalAction
from receiver.core.scaling.decide import plan
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_signal,
    a_silence,
    a_state,
    all_up,
    facts,
    rules,
    run,
)

UNKNOWN = never_asked(NOW)
REFUSED = UNKNOWN.answered(("patch nodes",), NOW)
HOUR_ENDS_SOON = NOW - timedelta(minutes=57)  # created then: three minutes of the paid hour are left
MID_HOUR = NOW - timedelta(minutes=30)


def decided(state: PoolState, policy: Policy | None = None, **given: Any) -> Decision:
    return run(facts(state, **given), policy or a_policy())[1]["l40s"]


def an_old_node(name: str = "n1", **changes: Any) -> Node:
    return a_node(name, **{"created_at": HOUR_ENDS_SOON, **changes})


# --- growth and the guardrails that hold it ---------------------------------------------------------------


def test_a_waiting_pod_grows_the_pool_and_names_the_delivery_that_woke_the_step() -> None:
    decision = decided(a_state(), waiting=[a_pod()], deliveries=(7,))
    assert (decision.present, decision.target, decision.change) == (0, 1, Change.GROW)
    assert decision.evidence["woken_by"] == [7]
    assert decision.evidence["asking"] == ["ml/train"]


@pytest.mark.parametrize(
    ("rule", "state", "policy", "given"),
    [
        pytest.param("price_is_known", a_state(), a_policy(a_pool(price_usd_per_hour=None)), {}, id="price_is_known"),
        pytest.param("nodes_may_be_removed", a_state(), a_policy(), {"rights": REFUSED}, id="nodes_may_be_removed"),
        pytest.param("nodes_may_be_removed", a_state(), a_policy(), {"rights": UNKNOWN}, id="rights are not known"),
        pytest.param(
            "spend_is_known",
            a_state(),
            a_policy(budget=Budget(monthly_usd=Decimal(1000))),
            {"spend": Spend(month="2026-11", usd=Decimal(0), unknown="Civo's charges do not answer")},
            id="spend_is_known",
        ),
        pytest.param(
            "within_budget",
            a_state(),
            a_policy(budget=Budget(monthly_usd=Decimal(100))),
            {"spend": Spend(month="2026-11", usd=Decimal(80))},
            id="within_budget: hold at 80 percent",
        ),
        pytest.param(
            "within_budget",
            a_state(),
            a_policy(budget=Budget(monthly_usd=Decimal(1))),
            {},
            id="within_budget: the first hour is not covered",
        ),
        pytest.param("within_maximum", a_state(a_busy_node()), a_policy(a_pool(max_nodes=1)), {}, id="within_maximum"),
        pytest.param("within_limits", a_state(), a_policy(limits=Limits(max_gpus=0)), {}, id="within_limits"),
        pytest.param(
            "not_frozen", a_state(), a_policy(), {"signals": (a_signal(SignalAction.FREEZE),)}, id="not_frozen"
        ),
        pytest.param("not_silenced", a_state(silence=a_silence()), a_policy(), {}, id="not_silenced"),
        pytest.param(
            "growth_is_not_paused",
            a_state(),
            a_policy(),
            {"signals": (a_signal(SignalAction.PAUSE_SCALE_UP, None),)},
            id="growth_is_not_paused",
        ),
        pytest.param(
            "not_backing_off",
            a_state(backoff=Backoff(failures=1, until=NOW + timedelta(seconds=1), reason="out of stock")),
            a_policy(),
            {},
            id="not_backing_off",
        ),
        pytest.param(
            "provisioning_works",
            a_state(required=1, required_since=NOW - timedelta(minutes=21)),
            a_policy(),
            {},
            id="provisioning_works",
        ),
        pytest.param(
            "cooled_down", a_state(last_grow_at=NOW - timedelta(seconds=29)), a_policy(), {}, id="cooled_down"
        ),
        pytest.param(
            "one_change_at_a_time",
            a_state(
                open_action=Action(
                    id="r",
                    pool="l40s-id",
                    kind=ActionKind.RETIRE,
                    opened_at=NOW,
                    from_count=1,
                    to_count=0,
                    victims=(Victim(instance="i-gone", node="gone", stage=VictimStage.DELETED, since=NOW),),
                )
            ),
            a_policy(),
            {},
            id="one_change_at_a_time",
        ),
    ],
)
def test_growth_is_held_by(rule: str, state: PoolState, policy: Policy, given: dict[str, Any]) -> None:
    decision = decided(state, policy, waiting=[a_pod()], **given)
    assert decision.target == decision.present
    assert rules(decision, "holds") == [rule]
    assert decision.deciding.detail


def test_the_cooldown_ends_at_its_very_second_and_the_decision_says_when_to_look_again() -> None:
    before = decided(a_state(last_grow_at=NOW - timedelta(seconds=29)), waiting=[a_pod()])
    after = decided(a_state(last_grow_at=NOW - timedelta(seconds=30)), waiting=[a_pod()])
    assert before.reconsider_at == NOW + timedelta(seconds=1)
    assert (before.target, after.target) == (0, 1)


def test_a_guardrail_may_leave_part_of_the_growth() -> None:
    decision = decided(
        a_state(a_busy_node()), a_policy(a_pool(max_nodes=3)), waiting=[a_pod(f"p{n}") for n in range(5)]
    )
    assert decision.target == 3
    assert rules(decision, "limits") == ["within_maximum"]


def test_a_pool_above_its_maximum_is_not_shrunk_by_a_wish_to_grow() -> None:
    nodes = [a_busy_node(f"n{n}") for n in range(4)]
    decision = decided(a_state(*nodes), a_policy(a_pool(max_nodes=2)), waiting=[a_pod()])
    assert decision.target == 4


# --- removal ----------------------------------------------------------------------------------------------


def test_an_idle_node_stays_while_its_hour_is_paid_and_the_decision_names_the_moment() -> None:
    decision = decided(a_state(a_node(created_at=MID_HOUR)))
    assert decision.target == 1
    assert decision.reconsider_at == MID_HOUR + timedelta(minutes=55)


def test_an_idle_node_goes_in_the_last_minutes_of_its_paid_hour() -> None:
    decision = decided(a_state(an_old_node()))
    assert (decision.target, decision.candidates) == (0, ("i-n1",))


def test_eight_nodes_of_one_age_go_together_while_another_is_being_built() -> None:
    nodes = [an_old_node(f"n{n}") for n in range(8)]
    young = a_node("young", stage=Stage.BUILDING, idle_since=None, created_at=NOW)
    decision = decided(a_state(*nodes, young), a_policy(a_pool(max_nodes=9)))
    assert decision.target == 1


def test_where_seconds_are_billed_a_node_goes_after_idle_for() -> None:
    policy = a_policy(billing=EVERY_SECOND)
    assert decided(a_state(a_node(idle_since=NOW - timedelta(minutes=10))), policy).target == 0
    assert decided(a_state(a_node(idle_since=NOW - timedelta(minutes=9, seconds=59))), policy).target == 1


def test_where_seconds_are_billed_the_shrink_cooldown_holds() -> None:
    state = a_state(a_node(), last_shrink_at=NOW - timedelta(minutes=4))
    assert decided(state, a_policy(billing=EVERY_SECOND)).deciding.rule == "cooled_down"


def test_where_hours_are_billed_the_shrink_cooldown_does_not_apply() -> None:
    assert decided(a_state(an_old_node(), last_shrink_at=NOW)).target == 0


def test_a_node_that_worked_a_moment_ago_is_not_judged_idle_at_the_hours_end() -> None:
    assert decided(a_state(an_old_node(idle_since=NOW - timedelta(seconds=9)))).target == 1


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(a_busy_node(created_at=HOUR_ENDS_SOON), id="runs a GPU pod"),
        pytest.param(
            a_busy_node(created_at=HOUR_ENDS_SOON, idle_since=NOW - timedelta(hours=1)),
            id="runs a GPU pod though it was noted as idle",
        ),
        pytest.param(an_old_node(idle_since=None), id="is not known to be idle"),
        pytest.param(an_old_node(stage=Stage.UNKNOWN), id="could not be looked at"),
        pytest.param(a_node(stage=Stage.INSTALLING), id="is on its way"),
        pytest.param(an_old_node(unknown_since=NOW), id="has GPUs in use that no pod holds"),
        pytest.param(an_old_node(protected=True), id="is protected"),
        pytest.param(an_old_node(hosts=("prometheus-0",)), id="hosts Prometheus"),
        pytest.param(an_old_node(cordoned_by=CordonedBy.SOMEONE), id="somebody else cordoned"),
    ],
)
def test_a_node_is_never_removed_that(node: Node) -> None:
    decision = decided(a_state(node, a_node("n2", created_at=MID_HOUR)))  # so that a spare node is there
    assert decision.target == 2
    assert decision.candidates == ()


def test_an_idle_node_that_a_waiting_gang_needs_stays() -> None:
    gang = [a_pod(f"rank{n}", gang="ml/train") for n in range(2)]
    assert decided(a_state(an_old_node()), waiting=gang).target == 2


def test_an_idle_node_that_a_waiting_pod_will_land_on_stays_while_another_is_spare() -> None:
    nodes = [an_old_node("n1"), a_node("n2", created_at=MID_HOUR)]
    assert decided(a_state(*nodes), waiting=[a_pod()]).candidates == ()


def test_a_pool_grows_for_a_pod_that_an_idle_node_cannot_hold_before_that_node_goes() -> None:
    half = an_old_node(allocatable={GPU: 1})  # one of its two GPUs is lost
    decision = decided(a_state(half), a_policy(a_pool(resources={GPU: 2})), waiting=[a_pod(gpus=2)])
    assert decision.target == 2


def test_an_idle_node_goes_at_its_hours_end_when_the_gang_cannot_be_completed() -> None:
    gang = [a_pod(f"rank{n}", gang="ml/train") for n in range(5)]
    assert decided(a_state(an_old_node()), a_policy(a_pool(max_nodes=3)), waiting=gang).target == 0


def test_standby_nodes_stay() -> None:
    nodes = [an_old_node("n1"), an_old_node("n2")]
    assert decided(a_state(*nodes), a_policy(a_pool(standby_nodes=1))).target == 1


def test_the_floor_stays_unless_the_budget_stop_is_reached() -> None:
    policy = a_policy(a_pool(min_nodes=1), budget=Budget(monthly_usd=Decimal(100)))
    calm = decided(a_state(an_old_node()), policy)
    stopped = decided(a_state(an_old_node()), policy, spend=Spend(month="2026-11", usd=Decimal(100)))
    assert (calm.target, calm.deciding.rule) == (1, "above_the_floor")
    assert stopped.target == 0


def test_what_civo_counts_and_does_not_list_is_no_node_of_the_floor() -> None:
    decision = decided(a_state(an_old_node(), required=2), a_policy(a_pool(min_nodes=1)))
    assert (decision.target, decision.deciding.rule) == (2, "above_the_floor")


def test_removals_per_hour_are_bounded() -> None:
    nodes = [an_old_node(f"n{n}") for n in range(4)]
    decision = decided(a_state(*nodes), a_policy(limits=Limits(max_removals_per_hour=3)), removed_last_hour=1)
    assert decision.target == 2


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        pytest.param("not_frozen", {"signals": (a_signal(SignalAction.FREEZE),)}, id="freeze"),
        pytest.param("sources_answer", {"sources": all_up(Source.HEARTBEAT)}, id="heartbeat"),
    ],
)
def test_removal_is_held_by(rule: str, given: dict[str, Any]) -> None:
    decision = decided(a_state(an_old_node()), **given)
    assert (decision.target, decision.deciding.rule) == (1, rule)


def test_a_node_that_refused_its_removal_stays_for_a_while_and_the_others_go() -> None:
    refused = Backoff(failures=1, until=NOW + timedelta(minutes=5), reason="ml/web is protected", instances=("i-n1",))
    state = a_state(an_old_node("n1"), an_old_node("n2"), removal_backoff=refused)
    assert decided(state).candidates == ("i-n2",)


def test_removals_that_failed_back_off_without_stopping_growth() -> None:
    failed = Backoff(failures=1, until=NOW + timedelta(minutes=5), reason="http_403")
    assert decided(a_state(an_old_node(), removal_backoff=failed)).deciding.rule == "not_backing_off"
    assert decided(a_state(removal_backoff=failed), waiting=[a_pod()]).target == 1


def test_a_pause_of_growth_does_not_stop_removal() -> None:
    assert decided(a_state(an_old_node()), signals=(a_signal(SignalAction.PAUSE_SCALE_UP),)).target == 0


def test_a_silence_pauses_removal_too() -> None:
    assert decided(a_state(an_old_node(), silence=a_silence())).target == 1


def test_a_freeze_of_another_pool_is_none_of_ours() -> None:
    assert decided(a_state(an_old_node()), signals=(a_signal(SignalAction.FREEZE, "other-id"),)).target == 0


# --- sources that are silent: the table of docs/guardrails.md ---------------------------------------------

SOURCES = [
    # source, growth, removal
    (Source.CIVO, False, False),
    (Source.STORE, False, False),
    (Source.KUBERNETES, True, False),
    (Source.DCGM, True, True),
    (Source.PROMETHEUS, False, False),
    (Source.HEARTBEAT, True, False),
    (Source.ALERTMANAGER, True, False),
]


@pytest.mark.parametrize(("source", "grows", "shrinks"), SOURCES, ids=[s[0].value for s in SOURCES])
def test_a_silent_source_stops_what_the_table_says(source: Source, grows: bool, shrinks: bool) -> None:
    down = all_up(source)
    assert (decided(a_state(), waiting=[a_pod()], sources=down).target == 1) is grows
    assert (decided(a_state(an_old_node()), sources=down).target == 0) is shrinks


def test_with_fallback_kubernetes_pools_grow_while_prometheus_is_silent() -> None:
    policy = a_policy(fallback=Fallback.KUBERNETES)
    assert decided(a_state(), policy, waiting=[a_pod()], sources=all_up(Source.PROMETHEUS)).target == 1
    blind = all_up(Source.PROMETHEUS, Source.KUBERNETES)
    assert decided(a_state(), policy, waiting=[a_pod()], sources=blind).target == 0


def test_an_alertmanager_that_nobody_configured_does_not_stop_removal() -> None:
    sources = {**all_up(), Source.ALERTMANAGER: SourceState(source=Source.ALERTMANAGER, up=False, configured=False)}
    assert decided(a_state(an_old_node()), sources=sources).target == 0


def test_the_evidence_says_when_activity_was_counted_in_pods() -> None:
    assert decided(a_state(a_busy_node()), sources=all_up(Source.DCGM)).evidence["activity"] == "pod counts"


# --- signals that alone move nothing ------------------------------------------------------------------------


def test_a_scale_up_signal_without_waiting_pods_grows_nothing() -> None:
    assert decided(a_state(), signals=(a_signal(SignalAction.SCALE_UP),)).target == 0


# --- plan -------------------------------------------------------------------------------------------------


def test_growth_becomes_one_absolute_count_with_its_first_hours_reserved() -> None:
    state, policy = a_state(a_busy_node()), a_policy()
    action = plan(decided(state, policy, waiting=[a_pod("a"), a_pod("b")]), state, policy)
    assert action is not None
    assert (action.kind, action.from_count, action.to_count) == (ActionKind.GROW, 1, 3)
    assert action.reserved_usd == Decimal("2.58")


def test_removal_names_its_victims_and_the_one_paid_up_first_goes_first() -> None:
    sooner = an_old_node("b", created_at=NOW - timedelta(minutes=59))
    later = an_old_node("a", created_at=NOW - timedelta(minutes=56))
    state, policy = a_state(later, sooner), a_policy(a_pool(min_nodes=1))
    action = plan(decided(state, policy), state, policy)
    assert action is not None
    assert [v.node for v in action.victims] == ["b"]
    assert (action.kind, action.to_count) == (ActionKind.RETIRE, 1)


def test_the_same_decision_gives_the_same_action() -> None:
    state, policy = a_state(an_old_node()), a_policy()
    assert plan(decided(state, policy), state, policy) == plan(decided(state, policy), state, policy)


def test_a_hold_becomes_no_action() -> None:
    state, policy = a_state(), a_policy()
    assert plan(decided(state, policy), state, policy) is None
