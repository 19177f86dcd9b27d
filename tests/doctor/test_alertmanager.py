"""Peers of Alertmanager, and the test alert that goes round, over what they answer."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from receiver.adapters.clock import SystemClock
from receiver.adapters.http.own_api import ServerApi
from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.doctor.alertmanager import AlertmanagerPeer, ask, heard, judge, send
from receiver.doctor.checks import Finding
from receiver.ports import TryLater
from tests.doctor.monitored import NOW


def peers(*changes: dict[str, Any]) -> list[AlertmanagerPeer]:
    """Two peers that see each other, each with its *changes*."""
    well = AlertmanagerPeer(url="http://a:9093", knows=2, beats=True)
    both = [well, replace(well, url="http://b:9093")]
    return [replace(peer, **change) for peer, change in zip(both, [*changes, {}, {}], strict=False)]


def found(said: Sequence[AlertmanagerPeer]) -> list[Finding]:
    return [finding for finding in judge(said) if finding.verdict != "pass"]


def test_two_peers_that_are_well_raise_no_alarm() -> None:
    assert found(peers()) == []


def test_one_alertmanager_alone_raises_no_alarm() -> None:
    assert found([replace(peers()[0], knows=0)]) == []
    assert found([replace(peers()[0], knows=1)]) == []


@pytest.mark.parametrize(
    "said, check, verdict, words",
    [
        (peers({"problem": "Alertmanager at http://a:9093: it did not answer"}), "peers", "fail", "http://a:9093"),
        (peers({"knows": 3}, {"knows": 3}), "cluster", "warn", "http://a:9093 sees 3"),
        (peers({"knows": 0}, {"knows": 0}), "cluster", "warn", "http://a:9093 sees 0"),
        (peers({"knows": 1}, {"knows": 1}), "cluster", "warn", "sees 1"),
        ([replace(peers()[0], knows=2)], "cluster", "warn", "lists 1 peer"),
        (peers({"beats": False}), "heartbeat", "fail", "http://a:9093 has no alert"),
    ],
)
def test_a_fault_is_found_named_and_has_a_remedy(
    said: list[AlertmanagerPeer], check: str, verdict: str, words: str
) -> None:
    (finding,) = found(said)
    assert (finding.check, finding.verdict) == (f"alertmanager.{check}", verdict)
    assert words in finding.said
    assert finding.remedy


def test_of_no_peer_that_answers_nothing_else_is_said() -> None:
    away = peers({"problem": "no connection"}, {"problem": "no connection"})
    assert {finding.check for finding in found(away)} == {"alertmanager.peers"}
    assert len(found(away)) == 2


def test_a_peer_tells_whom_it_sees_and_whether_it_has_the_heartbeat(httpserver: HTTPServer) -> None:
    of_name = {"filter": 'alertname="GpuAutoscalerHeartbeat"'}
    httpserver.expect_request("/-/ready").respond_with_data("")
    httpserver.expect_request("/api/v2/status").respond_with_json({"cluster": {"status": "ready", "peers": [{}, {}]}})
    httpserver.expect_request("/api/v2/alerts", query_string=of_name).respond_with_json([{"labels": {}}])
    with MonitoringApi("Alertmanager", httpserver.url_for(""), SystemClock()) as api:
        peer = ask(api)
    assert (peer.problem, peer.knows, peer.beats) == ("", 2, True)


def test_a_peer_that_is_away_is_told_and_not_raised() -> None:
    with MonitoringApi("Alertmanager", "http://us:secret@127.0.0.1:1", SystemClock(), (1, 1)) as api:
        peer = ask(api)
    assert "127.0.0.1:1" in peer.problem
    assert "secret" not in peer.problem


class Line:
    """Alertmanager and our server behind one address: what is posted arrives *after* so many looks, or never.

    *there* is what has arrived before."""

    def __init__(self, server: HTTPServer, after: int | None, there: Sequence[Any] = ()) -> None:
        self.posted: list[Any] = []
        self._there = list(there)
        self._after, self._looks = after, 0
        server.expect_request("/api/v2/alerts", method="POST").respond_with_handler(self._take)
        server.expect_request("/api/v1/alerts").respond_with_handler(self._show)
        self.url = server.url_for("").rstrip("/")

    def _take(self, request: Request) -> Response:
        self.posted.append(request.get_json()[0])
        return Response("")

    def _show(self, _: Request) -> Response:
        self._looks += 1
        arrived = self._after is not None and self.posted and self._looks > self._after
        return _json([*self._there, *([{"labels": self.posted[0]["labels"]}] if arrived else [])])


def _json(body: Any) -> Response:
    return Response(json.dumps(body), content_type="application/json")


class Hours:
    """Time that moves on when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def elapsed(self) -> float:
        return self.now


