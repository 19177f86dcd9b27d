"""Sources that are no Prometheus itself tell less: what they cannot say is skipped, and is no failure."""

import json
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from receiver.adapters.clock import SystemClock
from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.doctor import alertmanager, prometheus, telemetry
from receiver.doctor.checks import Area, Finding
from receiver.ports import TryLater
from tests.doctor.builders import document, installation


def _query(request: Request) -> Response:
    """Answer as a querier: the time where that is asked for, else nothing."""
    if request.values["query"] == "time()":
        now = SystemClock().now().timestamp()
        data = {"resultType": "scalar", "result": [now, str(now)]}
    else:
        data = {"resultType": "vector", "result": []}
    return Response(json.dumps({"status": "success", "data": data}), content_type="application/json")


@pytest.fixture
def querier(httpserver: HTTPServer) -> str:
    """Something with queries and nothing else; every other path is 404."""
    httpserver.expect_request("/api/v1/query").respond_with_handler(_query)
    httpserver.expect_request("/", method="GET").respond_with_data("", status=404)
    return httpserver.url_for("").rstrip("/")


def found(area: Area, folder: Path, url: str | None) -> list[Finding]:
    said = document(prometheus={"url": url} if url else {})
    return list(area.look(installation(folder, said)))


def test_what_a_querier_cannot_say_is_skipped(tmp_path: Path, httpserver: HTTPServer, querier: str) -> None:
    httpserver.expect_request("/api/v1/rules").respond_with_data("404 page not found", status=404)
    told = [*found(prometheus.AREA, tmp_path, querier), *found(prometheus.RULES, tmp_path, querier)]
    assert [finding.verdict for finding in told] == ["pass", "pass", "skip"]


@pytest.mark.parametrize("delay, verdict", [(0, "pass"), (1, "pass"), (30, "warn")])
def test_a_server_that_shows_only_older_samples_is_named_and_its_clock_is_not_blamed(
    tmp_path: Path, httpserver: HTTPServer, delay: int, verdict: str
) -> None:
    def victoria_metrics(request: Request) -> Response:
        now = SystemClock().now().timestamp()
        one = {"metric": {}, "value": [int(now), f"{now - delay:.3f}"]}
        data = {"resultType": "vector", "result": [one]}
        return Response(json.dumps({"status": "success", "data": data}), content_type="application/json")

    httpserver.expect_request("/api/v1/query").respond_with_handler(victoria_metrics)
    told = found(prometheus.AREA, tmp_path, httpserver.url_for(""))
    assert [(finding.check, finding.verdict) for finding in told] == [
        ("prometheus.clock", "pass"),
        ("prometheus.delay", verdict),
    ]
    if delay == 30:
        assert "last 30s" in told[1].said
        assert "-search.latencyOffset" in told[1].remedy


def test_an_empty_source_is_told_as_missing_series_and_not_as_an_error(tmp_path: Path, querier: str) -> None:
    told = {finding.check: finding.verdict for finding in found(telemetry.AREA, tmp_path, querier)}
    assert told["telemetry.kube_state_metrics"] == "fail"
    assert told["telemetry.own"] == "fail"
    assert told["telemetry.dcgm"] == "skip"


def test_without_prometheus_there_is_nothing_to_ask(tmp_path: Path) -> None:
    for area in (prometheus.AREA, prometheus.RULES, telemetry.AREA):
        assert [finding.verdict for finding in found(area, tmp_path, None)] == ["skip"]


def test_without_alertmanagers_routes_are_not_seen(tmp_path: Path) -> None:
    said = document(alertmanager={"urls": []}, prometheus={})
    told = list(alertmanager.AREA.look(installation(tmp_path, said)))
    assert {finding.verdict for finding in told} == {"skip"}


def test_a_server_error_is_no_answer_and_names_what_was_asked(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/api/v1/rules").respond_with_json({"status": "error", "error": "tsdb is gone"}, 500)
    url = httpserver.url_for("").replace("http://", "http://me:secret@")
    with MonitoringApi("Prometheus", url, SystemClock()) as api, pytest.raises(TryLater) as raised:
        api.told("rules")
    assert "answered /api/v1/rules with 500: tsdb is gone" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"data": {"result": [{}]}}', "not json"])
def test_nonsense_is_not_understood_and_nothing_else(httpserver: HTTPServer, body: str) -> None:
    httpserver.expect_request("/api/v1/query").respond_with_data(body)
    with MonitoringApi("Prometheus", httpserver.url_for(""), SystemClock()) as api:
        with pytest.raises(TryLater, match="malformed answer"):
            api.vector("up")
        with pytest.raises(TryLater, match="malformed answer"):
            api.server_time()
