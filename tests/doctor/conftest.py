"""Simulated regions on free ports, and what the doctor is told of them; stopped after the test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from receiver.doctor.checks import Installation
from receiver.ports import Clock
from simulator.server import Simulator
from tests.doctor.builders import installation
from tests.simulator.builders import Starter, starting

Told = Callable[..., Installation]


@pytest.fixture
def start() -> Iterator[Starter]:
    """Start simulators by the wall clock with `tests.simulator.builders.config` and changes."""
    with starting() as begin:
        yield begin


@pytest.fixture
def sim(start: Starter) -> Simulator:
    """A simulator as it comes: one GPU node, usable."""
    return start()


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """Make an Installation on a simulator: *said* is the configuration, *more* the environment."""

    def tell(
        simulator: Simulator, said: dict[str, Any] | None = None, clock: Clock | None = None, **more: str
    ) -> Installation:
        kubeconfig = simulator.kubeconfig(tmp_path / "kubeconfig")
        made = installation(tmp_path, said, **{"CIVO_API_URL": simulator.url, "KUBECONFIG": str(kubeconfig), **more})
        return made if clock is None else Installation(settings=made.settings, environ=made.environ, clock=clock)

    return tell
