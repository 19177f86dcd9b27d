"""Declared gangs: whose pods belong together, and how many of them must run together."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs

from receiver.adapters.http.sessions import MOST
from receiver.core.model.pods import PodPhase
from receiver.ports import GANG_ANNOTATION, GANG_SIZE_ANNOTATION
from tests.adapters.kubernetes.custom_objects import COSCHEDULING_GROUPS, IN_COSCHEDULING_GROUP, VOLCANO_GROUPS, a_group
from tests.adapters.kubernetes.kubernetes_objects import (
    NODES,
    PODS,
    PODS_OF_ML,
    a_pod,
    owned_by,
    scheduling_refusal,
)
from tests.adapters.kubernetes.served_cluster import requested_paths, seen_pods, served_cluster
from tests.clocks import FixedClock
from tests.core.builders import NOW

VOLCANO: dict[str, Any] = {"annotations": {"scheduling.k8s.io/group-name": "big"}}


def ours(size: object) -> dict[str, Any]:
    return {"annotations": {GANG_ANNOTATION: "big", GANG_SIZE_ANNOTATION: str(size)}}


def kueues(size: int) -> dict[str, Any]:
    annotations = {"kueue.x-k8s.io/pod-group-total-count": str(size)}
    return {"labels": {"kueue.x-k8s.io/pod-group-name": "big"}, "annotations": annotations}


@pytest.mark.parametrize(
    "declared, path",
    [(VOLCANO, VOLCANO_GROUPS), (IN_COSCHEDULING_GROUP, COSCHEDULING_GROUPS)],
    ids=["Volcano", "coscheduling"],
)
def test_the_pod_group_says_how_many_pods_must_run_together(
    httpserver: HTTPServer, declared: dict[str, Any], path: str
) -> None:
    pods = [a_pod(f"w-{n}", **declared) for n in range(4)]
    found = seen_pods(httpserver, *pods, served={path: [a_group("big", 3), a_group("other", 7)]})
    assert {(p.gang, p.gang_min) for p in found.values()} == {("ml/big", 3)}


def test_a_namesake_in_another_namespace_is_another_group(httpserver: HTTPServer) -> None:
    elsewhere = a_group("big", 7)
    elsewhere["metadata"]["namespace"] = "other"
    found = seen_pods(httpserver, a_pod(**VOLCANO), served={VOLCANO_GROUPS: [a_group("big", 3), elsewhere]})
    assert found["train-0"].gang_min == 3


def test_pods_without_gpus_and_finished_ones_take_their_share_of_the_minimum(httpserver: HTTPServer) -> None:
    launcher = a_pod("launcher", gpus=0, node="cpu-1", **VOLCANO)
    workers = [a_pod(f"w-{n}", **VOLCANO) for n in range(4)]
    found = seen_pods(httpserver, launcher, *workers, served={VOLCANO_GROUPS: [a_group("big", 6, succeeded=1)]})
    assert found["w-0"].gang_min == 4


def test_a_pod_that_is_nominated_for_a_node_is_one_of_its_gang_that_has_one(httpserver: HTTPServer) -> None:
    promised = a_pod("promised", nominatedNodeName="gpu-1", **IN_COSCHEDULING_GROUP)
    found = seen_pods(
        httpserver, promised, a_pod("w-1", **IN_COSCHEDULING_GROUP), served={COSCHEDULING_GROUPS: [a_group("big", 2)]}
    )
    assert (found["w-1"].gang_min, found["promised"].node) == (2, "gpu-1")


def test_a_group_without_a_minimum_lets_every_pod_start_alone(httpserver: HTTPServer) -> None:
    group = a_group("big")
    del group["spec"]["minMember"]
    assert seen_pods(httpserver, a_pod(**VOLCANO), served={VOLCANO_GROUPS: [group]})["train-0"].gang_min == 1


@pytest.mark.parametrize("declared", [ours(3), kueues(3)], ids=["ours", "Kueue"])
def test_pods_may_say_the_size_of_their_gang_themselves(httpserver: HTTPServer, declared: dict[str, Any]) -> None:
    pods = [a_pod(f"w-{n}", **declared) for n in range(3)]
    found = seen_pods(httpserver, *pods)
    assert {(p.gang, p.gang_min) for p in found.values()} == {("ml/big", 3)}
    assert requested_paths(httpserver) == [NODES, PODS]


def test_one_pod_that_names_the_size_speaks_for_the_gang(httpserver: HTTPServer) -> None:
    silent = a_pod("w-1", annotations={GANG_ANNOTATION: "big"})
    assert seen_pods(httpserver, silent, a_pod("w-2", **ours(2)))["w-1"].gang_min == 2


def test_a_gang_of_unknown_size_is_all_that_exists(httpserver: HTTPServer) -> None:
    assert seen_pods(httpserver, a_pod(annotations={GANG_ANNOTATION: "big"}))["train-0"].gang_min is None


def test_pods_that_have_done_their_work_leave_the_gang_smaller(httpserver: HTTPServer) -> None:
    done = [a_pod(f"w-{n}", node="gpu-1", phase="Succeeded", **kueues(4)) for n in range(2)]
    found = seen_pods(httpserver, a_pod("w-2", node="gpu-1", **kueues(4)), a_pod("w-3", **kueues(4)), finished=done)
    assert found["w-3"].gang_min == 2
    ((request, _),) = [entry for entry in httpserver.log if entry[0].path == PODS_OF_ML]
    assert request.args["fieldSelector"] == "status.phase=Succeeded"


def test_finished_pods_of_an_earlier_run_are_not_those_of_this_one(httpserver: HTTPServer) -> None:
    def run(uid: str) -> dict[str, Any]:
        (owner,) = owned_by("Job", "nightly")
        return {**ours(2), "ownerReferences": [{**owner, "uid": uid}]}

    before = a_pod("w-0", node="gpu-1", phase="Succeeded", **run("yesterday"))
    assert seen_pods(httpserver, a_pod("w-1", **run("today")), finished=[before])["w-1"].gang_min == 2


def test_a_gang_that_runs_asks_for_no_finished_pods(httpserver: HTTPServer) -> None:
    assert seen_pods(httpserver, a_pod("w-0", node="gpu-1", **ours(2)))["w-0"].gang_min == 2
    assert PODS_OF_ML not in requested_paths(httpserver)


def test_without_declared_gangs_no_pod_group_is_asked_for(httpserver: HTTPServer) -> None:
    seen_pods(httpserver, a_pod())
    assert requested_paths(httpserver) == [NODES, PODS]


def test_a_group_api_that_is_not_installed_is_asked_for_every_ten_minutes_only(httpserver: HTTPServer) -> None:
    httpserver.expect_request(VOLCANO_GROUPS).respond_with_data("404 page not found", 404)
    clock = FixedClock(NOW)
    with capture_logs() as logs, served_cluster(httpserver, a_pod(**VOLCANO), clock=clock) as cluster:
        (pod,) = cluster.look().pods
        clock.at += timedelta(minutes=9, seconds=59)
        cluster.look()
        assert requested_paths(httpserver).count(VOLCANO_GROUPS) == 1
        clock.at += timedelta(seconds=1)
        cluster.look()
    assert requested_paths(httpserver).count(VOLCANO_GROUPS) == 2
    assert (pod.gang, pod.gang_min) == ("ml/big", None)
    assert not logs


@pytest.mark.parametrize("status", [403, 500])
def test_groups_that_may_not_be_read_leave_the_gang_known_by_its_label(httpserver: HTTPServer, status: int) -> None:
    httpserver.expect_request(COSCHEDULING_GROUPS).respond_with_data("{}", status)
    clock = FixedClock(NOW)
    with capture_logs() as logs, served_cluster(httpserver, a_pod(**IN_COSCHEDULING_GROUP), clock=clock) as cluster:
        (pod,) = cluster.look().pods
        clock.at += timedelta(minutes=59)
        cluster.look()
        assert [(entry["event"], "podgroups.scheduling.x-k8s.io" in entry["detail"]) for entry in logs] == [
            ("custom resources not read", True)
        ]
        clock.at += timedelta(minutes=1)
        cluster.look()
    assert (pod.gang, pod.gang_min) == ("ml/big", None)
    assert len(logs) == 2


@pytest.mark.parametrize("reason", ["Schedulable", "Undetermined"])
def test_volcanos_other_words_for_the_pods_of_a_gang_that_does_not_fit_are_demand_too(
    httpserver: HTTPServer, reason: str
) -> None:
    pods = [a_pod("w-0", **VOLCANO), a_pod("w-1", **VOLCANO, **scheduling_refusal(reason))]
    found = seen_pods(httpserver, *pods, served={VOLCANO_GROUPS: [a_group("big", 2, phase="Inqueue")]})
    assert {p.name: p.phase for p in found.values()} == {"w-0": PodPhase.WAITING, "w-1": PodPhase.WAITING}


def test_a_pod_that_volcano_has_promised_a_node_is_no_demand(httpserver: HTTPServer) -> None:
    promised = a_pod("w-1", nominatedNodeName="gpu-1", **VOLCANO, **scheduling_refusal("Schedulable"))
    found = seen_pods(httpserver, a_pod("w-0", **VOLCANO), promised, served={VOLCANO_GROUPS: [a_group("big", 2)]})
    assert (found["w-1"].phase, found["w-0"].gang_min) == (PodPhase.RESERVED, 2)


def test_a_gang_that_volcano_has_not_tried_at_all_is_no_demand(httpserver: HTTPServer) -> None:
    pods = [a_pod(f"w-{n}", **VOLCANO, **scheduling_refusal("Undetermined")) for n in range(2)]
    found = seen_pods(httpserver, *pods, served={VOLCANO_GROUPS: [a_group("big", 2)]})
    assert {p.phase for p in found.values()} == {PodPhase.OTHER}


def test_an_annotation_that_is_not_understood_is_told_once_an_hour(httpserver: HTTPServer) -> None:
    clock = FixedClock(NOW)
    with capture_logs() as logs, served_cluster(httpserver, a_pod(**ours("many")), clock=clock) as cluster:
        cluster.look()
        cluster.look()
    ((event, detail),) = [(entry["event"], entry["detail"]) for entry in logs]
    assert event == "annotation not understood"
    assert detail.startswith(f'pod ml/train-0: annotation {GANG_SIZE_ANNOTATION} is "many"')


def test_what_is_told_of_annotations_has_an_end(httpserver: HTTPServer) -> None:
    pods = [a_pod(f"w-{n}", **ours(f"many-{n}")) for n in range(MOST + 50)]
    with capture_logs() as logs, served_cluster(httpserver, *pods) as cluster:
        cluster.look()
    assert len(logs) == MOST
