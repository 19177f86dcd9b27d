"""ProvisioningRequests over the API: what the core gets of each, and the conditions that are written."""

import json
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.announced import MakeReader
from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.capabilities.provisioning_requests.progress import KIND, Booking, BookingStage
from receiver.capabilities.provisioning_requests.reader import ProvisioningRequests
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.ports import PROVISIONING_CLASS, UPSTREAM_CLASS, Did
from tests.adapters.kubernetes.capacity_objects import (
    CONSUMES_REQUEST,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    a_named_template,
    a_provisioning_request,
)
from tests.adapters.kubernetes.custom_objects import CREATED, GPU, a_template
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, a_cluster_at, a_list, a_node, a_pod
from tests.clocks import FixedClock
from tests.core.builders import NOW

BEFORE = {"cluster-autoscaler.kubernetes.io/consume-provisioning-request": "r"}


def a_condition(kind: str, status: str = "True", message: str = "", since: str = CREATED) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": "Because", "message": message, "lastTransitionTime": since}


def booking_reader(classes: Collection[str] = (PROVISIONING_CLASS,)) -> MakeReader:
    return partial(ProvisioningRequests, classes=classes)


@contextmanager
def serving(
    httpserver: HTTPServer, *requests: dict[str, Any], pods: Any = (), templates: Any = None, **options: Any
) -> Iterator[KubernetesCluster]:
    httpserver.expect_request(NODES).respond_with_json(a_list(a_node()))
    httpserver.expect_request(PODS).respond_with_json(a_list(*pods))
    httpserver.expect_request(PROVISIONING_REQUESTS).respond_with_json(a_list(*requests))
    found = [a_named_template("ppt", a_template())] if templates is None else templates
    httpserver.expect_request(POD_TEMPLATES).respond_with_json(a_list(*found))
    httpserver.expect_request(re.compile("^/apis/.*/status$"), method="PATCH").respond_with_json({})
    httpserver.expect_request(re.compile("^/apis/")).respond_with_json({"message": "no"}, status=404)
    given = {"readers": [booking_reader()], "clock": FixedClock(NOW), **options}
    cluster = a_cluster_at(httpserver.url_for(""), **given)
    try:
        yield cluster
    finally:
        cluster.close()


def seen(httpserver: HTTPServer, *requests: dict[str, Any], **given: Any) -> tuple[RoomRequest, ...]:
    with serving(httpserver, *requests, **given) as cluster:
        return cluster.look().requests


def reported(httpserver: HTTPServer, request: dict[str, Any], stage: BookingStage) -> list[dict[str, Any]]:
    """The conditions that are applied for that stage."""
    with serving(httpserver, request) as cluster:
        cluster.look()
        cluster.answer_request(RoomAnswer(kind=KIND, key="ml/r", state=stage, reason="Why", message="so"))
    sent = [request for request, _ in httpserver.log if request.method == "PATCH"]
    assert all(r.path == f"{PROVISIONING_REQUESTS.replace('/v1/', '/v1/namespaces/ml/')}/r/status" for r in sent)
    found: list[dict[str, Any]] = [c for r in sent for c in json.loads(r.get_data())["status"]["conditions"]]
    return found


