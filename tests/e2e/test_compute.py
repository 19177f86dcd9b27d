"""CPU and memory count: no node is bought for a pod that it could not hold, and nodes are not packed beyond them."""

from collections.abc import Iterator
from typing import Any

import pytest

from simulator.manifests import pod_spec
from simulator.server import Simulator
from tests.e2e.clouds import QUICK, required
from tests.e2e.installing import Install
from tests.e2e.receivers import POOL, Receiver, a_pool
from tests.e2e.waiting import until

SIZE = "an.g1.l40s.kube.x8"
MACHINE = {"cpu_cores": 96, "ram_mb": 768 * 1024, "disk_gb": 1600}
GPU = "nvidia.com/gpu"


@pytest.fixture
def eights() -> Iterator[Simulator]:
    """A cloud with an empty pool of eight-GPU nodes of 96 cores."""
    pool = {"id": POOL, "size": SIZE, "resources": {GPU: 8}, **MACHINE}
    with Simulator({"pools": [pool], "timings": QUICK}) as simulator:
        yield simulator


def installed(cloud: Simulator, install: Install) -> Receiver:
    return install(cloud, tick="1s", fallback="kubernetes", pools=[a_pool(size=SIZE, resources={GPU: 8})]).serve()


def apply(cloud: Simulator, cpu: str, *names: str) -> None:
    """Create pods as kubectl would, so that no step sees some of them only."""
    requests: dict[str, Any] = {"cpu": cpu, "memory": "8Gi", GPU: "1"}
    with cloud.moved() as world:
        for name in names:
            manifest = {
                "metadata": {"name": name, "namespace": "ml", "annotations": {"simulator/duration-seconds": "600"}},
                "spec": {"containers": [{"name": "main", "image": "train:1", "resources": {"requests": requests}}]},
            }
            world.add_pod(pod_spec(manifest))


def explained(receiver: Receiver, name: str) -> dict[str, Any]:
    found = [p for p in receiver.get("/api/v1/waiting").json() if p["name"] == name]
    return found[0] if found else {}


def test_a_pod_of_300_cpus_buys_no_node_of_96(eights: Simulator, install: Install) -> None:
    receiver = installed(eights, install)
    apply(eights, "300", "huge")
    until(lambda: explained(receiver, "huge").get("state") == "fits_nowhere", "a pod that no pool can hold")
    (fit,) = explained(receiver, "huge")["fits"]
    assert fit["why_not"] == "it asks for 300 CPUs, a node offers 95.69 CPUs"
    assert required(eights) == 0


def test_eight_pods_of_23_cpus_get_two_nodes_of_96(eights: Simulator, install: Install) -> None:
    receiver = installed(eights, install)
    apply(eights, "23", *(f"train-{number}" for number in range(8)))
    until(lambda: required(eights) > 0, "nodes asked for")
    until(lambda: all(p["state"] == "on_its_way" for p in receiver.get("/api/v1/waiting").json()), "nodes for all")
    assert required(eights) == 2
