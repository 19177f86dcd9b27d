"""A policy on idle workloads that is set once: what it covers, what it leaves, and what it does."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.capabilities.idle_shutdown.judging import IdleStanding, IdleVerdict, candidates, judge, windows
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Budget, IdleAction, IdlePolicy, KeepUntil, Policy
from receiver.ports import IDLE_SHUTDOWN_ANNOTATION, KEEP_UNTIL_ANNOTATION, NEVER, Did, Store
from tests.capabilities.idle_shutdown.builders import ACTIVE, QUIET, WINDOW, a_case, a_web_pod, the, told
from tests.core.builders import MINUTE, NOW, a_policy
from tests.given import lives
from tests.given.life import Life, a_job
from tests.given.life import a_policy as policy_of_a_life

TELLS = IdlePolicy(namespaces=frozenset({"ml"}), after=WINDOW)
ENDS = replace(TELLS, action=IdleAction.SCALE_TO_ZERO)
BOTH = pytest.mark.parametrize("idle", [TELLS, ENDS], ids=lambda idle: idle.action)


def policed(idle: IdlePolicy = TELLS, **changes: Any) -> Policy:
    return replace(a_policy(), idle=idle, **changes)


def silent(name: str = "web-5d9c-a", **changes: Any) -> Pod:
    """A pod without a word about its idle time."""
    return a_web_pod(name, **{"idle_shutdown": None, **changes})


def is_covered(pod: Pod, policy: Policy) -> bool:
    return bool(candidates([pod], policy))


def verdict(*pods: Pod, policy: Policy, **given: Any) -> IdleVerdict:
    return judge(the(*pods, policy=policy), a_case(policy=policy, **given))


# --- what it covers


def test_without_a_policy_a_pod_without_the_annotation_is_left_alone() -> None:
    assert not is_covered(silent(), a_policy())


@pytest.mark.parametrize("namespaces, covered", [({"ml"}, True), ({"*"}, True), ({"web", "m"}, False)])
def test_a_policy_covers_the_namespaces_that_it_names(namespaces: set[str], covered: bool) -> None:
    assert is_covered(silent(), policed(IdlePolicy(namespaces=frozenset(namespaces)))) is covered


def test_a_policy_covers_the_priority_classes_that_it_names() -> None:
    policy = policed(IdlePolicy(priority_classes=frozenset({"development"})))
    assert is_covered(silent(priority_class="development"), policy)
    assert not is_covered(silent(priority_class="training"), policy)
    assert not is_covered(silent(), policy)


PRODUCTION = [
    {"priority_class": "production", "priority": 10},
    {"priority_class": "serving", "priority": 100_000},
    {"priority_class": "gold"},
]


@pytest.mark.parametrize("of", PRODUCTION, ids=lambda of: of["priority_class"])
def test_a_production_class_is_covered_only_if_it_is_named(of: dict[str, Any]) -> None:
    budget = Budget(monthly_usd=Decimal(100), passing=frozenset({"gold"}))
    everywhere = IdlePolicy(namespaces=frozenset({"*"}))
    assert not is_covered(silent(**of), policed(everywhere, budget=budget))
    named = replace(everywhere, priority_classes=frozenset({of["priority_class"]}))
    assert is_covered(silent(**of), policed(named, budget=budget))


def test_a_class_below_production_is_covered_with_its_namespace() -> None:
    assert is_covered(silent(priority_class="training", priority=99_999), policed())


def test_a_pod_that_refuses_is_not_covered_even_by_its_class() -> None:
    policy = policed(replace(TELLS, priority_classes=frozenset({"development"})))
    assert not is_covered(silent(stays_idle=True, priority_class="development"), policy)


def test_one_pod_that_refuses_keeps_its_workload() -> None:
    pods = silent(), silent("web-5d9c-b", stays_idle=True)
    assert verdict(*pods, policy=policed(ENDS)) is IdleVerdict.NOTHING


def test_a_protected_pod_is_left_alone() -> None:
    assert verdict(silent(protected=True), policy=policed(ENDS)) is IdleVerdict.NOTHING


def test_the_pods_of_a_daemon_set_are_not_covered() -> None:
    assert not is_covered(silent(owner="DaemonSet/agent", labels={}), policed())


def test_the_pods_own_word_comes_before_the_policy() -> None:
    workload = the(a_web_pod(idle_shutdown=timedelta(hours=5)), policy=policed())
    assert (workload.window, workload.covered, workload.ends) == (timedelta(hours=5), False, True)


def test_where_one_pod_has_no_word_the_policys_action_is_the_one() -> None:
    workload = the(a_web_pod(), silent("web-5d9c-b"), policy=policed())
    assert (workload.whole, workload.covered, workload.ends) == (True, True, False)


# --- what it does


def test_the_policy_tells_unless_it_is_set_to_end() -> None:
    assert IdlePolicy().action is IdleAction.TELL
    assert verdict(silent(), policy=policed()) is IdleVerdict.TELL
    assert verdict(silent(), policy=policed(ENDS)) is IdleVerdict.WARN


def test_a_warning_of_the_policy_has_the_same_grace() -> None:
    ripe = verdict(silent(), policy=policed(ENDS), told=told(IdleStanding.WARNED, 15 * MINUTE))
    early = verdict(silent(), policy=policed(ENDS), told=told(IdleStanding.WARNED, 14 * MINUTE))
    assert (ripe, early) == (IdleVerdict.SCALE, IdleVerdict.NOTHING)


def test_it_is_told_once() -> None:
    assert verdict(silent(), policy=policed(), told=told(IdleStanding.TOLD, MINUTE)) is IdleVerdict.NOTHING


def test_a_workload_that_was_told_of_and_is_in_use_again_is_cleared() -> None:
    case = {"told": told(IdleStanding.TOLD, MINUTE), "courses": {"ml/web-5d9c-a": ACTIVE}}
    assert verdict(silent(), policy=policed(), **case) is IdleVerdict.CLEAR


def test_one_that_was_told_of_is_warned_once_the_policy_ends() -> None:
    assert verdict(silent(), policy=policed(ENDS), told=told(IdleStanding.TOLD, MINUTE)) is IdleVerdict.WARN


def test_a_warning_becomes_a_message_once_the_policy_only_tells() -> None:
    ripe = told(IdleStanding.WARNED, 15 * MINUTE)
    assert verdict(silent(), policy=policed(), told=ripe) is IdleVerdict.TELL


@pytest.mark.parametrize("owner", ["Job/train", "RayCluster/ray", ""])
def test_what_has_no_scale_is_told_of_and_not_ended(owner: str) -> None:
    pod = silent("train-0", owner=owner, labels={})
    assert verdict(pod, policy=policed(ENDS), courses={"ml/train-0": QUIET}) is IdleVerdict.TELL


def test_a_job_that_consented_itself_is_still_suspended() -> None:
    pod = a_web_pod("train-0", owner="Job/train", labels={})
    assert verdict(pod, policy=policed(ENDS), courses={"ml/train-0": QUIET}) is IdleVerdict.WARN


UNKNOWN = [
    pytest.param({}, id="no data"),
    pytest.param({"engine": 1.0}, id="stuck at 100 %"),
    pytest.param({"coverage": 0.5}, id="half of the samples"),
    pytest.param({"nvml": 0.3}, id="contradicted by NVML"),
    pytest.param({"memory": None}, id="memory not reported"),
    pytest.param({"power_floor": 80.0}, id="repeats itself"),
]


@BOTH
@pytest.mark.parametrize("course", UNKNOWN)
def test_nothing_is_said_or_done_on_what_is_not_known(course: dict[str, Any], idle: IdlePolicy) -> None:
    courses = {"ml/web-5d9c-a": replace(QUIET, **course)} if course else {}
    for standing in (IdleStanding.CALM, IdleStanding.WARNED):
        given = {"told": told(standing, 20 * MINUTE), "courses": courses}
        assert verdict(silent(), policy=policed(idle), **given) is IdleVerdict.NOTHING


@BOTH
def test_nothing_is_said_or_done_while_it_is_in_use(idle: IdlePolicy) -> None:
    assert verdict(silent(), policy=policed(idle), courses={"ml/web-5d9c-a": ACTIVE}) is IdleVerdict.NOTHING


def test_telemetry_is_asked_for_the_window_of_the_policy() -> None:
    policy = policed(replace(TELLS, after=timedelta(minutes=30)))
    assert windows(candidates([silent(), silent("b", owner="", labels={})], policy), NOW) == (timedelta(minutes=30),)


# --- in a life

QUICK = replace(TELLS, after=10 * MINUTE)
QUICK_ENDS = replace(QUICK, action=IdleAction.SCALE_TO_ZERO)
GRACE = 3 * MINUTE


def a_life(store: Store, idle: IdlePolicy = QUICK, mode: str = "act", **pod: Any) -> Life:
    """One idle job of the namespace ml, of which a StatefulSet is the owner unless *pod* says otherwise."""
    policy = replace(policy_of_a_life(), idle=idle, idle_shutdown_grace=GRACE)
    life = lives.idle_nodes(store, policy=policy, rest=MINUTE, mode=mode)
    given = {"owner_kind": "StatefulSet", "gpu_util": 0.0, "duration": timedelta(days=3), **pod}
    life.submit(a_job("lab", **given))
    return life


def titles(life: Life, words: str) -> int:
    return sum(words in title for title in life.notices())


def test_a_covered_workload_is_told_of_and_nothing_is_ended(store: Store) -> None:
    life = a_life(store)
    life.run(timedelta(hours=2), tick=MINUTE)
    assert list(life.notices()) == ["GPU workload StatefulSet ml/lab has been idle for 10m"]
    assert life.writes("scale_to_zero") == []
    (event,) = [e for e in life.world.events if e.reason == "IdleShutdown"]
    assert "has been idle for 10m" in event.message


def test_what_a_policy_that_tells_would_have_freed_is_counted_after_the_grace(store: Store) -> None:
    life = a_life(store)
    life.run(timedelta(hours=1), tick=MINUTE)
    (span,) = store.idle_spans(life.now - 2 * MINUTE)
    assert (span.workload, span.team, span.gpus, span.ended) == ("ml/StatefulSet/lab", "vision", 1.0, False)
    assert span.usd_per_hour == life.policy.pools[0].price_usd_per_hour
    (at,) = [n.at for n in store.messages(life.now - timedelta(hours=2), life.now)]
    assert timedelta(0) <= span.since - at - GRACE <= MINUTE
    assert span.until is not None
    assert life.now - span.until <= 2 * MINUTE


def test_the_time_of_use_counts_for_nothing(store: Store) -> None:
    life = a_life(store)
    life.run(timedelta(hours=1), tick=MINUTE)
    life.world.work("ml", "lab-0", engine=0.5)
    life.run(timedelta(hours=1), tick=MINUTE)
    life.world.work("ml", "lab-0", engine=0.0)
    life.run(timedelta(hours=1), tick=MINUTE)
    first, second = store.idle_spans(life.now - timedelta(hours=4))
    assert first.until is not None
    assert second.since - first.until >= timedelta(hours=1)
    assert titles(life, "is no longer idle for too long") == 1
    assert titles(life, "has been idle") == 2


def test_a_covered_workload_is_scaled_to_zero_after_warning_and_grace(store: Store) -> None:
    life = a_life(store, QUICK_ENDS)
    life.run(12 * MINUTE, tick=MINUTE)
    assert titles(life, "will be scaled to zero at") == 1
    assert life.writes("scale_to_zero") == []
    life.run(GRACE + MINUTE, tick=MINUTE)
    assert life.writes("scale_to_zero") == [("scale_to_zero", ("ml", "StatefulSet/lab"))]
    (span,) = store.idle_spans(life.now)
    assert (span.ended, span.until, span.gpus) == (True, None, 1.0)


def test_what_was_ended_is_saved_until_it_starts_again(store: Store) -> None:
    life = a_life(store, QUICK_ENDS)
    life.run(16 * MINUTE, tick=MINUTE)
    life.run(timedelta(hours=1), tick=MINUTE)
    life.world.cancel_job("lab")
    life.submit(a_job("lab", owner_kind="StatefulSet", duration=timedelta(hours=9)))
    again_at = life.now
    life.run(5 * MINUTE, tick=MINUTE)
    (span,) = store.idle_spans(again_at - MINUTE)
    assert span.until is not None
    assert again_at - MINUTE <= span.until <= again_at


def test_a_job_is_told_of_where_the_policy_ends(store: Store) -> None:
    life = a_life(store, QUICK_ENDS, owner_kind="Job")
    life.run(timedelta(hours=1), tick=MINUTE)
    assert list(life.notices()) == ["GPU workload Job ml/lab has been idle for 10m"]
    assert life.writes("scale_to_zero") == []
    assert [span.ended for span in store.idle_spans(life.now - 2 * MINUTE)] == [False]


@pytest.mark.parametrize("word", [NEVER, "off", "2 hours", ""])
def test_whatever_the_annotation_says_that_is_no_duration_refuses(store: Store, word: str) -> None:
    life = a_life(store, QUICK_ENDS, annotations={IDLE_SHUTDOWN_ANNOTATION: word})
    life.run(timedelta(hours=1), tick=MINUTE)
    assert titles(life, "idle") + titles(life, "scaled") == 0
    assert life.writes("scale_to_zero") == []


def test_a_pod_that_refuses_during_the_grace_is_left_alone(store: Store) -> None:
    life = a_life(store, QUICK_ENDS)
    life.run(12 * MINUTE, tick=MINUTE)
    life.world.patch_pod("ml", "lab-0", annotations={IDLE_SHUTDOWN_ANNOTATION: NEVER})
    life.run(timedelta(hours=1), tick=MINUTE)
    assert life.writes("scale_to_zero") == []
    assert titles(life, "will not be scaled to zero any more") == 1


def test_a_refusal_that_comes_after_the_look_is_seen_before_the_write(store: Store) -> None:
    life = a_life(store, QUICK_ENDS)
    life.run(2 * MINUTE, tick=MINUTE)
    (pod,) = [p for p in life.cluster.look().pods if p.name == "lab-0"]
    assert life.cluster.scale_to_zero(pod).did is Did.DIFFERS  # neither consents nor is said to be covered
    life.world.patch_pod("ml", "lab-0", annotations={IDLE_SHUTDOWN_ANNOTATION: NEVER})
    assert life.cluster.scale_to_zero(pod, covered=True).did is Did.DIFFERS


def test_the_snooze_of_the_message_puts_the_end_off(store: Store) -> None:
    life = a_life(store, QUICK_ENDS)
    life.policy = replace(life.policy, keep_until=KeepUntil(namespaces=frozenset({"ml"})))
    life.run(12 * MINUTE, tick=MINUTE)
    until = life.now + timedelta(hours=1)
    life.world.patch_pod("ml", "lab-0", annotations={KEEP_UNTIL_ANNOTATION: until.isoformat()})
    life.run(timedelta(minutes=59), tick=MINUTE)
    assert life.writes("scale_to_zero") == []
    life.run(GRACE + 4 * MINUTE, tick=MINUTE)
    assert len(life.writes("scale_to_zero")) == 1


def test_observe_mode_counts_what_it_would_have_ended(store: Store) -> None:
    life = a_life(store, QUICK_ENDS, mode="observe")
    life.run(timedelta(hours=1), tick=MINUTE)
    assert life.writes("scale_to_zero") == []
    (span,) = store.idle_spans(life.now - 2 * MINUTE)
    assert not span.ended
    assert span.until is not None
    assert span.until - span.since >= timedelta(minutes=40)


def test_an_observed_end_stops_counting_while_telemetry_is_gone(store: Store) -> None:
    life = a_life(store)
    life.run(timedelta(minutes=30), tick=MINUTE)
    gone_at = life.now
    life.world.faults.telemetry_gone = True
    life.run(timedelta(minutes=30), tick=MINUTE)
    (span,) = store.idle_spans(life.now - timedelta(hours=2))
    assert span.until is not None
    assert span.until <= gone_at
