"""What `KubernetesCluster.scale_to_zero` reads, what it changes, and what it refuses to touch."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.core.model.pods import Pod
from receiver.ports import IDLE_SHUTDOWN_ANNOTATION, KEEP_UNTIL_ANNOTATION, PROTECT_ANNOTATION, Did, TryLater, WontWork
from tests.adapters.kubernetes.kubernetes_objects import a_cluster_at, a_pod, denied
from tests.adapters.wire import requests_sent

POD = "/api/v1/namespaces/ml/pods/web-0"
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/ml/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/ml/statefulsets",
    "ReplicaSet": "/apis/apps/v1/namespaces/ml/replicasets",
    "Job": "/apis/batch/v1/namespaces/ml/jobs",
}
CONSENT = {IDLE_SHUTDOWN_ANNOTATION: "2h"}
STATUS = {"kind": "Status", "message": "no"}


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    adapter = a_cluster_at(httpserver.url_for(""))
    yield adapter
    adapter.close()


def by(kind: str, name: str, api: str | None = None) -> list[dict[str, Any]]:
    """ownerReferences with one controller."""
    api = api or ("batch/v1" if kind in ("Job", "CronJob") else "apps/v1")
    return [{"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-of-{name}", "controller": True}]


def serve_pod(httpserver: HTTPServer, owner: list[dict[str, Any]], **changes: Any) -> Pod:
    """Serve a running pod of *owner* that consented, and return it as the look saw it."""
    raw = a_pod("web-0", node="gpu-1", **{"annotations": CONSENT, "ownerReferences": owner, **changes})
    httpserver.expect_request(POD, method="GET").respond_with_json(raw)
    pod = SeenPod(raw).pod
    assert pod is not None
    return pod


def serve(httpserver: HTTPServer, kind: str, name: str, spec: dict[str, Any], **changes: Any) -> None:
    """Serve an owner; *changes* go to its metadata, but for *status*."""
    status = changes.pop("status", {})
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-of-{name}", "resourceVersion": "41", **changes}
    body = {"metadata": metadata, "spec": spec, "status": status}
    path = f"{PATHS[kind]}/{name}"
    httpserver.expect_request(path, method="GET").respond_with_json(body)
    httpserver.expect_request(path if kind == "Job" else f"{path}/scale", method="PATCH").respond_with_json({})


def patches(httpserver: HTTPServer) -> list[tuple[str, Any]]:
    return [(r.path, r.get_json(force=True)) for r in requests_sent(httpserver, "PATCH")]


def test_the_deployment_of_a_pod_is_scaled_not_its_replica_set(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    pod = serve_pod(httpserver, by("ReplicaSet", "web-5d9c"))
    serve(httpserver, "ReplicaSet", "web-5d9c", {"replicas": 2}, ownerReferences=by("Deployment", "web"))
    serve(httpserver, "Deployment", "web", {"replicas": 2})
    receipt = cluster.scale_to_zero(pod)
    assert (receipt.did, receipt.sentence) == (Did.DONE, "scaled Deployment ml/web from 2 to 0 replicas")
    body = {"metadata": {"resourceVersion": "41"}, "spec": {"replicas": 0}}
    assert patches(httpserver) == [(f"{PATHS['Deployment']}/web/scale", body)]


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_an_owner_that_nothing_controls_is_scaled_itself(
    httpserver: HTTPServer, cluster: KubernetesCluster, kind: str
) -> None:
    pod = serve_pod(httpserver, by(kind, "web"))
    serve(httpserver, kind, "web", {})
    assert cluster.scale_to_zero(pod).sentence == f"scaled {kind} ml/web from 1 to 0 replicas"
    assert [path for path, _ in patches(httpserver)] == [f"{PATHS[kind]}/web/scale"]


@pytest.mark.parametrize("above", [None, by("CronJob", "nightly")], ids=["alone", "of a CronJob"])
def test_a_job_is_suspended_and_its_cron_job_is_not_touched(
    httpserver: HTTPServer, cluster: KubernetesCluster, above: list[dict[str, Any]] | None
) -> None:
    pod = serve_pod(httpserver, by("Job", "train"))
    serve(httpserver, "Job", "train", {"suspend": False}, ownerReferences=above)
    assert cluster.scale_to_zero(pod).did is Did.DONE
    body = {"metadata": {"resourceVersion": "41"}, "spec": {"suspend": True}}
    assert patches(httpserver) == [(f"{PATHS['Job']}/train", body)]


@pytest.mark.parametrize(
    "kind, spec, status",
    [
        ("Deployment", {"replicas": 0}, {}),
        ("Job", {"suspend": True}, {}),
        ("Job", {}, {"conditions": [{"type": "Complete", "status": "True"}]}),
        ("Job", {}, {"conditions": [{"type": "Failed", "status": "True"}]}),
    ],
    ids=["at zero", "suspended", "complete", "failed"],
)
def test_what_is_at_zero_is_left_as_it_is(
    httpserver: HTTPServer, cluster: KubernetesCluster, kind: str, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    pod = serve_pod(httpserver, by(kind, "web"))
    serve(httpserver, kind, "web", spec, status=status)
    assert cluster.scale_to_zero(pod).did is Did.ALREADY
    assert patches(httpserver) == []


@pytest.mark.parametrize(
    "owner",
    [
        by("PyTorchJob", "train", "kubeflow.org/v1"),
        by("DaemonSet", "agent"),
        by("StatefulSet", "web", "apps.kruise.io/v1beta1"),
    ],
    ids=["another kind", "a DaemonSet", "a namesake of another API group"],
)
def test_a_kind_that_we_cannot_scale_is_refused_with_the_kinds_that_we_can(
    httpserver: HTTPServer, cluster: KubernetesCluster, owner: list[dict[str, Any]]
) -> None:
    with pytest.raises(WontWork, match="Deployments, StatefulSets, ReplicaSets and Jobs") as caught:
        cluster.scale_to_zero(serve_pod(httpserver, owner))
    assert caught.value.code == "not_scalable"
    assert patches(httpserver) == []


def test_a_pod_that_nothing_controls_is_refused(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    with pytest.raises(WontWork, match="nothing controls pod ml/web-0"):
        cluster.scale_to_zero(serve_pod(httpserver, []))


@pytest.mark.parametrize(
    "kind, above",
    [
        ("StatefulSet", by("Notebook", "web", "kubeflow.org/v1")),
        ("ReplicaSet", by("Rollout", "web", "argoproj.io/v1alpha1")),
        ("Job", by("JobSet", "web", "jobset.x-k8s.io/v1alpha2")),
    ],
)
def test_what_another_controller_would_start_again_is_refused(
    httpserver: HTTPServer, cluster: KubernetesCluster, kind: str, above: list[dict[str, Any]]
) -> None:
    pod = serve_pod(httpserver, by(kind, "web"))
    serve(httpserver, kind, "web", {"replicas": 1}, ownerReferences=above)
    with pytest.raises(WontWork, match=f"{kind} ml/web belongs to {above[0]['kind']} web, which would start it again"):
        cluster.scale_to_zero(pod)
    assert patches(httpserver) == []


def test_owners_that_own_each_other_are_not_followed_for_ever(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    pod = serve_pod(httpserver, by("ReplicaSet", "a"))
    serve(httpserver, "ReplicaSet", "a", {"replicas": 1}, ownerReferences=by("Deployment", "b"))
    serve(httpserver, "Deployment", "b", {"replicas": 1}, ownerReferences=by("ReplicaSet", "a"))
    with pytest.raises(WontWork, match="owned in circles"):
        cluster.scale_to_zero(pod)
    assert len(httpserver.log) < 10
    assert patches(httpserver) == []


def test_a_job_of_a_kueue_queue_is_refused(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    pod = serve_pod(httpserver, by("Job", "train"))
    serve(httpserver, "Job", "train", {}, labels={"kueue.x-k8s.io/queue-name": "team-a"})
    with pytest.raises(WontWork, match="Kueue, which would resume it"):
        cluster.scale_to_zero(pod)


def test_a_stateful_set_that_would_delete_its_volumes_is_refused(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    pod = serve_pod(httpserver, by("StatefulSet", "web"))
    keeps = {"replicas": 1, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}
    serve(httpserver, "StatefulSet", "web", keeps)
    with pytest.raises(WontWork, match="would delete its volumes"):
        cluster.scale_to_zero(pod)
    assert patches(httpserver) == []


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {IDLE_SHUTDOWN_ANNOTATION: "3h"},
        {**CONSENT, KEEP_UNTIL_ANNOTATION: "2026-11-21T12:00:00Z"},
        {**CONSENT, PROTECT_ANNOTATION: "true"},
    ],
    ids=["no consent any more", "a longer window", "snoozed", "protected"],
)
def test_a_pod_whose_annotations_changed_since_the_look_keeps_its_owner(
    httpserver: HTTPServer, cluster: KubernetesCluster, annotations: dict[str, str]
) -> None:
    seen = SeenPod(a_pod("web-0", node="gpu-1", annotations=CONSENT)).pod
    assert seen is not None
    serve_pod(httpserver, by("Deployment", "web"), annotations=annotations)
    assert cluster.scale_to_zero(seen).did is Did.DIFFERS


def test_nothing_is_scaled_for_a_pod_that_never_consented(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    pod = serve_pod(httpserver, by("Deployment", "web"), annotations={})
    assert cluster.scale_to_zero(pod).did is Did.DIFFERS


@pytest.mark.parametrize("change", ["gone", "another uid", "going"])
def test_a_pod_that_is_gone_or_going_changes_nothing(
    httpserver: HTTPServer, cluster: KubernetesCluster, change: str
) -> None:
    raw = a_pod("web-0", node="gpu-1", annotations=CONSENT, ownerReferences=by("Deployment", "web"))
    seen = SeenPod(raw).pod
    assert seen is not None
    if change == "another uid":
        raw["metadata"]["uid"] = "another"
    if change == "going":
        raw["metadata"]["deletionTimestamp"] = "2026-11-20T11:00:00Z"
    status = 404 if change == "gone" else 200
    httpserver.expect_request(POD).respond_with_json(STATUS if change == "gone" else raw, status=status)
    assert cluster.scale_to_zero(seen).did is Did.DIFFERS


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "a namesake"])
def test_an_owner_that_is_not_the_one_of_the_pod_is_left_alone(
    httpserver: HTTPServer, cluster: KubernetesCluster, gone: bool
) -> None:
    pod = serve_pod(httpserver, by("Deployment", "web"))
    if gone:
        httpserver.expect_request(f"{PATHS['Deployment']}/web").respond_with_json(STATUS, status=404)
    else:
        serve(httpserver, "Deployment", "web", {"replicas": 1}, uid="another")
    assert cluster.scale_to_zero(pod).did is Did.DIFFERS
    assert patches(httpserver) == []


def test_an_owner_that_changed_meanwhile_is_left_to_a_later_step(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    pod = serve_pod(httpserver, by("Deployment", "web"))
    path = f"{PATHS['Deployment']}/web"
    metadata = {"name": "web", "namespace": "ml", "uid": "uid-of-web", "resourceVersion": "41"}
    httpserver.expect_request(path).respond_with_json({"metadata": metadata, "spec": {"replicas": 1}})
    httpserver.expect_request(f"{path}/scale", method="PATCH").respond_with_json(STATUS, status=409)
    with pytest.raises(TryLater) as caught:
        cluster.scale_to_zero(pod)
    assert caught.value.code == "conflict"


def test_a_missing_right_names_the_verb_and_the_resource(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    pod = serve_pod(httpserver, by("Deployment", "web"))
    path = f"{PATHS['Deployment']}/web"
    metadata = {"name": "web", "namespace": "ml", "uid": "uid-of-web"}
    httpserver.expect_request(path).respond_with_json({"metadata": metadata, "spec": {"replicas": 1}})
    refused = denied("patch", "deployments/scale")
    httpserver.expect_request(f"{path}/scale", method="PATCH").respond_with_json(refused, status=403)
    with pytest.raises(WontWork, match='the verb "patch" on "deployments/scale"'):
        cluster.scale_to_zero(pod)
