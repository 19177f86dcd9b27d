"""What needs a person, as pages show it at once, also where no message is sent."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.model import Backoff, Drift, Facts, Rights, Source, SourceState, Spend, Stage, never_asked
from receiver.core.model.overrides import Answer
from receiver.core.model.policy import Approval, Budget, Fallback, Policy
from receiver.core.model.signals import SignalAction
from receiver.core.notices.installation_concerns import of_others
from receiver.core.notices.notice import Concern, Level, Severity
from tests.core.builders import (
    GPU,
    MINUTE,
    NOW,
    a_busy_node,
    a_growth,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_question,
    a_signal,
    a_silence,
    a_state,
    all_up,
    an_override,
    facts,
)
from tests.core.notices.of_installations import another
from tests.core.notices.scene import L40S, POLICY, concerns_of

LATER = Backoff(failures=3, until=NOW + 7 * MINUTE, reason="gpu_count_exceeded: no GPU of this kind is free")


def the_one(known: Facts, policy: Policy | None = None) -> Concern:
    [concern] = concerns_of(known, policy)
    return concern


def ago(minutes: float) -> datetime:
    return NOW - minutes * MINUTE


def test_nothing_needs_a_person_when_all_is_well() -> None:
    coming = a_node("coming", stage=Stage.BOOTING, idle_since=None, allocatable={}, created_at=ago(4))
    assert concerns_of(facts(a_state(a_node(), a_busy_node("busy"), coming), waiting=[a_pod()])) == []


def test_a_silent_source_is_shown_at_once_and_told_after_two_minutes() -> None:
    for minutes, told in ((1.9, False), (2, True)):
        state = SourceState(source=Source.PROMETHEUS, up=False, at=NOW, since=ago(minutes), detail="503")
        concern = the_one(facts(a_state(), sources={**all_up(), Source.PROMETHEUS: state}))
        assert (concern.what, concern.level) == ("Prometheus does not answer: no GPU pool changes", Level.BAD)
        assert (concern.why, concern.since, bool(concern.topic)) == ("503", ago(minutes), told)


def test_a_configured_queue_that_cannot_be_read_is_told_once_whatever_its_error_says() -> None:
    """It is no silent source: everything else works as usual."""
    asked = 'kueue.demand is "queued", and workloads.kueue.x-k8s.io cannot be read'
    told = set()
    for why in ("503 request 1", "503 request 2"):
        state = SourceState(source=Source.KUBERNETES, up=True, at=NOW, since=ago(60), detail=f"{asked}: {why}")
        concern = the_one(facts(a_state(), sources={**all_up(), Source.KUBERNETES: state}))
        assert concern.what == "A queue cannot be read: no node is bought for work that waits there for quota"
        assert (concern.level, concern.why) == (Level.WARN, f"{asked}: {why}")
        told.add((concern.topic, concern.key))
    assert told == {("source:queues", asked)}


def test_a_counter_that_dcgm_does_not_deliver_is_told_once_whichever_nodes_lack_it() -> None:
    """It is no silent source: utilization is known."""
    told = set()
    for nodes, named in ((("n1",), "n1"), (("n1", "n2", "n3", "n4", "n5"), "n1, n2, n3 and 2 more")):
        why = f"failed GPUs are not detected: no DCGM_FI_DEV_XID_ERRORS from {named}"
        lacks = {"DCGM_FI_DEV_XID_ERRORS": nodes}
        state = SourceState(source=Source.DCGM, up=True, at=NOW, since=ago(60), lacks=lacks)
        concern = the_one(facts(a_state(), sources={**all_up(), Source.DCGM: state}))
        assert concern.what == "DCGM does not deliver every counter: some faults of GPUs are not detected"
        assert (concern.level, concern.why, concern.guide) == (Level.WARN, why, "runbooks/GpuCountersMissing.md")
        told.add((concern.topic, concern.key))
    assert told == {("source:counters", "DCGM_FI_DEV_XID_ERRORS")}


@pytest.mark.parametrize(
    ("rights", "levels"),
    [
        (never_asked(NOW).answered(("patch nodes",), NOW), [Level.BAD]),
        (never_asked(NOW), [Level.WARN]),
        (never_asked(NOW - timedelta(hours=1)), [Level.WARN]),
        (never_asked(NOW).answered((), NOW), []),
        (None, []),
    ],
    ids=["missing", "not known yet", "not known for long", "all there", "never asked"],
)
def test_rights_that_are_missing_or_unknown_are_shown(rights: Rights | None, levels: list[Level]) -> None:
    assert [c.level for c in concerns_of(facts(a_state(), rights=rights))] == levels


def test_a_budget_past_a_line_says_what_that_stops() -> None:
    known = facts(a_state(), spend=Spend(month="2026-11", usd=Decimal(85)))
    concern = the_one(known, a_policy(budget=Budget(monthly_usd=Decimal(100))))
    assert (concern.kind, concern.level, concern.topic) == ("budget_hold", Level.WARN, "")
    assert "no pool grows, except for priority classes in budget.passing_priority_classes" in concern.doing


def test_a_pool_that_backs_off_says_why_and_when_it_is_tried_again() -> None:
    concern = the_one(facts(a_state(backoff=LATER)))
    assert (concern.kind, concern.what) == ("out_of_stock", "cannot grow: Civo has no GPU of its kind free")
    assert concern.why == ""
    assert concern.doing == "the next try is at 12:07 UTC"


def test_a_growth_that_failed_otherwise_keeps_its_reason_out_of_the_first_line() -> None:
    failed = Backoff(failures=1, until=NOW + timedelta(minutes=7), reason="internal_error (Something went wrong)")
    concern = the_one(facts(a_state(backoff=failed)))
    assert (concern.kind, concern.what) == ("growth_failed", "cannot grow: the last try failed")
    assert concern.why == "internal_error (Something went wrong)"


def test_a_node_that_is_requested_and_not_listed_is_shown_when_its_time_is_over() -> None:
    assert concerns_of(facts(a_state(required=1, required_since=ago(4)))) == []
    [concern] = concerns_of(facts(a_state(required=1, required_since=ago(21))))
    assert (concern.kind, concern.level) == ("stuck", Level.WARN)


def test_a_pool_whose_nodes_never_become_usable_says_what_is_tried() -> None:
    held = the_one(facts(a_state(provisioning=LATER)))
    assert (held.what, held.level) == ("3 new nodes in a row never became usable", Level.WARN)
    assert held.doing.endswith("the next try is at 12:07 UTC")
    trial = the_one(facts(a_state(provisioning=Backoff(failures=1, until=ago(1), reason="l40s-3 boots"))))
    assert trial.doing.endswith("one node is being tried now")


def test_an_open_action_that_fails_shows_its_error() -> None:
    action = a_growth(opened_at=ago(1), last_error="TryLater: Civo answered 503")
    concern = the_one(facts(a_state(open_action=action), waiting=[a_pod()]))
    assert (concern.what, concern.why) == ("growth fails", "TryLater: Civo answered 503")


def test_waiting_work_that_a_guardrail_blocks_says_why_and_leads_to_the_decision() -> None:
    concern = the_one(facts(a_state(a_busy_node()), waiting=[a_pod()]), a_policy(a_pool(max_nodes=1)))
    assert (concern.kind, concern.what) == ("held", "does not grow: it is at its maximum")
    assert concern.guide == "guardrails.md#within_maximum"


def test_a_guardrail_that_blocks_nothing_is_no_concern() -> None:
    assert concerns_of(facts(a_state(a_busy_node())), a_policy(a_pool(max_nodes=1))) == []


def test_an_open_approval_request_says_until_when_and_how_to_answer() -> None:
    known = facts(a_state(a_node()), questions=(a_question("i-n1"),))
    [concern] = [c for c in concerns_of(known) if c.kind == "question"]
    assert (concern.what, concern.question) == ("waits for an approval", "q1")
    assert "gpu-autoscaler answer q1 approve" in concern.todo


def test_growth_that_a_person_rejected_is_shown_while_work_waits_for_it() -> None:
    rejected = a_question(to_count=3, answer=Answer.REJECT, who="alice")
    policy = a_policy(a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(1))))
    known = facts(a_state(), waiting=[a_pod()], questions=(rejected,))
    concern = the_one(known, policy)
    assert (concern.level, concern.what) == (Level.BAD, "does not grow: a person rejected further growth")
    assert "alice rejected: grow the pool from 0 to 3 nodes" in concern.why
    assert "gpu-autoscaler override floor l40s 3" in concern.todo
    assert concerns_of(replace(known, waiting=()), policy) == []
    unasked = a_policy(a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(2))))
    assert concerns_of(known, unasked) == []  # so little growth needs no approval


def test_what_people_requested_is_noted_without_alarm() -> None:
    noted = concerns_of(facts(a_state(silence=a_silence()), overrides=(an_override("pin", 0),)))
    assert [(c.kind, c.level) for c in noted] == [("silenced", Level.NOTE), ("override", Level.NOTE)]
    assert noted[1].what == "has a pin of 0 nodes until 2026-11-20 13:00 UTC"


def test_an_alert_that_freezes_is_shown_and_one_that_only_notes_is_not() -> None:
    known = facts(a_state(), signals=(a_signal(SignalAction.FREEZE, None), a_signal(SignalAction.HOLD, None)))
    assert the_one(known).what == "alert Gpu-freeze is firing: no growth and no removals in all GPU pools"


def test_counts_that_others_changed_within_a_day_stay_shown() -> None:
    drifts = tuple(Drift(at=ago(minutes), from_count=1, to_count=2) for minutes in (30, 60, 60 * 25))
    concern = the_one(facts(a_state(drifts=drifts)))
    assert concern.what == "node count changed outside the autoscaler 2 times in the last day"
    assert not concern.topic


def test_a_pool_without_a_price_is_shown() -> None:
    assert the_one(facts(a_state()), a_policy(a_pool(price_usd_per_hour=None))).kind == "no_price"


STUCK = a_node("late", stage=Stage.INSTALLING, created_at=ago(25), allocatable={}, idle_since=None)
BUDGET = a_policy(budget=Budget(monthly_usd=Decimal(100)))
PAST = {usd: Spend(month="2026-11", usd=Decimal(usd)) for usd in (85, 101)}
APPROVES = a_policy(a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(1))))
CAUSES = {
    "budget_hold": (facts(a_state(), spend=PAST[85]), BUDGET, Level.WARN),
    "budget_stop": (facts(a_state(), spend=PAST[101]), BUDGET, Level.WARN),
    "out_of_stock": (facts(a_state(backoff=LATER)), a_policy(), Level.WARN),
    "stuck": (facts(a_state(STUCK, required=1)), a_policy(), Level.WARN),
    "never_usable": (facts(a_state(provisioning=LATER)), a_policy(), Level.WARN),
    "silenced": (facts(a_state(silence=a_silence())), a_policy(), Level.NOTE),
    "override": (facts(a_state(), overrides=(an_override("pause"),)), a_policy(), Level.NOTE),
    "no_price": (facts(a_state()), a_policy(a_pool(price_usd_per_hour=None)), Level.WARN),
    "rights_missing": (facts(a_state(), rights=never_asked(NOW)), a_policy(), Level.WARN),
    "signal": (facts(a_state(), signals=(a_signal(SignalAction.PAUSE_SCALE_UP),)), a_policy(), Level.WARN),
    "question": (facts(a_state(), questions=(a_question(),)), APPROVES, None),
}


@pytest.mark.parametrize("kind", CAUSES)
def test_what_keeps_work_waiting_is_wrong_and_is_less_while_no_work_waits(kind: str) -> None:
    known, policy, calm = CAUSES[kind]
    waits = replace(known, waiting=(a_pod(),))
    assert [c.level for c in concerns_of(known, policy) if c.kind == kind] == ([calm] if calm else [])
    assert [c.level for c in concerns_of(waits, policy) if c.kind == kind] == [Level.BAD]


def test_a_freeze_is_wrong_whether_or_not_work_waits() -> None:
    frozen = facts(a_state(), signals=(a_signal(SignalAction.FREEZE, None),))
    assert the_one(frozen).level is Level.BAD
    assert {c.level for c in concerns_of(replace(frozen, waiting=(a_pod(),)))} == {Level.BAD}


@pytest.mark.parametrize(
    ("silent", "fallback", "levels"),
    [
        ([Source.CIVO], Fallback.NONE, [Level.BAD]),
        ([Source.PROMETHEUS], Fallback.NONE, [Level.BAD]),
        ([Source.PROMETHEUS], Fallback.KUBERNETES, [Level.WARN]),
        ([Source.KUBERNETES], Fallback.NONE, [Level.WARN]),
        ([Source.KUBERNETES, Source.PROMETHEUS], Fallback.KUBERNETES, [Level.BAD, Level.BAD]),
        ([Source.ALERTMANAGER], Fallback.NONE, [Level.WARN]),
        ([Source.HEARTBEAT], Fallback.NONE, [Level.WARN]),
        ([Source.DCGM], Fallback.NONE, [Level.WARN]),
    ],
)
def test_a_silent_source_is_wrong_if_nothing_grows_without_it(
    silent: list[Source], fallback: Fallback, levels: list[Level]
) -> None:
    shown = concerns_of(facts(a_state(), sources=all_up(*silent)), a_policy(fallback=fallback))
    assert [c.level for c in shown] == levels
    assert all(("no GPU pool changes" in c.what) is (c.level is Level.BAD) for c in shown)


@pytest.mark.parametrize(
    ("spend", "budget", "levels"),
    [
        (Spend(month="2026-11", usd=Decimal(1), unknown="not read"), Budget(monthly_usd=Decimal(9)), [Level.BAD]),
        (Spend(month="2026-11", usd=Decimal(1), unpriced=("a.size",)), Budget(monthly_usd=Decimal(9)), [Level.BAD]),
        (Spend(month="2026-11", usd=Decimal(1)), Budget(monthly_usd=Decimal(9), teams={"a": Decimal(9)}), [Level.WARN]),
    ],
    ids=["of the cluster", "a price is missing", "of a team, with no work of it waiting"],
)
def test_an_unknown_spend_is_wrong_where_it_stops_all_growth(spend: Spend, budget: Budget, levels: list[Level]) -> None:
    assert [c.level for c in concerns_of(facts(a_state(), spend=spend), a_policy(budget=budget))] == levels


def test_the_budget_that_refuses_is_wrong_and_one_that_covers_the_work_is_not() -> None:
    spend = Spend(month="2026-11", usd=Decimal(85), teams={"a": Decimal(9), "b": Decimal(9)})
    policy = a_policy(budget=Budget(monthly_usd=Decimal(1000), teams={"a": Decimal(10), "b": Decimal(10)}))
    shown = concerns_of(facts(a_state(), spend=spend, waiting=[a_pod(labels={"team": "a"})]), policy)
    levels = {c.what: c.level for c in shown if c.kind == "budget_hold"}
    assert levels == {
        "Budget of team a is past its hold line": Level.BAD,
        "Budget of team b is past its hold line": Level.WARN,
    }


def test_a_budget_at_its_warn_line_whose_rest_covers_no_node_is_wrong_and_does_not_say_that_growth_goes_on() -> None:
    known = facts(a_state(), spend=Spend(month="2026-11", usd=Decimal(79)), waiting=[a_pod()])
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), stop_at=Decimal("0.8"), hold_at=Decimal("0.8")))
    [concern] = [c for c in concerns_of(known, policy) if c.kind == "budget_warn"]
    assert (concern.level, concern.doing) == (
        Level.BAD,
        "the budget does not cover another node, so pending work waits; running work continues",
    )


def test_work_that_waits_at_the_configured_maximum_is_wrong_and_does_not_wake_a_person() -> None:
    concern = the_one(facts(a_state(a_busy_node()), waiting=[a_pod()]), a_policy(a_pool(max_nodes=1)))
    assert (concern.level, concern.severity) == (Level.BAD, Severity.WARNING)


def test_a_pod_that_fits_no_pool_is_a_mistake_in_the_pod() -> None:
    assert the_one(facts(a_state(), waiting=[a_pod(gpus=8)])).level is Level.WARN


def test_a_pool_below_its_maximum_is_not_told_as_full_when_something_else_holds_it() -> None:
    """Five pods wait, three nodes may be had, and Civo has none: the maximum is not why it does not grow."""
    known = facts(a_state(a_busy_node(), backoff=LATER), waiting=[a_pod(f"p{n}") for n in range(5)])
    kinds = {concern.kind for concern in concerns_of(known, a_policy(a_pool(max_nodes=3)))}
    assert "held" not in kinds
    assert "out_of_stock" in kinds


def test_a_pool_at_its_maximum_is_told_as_full() -> None:
    known = facts(a_state(a_busy_node()), waiting=[a_pod()])
    [concern] = [c for c in concerns_of(known, a_policy(a_pool(max_nodes=1))) if c.kind == "held"]
    assert concern.what == "does not grow: it is at its maximum"


@pytest.mark.parametrize(
    ("condition", "kinds"),
    [
        ({"sick": "1 of 8 nvidia.com/gpu unhealthy", "partly_sick": True, "sick_since": ago(1)}, {"sick"}),
        ({"sick_since": ago(1)}, set()),
        ({"maintained": "gets another driver"}, set()),
        ({}, {"misdescribed"}),
    ],
    ids=["sick", "well for a moment", "maintained", "neither"],
)
def test_a_sick_node_is_told_as_sick_and_its_configuration_as_right(condition: dict[str, Any], kinds: set[str]) -> None:
    node = a_node("n1", allocatable={GPU: 7}, **condition)
    shown = concerns_of(facts(a_state(node)), a_policy(a_pool(resources={GPU: 8})))
    assert {concern.kind for concern in shown} & {"sick", "misdescribed"} == kinds


def test_an_installation_that_was_not_renewed_since_the_start_may_be_this_one_under_a_former_name() -> None:
    others = replace(another(L40S), since=NOW)
    assert list(of_others(others, POLICY, NOW)) == []
    assert list(of_others(replace(others, since=NOW - timedelta(minutes=1)), POLICY, NOW))
