"""Volcano's pending PodGroups as demand: their pods, and how far a queue's capability goes."""

from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.announced import MOST_OF_ONE
from receiver.core.model.pods import Pod, PodPhase, Toleration
from receiver.ports import GANG_ANNOTATION
from tests.adapters.kubernetes.custom_objects import (
    GPU,
    PRIORITY_CLASSES,
    VOLCANO_GROUPS,
    VOLCANO_JOBS,
    VOLCANO_QUEUES,
    a_group,
    a_queue,
    a_template,
    a_vcjob,
    of_gpus,
    owned_by_vcjob,
)
from tests.adapters.kubernetes.kubernetes_objects import a_pod, scheduling_refusal
from tests.adapters.kubernetes.served_cluster import requested_paths, served_cluster

MEMBER: dict[str, Any] = {"annotations": {"scheduling.volcano.sh/group-name": "pg"}}


def found(httpserver: HTTPServer, *groups: dict[str, Any], **more: Any) -> list[Pod]:
    """Return the pods of a look with podgroup demand; *more* are queues, jobs, classes and pods."""
    queues = more.pop("queues", [a_queue()])
    served: dict[str, Any] = {VOLCANO_GROUPS: groups, VOLCANO_QUEUES: queues}
    served |= {VOLCANO_JOBS: more["jobs"]} if "jobs" in more else {}
    served |= {PRIORITY_CLASSES: more["classes"]} if "classes" in more else {}
    with served_cluster(httpserver, *more.get("pods", ()), served=served, volcano_podgroups=True) as cluster:
        return list(cluster.look().pods)


def test_a_pending_group_without_pods_counts_as_its_minimum(httpserver: HTTPServer) -> None:
    pods = found(httpserver, a_group("pg", 2, minResources=of_gpus(2)))
    assert [(p.key, p.uid, dict(p.requests), p.phase, p.gang) for p in pods] == [
        ("ml/pg/0", "", {GPU: 1}, PodPhase.WAITING, "ml/pg"),
        ("ml/pg/1", "", {GPU: 1}, PodPhase.WAITING, "ml/pg"),
    ]


@pytest.mark.parametrize(
    "size, gpus, shares", [(3, 8, [3, 3, 2]), (3, 2, [1, 1]), (1, 4, [4])], ids=["uneven", "a launcher", "one pod"]
)
def test_gpus_are_shared_out_in_whole_units(httpserver: HTTPServer, size: int, gpus: int, shares: list[int]) -> None:
    pods = found(httpserver, a_group("pg", size, minResources=of_gpus(gpus)))
    assert [p.gpus for p in pods] == shares
    assert {p.gang for p in pods} == {"ml/pg" if len(shares) > 1 else None}


def test_what_a_group_needs_beside_gpus_is_shared_out_evenly(httpserver: HTTPServer) -> None:
    least = {**of_gpus(2), "cpu": "8", "memory": "31"}
    pods = found(httpserver, a_group("pg", 3, minResources=least))
    assert [dict(p.compute) for p in pods] == [{"cpu": 2667, "memory": 11, "pods": 1}] * 2


def test_the_job_behind_a_group_says_what_its_pods_are_and_where_they_fit(httpserver: HTTPServer) -> None:
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    job = a_vcjob(
        "train",
        {"name": "launcher", "replicas": 1, "template": a_template(0)},
        {"name": "worker", "replicas": 2, "template": a_template(8, nodeSelector={"a": "b"}, tolerations=tolerations)},
    )
    pods = found(httpserver, a_group("pg", 3, ownerReferences=owned_by_vcjob("train")), jobs=[job])
    assert [(p.name, p.gpus) for p in pods] == [("pg/1", 8), ("pg/2", 8)]
    assert (pods[0].scheduling.node_selector, pods[0].scheduling.tolerations) == (
        {"a": "b"},
        (Toleration(key="gpu", operator="Exists"),),
    )


def test_each_task_brings_its_own_minimum_first(httpserver: HTTPServer) -> None:
    job = a_vcjob(
        "train",
        {"name": "a", "replicas": 4, "minAvailable": 1, "template": a_template(1)},
        {"name": "b", "replicas": 4, "minAvailable": 2, "template": a_template(2)},
    )
    pods = found(httpserver, a_group("pg", 4, ownerReferences=owned_by_vcjob("train")), jobs=[job])
    assert [p.gpus for p in pods] == [1, 2, 2, 1]


def test_without_the_right_to_read_jobs_a_group_still_counts(httpserver: HTTPServer) -> None:
    httpserver.expect_request(VOLCANO_JOBS).respond_with_data("{}", 403)
    group = a_group("pg", 2, minResources=of_gpus(2), ownerReferences=owned_by_vcjob("train"))
    assert len(found(httpserver, group)) == 2


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_only_a_pending_group_is_announced(httpserver: HTTPServer, phase: str) -> None:
    assert found(httpserver, a_group("pg", 2, minResources=of_gpus(2), phase=phase)) == []


def test_a_group_without_a_phase_is_new(httpserver: HTTPServer) -> None:
    assert len(found(httpserver, a_group("pg", 2, minResources=of_gpus(2), phase=None))) == 2


