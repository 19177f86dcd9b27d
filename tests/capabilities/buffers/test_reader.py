"""CapacityBuffers over the API: what the core gets of each, and the status that is written.

The cases are those of Cluster Autoscaler's own tests (kubernetes-sigs/cluster-autoscaler at 33c3f97bf), with a GPU in
each pod: ``pkg/capacitybuffer/translators/*_test.go``, ``pkg/capacitybuffer/controller/resourcequotas_test.go``,
``pkg/processors/capacitybuffer/pod_list_processor_test.go``, ``pkg/test/integration/controllers``.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes import api
from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.capabilities.buffers import reader as module
from receiver.capabilities.buffers.keeping import NOT_READY
from receiver.core.model.pods import PodPhase, Toleration
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.ports import Did
from tests.adapters.kubernetes.capacity_objects import (
    ACTIVE_CAPACITY,
    CAPACITY_BUFFERS,
    POD_TEMPLATES,
    RESOURCE_QUOTAS,
    a_capacity_buffer,
    a_chunk_spec,
    a_chunk_template,
)
from tests.adapters.kubernetes.custom_objects import CREATED, GPU
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, a_cluster_at, a_list, a_node, a_pod, denied

REPLICA_SETS = "/apis/apps/v1/replicasets"
READY = ("ReadyForProvisioning", "True", "AttributesSetSuccessfully", "ready")
UNLIMITED = ("LimitedByQuotas", "False", "ResourceQuotasAllocated", "")
INJECTED = ("Provisioning", "True", "FakePodsInjected", "2 of 2 chunks have room")
EMPTY = ("Provisioning", "False", "BufferIsEmpty", "CapacityBuffer has zero replicas")
UNREADY = ("Provisioning", "False", "NotReadyForProvisioning", "CapacityBuffer is not ready for provisioning")
UNCOUNTED = "Buffer not ready for provisioning: couldn't get number of replicas for buffer: "
GONE = (
    "Buffer not ready for provisioning: capacity buffer client can't get pod template: "
    'podtemplates "randomRef" not found'
)
NOTHING_SAID = f"{UNCOUNTED}replicas, percentage and limits are not defined"


def not_ready(message: str) -> tuple[str, str, str, str]:
    return ("ReadyForProvisioning", "False", "error", message)


def a_replica_set(name: str = "serve", replicas: int = 10) -> dict[str, Any]:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {"spec": a_chunk_spec()}}
    return {"metadata": {"namespace": "ml", "name": name}, "spec": spec, "status": {"replicas": replicas}}


def a_quota(
    hard: dict[str, str], used: dict[str, str] | None = None, name: str = "quota", **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ml", "name": "quota"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or dict.fromkeys(hard, "0")},
    }


def of_replica_set(**changes: Any) -> dict[str, Any]:
    reference = {"apiGroup": "apps", "kind": "ReplicaSet", "name": "serve"}
    return a_capacity_buffer(template=None, scalableRef=reference, **changes)


def answer_to(key: str, message: str = "", state: str = "") -> RoomAnswer:
    return RoomAnswer(kind="buffers", key=key, state=state, message=message)


@contextmanager
def serving(
    httpserver: HTTPServer, *buffers: dict[str, Any], pods: tuple[dict[str, Any], ...] = (), **served: Any
) -> Iterator[KubernetesCluster]:
    """The adapter over a cluster with *buffers* and what they refer to; *served* replaces these lists."""
    lists = {"templates": [a_chunk_template()], "replica_sets": [a_replica_set()], "quotas": [], **served}
    paths = {POD_TEMPLATES: "templates", REPLICA_SETS: "replica_sets", RESOURCE_QUOTAS: "quotas"}
    httpserver.expect_request(NODES).respond_with_json(a_list(a_node()))
    httpserver.expect_request(PODS).respond_with_json(a_list(*pods))
    httpserver.expect_request(CAPACITY_BUFFERS).respond_with_json(a_list(*buffers))
    for path, name in paths.items():
        if lists[name] is not None:
            httpserver.expect_request(path).respond_with_json(a_list(*lists[name]))
    httpserver.expect_request(re.compile("^/apis/.*/status$"), method="PATCH").respond_with_json({})
    httpserver.expect_request(re.compile("^/apis?/")).respond_with_json(
        {"message": "no"}, status=served.get("else", 404)
    )
    cluster = a_cluster_at(httpserver.url_for(""), readers=[module.Buffers], pools=served.get("pools", lambda: ()))
    try:
        yield cluster
    finally:
        cluster.close()


def written(httpserver: HTTPServer) -> list[dict[str, Any]]:
    """The statuses that were written, oldest first."""
    requests = [request for request, _ in httpserver.log if request.method == "PATCH"]
    return [json.loads(request.get_data())["status"] for request in requests]


def seen(httpserver: HTTPServer, *buffers: dict[str, Any], **served: Any) -> tuple[RoomRequest, ...]:
    with serving(httpserver, *buffers, **served) as cluster:
        return cluster.look().requests


def reported(httpserver: HTTPServer, *buffers: dict[str, Any], **served: Any) -> list[dict[str, Any]]:
    """What is written for *buffers* when the core says that two chunks have room."""
    with serving(httpserver, *buffers, **served) as cluster:
        for buffer in cluster.look().requests:
            cluster.answer_request(answer_to(buffer.key, "2 of 2 chunks have room"))
    return written(httpserver)


def conditions(status: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(c["type"], c["status"], c["reason"], c["message"]) for c in status["conditions"]]


# --- what the core gets -----------------------------------------------------------------------------------


def test_a_buffer_is_room_for_pods_of_its_template(httpserver: HTTPServer) -> None:
    selector: dict[str, Any] = {
        "nodeSelector": {"gpu": "on-demand"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    (buffer,) = seen(httpserver, a_capacity_buffer(replicas=2), templates=[a_chunk_template(gpus=4, **selector)])
    assert (buffer.key, buffer.copies, buffer.problem) == ("ml/warm", 2, "")
    [pod] = buffer.pods
    assert pod is not None
    assert (pod.uid, pod.name, pod.phase, pod.requests) == ("", "capacity-buffer-warm", PodPhase.WAITING, {GPU: 4})
    assert pod.scheduling.node_selector == {"gpu": "on-demand"}
    assert pod.scheduling.tolerations == (Toleration(key="gpu", operator="Exists"),)
    assert (pod.labels, dict(pod.compute)) == ({"team": "vision"}, {"cpu": 100, "memory": 4 * 2**30, "pods": 1})


def test_the_newest_pod_of_a_scalable_shows_what_a_chunk_is(httpserver: HTTPServer) -> None:
    old = a_pod("old", gpus=1, node="gpu-1", labels={"app": "serve"})
    new = a_pod("new", gpus=2, node="gpu-1", labels={"app": "serve"}, creationTimestamp="2026-11-20T11:00:00Z")
    other = a_pod("other", gpus=3, node="gpu-1", labels={"app": "x"}, creationTimestamp="2026-11-20T12:00:00Z")
    (buffer,) = seen(httpserver, of_replica_set(percentage=20), pods=(old, new, other))
    [pod] = buffer.pods
    assert (buffer.copies, pod.requests, pod.node) == (2, {GPU: 2}, None)


def test_buffers_come_in_the_order_of_their_age(httpserver: HTTPServer) -> None:
    young = a_capacity_buffer("a", replicas=1, creationTimestamp="2026-11-20T11:00:00Z")
    assert [b.key for b in seen(httpserver, young, a_capacity_buffer("b", replicas=1))] == ["ml/b", "ml/a"]


@pytest.mark.parametrize(
    "buffer",
    [
        a_capacity_buffer(replicas=1, provisioningStrategy="example.com/other"),
        a_capacity_buffer(replicas=1, deletionTimestamp=CREATED),
        a_capacity_buffer(template=None, replicas=1),
        a_capacity_buffer(template="cpu-only", replicas=1),
    ],
    ids=["another strategy", "being deleted", "no reference", "no GPUs"],
)
def test_a_buffer_that_is_not_ours_is_left_alone(httpserver: HTTPServer, buffer: dict[str, Any]) -> None:
    assert seen(httpserver, buffer, templates=[a_chunk_template("cpu-only", gpus=0), a_chunk_template()]) == ()


def test_a_strategy_that_is_not_set_is_the_default_one(httpserver: HTTPServer) -> None:
    assert [b.copies for b in seen(httpserver, a_capacity_buffer(replicas=1, provisioningStrategy=None))] == [1]


def test_the_older_api_is_read_where_the_newer_one_is_not_served(httpserver: HTTPServer) -> None:
    httpserver.expect_request(CAPACITY_BUFFERS).respond_with_json({}, status=404)
    older = CAPACITY_BUFFERS.replace("v1beta1", "v1alpha1")
    httpserver.expect_request(older).respond_with_json(a_list(a_capacity_buffer(replicas=1)))
    assert [b.copies for b in seen(httpserver)] == [1]


def test_without_the_crd_nothing_else_is_asked_for(httpserver: HTTPServer) -> None:
    httpserver.expect_request(CAPACITY_BUFFERS).respond_with_json({}, status=404)
    assert seen(httpserver) == ()
    assert not {POD_TEMPLATES, REPLICA_SETS, RESOURCE_QUOTAS} & {request.path for request, _ in httpserver.log}


def test_what_was_read_last_counts_while_the_api_server_cannot_tell(httpserver: HTTPServer) -> None:
    httpserver.expect_oneshot_request(CAPACITY_BUFFERS).respond_with_json(a_list(a_capacity_buffer(replicas=1)))
    httpserver.expect_request(CAPACITY_BUFFERS).respond_with_json({}, status=500)
    with serving(httpserver) as cluster:
        assert cluster.look().requests == cluster.look().requests != ()


def test_without_the_right_to_list_them_there_are_none(httpserver: HTTPServer) -> None:
    httpserver.expect_request(CAPACITY_BUFFERS).respond_with_json({}, status=403)
    assert seen(httpserver) == ()


# --- what Cluster Autoscaler's tests say ------------------------------------------------------------------

HALF = {"percentage": 50}
SMALL_LIMITS = {"memory": "9Gi", "cpu": "200m"}


@pytest.mark.parametrize(
    ("buffer", "replicas"),
    [
        (a_capacity_buffer(replicas=5), 5),
        (a_capacity_buffer(limits={"memory": "5Gi", "cpu": "200m"}), 1),
        (a_capacity_buffer(limits=SMALL_LIMITS, replicas=3), 2),
        (a_capacity_buffer(limits=SMALL_LIMITS, replicas=1), 1),
        (a_capacity_buffer(limits={"cpu": "20m"}, replicas=3), 0),
        (a_capacity_buffer(template="large", limits={"memory": "100Gi", "cpu": "5000m", GPU: "10"}, replicas=5), 2),
        (a_capacity_buffer(template="large", limits={"memory": "100Gi", "cpu": "5000m", GPU: "2"}, replicas=5), 0),
        (a_capacity_buffer(replicas=-1), 0),
        (of_replica_set(replicas=2), 2),
        (of_replica_set(**HALF), 5),
        (of_replica_set(percentage=200), 20),
        (of_replica_set(percentage=33), 4),
        (of_replica_set(percentage=0), 0),
        (of_replica_set(percentage=200, replicas=15), 20),
        (of_replica_set(percentage=50, replicas=15), 15),
        (of_replica_set(**HALF, limits=SMALL_LIMITS), 2),
        (of_replica_set(limits=SMALL_LIMITS), 2),
        (of_replica_set(limits=SMALL_LIMITS, replicas=1), 1),
        (of_replica_set(limits=SMALL_LIMITS, replicas=5), 2),
        (of_replica_set(percentage=250, limits={"cpu": "2"}), 20),
    ],
)
def test_replicas_are_those_of_cluster_autoscaler(
    httpserver: HTTPServer, buffer: dict[str, Any], replicas: int
) -> None:
    templates = [a_chunk_template(), a_chunk_template("large", gpus=4, cpu="1", memory="16Gi")]
    (status,) = reported(httpserver, buffer, templates=templates)
    assert (status["replicas"], status["provisioningStrategy"]) == (replicas, ACTIVE_CAPACITY)
    assert conditions(status) == [READY, UNLIMITED, INJECTED if replicas else EMPTY]


@pytest.mark.parametrize(
    ("buffer", "message", "named"),
    [
        (
            a_capacity_buffer(template="randomRef", replicas=1),
            GONE,
            None,
        ),
        (a_capacity_buffer(), NOTHING_SAID, "chunk"),
        (
            a_capacity_buffer(replicas=3, limits={"nvidia.com/other": "100m"}),
            f"{UNCOUNTED}resources in configured limits not found in the pod template",
            "chunk",
        ),
        (of_replica_set(), NOTHING_SAID, None),
    ],
)
def test_a_buffer_that_is_not_ready_says_what_cluster_autoscaler_says(
    httpserver: HTTPServer, buffer: dict[str, Any], message: str, named: str | None
) -> None:
    (status,) = reported(httpserver, buffer)
    assert conditions(status) == [not_ready(message), UNREADY]
    assert (status["podTemplateRef"], status["replicas"]) == ({"name": named} if named else None, None)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ({"apiGroup": "apps", "kind": "Deployment", "name": "gone"}, 'deployments.apps "gone" not found'),
        (
            {"apiGroup": "example.com", "kind": "Rollout", "name": "r"},
            "kind example.com/Rollout is not supported",
        ),
    ],
)
def test_a_scalable_that_cannot_be_resolved_makes_the_buffer_unready(
    httpserver: HTTPServer, reference: dict[str, str], said: str
) -> None:
    httpserver.expect_request("/apis/apps/v1/deployments").respond_with_json(a_list())
    (status,) = reported(httpserver, a_capacity_buffer(template=None, scalableRef=reference, replicas=1))
    assert [c[:3] for c in conditions(status)] == [not_ready("")[:3], UNREADY[:3]]
    assert f"Buffer not ready for provisioning: failed to resolve scalable object: {said}" in conditions(status)[0][3]


def test_the_parallelism_of_a_job_is_its_number_of_pods(httpserver: HTTPServer) -> None:
    job = {
        "metadata": {"namespace": "ml", "name": "train"},
        "spec": {"parallelism": 4, "template": {"spec": a_chunk_spec()}},
    }
    httpserver.expect_request("/apis/batch/v1/jobs").respond_with_json(a_list(job))
    reference = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    (buffer,) = seen(httpserver, a_capacity_buffer(template=None, scalableRef=reference, percentage=50))
    assert buffer.copies == 2


def test_two_buffers_share_a_quota_the_older_first(httpserver: HTTPServer) -> None:
    first, second = a_capacity_buffer("b1", replicas=2, generation=3), a_capacity_buffer("b2", replicas=4, generation=1)
    templates = [a_chunk_template(cpu="1")]
    one, two = reported(httpserver, first, second, templates=templates, quotas=[a_quota({"cpu": "5"})])
    assert (one["replicas"], conditions(one)[1]) == (2, UNLIMITED)
    limited = "Buffer replicas limited from 4 to 3 due to quotas: quota"
    assert (two["replicas"], conditions(two)[1]) == (3, ("LimitedByQuotas", "True", "ResourceQuotasAllocated", limited))
    assert [c.get("observedGeneration") for c in one["conditions"]] == [None, 3, None]


@pytest.mark.parametrize(
    ("quota", "replicas"),
    [
        (a_quota({f"requests.{GPU}": "3"}, {f"requests.{GPU}": "2"}), 1),
        (a_quota({f"requests.{GPU}": "0"}), 0),
        (a_quota({"cpu": "1"}, {"cpu": "2"}), 0),
        (a_quota({"pods": "1"}), 2),
        (a_quota({"cpu": "0"}, scopes=["Terminating"]), 2),
        (a_quota({"cpu": "0"}, scopes=["BestEffort"]), 2),
        (a_quota({"cpu": "0"}, scopes=["NotTerminating", "NotBestEffort"]), 0),
        (a_quota({"cpu": "0"}, scopes=["PriorityClass"]), 2),
        (a_quota({"cpu": "0"}, scopeSelector={"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["production"]}]}), 0),
    ],
    ids=["used", "our own hold", "overused", "pods", "terminating", "best effort", "other scopes", "class", "no class"],
)  # fmt: skip
def test_a_quota_counts_as_for_cluster_autoscaler(httpserver: HTTPServer, quota: dict[str, Any], replicas: int) -> None:
    (status,) = reported(httpserver, a_capacity_buffer(replicas=2), quotas=[quota])
    assert (status["replicas"], conditions(status)[1][1]) == (replicas, "False" if replicas == 2 else "True")


def test_without_the_right_to_list_quotas_they_do_not_limit(httpserver: HTTPServer) -> None:
    httpserver.expect_request(RESOURCE_QUOTAS).respond_with_json({}, status=403)
    (status,) = reported(httpserver, a_capacity_buffer(replicas=2))
    assert conditions(status) == [READY, INJECTED]


def test_without_the_right_to_list_templates_the_buffer_says_so(httpserver: HTTPServer) -> None:
    httpserver.expect_request(POD_TEMPLATES).respond_with_json(denied("list", "podtemplates"), status=403)
    (status,) = reported(httpserver, a_capacity_buffer(replicas=2))
    assert 'grant the verb "list" on "podtemplates"' in conditions(status)[0][3]


# --- writing ----------------------------------------------------------------------------------------------


def after(status: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The buffer as it is once *status* was written."""
    return a_capacity_buffer(replicas=2, status={k: v for k, v in {**status, **changes}.items() if v is not None})


