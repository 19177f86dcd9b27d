"""How `KubernetesCluster` puts a pool's labels and taints on a node, and what it leaves there."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.core.model.policy import Taint
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.ports import Did, TryLater, WontWork
from tests.adapters.kubernetes.kubernetes_objects import NODES, a_cluster_at, a_node, denied
from tests.adapters.wire import requests_sent

NODE = f"{NODES}/gpu-1"
STATUS = {"kind": "Status", "message": "no"}
LABELS = {"gpu": "on-demand"}
OURS = Taint(key="gpu", value="true", effect="NoSchedule")
OURS_RAW = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
THEIRS_RAW = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-11-20T10:00:00Z"}


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    adapter = a_cluster_at(httpserver.url_for(""))
    yield adapter
    adapter.close()


def serve_node(
    httpserver: HTTPServer, *, labels: dict[str, str] | None = None, taints: list[dict[str, str]] | None = None
) -> None:
    """Serve a node that wears *labels* and *taints* and may be patched."""
    node = a_node(taints=taints)
    node["metadata"]["labels"] |= labels or {}
    httpserver.expect_request(NODE, method="GET").respond_with_json(node)
    httpserver.expect_request(NODE, method="PATCH").respond_with_json(node)


def patch_body(httpserver: HTTPServer) -> Any:
    (patch,) = requests_sent(httpserver, "PATCH")
    assert patch.headers["Content-Type"] == "application/strategic-merge-patch+json"
    return patch.get_json(force=True)


def test_a_bare_node_gets_labels_and_taints_as_it_was_read(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_node(httpserver)
    receipt = cluster.apply_labels_and_taints("gpu-1", LABELS, [OURS])
    assert (receipt.did, receipt.sentence) == (Did.DONE, "put gpu=on-demand, gpu=true:NoSchedule on node gpu-1")
    assert patch_body(httpserver) == {
        "metadata": {"labels": LABELS, "resourceVersion": "41"},
        "spec": {"taints": [OURS_RAW]},
    }


SOFT_RAW = [{"key": t.key, "value": "", "effect": "PreferNoSchedule"} for t in SOFT_TAINTS]


def test_soft_taints_come_beside_those_of_others(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_node(httpserver, taints=[THEIRS_RAW])
    receipt = cluster.set_soft_taints("gpu-1", SOFT_TAINTS)
    marks = ", ".join(f"{taint.key}:PreferNoSchedule" for taint in SOFT_TAINTS)
    assert (receipt.did, receipt.sentence) == (Did.DONE, f"node gpu-1 carries {marks}")
    assert patch_body(httpserver) == {
        "metadata": {"resourceVersion": "41"},
        "spec": {"taints": [THEIRS_RAW, *SOFT_RAW]},
    }


def test_soft_taints_go_and_those_of_others_stay(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_node(httpserver, taints=[SOFT_RAW[0], THEIRS_RAW, SOFT_RAW[1]])
    assert cluster.set_soft_taints("gpu-1", SOFT_TAINTS[:1]).did is Did.DONE
    assert patch_body(httpserver)["spec"] == {"taints": [THEIRS_RAW, SOFT_RAW[0]]}


def test_a_node_whose_soft_taints_all_go_says_so(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_node(httpserver, taints=SOFT_RAW)
    assert cluster.set_soft_taints("gpu-1", ()).sentence == "node gpu-1 carries no soft taint"


def test_taints_alone_are_sent_without_labels(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_node(httpserver, labels=LABELS)
    assert cluster.apply_labels_and_taints("gpu-1", LABELS, [OURS]).did is Did.DONE
    assert patch_body(httpserver)["metadata"] == {"resourceVersion": "41"}


def test_soft_taints_that_are_as_wanted_are_not_sent(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_node(httpserver, taints=[*SOFT_RAW, THEIRS_RAW])
    assert cluster.set_soft_taints("gpu-1", SOFT_TAINTS).did is Did.ALREADY
    assert requests_sent(httpserver, "PATCH") == []


def test_taints_of_others_are_sent_back_as_they_were(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    """A patch replaces the whole list: without them the node would lose them, and the time since when they count."""
    serve_node(httpserver, taints=[THEIRS_RAW])
    cluster.apply_labels_and_taints("gpu-1", {}, [OURS])
    assert patch_body(httpserver)["spec"] == {"taints": [THEIRS_RAW, OURS_RAW]}


def test_only_labels_that_lack_are_sent_and_no_taints_with_them(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_node(httpserver, labels={"zone": "a"}, taints=[OURS_RAW, THEIRS_RAW])
    assert cluster.apply_labels_and_taints("gpu-1", {"zone": "a", **LABELS}, [OURS]).did is Did.DONE
    assert patch_body(httpserver) == {"metadata": {"labels": LABELS, "resourceVersion": "41"}}


def test_a_label_of_another_value_is_replaced(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_node(httpserver, labels={"gpu": "spot"})
    cluster.apply_labels_and_taints("gpu-1", LABELS, [])
    assert patch_body(httpserver)["metadata"]["labels"] == LABELS


def test_a_taint_of_the_same_key_and_effect_is_replaced(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    other_effect = {"key": "gpu", "value": "no", "effect": "NoExecute"}
    serve_node(httpserver, taints=[{**OURS_RAW, "value": "no"}, other_effect])
    assert cluster.apply_labels_and_taints("gpu-1", {}, [OURS]).did is Did.DONE
    assert patch_body(httpserver)["spec"] == {"taints": [other_effect, OURS_RAW]}


@pytest.mark.parametrize("labels, taints", [(LABELS, [OURS]), ({}, [])], ids=["all of them there", "none wanted"])
def test_a_node_that_lacks_nothing_is_not_touched(
    httpserver: HTTPServer, cluster: KubernetesCluster, labels: dict[str, str], taints: list[Taint]
) -> None:
    serve_node(httpserver, labels=LABELS, taints=[THEIRS_RAW, OURS_RAW])
    assert cluster.apply_labels_and_taints("gpu-1", labels, taints).did is Did.ALREADY
    assert not requests_sent(httpserver, "PATCH")


def test_a_node_that_changed_meanwhile_is_tried_again_later(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request(NODE, method="GET").respond_with_json(a_node())
    httpserver.expect_request(NODE, method="PATCH").respond_with_json(STATUS, status=409)
    with pytest.raises(TryLater) as caught:
        cluster.apply_labels_and_taints("gpu-1", LABELS, [OURS])
    assert caught.value.code == "conflict"


def test_a_node_that_is_gone_cannot_be_dressed(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request(NODE).respond_with_json(STATUS, status=404)
    assert cluster.apply_labels_and_taints("gpu-1", LABELS, [OURS]).did is Did.DIFFERS
    assert not requests_sent(httpserver, "PATCH")


def test_a_missing_right_is_named(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request(NODE, method="GET").respond_with_json(a_node())
    httpserver.expect_request(NODE, method="PATCH").respond_with_json(denied("patch", "nodes"), status=403)
    with pytest.raises(WontWork, match='the verb "patch" on "nodes"'):
        cluster.apply_labels_and_taints("gpu-1", LABELS, [])


@pytest.mark.parametrize(
    "call, cordoned_for, did",
    [
        ("apply_labels_and_taints", None, Did.DIFFERS),
        ("cordon", None, Did.DIFFERS),
        ("uncordon", "action-7", Did.ALREADY),
    ],
)
def test_a_node_that_goes_between_reading_and_patching_is_gone(
    httpserver: HTTPServer, cluster: KubernetesCluster, call: str, cordoned_for: str | None, did: Did
) -> None:
    annotations = {"gpu-autoscaler.io/cordoned-for": cordoned_for} if cordoned_for else {}
    node = a_node(annotations=annotations, unschedulable=cordoned_for is not None)
    httpserver.expect_request(NODE, method="GET").respond_with_json(node)
    httpserver.expect_request(NODE, method="PATCH").respond_with_json(STATUS, status=404)
    calls = {
        "apply_labels_and_taints": lambda: cluster.apply_labels_and_taints("gpu-1", LABELS, []),
        "cordon": lambda: cluster.cordon("gpu-1", "action-7"),
        "uncordon": lambda: cluster.uncordon("gpu-1"),
    }
    receipt = calls[call]()
    assert (receipt.did, receipt.sentence) == (did, "node gpu-1 is gone")
