"""When pods were first seen Terminating or nominated, by our clock and by that of the API server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.adapters.kubernetes.sightings import Sightings
from receiver.core.model.pods import Nomination, Pod, PodPhase
from receiver.core.scaling.nominations import HOLDS_FOR
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, a_cluster_at, a_list, a_node, a_pod
from tests.core.builders import HOUR, MINUTE, NOW, SECOND


def ending(at: Any = NOW + 30 * SECOND, grace: object = 30) -> SeenPod:
    """A pod whose deletion ends *at*, by the API server's clock."""
    raw = a_pod("old", node="gpu-1", deletionTimestamp=f"{at:%Y-%m-%dT%H:%M:%SZ}")
    raw["metadata"]["deletionGracePeriodSeconds"] = grace
    return SeenPod(raw)


def noted(sightings: Sightings, *seen: SeenPod, at: Any = NOW) -> Sequence[Pod]:
    return sightings.note([pod.pod for pod in seen if pod.pod is not None], seen, at)


def test_the_moment_of_the_api_server_counts_where_the_clocks_agree() -> None:
    sightings = Sightings()
    noted(sightings, at=NOW - 10 * SECOND)
    [pod] = noted(sightings, ending(NOW + 25 * SECOND))
    assert pod.times.leaves_at == NOW + 25 * SECOND


@pytest.mark.parametrize("skew", [-HOUR, -10 * MINUTE, 10 * MINUTE, HOUR])
def test_a_clock_that_differs_moves_the_end_of_a_fresh_deletion_by_one_look_at_most(skew: timedelta) -> None:
    sightings = Sightings()
    noted(sightings, at=NOW - 10 * SECOND)
    [pod] = noted(sightings, ending(NOW + 25 * SECOND + skew))
    assert pod.times.leaves_at is not None
    assert NOW + 19 * SECOND <= pod.times.leaves_at <= NOW + 30 * SECOND


def test_a_deletion_that_is_old_at_first_sight_ended_when_the_api_server_says() -> None:
    [pod] = noted(Sightings(), ending(NOW - HOUR))
    assert pod.times.leaves_at == NOW - HOUR


def test_no_deletion_lasts_longer_than_its_grace_from_its_first_sight_on() -> None:
    sightings = Sightings()
    seen = ending(NOW + HOUR)
    [pod] = noted(sightings, seen)
    assert pod.times.leaves_at == NOW + 30 * SECOND
    [pod] = noted(sightings, seen, at=NOW + 10 * MINUTE)
    assert pod.times.leaves_at == NOW + 30 * SECOND


def test_a_grace_that_is_shortened_counts_from_then_on() -> None:
    sightings = Sightings()
    noted(sightings, at=NOW - 20 * SECOND)
    noted(sightings, ending(NOW + HOUR, 3600), at=NOW - 10 * SECOND)
    [pod] = noted(sightings, ending(NOW + 5 * SECOND, 5))
    assert pod.times.leaves_at == NOW + 5 * SECOND


@pytest.mark.parametrize("grace", [None, -1, "30", 10**12])
def test_a_grace_that_is_not_understood_bounds_nothing(grace: object) -> None:
    [pod] = noted(Sightings(), ending(NOW + HOUR, grace))
    assert pod.times.leaves_at == NOW + HOUR


def test_pods_that_are_gone_are_forgotten() -> None:
    sightings = Sightings()
    noted(sightings, ending(NOW + HOUR))
    noted(sightings, at=NOW + MINUTE)
    [pod] = noted(sightings, ending(NOW + HOUR), at=NOW + 30 * MINUTE)
    assert pod.times.leaves_at == NOW + 30 * MINUTE + 30 * SECOND


class Moved:
    """A clock that a test sets."""

    now_is = NOW

    def now(self) -> Any:
        return self.now_is


@contextmanager
def a_cluster(httpserver: HTTPServer, *pods: dict[str, Any]) -> Iterator[tuple[KubernetesCluster, Moved]]:
    httpserver.expect_request(NODES).respond_with_json(a_list(a_node("gpu-1")))
    httpserver.expect_request(PODS).respond_with_json(a_list(*pods))
    clock = Moved()
    cluster = a_cluster_at(httpserver.url_for(""), clock=clock)
    try:
        yield cluster, clock
    finally:
        cluster.close()


def test_a_nominated_pod_is_on_its_node_since_it_was_first_seen_there(httpserver: HTTPServer) -> None:
    with a_cluster(httpserver, a_pod("next", nominatedNodeName="gpu-1", conditions=[])) as (cluster, clock):
        cluster.look()
        clock.now_is = NOW + 5 * MINUTE
        [pod] = cluster.look().pods
    assert (pod.phase, pod.node) == (PodPhase.RESERVED, "gpu-1")
    assert pod.nomination == Nomination(node="gpu-1", since=NOW)


def test_the_last_look_before_a_delete_sees_a_reservation(httpserver: HTTPServer) -> None:
    elsewhere = a_pod("elsewhere", nominatedNodeName="gpu-2")
    with a_cluster(httpserver, a_pod("next", nominatedNodeName="gpu-1"), elsewhere) as (cluster, _):
        assert [pod.name for pod in cluster.gpu_pods_on("gpu-1")] == ["next"]


def test_a_pod_that_reserves_a_node_for_its_claims_alone_is_seen_too(httpserver: HTTPServer) -> None:
    claims = a_pod("claims", gpus=0, nominatedNodeName="gpu-1", resourceClaims=[{"name": "gpu"}])
    with a_cluster(httpserver, claims, a_pod("web", gpus=0, nominatedNodeName="gpu-1")) as (cluster, _):
        assert [pod.name for pod in cluster.gpu_pods_on("gpu-1")] == ["claims"]


def test_a_reservation_that_has_lasted_too_long_spares_no_node(httpserver: HTTPServer) -> None:
    with a_cluster(httpserver, a_pod("next", nominatedNodeName="gpu-1")) as (cluster, clock):
        cluster.look()
        clock.now_is = NOW + HOLDS_FOR - SECOND
        assert cluster.gpu_pods_on("gpu-1")
        clock.now_is = NOW + HOLDS_FOR
        assert not cluster.gpu_pods_on("gpu-1")


def test_a_deleted_pod_reserves_nothing(httpserver: HTTPServer) -> None:
    gone = a_pod("gone", nominatedNodeName="gpu-1", deletionTimestamp="2026-11-20T12:00:30Z")
    with a_cluster(httpserver, gone) as (cluster, _):
        assert not cluster.gpu_pods_on("gpu-1")
