"""Idle workloads that consented: who is one workload, when it is warned, scaled to zero, kept or cleared."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from receiver.capabilities.idle_shutdown.judging import (
    A_WARNING_HOLDS,
    MOST_WINDOWS,
    IdleStanding,
    IdleVerdict,
    can_tell,
    candidates,
    case_of,
    judge,
    kept_until,
    key_of,
    left,
    shutdown_at,
    shuts_down,
    warned,
    windows,
)
from receiver.core.model.installations import ALONE, InstallationLease, OtherInstallations
from receiver.core.model.model import Source, SourceState
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.signals import SignalAction
from receiver.core.model.usage import Course
from tests.capabilities.idle_shutdown.builders import (
    ACTIVE,
    GRACE,
    LISTED,
    QUIET,
    WEB,
    WINDOW,
    a_case,
    a_web_pod,
    the,
    told,
)
from tests.core.builders import (
    MINUTE,
    NOW,
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
)

THEIRS = InstallationLease(key="z/other", pools=(a_pool("a100"),), renewed_at=NOW)
BESIDE_THEIRS = OtherInstallations(own="m/own", installations=(THEIRS,))


def verdict(*pods: Pod, **given: Any) -> IdleVerdict:
    """What is due for the one workload of *pods*."""
    return judge(the(*pods), a_case(**given))


# --- who is one workload


def test_a_pod_without_the_annotation_is_no_candidate() -> None:
    assert candidates([a_web_pod(idle_shutdown=None)], a_policy()) == ()


def test_pods_of_all_replica_sets_of_a_deployment_are_one_workload() -> None:
    old = a_web_pod()
    new = a_web_pod("web-77f0-a", owner="ReplicaSet/web-77f0", labels={"pod-template-hash": "77f0"})
    assert the(old, new).key == "ml/Deployment/web"


def test_a_replica_set_without_a_deployment_is_itself() -> None:
    assert the(a_web_pod(labels={})).key == "ml/ReplicaSet/web-5d9c"


def test_a_label_that_is_not_the_end_of_its_name_makes_a_replica_set_no_deployment() -> None:
    assert the(a_web_pod(labels={"pod-template-hash": "77f0"})).key == "ml/ReplicaSet/web-5d9c"


def test_a_stateful_set_whose_name_ends_with_a_label_is_itself() -> None:
    assert the(a_web_pod(owner="StatefulSet/web-5d9c")).key == "ml/StatefulSet/web-5d9c"


def test_pods_without_an_owner_are_a_workload_each() -> None:
    pods = candidates([a_web_pod("a", owner=""), a_web_pod("b", owner="")], a_policy())
    assert [pod.key for pod in pods] == ["ml/Pod/a", "ml/Pod/b"]


def test_a_workload_waits_for_the_longest_window_of_its_pods() -> None:
    pods = (a_web_pod(), a_web_pod("b", idle_shutdown=2 * WINDOW), a_web_pod("c", idle_shutdown=None))
    assert the(*pods).window == 2 * WINDOW


def test_owners_of_two_namespaces_are_two_workloads() -> None:
    assert len(candidates([a_web_pod(), a_web_pod(namespace="other")], a_policy())) == 2


# --- idle


def test_an_idle_workload_is_warned() -> None:
    assert verdict(a_web_pod()) is IdleVerdict.WARN


def test_a_workload_of_which_one_pod_did_not_consent_is_left_alone() -> None:
    assert verdict(a_web_pod(), a_web_pod("web-5d9c-b", idle_shutdown=None)) is IdleVerdict.NOTHING


def test_a_workload_with_a_protected_pod_is_left_alone() -> None:
    assert verdict(a_web_pod(), a_web_pod("web-5d9c-b", protected=True)) is IdleVerdict.NOTHING


def test_one_active_pod_keeps_its_workload() -> None:
    courses = {"ml/web-5d9c-a": QUIET, "ml/web-5d9c-b": ACTIVE}
    assert verdict(a_web_pod(), a_web_pod("web-5d9c-b"), courses=courses) is IdleVerdict.NOTHING


def test_one_pod_that_nobody_can_tell_about_keeps_its_workload() -> None:
    assert verdict(a_web_pod(), a_web_pod("web-5d9c-b"), courses={"ml/web-5d9c-a": QUIET}) is IdleVerdict.NOTHING


@pytest.mark.parametrize("witness", ["engine", "memory", "power", "power_floor"])
def test_a_workload_of_which_one_witness_is_silent_is_left_alone(witness: str) -> None:
    silent: Any = {witness: None}
    assert verdict(a_web_pod(), courses={"ml/web-5d9c-a": replace(QUIET, **silent)}) is IdleVerdict.NOTHING


@pytest.mark.parametrize(
    "course",
    [None, replace(QUIET, coverage=0.79), replace(QUIET, window=WINDOW - MINUTE)],
    ids=["no telemetry", "too few samples", "a shorter window"],
)
def test_a_workload_that_nobody_can_tell_about_is_left_alone(course: Course | None) -> None:
    courses = {"ml/web-5d9c-a": course} if course else {}
    assert verdict(a_web_pod(), courses=courses) is IdleVerdict.NOTHING


@pytest.mark.parametrize("when", ["created_at", "running_since"])
@pytest.mark.parametrize("short, due", [(timedelta(seconds=1), IdleVerdict.NOTHING), (timedelta(0), IdleVerdict.WARN)])
def test_a_pod_that_has_not_run_for_its_whole_window_keeps_its_workload(
    when: str, short: timedelta, due: IdleVerdict
) -> None:
    times: dict[str, Any] = {"running_since": None, when: NOW - WINDOW + short}
    pod = a_web_pod(**times)
    assert verdict(pod) is due


def test_a_pod_that_does_not_run_yet_keeps_its_workload() -> None:
    assert verdict(a_web_pod(), a_web_pod("web-5d9c-b", phase=PodPhase.WAITING, node=None)) is IdleVerdict.NOTHING


def test_each_pod_is_judged_by_its_own_window() -> None:
    longer = 2 * WINDOW
    courses = {
        WINDOW: {"ml/web-5d9c-a": QUIET, "ml/web-5d9c-b": QUIET},
        longer: {"ml/web-5d9c-b": replace(ACTIVE, window=longer)},
    }
    pods = the(a_web_pod(), a_web_pod("web-5d9c-b", idle_shutdown=longer))
    assert judge(pods, replace(a_case(), courses=courses)) is IdleVerdict.NOTHING


def test_a_workload_on_a_node_of_no_configured_pool_is_left_alone() -> None:
    assert verdict(a_web_pod(node="elsewhere")) is IdleVerdict.NOTHING


def test_a_workload_in_a_held_pool_is_left_alone() -> None:
    assert verdict(a_web_pod(), held=frozenset({"l40s-id"})) is IdleVerdict.NOTHING


def test_a_workload_with_one_pod_in_a_held_pool_is_left_alone() -> None:
    pods = (a_web_pod(), a_web_pod("web-5d9c-b", node="n2"))
    known = {"pools": {"n1": "l40s-id", "n2": "b-id"}}
    assert verdict(*pods, **known) is IdleVerdict.WARN
    assert verdict(*pods, **known, held=frozenset({"b-id"})) is IdleVerdict.NOTHING


def test_a_warned_workload_in_a_held_pool_is_not_scaled_to_zero() -> None:
    case = {"told": told(IdleStanding.WARNED, GRACE), "held": frozenset({"l40s-id"})}
    assert verdict(a_web_pod(), **case) is IdleVerdict.NOTHING


# --- from the warning to zero


@pytest.mark.parametrize(
    "ago, due",
    [
        (timedelta(0), IdleVerdict.NOTHING),
        (GRACE - timedelta(seconds=1), IdleVerdict.NOTHING),
        (GRACE, IdleVerdict.SCALE),
        (GRACE + A_WARNING_HOLDS, IdleVerdict.SCALE),
        (GRACE + A_WARNING_HOLDS + MINUTE, IdleVerdict.WARN),
        (-MINUTE, IdleVerdict.WARN),
    ],
    ids=["just now", "in the grace", "after it", "a day later", "too old", "from the future"],
)
def test_a_warned_workload_is_scaled_to_zero_after_the_grace(ago: timedelta, due: IdleVerdict) -> None:
    assert verdict(a_web_pod(), told=told(IdleStanding.WARNED, ago)) is due


def test_a_warning_of_observe_mode_is_none_in_act_mode() -> None:
    assert verdict(a_web_pod(), told=told(IdleStanding.WARNED, GRACE, mode="observe")) is IdleVerdict.WARN


def test_a_notice_of_a_state_that_is_not_known_counts_as_none() -> None:
    assert verdict(a_web_pod(), told={WEB: (f"unheard:act:{NOW.isoformat()}", NOW - GRACE)}) is IdleVerdict.WARN


def test_those_that_were_warned_and_not_scaled_are_listed() -> None:
    other = {"idle-shutdown:ml/Job/done": told(IdleStanding.DONE)[WEB]}
    assert warned(a_case(told={**told(IdleStanding.WARNED), **other})) == (WEB,)


@pytest.mark.parametrize(
    ("standing", "since"), [(IdleStanding.WARNED, NOW - MINUTE), (IdleStanding.FAILED, NOW), (IdleStanding.CALM, NOW)]
)
def test_the_grace_begins_with_the_warning_or_now(standing: IdleStanding, since: datetime) -> None:
    assert shutdown_at(the(a_web_pod()), a_case(told=told(standing))) == since + GRACE


def test_the_grace_is_policy() -> None:
    patient = replace(a_policy(), idle_shutdown_grace=timedelta(hours=3))
    assert verdict(a_web_pod(), told=told(IdleStanding.WARNED, GRACE), policy=patient) is IdleVerdict.NOTHING


def test_a_warned_workload_that_nobody_can_tell_about_stays_warned() -> None:
    assert verdict(a_web_pod(), told=told(IdleStanding.WARNED, GRACE), courses={}) is IdleVerdict.NOTHING


def test_a_failure_is_tried_again_for_a_day() -> None:
    assert verdict(a_web_pod(), told=told(IdleStanding.FAILED, A_WARNING_HOLDS)) is IdleVerdict.SCALE
    assert verdict(a_web_pod(), told=told(IdleStanding.FAILED, A_WARNING_HOLDS + MINUTE)) is IdleVerdict.WARN


def test_what_observe_mode_would_have_done_is_not_said_again() -> None:
    observed = told(IdleStanding.OBSERVED, timedelta(days=30), mode="observe")
    assert verdict(a_web_pod(), told=observed, mode="observe") is IdleVerdict.NOTHING


@pytest.mark.parametrize(
    ("ago", "due"),
    [
        (timedelta(0), IdleVerdict.NOTHING),
        (A_WARNING_HOLDS, IdleVerdict.NOTHING),
        (A_WARNING_HOLDS + MINUTE, IdleVerdict.WARN),
        (-MINUTE, IdleVerdict.WARN),
    ],
    ids=["just now", "a day ago", "longer ago", "in the future"],
)
def test_pods_that_still_leave_are_not_warned_for_a_day_after_the_shutdown(ago: timedelta, due: IdleVerdict) -> None:
    pod = a_web_pod(created_at=NOW - timedelta(days=2))
    assert verdict(pod, told=told(IdleStanding.DONE, ago)) is due


def test_pods_that_were_created_at_the_moment_of_the_shutdown_belong_to_it() -> None:
    pod = a_web_pod(created_at=NOW - timedelta(hours=5))
    assert verdict(pod, told=told(IdleStanding.DONE, timedelta(hours=5))) is IdleVerdict.NOTHING


def test_one_pod_that_came_after_the_shutdown_is_enough_for_a_warning() -> None:
    created = NOW - timedelta(hours=4)
    pods = (a_web_pod(), a_web_pod("web-5d9c-b", created_at=created, running_since=created))
    assert verdict(*pods, told=told(IdleStanding.DONE, timedelta(hours=5))) is IdleVerdict.WARN


def test_pods_that_came_after_the_shutdown_are_warned_when_they_are_idle() -> None:
    done = told(IdleStanding.DONE, timedelta(hours=5))
    pod = a_web_pod(created_at=NOW - timedelta(hours=4), running_since=NOW - timedelta(hours=4))
    assert verdict(pod, told=done) is IdleVerdict.WARN


def test_a_workload_whose_pods_are_all_being_deleted_is_left_alone() -> None:
    assert verdict(a_web_pod(terminating=True), told=told(IdleStanding.WARNED, GRACE)) is IdleVerdict.NOTHING


# --- cleared


@pytest.mark.parametrize("standing", [IdleStanding.WARNED, IdleStanding.FAILED])
def test_a_warned_workload_that_works_again_is_cleared(standing: IdleStanding) -> None:
    assert verdict(a_web_pod(), told=told(standing, GRACE), courses={"ml/web-5d9c-a": ACTIVE}) is IdleVerdict.CLEAR


def test_a_warned_workload_with_a_new_pod_that_has_no_node_yet_is_cleared() -> None:
    pods = (a_web_pod(), a_web_pod("web-5d9c-b", phase=PodPhase.WAITING, node=None, running_since=None))
    assert verdict(*pods, told=told(IdleStanding.WARNED, GRACE)) is IdleVerdict.CLEAR


def test_a_warned_workload_that_works_again_is_cleared_also_where_a_reading_is_missing() -> None:
    courses = {"ml/web-5d9c-a": replace(ACTIVE, power=None)}
    assert verdict(a_web_pod(), told=told(IdleStanding.WARNED, GRACE), courses=courses) is IdleVerdict.CLEAR


def test_a_workload_that_was_cleared_is_warned_anew() -> None:
    assert verdict(a_web_pod(), told=told(IdleStanding.CALM)) is IdleVerdict.WARN


def test_a_warned_workload_that_takes_its_consent_back_is_cleared() -> None:
    pods = (a_web_pod(), a_web_pod("web-5d9c-b", idle_shutdown=None))
    assert verdict(*pods, told=told(IdleStanding.WARNED, GRACE)) is IdleVerdict.CLEAR


def test_a_warned_workload_that_is_gone_has_left() -> None:
    assert left((), a_case(told=told(IdleStanding.WARNED))) == (WEB,)


@pytest.mark.parametrize("standing", [IdleStanding.DONE, IdleStanding.CALM, IdleStanding.KEPT, IdleStanding.CANNOT])
def test_of_a_workload_without_a_warning_nobody_asks_whether_it_left(standing: IdleStanding) -> None:
    assert left((), a_case(told=told(standing))) == ()


def test_a_workload_that_is_there_has_not_left() -> None:
    assert left([the(a_web_pod())], a_case(told=told(IdleStanding.WARNED))) == ()


# --- put off

TOMORROW = NOW + timedelta(days=1)


def test_a_snooze_of_a_listed_namespace_puts_it_off() -> None:
    pods = (a_web_pod(), a_web_pod("web-5d9c-b", keep_until=TOMORROW))
    assert verdict(*pods, policy=LISTED) is IdleVerdict.NOTHING
    assert verdict(*pods, policy=LISTED, told=told(IdleStanding.WARNED, GRACE)) is IdleVerdict.KEEP


def test_a_workload_that_was_put_off_is_warned_anew_when_the_snooze_is_over() -> None:
    pod = a_web_pod(keep_until=NOW)
    assert verdict(pod, policy=LISTED, told=told(IdleStanding.KEPT, timedelta(days=1))) is IdleVerdict.WARN


def test_of_several_snoozes_the_last_counts() -> None:
    workload = the(a_web_pod(keep_until=NOW + MINUTE), a_web_pod("web-5d9c-b", keep_until=TOMORROW))
    assert kept_until(workload, a_case(policy=LISTED)) == TOMORROW


@pytest.mark.parametrize(
    "standing, due", [(IdleStanding.CALM, IdleVerdict.WARN), (IdleStanding.WARNED, IdleVerdict.SCALE)]
)
def test_a_snooze_of_an_unlisted_namespace_puts_nothing_off(standing: IdleStanding, due: IdleVerdict) -> None:
    assert verdict(a_web_pod(keep_until=TOMORROW), told=told(standing, GRACE)) is due


@pytest.mark.parametrize("beyond, due", [(timedelta(0), IdleVerdict.NOTHING), (timedelta(seconds=1), IdleVerdict.WARN)])
def test_a_snooze_that_lies_too_far_ahead_puts_nothing_off(beyond: timedelta, due: IdleVerdict) -> None:
    pod = a_web_pod(keep_until=NOW + LISTED.keep_until.longest + beyond)
    assert verdict(pod, policy=LISTED) is due


# --- what cannot be scaled


@pytest.mark.parametrize("owner", ["", "DaemonSet/agent", "PyTorchJob/train"])
def test_what_nothing_can_scale_is_told_once_and_left_alone(owner: str) -> None:
    workload = the(a_web_pod(owner=owner))
    case = a_case()
    assert judge(workload, case) is IdleVerdict.CANNOT
    later = replace(case, told={workload.topic: (key_of(IdleStanding.CANNOT, case), NOW)})
    assert judge(workload, later) is IdleVerdict.NOTHING


# --- what is asked and what must answer


def test_each_window_is_asked_for_once() -> None:
    pods = [a_web_pod(), a_web_pod("web-5d9c-b"), a_web_pod(namespace="other", idle_shutdown=timedelta(hours=1))]
    assert windows(candidates(pods, a_policy()), NOW) == (WINDOW, timedelta(hours=1))


def test_no_window_is_asked_for_that_could_change_nothing() -> None:
    young = a_web_pod(running_since=NOW - MINUTE)
    bare = a_web_pod("bare", owner="")
    mixed = (a_web_pod(namespace="b"), a_web_pod("web-5d9c-b", namespace="b", idle_shutdown=None))
    assert windows(candidates([young, bare, *mixed], a_policy()), NOW) == ()


def test_the_number_of_windows_is_bounded_and_the_common_ones_come_first() -> None:
    pods = [a_web_pod(namespace=f"n{n}", idle_shutdown=timedelta(hours=1) + n * MINUTE) for n in range(30)]
    common = [a_web_pod(namespace=f"c{n}", idle_shutdown=timedelta(hours=3)) for n in range(2)]
    found = windows(candidates([*pods, *common], a_policy()), NOW)
    assert len(found) == MOST_WINDOWS
    assert found[0] == timedelta(hours=3)


@pytest.mark.parametrize(
    "source",
    [Source.CIVO, Source.KUBERNETES, Source.PROMETHEUS, Source.DCGM, Source.HEARTBEAT, Source.ALERTMANAGER],
)
def test_nothing_can_be_told_while_a_source_is_silent(source: Source) -> None:
    assert can_tell(facts(a_state()))
    assert not can_tell(facts(a_state(), sources=all_up(source)))


def test_an_alertmanager_that_nobody_configured_is_not_missed() -> None:
    none = SourceState(source=Source.ALERTMANAGER, up=False, configured=False)
    assert can_tell(facts(a_state(), sources={**all_up(), Source.ALERTMANAGER: none}))


def test_an_alertmanager_that_was_never_asked_is_not_missed() -> None:
    asked = {source: state for source, state in all_up().items() if source is not Source.ALERTMANAGER}
    assert can_tell(facts(a_state(), sources=asked))


@pytest.mark.parametrize("pool, held", [("l40s-id", True), (None, True), ("other-id", False)])
def test_a_frozen_pool_is_held(pool: str | None, held: bool) -> None:
    found = facts(a_state(a_node()), signals=(a_signal(SignalAction.FREEZE, pool),))
    assert (case_of(found, a_policy(), "act", {}, {}).held == {"l40s-id"}) is held


@pytest.mark.parametrize(("kind", "held"), [("pause", {"l40s-id"}), ("snooze", set())])
def test_a_paused_pool_is_held_and_a_snoozed_one_is_not(kind: str, held: set[str]) -> None:
    said = an_override(kind)
    found = facts(a_state(a_node()), overrides=(said,))
    assert case_of(found, a_policy(), "act", {}, {}).held == held
    over = replace(found, at=said.until)
    assert case_of(over, a_policy(), "act", {}, {}).held == frozenset()


def test_a_silenced_pool_is_held_and_another_signal_holds_nothing() -> None:
    silenced = facts(a_state(a_node(), silence=a_silence()))
    signalled = facts(a_state(a_node()), signals=(a_signal(SignalAction.HOLD),))
    assert case_of(silenced, a_policy(), "act", {}, {}).held == {"l40s-id"}
    assert case_of(signalled, a_policy(), "act", {}, {}).held == frozenset()


def test_nodes_are_known_by_their_pool() -> None:
    found = facts(a_state(a_node("n1")))
    assert case_of(found, a_policy(), "act", {}, {}).pools == {"n1": "l40s-id"}


def test_an_idle_workload_is_shut_down_where_its_first_pod_runs() -> None:
    known = facts(a_state(a_node("n1")))
    here, there = a_pod("b", node="n1"), a_pod("a", node="elsewhere")
    assert shuts_down((here,), known, BESIDE_THEIRS)
    assert not shuts_down((there,), known, BESIDE_THEIRS)
    assert not shuts_down((here, there), known, BESIDE_THEIRS)
    assert shuts_down((there,), known, ALONE)


def test_beside_others_a_pod_without_a_node_does_not_say_where_its_workload_is_shut_down() -> None:
    known = facts(a_state(a_node("n1")))
    waiting, here = a_pod("a", node=None), a_pod("b", node="n1")
    assert shuts_down((waiting, here), known, BESIDE_THEIRS)
    assert not shuts_down((waiting,), known, BESIDE_THEIRS)
