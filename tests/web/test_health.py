"""Liveness, readiness and the metrics endpoint."""

import gzip
from datetime import timedelta

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from receiver.metrics.collector import Instruments
from receiver.ports import TryLater
from tests.web.builders import Bench
from tests.web.fakes import FakeHealth


@pytest.mark.parametrize("state", ["starting", "leading", "waiting"])
def test_a_loop_that_beats_is_healthy_whoever_leads(state: str) -> None:
    response = Bench(health=FakeHealth(state=state)).client().get("/healthz")
    assert response.status_code == 200
    assert response.get_json() == {
        "status": "ok",
        "loop": state,
        "beat_age_seconds": 2.0,
        "fresh_seconds": 75.0,
        "steps": 7,
        "errors": 1,
        "good_step_age_seconds": 3.0,
        "good_step_within_seconds": 300.0,
        "leader": "gpu-autoscaler-0-1-c0ffee",
        "term": 4,
        "watch": "off",
        "mode": "act",
        "version": "0.1.0",
    }


def test_a_loop_that_beat_just_within_the_limit_is_healthy() -> None:
    health = FakeHealth(beat_age=timedelta(seconds=75))
    assert Bench(health=health).client().get("/healthz").status_code == 200


def test_a_loop_that_stopped_beating_is_not_healthy() -> None:
    response = Bench(health=FakeHealth(beat_age=timedelta(seconds=75.1))).client().get("/healthz")
    assert (response.status_code, response.get_json()["status"]) == (503, "stale")


def test_a_waiting_loop_must_beat_too() -> None:
    health = FakeHealth(state="waiting", beat_age=timedelta(seconds=200))
    assert Bench(health=health).client().get("/healthz").status_code == 503


def test_a_stopped_loop_is_not_healthy_however_young_its_beat() -> None:
    assert Bench(health=FakeHealth(state="stopped")).client().get("/healthz").status_code == 503


def test_liveness_does_not_ask_the_store_because_a_restart_would_not_mend_it() -> None:
    assert Bench(error=TryLater("disk full")).client().get("/healthz").status_code == 200


def test_a_server_whose_store_takes_writes_is_ready() -> None:
    bench = Bench()
    response = bench.client().get("/readyz")
    assert response.status_code == 200
    assert response.get_json() == {
        "ready": True,
        "reason": "",
        "pools": 2,
        "mode": "act",
        "loop": "leading",
        "leader": "gpu-autoscaler-0-1-c0ffee",
        "term": 4,
    }
    assert bench.log == ["check"]


def test_a_server_whose_store_is_down_is_not_ready_and_says_why() -> None:
    response = Bench(error=TryLater("disk full")).client().get("/readyz")
    assert (response.status_code, response.get_json()["reason"]) == (503, "store: disk full")


def test_a_server_whose_steps_fail_is_not_ready_and_may_still_take_deliveries() -> None:
    client = Bench(health=FakeHealth(good_age=timedelta(minutes=7))).client()
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.get_json()["reason"] == "no step has succeeded for 7 min: see the log"
    assert client.get("/readyz?exclude=steps").get_json()["ready"] is True
    assert client.get("/healthz").status_code == 200  # a restart is no remedy


@pytest.mark.parametrize("asked", ["/readyz", "/readyz?exclude=steps"])
def test_the_store_counts_whatever_is_left_out(asked: str) -> None:
    bench = Bench(error=TryLater("disk full"), health=FakeHealth(good_age=timedelta(minutes=7)))
    assert bench.client().get(asked).get_json()["reason"] == "store: disk full"


def test_a_replica_that_does_not_lead_is_ready() -> None:
    assert Bench(health=FakeHealth(state="waiting", good_age=None)).client().get("/readyz").status_code == 200


def test_a_server_without_a_webhook_token_is_not_ready() -> None:
    response = Bench(tokens=()).client().get("/readyz")
    assert response.status_code == 503
    assert "GPU_AUTOSCALER_WEBHOOK_TOKEN" in response.get_json()["reason"]


def test_metrics_are_served_in_the_text_format_by_default() -> None:
    bench = Bench()
    bench.registry.register(Instruments())
    response = bench.client().get("/metrics")
    assert response.content_type.startswith("text/plain; version=")
    names = {family.name for family in text_string_to_metric_families(response.text)}
    assert "gpu_autoscaler_webhook_requests" in names


def test_metrics_are_served_as_openmetrics_to_a_scraper_that_prefers_it() -> None:
    bench = Bench()
    bench.registry.register(Instruments())
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
    response = bench.client().get("/metrics", headers={"Accept": accept})
    assert response.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert list(parse_openmetrics(response.text))  # type: ignore[no-untyped-call]  # the library has no annotation here


@pytest.mark.parametrize("accepted", ["gzip", "br;q=1.0, gzip;q=0.8, *;q=0.1"])
def test_metrics_are_compressed_for_a_scraper_that_accepts_it(accepted: str) -> None:
    bench = Bench()
    bench.registry.register(Instruments())
    plain = bench.client().get("/metrics")
    packed = bench.client().get("/metrics", headers={"Accept-Encoding": accepted})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) == len(packed.data) < len(plain.data)
    assert gzip.decompress(packed.data) == plain.data


@pytest.mark.parametrize("accepted", [None, "", "identity", "br", "gzip;q=0", "gzip;q=x;"])
def test_metrics_are_plain_for_any_other_scraper(accepted: str | None) -> None:
    response = Bench().client().get("/metrics", headers={} if accepted is None else {"Accept-Encoding": accepted})
    assert response.status_code == 200
    assert "Content-Encoding" not in response.headers
    assert response.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("accept", ["application/openmetrics-text;version=x", "text/plain;version=1.x"])
def test_metrics_in_a_version_that_is_none_come_in_the_plain_format(accept: str) -> None:
    response = Bench().client().get("/metrics", headers={"Accept": accept})
    assert (response.status_code, response.mimetype) == (200, "text/plain")
