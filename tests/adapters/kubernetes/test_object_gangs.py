"""Gangs of kube-scheduler's groups, JobSets and LeaderWorkerSets, and pods of theirs that are yet to come."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs

from receiver.adapters.kubernetes.gangs import Gangs
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.core.model.pods import Pod, PodPhase
from receiver.ports import GANG_ANNOTATION
from tests.adapters.kubernetes.custom_objects import VOLCANO_GROUPS, a_group
from tests.adapters.kubernetes.group_objects import (
    BASIC,
    JOB_SETS,
    NATIVE_WORKLOADS,
    POD_GROUPS,
    WORKER_SETS,
    a_job_set,
    a_native_workload,
    a_pod_group,
    a_replicated_job,
    a_worker_set,
    gang_of,
    in_job_set,
    in_pod_group,
    in_worker_set,
    in_workload,
)
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS
from tests.adapters.kubernetes.served_cluster import requested_paths, seen_pods, served_cluster
from tests.clocks import FixedClock
from tests.core.builders import NOW, with_fields

V1BETA1 = POD_GROUPS.format("v1beta1")
SILENT: dict[str, Any] = {"conditions": []}
WAITING, OTHER = PodPhase.WAITING, PodPhase.OTHER


def bound_at(stamp: str) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp}
    return {"node": "gpu-1", "conditions": [scheduled]}


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_a_pod_group_of_each_version_says_its_minimum(httpserver: HTTPServer, version: str) -> None:
    for other in {"v1alpha2", "v1alpha3", "v1beta1"} - {version}:
        httpserver.expect_request(POD_GROUPS.format(other)).respond_with_data("404 page not found", 404)
    pods = [in_pod_group(f"w-{n}") for n in range(4)]
    found = seen_pods(httpserver, *pods, served={POD_GROUPS.format(version): [a_pod_group(gang_of(3))]})
    assert {(p.gang, p.gang_min) for p in found.values()} == {("ml/big", 3)}


def test_the_groups_of_a_workload_and_their_replicas_are_gangs_of_their_own(httpserver: HTTPServer) -> None:
    pods = [in_workload("a", replica="0"), in_workload("b", replica="1"), in_workload("c", "head")]
    workload = a_native_workload(workers=gang_of(2), head=BASIC)
    found = seen_pods(httpserver, *pods, served={NATIVE_WORKLOADS: [workload]})
    gangs = {name: (p.gang, p.gang_min) for name, p in found.items()}
    assert gangs == {"a": ("ml/train/workers/0", 2), "b": ("ml/train/workers/1", 2), "c": (None, None)}


def test_a_group_with_the_basic_policy_is_no_gang(httpserver: HTTPServer) -> None:
    pods = [in_pod_group("w-0"), in_pod_group("w-1", **SILENT)]
    found = seen_pods(httpserver, *pods, served={V1BETA1: [a_pod_group(BASIC)]})
    assert {name: (p.gang, p.phase) for name, p in found.items()} == {"w-0": (None, WAITING), "w-1": (None, OTHER)}


def test_pods_that_the_scheduler_says_nothing_of_wait_with_the_rest_of_their_gang(httpserver: HTTPServer) -> None:
    pods = [in_pod_group("w-0"), in_pod_group("w-1", **SILENT)]
    found = seen_pods(httpserver, *pods, served={V1BETA1: [a_pod_group(gang_of(2))]})
    assert {p.phase for p in found.values()} == {WAITING}


@pytest.mark.parametrize(
    "held, phase",
    [({"schedulingGates": [{"name": "theirs"}]}, OTHER), ({"nominatedNodeName": "gpu-1"}, PodPhase.RESERVED)],
    ids=["gated", "nominated"],
)
def test_a_gated_or_nominated_pod_of_a_gang_does_not_wait(
    httpserver: HTTPServer, held: dict[str, Any], phase: PodPhase
) -> None:
    pods = [in_pod_group("w-0"), in_pod_group("w-1", **SILENT, **held)]
    assert seen_pods(httpserver, *pods, served={V1BETA1: [a_pod_group(gang_of(2))]})["w-1"].phase is phase


def test_an_incomplete_gang_that_the_scheduler_holds_back_is_no_demand(httpserver: HTTPServer) -> None:
    pods = [in_pod_group(f"w-{n}", **SILENT) for n in range(2)]
    found = seen_pods(httpserver, *pods, served={V1BETA1: [a_pod_group(gang_of(3))]})
    assert {p.phase for p in found.values()} == {OTHER}


@pytest.mark.parametrize("status", [403, 404])
def test_pods_of_groups_that_may_not_be_read_count_one_by_one(httpserver: HTTPServer, status: int) -> None:
    for version in ("v1beta1", "v1alpha3", "v1alpha2"):
        httpserver.expect_request(POD_GROUPS.format(version)).respond_with_data("{}", status)
    with capture_logs() as logs:
        found = seen_pods(httpserver, in_pod_group("w-0"), in_pod_group("w-1"))
    assert {(p.gang, p.phase) for p in found.values()} == {(None, WAITING)}
    assert len(logs) == (status == 403)


def test_while_groups_cannot_be_read_their_pods_stay_together(httpserver: HTTPServer) -> None:
    httpserver.expect_request(V1BETA1).respond_with_data("{}", 500)
    found = seen_pods(httpserver, in_pod_group("w-0"), in_pod_group("w-1"))
    assert {(p.gang, p.gang_min) for p in found.values()} == {("ml/big", None)}


def test_a_job_set_is_a_gang_of_all_its_jobs_pods(httpserver: HTTPServer) -> None:
    pods = [in_job_set("d-0", "driver", gpus=0, node="cpu-1"), *(in_job_set(f"w-{n}") for n in range(3))]
    jobs = a_job_set(a_replicated_job("driver", gpus=0), a_replicated_job("workers", 2, 4))
    found = seen_pods(httpserver, *pods, served={JOB_SETS: [jobs]})
    assert {(p.gang, p.gang_min) for p in found.values()} == {("ml/train", 8)}


def test_finished_jobs_of_a_job_set_make_it_smaller(httpserver: HTTPServer) -> None:
    jobs = a_job_set(a_replicated_job("workers", 3, 2), status=[{"name": "workers", "succeeded": 1, "active": 2}])
    found = seen_pods(httpserver, *(in_job_set(f"w-{n}") for n in range(4)), served={JOB_SETS: [jobs]})
    assert {p.gang_min for p in found.values()} == {4}


def test_a_job_set_of_one_pod_is_no_gang(httpserver: HTTPServer) -> None:
    found = seen_pods(httpserver, in_job_set("w-0"), served={JOB_SETS: [a_job_set(a_replicated_job("workers"))]})
    assert found["w-0"].gang is None


def test_a_job_set_that_cannot_be_read_is_a_gang_of_the_pods_that_exist(httpserver: HTTPServer) -> None:
    found = seen_pods(httpserver, in_job_set("w-0"), in_job_set("w-1"))
    assert {(p.gang, p.gang_min) for p in found.values()} == {("ml/train", None)}


def test_jobs_that_start_when_others_are_ready_need_their_room_from_the_beginning(httpserver: HTTPServer) -> None:
    after = [{"name": "head", "status": "Ready"}]
    jobs = a_job_set(a_replicated_job("head"), a_replicated_job("workers", 1, 2, gpus=8, after=after))
    found = seen_pods(httpserver, in_job_set("h-0", "head"), served={JOB_SETS: [jobs]})
    assert {(p.name, p.gpus, p.gang, p.gang_min, p.phase) for p in found.values()} == {
        ("h-0", 1, "ml/train", 3, WAITING),
        ("h-0/workers-0", 8, "ml/train", 3, WAITING),
        ("h-0/workers-1", 8, "ml/train", 3, WAITING),
    }


def test_jobs_that_run_after_others_are_no_part_of_the_gang(httpserver: HTTPServer) -> None:
    jobs = a_job_set(
        a_replicated_job("prepare", 1, 2),
        a_replicated_job("train", 1, 8, after=[{"name": "prepare", "status": "Complete"}]),
        a_replicated_job("watch", 1, 8, after=[{"name": "train", "status": "Ready"}]),
    )
    found = seen_pods(httpserver, *(in_job_set(f"p-{n}", "prepare") for n in range(2)), served={JOB_SETS: [jobs]})
    assert {name: p.gang_min for name, p in found.items()} == {"p-0": 2, "p-1": 2}


def test_a_lone_leader_needs_room_for_its_whole_group(httpserver: HTTPServer) -> None:
    found = seen_pods(httpserver, in_worker_set(size=3), served={WORKER_SETS: [a_worker_set(3, gpus=8)]})
    assert {(p.name, p.gpus, p.uid == "", p.gang, p.gang_min) for p in found.values()} == {
        ("llama-0", 1, False, "ml/llama-0", 3),
        ("llama-0/worker-0", 8, True, "ml/llama-0", 3),
        ("llama-0/worker-1", 8, True, "ml/llama-0", 3),
    }


def test_the_group_counts_whole_under_volcano_too_whose_pod_group_needs_the_leader_alone(
    httpserver: HTTPServer,
) -> None:
    volcanos: dict[str, Any] = {"annotations": {"scheduling.k8s.io/group-name": "llama-0-rev"}}
    found = seen_pods(
        httpserver, in_worker_set(size=3, **volcanos), served={VOLCANO_GROUPS: [a_group("llama-0-rev", 1)]}
    )
    assert [p.gang_min for p in found.values()] == [3, 3, 3]


def test_workers_count_like_the_leader_where_their_set_cannot_be_read(httpserver: HTTPServer) -> None:
    found = seen_pods(httpserver, in_worker_set(size=3, gpus=2))
    assert sorted(p.gpus for p in found.values()) == [2, 2, 2]


def test_a_leader_with_workers_on_cpu_nodes_needs_one_node(httpserver: HTTPServer) -> None:
    found = seen_pods(httpserver, in_worker_set(size=3), served={WORKER_SETS: [a_worker_set(3, gpus=0)]})
    assert {name: p.gang_min for name, p in found.items()} == {"llama-0": None}


def test_the_workers_of_a_leader_that_claims_its_devices_are_expected_with_their_claims() -> None:
    lists: Any = SimpleNamespace(if_readable=lambda *_: [], remarks=SimpleNamespace(warn=print))
    leader = in_worker_set(size=3, gpus=0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])

    def read(pod: SeenPod) -> Pod:
        return with_fields(pod.without_gpus, claims=tuple(template for _, template in pod.resource_claims.values()))

    declared = Gangs(lists, read).declared([SeenPod(leader)], FixedClock(NOW).at)
    assert declared.sizes == {"ml/llama-0": 3}
    assert [(p.gang, p.claiming.words) for p in declared.announced] == [("ml/llama-0", ("gpu",))] * 2


def test_each_group_of_a_worker_set_is_a_gang_of_its_own(httpserver: HTTPServer) -> None:
    pods = [in_worker_set(n, size=2, group=g) for g in range(2) for n in range(2)]
    found = seen_pods(httpserver, *pods)
    assert sorted((p.gang, p.gang_min) for p in found.values()) == [("ml/llama-0", 2)] * 2 + [("ml/llama-1", 2)] * 2
    assert WORKER_SETS not in requested_paths(httpserver)


@pytest.mark.parametrize("minutes, announced", [(59, 3), (60, 0)])
def test_room_is_kept_for_workers_until_an_hour_after_the_leader_got_its_node(
    httpserver: HTTPServer, minutes: int, announced: int
) -> None:
    clock = FixedClock(NOW)
    leader = in_worker_set(size=4, **bound_at(f"{clock.at - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"))
    with served_cluster(httpserver, leader, clock=clock) as cluster:
        assert len(cluster.look().pods) == 1 + announced


@pytest.mark.parametrize(
    "held",
    [{"schedulingGates": [{"name": "theirs"}], **SILENT}, {"deletionTimestamp": "2026-11-20T11:00:00Z"}],
    ids=["gated", "leaving"],
)
def test_no_worker_is_expected_of_a_leader_that_is_gated_or_leaving(
    httpserver: HTTPServer, held: dict[str, Any]
) -> None:
    assert list(seen_pods(httpserver, in_worker_set(size=3, **held))) == ["llama-0"]


@pytest.mark.parametrize("size", [0, 1])
def test_a_group_of_one_is_no_gang(httpserver: HTTPServer, size: int) -> None:
    found = seen_pods(httpserver, in_worker_set(size=size))
    assert {name: (p.gang, p.gang_min) for name, p in found.items()} == {
        "llama-0": (None if size else "ml/llama-0", None)
    }


def test_pods_of_sets_that_say_so_are_independent(httpserver: HTTPServer) -> None:
    alone: dict[str, Any] = {"annotations": {GANG_ANNOTATION: "false"}}
    found = seen_pods(httpserver, in_worker_set(size=3, **alone), in_job_set("w-0", **alone))
    assert {p.gang for p in found.values()} == {None}
    assert requested_paths(httpserver) == [NODES, PODS]


def test_a_group_beyond_what_is_read_announces_no_more_than_that(httpserver: HTTPServer) -> None:
    found = seen_pods(httpserver, in_worker_set(size=999_999_999))
    assert len(found) == 1_001
    assert {p.gang_min for p in found.values()} == {999_999_999}