def test_the_status_names_the_template_that_was_used(httpserver: HTTPServer) -> None:
    (status,) = reported(httpserver, a_capacity_buffer(replicas=2), templates=[a_chunk_template(generation=7)])
    assert (status["podTemplateRef"], status["podTemplateGeneration"]) == ({"name": "chunk"}, 7)


def test_a_status_that_says_so_already_is_not_written(httpserver: HTTPServer) -> None:
    (status,) = reported(httpserver, a_capacity_buffer(replicas=2))
    httpserver.clear()
    with serving(httpserver, after(status)) as cluster:
        (buffer,) = cluster.look().requests
        assert cluster.answer_request(answer_to(buffer.key, "2 of 2 chunks have room")).did is Did.ALREADY
    assert written(httpserver) == []


def test_a_condition_keeps_its_time_until_its_status_changes_and_others_stay(httpserver: HTTPServer) -> None:
    past = "2026-11-01T00:00:00Z"
    theirs = {"type": "Theirs", "status": "True", "reason": "X", "message": "", "lastTransitionTime": past}
    ready = {"type": "ReadyForProvisioning", "status": "True", "reason": "Old", "lastTransitionTime": past}
    unprovisioned = {"type": "Provisioning", "status": "False", "reason": "Old", "lastTransitionTime": past}
    before = {"conditions": [theirs, ready, unprovisioned]}
    (status,) = reported(httpserver, a_capacity_buffer(replicas=2, status=before))
    found = {c["type"]: c for c in status["conditions"]}
    assert found["Theirs"] == theirs
    assert (found["ReadyForProvisioning"]["lastTransitionTime"], found["ReadyForProvisioning"]["reason"]) == (
        past,
        "AttributesSetSuccessfully",
    )
    assert found["Provisioning"]["lastTransitionTime"] != past


