"""Owners of pods on the Kubernetes face: as the official client and the product's own adapter see them."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import KubernetesCluster, connect
from receiver.core.model.pods import Pod
from receiver.ports import IDLE_SHUTDOWN_ANNOTATION, Did, WontWork
from simulator.server import Simulator
from tests.simulator.builders import a_pod_manifest, k8s

ApiFor = Callable[[Simulator], Any]
TO_ZERO = {"spec": {"replicas": 0}}


@pytest.fixture
def cluster(sim: Simulator, tmp_path: Path) -> Iterator[KubernetesCluster]:
    """Kubernetes' adapter."""
    adapter = connect(str(sim.kubeconfig(tmp_path / "kubeconfig")), calls=Calls(timeouts=(60, 60)))
    yield adapter
    adapter.close()


@pytest.fixture
def apps(sim: Simulator, api_for: ApiFor) -> Any:
    """The official client of Deployments and the like."""
    return k8s.AppsV1Api(api_for(sim))


def run_pod(sim: Simulator, core: Any, kind: str, owner: str, labels: dict[str, str] | None = None) -> None:
    """Let a consenting GPU pod of *owner* run."""
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "any", "controller": True}
    metadata = {
        "labels": labels or {},
        "annotations": {IDLE_SHUTDOWN_ANNOTATION: "2h"},
        "ownerReferences": [reference],
    }
    core.create_namespaced_pod("ml", a_pod_manifest(f"{owner}-0", metadata=metadata))
    sim.live.turn(timedelta(seconds=20))


def run_web(sim: Simulator, core: Any) -> None:
    """Let the one pod of the Deployment web run."""
    run_pod(sim, core, "ReplicaSet", "web-5d9c", {"pod-template-hash": "5d9c"})


def the_pod(cluster: KubernetesCluster) -> Pod:
    """The one GPU pod that the adapter sees."""
    (pod,) = cluster.look().pods
    return pod


def living(sim: Simulator) -> list[str]:
    """The pods of namespace ml after everything that was asked to go has gone."""
    sim.live.turn(timedelta(seconds=30))
    return [name for namespace, name in sim.world.active_pods if namespace == "ml"]


# --- the adapter over HTTP


def test_a_deployment_is_scaled_to_zero_through_its_replica_set(
    sim: Simulator, core: Any, cluster: KubernetesCluster
) -> None:
    run_web(sim, core)
    receipt = cluster.scale_to_zero(the_pod(cluster))
    assert (receipt.did, receipt.sentence) == (Did.DONE, "scaled Deployment ml/web from 1 to 0 replicas")
    assert living(sim) == []


def test_a_stateful_set_is_scaled_to_zero(sim: Simulator, core: Any, cluster: KubernetesCluster) -> None:
    run_pod(sim, core, "StatefulSet", "db")
    assert cluster.scale_to_zero(the_pod(cluster)).did is Did.DONE
    assert living(sim) == []


def test_a_job_is_suspended(sim: Simulator, cluster: KubernetesCluster, api_for: ApiFor) -> None:
    fields = {
        "id": "train",
        "namespace": "ml",
        "duration": "10h",
        "annotations": {IDLE_SHUTDOWN_ANNOTATION: "2h"},
        "tolerations": [{"operator": "Exists"}],
    }
    sim.live.submit([fields])
    sim.live.turn(timedelta(seconds=20))
    assert cluster.scale_to_zero(the_pod(cluster)).sentence == "suspended Job ml/train"
    assert living(sim) == []
    assert k8s.BatchV1Api(api_for(sim)).read_namespaced_job("train", "ml").spec.suspend is True


def test_a_pod_that_does_not_consent_keeps_its_owner(sim: Simulator, core: Any, cluster: KubernetesCluster) -> None:
    run_pod(sim, core, "ReplicaSet", "alone")
    core.patch_namespaced_pod("alone-0", "ml", {"metadata": {"annotations": {IDLE_SHUTDOWN_ANNOTATION: None}}})
    assert cluster.scale_to_zero(the_pod(cluster)).did is Did.DIFFERS
    assert living(sim) == ["alone-0"]


def test_a_right_that_is_denied_is_named(sim: Simulator, core: Any, cluster: KubernetesCluster) -> None:
    run_web(sim, core)
    pod = the_pod(cluster)
    sim.live.denied.add("patch deployments/scale")
    with pytest.raises(WontWork, match='the verb "patch" on "deployments/scale"'):
        cluster.scale_to_zero(pod)
    assert living(sim) == ["web-5d9c-0"]


# --- the face


def test_a_deployment_and_its_replica_set_are_known_by_their_pods(sim: Simulator, core: Any, apps: Any) -> None:
    run_web(sim, core)
    replica_set = apps.read_namespaced_replica_set("web-5d9c", "ml")
    pod = core.read_namespaced_pod("web-5d9c-0", "ml")
    assert pod.metadata.owner_references[0].uid == replica_set.metadata.uid
    deployment = apps.read_namespaced_deployment("web", "ml")
    assert replica_set.metadata.owner_references[0].uid == deployment.metadata.uid
    assert (replica_set.spec.replicas, deployment.spec.replicas) == (1, 1)


def test_a_replica_set_without_the_label_has_no_deployment(sim: Simulator, core: Any, apps: Any) -> None:
    run_pod(sim, core, "ReplicaSet", "alone")
    assert apps.read_namespaced_replica_set("alone", "ml").metadata.owner_references is None


@pytest.mark.parametrize("kind", ["deployment", "replica_set", "stateful_set"])
def test_an_owner_that_nobody_knows_is_not_found(apps: Any, kind: str) -> None:
    with pytest.raises(ApiException) as caught:
        getattr(apps, f"read_namespaced_{kind}")("nobody", "ml")
    assert caught.value.status == 404


def test_an_owner_at_zero_stays_known(sim: Simulator, core: Any, apps: Any) -> None:
    run_web(sim, core)
    assert apps.patch_namespaced_deployment_scale("web", "ml", TO_ZERO).status.replicas == 0
    assert living(sim) == []
    assert apps.read_namespaced_deployment("web", "ml").spec.replicas == 0


def test_scaling_up_is_refused(sim: Simulator, core: Any, apps: Any) -> None:
    run_web(sim, core)
    with pytest.raises(ApiException) as caught:
        apps.patch_namespaced_deployment_scale("web", "ml", {"spec": {"replicas": 3}})
    assert caught.value.status == 422


def test_a_patch_of_another_version_is_a_conflict(sim: Simulator, core: Any, apps: Any) -> None:
    run_web(sim, core)
    with pytest.raises(ApiException) as caught:
        apps.patch_namespaced_deployment_scale("web", "ml", {**TO_ZERO, "metadata": {"resourceVersion": "1"}})
    assert caught.value.status == 409
    assert living(sim) == ["web-5d9c-0"]


def test_a_dry_run_changes_nothing(sim: Simulator, core: Any, apps: Any) -> None:
    run_web(sim, core)
    apps.patch_namespaced_deployment_scale("web", "ml", TO_ZERO, dry_run="All")
    assert living(sim) == ["web-5d9c-0"]
