"""AdmissionChecks of Kueue over the API: which Workloads the core judges, and what is written for them."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.capabilities.kueue_check.judging import KIND, READY, REJECTS, CheckState
from receiver.capabilities.kueue_check.reader import AdmissionChecks
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.ports import REJECT_TOO_LARGE, Did, TryLater
from tests.adapters.kubernetes.custom_objects import (
    CREATED,
    GPU,
    QUOTA_RESERVED,
    a_check_state,
    a_checked_workload,
    a_pod_set,
    a_template,
    an_admission_check,
)
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, a_cluster_at, a_list, a_node, a_pod
from tests.clocks import FixedClock
from tests.core.builders import NOW
from tests.given.requests import candidate_of

API = "/apis/kueue.x-k8s.io/v1beta2"


OURS = (an_admission_check(),)


def answer_of(state: CheckState, message: str = "") -> RoomAnswer:
    return RoomAnswer(kind=KIND, key="ml/train", state=state, message=message)


@contextmanager
def serving(
    httpserver: HTTPServer,
    *workloads: dict[str, Any],
    checks: Any = OURS,
    flavors: Any = (),
    pods: Any = (),
    patched: int = 200,
    **options: Any,
) -> Iterator[KubernetesCluster]:
    httpserver.expect_request(NODES).respond_with_json(a_list(a_node()))
    httpserver.expect_request(PODS).respond_with_json(a_list(*pods))
    lists = {"admissionchecks": checks, "workloads": workloads, "resourceflavors": flavors}
    for plural, found in lists.items():
        if found is not None:
            httpserver.expect_request(f"{API}/{plural}").respond_with_json(a_list(*found))
    httpserver.expect_request(re.compile("^/apis/.*/status$"), method="PATCH").respond_with_json({}, status=patched)
    httpserver.expect_request(re.compile("^/apis/")).respond_with_json({"message": "no"}, status=404)
    cluster = a_cluster_at(httpserver.url_for(""), clock=FixedClock(NOW), **{"readers": [AdmissionChecks], **options})
    try:
        yield cluster
    finally:
        cluster.close()


def seen(httpserver: HTTPServer, *workloads: dict[str, Any], **given: Any) -> tuple[RoomRequest, ...]:
    with serving(httpserver, *workloads, **given) as cluster:
        return cluster.look().requests


def patches(httpserver: HTTPServer) -> list[tuple[str, dict[str, Any]]]:
    """The paths and bodies that were applied."""
    sent = [request for request, _ in httpserver.log if request.method == "PATCH"]
    assert {(r.content_type, r.args["fieldManager"], r.args["force"]) for r in sent} <= {
        ("application/apply-patch+yaml", "gpu-autoscaler", "true")
    }
    return [(r.path, json.loads(r.get_data())) for r in sent]


def answered(httpserver: HTTPServer, workload: dict[str, Any], state: CheckState, **given: Any) -> list[dict[str, Any]]:
    """The checks as they are applied for that answer."""
    with serving(httpserver, workload, **given) as cluster:
        cluster.look()
        cluster.answer_request(answer_of(state, "because"))
    return [check for _, body in patches(httpserver) for check in body["status"]["admissionChecks"]]


# --- what the core judges ---------------------------------------------------------------------------------


def test_a_workload_with_quota_and_our_check_pending_is_judged(httpserver: HTTPServer) -> None:
    (found,) = seen(httpserver, a_checked_workload())
    assert (found.key, found.terms) == ("ml/train", {})
    assert [(p.key, p.gpus, p.gang) for p in found.pods] == [
        ("ml/train/main-0", 1, "ml/train"),
        ("ml/train/main-1", 1, "ml/train"),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"conditions": ()},
        {"conditions": [QUOTA_RESERVED, {"type": "Evicted", "status": "True"}]},
        {"conditions": [QUOTA_RESERVED, {"type": "Finished", "status": "True"}]},
        {"active": False},
        {"deletionTimestamp": CREATED},
    ],
    ids=str,
)
def test_a_workload_that_cannot_start_is_not_judged(changes: dict[str, Any], httpserver: HTTPServer) -> None:
    assert seen(httpserver, a_checked_workload(**changes)) == ()


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_what_was_answered_with_no_waits_for_kueue(state: str, httpserver: HTTPServer) -> None:
    assert seen(httpserver, a_checked_workload(a_check_state(state=state))) == ()


def test_a_check_of_another_controller_is_not_ours(httpserver: HTTPServer) -> None:
    theirs = an_admission_check("theirs", "example.com/theirs")
    assert seen(httpserver, a_checked_workload(a_check_state("theirs")), checks=(theirs,)) == ()
    assert not any("workloads" in request.path for request, _ in httpserver.log)


def test_without_kueue_nothing_is_judged(httpserver: HTTPServer) -> None:
    assert seen(httpserver, checks=None) == ()


def test_the_pods_are_those_that_got_quota_on_the_nodes_of_their_flavor(httpserver: HTTPServer) -> None:
    template = a_template(nodeSelector={"zone": "a"}, tolerations=[{"key": "x", "operator": "Exists"}])
    assigned = {"podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "l40s", GPU: "l40s"}}]}
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    flavor = {"metadata": {"name": "l40s"}, "spec": {"nodeLabels": {"gpu": "l40s"}, "tolerations": tolerations}}
    workload = a_checked_workload(admission=assigned, pod_sets=(a_pod_set(4, minCount=1, template=template),))
    (found,) = seen(httpserver, workload, flavors=(flavor,))
    (pod,) = found.pods
    assert (pod.scheduling.node_selector, [t.key for t in pod.scheduling.tolerations]) == (
        {"zone": "a", "gpu": "l40s"},
        ["x", "gpu"],
    )


def test_a_check_may_reject_what_is_too_large(httpserver: HTTPServer) -> None:
    (found,) = seen(
        httpserver, a_checked_workload(), checks=(an_admission_check(annotations={REJECT_TOO_LARGE: "true"}),)
    )
    assert REJECTS in found.terms


def test_one_that_is_ready_counts_until_its_pods_are_there(httpserver: HTTPServer) -> None:
    (found,) = seen(httpserver, a_checked_workload(a_check_state(state="Ready")))
    assert (READY in found.terms, len(found.pods)) == (True, 2)


def test_one_that_is_ready_and_has_pods_is_their_demand(httpserver: HTTPServer) -> None:
    pod = a_pod(annotations={"kueue.x-k8s.io/workload": "train"})
    assert seen(httpserver, a_checked_workload(a_check_state(state="Ready")), pods=(pod,)) == ()


@pytest.mark.parametrize(("since", "counts"), [("2026-11-20T11:56:00Z", True), ("2026-11-20T11:54:00Z", False)])
def test_an_admitted_workload_without_pods_counts_for_five_minutes(
    since: str, counts: bool, httpserver: HTTPServer
) -> None:
    admitted = {"type": "Admitted", "status": "True", "lastTransitionTime": since}
    assert (
        bool(seen(httpserver, a_checked_workload(a_check_state(state="Ready"), conditions=(QUOTA_RESERVED, admitted))))
        is counts
    )


def test_a_check_that_is_added_later_stops_no_running_work(httpserver: HTTPServer) -> None:
    admitted = {"type": "Admitted", "status": "True", "lastTransitionTime": CREATED}
    assert seen(httpserver, a_checked_workload(conditions=(QUOTA_RESERVED, admitted))) == (candidate_of("ml/train"),)


def test_what_waits_for_our_answer_is_no_queued_demand(httpserver: HTTPServer) -> None:
    with serving(httpserver, a_checked_workload(), kueue_queued=True) as cluster:
        assert cluster.look().pods == ()


def test_a_workload_with_a_quantity_that_cannot_be_read_stays_pending(httpserver: HTTPServer) -> None:
    broken = {"spec": {"containers": [{"resources": {"requests": {GPU: "many"}}}]}}
    assert seen(httpserver, a_checked_workload(pod_sets=(a_pod_set(1, template=broken),))) == ()


# --- what is written --------------------------------------------------------------------------------------


def test_an_answer_is_applied_to_our_check_alone(httpserver: HTTPServer) -> None:
    workload = a_checked_workload(a_check_state("theirs"), a_check_state(retryCount=2))
    assert answered(httpserver, workload, CheckState.READY) == [
        {"name": "budget", "state": "Ready", "message": "because", "lastTransitionTime": "2026-11-20T12:00:00Z"}
    ]
    [(path, body)] = patches(httpserver)
    assert path == f"{API.replace('v1beta2', 'v1beta2/namespaces/ml')}/workloads/train/status"
    assert (body["apiVersion"], body["kind"]) == ("kueue.x-k8s.io/v1beta2", "Workload")
    assert body["metadata"] == {"namespace": "ml", "name": "train", "uid": "uid-of-train", "resourceVersion": "9"}


def test_a_retry_says_after_which_time(httpserver: HTTPServer) -> None:
    [found] = answered(httpserver, a_checked_workload(), CheckState.RETRY)
    assert (found["state"], found["requeueAfterSeconds"]) == ("Retry", 300)


def test_a_check_that_stays_pending_keeps_its_time_and_is_written_once(httpserver: HTTPServer) -> None:
    [found] = answered(httpserver, a_checked_workload(), CheckState.PENDING)
    assert found == a_check_state(message="because")
    httpserver.clear()
    assert answered(httpserver, a_checked_workload(a_check_state(message="because")), CheckState.PENDING) == []


def test_of_two_checks_of_ours_the_one_that_is_ready_stays(httpserver: HTTPServer) -> None:
    workload = a_checked_workload(a_check_state(state="Ready", message="before"), a_check_state("second"))
    found = answered(
        httpserver, workload, CheckState.RETRY, checks=(an_admission_check(), an_admission_check("second"))
    )
    assert [(c["name"], c["state"], c["message"]) for c in found] == [
        ("budget", "Ready", "before"),
        ("second", "Retry", "because"),
    ]


def test_a_workload_that_is_gone_is_not_answered(httpserver: HTTPServer) -> None:
    with serving(httpserver) as cluster:
        cluster.look()
        assert cluster.answer_request(answer_of(CheckState.READY)).did is Did.DIFFERS


def test_our_check_is_set_active_once(httpserver: HTTPServer) -> None:
    active = {"type": "Active", "status": "True"}
    checks = (
        an_admission_check(),
        an_admission_check("done", conditions=[active]),
        an_admission_check("theirs", "example.com/theirs"),
    )
    with serving(httpserver, checks=checks) as cluster:
        cluster.look()
        assert cluster.keep_active(KIND).did is Did.DONE
    [(path, body)] = patches(httpserver)
    assert path == f"{API}/admissionchecks/budget/status"
    [condition] = body["status"]["conditions"]
    assert {name: condition[name] for name in ("type", "status", "reason")} == {**active, "reason": "Active"}


def test_a_workload_that_changed_meanwhile_is_answered_by_the_next_step(httpserver: HTTPServer) -> None:
    with serving(httpserver, a_checked_workload(), patched=409) as cluster:
        cluster.look()
        with pytest.raises(TryLater) as conflict:
            cluster.answer_request(answer_of(CheckState.READY))
    assert conflict.value.code == "conflict"


NAMES = "gpu-autoscaler.io/pools"


def named_by(annotation: str) -> dict[str, Any]:
    return an_admission_check(annotations={NAMES: annotation})


def test_a_check_that_names_a_pool_of_another_is_left_alone(httpserver: HTTPServer) -> None:
    with serving(httpserver, a_checked_workload(), checks=(named_by("a100"),), pools=lambda: ("l40s",)) as cluster:
        assert cluster.look().requests == ()
        assert cluster.keep_active(KIND).did is Did.ALREADY
        assert cluster.answer_request(answer_of(CheckState.READY)).did is Did.DIFFERS


def test_a_check_that_names_a_pool_of_ours_is_for_us_alone(httpserver: HTTPServer) -> None:
    with serving(httpserver, a_checked_workload(), checks=(named_by("l40s"),), pools=lambda: ("l40s",)) as cluster:
        assert [c.named for c in cluster.look().requests] == [True]
