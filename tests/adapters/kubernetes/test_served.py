"""What is written of an object's status where an older version of its API lacks a field."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs
from werkzeug import Request, Response

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.capabilities.kueue_check.reader import AdmissionChecks
from receiver.core.model.room_requests import RoomAnswer
from receiver.ports import TryLater
from tests.adapters.kubernetes.custom_objects import a_checked_workload, an_admission_check
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, a_cluster_at, a_list, a_node
from tests.clocks import FixedClock
from tests.core.builders import NOW

GROUP, VERSION = "kueue.x-k8s.io", "v1beta1"
API = f"/apis/{GROUP}/{VERSION}"
OPENAPI = f"/openapi/v3/apis/{GROUP}/{VERSION}"
REFUSED = (
    "failed to create typed patch object (ml/train; kueue.x-k8s.io/v1beta1, Kind=Workload): "
    '.status.admissionChecks[name="budget"].requeueAfterSeconds: field not declared in schema'
)
RETRY = RoomAnswer(kind="kueue_check", key="ml/train", state="Retry", message="the budget is at its hold line")


def a_document(*fields: str, checks: Any = None) -> dict[str, Any]:
    """An OpenAPI document in which the state of a check has these *fields*; the shape is that of a CRD."""
    string = {"type": "string"}
    entry = {"allOf": [{"$ref": "#/components/schemas/State"}], "default": {}}
    status = {"properties": {"admissionChecks": checks or {"type": "array", "items": entry}}}
    kind = [{"group": GROUP, "version": VERSION, "kind": "Workload"}]
    return {
        "components": {
            "schemas": {
                "State": {"type": "object", "properties": dict.fromkeys(fields, string)},
                "Workload": {"properties": {"status": status}, "x-kubernetes-group-version-kind": kind},
            }
        }
    }


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    """A cluster with Kueue's older API, in which the Workload ml/train waits for our answer."""
    httpserver.expect_request(NODES).respond_with_json(a_list(a_node()))
    httpserver.expect_request(PODS).respond_with_json(a_list())
    httpserver.expect_request(f"{API}/admissionchecks").respond_with_json(a_list(an_admission_check()))
    httpserver.expect_request(f"{API}/workloads").respond_with_json(a_list(a_checked_workload()))
    httpserver.expect_request(f"{API}/resourceflavors").respond_with_json(a_list())
    adapter = a_cluster_at(httpserver.url_for(""), clock=FixedClock(NOW), readers=[AdmissionChecks])
    yield adapter
    adapter.close()


def written(httpserver: HTTPServer) -> list[dict[str, Any]]:
    """The state of our check in each write, without its time."""
    bodies = [json.loads(r.get_data()) for r, _ in httpserver.log if r.method == "PATCH"]
    states = [body["status"]["admissionChecks"][0] for body in bodies]
    return [{name: value for name, value in state.items() if name != "lastTransitionTime"} for state in states]


def accept(httpserver: HTTPServer) -> None:
    httpserver.expect_request(re.compile("^/apis/.*/status$"), method="PATCH").respond_with_json({})


def otherwise(httpserver: HTTPServer) -> None:
    httpserver.expect_request(re.compile("^/")).respond_with_json({"message": "no"}, status=404)


PLAIN = {"name": "budget", "state": "Retry", "message": RETRY.message}


@pytest.mark.parametrize(
    ("document", "state"),
    [
        pytest.param(a_document("name", "state", "message", "lastTransitionTime"), PLAIN, id="before Kueue 0.15"),
        pytest.param(
            a_document("name", "state", "message", "lastTransitionTime", "requeueAfterSeconds"),
            {**PLAIN, "requeueAfterSeconds": 300},
            id="since Kueue 0.15",
        ),
        pytest.param(
            a_document(checks={"x-kubernetes-preserve-unknown-fields": True}),
            {**PLAIN, "requeueAfterSeconds": 300},
            id="any field",
        ),
        pytest.param({}, {**PLAIN, "requeueAfterSeconds": 300}, id="a document without the kind"),
    ],
)
def test_only_fields_that_the_served_version_has_are_written(
    httpserver: HTTPServer, cluster: KubernetesCluster, document: dict[str, Any], state: dict[str, Any]
) -> None:
    httpserver.expect_request(OPENAPI).respond_with_json(document)
    accept(httpserver)
    otherwise(httpserver)
    cluster.look()
    with capture_logs() as said:
        cluster.answer_request(RETRY)
    assert written(httpserver) == [state]
    told = [line["detail"] for line in said if line["event"] == "field not served"]
    lost = "this cluster's Workload (kueue.x-k8s.io/v1beta1) has no field .status.admissionChecks[].requeueAfterSeconds"
    assert told == ([f"{lost}: it is left out"] if state == PLAIN else [])


def test_without_the_document_a_field_that_a_refusal_names_is_left_out(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    def answer(request: Request) -> Response:
        known = "requeueAfterSeconds" not in request.get_data(as_text=True)
        return Response("{}" if known else json.dumps({"message": REFUSED}), 200 if known else 500)

    httpserver.expect_request(re.compile("^/apis/.*/status$"), method="PATCH").respond_with_handler(answer)
    otherwise(httpserver)
    cluster.look()
    cluster.answer_request(RETRY)
    cluster.answer_request(RETRY)
    assert written(httpserver) == [{**PLAIN, "requeueAfterSeconds": 300}, PLAIN, PLAIN]


def test_a_refusal_that_names_no_field_is_told_and_tried_once(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    refusal = {"message": "etcd is away"}
    httpserver.expect_request(re.compile("^/apis/.*/status$"), method="PATCH").respond_with_json(refusal, status=500)
    otherwise(httpserver)
    cluster.look()
    with pytest.raises(TryLater, match="etcd is away"):
        cluster.answer_request(RETRY)
    assert len(written(httpserver)) == 1
