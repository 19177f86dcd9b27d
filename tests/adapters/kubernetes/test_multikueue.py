"""On a manager of MultiKueue, work that runs in another cluster is no demand here."""

import re
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs

from receiver.capabilities.kueue_check.reader import AdmissionChecks
from tests.adapters.kubernetes.custom_objects import KUEUE, KUEUE_BEFORE, a_workload
from tests.adapters.kubernetes.served_cluster import served_cluster
from tests.given.requests import candidate_of

Raw = dict[str, Any]
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
JOBS = "/apis/batch/v1/jobs"
IN_STATUS = {"admissionChecks": [{"name": "mk", "state": "Pending"}]}
BY_STRATEGY: Raw = {"admissionChecksStrategy": {"admissionChecks": [{"name": "mk", "onFlavors": []}]}}
BY_NAME: Raw = {"admissionChecks": ["mk"]}


def lists(version: str = "v1beta2", **queue: Any) -> dict[str, list[Raw]]:
    """A manager's check, and the queue ``gpus`` of namespace ml with *queue* as the ClusterQueue's spec."""
    path = f"/apis/kueue.x-k8s.io/{version}"
    return {
        f"{path}/admissionchecks": [{"metadata": {"name": "mk"}, "spec": {"controllerName": MULTIKUEUE}}],
        f"{path}/clusterqueues": [{"metadata": {"name": "cq"}, "spec": queue}],
        f"{path}/localqueues": [{"metadata": {"namespace": "ml", "name": "gpus"}, "spec": {"clusterQueue": "cq"}}],
    }


def gangs(httpserver: HTTPServer, *workloads: Raw, **served: list[Raw]) -> set[str | None]:
    httpserver.expect_request(JOBS).respond_with_json({"metadata": {}, "items": served.pop("jobs", [])})
    every = {KUEUE: list(workloads), **served}
    with served_cluster(httpserver, served=every, kueue_queued=True) as cluster:
        return {pod.gang for pod in cluster.look().pods}


@pytest.mark.parametrize("queue", [BY_STRATEGY, BY_NAME], ids=["strategy", "names"])
def test_a_queue_with_the_check_of_multikueue_asks_for_nothing(httpserver: HTTPServer, queue: Raw) -> None:
    here = a_workload("here", queueName="others")
    assert gangs(httpserver, a_workload("w"), here, **lists(**queue)) == {"ml/here"}


def test_the_older_version_is_read_too(httpserver: HTTPServer) -> None:
    httpserver.expect_request(re.compile("/v1beta2/")).respond_with_data("no such version", 404)
    served: dict[str, Any] = {KUEUE_BEFORE: [a_workload("w")], JOBS: [], **lists("v1beta1", **BY_NAME)}
    with served_cluster(httpserver, served=served, kueue_queued=True) as cluster:
        assert cluster.look().pods == ()


def test_a_queue_without_the_check_asks_as_before(httpserver: HTTPServer) -> None:
    assert gangs(httpserver, a_workload("w"), **lists(admissionChecks=["other"])) == {"ml/w"}


def test_the_status_of_a_workload_tells_too(httpserver: HTTPServer) -> None:
    sent = a_workload("w")
    sent["status"] |= IN_STATUS
    assert gangs(httpserver, sent, **lists()) == set()


@pytest.mark.parametrize(("managed_by", "expected"), [(MULTIKUEUE, set()), ("example.com/other", {"ml/w"})])
def test_a_job_that_multikueue_manages_asks_for_nothing(
    httpserver: HTTPServer, managed_by: str, expected: set[str]
) -> None:
    job = {"metadata": {"namespace": "ml", "name": "train", "uid": "uid-of-job"}, "spec": {"managedBy": managed_by}}
    assert gangs(httpserver, a_workload("w"), jobs=[job]) == expected


@pytest.mark.parametrize("missing", ["clusterqueues", "localqueues"])
def test_while_its_queues_cannot_be_read_no_queued_work_buys_nodes(httpserver: HTTPServer, missing: str) -> None:
    served = {path: found for path, found in lists(**BY_NAME).items() if not path.endswith(missing)}
    httpserver.expect_request(re.compile(missing)).respond_with_data("{}", 403)
    assert gangs(httpserver, a_workload("w", queueName="others"), **served) == set()


def test_the_log_says_why_nothing_is_bought(httpserver: HTTPServer) -> None:
    with capture_logs() as logs:
        gangs(httpserver, a_workload("w"), **lists(**BY_NAME))
    (line,) = [each for each in logs if each["event"] == "Workloads of MultiKueue"]
    assert line["detail"] == "ml/w: no node is bought here, as their pods start in another cluster"


def test_our_check_covers_nothing_for_a_workload_that_runs_elsewhere(httpserver: HTTPServer) -> None:
    """Its nodes cost this cluster nothing, so Kueue need not wait for an answer."""
    served: dict[str, Any] = lists()
    path = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks"
    served[path].append({"metadata": {"name": "money"}, "spec": {"controllerName": "gpu-autoscaler.io/budget"}})
    workload = a_workload("w", conditions=[{"type": "QuotaReserved", "status": "True"}])
    workload["status"]["admissionChecks"] = [{"name": name, "state": "Pending"} for name in ("mk", "money")]
    with served_cluster(httpserver, served={KUEUE: [workload], **served}, readers=[AdmissionChecks]) as cluster:
        assert cluster.look().requests == (candidate_of("ml/w"),)