def test_the_write_goes_to_the_status_of_the_version_that_was_read(httpserver: HTTPServer) -> None:
    reported(httpserver, a_capacity_buffer(replicas=2))
    [request] = [request for request, _ in httpserver.log if request.method == "PATCH"]
    path = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/ml/capacitybuffers/warm/status"
    assert (request.path, request.content_type) == (path, "application/merge-patch+json")
    assert json.loads(request.get_data())["metadata"] == {"resourceVersion": "5"}


def test_a_buffer_whose_claims_cannot_be_served_is_not_provisioned(httpserver: HTTPServer) -> None:
    with serving(httpserver, a_capacity_buffer(replicas=2)) as cluster:
        (buffer,) = cluster.look().requests
        cluster.answer_request(answer_to(buffer.key, "there is no DeviceClass gold", NOT_READY))
    (status,) = written(httpserver)
    said = ("Provisioning", "False", "NotReadyForProvisioning", "there is no DeviceClass gold")
    assert said in conditions(status)


def test_a_buffer_that_is_gone_is_not_written(httpserver: HTTPServer) -> None:
    with serving(httpserver) as cluster:
        cluster.look()
        assert cluster.answer_request(answer_to("ml/gone")).did is Did.DIFFERS


def test_a_selector_is_read_once_for_all_pods(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred buffers in a cluster of ten thousand pods took three seconds of each step."""
    pods = tuple(a_pod(f"p{n}", labels={"app": "other"}) for n in range(20))
    reads, words = list[None](), api.words
    with serving(httpserver, *(of_replica_set(name=f"b{n}") for n in range(5)), pods=pods) as cluster:
        cluster.look()
        monkeypatch.setattr(module, "words", lambda *given: reads.append(None) or words(*given))  # type: ignore[func-returns-value]
        cluster.look()
    assert len(reads) <= 5 * 2


@pytest.mark.parametrize("templates", [[a_chunk_template()], None], ids=["readable", "refused"])
def test_what_buffers_refer_to_is_listed_once_for_all_of_them(httpserver: HTTPServer, templates: Any) -> None:
    assert len(seen(httpserver, *(a_capacity_buffer(f"b{n}", replicas=1) for n in range(5)), templates=templates)) == 5
    assert [request.path for request, _ in httpserver.log].count(POD_TEMPLATES) == 1


@pytest.mark.parametrize(("pools", "named"), [("l40s", [True]), ("a100", [])])
def test_a_buffer_that_names_pools_is_for_the_installation_that_has_them(
    pools: str, named: list[bool], httpserver: HTTPServer
) -> None:
    buffer = a_capacity_buffer()
    buffer["metadata"]["annotations"] = {"gpu-autoscaler.io/pools": pools}
    with serving(httpserver, buffer, pools=lambda: ("l40s",)) as cluster:
        assert [b.named for b in cluster.look().requests] == named


def test_a_status_field_that_the_served_version_lacks_is_not_written(httpserver: HTTPServer) -> None:
    fields = {"properties": {"conditions": {"type": "array"}, "replicas": {"type": "integer"}}}
    kind = [{"group": "autoscaling.x-k8s.io", "version": "v1beta1", "kind": "CapacityBuffer"}]
    schema = {"properties": {"status": fields}, "x-kubernetes-group-version-kind": kind}
    document = {"components": {"schemas": {"CapacityBuffer": schema}}}
    httpserver.expect_request("/openapi/v3/apis/autoscaling.x-k8s.io/v1beta1").respond_with_json(document)
    (status,) = reported(httpserver, a_capacity_buffer(replicas=2))
    assert status.keys() == {"conditions", "replicas"}
