"""Kueue's queue as demand: which Workloads count, and as which pods."""

from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.announced import MOST_OF_ONE
from receiver.core.model.pods import Pod, PodPhase, Toleration
from receiver.ports import GANG_ANNOTATION
from tests.adapters.kubernetes.custom_objects import GPU, KUEUE, KUEUE_BEFORE, a_pod_set, a_template, a_workload
from tests.adapters.kubernetes.kubernetes_objects import a_list, a_pod, owned_by
from tests.adapters.kubernetes.served_cluster import requested_paths, served_cluster

GATED: dict[str, Any] = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}], "conditions": []}


def condition(kind: str, status: str, reason: str = "Because") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason}


def queued(httpserver: HTTPServer, *workloads: dict[str, Any], pods: tuple[dict[str, Any], ...] = ()) -> list[Pod]:
    """Return the pods that a look finds and that do not exist."""
    with served_cluster(httpserver, *pods, served={KUEUE: workloads}, kueue_queued=True) as cluster:
        return [p for p in cluster.look().pods if not p.uid]


def test_a_queued_workload_counts_as_the_pods_it_will_have(httpserver: HTTPServer) -> None:
    pods = queued(httpserver, a_workload("w", a_pod_set(2, name="workers")))
    assert [(p.key, p.gpus, p.phase) for p in pods] == [
        ("ml/w/workers-0", 1, PodPhase.WAITING),
        ("ml/w/workers-1", 1, PodPhase.WAITING),
    ]
    assert {(p.gang, p.gang_min, p.owner, p.labels["team"]) for p in pods} == {("ml/w", None, "Job/train", "vision")}
    assert [dict(p.compute) for p in pods] == [{"cpu": 4000, "pods": 1}] * 2


def test_the_pods_of_a_queued_workload_fit_where_their_template_says(httpserver: HTTPServer) -> None:
    template = a_template(
        8, nodeSelector={"gpu": "on-demand"}, tolerations=[{"key": "gpu", "operator": "Exists"}], priority=7
    )
    (pod,) = queued(httpserver, a_workload("w", a_pod_set(1, template=template), priority=1000))
    assert (pod.requests, pod.scheduling.node_selector, pod.priority) == ({GPU: 8}, {"gpu": "on-demand"}, 1000)
    assert pod.scheduling.tolerations == (Toleration(key="gpu", operator="Exists"),)


def test_a_condition_of_no_known_kind_says_nothing(httpserver: HTTPServer) -> None:
    odd = a_workload("w", a_pod_set(1), conditions=[{"type": [], "status": "True"}])
    assert len(queued(httpserver, odd)) == 1


def test_a_workload_of_one_gpu_pod_is_no_gang(httpserver: HTTPServer) -> None:
    launcher = a_pod_set(1, name="launcher", template=a_template(0))
    (pod,) = queued(httpserver, a_workload("w", launcher, a_pod_set(1, name="worker")))
    assert (pod.name, pod.gang) == ("w/worker-0", None)


def test_pods_whose_work_is_done_are_not_asked_for_again(httpserver: HTTPServer) -> None:
    workload = a_workload("w", a_pod_set(3), reclaimablePods=[{"name": "main", "count": 2}])
    assert [p.name for p in queued(httpserver, workload)] == ["w/main-0"]


def test_a_workload_that_may_start_smaller_says_how_small(httpserver: HTTPServer) -> None:
    workload = a_workload("w", a_pod_set(2, name="servers"), a_pod_set(6, name="workers", minCount=3))
    pods = queued(httpserver, workload)
    assert (len(pods), pods[0].gang_min) == (8, 5)


@pytest.mark.parametrize(
    "changes",
    [
        {"conditions": [condition("QuotaReserved", "True")]},
        {"conditions": [condition("QuotaReserved", "True"), condition("Admitted", "True")]},
        {"conditions": [condition("QuotaReserved", "False"), condition("Finished", "True")]},
        {"conditions": [condition("QuotaReserved", "False", "Inadmissible")]},
        {"active": False},
        {"deletionTimestamp": "2026-11-20T10:05:00Z"},
        {"podSets": [a_pod_set(2, template=a_template(0))]},
        {"podSets": [a_pod_set(0)]},
    ],
    ids=["reserved", "admitted", "finished", "no such queue", "inactive", "leaving", "no GPUs", "no pods"],
)
def test_what_nodes_would_not_help_is_no_demand(httpserver: HTTPServer, changes: dict[str, Any]) -> None:
    assert queued(httpserver, a_workload(**changes)) == []


@pytest.mark.parametrize(
    "conditions",
    [[], [condition("QuotaReserved", "False", "Pending")], [condition("Evicted", "True", "Preempted")]],
    ids=["new", "over quota", "preempted"],
)
def test_what_waits_for_quota_is_demand(httpserver: HTTPServer, conditions: list[dict[str, Any]]) -> None:
    assert len(queued(httpserver, a_workload(conditions=conditions))) == 2


