"""What `KubernetesCluster` reads, and how it asks."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.clock import SystemClock
from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.core.model.pods import PodPhase
from receiver.core.model.usage import EndedPod
from receiver.ports import TryLater, WontWork
from tests.adapters.kubernetes.kubernetes_objects import (
    NODES,
    PODS,
    PODS_OF_ML,
    a_cluster_at,
    a_list,
    a_node,
    a_pod,
    owned_by,
)


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    adapter = a_cluster_at(httpserver.url_for(""))
    yield adapter
    adapter.close()


def test_nodes_and_gpu_pods_are_found(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request(NODES).respond_with_json(a_list(a_node("gpu-1"), a_node("gpu-2")))
    pods = a_list(a_pod("waits"), a_pod("runs", node="gpu-1"), a_pod("web", gpus=0, node="gpu-1"))
    httpserver.expect_request(PODS).respond_with_json(pods)
    facts = cluster.look()
    assert [n.name for n in facts.nodes] == ["gpu-1", "gpu-2"]
    assert {p.name: p.phase for p in facts.pods} == {"waits": PodPhase.WAITING, "runs": PodPhase.RUNNING}


def test_nodes_are_listed_before_pods_so_that_a_new_binding_is_not_missed(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    httpserver.expect_request(NODES).respond_with_json(a_list())
    httpserver.expect_request(PODS).respond_with_json(a_list())
    cluster.look()
    asked = [r for r, _ in httpserver.log if "resource.k8s.io" not in r.path]
    assert [r.path for r in asked] == [NODES, PODS]
    assert "resourceVersion" not in asked[1].args


def test_a_long_list_is_read_to_its_end(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_oneshot_request(NODES).respond_with_json(a_list())
    httpserver.expect_oneshot_request(PODS).respond_with_json(a_list(a_pod("one"), more="token/2"))
    httpserver.expect_oneshot_request(
        PODS,
        query_string={
            "limit": "500",
            "continue": "token/2",
            "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed",
        },
    ).respond_with_json(a_list(a_pod("two")))
    assert [p.name for p in cluster.look().pods] == ["one", "two"]


def test_our_own_and_the_monitoring_pods_are_told_with_their_node(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    httpserver.expect_request(NODES).respond_with_json(a_list(a_node("gpu-1"), a_node("gpu-2")))
    label = "app.kubernetes.io/name"
    pods = a_list(
        a_pod("prom-0", gpus=0, node="gpu-1", labels={label: "prometheus"}),
        a_pod("am-0", gpus=0, node="gpu-1", labels={label: "alertmanager"}),
        a_pod("us", gpus=0, node="gpu-1", labels={label: "gpu-autoscaler"}),
        a_pod("web", gpus=0, node="gpu-2", labels={label: "web"}),
        a_pod("old", gpus=0, node="gpu-2", labels={label: "prometheus"}, phase="Failed"),
    )
    httpserver.expect_request(PODS).respond_with_json(pods)
    assert [n.hosts for n in cluster.look().nodes] == [("ml/am-0", "ml/prom-0", "ml/us"), ()]


@pytest.mark.parametrize(
    ("ready", "deleted_at", "hosts"),
    [
        pytest.param("Unknown", "2026-01-01T00:00:00Z", (), id="should be gone, and no kubelet says so"),
        pytest.param("True", "2026-01-01T00:00:00Z", ("ml/prom-0",), id="should be gone, and its kubelet answers"),
        pytest.param("Unknown", None, ("ml/prom-0",), id="not Terminating"),
    ],
)
def test_the_monitoring_that_ended_with_a_kubelet_keeps_no_node(
    httpserver: HTTPServer, cluster: KubernetesCluster, ready: str, deleted_at: str | None, hosts: tuple[str, ...]
) -> None:
    httpserver.expect_request(NODES).respond_with_json(
        a_list(a_node("gpu-1", conditions=[{"type": "Ready", "status": ready}]))
    )
    pod = a_pod("prom-0", gpus=0, node="gpu-1", labels={"app.kubernetes.io/name": "prometheus"})
    if deleted_at:
        pod["metadata"]["deletionTimestamp"] = deleted_at
    httpserver.expect_request(PODS).respond_with_json(a_list(pod))
    assert cluster.look().nodes[0].hosts == hosts


def test_what_all_pods_of_a_gpu_node_request_is_summed(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    offers = {"cpu": "11900m", "memory": "88Gi", "ephemeral-storage": "180Gi", "pods": "110", "nvidia.com/gpu": "1"}
    nodes = a_list(a_node("gpu-1", allocatable=offers), a_node("web-1", allocatable={"cpu": "4"}))
    httpserver.expect_request(NODES).respond_with_json(nodes)
    static = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    pods = a_list(
        a_pod("train", node="gpu-1"),
        a_pod("web", gpus=0, node="gpu-1"),
        a_pod("exporter", gpus=0, node="gpu-1", ownerReferences=owned_by("DaemonSet")),
        a_pod("proxy", gpus=0, node="gpu-1", **static),
        a_pod("done", gpus=0, node="gpu-1", phase="Succeeded"),
        a_pod("waits"),
        a_pod("elsewhere", gpus=0, node="web-1"),
    )
    httpserver.expect_request(PODS).respond_with_json(pods)
    facts = cluster.look()
    gpu, web = facts.nodes
    assert gpu.compute == {"cpu": 11_900, "memory": 88 * 2**30, "ephemeral-storage": 180 * 2**30, "pods": 110}
    assert gpu.allocatable == {"nvidia.com/gpu": 1}
    assert (gpu.others, gpu.daemons) == ({"cpu": 12_000, "pods": 3}, {"cpu": 8000, "pods": 2})
    assert (web.others, web.daemons) == ({}, {})  # no GPU pod goes there
    assert [p.compute for p in facts.pods] == [{"cpu": 4000, "pods": 1}] * 2


@pytest.mark.parametrize(
    "leaves_in, changes, counts",
    [
        pytest.param(30, {}, False, id="it will be gone before a new node is there"),
        pytest.param(3600, {}, True, id="it has an hour"),
        pytest.param(-600, {}, True, id="it is stuck"),
        pytest.param(30, {"ownerReferences": owned_by("DaemonSet")}, True, id="another one of its DaemonSet follows"),
    ],
)
def test_what_a_pod_without_gpus_requests_is_free_where_it_is_about_to_be_gone(
    httpserver: HTTPServer, cluster: KubernetesCluster, leaves_in: int, changes: dict[str, Any], counts: bool
) -> None:
    httpserver.expect_request(NODES).respond_with_json(a_list(a_node("gpu-1")))
    ends = SystemClock().now() + timedelta(seconds=leaves_in)
    pod = a_pod("web", gpus=0, node="gpu-1", deletionTimestamp=f"{ends:%Y-%m-%dT%H:%M:%SZ}", **changes)
    httpserver.expect_request(PODS).respond_with_json(a_list(pod))
    assert bool(cluster.look().nodes[0].others) is counts


def test_the_gpu_pods_of_one_node_are_read_past_every_cache(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    leaving = a_pod("leaving", node="gpu-1", deletionTimestamp="2026-11-20T10:05:00Z")
    starting = a_pod("starting", node="gpu-1", phase="Pending")
    pods = a_list(starting, leaving, a_pod("web", gpus=0, node="gpu-1"), a_pod("elsewhere", node="gpu-2"))
    httpserver.expect_request(PODS).respond_with_json(pods)
    assert [p.name for p in cluster.gpu_pods_on("gpu-1")] == ["starting", "leaving"]
    assert [request.args.to_dict() for request, _ in httpserver.log] == [
        {"fieldSelector": "spec.nodeName=gpu-1", "limit": "500"},
        {"fieldSelector": "status.nominatedNodeName=gpu-1", "limit": "500"},
    ]


def test_a_node_without_a_name_is_not_asked_about(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    with pytest.raises(WontWork):
        cluster.gpu_pods_on("")
    assert not httpserver.log


@pytest.mark.parametrize("body", ["<html>", "[]", "{}", '{"items": 7}'], ids=["html", "list", "no items", "number"])
def test_an_answer_that_is_no_list_is_not_read_as_an_empty_cluster(
    httpserver: HTTPServer, cluster: KubernetesCluster, body: str
) -> None:
    httpserver.expect_request(NODES).respond_with_data(body, content_type="application/json")
    with pytest.raises(TryLater) as caught:
        cluster.look()
    assert caught.value.code == "malformed"


def test_a_cluster_of_thousands_of_pods_is_read_in_pages(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_oneshot_request(NODES).respond_with_json(a_list(*(a_node(f"gpu-{n}") for n in range(100))))
    for page in range(4):
        names = [f"p{page}-{n}" for n in range(500)]
        answer = a_list(*(a_pod(name, node="gpu-1") for name in names), more=f"more-{page}" if page < 3 else None)
        httpserver.expect_oneshot_request(PODS).respond_with_json(answer)
    assert len(cluster.look().pods) == 2000


def test_pods_that_have_ended_are_asked_for_only_in_the_namespaces_named(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    done = a_pod("train-0", node="gpu-1", phase="Succeeded", ownerReferences=owned_by("Job", "train"))
    times = ({"terminated": {"finishedAt": f"2026-11-20T10:0{n}:00Z"}} for n in (7, 9, 8))
    done["status"]["containerStatuses"] = [{"name": "c", "state": state} for state in times]
    lone = a_pod("lone", node="gpu-1", phase="Failed")
    web = a_pod("web", gpus=0, phase="Succeeded")
    httpserver.expect_request(PODS_OF_ML).respond_with_json(a_list(done, lone, web, a_pod("waits")))
    assert cluster.ended(["ml"]) == [
        EndedPod(
            uid="uid-of-train-0",
            workload="ml/Job/train",
            succeeded=True,
            at=datetime(2026, 11, 20, 10, 9, tzinfo=UTC),
            life="uid-of-Job-train",
        ),
        EndedPod(uid="uid-of-lone", workload="ml/Pod/lone", succeeded=False, life="uid-of-lone"),
    ]
    asked = httpserver.log[0][0].args["fieldSelector"]
    assert asked == "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"


def test_nobody_is_asked_about_ended_pods_where_none_ended(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    assert cluster.ended([]) == []
    assert httpserver.log == []
