"""What the port `Telemetry` promises: what is not observed is absent, and never zero."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.monitoring.prometheus import PrometheusTelemetry
from receiver.core.model.pods import PodPhase
from receiver.ports import Telemetry
from receiver.replay.ports import WorldTelemetry
from receiver.replay.world.objects import POOL_LABEL, PodSpec
from simulator.server import Simulator
from simulator.world import SimulatedTelemetry
from tests.contracts.conftest import FLAKY, REPLAY
from tests.contracts.monitoring import serve_prometheus
from tests.contracts.stage import GPU, ON_THE_WIRE
from tests.simulator.builders import GPU_POOL, START
from tests.world_ports import FlakyTelemetry

WINDOW = timedelta(minutes=10)
OBSERVED = [ON_THE_WIRE, "simulated", FLAKY]  # a replay has no metrics of the work itself
IN_MEMORY: dict[str, Callable[[Any], Telemetry]] = {
    REPLAY: WorldTelemetry,
    "simulated": SimulatedTelemetry,
    FLAKY: FlakyTelemetry,
}


@contextmanager
def implemented(sim: Simulator, kind: str, httpserver: HTTPServer) -> Iterator[Telemetry]:
    """One implementation over the world of *sim*."""
    if kind != ON_THE_WIRE:
        yield IN_MEMORY[kind](sim.world)
        return
    serve_prometheus(httpserver, sim, WINDOW)
    with closing(PrometheusTelemetry(httpserver.url_for(""), timeout=60)) as adapter:
        yield adapter


@pytest.fixture(params=[*OBSERVED, REPLAY])
def telemetry(sim: Simulator, request: pytest.FixtureRequest, httpserver: HTTPServer) -> Iterator[Telemetry]:
    """The product's adapter, and each one in memory."""
    with implemented(sim, request.param, httpserver) as found:
        yield found


@pytest.fixture(params=OBSERVED)
def observed(sim: Simulator, request: pytest.FixtureRequest, httpserver: HTTPServer) -> Iterator[Telemetry]:
    """Those that observe the work of pods and the ills of nodes."""
    with implemented(sim, request.param, httpserver) as found:
        yield found


@pytest.fixture
def node(sim: Simulator) -> str:
    """The name of the one node, which has four GPUs."""
    (name,) = sim.world.nodes
    return name


def run_pod(sim: Simulator, node: str, name: str, *, gpus: int, engine: float) -> None:
    """Let a pod work on so many GPUs of *node*, each as busy as that."""
    with sim.moved() as world:
        world.add_pod(
            PodSpec(namespace="ml", name=name, requests={GPU: gpus}, node=node, gpu_util=engine, gpu_memory=0.25)
        )
    sim.live.turn(timedelta(minutes=20))


def wait(sim: Simulator, name: str, gpus: int = 8, **changes: Any) -> None:
    """Let a pod that fits no node be refused by the scheduler."""
    with sim.moved() as world:
        world.add_pod(PodSpec(namespace="ml", name=name, requests={GPU: gpus}, **changes))
    sim.live.turn(timedelta(seconds=10))


# --- pools


def test_the_utilization_of_a_pool_is_the_mean_over_all_its_gpus(
    sim: Simulator, telemetry: Telemetry, node: str
) -> None:
    run_pod(sim, node, "busy", gpus=1, engine=0.8)
    facts = telemetry.look()
    assert facts.utilization == {GPU_POOL: pytest.approx(0.2)}
    assert facts.coverage == {GPU_POOL: 1.0}


def test_an_idle_pool_is_at_zero_and_one_without_gpus_is_absent(sim: Simulator, telemetry: Telemetry) -> None:
    sim.live.turn(timedelta(minutes=20))
    assert telemetry.look().utilization == {GPU_POOL: 0.0}
    with sim.moved() as world:
        world.delete_instance(GPU_POOL, world.lives[0].id)
    sim.live.turn(timedelta(minutes=20))
    assert (telemetry.look().utilization, telemetry.look().coverage) == ({}, {})


def test_without_gpu_metrics_nothing_is_known_of_any_gpu_and_that_is_told(
    sim: Simulator, telemetry: Telemetry, node: str
) -> None:
    run_pod(sim, node, "busy", gpus=1, engine=0.8)
    sim.world.faults.failed[node] = "XID 79 on GPU 0"
    sim.world.faults.telemetry_gone = True
    facts = telemetry.look()
    assert (facts.utilization, facts.nodes, facts.failed) == ({}, {}, {})
    assert (facts.coverage, facts.rules_alive) == ({GPU_POOL: 0.0}, True)