def test_pods_that_kueue_gates_are_counted_once(httpserver: HTTPServer) -> None:
    label = {"kueue.x-k8s.io/pod-group-name": "w"}
    gated = tuple(a_pod(f"p-{n}", labels=label, **GATED) for n in range(2))
    with served_cluster(httpserver, *gated, served={KUEUE: [a_workload("w")]}, kueue_queued=True) as cluster:
        found = cluster.look().pods
    assert [p.name for p in found if p.phase is PodPhase.WAITING] == ["w/main-0", "w/main-1"]


@pytest.mark.parametrize(
    "marks",
    [
        {"ownerReferences": [{**owned_by("Job", "train")[0], "uid": "uid-of-job"}]},
        {"labels": {"kueue.x-k8s.io/pod-group-name": "w"}},
        {"annotations": {"kueue.x-k8s.io/workload": "w"}},
    ],
    ids=["owner", "pod group", "workload"],
)
def test_a_workload_that_lost_its_quota_is_not_counted_beside_its_pods(
    httpserver: HTTPServer, marks: dict[str, Any]
) -> None:
    assert queued(httpserver, a_workload("w"), pods=(a_pod(**marks),)) == []


def test_pods_that_leave_do_not_stand_for_their_workload(httpserver: HTTPServer) -> None:
    (owner,) = owned_by("Job", "train")
    leaving = a_pod(ownerReferences=[{**owner, "uid": "uid-of-job"}], deletionTimestamp="2026-11-20T10:05:00Z")
    assert len(queued(httpserver, a_workload("w"), pods=(leaving,))) == 2


def test_a_gang_annotation_in_the_template_does_not_join_workloads(httpserver: HTTPServer) -> None:
    template = {**a_template(), "metadata": {"annotations": {GANG_ANNOTATION: "all"}}}
    pods = queued(
        httpserver, a_workload("w", a_pod_set(2, template=template)), a_workload("x", a_pod_set(1, template=template))
    )
    assert [(p.name, p.gang) for p in pods] == [("w/main-0", "ml/w"), ("w/main-1", "ml/w"), ("x/main-0", None)]


def test_an_older_kueue_is_read_in_its_own_version(httpserver: HTTPServer) -> None:
    httpserver.expect_request(KUEUE).respond_with_data("404 page not found", 404)
    with served_cluster(httpserver, served={KUEUE_BEFORE: [a_workload()]}, kueue_queued=True) as cluster:
        assert len(cluster.look().pods) == 2
        cluster.look()
    assert [p for p in requested_paths(httpserver) if p.endswith("workloads")] == [KUEUE, KUEUE_BEFORE, KUEUE_BEFORE]


def test_a_long_queue_is_read_to_its_end_and_after_the_pods(httpserver: HTTPServer) -> None:
    first, second = {"limit": "500"}, {"limit": "500", "continue": "page2"}
    answer = a_list(a_workload("w-1"), more="page2")
    httpserver.expect_request(KUEUE, query_string=first).respond_with_json(answer)
    httpserver.expect_request(KUEUE, query_string=second).respond_with_json(a_list(a_workload("w-2")))
    with served_cluster(httpserver, kueue_queued=True) as cluster:
        assert {p.gang for p in cluster.look().pods} == {"ml/w-1", "ml/w-2"}
    assert [p.rpartition("/")[2] for p in requested_paths(httpserver)][:4] == [
        "nodes",
        "pods",
        "workloads",
        "workloads",
    ]


def test_without_the_setting_the_queue_is_not_read(httpserver: HTTPServer) -> None:
    with served_cluster(httpserver, served={KUEUE: [a_workload()]}) as cluster:
        assert cluster.look().pods == ()
    assert KUEUE not in requested_paths(httpserver)


def test_one_line_does_not_make_more_pods_than_can_be_looked_at_and_their_gang_stays_unfinished(
    httpserver: HTTPServer,
) -> None:
    pods = queued(httpserver, a_workload("w", a_pod_set(100_000)))
    assert len(pods) == MOST_OF_ONE
    assert {(p.gang, p.gang_min) for p in pods} == {("ml/w", 100_000)}


def test_of_too_many_pods_in_a_queue_the_largest_workloads_are_left_out(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("receiver.adapters.kubernetes.queues.MOST_OF_ALL", 5)
    workloads = [a_workload(name, a_pod_set(size)) for name, size in (("huge", 4), ("small", 1), ("middle", 3))]
    assert {p.gang or p.key for p in queued(httpserver, *workloads)} == {"ml/small/main-0", "ml/middle"}


def test_a_workload_that_cannot_be_read_keeps_nobody_elses_from_counting(httpserver: HTTPServer) -> None:
    odd = a_workload("odd", a_pod_set(template=a_template("1e3.5")))  # type: ignore[arg-type]  # what a CRD lets pass
    assert {p.gang for p in queued(httpserver, odd, a_workload("w"))} == {"ml/w"}
