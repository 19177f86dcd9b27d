"""Idle workloads that consented, lived through: warned, kept, cleared, scaled to zero; and never on missing data."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.policy import KeepUntil, Policy
from receiver.core.model.usage import Course
from receiver.ports import IDLE_SHUTDOWN_ANNOTATION, KEEP_UNTIL_ANNOTATION, Store, TryLater, WontWork
from receiver.replay.world.objects import PodSpec
from simulator.world import World
from tests.core.builders import HOUR, MINUTE
from tests.given import lives, troubles
from tests.given.life import GPU, Life, a_policy
from tests.world_ports import FlakyTelemetry

WINDOW = 10 * MINUTE
GRACE = 3 * MINUTE
POLICY = replace(a_policy(), idle_shutdown_grace=GRACE)
LISTED = replace(POLICY, keep_until=KeepUntil(namespaces=frozenset({"ml"})))
CONSENT = {IDLE_SHUTDOWN_ANNOTATION: "10m"}
SCALED = ("scale_to_zero", ("ml", "StatefulSet/web"))


def serve(world: World, name: str = "web-0", engine: float = 0.0, **changes: Any) -> None:
    """Let a pod of the StatefulSet web run and do nothing; its owner consented unless said otherwise."""
    given: dict[str, Any] = {
        "requests": {GPU: 1},
        "annotations": CONSENT,
        "owner_kind": "StatefulSet",
        "owner_name": "web",
        "gpu_util": engine,
    }
    world.add_pod(PodSpec(namespace="ml", name=name, **{**given, **changes}))


def an_idle_life(store: Store, policy: Policy = POLICY, mode: str = "act") -> Life:
    """One pod that consented and idles from the start."""
    life = lives.idle_nodes(store, policy=policy, rest=MINUTE, mode=mode)
    serve(life.world)
    return life


def scaled(life: Life) -> list[tuple[str, tuple[object, ...]]]:
    return life.writes("scale_to_zero")


def told(life: Life, words: str) -> int:
    """How many notices have *words* in their title."""
    return sum(words in title for title in life.notices())


def until_warned(life: Life) -> None:
    """Live until the warning was given; it is the minute after the window at the latest."""
    life.run(WINDOW + 2 * MINUTE, tick=MINUTE)
    assert told(life, "will be scaled to zero at") == 1
    assert scaled(life) == []


# --- the way to zero


def test_an_idle_workload_is_warned_and_scaled_to_zero_after_the_grace(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    life.run(GRACE + MINUTE, tick=MINUTE)
    assert scaled(life) == [SCALED]
    assert told(life, "StatefulSet ml/web was scaled to zero: idle for 10m") == 1
    assert not [p for p in life.world.active_pods.values() if p.requests]


def test_after_the_shutdown_nothing_more_is_said_or_done(store: Store) -> None:
    life = an_idle_life(store)
    life.run(WINDOW + GRACE + 20 * MINUTE, tick=MINUTE)
    assert scaled(life) == [SCALED]
    assert len(list(life.notices())) == 2


def test_the_warning_reaches_the_pod_as_an_event(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    (event,) = [e for e in life.world.events if e.reason == "IdleShutdown"]
    assert event.name == "web-0"
    assert "will be scaled to zero at" in event.message


def test_a_workload_without_the_annotation_is_never_scaled_to_zero(store: Store) -> None:
    life = lives.idle_nodes(store, policy=POLICY, rest=MINUTE)
    serve(life.world, annotations={})
    life.run(WINDOW + GRACE + 20 * MINUTE, tick=MINUTE)
    assert scaled(life) == []
    assert list(life.notices()) == []


def test_one_pod_without_the_annotation_keeps_its_workload(store: Store) -> None:
    life = lives.idle_nodes(store, 2, policy=POLICY, rest=MINUTE)
    serve(life.world)
    serve(life.world, "web-1", annotations={})
    life.run(WINDOW + GRACE + 5 * MINUTE, tick=MINUTE)
    assert scaled(life) == []


def test_one_busy_pod_keeps_its_workload(store: Store) -> None:
    life = lives.idle_nodes(store, 2, policy=POLICY, rest=MINUTE)
    serve(life.world)
    serve(life.world, "web-1", engine=0.5)
    life.run(WINDOW + GRACE + 5 * MINUTE, tick=MINUTE)
    assert scaled(life) == []


@pytest.mark.database("what outlives a process is in it")
def test_a_warning_outlives_a_restart(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    again = lives.restarted(life, store, policy=POLICY, rest=MINUTE)
    again.run(GRACE + MINUTE, tick=MINUTE)
    assert scaled(again) == [SCALED]
    assert told(again, "will be scaled to zero at") == 1


# --- back to work


def test_a_workload_that_works_in_the_grace_is_cleared_and_warned_anew_later(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    life.world.work("ml", "web-0", engine=0.5)
    life.run(2 * MINUTE, tick=MINUTE)
    life.world.work("ml", "web-0", engine=0.0)
    life.run(WINDOW - MINUTE, tick=MINUTE)
    assert told(life, "will not be scaled to zero any more") == 1
    assert told(life, "will be scaled to zero at") == 1
    life.run(3 * MINUTE, tick=MINUTE)
    assert told(life, "will be scaled to zero at") == 2
    assert scaled(life) == []
    life.run(GRACE, tick=MINUTE)
    assert scaled(life) == [SCALED]


def test_a_workload_that_takes_its_consent_back_is_cleared(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    life.world.patch_pod("ml", "web-0", annotations={IDLE_SHUTDOWN_ANNOTATION: None})
    life.run(GRACE + 5 * MINUTE, tick=MINUTE)
    assert told(life, "will not be scaled to zero any more") == 1
    assert scaled(life) == []


# --- put off


def test_a_snooze_puts_the_shutdown_off_and_it_is_announced_anew(store: Store) -> None:
    life = an_idle_life(store, LISTED)
    until_warned(life)
    until = life.now + 10 * MINUTE
    life.world.patch_pod("ml", "web-0", annotations={KEEP_UNTIL_ANNOTATION: until.isoformat()})
    life.run(10 * MINUTE, tick=MINUTE)
    assert told(life, f"is kept until {until:%Y-%m-%d %H:%M} UTC") == 1
    assert scaled(life) == []
    life.run(2 * MINUTE, tick=MINUTE)
    assert told(life, "will be scaled to zero at") == 2
    assert scaled(life) == []
    life.run(GRACE, tick=MINUTE)
    assert scaled(life) == [SCALED]


def test_a_snooze_of_an_unlisted_namespace_is_told_and_puts_nothing_off(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    wish = (life.now + timedelta(hours=1)).isoformat()
    life.world.patch_pod("ml", "web-0", annotations={KEEP_UNTIL_ANNOTATION: wish})
    life.run(MINUTE, tick=MINUTE)
    assert told(life, "gpu-autoscaler.io/keep-until is ignored") == 1
    life.run(GRACE, tick=MINUTE)
    assert scaled(life) == [SCALED]


# --- never on missing data


TROUBLES = [
    troubles.dcgm_gone,
    troubles.prometheus_down,
    troubles.rules_dead,
    troubles.kubernetes_down,
    troubles.civo_down,
    troubles.alertmanager_down,
    troubles.no_heartbeat,
    troubles.frozen,
    troubles.silenced,
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda t: t.__name__)
def test_nobody_is_warned_of_what_cannot_be_known_or_is_forbidden(store: Store, trouble: Any) -> None:
    life = an_idle_life(store)
    trouble(life)
    life.run(WINDOW + GRACE + 2 * MINUTE, tick=MINUTE)
    assert told(life, "scaled to zero") == 0
    assert scaled(life) == []


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda t: t.__name__)
def test_nothing_is_scaled_to_zero_on_what_cannot_be_known_or_is_forbidden(store: Store, trouble: Any) -> None:
    patient = replace(POLICY, idle_shutdown_grace=10 * MINUTE)
    life = an_idle_life(store, patient)
    until_warned(life)
    trouble(life)
    life.run(15 * MINUTE, tick=MINUTE)  # a missing heartbeat counts after three minutes
    assert scaled(life) == []
    assert told(life, "no longer about to be") == 0


# --- what cannot be done


def test_a_bare_pod_is_told_once_and_left_alone(store: Store) -> None:
    life = lives.idle_nodes(store, policy=POLICY, rest=MINUTE)
    serve(life.world, "notebook", owner_kind="", owner_name="")
    life.run(WINDOW + GRACE + 5 * MINUTE, tick=MINUTE)
    assert list(life.notices()) == ["GPU workload Pod ml/notebook cannot be scaled to zero"]
    assert scaled(life) == []


def test_a_refusal_is_told_once_and_tried_again(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    for _ in range(3):
        life.cluster.fail_next(WontWork("no right", code="http_403"), "scale_to_zero")
    life.run(GRACE + 2 * MINUTE, tick=MINUTE)
    assert told(life, "could not be scaled to zero") == 1
    life.run(2 * MINUTE, tick=MINUTE)
    assert scaled(life) == [SCALED]


def test_one_lost_call_is_tried_again_and_not_told(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    life.cluster.fail_next(TryLater("no answer", code="timeout"), "scale_to_zero")
    life.run(GRACE + 2 * MINUTE, tick=MINUTE)
    assert told(life, "could not be scaled to zero") == 0
    assert scaled(life) == [SCALED]


def test_trouble_that_lasts_is_told_once(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    for _ in range(6):
        life.cluster.fail_next(TryLater("no answer", code="timeout"), "scale_to_zero")
    life.run(GRACE + 6 * MINUTE, tick=MINUTE)
    assert told(life, "could not be scaled to zero") == 1


def test_a_shutdown_whose_answer_was_lost_is_not_repeated(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    life.cluster.fail_after(TryLater("no answer", code="timeout"), "scale_to_zero")
    life.run(GRACE + 5 * MINUTE, tick=MINUTE)
    assert scaled(life) == [SCALED]


def test_who_is_not_the_writer_scales_nothing(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    life.writer = False
    life.run(GRACE + 2 * MINUTE, tick=MINUTE)
    assert scaled(life) == []


def test_observe_mode_says_once_what_it_would_have_done(store: Store) -> None:
    life = an_idle_life(store, mode="observe")
    life.run(WINDOW + GRACE + 10 * MINUTE, tick=MINUTE)
    assert scaled(life) == []
    assert told(life, "would be scaled to zero at") == 1
    assert told(life, "would be scaled to zero (observing, nothing was changed)") == 1
    assert told(life, "will be") == 0


# --- beside the pools


class Telemetry(FlakyTelemetry):
    """Counts the questions for courses."""

    asked = 0

    def courses(self, window: timedelta) -> Mapping[str, Course]:
        self.asked += 1
        return super().courses(window)


def test_courses_are_asked_for_once_a_minute_however_often_we_step(store: Store) -> None:
    life = an_idle_life(store)
    life.run(WINDOW, tick=MINUTE)
    telemetry = life.telemetry = Telemetry(life.world)
    life.run(3 * MINUTE, tick=timedelta(seconds=10))
    assert 2 <= telemetry.asked <= 4


def test_nobody_is_asked_while_nobody_consented(store: Store) -> None:
    life = lives.idle_nodes(store, policy=POLICY, rest=MINUTE)
    serve(life.world, annotations={})
    telemetry = life.telemetry = Telemetry(life.world)
    life.run(WINDOW + 2 * MINUTE, tick=MINUTE)
    assert telemetry.asked == 0


def test_a_warning_from_before_a_jump_of_the_clock_is_taken_back_and_given_anew(store: Store) -> None:
    life = an_idle_life(store)
    until_warned(life)
    life.pauses_are_jumps = True
    life.world.advance(life.now + 20 * MINUTE)  # without a step: as if the clock had been set
    life.step()
    jumped_at = life.now
    assert told(life, "will not be scaled to zero any more") == 1
    life.run_until(lambda: scaled(life), tick=MINUTE, within=HOUR)
    assert life.now - jumped_at >= GRACE
    assert told(life, "will be scaled to zero at") == 2