def go(line: Line, hours: Hours) -> list[Finding]:
    server = ServerApi(line.url)
    with MonitoringApi("Alertmanager", line.url, SystemClock()) as peer:
        try:
            return [send([peer], server, SystemClock(), hours.sleep, hours.elapsed)]
        finally:
            server.close()


def test_a_test_alert_that_arrives_says_how_long_it_took_and_is_ended(httpserver: HTTPServer) -> None:
    through, hours = Line(httpserver, after=5), Hours()
    (finding,) = go(through, hours)
    assert (finding.verdict, finding.said) == ("pass", "the test alert arrived after 2.0 s")
    begun, ended = through.posted
    assert begun["labels"] == ended["labels"]
    assert begun["labels"]["action"] == "notify"
    assert begun["endsAt"] > ended["endsAt"] >= ended["startsAt"]


def test_a_test_alert_that_does_not_arrive_is_given_up_told_and_ended(httpserver: HTTPServer) -> None:
    through, hours = Line(httpserver, after=None), Hours()
    (finding,) = go(through, hours)
    assert (finding.check, finding.verdict) == ("alertmanager.test_alert", "fail")
    assert "did not arrive within 75 s" in finding.said
    assert len(through.posted) == 2


def test_where_no_alertmanager_takes_it_the_reason_is_told(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/api/v1/alerts").respond_with_json([])
    httpserver.expect_request("/api/v2/alerts").respond_with_json("bad", status=403)
    (finding,) = go_anyway(httpserver)
    assert finding.verdict == "fail"
    assert "no Alertmanager accepted the test alert: Alertmanager at http://" in finding.said
    assert "403" in finding.said


def test_the_alert_of_an_earlier_test_is_not_taken_for_this_one(httpserver: HTTPServer) -> None:
    earlier = {"labels": {"alertname": "GpuAutoscalerDoctor", "test": "another"}}
    through = Line(httpserver, after=None, there=[earlier])
    (finding,) = go(through, Hours())
    assert finding.verdict == "fail"


def test_without_a_server_that_tells_what_arrived_no_test_alert_is_sent(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/api/v1/alerts").respond_with_data("x", status=404)
    (finding,) = go_anyway(httpserver)
    assert finding.verdict == "fail"
    assert "cannot read the received alerts" in finding.said


def go_anyway(httpserver: HTTPServer) -> list[Finding]:
    server, url = ServerApi(httpserver.url_for("").rstrip("/")), httpserver.url_for("")
    with MonitoringApi("Alertmanager", url, SystemClock()) as peer:
        try:
            return [send([peer], server, SystemClock())]
        finally:
            server.close()


class Told(ServerApi):
    """A server that says *said* of its sources, or fails."""

    def __init__(self, said: Any) -> None:
        super().__init__("http://127.0.0.1:1")
        self._said = said

    def get(self, *path: str, query: Any = None) -> Any:
        if isinstance(self._said, Exception):
            raise self._said
        return type("Answer", (), {"document": {"sources": self._said}})


BEAT = {"source": "heartbeat", "up": True, "at": "2026-11-22T11:59:20+00:00"}


@pytest.mark.parametrize(
    "said, verdict, words",
    [
        ([BEAT], "pass", "40s ago"),
        ([{**BEAT, "up": False, "at": None}], "fail", "last: never"),
        ([{**BEAT, "up": False}], "fail", "last: 40s ago"),
        ([], "skip", "no step"),
        (TryLater("no connection"), "skip", "no connection"),
    ],
)
def test_what_the_server_says_of_the_heartbeat_is_believed(said: Any, verdict: str, words: str) -> None:
    finding = heard(Told(said), NOW)
    assert finding.verdict == verdict
    assert words in finding.said
