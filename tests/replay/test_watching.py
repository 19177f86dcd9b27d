"""Telemetry and alarms over a world: what the rules would say."""

from datetime import timedelta

import pytest

from receiver.core.model.signals import UNASSIGNED, Matcher, Silence
from receiver.ports import Alarms, Telemetry
from receiver.replay.world.objects import GPU, POOL_LABEL
from simulator.world import SimulatedAlarms, SimulatedTelemetry, World
from tests.replay.builders import after, job, pool, run, world


def fired(alarms: SimulatedAlarms) -> set[tuple[str, str]]:
    """(action, pool) of what fires, the heartbeat left out."""
    found = {(a.labels["action"], a.labels.get("pool", "")) for a in alarms.look().alerts}
    return found - {("heartbeat", "")}


def half_busy(runs: float) -> World:
    """Two nodes, one of them busy for that long."""
    w = world(pool(count=2))
    w.submit(job(runs=runs))
    return w


def test_telemetry_shows_utilization_and_coverage_of_pools_with_gpus() -> None:
    telemetry: Telemetry = SimulatedTelemetry(run(world(pool("a", count=1), pool("b")), 300))
    facts = telemetry.look()
    assert facts.utilization == {"a": 0.0}
    assert facts.coverage == {"a": 1.0}
    assert facts.rules_alive


def test_without_dcgm_there_is_no_utilization_and_no_coverage() -> None:
    w = run(world(pool(count=1)), 300)
    w.faults.telemetry_gone = True
    facts = SimulatedTelemetry(w).look()
    assert facts.utilization == {}
    assert facts.coverage == {"a": 0.0}
    assert facts.rules_alive


def test_dead_rules_are_not_alive_and_fire_nothing() -> None:
    w = run(world(), 10)
    w.faults.rules_dead = True
    assert not SimulatedTelemetry(w).look().rules_alive
    assert SimulatedAlarms(w).look().alerts == ()


def test_waiting_pods_carry_the_pool_that_their_selector_names_or_unassigned() -> None:
    w = world()
    w.submit(job("x", node_selector={POOL_LABEL: "a"}))
    w.submit(job("y"))
    waiting = SimulatedTelemetry(run(w, 1)).look().waiting
    assert {p.name: (p.scheduling.pool_hint, p.requests) for p in waiting} == {
        "x-0": ("a", {GPU: 1}),
        "y-0": (UNASSIGNED, {GPU: 1}),
    }


def test_pending_pods_fire_scale_up_until_they_are_bound() -> None:
    w = world()
    alarms = SimulatedAlarms(w)
    view: Alarms = alarms
    assert [a.labels["action"] for a in view.look().alerts] == ["heartbeat"]
    w.submit(job())
    run(w, 1)
    assert fired(alarms) == {("scale_up", UNASSIGNED)}
    w.resize("a", 1)
    run(w, 400)
    assert ("scale_up", UNASSIGNED) not in fired(alarms)


def test_an_alert_keeps_its_start_and_fingerprint_while_it_fires() -> None:
    w = world()
    alarms = SimulatedAlarms(w)
    first = alarms.look().alerts[0]
    run(w, 100)
    again = alarms.look().alerts[0]
    assert (again.fingerprint, again.starts_at) == (first.fingerprint, after(0))


def test_a_busy_pool_holds_and_an_idle_one_asks_to_shrink() -> None:
    w = world(pool(count=1))
    w.submit(job(runs=400))
    alarms = SimulatedAlarms(w)
    assert fired(alarms) == set()
    run(w, 330)
    assert fired(alarms) == {("hold", "a")}
    run(w, 1000)
    assert fired(alarms) == {("scale_down", "a")}


def test_a_pool_is_not_called_idle_while_it_is_young_or_pods_wait() -> None:
    w = half_busy(runs=60)
    alarms = SimulatedAlarms(w)
    run(w, 539)
    assert fired(alarms) == set()
    run(w, 540)
    assert fired(alarms) == {("scale_down", "a")}
    w.submit(job("big", gpus_per_pod=16))
    run(w, 541)
    assert fired(alarms) == {("scale_up", UNASSIGNED)}


@pytest.mark.parametrize("name, heard", [("GpuPodsPending", False), ("Other", True)])
def test_a_silenced_alert_does_not_fire_and_a_silence_ends(name: str, heard: bool) -> None:
    w = world()
    w.submit(job())
    run(w, 1)
    alarms = SimulatedAlarms(w)
    ends = w.now + timedelta(minutes=5)
    alarms.silences.append(Silence(id="s", matchers=(Matcher(name="alertname", value=name),), ends_at=ends))
    assert (("scale_up", UNASSIGNED) in fired(alarms)) is heard
    assert len(alarms.look().silences) == 1
    run(w, 301)
    assert ("scale_up", UNASSIGNED) in fired(alarms)
    assert alarms.look().silences == ()
