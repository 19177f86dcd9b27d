"""The product's own adapters against the simulator: what one writes, the other shows."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.kubernetes.cluster import KubernetesCluster, connect
from receiver.core.model.pods import PodPhase, allocatable
from receiver.ports import Did, TryLater, WontWork
from simulator.manifests import pod_spec
from simulator.server import Simulator
from tests.simulator.builders import CLUSTER, CPU_POOL, GPU_POOL, KEY

Starter = Callable[..., Simulator]


@pytest.fixture
def cloud(sim: Simulator) -> Iterator[CivoCloud]:
    """Civo's adapter."""
    adapter = CivoCloud(sim.url, KEY, "LON1", CLUSTER, timeouts=(60, 60))
    yield adapter
    adapter.close()


@pytest.fixture
def cluster(sim: Simulator, tmp_path: Path) -> Iterator[KubernetesCluster]:
    """Kubernetes' adapter."""
    adapter = connect(str(sim.kubeconfig(tmp_path / "kubeconfig")), timeouts=(60, 60))
    yield adapter
    adapter.close()


def submit(sim: Simulator, name: str, gpus: int = 1) -> None:
    fields = {"id": name, "duration": "10m", "gpus_per_pod": gpus, "tolerations": [{"operator": "Exists"}]}
    sim.live.submit([fields])
    sim.live.turn(timedelta(seconds=20))


def test_growing_and_retiring_a_pool(sim: Simulator, cloud: CivoCloud) -> None:
    assert {p.id: p.required for p in cloud.look().values()} == {GPU_POOL: 1, CPU_POOL: 0}
    assert cloud.resize(GPU_POOL, decided_on=1, target=2).did is Did.DONE
    assert [i.status for i in cloud.look()[GPU_POOL].instances] == ["ACTIVE", "BUILDING"]
    first = cloud.look()[GPU_POOL].instances[0]
    assert cloud.retire(GPU_POOL, first.id).did is Did.DONE
    sim.live.turn(timedelta(seconds=30))
    assert cloud.retire(GPU_POOL, first.id).did is Did.ALREADY
    assert cloud.look()[GPU_POOL].required == 1


def test_no_stock_is_final_and_a_broken_answer_is_not(sim: Simulator, cloud: CivoCloud) -> None:
    sim.fault(kind="stock", size="an.g1.l40s.kube.x1", units=0)
    with pytest.raises(WontWork) as refused:
        cloud.resize(GPU_POOL, decided_on=1, target=2)
    assert refused.value.code == "gpu_count_exceeded"
    sim.fault(kind="not_json", status=200)
    with pytest.raises(TryLater):
        cloud.look()


def test_of_three_nodes_the_one_that_is_in_stock_can_be_bought(sim: Simulator, cloud: CivoCloud) -> None:
    sim.fault(kind="stock", size="an.g1.l40s.kube.x1", units=1)
    for target in (4, 3):
        with pytest.raises(WontWork, match="not enough GPUs"):
            cloud.resize(GPU_POOL, decided_on=1, target=target)
    assert cloud.resize(GPU_POOL, decided_on=1, target=2).did is Did.DONE
    assert cloud.look()[GPU_POOL].required == 2


def test_waiting_and_running_pods_are_told_apart(sim: Simulator, cluster: KubernetesCluster) -> None:
    submit(sim, "runs")
    submit(sim, "waits", gpus=4)
    facts = cluster.look()
    assert {p.name: p.phase for p in facts.pods} == {"runs-0": PodPhase.RUNNING, "waits-0": PodPhase.WAITING}
    (node,) = facts.nodes
    assert (node.ready, dict(node.allocatable), node.instance != "") == (True, {"nvidia.com/gpu": 1}, True)
    assert [p.name for p in cluster.gpu_pods_on(node.name)] == ["runs-0"]


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


def test_an_event_is_left_on_the_pod(sim: Simulator, cluster: KubernetesCluster) -> None:
    submit(sim, "waits", gpus=4)
    (pod,) = cluster.look().pods
    cluster.record_event(pod, reason="TriggeredScaleUp", message="usable in about 4 minutes")
    assert [(e.name, e.reason, e.uid) for e in sim.world.events] == [("waits-0", "TriggeredScaleUp", pod.uid)]
