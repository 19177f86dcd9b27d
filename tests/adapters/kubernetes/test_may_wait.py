"""Where work says how long it may wait: on the pod, or on the Job, PodGroup or Workload that it belongs to."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.core.model.pods import Pod, PodPhase
from receiver.ports import MAY_WAIT
from tests.adapters.kubernetes.custom_objects import (
    COSCHEDULING_GROUPS,
    IN_COSCHEDULING_GROUP,
    KUEUE,
    a_group,
    a_workload,
)
from tests.adapters.kubernetes.kubernetes_objects import a_pod, owned_by
from tests.adapters.kubernetes.served_cluster import requested_paths, served_cluster

JOBS = "/apis/batch/v1/jobs"
HOURS = {MAY_WAIT: "4h"}


def seen(httpserver: HTTPServer, *pods: dict[str, Any], **lists: Any) -> list[Pod]:
    with served_cluster(httpserver, *pods, **lists) as cluster:
        return list(cluster.look().pods)


def a_job(name: str, uid: str, annotations: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"namespace": "ml", "name": name, "uid": uid, "annotations": annotations}}


def test_a_pod_says_it_itself(httpserver: HTTPServer) -> None:
    (pod,) = seen(httpserver, a_pod(annotations=HOURS))
    assert (pod.phase, pod.wishes.may_wait) == (PodPhase.WAITING, timedelta(hours=4))


def test_a_pod_behind_our_scheduling_gate_is_deferred(httpserver: HTTPServer) -> None:
    (pod,) = seen(httpserver, a_pod(annotations=HOURS, schedulingGates=[{"name": MAY_WAIT}], conditions=[]))
    assert pod.phase is PodPhase.DEFERRED


@pytest.mark.parametrize("others", [["queue"], ["queue", MAY_WAIT]])
def test_a_pod_behind_another_gate_is_not_ours_to_admit(httpserver: HTTPServer, others: list[str]) -> None:
    (pod,) = seen(httpserver, a_pod(annotations=HOURS, schedulingGates=[{"name": n} for n in others], conditions=[]))
    assert pod.phase is PodPhase.OTHER


def test_the_annotation_of_a_job_counts_for_its_waiting_pods(httpserver: HTTPServer) -> None:
    pods = [a_pod(name, ownerReferences=owned_by("Job", name)) for name in ("says", "silent")]
    jobs = [a_job("says", "uid-of-Job-says", HOURS), a_job("silent", "uid-of-Job-silent", {})]
    found = seen(httpserver, *pods, served={JOBS: jobs})
    assert [pod.wishes.may_wait for pod in found] == [timedelta(hours=4), None]


def test_a_pods_own_annotation_outranks_that_of_its_job(httpserver: HTTPServer) -> None:
    pod = a_pod(annotations={MAY_WAIT: "1h"}, ownerReferences=owned_by("Job", "j"))
    (found,) = seen(httpserver, pod, served={JOBS: [a_job("j", "uid-of-Job-j", HOURS)]})
    assert found.wishes.may_wait == timedelta(hours=1)


def test_jobs_are_not_read_while_no_pod_of_a_job_waits(httpserver: HTTPServer) -> None:
    pods = [
        a_pod("runs", node="gpu-1", ownerReferences=owned_by("Job")),
        a_pod("other", ownerReferences=owned_by("Set")),
    ]
    with served_cluster(httpserver, *pods) as cluster:
        cluster.look()
    assert JOBS not in requested_paths(httpserver)


def test_without_the_right_to_read_jobs_their_pods_count_as_urgent(httpserver: HTTPServer) -> None:
    httpserver.expect_request(JOBS).respond_with_json({"kind": "Status", "message": "no"}, status=403)
    (pod,) = seen(httpserver, a_pod(ownerReferences=owned_by("Job")))
    assert pod.wishes.may_wait is None


def test_the_annotation_of_a_pod_group_counts_for_its_pods(httpserver: HTTPServer) -> None:
    group = a_group("big", 1)
    group["metadata"]["annotations"] = HOURS
    (pod,) = seen(httpserver, a_pod(**IN_COSCHEDULING_GROUP), served={COSCHEDULING_GROUPS: [group]})
    assert pod.wishes.may_wait == timedelta(hours=4)


def test_the_annotation_of_a_queued_workload_counts_for_the_pods_it_announces(httpserver: HTTPServer) -> None:
    workload = a_workload()
    workload["metadata"]["annotations"] = HOURS
    found = seen(httpserver, served={KUEUE: [workload]}, kueue_queued=True)
    assert {pod.wishes.may_wait for pod in found} == {timedelta(hours=4)}


def test_a_queued_workload_whose_template_has_our_gate_is_demand_all_the_same(httpserver: HTTPServer) -> None:
    workload = a_workload()
    workload["spec"]["podSets"][0]["template"]["spec"]["schedulingGates"] = [{"name": MAY_WAIT}]
    found = seen(httpserver, served={KUEUE: [workload]}, kueue_queued=True)
    assert {pod.phase for pod in found} == {PodPhase.WAITING}


def test_while_jobs_and_groups_cannot_be_read_what_they_said_last_counts(httpserver: HTTPServer) -> None:
    group = a_group("big", 1)
    group["metadata"]["annotations"] = HOURS
    pods = [a_pod("of-job", ownerReferences=owned_by("Job", "j")), a_pod("of-group", **IN_COSCHEDULING_GROUP)]
    lists = {JOBS: [a_job("j", "uid-of-Job-j", HOURS)], COSCHEDULING_GROUPS: [group]}
    with served_cluster(httpserver, *pods) as cluster:
        for path, found in lists.items():
            httpserver.expect_oneshot_request(path).respond_with_json({"metadata": {}, "items": found})
            httpserver.expect_request(path).respond_with_json({"kind": "Status"}, status=500)
        both = [[pod.wishes.may_wait for pod in cluster.look().pods] for _ in range(2)]
    assert both == [[timedelta(hours=4)] * 2] * 2


def test_a_pod_without_gpus_behind_our_gate_is_seen_and_asks_for_nothing(httpserver: HTTPServer) -> None:
    (pod,) = seen(httpserver, a_pod(gpus=0, annotations=HOURS, schedulingGates=[{"name": MAY_WAIT}], conditions=[]))
    assert (pod.phase, pod.gpus) == (PodPhase.DEFERRED, 0)
