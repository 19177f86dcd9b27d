"""How `KubernetesCluster` drains a node whose GPU pods consented to be moved, and when it evicts nobody."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.core.model.pods import KeepRule
from receiver.ports import (
    CORDON_ANNOTATION,
    GANG_ANNOTATION,
    PROTECT_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    Did,
    TryLater,
)
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, a_cluster_at, a_list, a_node, a_pod, owned_by
from tests.adapters.wire import requests_sent

EVICTIONS = "/api/v1/namespaces/ml/pods/{}/eviction"
STATUS = {"kind": "Status", "message": "no"}
CONSENTS = {SAFE_TO_EVICT_ANNOTATION: "true"}
LEAVING = "2026-11-20T10:05:00Z"


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    adapter = a_cluster_at(httpserver.url_for(""))
    yield adapter
    adapter.close()


def serve_pods(httpserver: HTTPServer, *pods: dict[str, Any]) -> None:
    """Serve *pods* on a node that we cordoned, and let each be evicted."""
    node = a_node(annotations={CORDON_ANNOTATION: "action-7"}, unschedulable=True)
    httpserver.expect_request(f"{NODES}/gpu-1").respond_with_json(node)
    httpserver.expect_request(PODS).respond_with_json(a_list(*pods))
    for pod in pods:
        path = EVICTIONS.format(pod["metadata"]["name"])
        httpserver.expect_request(path, method="POST").respond_with_json(STATUS, status=201)


def evicted(httpserver: HTTPServer) -> list[str]:
    return [r.path.split("/")[-2] for r in requests_sent(httpserver, "POST") if "dryRun" not in r.args]


def movable(name: str, **changes: Any) -> dict[str, Any]:
    """A running GPU pod that consented."""
    given: dict[str, Any] = {"node": "gpu-1", "annotations": CONSENTS, "ownerReferences": owned_by("Job"), **changes}
    return a_pod(name, **given)


def web(name: str = "web", **changes: Any) -> dict[str, Any]:
    return a_pod(name, gpus=0, node="gpu-1", ownerReferences=owned_by("ReplicaSet"), **changes)


def test_pods_that_consented_are_evicted_with_those_without_a_gpu(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_pods(httpserver, movable("runs"), web(), movable("starts", phase="Pending"))
    with pytest.raises(TryLater, match="ml/runs, ml/starts, ml/web still leaving") as caught:
        cluster.drain("gpu-1", consenting=True)
    assert (caught.value.code, caught.value.delay) == ("draining", timedelta(seconds=5))
    assert evicted(httpserver) == ["runs", "web", "starts"]


def test_the_consent_of_a_gpu_pod_goes_before_the_rules_for_pods_without_one(httpserver: HTTPServer) -> None:
    cluster = a_cluster_at(httpserver.url_for(""), keep_nodes_for=(KeepRule.LOCAL_STORAGE,))
    serve_pods(httpserver, movable("runs", volumes=[{"emptyDir": {}}]))
    with pytest.raises(TryLater):
        cluster.drain("gpu-1", consenting=True)
    assert evicted(httpserver) == ["runs"]
    cluster.close()


def test_consent_moves_nobody_where_it_is_not_asked_for(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_pods(httpserver, movable("runs"), web())
    assert cluster.drain("gpu-1").did is Did.DIFFERS
    assert evicted(httpserver) == []


UNMOVABLE: dict[str, dict[str, Any]] = {
    "silent": {"annotations": {}},
    "refuses": {"annotations": {SAFE_TO_EVICT_ANNOTATION: "false"}},
    "another word": {"annotations": {SAFE_TO_EVICT_ANNOTATION: "yes"}},
    "a label": {"annotations": {}, "labels": CONSENTS},
    "protected": {"annotations": {**CONSENTS, PROTECT_ANNOTATION: "true"}},
    "gang": {"annotations": {**CONSENTS, GANG_ANNOTATION: "g"}},
    "gang of coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
    "gang of Kueue": {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}},
    "gang of Volcano": {"annotations": {**CONSENTS, "scheduling.k8s.io/group-name": "g"}},
    "nobody starts it again": {"ownerReferences": []},
    "an owner that is no controller": {"ownerReferences": owned_by("Job", controller=False)},
    "a DaemonSet's": {"ownerReferences": owned_by("DaemonSet")},
    "a mirror pod": {
        "annotations": {**CONSENTS, "kubernetes.io/config.mirror": "x"},
        "ownerReferences": owned_by("Node"),
    },
    "leaves, and was not asked": {"annotations": {}, "deletionTimestamp": LEAVING},
    "starts": {"annotations": {}, "phase": "Pending"},
}


@pytest.mark.parametrize("changes", UNMOVABLE.values(), ids=UNMOVABLE)
def test_one_gpu_pod_that_may_not_be_moved_keeps_all_of_them(
    httpserver: HTTPServer, cluster: KubernetesCluster, changes: dict[str, Any]
) -> None:
    serve_pods(httpserver, web(), movable("first"), movable("stays", **changes), movable("last"))
    receipt = cluster.drain("gpu-1", consenting=True)
    assert (receipt.did, receipt.sentence) == (Did.DIFFERS, "node gpu-1 stays: ml/stays holds a GPU")
    assert evicted(httpserver) == []


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"annotations": {PROTECT_ANNOTATION: "true"}}, "is protected"),
        ({"labels": {"app.kubernetes.io/name": "prometheus"}}, "belongs to"),
    ],
    ids=["protected", "monitoring"],
)
def test_a_pod_without_a_gpu_that_speaks_for_the_node_keeps_those_that_consented(
    httpserver: HTTPServer, cluster: KubernetesCluster, changes: dict[str, Any], words: str
) -> None:
    serve_pods(httpserver, movable("runs"), web(**changes))
    receipt = cluster.drain("gpu-1", consenting=True)
    assert receipt.did is Did.DIFFERS
    assert f"ml/web {words}" in receipt.sentence
    assert evicted(httpserver) == []


def test_monitoring_on_a_gpu_keeps_its_node_even_if_it_consented(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_pods(httpserver, movable("prom", labels={"app.kubernetes.io/name": "prometheus"}))
    assert cluster.drain("gpu-1", consenting=True).did is Did.DIFFERS
    assert evicted(httpserver) == []


def test_a_pod_that_consented_and_is_leaving_is_waited_for(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_pods(httpserver, movable("runs", deletionTimestamp=LEAVING))
    with pytest.raises(TryLater) as caught:
        cluster.drain("gpu-1", consenting=True)
    assert caught.value.code == "draining"
    assert evicted(httpserver) == []


def test_a_node_that_only_daemons_and_finished_pods_are_left_on_is_drained(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    dcgm = a_pod("dcgm", gpus=0, node="gpu-1", ownerReferences=owned_by("DaemonSet"))
    serve_pods(httpserver, dcgm, a_pod("done", node="gpu-1", phase="Succeeded"))
    assert cluster.drain("gpu-1", consenting=True).did is Did.DONE
    assert evicted(httpserver) == []


def test_a_disruption_budget_holds_a_gpu_pod_that_consented(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    eviction = httpserver.expect_request(EVICTIONS.format("held"), method="POST")
    eviction.respond_with_json(STATUS, status=429)
    serve_pods(httpserver, movable("held"), movable("goes"))
    with pytest.raises(TryLater, match="ml/held") as caught:
        cluster.drain("gpu-1", consenting=True)
    assert (caught.value.code, caught.value.delay) == ("pdb", timedelta(seconds=10))
    assert evicted(httpserver) == []
