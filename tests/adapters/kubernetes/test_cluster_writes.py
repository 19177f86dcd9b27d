"""What `KubernetesCluster` changes: cordons, evictions, Events, and when it changes nothing."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.core.model.pods import PodPhase
from receiver.core.model.room_requests import RoomAnswer
from receiver.ports import (
    CORDON_ANNOTATION,
    MAY_WAIT,
    SAFE_TO_EVICT_ANNOTATION,
    STOP_ANNOTATION,
    Did,
    Receipt,
    TryLater,
    WontWork,
    WriterLostError,
)
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
from tests.adapters.wire import came, hanging_server, requests_sent

NODE = f"{NODES}/gpu-1"
EVICTION = "/api/v1/namespaces/ml/pods/{}/eviction"
EVENTS = "/api/v1/namespaces/ml/events"
STATUS = {"kind": "Status", "message": "no"}
FORBIDDEN = {
    "kind": "Status",
    "message": 'pods "web" is forbidden: User "a" cannot create resource "pods/eviction" in API group "" in the '
    'namespace "ml"',
}


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    adapter = a_cluster_at(httpserver.url_for(""))
    yield adapter
    adapter.close()


def serve_node(httpserver: HTTPServer, cordoned_for: str | None = None, *, unschedulable: bool = False) -> None:
    annotations = {"kept": "yes", **({CORDON_ANNOTATION: cordoned_for} if cordoned_for else {})}
    node = a_node(annotations=annotations, unschedulable=unschedulable)
    httpserver.expect_request(NODE, method="GET").respond_with_json(node)
    httpserver.expect_request(NODE, method="PATCH").respond_with_json(node)


def test_requests_of_a_kind_that_nothing_reads_are_not_answered(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    assert cluster.keep_active("kueue_check").did is Did.ALREADY
    assert cluster.answer_request(RoomAnswer(kind="kueue_check", key="ml/train")).did is Did.DIFFERS
    assert not httpserver.log


# The stock client names no Content-Type on a POST; the API server then reads JSON, and `force` does so here.


def patch_body(httpserver: HTTPServer) -> Any:
    (patch,) = requests_sent(httpserver, "PATCH")
    assert patch.headers["Content-Type"] == "application/strategic-merge-patch+json"
    return patch.get_json(force=True)


def test_a_cordon_marks_the_node_and_names_the_action(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_node(httpserver)
    assert cluster.cordon("gpu-1", "action-7").did is Did.DONE
    assert patch_body(httpserver) == {
        "metadata": {"annotations": {CORDON_ANNOTATION: "action-7"}, "resourceVersion": "41"},
        "spec": {"unschedulable": True},
    }


def test_a_cordon_left_by_an_older_action_is_adopted(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_node(httpserver, "action-3", unschedulable=True)
    assert cluster.cordon("gpu-1", "action-7").did is Did.DONE
    assert patch_body(httpserver)["metadata"]["annotations"] == {CORDON_ANNOTATION: "action-7"}


@pytest.mark.parametrize(
    "cordoned_for, unschedulable, did",
    [("action-7", True, Did.ALREADY), (None, True, Did.DIFFERS), ("action-7", False, Did.DIFFERS)],
    ids=["ours already", "cordoned by someone else", "made schedulable by someone else"],
)
def test_a_cordon_that_is_there_or_not_ours_to_make_sends_nothing(
    httpserver: HTTPServer, cluster: KubernetesCluster, cordoned_for: str | None, unschedulable: bool, did: Did
) -> None:
    serve_node(httpserver, cordoned_for, unschedulable=unschedulable)
    assert cluster.cordon("gpu-1", "action-7").did is did
    assert not requests_sent(httpserver, "PATCH")


def test_a_gone_node_cannot_be_cordoned_and_needs_no_uncordon(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    httpserver.expect_request(NODE).respond_with_json(STATUS, status=404)
    assert cluster.cordon("gpu-1", "action-7").did is Did.DIFFERS
    assert cluster.uncordon("gpu-1").did is Did.ALREADY


def test_a_node_that_changed_meanwhile_is_left_to_the_next_step(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    httpserver.expect_request(NODE, method="GET").respond_with_json(a_node())
    httpserver.expect_request(NODE, method="PATCH").respond_with_json(STATUS, status=409)
    with pytest.raises(TryLater) as caught:
        cluster.cordon("gpu-1", "action-7")
    assert caught.value.code == "conflict"


@pytest.mark.parametrize("unschedulable", [True, False], ids=["cordoned", "schedulable, annotation left"])
def test_a_cordon_of_ours_is_undone_with_its_annotation(
    httpserver: HTTPServer, cluster: KubernetesCluster, unschedulable: bool
) -> None:
    serve_node(httpserver, "action-7", unschedulable=unschedulable)
    assert cluster.uncordon("gpu-1").did is Did.DONE
    body = patch_body(httpserver)
    assert body["metadata"]["annotations"] == {CORDON_ANNOTATION: None}
    assert body["spec"] == {"unschedulable": False}


@pytest.mark.parametrize("unschedulable, did", [(True, Did.DIFFERS), (False, Did.ALREADY)])
def test_a_cordon_of_someone_else_is_never_undone(
    httpserver: HTTPServer, cluster: KubernetesCluster, unschedulable: bool, did: Did
) -> None:
    serve_node(httpserver, unschedulable=unschedulable)
    assert cluster.uncordon("gpu-1").did is did
    assert not requests_sent(httpserver, "PATCH")


@pytest.mark.parametrize("undo", [KubernetesCluster.uncordon, KubernetesCluster.uncordon_for_budget])
def test_a_node_with_both_of_our_reasons_stays_cordoned_for_the_other(
    httpserver: HTTPServer, cluster: KubernetesCluster, undo: Callable[..., Receipt]
) -> None:
    node = a_node(annotations={CORDON_ANNOTATION: "action-7", STOP_ANNOTATION: "budget"}, unschedulable=True)
    httpserver.expect_request(NODE).respond_with_json(node)
    receipt = undo(cluster, "gpu-1")
    assert (receipt.did, receipt.sentence) == (Did.DONE, "node gpu-1 stays cordoned for the other reason")
    assert "spec" not in patch_body(httpserver)


def test_a_node_that_is_opened_says_so(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_node(httpserver, "action-7", unschedulable=True)
    assert cluster.uncordon("gpu-1").sentence == "made node gpu-1 schedulable again"


def serve_pods(httpserver: HTTPServer, *pods: dict[str, Any]) -> None:
    """Serve *pods* on a node that we cordoned."""
    serve_node(httpserver, "action-7", unschedulable=True)
    httpserver.expect_request(PODS).respond_with_json(a_list(*pods))


def web(name: str, **changes: Any) -> dict[str, Any]:
    return a_pod(name, gpus=0, node="gpu-1", ownerReferences=owned_by("ReplicaSet"), **changes)


def test_draining_evicts_what_may_go_and_waits_for_it(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    daemon = a_pod("dcgm", gpus=0, node="gpu-1", ownerReferences=owned_by("DaemonSet"))
    mirror = a_pod("proxy", gpus=0, node="gpu-1", annotations={"kubernetes.io/config.mirror": "x"})
    done = a_pod("done", node="gpu-1", phase="Succeeded")
    serve_pods(httpserver, web("web"), daemon, mirror, done)
    httpserver.expect_request(EVICTION.format("web"), method="POST").respond_with_json(STATUS, status=201)
    with pytest.raises(TryLater, match="ml/web") as caught:
        cluster.drain("gpu-1")
    assert (caught.value.code, caught.value.delay) == ("draining", timedelta(seconds=5))
    rehearsal, post = requests_sent(httpserver, "POST")
    assert (rehearsal.args.get("dryRun"), post.args.get("dryRun")) == ("All", None)
    assert rehearsal.get_json(force=True) == post.get_json(force=True)
    assert post.get_json(force=True) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "ml"},
        "deleteOptions": {"preconditions": {"uid": "uid-of-web"}},
    }


@pytest.mark.parametrize("unschedulable, owner", [(False, "action-7"), (True, None)], ids=["lifted", "theirs now"])
def test_nobody_is_evicted_from_a_node_whose_cordon_somebody_lifted(
    httpserver: HTTPServer, cluster: KubernetesCluster, unschedulable: bool, owner: str | None
) -> None:
    serve_node(httpserver, owner, unschedulable=unschedulable)
    httpserver.expect_request(PODS).respond_with_json(a_list(web("web")))
    receipt = cluster.drain("gpu-1")
    assert (receipt.did, "lifted our cordon" in receipt.sentence) == (Did.DIFFERS, True)
    assert not requests_sent(httpserver, "POST")


def test_of_a_node_that_is_gone_what_kubernetes_still_shows_is_evicted(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    """Its cordon went with it: nobody lifted it."""
    httpserver.expect_request(NODE).respond_with_json(STATUS, status=404)
    httpserver.expect_request(PODS).respond_with_json(a_list())
    receipt = cluster.drain("gpu-1")
    assert (receipt.did, receipt.sentence) == (Did.DONE, "nothing is left to evict from node gpu-1")


TOLERANT = [{"key": "gpu", "operator": "Exists"}, {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
BEFORE, AFTER = (datetime(2026, 11, 20, hour, tzinfo=UTC) for hour in (9, 11))  # pods are created at 10:00


@pytest.mark.parametrize(
    ("pod", "cordoned_at", "returned"),
    [
        (web("web", tolerations=TOLERANT), BEFORE, True),
        (web("web", tolerations=TOLERANT), AFTER, False),
        (web("web", tolerations=TOLERANT), None, False),
        (web("web", tolerations=TOLERANT[:1]), BEFORE, False),
        (web("web", tolerations=TOLERANT, creationTimestamp=None), BEFORE, False),
        (
            a_pod("web", gpus=0, node="gpu-1", tolerations=TOLERANT, annotations={SAFE_TO_EVICT_ANNOTATION: "true"}),
            BEFORE,
            False,
        ),
    ],
    ids=["came back", "was there", "cordon unknown", "no tolerance", "age unknown", "nothing starts it again"],
)
def test_a_pod_that_came_back_over_the_cordon_is_not_evicted_again(
    httpserver: HTTPServer,
    cluster: KubernetesCluster,
    pod: dict[str, Any],
    cordoned_at: datetime | None,
    returned: bool,
) -> None:
    """Another one like it would come again, and the node would never be empty."""
    serve_pods(httpserver, pod)
    httpserver.expect_request(EVICTION.format("web"), method="POST").respond_with_json(STATUS, status=201)
    with nullcontext() if returned else pytest.raises(TryLater):
        cluster.drain("gpu-1", cordoned_at=cordoned_at)
    evicted = [post for post in requests_sent(httpserver, "POST") if post.args.get("dryRun") is None]
    assert (not evicted) is returned


def test_a_pod_that_is_leaving_is_waited_for_and_not_evicted_again(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_pods(httpserver, web("web", deletionTimestamp="2026-11-20T10:05:00Z"))
    with pytest.raises(TryLater) as caught:
        cluster.drain("gpu-1")
    assert caught.value.code == "draining"
    assert not requests_sent(httpserver, "POST")


def test_a_node_with_nothing_left_to_evict_is_drained(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_pods(httpserver, a_pod("dcgm", gpus=0, node="gpu-1", ownerReferences=owned_by("DaemonSet")))
    assert cluster.drain("gpu-1").did is Did.DONE
    assert not requests_sent(httpserver, "POST")


@pytest.mark.parametrize(
    "speaker",
    [
        a_pod("train-0", node="gpu-1"),
        a_pod("train-0", node="gpu-1", phase="Pending"),
        a_pod("train-0", node="gpu-1", deletionTimestamp="2026-11-20T10:05:00Z"),
        a_pod("train-0", gpus=0, node="gpu-1", labels={"app.kubernetes.io/name": "alertmanager"}),
        a_pod("train-0", gpus=0, node="gpu-1", annotations={"gpu-autoscaler.io/protect": "true"}),
    ],
    ids=["runs on a GPU", "is about to", "saves its work", "monitoring", "protected"],
)
def test_nothing_is_evicted_while_a_pod_speaks_for_the_node(
    httpserver: HTTPServer, cluster: KubernetesCluster, speaker: dict[str, Any]
) -> None:
    serve_pods(httpserver, web("web"), speaker)
    receipt = cluster.drain("gpu-1")
    assert receipt.did is Did.DIFFERS
    assert "ml/train-0" in receipt.sentence
    assert not requests_sent(httpserver, "POST")


def test_nobody_is_evicted_while_a_disruption_budget_holds_one_pod(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_pods(httpserver, web("held"), web("goes"))
    httpserver.expect_request(EVICTION.format("held"), method="POST").respond_with_json(STATUS, status=429)
    httpserver.expect_request(EVICTION.format("goes"), method="POST").respond_with_json(STATUS, status=201)
    with pytest.raises(TryLater, match="ml/held") as caught:
        cluster.drain("gpu-1")
    assert (caught.value.code, caught.value.delay) == ("pdb", timedelta(seconds=10))
    assert [r.args.get("dryRun") for r in requests_sent(httpserver, "POST")] == ["All", "All"]


@pytest.mark.parametrize("rehearsed", [False, True], ids=["the rehearsal", "the eviction"])
def test_a_server_that_fails_is_not_taken_for_a_disruption_budget(
    httpserver: HTTPServer, cluster: KubernetesCluster, rehearsed: bool
) -> None:
    serve_pods(httpserver, web("web"))
    path = EVICTION.format("web")
    if rehearsed:
        rehearsal = httpserver.expect_oneshot_request(path, method="POST", query_string={"dryRun": "All"})
        rehearsal.respond_with_json(STATUS, status=201)
    httpserver.expect_request(path, method="POST").respond_with_json(STATUS, status=500)
    with pytest.raises(TryLater, match="create pods/eviction") as caught:
        cluster.drain("gpu-1")
    assert caught.value.code == "http_500"
    assert len(requests_sent(httpserver, "POST")) == (2 if rehearsed else 1)


def test_the_disruption_budget_is_named(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_pods(httpserver, web("held"))
    message = "The disruption budget web needs 1 healthy pods and has 1 currently"
    cause = {"reason": "DisruptionBudget", "message": message}
    status = {"kind": "Status", "message": "Cannot evict pod.", "details": {"causes": [cause]}}
    httpserver.expect_request(EVICTION.format("held"), method="POST").respond_with_json(status, status=429)
    with pytest.raises(TryLater, match="PodDisruptionBudget web blocks the eviction of ml/held from node gpu-1"):
        cluster.drain("gpu-1")


def test_a_disruption_budget_that_the_server_does_not_name_is_one_all_the_same(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_pods(httpserver, web("held"))
    httpserver.expect_request(EVICTION.format("held"), method="POST").respond_with_json(STATUS, status=429)
    with pytest.raises(TryLater, match=r"^a PodDisruptionBudget blocks the eviction of ml/held from node gpu-1"):
        cluster.drain("gpu-1")


def test_a_longer_wait_that_the_server_asks_for_is_respected(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_pods(httpserver, web("held"))
    eviction = httpserver.expect_request(EVICTION.format("held"), method="POST")
    eviction.respond_with_json(STATUS, status=429, headers={"Retry-After": "40"})
    with pytest.raises(TryLater) as caught:
        cluster.drain("gpu-1")
    assert caught.value.delay == timedelta(seconds=40)


def test_a_pod_that_went_by_itself_needs_no_eviction(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    serve_pods(httpserver, web("web"))
    httpserver.expect_request(EVICTION.format("web"), method="POST").respond_with_json(STATUS, status=404)
    assert cluster.drain("gpu-1").did is Did.DONE


def test_a_namesake_that_replaced_the_pod_is_looked_at_again(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_pods(httpserver, web("web"))
    httpserver.expect_request(EVICTION.format("web"), method="POST").respond_with_json(STATUS, status=409)
    with pytest.raises(TryLater) as caught:
        cluster.drain("gpu-1")
    assert caught.value.code == "draining"


def test_an_eviction_that_is_forbidden_names_the_missing_right(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    serve_pods(httpserver, web("web"))
    httpserver.expect_request(EVICTION.format("web"), method="POST").respond_with_json(FORBIDDEN, status=403)
    with pytest.raises(WontWork, match='the verb "create" on "pods/eviction"'):
        cluster.drain("gpu-1")


@pytest.mark.parametrize(
    "reason, kind", [("TriggeredScaleUp", "Normal"), ("WaitsForNode", "Normal"), ("NotTriggerScaleUp", "Warning")]
)
def test_an_event_is_left_on_the_pod(
    httpserver: HTTPServer, cluster: KubernetesCluster, reason: str, kind: str
) -> None:
    httpserver.expect_request(EVENTS, method="POST").respond_with_json({"kind": "Event"}, status=201)
    pod = SeenPod(a_pod()).pod
    assert pod is not None
    assert cluster.record_event(pod, reason=reason, message="usable in about 8 minutes").did is Did.DONE
    (post,) = requests_sent(httpserver, "POST")
    body = post.get_json(force=True)
    assert (body["type"], body["reason"], body["message"]) == (kind, reason, "usable in about 8 minutes")
    assert body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ml",
        "name": "train-0",
        "uid": "uid-of-train-0",
    }
    assert body["source"] == {"component": "gpu-autoscaler"}
    assert body["metadata"]["namespace"] == "ml"


def test_two_events_never_share_a_name_and_long_names_fit(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request(EVENTS, method="POST").respond_with_json({"kind": "Event"}, status=201)
    pod = SeenPod(a_pod("x" * 253)).pod
    assert pod is not None
    for _ in range(2):
        cluster.record_event(pod, reason="TriggeredScaleUp", message="m" * 5000)
    first, second = (r.get_json(force=True) for r in requests_sent(httpserver, "POST"))
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert len(first["metadata"]["name"]) <= 253
    assert len(first["message"]) <= 1024


# --- by who may write no more


def test_whoever_may_not_write_any_more_changes_nothing_and_reads_on(httpserver: HTTPServer) -> None:
    """The reads that precede a write may have taken long: the right to write is asked for between the two."""

    def lost() -> None:
        raise WriterLostError("another replica leads")

    adapter = a_cluster_at(httpserver.url_for(""), before_write=lost)
    serve_node(httpserver)
    httpserver.expect_request(PODS).respond_with_json(a_list())
    waiting = SeenPod(a_pod(name="train-0", gpus=1)).pod
    assert waiting is not None
    writes: tuple[Callable[[], object], ...] = (
        partial(adapter.cordon, "gpu-1", "action-7"),
        partial(adapter.cordon_for_budget, "gpu-1", "budget"),
        partial(adapter.record_event, waiting, reason="TriggeredScaleUp", message="soon"),
    )
    for write in writes:
        with pytest.raises(WriterLostError):
            write()
    assert {request.method for request, _ in httpserver.log} == {"GET"}
    assert adapter.gpu_pods_on("gpu-1") == ()
    adapter.close()


def test_a_process_that_was_frozen_after_it_asked_does_not_send_what_it_was_about_to(httpserver: HTTPServer) -> None:
    def too_late() -> None:
        raise WriterLostError("another replica leads")

    adapter = a_cluster_at(httpserver.url_for(""), before_write=lambda: None, last_word=too_late)
    serve_node(httpserver)
    httpserver.expect_request(PODS).respond_with_json(a_list())
    with pytest.raises(WriterLostError):
        adapter.cordon("gpu-1", "action-7")
    assert adapter.gpu_pods_on("gpu-1") == ()  # reads go on, over a new connection
    adapter.close()
    assert {request.method for request, _ in httpserver.log} == {"GET"}


def test_a_write_waits_for_less_than_a_read() -> None:
    with hanging_server(NODE, "PATCH") as (server, arrivals):
        serve_node(server)
        adapter = a_cluster_at(server.url_for(""), read_timeout=60, write_seconds=0.2)
        with pytest.raises(TryLater) as caught:
            adapter.cordon("gpu-1", "action-7")
        adapter.close()
        assert came(arrivals) == ["PATCH"]
    assert caught.value.code == "timeout"


def a_gated_pod(*gates: str, **changes: Any) -> dict[str, Any]:
    raw = a_pod("train", **changes)
    raw["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    return raw


def test_admitting_a_pod_removes_our_scheduling_gate(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    raw = a_gated_pod(MAY_WAIT)
    httpserver.expect_request(f"{PODS_OF_ML}/train", method="GET").respond_with_json(raw)
    httpserver.expect_request(f"{PODS_OF_ML}/train", method="PATCH").respond_with_json(raw)
    pod = SeenPod(raw).pod
    assert pod is not None
    assert pod.phase is PodPhase.DEFERRED
    assert cluster.admit(pod).did is Did.DONE
    assert patch_body(httpserver)["spec"] == {"schedulingGates": None}


@pytest.mark.parametrize("gates", [(), (MAY_WAIT, "kueue.x-k8s.io/admission")], ids=["no gate", "also another gate"])
def test_a_pod_that_is_not_behind_our_gate_alone_is_left_as_it_is(
    httpserver: HTTPServer, cluster: KubernetesCluster, gates: tuple[str, ...]
) -> None:
    pod = SeenPod(a_gated_pod(MAY_WAIT)).pod
    assert pod is not None
    httpserver.expect_request(f"{PODS_OF_ML}/train", method="GET").respond_with_json(a_gated_pod(*gates))
    assert cluster.admit(pod).did is Did.ALREADY
    assert requests_sent(httpserver, "PATCH") == []
