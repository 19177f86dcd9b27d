"""The means of a budget hold at the simulated Kubernetes API, by the product's own adapter and by the plain client."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import KubernetesCluster, connect
from receiver.ports import QUOTA_LABEL, QUOTA_NAME, Did, HeldPlaces, TryLater
from simulator.server import Simulator
from tests.simulator.builders import a_pod_manifest

GPU = "nvidia.com/gpu"
QUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "gpus"}, "spec": {}}
THEIRS: dict[str, Any] = {"metadata": {"name": "theirs"}, "spec": {"hard": {f"requests.{GPU}": "1"}}}


@pytest.fixture
def cluster(sim: Simulator, tmp_path: Path) -> Iterator[KubernetesCluster]:
    """The product's adapter on the simulator."""
    adapter = connect(str(sim.kubeconfig(tmp_path / "kubeconfig")), calls=Calls(timeouts=(60, 60)))
    yield adapter
    adapter.close()


def test_our_quota_comes_and_goes_and_the_users_own_stays(core: Any, cluster: KubernetesCluster) -> None:
    core.create_namespaced_resource_quota("ml", THEIRS)
    assert cluster.hold_namespace("ml", [GPU], ["production"]).did is Did.DONE
    assert cluster.hold_namespace("ml", [GPU], ["production"]).did is Did.ALREADY
    assert cluster.held_places(queues=False) == HeldPlaces(namespaces=("ml",))
    assert {q.metadata.name for q in core.list_namespaced_resource_quota("ml").items} == {"theirs", QUOTA_NAME}
    assert cluster.release_namespace("ml").did is Did.DONE
    assert cluster.release_namespace("ml").did is Did.ALREADY
    assert [q.metadata.name for q in core.list_resource_quota_for_all_namespaces().items] == ["theirs"]


def test_a_pod_is_refused_by_the_quota_unless_its_class_passes_or_it_asks_for_no_gpu(
    core: Any, cluster: KubernetesCluster
) -> None:
    cluster.hold_namespace("ml", [GPU], ["production"])
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod("ml", a_pod_manifest("plain"))
    assert (refused.value.status, f"exceeded quota: {QUOTA_NAME}" in str(refused.value.body)) == (403, True)
    core.create_namespaced_pod("ml", a_pod_manifest("urgent", priorityClassName="production"))
    core.create_namespaced_pod("ml", a_pod_manifest("cpu", gpus=0))
    core.create_namespaced_pod("web", a_pod_manifest("elsewhere"))


def test_a_quota_counts_what_is_there_already(core: Any) -> None:
    core.create_namespaced_resource_quota("ml", THEIRS)
    core.create_namespaced_pod("ml", a_pod_manifest("first"))
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod("ml", a_pod_manifest("second"))
    assert f"requested: requests.{GPU}=1, used: requests.{GPU}=1" in str(refused.value.body)


def test_a_quota_that_changed_meanwhile_or_is_gone_is_not_changed(core: Any) -> None:
    calls: list[tuple[Callable[[], Any], int]]
    made = core.create_namespaced_resource_quota("ml", THEIRS)
    core.patch_namespaced_resource_quota("theirs", "ml", {"metadata": {"labels": {QUOTA_LABEL: "true"}}})
    old = {"metadata": {"resourceVersion": made.metadata.resource_version}, "spec": {"hard": {}}}
    calls = [
        (lambda: core.patch_namespaced_resource_quota("theirs", "ml", old), 409),
        (lambda: core.delete_namespaced_resource_quota("theirs", "ml", body={"preconditions": {"uid": "other"}}), 409),
        (lambda: core.create_namespaced_resource_quota("ml", THEIRS), 409),
        (lambda: core.read_namespaced_resource_quota("none", "ml"), 404),
        (lambda: core.delete_namespaced_resource_quota("none", "ml"), 404),
    ]
    for call, status in calls:
        with pytest.raises(ApiException) as refused:
            call()
        assert refused.value.status == status


def test_a_cluster_queue_is_put_on_hold_and_back(sim: Simulator, cluster: KubernetesCluster) -> None:
    with sim.moved() as world:
        sim.live.custom.put([QUEUE], world.now)
    assert cluster.hold_queue("gpus").did is Did.DONE
    (queue,) = sim.live.custom.objects("kueue.x-k8s.io", "clusterqueues")
    assert queue["spec"]["stopPolicy"] == "Hold"
    assert cluster.held_places(queues=True) == HeldPlaces(cluster_queues=("gpus",))
    assert cluster.release_queue("gpus").did is Did.DONE
    (queue,) = sim.live.custom.objects("kueue.x-k8s.io", "clusterqueues")
    assert (queue["spec"], queue["metadata"].get("annotations") or {}) == ({}, {})
    assert cluster.hold_queue("none").did is Did.DIFFERS


def test_without_the_right_to_it_no_quota_is_made(sim: Simulator, cluster: KubernetesCluster) -> None:
    sim.live.denied.add("create resourcequotas")
    with pytest.raises(Exception, match='grant the verb "create" on "resourcequotas"') as refused:
        cluster.hold_namespace("ml", [GPU], [])
    assert not isinstance(refused.value, TryLater)
