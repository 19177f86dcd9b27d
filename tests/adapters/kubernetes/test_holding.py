"""What keeps new work out of a real cluster: which objects are written, and which are never touched."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.ports import QUOTA_LABEL, QUOTA_NAME, STOP_POLICY_ANNOTATION, Did, HeldPlaces, TryLater, WontWork
from tests.adapters.kubernetes.kubernetes_objects import a_cluster_at, a_list, denied
from tests.adapters.wire import requests_sent

QUOTAS = "/api/v1/namespaces/ml/resourcequotas"
QUOTA = f"{QUOTAS}/{QUOTA_NAME}"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
STATUS = {"kind": "Status", "message": "no"}
GPU = "nvidia.com/gpu"
HARD = {"requests.nvidia.com/gpu": "0", "requests.nvidia.com/mig-1g.10gb": "0"}
BOTH = ["nvidia.com/mig-1g.10gb", GPU]
SCOPE = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["a", "b"]}]}


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    adapter = a_cluster_at(httpserver.url_for(""))
    yield adapter
    adapter.close()


def a_quota(*, ours: bool = True, **spec: Any) -> dict[str, Any]:
    """A quota as the API server answers it."""
    labels = {QUOTA_LABEL: "true"} if ours else {"team": "ops"}
    metadata = {"name": QUOTA_NAME, "namespace": "ml", "uid": "q1", "labels": labels}
    return {"metadata": metadata, "spec": spec or {"hard": HARD, "scopeSelector": SCOPE}, "status": {"hard": HARD}}


def a_queue(stop: str | None = None, before: str | None = None, **annotations: str) -> dict[str, Any]:
    """A ClusterQueue; *before* is what we noted on it."""
    noted = annotations if before is None else {**annotations, STOP_POLICY_ANNOTATION: before}
    metadata = {"name": "gpus", "resourceVersion": "41", **({"annotations": noted} if noted else {})}
    return {"metadata": metadata, "spec": {"cohort": "x", **({"stopPolicy": stop} if stop else {})}}


def serve_quota(httpserver: HTTPServer, found: dict[str, Any] | None) -> None:
    if found is None:
        httpserver.expect_request(QUOTA, method="GET").respond_with_json(STATUS, status=404)
    else:
        httpserver.expect_request(QUOTA, method="GET").respond_with_json(found)
    httpserver.expect_request(QUOTAS, method="POST").respond_with_json({}, status=201)
    httpserver.expect_request(QUOTA, method="DELETE").respond_with_json({})


def serve_queue(httpserver: HTTPServer, *found: dict[str, Any], status: int = 200) -> None:
    httpserver.expect_request(QUEUES, method="GET").respond_with_json(a_list(*found))
    httpserver.expect_request(f"{QUEUES}/gpus", method="PATCH").respond_with_json(STATUS, status=status)


def written(httpserver: HTTPServer) -> list[tuple[str, str, Any]]:
    return [
        (r.method, r.path, r.get_json(force=True, silent=True))
        for verb in ("DELETE", "POST", "PATCH")
        for r in requests_sent(httpserver, verb)
    ]


def test_a_quota_of_our_own_refuses_every_gpu_but_to_passing_classes(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_quota(httpserver, None)
    assert cluster.hold_namespace("ml", BOTH, ["b", "a"]).did is Did.DONE
    [(verb, path, body)] = written(httpserver)
    assert (verb, path) == ("POST", QUOTAS)
    assert body["metadata"] == {"name": QUOTA_NAME, "namespace": "ml", "labels": {QUOTA_LABEL: "true"}}
    assert body["spec"] == {"hard": HARD, "scopeSelector": SCOPE}


def test_without_passing_classes_the_quota_covers_every_pod(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_quota(httpserver, None)
    cluster.hold_namespace("ml", [GPU], [])
    assert written(httpserver)[0][2]["spec"] == {"hard": {"requests.nvidia.com/gpu": "0"}}


def test_a_quota_that_is_as_it_should_be_is_left(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_quota(httpserver, a_quota())
    assert cluster.hold_namespace("ml", BOTH, ["a", "b"]).did is Did.ALREADY
    assert written(httpserver) == []


def test_a_quota_of_ours_that_says_otherwise_is_replaced(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_quota(httpserver, a_quota(hard={"requests.nvidia.com/gpu": "5"}))
    assert cluster.hold_namespace("ml", BOTH, ["a", "b"]).did is Did.DONE
    assert [verb for verb, _, _ in written(httpserver)] == ["DELETE", "POST"]


def test_a_namesake_that_is_not_ours_is_neither_changed_nor_deleted(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_quota(httpserver, a_quota(ours=False))
    assert cluster.hold_namespace("ml", BOTH, []).did is Did.DIFFERS
    assert cluster.release_namespace("ml").did is Did.DIFFERS
    assert written(httpserver) == []


def test_only_the_very_quota_that_was_read_is_deleted(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_quota(httpserver, a_quota())
    assert cluster.release_namespace("ml").did is Did.DONE
    assert written(httpserver) == [("DELETE", QUOTA, {"preconditions": {"uid": "q1"}})]


def test_a_quota_that_is_gone_already_is_no_failure(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_quota(httpserver, None)
    assert cluster.release_namespace("ml").did is Did.ALREADY


def test_a_right_that_is_missing_is_named(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request(QUOTA, method="GET").respond_with_json(STATUS, status=404)
    refused = denied("create", "resourcequotas")
    httpserver.expect_request(QUOTAS, method="POST").respond_with_json(refused, status=403)
    with pytest.raises(WontWork, match='grant the verb "create" on "resourcequotas"'):
        cluster.hold_namespace("ml", BOTH, [])


@pytest.mark.parametrize(
    ("found", "before"), [(a_queue(), ""), (a_queue("None", owner="ops"), "None")], ids=["not set", "None"]
)
def test_a_queue_is_held_and_what_it_was_is_noted_in_one_patch(
    httpserver: HTTPServer, cluster: KubernetesCluster, found: dict[str, Any], before: str
) -> None:
    serve_queue(httpserver, found)
    assert cluster.hold_queue("gpus").did is Did.DONE
    metadata = {"resourceVersion": "41", "annotations": {STOP_POLICY_ANNOTATION: before}}
    assert written(httpserver) == [("PATCH", f"{QUEUES}/gpus", {"metadata": metadata, "spec": {"stopPolicy": "Hold"}})]
    [request] = requests_sent(httpserver, "PATCH")
    assert request.content_type == "application/merge-patch+json"


@pytest.mark.parametrize(
    ("found", "spec"),
    [
        (a_queue("Hold", before=""), {"stopPolicy": None}),
        (a_queue("Hold", before="None"), {"stopPolicy": "None"}),
        (a_queue("HoldAndDrain", before=""), {}),
        (a_queue(before="None"), {}),
    ],
    ids=["not set before", "None before", "drained meanwhile", "freed meanwhile"],
)
def test_a_queue_gets_back_what_it_had_unless_somebody_changed_it(
    httpserver: HTTPServer, cluster: KubernetesCluster, found: dict[str, Any], spec: dict[str, Any]
) -> None:
    serve_queue(httpserver, found)
    assert cluster.release_queue("gpus").did is Did.DONE
    metadata = {"resourceVersion": "41", "annotations": {STOP_POLICY_ANNOTATION: None}}
    assert written(httpserver)[0][2] == {"metadata": metadata, "spec": spec}


def test_a_queue_that_was_freed_while_we_hold_it_is_held_again_with_its_note_left(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_queue(httpserver, a_queue("None", before=""))
    assert cluster.hold_queue("gpus").did is Did.DONE
    assert written(httpserver)[0][2] == {"metadata": {"resourceVersion": "41"}, "spec": {"stopPolicy": "Hold"}}


@pytest.mark.parametrize(
    ("found", "did"),
    [
        ([a_queue("Hold")], Did.DIFFERS),
        ([a_queue("HoldAndDrain")], Did.DIFFERS),
        ([a_queue("Hold", before="")], Did.ALREADY),
        ([], Did.DIFFERS),
    ],
    ids=["on hold by somebody", "drained by somebody", "held by us", "no such queue"],
)
def test_a_queue_that_is_stopped_already_is_not_written_to(
    httpserver: HTTPServer, cluster: KubernetesCluster, found: list[dict[str, Any]], did: Did
) -> None:
    serve_queue(httpserver, *found)
    assert cluster.hold_queue("gpus").did is did
    assert written(httpserver) == []


def test_a_queue_that_we_do_not_hold_is_not_released(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_queue(httpserver, a_queue("Hold"))
    assert cluster.release_queue("gpus").did is Did.ALREADY
    assert written(httpserver) == []


def test_a_queue_that_changed_meanwhile_is_tried_again(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_queue(httpserver, a_queue(), status=409)
    with pytest.raises(TryLater) as caught:
        cluster.hold_queue("gpus")
    assert caught.value.code == "conflict"


def test_what_is_ours_is_found_by_label_and_annotation(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request("/api/v1/resourcequotas").respond_with_json(a_list(a_quota()))
    serve_queue(httpserver, a_queue("Hold", before=""))
    assert cluster.held_places(queues=True) == HeldPlaces(namespaces=("ml",), cluster_queues=("gpus",))
    [asked] = [r for r in requests_sent(httpserver, "GET") if r.path == "/api/v1/resourcequotas"]
    assert asked.args["labelSelector"] == QUOTA_LABEL


def test_a_cluster_without_kueue_has_no_queues(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request("/api/v1/resourcequotas").respond_with_json(a_list())
    for version in ("v1beta2", "v1beta1"):
        path = f"/apis/kueue.x-k8s.io/{version}/clusterqueues"
        httpserver.expect_request(path).respond_with_json(STATUS, status=404)
    assert cluster.held_places(queues=True) == HeldPlaces()
    assert cluster.held_places(queues=False) == HeldPlaces()
