"""The implementations of each port, one after the other, over one and the same world."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import ClusterOptions, connect
from receiver.adapters.kubernetes.installations import Own
from receiver.ports import Cloud, Cluster
from receiver.replay.ports import WorldCloud
from simulator.cluster_port import SimulatedCluster
from simulator.server import Simulator
from tests.contracts.stage import ON_THE_WIRE, OWN_LEASE, a_simulator
from tests.given.requests import EVERY_READER
from tests.simulator.builders import CLUSTER, KEY
from tests.world_ports import FlakyCloud, FlakyCluster

REPLAY, FLAKY = "replay", "with faults"


@pytest.fixture
def sim() -> Simulator:
    """A simulator with one node of four GPUs that came without labels and taints; it serves over HTTP where asked."""
    return a_simulator()


@pytest.fixture(params=[ON_THE_WIRE, REPLAY, FLAKY])
def cloud(sim: Simulator, request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """Civo: the product's adapter over HTTP, the replay's, and the one of the tests of the step."""
    if request.param == ON_THE_WIRE:
        with sim, closing(CivoCloud(sim.url, KEY, "LON1", CLUSTER, calls=Calls(timeouts=(60, 60)))) as adapter:
            yield adapter
        return
    yield WorldCloud(sim.world) if request.param == REPLAY else FlakyCloud(sim.world)


@pytest.fixture(params=[ON_THE_WIRE, "simulated", FLAKY])
def cluster(sim: Simulator, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Kubernetes: the product's adapter over HTTP, the simulated one, and the one of the tests of the step."""
    if request.param == ON_THE_WIRE:
        kubeconfig, ours = tmp_path / "kubeconfig", Own(key=OWN_LEASE)
        with (
            sim,
            closing(
                connect(
                    str(sim.kubeconfig(kubeconfig)),
                    calls=Calls(timeouts=(60, 60)),
                    options=ClusterOptions(installation=ours, readers=EVERY_READER),
                )
            ) as adapter,
        ):
            yield adapter
        return
    yield SimulatedCluster(sim.world) if request.param == "simulated" else FlakyCluster(sim.world)
