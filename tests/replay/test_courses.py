"""What the GPUs of nodes and pods did, as DCGM and Prometheus would show it."""

from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.usage import Activity, Course
from receiver.ports import Telemetry
from receiver.replay.world.activity import watts
from receiver.replay.world.objects import GPU, PodSpec, Timings
from simulator.gpu_metrics import POWER_NOISE
from simulator.world import SimulatedTelemetry, World
from tests.replay.builders import job, pool, run, seconds, vms, world

HOUR = timedelta(hours=1)
SLOW = Timings(warmup=seconds(1000))  # a pod bound at 0.2 s runs at 5.2 s and is loaded at 1005.2 s


def loading(**given: Any) -> World:
    """A node with a pod that loads for 1000 s and then holds half of the memory."""
    w = world(pool(count=1), timings=SLOW)
    w.submit(job(**{"runs": 90_000, "gpu_memory": 0.5, **given}))
    return w


def course(w: World, window: timedelta = HOUR, pod: str = "default/j-0") -> Course:
    """What the port says of a pod."""
    telemetry: Telemetry = SimulatedTelemetry(w)
    return telemetry.courses(window)[pod]


def activity(w: World) -> Activity:
    """What the port says of the only node."""
    ((node, found),) = SimulatedTelemetry(w).look().nodes.items()
    assert node == vms(w)[0].hostname
    return found


# --- nodes ---


def test_a_node_without_pods_is_idle_and_empty() -> None:
    assert activity(run(world(pool(count=1)), 10)) == Activity(engine=0.0, memory=0.0, power=watts(0.0))


def test_the_busiest_gpu_speaks_for_its_node() -> None:
    w = world(pool(count=1, resources={GPU: 3}))
    w.submit(job("x", gpu_util=0.1, gpu_memory=0.9))
    w.submit(job("y", gpu_util=0.6, gpu_memory=0.2))
    assert activity(run(w, 60)) == Activity(engine=0.6, memory=0.9, power=watts(0.6))


def test_nothing_is_said_of_nodes_while_telemetry_is_gone() -> None:
    w = run(world(pool(count=1)), 10)
    w.faults.telemetry_gone = True
    assert SimulatedTelemetry(w).look().nodes == {}


def test_a_node_says_nothing_before_its_driver_runs() -> None:
    w = world()
    w.resize("a", 1)
    assert SimulatedTelemetry(run(w, 319)).look().nodes == {}
    assert activity(run(w, 320)).engine == 0.0


def test_memory_fills_evenly_while_a_pod_loads_and_its_engine_rests() -> None:
    w = loading()
    found = [activity(run(w, at)) for at in (5.2, 505.2, 1005.1, 1005.2, 5000)]
    assert [a.memory for a in found] == pytest.approx([0.0, 0.25, 0.49995, 0.5, 0.5])
    assert [a.engine for a in found] == [0.0, 0.0, 0.0, 0.9, 0.9]


def test_an_idle_pod_holds_its_memory() -> None:
    assert activity(run(loading(gpu_util=0.0), 2000)) == Activity(engine=0.0, memory=0.5, power=watts(0.0))


def test_a_pod_that_goes_idle_is_seen_at_once_by_its_node_and_its_pool() -> None:
    w = run(loading(), 2000)
    w.work("default", "j-0", engine=0.0)
    assert activity(w) == Activity(engine=0.0, memory=0.5, power=watts(0.0))
    assert w.utilization("a", seconds(100)) == 0.9
    assert run(w, 2100).utilization("a", seconds(100)) == 0.0


def test_a_pod_that_is_told_to_idle_while_it_loads_is_idle_once_it_is_loaded() -> None:
    w = run(loading(), 505.2)
    w.work("default", "j-0", engine=0.0, memory=0.8)
    assert activity(w).memory == pytest.approx(0.25)
    assert activity(run(w, 1100)) == Activity(engine=0.0, memory=0.8, power=watts(0.0))


# --- outside Kubernetes ---


def test_something_outside_kubernetes_is_seen_on_a_node_without_pods_until_it_stops() -> None:
    w = run(world(pool(count=1, resources={GPU: 2})), 10)
    node = vms(w)[0].hostname
    w.use_gpu(node, engine=0.7, memory=0.3)
    assert activity(w) == Activity(engine=0.7, memory=0.3, power=watts(0.7))
    assert [(s.util, s.pod) for s in w.gpu_samples()] == [(0.7, None), (0.7, None)]
    assert run(w, 110).utilization("a", seconds(100)) == pytest.approx(0.7)
    w.stop_using(node)
    assert activity(w) == Activity(engine=0.0, memory=0.0, power=watts(0.0))


