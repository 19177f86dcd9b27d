"""Pods that do not exist yet and whose templates claim devices: they are read like living ones."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.core.model.pods import Pod
from receiver.ports import ClusterFacts
from tests.adapters.kubernetes.capacity_objects import (
    CAPACITY_BUFFERS,
    CONSUMES_REQUEST,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    RESOURCE_QUOTAS,
    a_capacity_buffer,
    a_chunk_template,
    a_named_template,
    a_provisioning_request,
)
from tests.adapters.kubernetes.custom_objects import (
    a_checked_workload,
    a_pod_set,
    a_template,
    a_workload,
    an_admission_check,
)
from tests.adapters.kubernetes.device_objects import a_claim_spec, a_device_class, a_device_request
from tests.adapters.kubernetes.device_objects import a_claim_template as a_claim_template
from tests.adapters.kubernetes.device_objects import a_resource_claim as a_resource_claim
from tests.adapters.kubernetes.group_objects import WORKER_SETS, a_worker_set, in_worker_set
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, PODS_OF_ML, a_cluster_at, a_list, a_node, a_pod
from tests.given.requests import EVERY_READER

KUEUE, DRA = "/apis/kueue.x-k8s.io/v1beta2", "/apis/resource.k8s.io/v1"
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "two"}]
CLAIMING = a_template(0, resourceClaims=CLAIMS)
SERVED = {
    f"{DRA}/resourceslices": [],
    f"{DRA}/deviceclasses": [a_device_class()],
    f"{DRA}/resourceclaims": [],
    f"{DRA}/resourceclaimtemplates": [a_claim_template("two", a_claim_spec(a_device_request(2)))],
}
Lists = Mapping[str, Sequence[dict[str, Any]] | None]  # by path; None: not served


@contextmanager
def cluster_of(httpserver: HTTPServer, lists: Lists, pods: Sequence[Any] = ()) -> Iterator[KubernetesCluster]:
    httpserver.clear()  # the fixture serves no resource.k8s.io
    httpserver.expect_request(NODES).respond_with_json(a_list(a_node()))
    httpserver.expect_request(PODS).respond_with_json(a_list(*pods))
    httpserver.expect_request(PODS_OF_ML).respond_with_json(a_list())
    for path, found in {**SERVED, **lists}.items():
        if found is not None:
            httpserver.expect_request(path).respond_with_json(a_list(*found))
    httpserver.expect_request(re.compile("^/apis/")).respond_with_json({"message": "no"}, status=404)
    cluster = a_cluster_at(httpserver.url_for(""), kueue_queued=True, readers=EVERY_READER)
    try:
        yield cluster
    finally:
        cluster.close()


def look(httpserver: HTTPServer, lists: Lists, pods: Sequence[Any] = ()) -> ClusterFacts:
    with cluster_of(httpserver, lists, pods) as cluster:
        return cluster.look()


def counts(pods: Sequence[Pod]) -> list[list[int]]:
    """How many devices each of *pods* claims."""
    return [[way.count for claim in pod.claiming.claims for ways in claim.requests for way in ways] for pod in pods]


def booked(*requests: dict[str, Any]) -> Lists:
    return {
        f"{KUEUE}/workloads": [],
        PROVISIONING_REQUESTS: requests,
        POD_TEMPLATES: [a_named_template("ppt", CLAIMING)],
    }


def test_a_workload_that_our_check_holds_back_claims_what_its_templates_say(httpserver: HTTPServer) -> None:
    workload = a_checked_workload(pod_sets=[a_pod_set(2, template=CLAIMING)])
    checks = {f"{KUEUE}/admissionchecks": [an_admission_check()], f"{KUEUE}/resourceflavors": []}
    (candidate,) = look(httpserver, {**checks, f"{KUEUE}/workloads": [workload]}).requests
    assert counts(candidate.pods) == [[2], [2]]


def test_a_queued_workload_claims_what_its_templates_say(httpserver: HTTPServer) -> None:
    workload = a_workload("train", a_pod_set(2, template=CLAIMING))
    assert counts(look(httpserver, {f"{KUEUE}/workloads": [workload]}).pods) == [[2], [2]]


def test_a_provisioning_request_books_what_its_templates_claim(httpserver: HTTPServer) -> None:
    (booking,) = look(httpserver, booked(a_provisioning_request())).requests
    assert counts(booking.pods) == [[2], [2]]


@pytest.mark.parametrize("node", [None, "gpu-1"], ids=["waiting", "bound"])
def test_a_pod_that_claims_uses_the_booking_and_is_not_counted_twice(httpserver: HTTPServer, node: str | None) -> None:
    made = [{"name": "gpu", "resourceClaimName": "made"}]
    pod = a_pod("p", gpus=0, node=node, resourceClaims=CLAIMS, annotations=CONSUMES_REQUEST)
    pod["status"]["resourceClaimStatuses"] = made
    given = {f"{DRA}/resourceclaims": [a_resource_claim("made", None, *(["gpu-0", "gpu-1"] if node else []))]}
    (booking,) = look(httpserver, {**booked(a_provisioning_request()), **given}, [pod]).requests
    assert len(booking.pods) == 1


def test_a_chunk_of_a_capacity_buffer_claims_what_its_template_says(httpserver: HTTPServer) -> None:
    chunk = a_chunk_template(gpus=0, resourceClaims=CLAIMS)
    lists = {CAPACITY_BUFFERS: [a_capacity_buffer(replicas=1)], POD_TEMPLATES: [chunk]}
    (buffer,) = look(httpserver, {**lists, RESOURCE_QUOTAS: [], f"{KUEUE}/workloads": []}).requests
    assert counts(buffer.pods) == [[2]]


def test_workers_that_start_after_their_leader_claim_what_their_template_says(httpserver: HTTPServer) -> None:
    workers = a_worker_set(3, gpus=0)
    workers["spec"]["leaderWorkerTemplate"]["workerTemplate"] = CLAIMING
    leader = in_worker_set(size=3, gpus=0, resourceClaims=CLAIMS)
    pods = look(httpserver, {f"{KUEUE}/workloads": [], WORKER_SETS: [workers]}, [leader]).pods
    assert (counts(pods), {(p.gang, p.gang_min) for p in pods}) == ([[2]] * 3, {("ml/llama-0", 3)})


def test_what_is_announced_is_not_judged_where_claims_cannot_be_read(httpserver: HTTPServer) -> None:
    workload = a_workload("train", a_pod_set(1, template=CLAIMING))
    (pod,) = look(httpserver, {f"{KUEUE}/workloads": [workload], f"{DRA}/deviceclasses": None}).pods
    assert [claim.problem for claim in pod.claiming.claims] == [
        "the list of deviceclasses (resource.k8s.io) is refused or fails"
    ]


def test_a_template_of_claims_that_is_new_is_read_for_pods_that_do_not_exist_yet(httpserver: HTTPServer) -> None:
    workload = a_workload("train", a_pod_set(1, template=CLAIMING))
    with cluster_of(httpserver, {f"{KUEUE}/workloads": [workload]}) as cluster:
        httpserver.expect_oneshot_request(f"{DRA}/resourceclaimtemplates").respond_with_json(a_list())
        assert counts(cluster.look().pods) == [[]]
        assert counts(cluster.look().pods) == [[2]]