def test_the_rules_are_alive_while_the_heartbeat_fires(sim: Simulator, telemetry: Telemetry) -> None:
    assert telemetry.look().rules_alive
    sim.world.faults.rules_dead = True
    assert not telemetry.look().rules_alive


# --- waiting pods


def test_every_pod_that_the_scheduler_refused_is_shown_with_its_size_its_age_and_its_pool(
    sim: Simulator, telemetry: Telemetry
) -> None:
    wait(sim, "anywhere", gpus=5)
    wait(sim, "here", node_selector={POOL_LABEL: GPU_POOL})
    waiting = {p.key: p for p in telemetry.look().waiting}
    assert {key: (p.gpus, p.scheduling.pool_hint) for key, p in waiting.items()} == {
        "ml/anywhere": (5, "unassigned"),
        "ml/here": (8, GPU_POOL),
    }
    assert {key: p.created_at - START for key, p in waiting.items()} == {
        "ml/anywhere": timedelta(0),
        "ml/here": timedelta(seconds=10),
    }
    assert {p.phase for p in waiting.values()} == {PodPhase.WAITING}


def test_pods_that_run_need_no_gpu_or_belong_to_a_daemon_set_do_not_wait(
    sim: Simulator, telemetry: Telemetry, node: str
) -> None:
    run_pod(sim, node, "runs", gpus=1, engine=0.5)
    wait(sim, "daemon", owner_kind="DaemonSet", owner_name="daemon")
    with sim.moved() as world:
        world.add_pod(PodSpec(namespace="ml", name="web", node_selector={"no": "such"}))
    sim.live.turn(timedelta(seconds=10))
    assert telemetry.look().waiting == ()


# --- nodes


def test_a_node_shows_the_busiest_of_its_gpus(sim: Simulator, telemetry: Telemetry, node: str) -> None:
    run_pod(sim, node, "rests", gpus=1, engine=0.1)
    run_pod(sim, node, "works", gpus=2, engine=0.9)
    (shown,) = telemetry.look().nodes.items()
    assert shown[0] == node
    assert shown[1].engine == pytest.approx(0.9)
    assert shown[1].memory == pytest.approx(0.25)
    assert shown[1].power is not None
    assert shown[1].power > 100


def test_an_idle_node_is_shown_at_zero(telemetry: Telemetry, node: str) -> None:
    assert (telemetry.look().nodes[node].engine, telemetry.look().nodes[node].memory) == (0.0, 0.0)


def test_failed_gpus_and_restarts_are_shown_by_node(sim: Simulator, observed: Telemetry, node: str) -> None:
    assert (observed.look().failed, observed.look().recovering) == ({}, {})
    sim.world.faults.failed[node] = "XID 79 on GPU 0"
    sim.world.faults.recovering[node] = "WaitingReboot"
    facts = observed.look()
    assert (facts.failed, facts.recovering) == ({node: "XID 79 on GPU 0"}, {node: "WaitingReboot"})


# --- the work of pods


def test_the_activity_of_every_gpu_of_every_pod_is_shown(sim: Simulator, observed: Telemetry, node: str) -> None:
    run_pod(sim, node, "one", gpus=1, engine=0.4)
    run_pod(sim, node, "two", gpus=2, engine=0.9)
    samples = observed.samples()
    assert {pod: [s.engine for s in gpus] for pod, gpus in samples.items()} == {
        "ml/one": [pytest.approx(0.4)],
        "ml/two": [pytest.approx(0.9)] * 2,
    }
    assert [s.memory for s in samples["ml/one"]] == [pytest.approx(0.25, abs=0.001)]
    sim.world.faults.telemetry_gone = True
    assert observed.samples() == {}


def test_the_course_of_a_pod_has_its_peaks_and_the_share_that_was_observed(
    sim: Simulator, observed: Telemetry, node: str
) -> None:
    run_pod(sim, node, "calms", gpus=1, engine=0.9)
    with sim.moved() as world:
        world.work("ml", "calms", engine=0.1)
    sim.live.turn(WINDOW / 2)
    course = observed.courses(WINDOW)["ml/calms"]
    assert course.engine == pytest.approx(0.9)
    assert (course.window, course.coverage) == (WINDOW, 1.0)
    sim.world.faults.telemetry_gone = True
    sim.live.turn(WINDOW / 2)
    course = observed.courses(WINDOW)["ml/calms"]
    assert course.engine == pytest.approx(0.1)
    assert course.coverage == 0.5
    sim.live.turn(WINDOW)
    assert observed.courses(WINDOW) == {}


def test_a_query_without_an_answer_has_no_value(telemetry: Telemetry) -> None:
    assert telemetry.value("sum(epochs)", START) is None
