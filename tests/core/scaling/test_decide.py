"""How many nodes a pool should have, alone and of all at once; what is noted beside; and the action that follows."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.explain.evidence import with_grounds
from receiver.core.model.actions import Action, ActionKind, Change, Decision, Reason, Verdict, Victim, VictimStage
from receiver.core.model.model import (
    Backoff,
    CordonedBy,
    Facts,
    Node,
    Source,
    Stage,
)
from receiver.core.model.overrides import OverrideKind
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Limits, Policy
from receiver.core.model.signals import SignalAction
from receiver.core.model.windows import Window
from receiver.core.scaling.assign import assign
from receiver.core.scaling.bounds import topic_of
from receiver.core.scaling.decide import case_of, decide_all, later, plan, removals_under_way
from receiver.core.scaling.failures import Failures
from receiver.core.scaling.guardrails import with_added
from receiver.core.scaling.guardrails.rule import AddedGuardrail, Case, Guardrail, Held, Rule
from receiver.core.scaling.wanted import Assignment, Headroom
from tests.core.builders import (
    ALL_GUARDRAILS,
    EVERY_SECOND,
    GPU,
    HOUR,
    HOUR_ENDS_SOON,
    HOURLY,
    MID_HOUR,
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
    decision_on,
    facts,
    growing,
    rules,
    run,
    with_fields,
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


ONE, TWO = a_pool("one"), a_pool("two")
POLICY = a_policy(ONE, TWO)


def removal(*stages: VictimStage, pool: str = ONE.id) -> Action:
    """An open removal of the first nodes of a pool, one in each of *stages*."""
    victims = tuple(
        Victim(instance=f"i-n{n}", node=f"n{n}", stage=stage, since=NOW - timedelta(minutes=1))
        for n, stage in enumerate(stages)
    )
    return Action(
        id="r",
        pool=pool,
        kind=ActionKind.RETIRE,
        opened_at=NOW,
        from_count=9,
        to_count=9 - len(stages),
        victims=victims,
    )


def idle(pool: str, **changes: Any) -> Facts:
    """Both pools, each with two nodes that are due, and *changes* of *pool*."""
    states = (
        a_state(*(a_due_node(f"n{n}") for n in range(2)), pool=ONE.id),
        a_state(*(a_due_node(f"m{n}", instance=f"i-m{n}") for n in range(2)), pool=TWO.id),
    )
    return facts(*(replace(s, **changes) if s.pool == pool else s for s in states))


def going(found: Facts, policy: Policy) -> list[int]:
    decisions = decide_all(found, assign(found, policy), policy)
    return [decisions[pool.id].present - decisions[pool.id].target for pool in policy.pools]


def limited(most: int) -> Policy:
    return a_policy(ONE, TWO, limits=Limits(max_removals_per_hour=most))


@pytest.mark.parametrize(("most", "expected"), [(5, [2, 2]), (3, [2, 1]), (2, [2, 0]), (1, [1, 0])])
def test_pools_share_the_removals_of_an_hour_in_order(most: int, expected: list[int]) -> None:
    assert going(idle(ONE.id), limited(most)) == expected


@pytest.mark.parametrize(("most", "expected"), [(1, [1, 0]), (2, [1, 1]), (3, [1, 2])])
def test_a_removal_under_way_counts_for_the_other_pools_and_not_twice_for_its_own(
    most: int, expected: list[int]
) -> None:
    found = idle(ONE.id, open_action=removal(VictimStage.CORDONED), nodes=(a_due_node("n0"),), required=1)
    assert going(found, limited(most)) == expected


def test_a_victim_is_under_way_until_it_is_spared_and_one_that_is_deleted_until_the_removal_ends() -> None:
    state = a_state(open_action=removal(*VictimStage))
    assert removals_under_way(state, deleted=False) == 2  # chosen or cordoned
    assert removals_under_way(state) == 4
    assert removals_under_way(a_state()) == 0


def test_a_pool_takes_from_the_shared_removals_what_it_removes_and_no_more() -> None:
    found = idle(ONE.id, nodes=(a_due_node("n0"), a_busy_node("n1")))
    assert going(found, limited(3)) == [1, 2]


def test_what_is_kept_warm_is_unknown_from_the_moment_on_at_which_it_falls() -> None:
    found, falls_at = idle(ONE.id), NOW + HOUR
    headroom = Headroom(gpus=2, asked=2, falls_at=falls_at)
    for falls, then, kept in (
        (falls_at, falls_at, None),
        (falls_at, falls_at - timedelta(seconds=1), headroom),
        (None, falls_at, replace(headroom, falls_at=None)),
    ):
        warm = replace(assign(found, POLICY).pools[ONE.id], headroom=replace(headroom, falls_at=falls))
        assert later(case_of(found.pools[0], warm, found, POLICY), then).wanted.headroom == kept


class Unreadable:
    """An action that no step can read."""

    @property
    def kind(self) -> ActionKind:
        raise RuntimeError("unreadable")


UNREADABLE: Any = Unreadable()


def broken(assignment: Assignment, pool: str) -> Assignment:
    """*assignment*, where an exception is raised when *pool* is decided."""
    wanted: Any = None
    return replace(assignment, pools={**assignment.pools, pool: wanted})


def kept(decision: Decision) -> bool:
    return (
        decision.target == decision.present
        and [(r.rule, r.verdict) for r in decision.reasons] == [("internal_error", Verdict.HOLDS)]
        and "internal error" in decision.reasons[0].detail
    )


def test_a_pool_that_cannot_be_decided_keeps_its_size_and_the_others_are_decided() -> None:
    found, failures = idle(ONE.id), Failures()
    decisions = decide_all(found, broken(assign(found, POLICY), ONE.id), POLICY, failures=failures)
    assert kept(decisions[ONE.id])
    assert decisions[TWO.id].target == 0
    assert list(failures.set_aside) == [ONE.id]
    assert [failure.part for failure in failures.all] == ["decide"]


def test_a_pool_whose_open_action_cannot_be_read_keeps_its_size() -> None:
    found, failures = idle(ONE.id, open_action=UNREADABLE), Failures()
    decisions = decide_all(found, assign(idle(ONE.id), POLICY), POLICY, failures=failures)
    assert kept(decisions[ONE.id])
    assert decisions[TWO.id].target == 0
    assert [(failure.part, failure.pool) for failure in failures.all] == [("decide", ONE.id)]


def test_without_a_place_for_failures_they_are_raised() -> None:
    found = idle(ONE.id)
    with pytest.raises(AttributeError):
        decide_all(found, broken(assign(found, POLICY), ONE.id), POLICY)
    with pytest.raises(RuntimeError, match="unreadable"):
        decide_all(idle(ONE.id, open_action=UNREADABLE), assign(found, POLICY), POLICY)


def test_a_decision_that_cannot_be_explained_stands_and_names_the_work_that_asks() -> None:
    def explain(decision: Decision, _: object) -> Decision:
        raise RuntimeError(decision.pool)

    found, failures = facts(a_state(), waiting=[a_pod("p1"), a_pod("p2")]), Failures()
    assignment, policy = assign(found, a_policy()), a_policy()
    decision = decide_all(found, assignment, policy, explained_by=explain, failures=failures)["l40s-id"]
    assert decision.target == 2
    assert decision.evidence == {"asking": ["ml/p1", "ml/p2"]}
    assert [(failure.part, failure.pool) for failure in failures.all] == [("grounds", "l40s-id")]
    with pytest.raises(RuntimeError):
        decide_all(found, assignment, policy, explained_by=explain)


def test_without_an_explanation_a_decision_has_no_evidence() -> None:
    found = facts(a_state(), waiting=[a_pod()])
    assert decide_all(found, assign(found, a_policy()), a_policy())["l40s-id"].evidence == {}


def test_a_case_holds_what_concerns_its_pool_and_has_not_ended() -> None:
    mine, others = an_override(OverrideKind.PAUSE, pool=ONE.id), an_override(OverrideKind.PAUSE, pool=TWO.id)
    over = replace(mine, at=NOW - HOUR, until=NOW)
    found = with_fields(idle(ONE.id), overrides=(others, over, mine))
    case = case_of(found.pools[0], assign(found, POLICY).pools[ONE.id], found, POLICY)
    assert case.overrides == (mine,)


def test_there_is_no_case_for_a_pool_that_is_not_configured() -> None:
    found = idle(ONE.id)
    wanted = assign(found, POLICY).pools[ONE.id]
    with pytest.raises(KeyError, match="one-id"):
        case_of(found.pools[0], wanted, found, a_policy(TWO))


TWO_NODES = a_state(a_due_node("a"), a_due_node("b"))


def to(target: int, *candidates: str) -> Decision:
    """The decision that the two nodes become *target*."""
    return Decision(pool="l40s-id", at=NOW, present=2, target=target, reasons=(), candidates=candidates)


def test_growth_has_no_victims_although_nodes_might_go() -> None:
    action = plan(to(3, "i-a", "i-b"), TWO_NODES, a_policy())
    assert action is not None
    assert (action.kind, action.from_count, action.to_count, action.victims) == (ActionKind.GROW, 2, 3, ())
    assert action.reserved_usd == Decimal("1.29")
    assert action.id.endswith("-grow-2-to-3")


def test_removal_reserves_nothing_and_counts_the_nodes_that_it_names() -> None:
    action = plan(to(0, "i-b"), TWO_NODES, a_policy())
    assert action is not None
    assert (action.kind, action.from_count, action.to_count) == (ActionKind.RETIRE, 2, 1)
    assert [v.instance for v in action.victims] == ["i-b"]
    assert action.reserved_usd == 0
    assert action.id.endswith("-retire-1")


@pytest.mark.parametrize("decision", [to(3), to(1, "i-a")])
def test_nothing_is_planned_for_a_pool_that_is_not_configured(decision: Decision) -> None:
    assert plan(replace(decision, pool="other-id"), TWO_NODES, a_policy(billing=HOURLY)) is None


LOST = a_node(
    "lost",
    stage=Stage.BROKEN,
    allocatable={},
    idle_since=None,
    was_usable=True,
    created_at=NOW - 21 * MINUTE,
    lost_at=NOW - 21 * MINUTE,
)
REFUSED = Backoff(failures=1, until=NOW + MINUTE, reason="http_403")


def test_dead_nodes_that_cannot_go_now_do_not_delay_new_ones_and_are_no_candidates() -> None:
    pool = a_pool(resources={GPU: 2})
    state = a_state(LOST, a_due_node("small"), removal_backoff=REFUSED)
    decision = run(facts(state, waiting=[a_pod("p", 2)]), a_policy(pool))[1]["l40s"]
    assert (decision.deciding.rule, decision.target - decision.present) == ("demand", 1)
    assert decision.candidates == ("i-small",)


def test_dead_nodes_that_cannot_go_now_are_kept_by_that_rule_where_nothing_waits() -> None:
    decision = run(facts(a_state(LOST, removal_backoff=REFUSED)), a_policy())[1]["l40s"]
    assert (decision.deciding.rule, decision.target - decision.present) == ("not_backing_off", 0)
    assert decision.candidates == ("i-lost",)


def test_an_alert_that_stops_a_change_is_no_note() -> None:
    held = growing(signals=(a_signal(SignalAction.PAUSE_SCALE_UP), a_signal(SignalAction.SCALE_UP)))
    assert rules(held, "notes") == ["scale_up"]


def test_a_busy_node_that_a_workload_keeps_is_not_noted() -> None:
    until = NOW + MINUTE
    kept, busy = a_node(kept_until=until), a_busy_node("n2", kept_until=until)
    decision = run(facts(a_state(kept, busy)), a_policy())[1]["l40s"]
    assert [r.because for r in decision.reasons if r.rule == "keep_until"] == [(kept,)]
    assert "keep_until" not in rules(run(facts(a_state(busy)), a_policy())[1]["l40s"], "notes")


@pytest.mark.parametrize(("busy", "noted"), [(1, False), (2, True)])
def test_a_window_that_evicts_is_noted_where_more_nodes_work_than_it_allows(busy: int, noted: bool) -> None:
    night = Window(name="night", times=((11 * 60, 13 * 60),), max_nodes=1, evict_after=30 * MINUTE)
    pool = a_pool(windows=(night,))
    state = a_state(
        *(
            a_node(f"n{n}", idle_since=None, pods=(a_pod(f"p{n}", phase=PodPhase.RUNNING, owner="ReplicaSet/web"),))
            for n in range(busy)
        )
    )
    found = facts(state, told_to_go={topic_of(night, pool): NOW - MINUTE})
    assert ("evict_after" in rules(run(found, a_policy(pool))[1]["l40s"], "notes")) is noted


def test_no_rule_holds_a_size_that_stays_as_it_is() -> None:
    decision = run(facts(a_state(a_busy_node()), sources=all_up(Source.CIVO)), a_policy())[1]["l40s"]
    assert rules(decision, "holds", "limits") == []
    assert rules(decision, "notes") == ["nothing_wanted"]
    assert rules(decision, "allows") == [guardrail.name for guardrail in ALL_GUARDRAILS]


def test_where_work_waits_that_gets_no_node_nothing_wanted_is_not_said() -> None:
    gang = [a_pod("g1", gang="ml/g", gang_min=2)]
    decision = run(facts(a_state(), waiting=gang), a_policy())[1]["l40s"]
    assert rules(decision, "notes") == ["gang_is_complete"]


def people_agree(target: int, case: Case) -> Held[None]:
    """Nothing changes before people agree."""
    return Held(left=case.present, because=None)


HOLDS_ALL = AddedGuardrail(
    guardrail=Guardrail(check=people_agree, meaning="People agree.", say=lambda _, __: ("nobody has agreed", ())),
    before="one_change_at_a_time",
    grows_to=lambda target, pool, state, bounds, found: state.required,
    holds_back=lambda going, announced, case: tuple(node for node in going if node.name == "a"),
    moments=lambda case: (NOW + MINUTE,),
    notes=lambda case: (Reason(rule="agreed", verdict=Verdict.NOTES, target=case.present),),
    rules={"agreed": Rule(meaning="Whether people agree.", say=lambda _, __: ("not yet", ()))},
)


def decided_with(found: Facts, *added: AddedGuardrail) -> Decision:
    assignment = assign(found, POLICY, guardrails=added)
    return decide_all(found, assignment, POLICY, explained_by=with_grounds)[ONE.id]


def test_an_added_guardrail_is_asked_at_its_place_and_says_why_it_holds() -> None:
    found = facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=(a_pod(),))
    assert decided_with(found).change is Change.GROW
    decision = decided_with(found, HOLDS_ALL)
    assert (decision.change, decision.deciding.rule, decision.deciding.detail) == (
        Change.HOLD,
        "people_agree",
        "nobody has agreed",
    )
    guardrails = [guardrail.name for guardrail in with_added((HOLDS_ALL,))]
    assert [reason.rule for reason in decision.reasons][-len(guardrails) :] == guardrails
    assert guardrails[-2:] == ["people_agree", "one_change_at_a_time"]
    assert decision.reconsider_at == NOW + MINUTE
    assert [reason.detail for reason in decision.reasons if reason.rule == "agreed"] == ["not yet"]


def test_a_node_that_an_added_guardrail_keeps_delays_no_other() -> None:
    found = facts(a_state(a_due_node("a"), a_due_node("b"), pool=ONE.id), a_state(pool=TWO.id))
    lets_go = replace(HOLDS_ALL, guardrail=replace(HOLDS_ALL.guardrail, check=lambda target, case: None))
    assert decided_with(found).candidates == ("i-a", "i-b")
    assert decided_with(found, lets_go).candidates == ("i-b", "i-a")


def test_where_nobody_can_lift_it_an_added_guardrail_lets_everything_pass() -> None:
    found = facts(a_state(pool=ONE.id), a_state(pool=TWO.id), waiting=(a_pod(),))
    decision = decided_with(found, HOLDS_ALL.unattended)
    assert decision.target == decided_with(found).target == 1
    assert "people_agree" in rules(decision, "allows")
    assert decision.reconsider_at == decided_with(found).reconsider_at