def test_outside_use_comes_on_top_of_what_a_pod_does() -> None:
    w = run(loading(gpu_util=0.2), 2000)
    w.use_gpu(vms(w)[0].hostname, engine=0.6, memory=0.3)
    assert activity(w) == Activity(engine=0.6, memory=0.8, power=watts(0.6))
    assert course(run(w, 2100), seconds(50)).engine == 0.6


def test_a_node_that_is_gone_is_used_by_nobody() -> None:
    w = world()
    with pytest.raises(Exception, match="404"):
        w.use_gpu("gone")


# --- courses ---


def test_a_course_has_the_peaks_of_its_window() -> None:
    w = run(loading(), 4000)
    w.work("default", "j-0", engine=0.1, memory=0.3)
    run(w, 5000)
    assert course(w, seconds(1000)) == Course(
        window=seconds(1000),
        engine=0.1,
        memory=0.0,
        power=watts(0.1),
        power_floor=watts(0.1) - POWER_NOISE,
        coverage=1.0,
    )
    longer = course(w, seconds(1001))
    assert (longer.engine, longer.power, longer.power_floor) == (0.9, watts(0.9), watts(0.1) - POWER_NOISE)
    assert longer.memory == pytest.approx(0.2)


def test_a_course_in_the_middle_of_a_loading_shows_by_how_much_memory_changed() -> None:
    found = course(run(loading(), 605.2), seconds(100))
    assert (found.engine, found.coverage) == (0.0, 1.0)
    assert found.memory == pytest.approx(0.05)


def test_a_pod_younger_than_the_window_is_covered_since_its_binding() -> None:
    found = course(run(loading(), 900.2))
    assert found.coverage == pytest.approx(900 / 3600)


def test_a_course_reaches_back_a_day() -> None:
    w = run(loading(runs=200_000, gpu_util=0.0), 2000)
    w.work("default", "j-0", engine=0.5)
    run(w, 2010)
    w.work("default", "j-0", engine=0.0)
    for hour in range(1, 24):
        run(w, 2010 + 3600 * hour)
        w.work("default", "j-0", engine=0.0)
    assert course(w, timedelta(hours=23, seconds=1)).engine == 0.5
    assert course(w, timedelta(hours=22)).engine == 0.0


def test_what_was_not_seen_is_in_no_course() -> None:
    w = run(loading(gpu_util=0.0), 5000)
    w.faults.telemetry_gone = True
    w.work("default", "j-0", engine=0.9)
    run(w, 5600)
    w.work("default", "j-0", engine=0.0)
    assert SimulatedTelemetry(run(w, 5900)).courses(seconds(600)) == {}
    w.faults.telemetry_gone = False
    found = course(run(w, 6500))
    assert found.engine == 0.0
    assert found.coverage == pytest.approx(2700 / 3600)


def test_a_course_has_no_samples_of_a_driver_that_crashed() -> None:
    w = run(loading(), 5000)
    w.faults.lose_gpu(vms(w)[0].hostname)
    run(w, 5900)
    assert course(w).coverage == pytest.approx(0.75)
    w.faults.recover(vms(w)[0].hostname)
    assert course(run(w, 6800)).coverage == pytest.approx(0.75)


def test_only_pods_that_hold_gpus_have_a_course() -> None:
    w = world(pool(count=1))
    w.submit(job("done", runs=100))
    w.submit(job("waits", gpus_per_pod=2))
    w.add_pod(PodSpec(namespace="default", name="cpu"))
    assert set(SimulatedTelemetry(run(w, 50)).courses(HOUR)) == {"default/done-0"}
    assert set(SimulatedTelemetry(run(w, 200)).courses(HOUR)) == set()


def test_a_history_keeps_no_more_than_a_day_of_changes() -> None:
    w = run(loading(runs=500_000), 2000)
    for hour in range(1, 100):
        run(w, 2000 + 3600 * hour)
        w.work("default", "j-0", engine=0.5)
    (history,) = w._activity._histories.values()  # no port shows how much is kept
    assert len(history._readings) == 25
