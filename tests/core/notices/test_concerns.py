"""What needs a person: as pages show it at once, and as it is told, with nothing when all is well."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from receiver.core.model.model import (
    Backoff,
    CordonedBy,
    Drift,
    Facts,
    Node,
    PoolState,
    Source,
    SourceState,
    Spend,
    Stage,
)
from receiver.core.model.pods import PodPhase, Toleration
from receiver.core.model.policy import Budget, Fallback, Policy, Taint
from receiver.core.model.rights import Rights, never_asked
from receiver.core.model.signals import SignalAction
from receiver.core.notices.action_notices import removals_stop
from receiver.core.notices.held_concerns import one_cause
from receiver.core.notices.installation_concerns import of_others
from receiver.core.notices.notice import Cause, Concern, Level, Notice, Severity
from receiver.core.notices.unplaced_concerns import NO_WORDS
from receiver.core.scaling.assign import assign
from receiver.core.scaling.packing import IDLE
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
    a_signal,
    a_silence,
    a_state,
    all_up,
    an_override,
    facts,
    run,
)
from tests.core.notices.of_installations import another
from tests.core.notices.scene import L40S, POLICY, concerns_of, standing
from tests.core.worlds import LAWS, World, worlds

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
        assert (concern.kind, concern.level) == (Cause.SOURCE_SILENT, Level.BAD)
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
    assert (concern.kind, concern.why) == (Cause.OUT_OF_STOCK, "")
    assert concern.doing == "the next try is at 12:07 UTC"


def test_a_growth_that_failed_otherwise_keeps_its_reason_out_of_the_first_line() -> None:
    failed = Backoff(failures=1, until=NOW + timedelta(minutes=7), reason="internal_error (Something went wrong)")
    concern = the_one(facts(a_state(backoff=failed)))
    assert (concern.kind, concern.what) == ("growth_failed", "cannot grow: the last try failed, next try at 12:07 UTC")
    assert concern.why == "internal_error (Something went wrong)"


def test_a_node_that_is_requested_and_not_listed_is_shown_when_its_time_is_over() -> None:
    assert concerns_of(facts(a_state(required=1, required_since=ago(4)))) == []
    [concern] = concerns_of(facts(a_state(required=1, required_since=ago(21))))
    assert (concern.kind, concern.level) == ("stuck", Level.WARN)


def test_a_pool_whose_nodes_never_become_usable_says_what_is_tried() -> None:
    held = the_one(facts(a_state(provisioning=LATER)))
    assert (held.what, held.level) == ("3 new nodes in a row never became usable", Level.WARN)
    assert held.doing.endswith("until one works; the next try is at 12:07 UTC")
    trial = the_one(facts(a_state(provisioning=Backoff(failures=1, until=ago(1), reason="l40s-3 boots"))))
    assert trial.doing.endswith("one node is being tried now")


def test_an_open_action_that_fails_shows_its_error() -> None:
    action = a_growth(opened_at=ago(1), last_error="TryLater: Civo answered 503")
    concern = the_one(facts(a_state(open_action=action), waiting=[a_pod()]))
    assert (concern.what, concern.why) == ("growth fails", "TryLater: Civo answered 503")


def test_waiting_work_that_a_guardrail_blocks_says_why_and_leads_to_the_decision() -> None:
    concern = the_one(facts(a_state(a_busy_node()), waiting=[a_pod()]), a_policy(a_pool(max_nodes=1)))
    assert (concern.kind, concern.guide) == (Cause.HELD, "guardrails.md#within_maximum")


def test_a_guardrail_that_blocks_nothing_is_no_concern() -> None:
    assert concerns_of(facts(a_state(a_busy_node())), a_policy(a_pool(max_nodes=1))) == []


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
}


@pytest.mark.parametrize("kind", CAUSES)
def test_what_keeps_work_waiting_is_wrong_and_is_less_while_no_work_waits(kind: str) -> None:
    known, policy, calm = CAUSES[kind]
    waits = replace(known, waiting=(a_pod(),))
    assert [c.level for c in concerns_of(known, policy) if c.kind == kind] == [calm]
    assert {c.level for c in concerns_of(waits, policy) if c.kind in (kind, Cause.HELD)} == {Level.BAD}


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("budget_hold", "the cluster budget is past its hold line"),
        ("budget_stop", "the cluster budget is past its stop line"),
        ("signal", "alert Gpu-pause_scale_up stops growth"),
    ],
)
def test_what_the_problem_of_a_pool_names_is_no_problem_of_its_own(kind: str, cause: str) -> None:
    known, policy, _ = CAUSES[kind]
    concern = the_one(replace(known, waiting=(a_pod(),)), policy)
    assert (concern.kind, concern.what) == (Cause.HELD, f"does not grow: {cause}")


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
    assert {c.what: c.level for c in shown} == {
        "does not grow: the budget of team a is past its hold line": Level.BAD,
        "Budget of team b is past its hold line": Level.WARN,
    }


def test_a_budget_at_its_warn_line_whose_rest_covers_no_node_says_how_much_is_missing() -> None:
    known = facts(a_state(), spend=Spend(month="2026-11", usd=Decimal(79)), waiting=[a_pod()])
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), stop_at=Decimal("0.8"), hold_at=Decimal("0.8")))
    concern = the_one(known, policy)
    assert (concern.level, concern.what) == (Level.BAD, "does not grow: the cluster budget is $0.37 short")
    assert concern.doing == "at least $0.37 more is needed"


@pytest.mark.parametrize(("hours", "level"), [(0, Level.NOTE), (3, Level.BAD)], ids=["for a moment", "for hours"])
def test_work_that_waits_at_the_configured_maximum_is_a_problem_once_it_lasts_and_wakes_no_person(
    hours: int, level: Level
) -> None:
    pod = a_pod(created_at=NOW - timedelta(hours=hours))
    concern = the_one(facts(a_state(a_busy_node()), waiting=[pod]), a_policy(a_pool(max_nodes=1)))
    assert (concern.level, concern.severity) == (level, Severity.WARNING)


def test_of_what_keeps_a_pool_from_growing_the_rule_that_binds_is_the_problem_and_names_the_others() -> None:
    """Civo has none left for one node of the three that may be had, and somebody was asked before that."""
    causes = [
        Concern(kind="held", level=Level.BAD, pool="l40s-id", rule="within_maximum", what="is full"),
        Concern(kind="out_of_stock", level=Level.BAD, pool="l40s-id", rule="not_backing_off", what="cannot grow"),
        Concern(kind="sick", level=Level.BAD, pool="l40s-id", what="sick GPUs on n1"),
        Concern(kind="held", level=Level.BAD, pool="h100-id", rule="within_maximum", what="is full"),
    ]
    known = facts(a_state(a_busy_node(), backoff=LATER), waiting=[a_pod()])
    decisions = run(known, a_policy(a_pool(max_nodes=3)))[1]
    assert [(c.kind, c.pool, c.also) for c in one_cause(causes, {"l40s-id": decisions["l40s"]})] == [
        ("out_of_stock", "l40s-id", ("is full",)),
        ("sick", "l40s-id", ()),
        ("held", "h100-id", ()),
    ]


def test_a_gpu_that_falls_sick_below_a_pod_is_a_problem_and_one_below_none_a_warning() -> None:
    sick: dict[str, Any] = {"sick": "XID 79", "sick_since": ago(1)}
    levels = []
    for node in (a_busy_node(**sick), a_node(**sick)):
        levels += [c.level for c in concerns_of(facts(a_state(node))) if c.kind == "sick"]
    assert levels == [Level.BAD, Level.WARN]


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
    assert concern.guide == "guardrails.md#within_maximum"


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


def told(found: Facts, policy: Policy | None = None, drifts: Mapping[str, Drift] | None = None) -> list[Notice]:
    policy = policy or a_policy()
    return [n for n in standing(found, policy, drifts) if not n.topic.startswith(("held:", "misfit:"))]


def the_one_told(found: Facts, policy: Policy | None = None, drifts: Mapping[str, Drift] | None = None) -> Notice:
    [notice] = told(found, policy, drifts)
    return notice


def never_up(name: str = "n1", **changes: Any) -> Node:
    given: dict[str, Any] = {"stage": Stage.BOOTING, "idle_since": None, "allocatable": {}, "created_at": ago(21)}
    return a_node(name, **{**given, **changes})


def lost(minutes: float, **changes: Any) -> Node:
    return never_up(**{"stage": Stage.BROKEN, "was_usable": True, "lost_at": ago(minutes), **changes})


def test_nothing_is_told_when_all_is_well() -> None:
    state = a_state(a_node("idle"), a_busy_node("busy"), never_up("coming", created_at=NOW))
    assert told(facts(state)) == []


# --- silent sources ---------------------------------------------------------------------------------------


def source(*, up: bool, minutes: float, **changes: Any) -> Facts:
    state = SourceState(source=Source.DCGM, up=up, at=NOW, since=ago(minutes), detail="no answer", **changes)
    return facts(a_state(), sources={**all_up(), Source.DCGM: state})


def test_a_source_that_is_silent_for_two_minutes_is_told_once() -> None:
    notice = the_one_told(source(up=False, minutes=2))
    title = "DCGM (GPU telemetry) does not answer: pods alone decide whether a node is busy or idle"
    assert (notice.topic, notice.title, notice.severity) == ("source:dcgm", title, Severity.WARNING)
    assert notice.body.splitlines()[:2] == ["Since 11:58 UTC.", "Why: no answer."]
    assert the_one_told(replace(source(up=False, minutes=2), at=NOW + MINUTE)).key == notice.key


def test_its_return_is_told_for_five_minutes_and_only_after_its_silence() -> None:
    notice = the_one_told(source(up=True, minutes=4.9))
    assert (notice.cause, notice.topic, notice.all_clear) == (Cause.SOURCE_BACK, "source:dcgm", True)
    assert "11:55 UTC" in notice.body


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(source(up=False, minutes=1.9), id="silent for a moment"),
        pytest.param(source(up=True, minutes=5), id="back for a while"),
        pytest.param(source(up=False, minutes=9, configured=False), id="never asked for"),
        pytest.param(facts(a_state(), sources=all_up(Source.DCGM)), id="silent since nobody knows when"),
    ],
)
def test_a_source_is_no_news_that_is(found: Facts) -> None:
    assert told(found) == []


# --- nodes that are stuck, unknown or otherwise than configured -------------------------------------------


@pytest.mark.parametrize(
    ("state", "names"),
    [
        pytest.param(a_state(never_up()), "n1", id="a node that never came up"),
        pytest.param(
            a_state(required=2, required_since=ago(21)), "2 nodes that Civo does not list", id="nodes never built"
        ),
        pytest.param(a_state(never_up(protected=True)), "n1", id="one that may not be removed"),
    ],
)
def test_what_did_not_become_usable_in_time_is_told(state: PoolState, names: str) -> None:
    notice = the_one_told(facts(state))
    assert (notice.cause, notice.topic, notice.key) == (Cause.STUCK, "stuck:l40s-id", names)
    assert (notice.pool, notice.severity) == ("l40s-id", Severity.WARNING)


def test_nodes_that_did_not_become_usable_are_told_anew_once_they_keep_work_waiting() -> None:
    calm = facts(a_state(never_up()))
    before, after = the_one_told(calm), the_one_told(replace(calm, waiting=(a_pod(),)))
    assert (before.severity, after.severity) == (Severity.WARNING, Severity.FAILURE)
    assert before.topic != after.topic  # the outbox drops what has the last key of its topic


def test_a_node_that_broke_is_told_with_those_that_never_came_up() -> None:
    topics = {n.topic: n for n in told(facts(a_state(never_up(), lost(21, name="n2"))))}
    assert topics["stuck:l40s-id"].key == "n1,n2"


@pytest.mark.parametrize(
    ("node", "what"),
    [
        pytest.param(
            a_node(unknown_since=ago(15)),
            (
                "GPU pool l40s: cannot tell whether n1 is idle\n\nWhy: its GPUs have been in"
                " use since 11:45 UTC, but no GPU pod holds them."
            ),
            id="used without a pod",
        ),
        pytest.param(
            lost(15, pods=(a_pod(),)),
            (
                "GPU pool l40s has a broken node under ml/train\n\nWhy: n1 has not been"
                " Ready, or has lacked its GPUs, since 11:45 UTC."
            ),
            id="broken under a pod",
        ),
    ],
)
def test_a_node_of_which_nobody_can_tell_is_told_after_a_quarter_of_an_hour(node: Node, what: str) -> None:
    notice = the_one_told(facts(a_state(node)))
    assert f"{notice.title}\n\n{notice.body}".startswith(what)
    assert (notice.topic, notice.key) == ("unknown:i-n1", ago(15).isoformat())
    assert told(facts(a_state(node)), a_policy(unknown_after=16 * MINUTE)) == []


def test_a_node_that_breaks_under_work_is_told_when_its_time_to_recover_is_over_at_the_latest() -> None:
    policy = a_policy(unknown_after=120 * MINUTE)  # its provision_timeout is 20 minutes
    [notice] = told(facts(a_state(lost(20, pods=(a_pod(),)))), policy)
    assert (notice.cause, notice.topic) == (Cause.UNKNOWN, "unknown:i-n1")
    assert told(facts(a_state(lost(19.9, pods=(a_pod(),)), a_node("n2", unknown_since=ago(20)))), policy) == []


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(a_node(unknown_since=ago(14.9)), id="in use for a moment"),
        pytest.param(lost(14.9), id="broken for a moment"),
        pytest.param(lost(15, stage=Stage.UNKNOWN), id="not looked at"),
        pytest.param(a_node(unknown_since=ago(60), stage=Stage.DELETING), id="being deleted"),
        pytest.param(a_node(idle_since=ago(14.9), cordoned_by=CordonedBy.SOMEONE), id="cordoned for a moment"),
        pytest.param(a_node(idle_since=None, cordoned_by=CordonedBy.SOMEONE), id="cordoned and busy"),
        pytest.param(a_node(idle_since=ago(20), cordoned_by=CordonedBy.US), id="cordoned by us"),
    ],
)
def test_nothing_is_told_of_a_node_that_is(node: Node) -> None:
    assert told(facts(a_state(node))) == []


def test_a_node_that_offers_other_gpus_than_configured_is_told() -> None:
    pool = a_pool(resources={GPU: 2, "nvidia.com/mig-1g.10gb": 1})
    notice = the_one_told(facts(a_state(a_node(allocatable={GPU: 1, "cpu": 8}))), a_policy(pool))
    assert notice.cause == Cause.MISDESCRIBED
    assert notice.body.splitlines()[0] == (
        "Why: it offers 1 nvidia.com/gpu, 0 nvidia.com/mig-1g.10gb;"
        " the configuration says 2 nvidia.com/gpu, 1 nvidia.com/mig-1g.10gb."
    )
    assert (notice.topic, notice.key) == ("offers:i-n1", "1 nvidia.com/gpu, 0 nvidia.com/mig-1g.10gb")


def test_other_resources_of_a_node_are_none_of_our_business() -> None:
    assert told(facts(a_state(a_node(allocatable={GPU: 1, "cpu": 8})))) == []


def test_nodes_of_no_instance_are_told_while_an_instance_has_no_node() -> None:
    state = a_state(never_up(created_at=NOW, registered=False), unjoined=("k3s-a", "k3s-b"))
    notice = the_one_told(facts(state))
    assert (notice.cause, notice.pool, notice.key) == (Cause.UNJOINED, "l40s-id", "k3s-a,k3s-b")


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(a_state(never_up(created_at=NOW, registered=False)), id="no node is left over"),
        pytest.param(a_state(never_up(created_at=NOW), unjoined=("k3s-a",)), id="every instance has its node"),
        pytest.param(
            a_state(never_up(created_at=NOW, registered=False, stage=Stage.BUILDING), unjoined=("k3s-a",)),
            id="the instance is being built",
        ),
    ],
)
def test_who_is_who_is_certain_when(state: PoolState) -> None:
    assert told(facts(state)) == []


# --- pods that do not start, or are not placed ------------------------------------------------------------


def starting(**changes: Any) -> Facts:
    """A pod that has been starting for twenty minutes on a node that has been usable for an hour."""
    usable_since = changes.pop("usable_since", ago(60))
    given: dict[str, Any] = {"phase": PodPhase.STARTING, "node": "n1", "created_at": ago(20)}
    pod = a_pod(**{**given, **changes})
    return facts(a_state(a_busy_node(pods=(pod,), usable_since=usable_since)))


def test_a_pod_that_has_its_node_and_does_not_start_is_told() -> None:
    notice = the_one_told(starting())
    assert (notice.cause, notice.topic, notice.key) == (Cause.SLOW_TO_START, "starting:uid-train", "i-n1")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"phase": PodPhase.RUNNING}, id="it runs"),
        pytest.param({"created_at": ago(19.9)}, id="it was created a moment ago"),
        pytest.param({"usable_since": ago(19.9)}, id="its node became usable a moment ago"),
        pytest.param({"daemon": True}, id="it belongs to a DaemonSet"),
        pytest.param({"leaves_at": NOW}, id="it is being deleted"),
    ],
)
def test_a_pod_that_starts_is_no_news_when(changes: dict[str, Any]) -> None:
    assert told(starting(**changes)) == []


def ignored(pod: dict[str, Any] | None = None, **node: Any) -> Facts:
    """A pod that has waited for two minutes beside a node that is as configured and idle for as long."""
    waits = a_pod(**{"created_at": ago(2), **(pod or {})})
    shows: dict[str, Any] = {"labels": {"gpu": "l40s"}, "idle_since": ago(2)}
    return facts(a_state(a_node(**{**shows, **node})), waiting=[waits])


ANY = Toleration(key="", operator="Exists", value="", effect="")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(ignored(), NO_WORDS, id="without a word"),
        pytest.param(
            ignored({"scheduler_says": "0/1 nodes: Insufficient cpu. "}),
            "the scheduler says: 0/1 nodes: Insufficient cpu",
            id="the scheduler knows why",
        ),
        pytest.param(
            ignored({"scheduler_says": "no"}, taints=(IDLE, Taint(key="a", effect="PreferNoSchedule"))),
            "the scheduler says: no",
            id="a taint that keeps no pod away is no reason",
        ),
        pytest.param(
            ignored({"scheduler_says": "no", "tolerations": (ANY,)}, taints=(Taint(key="a", value="b"),)),
            "the scheduler says: no",
            id="nor one that it tolerates",
        ),
        pytest.param(
            ignored({"scheduler_says": f"0/1 nodes are available: {'x' * 9000}"}),
            f"the scheduler says: 0/1 nodes are available: {'x' * 211} ...",
            id="at some length",
        ),
    ],
)
def test_a_pod_that_waits_beside_a_node_for_it_is_told_with_the_words_of_the_scheduler(found: Facts, why: str) -> None:
    notice = the_one_told(found, a_policy(L40S))
    assert notice.cause == Cause.UNUSED
    assert notice.body.splitlines()[0].rstrip(".") == f"Why: {why}".rstrip(".")
    assert (notice.topic.split("#")[0], notice.key) == ("refused:ml/train/", "1")


@pytest.mark.parametrize(
    ("key", "why", "remedy"),
    [
        pytest.param("maintenance", "", "kubectl taint nodes n1 maintenance:NoSchedule-", id="by a person"),
        pytest.param(
            "ToBeDeletedByClusterAutoscaler",
            "; another autoscaler sets ToBeDeletedByClusterAutoscaler on a node that it is about to delete, and may"
            " leave it behind",
            "kubectl taint nodes n1 ToBeDeletedByClusterAutoscaler:NoSchedule-",
            id="left behind",
        ),
    ],
)
def test_an_idle_node_with_a_taint_that_keeps_work_away_is_told_with_the_command_that_removes_it(
    key: str, why: str, remedy: str
) -> None:
    found = ignored(taints=(Taint(key=key, value="x"),))
    notice = the_one_told(found, a_policy(L40S))
    assert notice.title == "GPU pool l40s: idle and tainted: n1"
    assert notice.body.splitlines()[0] == (
        f"Why: it has {key}=x:NoSchedule, which pool l40s is not configured with{why}."
    )
    assert remedy in notice.body
    assert (notice.topic, notice.key) == ("tainted:i-n1", f"{key}=x:NoSchedule")


def test_a_taint_is_no_news_where_waiting_work_tolerates_it() -> None:
    found = ignored({"tolerations": (ANY,)}, taints=(Taint(key="a", value="b"),))
    assert [n.topic.split("#")[0] for n in told(found, a_policy(L40S))] == ["refused:ml/train/"]


@pytest.mark.parametrize(
    "node",
    [
        pytest.param({"taints": (Taint(key="a", value="b", effect="PreferNoSchedule"),)}, id="a soft taint"),
        pytest.param({"taints": (Taint(key="a", value="b"),), "idle_since": None}, id="a node in use"),
        pytest.param({"taints": (Taint(key="a", value="b"),), "idle_since": ago(1.9)}, id="idle for a moment"),
    ],
)
def test_a_taint_is_no_news_on(node: dict[str, Any]) -> None:
    assert not [n for n in told(ignored(**node), a_policy(L40S)) if n.topic.startswith("tainted:")]


@pytest.mark.parametrize(
    "minutes, closed_for, titles",
    [
        pytest.param(1.9, None, 0, id="nodes were opened a moment ago"),
        pytest.param(2.0, None, 1, id="a while ago"),
        pytest.param(9.0, "cluster budget 2026-11", 0, id="this one is not open yet"),
    ],
)
def test_a_pod_that_waited_for_a_closed_node_gets_a_moment_after_it_is_opened(
    minutes: float, closed_for: str | None, titles: int
) -> None:
    found, policy = ignored(closed_for=closed_for), a_policy(L40S)
    news = standing(found, policy, reopened={L40S.id: ago(minutes)})
    assert len([n for n in news if n.topic.startswith("refused:")]) == titles


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(ignored({"created_at": ago(1.9)}), id="it waits for a moment"),
        pytest.param(ignored(idle_since=ago(1.9)), id="the node is free for a moment"),
        pytest.param(ignored({"node_selector": {"gpu": "h100"}}), id="it fits no pool"),
    ],
)
def test_a_pod_that_waits_is_no_news_when(found: Facts) -> None:
    assert told(found, a_policy(L40S)) == []


@pytest.mark.parametrize(
    ("usable_since", "topics"),
    [(None, []), (ago(1.9), []), (ago(2), ["refused:ml/train/"])],
    ids=["nobody knows since when", "for a moment", "for two minutes"],
)
def test_beside_a_busy_node_with_a_free_gpu_it_counts_how_long_the_node_is_usable(
    usable_since: datetime | None, topics: list[str]
) -> None:
    node = a_busy_node(allocatable={GPU: 2}, usable_since=usable_since)
    found = facts(a_state(node), waiting=[a_pod(created_at=ago(60))])
    policy = a_policy(a_pool(resources={GPU: 2}))
    assert assign(found, policy).pools["l40s-id"].work.placed == (("ml/train", "i-n1"),)
    assert [n.topic.split("#")[0] for n in told(found, policy)] == topics


# --- other hands ------------------------------------------------------------------------------------------


def test_a_count_that_somebody_else_changed_is_told() -> None:
    drift = Drift(at=NOW, from_count=1, to_count=3)
    notice = the_one_told(facts(a_state(required=1)), drifts={"l40s-id": drift})
    assert (notice.cause, notice.topic) == (Cause.DRIFT, "drift:l40s-id:1:3")
    assert notice.key == f"{NOW:%Y-%m-%dT%H}"


def reverts(to_count: int, *hours: float) -> tuple[Drift, ...]:
    """Others took our change back that long ago."""
    return tuple(Drift(at=ago(h * 60), from_count=2, to_count=to_count, undoes=True) for h in hours)


def stops(*seen: Drift, **state: Any) -> list[Notice]:
    found = told(facts(a_state(required=1, drifts=seen, **state)), drifts={"l40s-id": seen[-1]})
    return [n for n in found if n.topic.startswith("undone:")]


@pytest.mark.parametrize(
    ("to_count", "topic"), [(1, "undone:l40s-id:grow"), (3, "undone:l40s-id:shrink")], ids=["lowered", "raised"]
)
def test_the_third_revert_says_until_when_the_count_is_left_alone(to_count: int, topic: str) -> None:
    [notice] = stops(*reverts(to_count, 2, 1, 0))
    assert (notice.cause, notice.topic) == (Cause.DRIFT, topic)
    assert "2026-11-21 12:00 UTC" in notice.title
    assert f"last 2 -> {to_count} at 12:00 UTC" in notice.body
    assert "ignore_changes" in notice.body


def test_a_stop_is_told_whatever_was_told_of_the_same_counts_in_the_same_hour() -> None:
    """The outbox drops a message whose topic and key it has sent: those of the stop are its own."""
    first, second, third = reverts(1, 0.5, 0.3, 0.1)
    before = told(facts(a_state(required=1, drifts=(first, second))), drifts={"l40s-id": second})
    after = told(facts(a_state(required=1, drifts=(first, second, third))), drifts={"l40s-id": third})
    assert not {(n.topic, n.key) for n in after} & {(n.topic, n.key) for n in before}


def test_a_stop_is_told_although_no_step_saw_its_last_revert() -> None:
    """A crash between the look and the message: the drift is stored by then."""
    found = told(facts(a_state(required=1, drifts=reverts(1, 2, 1, 0))))
    assert [n.topic for n in found] == ["undone:l40s-id:grow"]


def test_a_change_the_other_way_beside_a_stop_is_told_as_a_change() -> None:
    raised = Drift(at=NOW, from_count=1, to_count=2)
    found = told(facts(a_state(required=2, drifts=(*reverts(1, 2, 1, 0.5), raised))), drifts={"l40s-id": raised})
    assert sorted(n.topic for n in found) == ["drift:l40s-id:1:2", "undone:l40s-id:grow"]


@pytest.mark.parametrize(("pool", "name"), [("l40s-id", "l40s"), ("gone-id", "gone-id")])
def test_removals_that_stop_cost_money_and_do_not_wake_a_person(pool: str, name: str) -> None:
    backoff = Backoff(failures=1, until=NOW, reason="the count of 3 did not fall")
    notice = removals_stop(a_state(pool=pool), backoff, a_policy(), NOW)
    assert (notice.cause, notice.severity, notice.key) == (Cause.REMOVAL_STOPPED, Severity.WARNING, NOW.isoformat())
    assert notice.title.startswith(f"GPU pool {name}: ")
    assert backoff.reason in notice.body


# --- law --------------------------------------------------------------------------------------------------


@LAWS
@given(worlds())
def test_what_is_told_in_one_step_has_one_key_for_each_topic(world: World) -> None:
    """The outbox drops what it told last of a topic: two keys in one step would be told again at every step."""
    found, policy = world
    topics = [n.topic for n in told(found, policy)]
    assert len(topics) == len(set(topics))