def test_a_group_with_pods_is_not_announced_beside_them(httpserver: HTTPServer) -> None:
    pods = [a_pod("w-0", **MEMBER), a_pod("w-1", **MEMBER)]
    assert {p.uid for p in found(httpserver, a_group("pg", 2, minResources=of_gpus(2)), pods=pods)} == {
        "uid-of-w-0",
        "uid-of-w-1",
    }


def test_another_name_for_the_gang_does_not_hide_that_the_group_has_pods(httpserver: HTTPServer) -> None:
    pod = a_pod("w-0", annotations={**MEMBER["annotations"], GANG_ANNOTATION: "mine"})
    assert [p.name for p in found(httpserver, a_group("pg", 2, minResources=of_gpus(2)), pods=[pod])] == ["w-0"]


def test_pods_of_a_pending_group_that_volcano_never_tried_wait_as_far_as_its_minimum(httpserver: HTTPServer) -> None:
    pods = [a_pod(f"w-{n}", **MEMBER, **scheduling_refusal("Undetermined")) for n in range(3)]
    seen = sorted((p.name, p.phase) for p in found(httpserver, a_group("pg", 2), pods=pods))
    assert seen == [("w-0", PodPhase.WAITING), ("w-1", PodPhase.WAITING), ("w-2", PodPhase.OTHER)]


def test_pods_that_volcano_never_tried_are_no_demand_beyond_the_capability(httpserver: HTTPServer) -> None:
    pods = [a_pod(f"w-{n}", **MEMBER, **scheduling_refusal("Undetermined")) for n in range(2)]
    phases = {p.phase for p in found(httpserver, a_group("pg", 2), pods=pods, queues=[a_queue(capability=1)])}
    assert phases == {PodPhase.OTHER}


@pytest.mark.parametrize(
    "queue, names",
    [
        (a_queue(), ["big", "small"]),
        (a_queue(capability=6), ["big", "small"]),
        (a_queue(capability=5), ["big"]),
        (a_queue(capability=6, allocated=1), ["big"]),
        (a_queue(capability=3), ["small"]),
        (a_queue(capability=0), []),
        (a_queue(state="Closed"), []),
        (a_queue("other"), []),
    ],
    ids=["no bound", "all", "the first", "less what runs", "the one that fits", "none", "closed", "no such queue"],
)
def test_the_capability_of_a_queue_bounds_its_groups(httpserver: HTTPServer, queue: Any, names: list[str]) -> None:
    big = a_group("big", 4, minResources=of_gpus(4), creationTimestamp="2026-11-20T09:00:00Z")
    pods = found(httpserver, big, a_group("small", 2, minResources=of_gpus(2)), queues=[queue])
    assert sorted({p.name.partition("/")[0] for p in pods}) == names


def test_groups_that_were_enqueued_have_a_claim_on_the_capability(httpserver: HTTPServer) -> None:
    enqueued = a_group("first", 4, minResources=of_gpus(4), phase="Inqueue")
    waits = a_group("second", 2, minResources=of_gpus(2))
    assert found(httpserver, enqueued, waits, queues=[a_queue(capability=5)]) == []


def test_a_group_of_higher_priority_is_served_first(httpserver: HTTPServer) -> None:
    old = a_group("old", 2, minResources=of_gpus(2), creationTimestamp="2026-11-20T09:00:00Z")
    urgent = a_group("urgent", 2, minResources=of_gpus(2), priorityClassName="high")
    classes = [{"metadata": {"name": "high"}, "value": 1000}]
    pods = found(httpserver, old, urgent, classes=classes, queues=[a_queue(capability=3)])
    assert {(p.name.partition("/")[0], p.priority) for p in pods} == {("urgent", 1000)}


def test_without_the_setting_pending_groups_are_not_read(httpserver: HTTPServer) -> None:
    with served_cluster(httpserver, served={VOLCANO_GROUPS: [a_group(minResources=of_gpus(2))]}) as cluster:
        assert cluster.look().pods == ()
    assert VOLCANO_GROUPS not in requested_paths(httpserver)


def test_one_line_does_not_make_more_pods_than_can_be_looked_at(httpserver: HTTPServer) -> None:
    job = a_vcjob("train", {"name": "worker", "replicas": 100_000, "template": a_template()})
    (owned, shared) = (
        a_group("owned", 100_000, ownerReferences=owned_by_vcjob("train")),
        a_group("shared", 100_000, minResources=of_gpus(4)),
    )
    pods = found(httpserver, owned, shared, jobs=[job])
    assert {gang: sum(p.gang == gang for p in pods) for gang in ("ml/owned", "ml/shared")} == {
        "ml/owned": MOST_OF_ONE,
        "ml/shared": 4,
    }
    assert {p.gang_min for p in pods if p.gang == "ml/owned"} == {100_000}


@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_a_group_that_cannot_be_read_keeps_nobody_elses_from_counting(httpserver: HTTPServer, phase: str) -> None:
    odd = a_group("odd", 2, minResources={GPU: "1e3.5"}, phase=phase)
    pods = found(httpserver, odd, a_group("pg", 2, minResources=of_gpus(2)), queues=[a_queue(capability=8)])
    assert {p.gang for p in pods} == {"ml/pg"}
