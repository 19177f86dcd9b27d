"""Simulators on free ports, stopped after the test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.simulator.builders import START, Civo, Starter, k8s, kubeconfigs, starting


@pytest.fixture
def start() -> Iterator[Starter]:
    """Start simulators with a manual clock and `builders.config` with changes."""
    with starting(lambda: ManualClock(START)) as begin:
        yield begin


@pytest.fixture
def sim(start: Starter) -> Simulator:
    """A simulator as it comes."""
    return start()


@pytest.fixture
def civo(sim: Simulator) -> Civo:
    """A client of its Civo face."""
    return Civo(sim.url)


@pytest.fixture
def api_for(tmp_path: Path) -> Iterator[Callable[[Simulator], Any]]:
    """Make official Kubernetes clients from the kubeconfig that a simulator writes."""
    opened: list[Any] = []

    def connect(simulator: Simulator) -> Any:
        api = kubeconfigs.new_client_from_config(str(simulator.kubeconfig(tmp_path / f"kubeconfig-{len(opened)}")))
        opened.append(api)
        return api

    yield connect
    for api in opened:
        api.rest_client.pool_manager.clear()
        api.close()


@pytest.fixture
def core(sim: Simulator, api_for: Callable[[Simulator], Any]) -> Any:
    """The official client of the simulator's Kubernetes face."""
    return k8s.CoreV1Api(api_for(sim))
