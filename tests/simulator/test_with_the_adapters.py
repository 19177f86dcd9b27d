"""The product's own adapters against the simulator: what one writes, the other shows."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import KubernetesCluster, connect
from receiver.core.model.pods import allocatable
from receiver.ports import Did
from simulator.manifests import pod_spec
from simulator.server import Simulator
from tests.simulator.builders import CLUSTER, KEY

Starter = Callable[..., Simulator]


@pytest.fixture
def cloud(sim: Simulator) -> Iterator[CivoCloud]:
    """Civo's adapter."""
    adapter = CivoCloud(sim.url, KEY, "LON1", CLUSTER, calls=Calls(timeouts=(60, 60)))
    yield adapter
    adapter.close()


@pytest.fixture
def cluster(sim: Simulator, tmp_path: Path) -> Iterator[KubernetesCluster]:
    """Kubernetes' adapter."""
    adapter = connect(str(sim.kubeconfig(tmp_path / "kubeconfig")), calls=Calls(timeouts=(60, 60)))
    yield adapter
    adapter.close()


def submit(sim: Simulator, name: str, gpus: int = 1) -> None:
    fields = {"id": name, "duration": "10m", "gpus_per_pod": gpus, "tolerations": [{"operator": "Exists"}]}
    sim.live.submit([fields])
    sim.live.turn(timedelta(seconds=20))


def test_what_civo_says_of_a_size_is_about_what_its_nodes_offer(
    sim: Simulator, cloud: CivoCloud, cluster: KubernetesCluster
) -> None:
    machine = cloud.machines()["an.g1.l40s.kube.x1"]
    (node,) = cluster.look().nodes
    assert node.compute == allocatable(machine)


def test_requests_of_cpu_and_memory_are_shown_and_keep_pods_off_a_node(
    sim: Simulator, cluster: KubernetesCluster
) -> None:
    for name, cpu in (("fits", "11500m"), ("waits", "500m")):
        resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
        spec = {"containers": [{"name": "a", "resources": resources}], "tolerations": [{"operator": "Exists"}]}
        with sim.moved() as world:
            world.add_pod(pod_spec({"metadata": {"name": name, "namespace": "ml"}, "spec": spec}))
        sim.live.turn(timedelta(seconds=20))
    (node,) = cluster.look().nodes
    assert {r: node.others[r] for r in ("cpu", "memory")} == {"cpu": 11_500, "memory": 2**30}
    with sim.moved() as world:
        assert world.pods["ml", "waits"].message == "0/1 nodes are available: 1 Insufficient cpu."


def test_cordon_drain_and_uncordon(sim: Simulator, cluster: KubernetesCluster) -> None:
    (node,) = cluster.look().nodes
    assert cluster.cordon(node.name, "action-1").did is Did.DONE
    assert cluster.drain(node.name).did is Did.DONE
    assert cluster.uncordon(node.name).did is Did.DONE
    writes = [(e["method"], e["status"]) for e in sim.log.entries() if e["face"] == "kubernetes"]
    assert writes == [("PATCH", 200), ("PATCH", 200)]
