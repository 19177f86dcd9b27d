"""A simulated cloud, a Prometheus that only beats, and receivers as processes; all of them end with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.server import Simulator
from tests.e2e.clouds import a_cloud
from tests.e2e.installing import Install, a_beating_prometheus, installing
from tests.e2e.receivers import Receiver


@pytest.fixture(scope="session")
def prometheus() -> Iterator[str]:
    """The URL of a Prometheus for all tests that are not about it."""
    with a_beating_prometheus() as url:
        yield url


@pytest.fixture
def cloud() -> Iterator[Simulator]:
    """A cloud with one pool at zero nodes."""
    with a_cloud() as simulator:
        yield simulator


@pytest.fixture
def install(tmp_path: Path, prometheus: str) -> Iterator[Install]:
    """What installs receivers."""
    with installing(tmp_path, prometheus) as install:
        yield install


@pytest.fixture
def receiver(cloud: Simulator, install: Install) -> Receiver:
    """A receiver that leads and has stepped once."""
    return install(cloud).serve()
