"""Calls to Civo as metrics: by method and by how they ended."""

import pytest
from prometheus_client import CollectorRegistry
from pytest_httpserver import HTTPServer

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.http.sessions import Calls
from receiver.metrics.collector import CivoCalls
from receiver.ports import TryLater, WontWork
from tests.adapters.civo.answers import CLUSTER_PATH, POOL, a_cluster


def counted(registry: CollectorRegistry, method: str, outcome: str) -> float | None:
    labels = {"method": method, "outcome": outcome}
    return registry.get_sample_value("gpu_autoscaler_civo_requests_total", labels)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def cloud(httpserver: HTTPServer, registry: CollectorRegistry) -> CivoCloud:
    calls = CivoCalls()
    registry.register(calls)
    url = httpserver.url_for("")
    return CivoCloud(
        api_url=url, api_key="k", region="LON1", cluster_id=CLUSTER_PATH.split("/")[-1], calls=Calls(ended=calls.ended)
    )


def test_every_outcome_is_there_before_the_first_call(cloud: CivoCloud, registry: CollectorRegistry) -> None:
    assert {counted(registry, m, o) for m in ("GET", "PUT", "DELETE") for o in ("ok", "try_later", "wont_work")} == {0}


def test_an_answer_is_counted_and_timed(cloud: CivoCloud, registry: CollectorRegistry, httpserver: HTTPServer) -> None:
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_json(a_cluster())
    cloud.look()
    assert counted(registry, "GET", "ok") == 1
    assert registry.get_sample_value("gpu_autoscaler_civo_request_seconds_count", {"method": "GET"}) == 1


@pytest.mark.parametrize(("status", "outcome", "error"), [(503, "try_later", TryLater), (401, "wont_work", WontWork)])
def test_a_failure_is_counted_by_whether_it_can_mend(
    cloud: CivoCloud,
    registry: CollectorRegistry,
    httpserver: HTTPServer,
    status: int,
    outcome: str,
    error: type[Exception],
) -> None:
    httpserver.expect_request(CLUSTER_PATH, method="GET").respond_with_data("no", status=status)
    with pytest.raises(error):
        cloud.look()
    assert counted(registry, "GET", outcome) == 1
    assert counted(registry, "GET", "ok") == 0


def test_a_write_that_was_stopped_before_it_was_sent_is_no_call(httpserver: HTTPServer) -> None:
    told: list[str] = []

    def stop() -> None:
        raise RuntimeError("not the writer")

    cloud = CivoCloud(
        api_url=httpserver.url_for(""),
        api_key="k",
        region="LON1",
        cluster_id=CLUSTER_PATH.split("/")[-1],
        calls=Calls(before_write=stop, ended=lambda method, _outcome, _seconds: told.append(method)),
    )
    with pytest.raises(RuntimeError):
        cloud.retire(POOL, "i-1")
    assert told == []
