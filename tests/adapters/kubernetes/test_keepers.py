"""Pods without a GPU that keep their node: seen before a node is chosen, and seen again before it is drained."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs
from werkzeug import Response

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.core.model.pods import KeepRule
from receiver.ports import CORDON_ANNOTATION, SAFE_TO_EVICT_ANNOTATION, Did
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, a_cluster_at, a_list, a_node, a_pod, owned_by
from tests.adapters.wire import requests_sent

BUDGETS = "/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets"
REPLACED = owned_by("ReplicaSet")
BARE = "has no controller that would start it again"
SYSTEM = "belongs to kube-system, and no PodDisruptionBudget covers it"
STORES = "keeps data on the node (emptyDir or hostPath)"


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    adapter = a_cluster_at(httpserver.url_for(""))
    yield adapter
    adapter.close()


def on_the_node(name: str = "web", **changes: Any) -> dict[str, Any]:
    """A pod without a GPU on gpu-1."""
    return a_pod(name, gpus=0, node="gpu-1", **changes)


def of_system(**changes: Any) -> dict[str, Any]:
    return on_the_node("dns", namespace="kube-system", ownerReferences=REPLACED, labels={"app": "dns"}, **changes)


def serve(httpserver: HTTPServer, *pods: dict[str, Any]) -> None:
    """Serve *pods*, and gpu-1 as we cordoned it."""
    node = a_node(annotations={CORDON_ANNOTATION: "a"}, unschedulable=True)
    httpserver.expect_request(NODES).respond_with_json(a_list(node, a_node("cpu-1", allocatable={"cpu": "4"})))
    httpserver.expect_request(f"{NODES}/gpu-1").respond_with_json(node)
    httpserver.expect_request(PODS).respond_with_json(a_list(*pods))


def kept_by(cluster: KubernetesCluster) -> tuple[str, ...]:
    return next(n.kept_by for n in cluster.look().nodes if n.name == "gpu-1")


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        pytest.param(on_the_node(), f"ml/web {BARE}", id="bare"),
        pytest.param(
            on_the_node(ownerReferences=owned_by("Kind", controller=False)),
            f"ml/web {BARE}",
            id="an owner, no controller",
        ),
        pytest.param(
            on_the_node(annotations={"gpu-autoscaler.io/protect": "true"}), "ml/web is protected", id="protected"
        ),
        pytest.param(
            on_the_node(ownerReferences=REPLACED, annotations={SAFE_TO_EVICT_ANNOTATION: "false"}),
            "ml/web is protected",
            id="not safe to evict",
        ),
    ],
)
def test_a_pod_keeps_its_node_when_it_is_chosen_and_when_it_is_drained(
    httpserver: HTTPServer, cluster: KubernetesCluster, pod: dict[str, Any], why: str
) -> None:
    serve(httpserver, pod, on_the_node("other", ownerReferences=REPLACED))
    assert kept_by(cluster) == (why,)
    receipt = cluster.drain("gpu-1")
    assert (receipt.did, receipt.sentence) == (Did.DIFFERS, f"node gpu-1 stays: {why}")
    assert not requests_sent(httpserver, "POST")


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(on_the_node(ownerReferences=REPLACED), id="a controller starts it again"),
        pytest.param(on_the_node(annotations={SAFE_TO_EVICT_ANNOTATION: "true"}), id="bare, and safe to evict"),
        pytest.param(of_system(annotations={SAFE_TO_EVICT_ANNOTATION: "true"}), id="kube-system's, and safe to evict"),
        pytest.param(on_the_node(phase="Succeeded"), id="finished"),
        pytest.param(on_the_node(deletionTimestamp="2026-11-20T10:05:00Z"), id="leaving"),
        pytest.param(on_the_node(annotations={"kubernetes.io/config.mirror": "x"}), id="a mirror pod"),
        pytest.param(on_the_node(namespace="kube-system", ownerReferences=owned_by("DaemonSet")), id="a DaemonSet's"),
        pytest.param(
            on_the_node(ownerReferences=owned_by("DaemonSet"), annotations={"gpu-autoscaler.io/protect": "true"}),
            id="a DaemonSet's, and protected",
        ),
        pytest.param(a_pod("web", gpus=0, node="cpu-1"), id="on a node without GPUs"),
        pytest.param(a_pod("web", gpus=0), id="without a node"),
        pytest.param(on_the_node(ownerReferences=REPLACED, volumes=[{"emptyDir": {}}]), id="with an emptyDir"),
    ],
)
def test_a_pod_keeps_no_node(httpserver: HTTPServer, cluster: KubernetesCluster, pod: dict[str, Any]) -> None:
    serve(httpserver, pod)
    assert kept_by(cluster) == ()


def a_budget(**selector: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b", "namespace": "kube-system"}, "spec": {"selector": selector, "minAvailable": 1}}


@pytest.mark.parametrize(
    ("budget", "covers"),
    [
        pytest.param(a_budget(matchLabels={"app": "dns"}), True, id="its label"),
        pytest.param(a_budget(matchLabels={"app": "dns", "tier": "x"}), False, id="another label as well"),
        pytest.param(a_budget(matchExpressions=[{"key": "app", "operator": "In", "values": ["dns"]}]), True, id="In"),
        pytest.param(a_budget(matchExpressions=[{"key": "app", "operator": "DoesNotExist"}]), False, id="DoesNotExist"),
        pytest.param(a_budget(), True, id="an empty selector: every pod"),
        pytest.param({"spec": {"minAvailable": 1}}, False, id="no selector: no pod"),
    ],
)
def test_a_pod_of_kube_system_keeps_its_node_unless_a_budget_covers_it(
    httpserver: HTTPServer, cluster: KubernetesCluster, budget: dict[str, Any], covers: bool
) -> None:
    serve(httpserver, of_system())
    httpserver.expect_request(BUDGETS).respond_with_json(a_list(budget))
    assert kept_by(cluster) == (() if covers else (f"kube-system/dns {SYSTEM}",))


def test_any_of_several_budgets_covers_a_pod_until_it_is_gone(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    budgets = [a_budget(matchLabels={"app": "other"}), a_budget(matchLabels={"app": "dns"})]
    serve(httpserver, of_system())
    httpserver.expect_request(BUDGETS).respond_with_handler(lambda _: Response(json.dumps(a_list(*budgets))))
    assert kept_by(cluster) == ()
    budgets.pop()
    assert kept_by(cluster) == (f"kube-system/dns {SYSTEM}",)


def test_the_budgets_are_read_again_before_a_drain(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    """The one of the last look may be gone."""
    serve(httpserver, of_system())
    httpserver.expect_oneshot_request(BUDGETS).respond_with_json(a_list(a_budget(matchLabels={"app": "dns"})))
    httpserver.expect_request(BUDGETS).respond_with_json(a_list())
    assert kept_by(cluster) == ()
    receipt = cluster.drain("gpu-1")
    assert (receipt.did, receipt.sentence) == (Did.DIFFERS, f"node gpu-1 stays: kube-system/dns {SYSTEM}")
    assert not requests_sent(httpserver, "POST")


@pytest.mark.parametrize("status", [403, 500])
def test_without_the_budgets_pods_of_kube_system_keep_their_node_and_the_look_goes_on(
    httpserver: HTTPServer, cluster: KubernetesCluster, status: int
) -> None:
    serve(httpserver, of_system())
    httpserver.expect_request(BUDGETS).respond_with_json({"kind": "Status", "message": "no"}, status=status)
    with capture_logs() as logged:
        assert kept_by(cluster) == (f"kube-system/dns {SYSTEM}",)
    assert [line["event"] for line in logged if "kube-system" in line["event"]] == [
        "PodDisruptionBudgets of kube-system not listed, so its pods keep nodes"
    ]


def test_the_budgets_are_listed_once_for_all_pods_of_a_look(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve(httpserver, *(on_the_node(f"dns-{n}", namespace="kube-system", ownerReferences=REPLACED) for n in range(3)))
    httpserver.expect_request(BUDGETS).respond_with_json(a_list())
    cluster.look()
    assert len([request for request, _ in httpserver.log if request.path == BUDGETS]) == 1


def test_budgets_are_asked_for_only_where_a_pod_of_kube_system_may_have_to_leave(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    daemon = on_the_node("proxy", namespace="kube-system", ownerReferences=owned_by("DaemonSet"))
    serve(httpserver, daemon, a_pod("dns", gpus=0, node="cpu-1", namespace="kube-system", ownerReferences=REPLACED))
    cluster.look()
    assert not [request for request, _ in httpserver.log if request.path == BUDGETS]


def test_the_operator_says_which_pods_keep_a_node(httpserver: HTTPServer) -> None:
    disk = on_the_node("disk", ownerReferences=REPLACED, volumes=[{"emptyDir": {}}])
    memory = on_the_node("memory", ownerReferences=REPLACED, volumes=[{"emptyDir": {"medium": "Memory"}}])
    path = on_the_node("path", ownerReferences=REPLACED, volumes=[{"hostPath": {"path": "/data"}}])
    settings = on_the_node("settings", ownerReferences=REPLACED, volumes=[{"configMap": {"name": "settings"}}])
    serve(httpserver, on_the_node(), disk, memory, path, settings)
    for rules, found in (((), ()), ((KeepRule.LOCAL_STORAGE,), (f"ml/disk {STORES}", f"ml/path {STORES}"))):
        adapter = a_cluster_at(httpserver.url_for(""), keep_nodes_for=rules)
        assert kept_by(adapter) == found
        adapter.close()


def test_of_many_pods_the_first_are_named(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve(httpserver, *(on_the_node(f"p{n}") for n in range(5)))
    assert kept_by(cluster) == (f"ml/p0 {BARE}", f"ml/p1 {BARE}", f"ml/p2 {BARE}", "and 2 more")