def brief(conditions: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [(c["type"], c["status"], c["message"]) for c in conditions]


# --- what the core gets -----------------------------------------------------------------------------------


def test_a_request_is_a_gang_of_pods_that_wait_and_do_not_exist(httpserver: HTTPServer) -> None:
    with serving(httpserver, a_provisioning_request()) as cluster:
        facts = cluster.look()
    (booking,) = facts.requests
    assert (booking.key, booking.problem, Booking.of(booking).provisioned_at) == ("ml/r", "", None)
    assert [(p.key, p.uid, p.gang, p.gang_min) for p in booking.pods] == [
        ("ml/r/0-0", "", "ml/r", None),
        ("ml/r/0-1", "", "ml/r", None),
    ]
    assert facts.pods == booking.pods


def test_one_pod_is_a_gang_too_so_that_its_refusal_is_found(httpserver: HTTPServer) -> None:
    (booking,) = seen(httpserver, a_provisioning_request(("ppt", 1)))
    assert [p.gang for p in booking.pods] == ["ml/r"]


def test_pods_without_gpus_are_not_booked(httpserver: HTTPServer) -> None:
    templates = [a_named_template("ppt", a_template()), a_named_template("launcher", a_template(0))]
    (booking,) = seen(httpserver, a_provisioning_request(("launcher", 1), ("ppt", 2)), templates=templates)
    assert [p.key for p in booking.pods] == ["ml/r/1-0", "ml/r/1-1"]


@pytest.mark.parametrize("kind", ["Failed", "BookingExpired"])
def test_a_request_that_has_ended_books_nothing(kind: str, httpserver: HTTPServer) -> None:
    assert seen(httpserver, a_provisioning_request(conditions=[a_condition(kind)])) == ()


def test_other_classes_are_left_to_others(httpserver: HTTPServer) -> None:
    assert seen(httpserver, a_provisioning_request(provisioningClassName=UPSTREAM_CLASS)) == ()


def test_the_class_of_upstream_is_served_where_it_is_asked_for(httpserver: HTTPServer) -> None:
    classes = (PROVISIONING_CLASS, UPSTREAM_CLASS)
    request = a_provisioning_request(provisioningClassName=UPSTREAM_CLASS, parameters={"ValidUntilSeconds": "3600"})
    (booking,) = seen(httpserver, request, readers=[booking_reader(classes)])
    assert Booking.of(booking).valid_for == timedelta(hours=1)


def test_a_request_of_upstream_without_gpus_is_left_to_others(httpserver: HTTPServer) -> None:
    request, templates = (
        a_provisioning_request(provisioningClassName=UPSTREAM_CLASS),
        [a_named_template("ppt", a_template(0))],
    )
    assert seen(httpserver, request, templates=templates, readers=[booking_reader((UPSTREAM_CLASS,))]) == ()


@pytest.mark.parametrize(
    ("request_", "templates", "problem"),
    [
        (a_provisioning_request(), [], "PodTemplate ppt is not there"),
        (a_provisioning_request(), [a_named_template("ppt", a_template(0))], "none of its pods asks for a GPU"),
        (a_provisioning_request(("ppt", 1001)), None, "it asks for 1001 GPU pods; at most 1000 are booked at once"),
    ],
    ids=str,
)
def test_what_cannot_be_booked_says_why(
    request_: dict[str, Any], templates: Any, problem: str, httpserver: HTTPServer
) -> None:
    (booking,) = seen(httpserver, request_, templates=templates)
    assert (booking.problem, booking.pods) == (problem, ())


def test_a_new_request_waits_for_its_templates_which_kueue_makes_after_it(httpserver: HTTPServer) -> None:
    made = datetime.fromisoformat(CREATED)
    assert seen(httpserver, a_provisioning_request(), templates=[], clock=FixedClock(made + timedelta(minutes=4))) == ()


@pytest.mark.parametrize("annotations", [CONSUMES_REQUEST, BEFORE], ids=["now", "before"])
def test_pods_that_use_it_take_the_place_of_its_own(annotations: dict[str, str], httpserver: HTTPServer) -> None:
    pod = a_pod("train-0", annotations=annotations)
    (booking,) = seen(httpserver, a_provisioning_request(), pods=(pod,))
    assert (len(booking.pods), Booking.of(booking).consumed) == (1, False)


def test_pods_that_use_it_take_the_place_of_their_like(httpserver: HTTPServer) -> None:
    templates = [a_named_template("small", a_template(1)), a_named_template("large", a_template(4))]
    request, pod = (
        a_provisioning_request(("small", 1), ("large", 1)),
        a_pod("train-0", gpus=4, annotations=CONSUMES_REQUEST),
    )
    (booking,) = seen(httpserver, request, templates=templates, pods=(pod,))
    assert [p.requests for p in booking.pods] == [{GPU: 1}]


def test_a_pod_behind_a_gate_does_not_use_it_yet(httpserver: HTTPServer) -> None:
    gated = a_pod("train-0", annotations=CONSUMES_REQUEST, schedulingGates=[{"name": "theirs"}])
    assert len(seen(httpserver, a_provisioning_request(), pods=(gated,))[0].pods) == 2


@pytest.mark.parametrize(("node", "consumed"), [("gpu-1", True), (None, False)])
def test_it_is_consumed_once_all_its_pods_have_nodes(node: str | None, consumed: bool, httpserver: HTTPServer) -> None:
    pods = [a_pod(f"train-{n}", node=node, annotations=CONSUMES_REQUEST) for n in range(2)]
    [booking] = seen(httpserver, a_provisioning_request(), pods=pods)
    assert Booking.of(booking).consumed is consumed


def test_the_condition_remembers_since_when_it_is_booked(httpserver: HTTPServer) -> None:
    provisioned = a_condition("Provisioned", since="2026-11-20T11:55:00Z")
    [booking] = seen(httpserver, a_provisioning_request(conditions=[provisioned]))
    assert Booking.of(booking).provisioned_at == NOW - timedelta(minutes=5)
    httpserver.clear()
    [waiting] = seen(httpserver, a_provisioning_request(conditions=[a_condition("Provisioned", "False")]))
    assert Booking.of(waiting).provisioned_at is None


def test_what_was_read_last_counts_while_the_api_server_does_not_answer(httpserver: HTTPServer) -> None:
    with serving(httpserver, a_provisioning_request()) as cluster:
        before = cluster.look()
        httpserver.clear()
        httpserver.expect_request(NODES).respond_with_json(a_list(a_node()))
        httpserver.expect_request(PODS).respond_with_json(a_list())
        httpserver.expect_request(re.compile("^/apis/")).respond_with_json({"message": "no"}, status=500)
        assert cluster.look().requests == before.requests


# --- what is written --------------------------------------------------------------------------------------


def test_a_new_request_is_accepted_and_says_what_it_waits_for(httpserver: HTTPServer) -> None:
    found = reported(httpserver, a_provisioning_request(), BookingStage.ACCEPTED)
    assert brief(found) == [
        ("Accepted", "True", "gpu-autoscaler buys nodes for all pods or for none"),
        ("Provisioned", "False", "so"),
    ]


def test_one_that_has_its_nodes_is_provisioned(httpserver: HTTPServer) -> None:
    waits = [a_condition("Accepted"), a_condition("Provisioned", "False", "nodes for 2 pods")]
    found = reported(httpserver, a_provisioning_request(conditions=waits), BookingStage.PROVISIONED)
    assert [(c["type"], c["lastTransitionTime"]) for c in found] == [
        ("Accepted", CREATED),
        ("Provisioned", "2026-11-20T12:00:00Z"),
    ]


@pytest.mark.parametrize("stage", [BookingStage.FAILED, BookingStage.EXPIRED])
def test_an_end_keeps_the_conditions_before_it(stage: BookingStage, httpserver: HTTPServer) -> None:
    before = [a_condition("Accepted", message="yes"), a_condition("Provisioned", "True", "booked")]
    found = reported(httpserver, a_provisioning_request(conditions=before), stage)
    assert brief(found) == [("Accepted", "True", "yes"), ("Provisioned", "True", "booked"), (stage.value, "True", "so")]


def test_a_booking_that_goes_on_is_not_written(httpserver: HTTPServer) -> None:
    booked = [a_condition("Accepted"), a_condition("Provisioned")]
    assert reported(httpserver, a_provisioning_request(conditions=booked), BookingStage.PROVISIONED) == []


def test_a_request_that_is_gone_is_not_written(httpserver: HTTPServer) -> None:
    with serving(httpserver) as cluster:
        cluster.look()
        said = RoomAnswer(kind=KIND, key="ml/r", state=BookingStage.FAILED, reason="Why")
        assert cluster.answer_request(said).did is Did.DIFFERS


@pytest.mark.parametrize(("pools", "named"), [("l40s", [True]), ("a100", [])])
def test_a_request_that_names_pools_is_for_the_installation_that_has_them(
    pools: str, named: list[bool], httpserver: HTTPServer
) -> None:
    request = a_provisioning_request(parameters={"gpu-autoscaler.io/pools": pools})
    assert [b.named for b in seen(httpserver, request, pools=lambda: ("l40s",))] == named
