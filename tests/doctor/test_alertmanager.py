"""Peers of Alertmanager, their silences, and the test alert that goes round, over what they answer."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from receiver.adapters.clock import SystemClock
from receiver.adapters.http.own_api import ServerApi
from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.core.model.signals import Matcher, Silence
from receiver.doctor.alertmanager import AlertmanagerPeer, AlertWait, ask, heard, judge, send
from receiver.doctor.checks import Finding
from receiver.ports import TryLater
from tests.core.builders import a_policy
from tests.doctor.monitored import NOW
from tests.rules.files import RULES

JSON = dict[str, Any]
TEXT = (RULES / "alertmanager.yml").read_text(encoding="utf-8")
PENDING = {"alertname": "GpuPodsPending", "component": "gpu-autoscaler", "action": "scale_up"}
BEATS = {"alertname": "GpuAutoscalerHeartbeat", "component": "gpu-autoscaler", "action": "heartbeat"}
ALERTS = (PENDING, BEATS)
ROUTED = (("GpuAutoscalerHeartbeat", ("gpu-autoscaler",)), ("GpuPodsPending", ("gpu-autoscaler", "people")))
CHAT = {"url": "https://chat.acme.net/hook", "send_resolved": True}


def as_shipped() -> JSON:
    """The configuration that we ship, with a channel behind people's receivers."""
    config: JSON = yaml.safe_load(TEXT)
    for receiver in config["receivers"]:
        if receiver["name"].startswith("people"):
            receiver["webhook_configs"] = [CHAT]
    return config


def peers(*changes: dict[str, Any], config: JSON | None = None) -> list[AlertmanagerPeer]:
    """Two peers that see each other and run *config*, each with its *changes*."""
    original = yaml.safe_dump(as_shipped() if config is None else config)
    beat = {**BEATS, "cluster": "a"}
    well = AlertmanagerPeer(url="http://a:9093", version="0.28.1", knows=2, original=original, beat=beat, routed=ROUTED)
    both = [well, replace(well, url="http://b:9093")]
    return [replace(peer, **change) for peer, change in zip(both, [*changes, {}, {}], strict=False)]


def a_silence(**changes: Any) -> Silence:
    matchers = (Matcher(name="component", value="gpu-autoscaler"), Matcher(name="pool", value="l40s.*", is_regex=True))
    base = Silence(id="s1", matchers=matchers, ends_at=NOW + timedelta(hours=2), created_by="ada")
    return replace(base, **changes)


def found(said: Sequence[AlertmanagerPeer]) -> list[Finding]:
    return [finding for finding in judge(said, ALERTS, a_policy(), NOW) if finding.verdict != "pass"]


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
        (peers({"knows": 0}, {"knows": 0}), "cluster", "warn", "without a cluster"),
        (peers({"knows": 1}, {"knows": 1}), "cluster", "warn", "sees 1"),
        ([replace(peers()[0], knows=2)], "cluster", "warn", "lists 1 peer"),
        (peers({"version": "0.27.0"}), "versions", "warn", "0.27.0, 0.28.1"),
        (peers({"version": "0.24.0"}, {"version": "0.24.0"}), "versions", "warn", "older than 0.25"),
        (peers({"original": TEXT}), "versions", "warn", "different configurations"),
        (peers({"beat": None}), "heartbeat", "fail", "not at http://a:9093"),
        (peers({"beat": {**BEATS, "component": "x"}}), "heartbeat", "fail", "in its rule: component"),
        (peers({"silences": (a_silence(),)}), "silences", "warn", "silence s1 by ada until 2026-11-22 14:00 UTC"),
    ],
)
def test_a_fault_is_found_named_and_has_a_remedy(
    said: list[AlertmanagerPeer], check: str, verdict: str, words: str
) -> None:
    (finding,) = found(said)
    assert (finding.check, finding.verdict) == (f"alertmanager.{check}", verdict)
    assert words in finding.said
    assert finding.remedy


@pytest.mark.parametrize("named", ["l40s", "l40s-id"])
def test_a_silence_that_pauses_a_pool_is_found_also_where_it_hits_no_alert(named: str) -> None:
    """As the README writes it: ``amtool silence add component=gpu-autoscaler pool=l40s``."""
    matchers = (Matcher(name="component", value="gpu-autoscaler"), Matcher(name="pool", value=named))
    (finding,) = found(peers({"silences": (a_silence(matchers=matchers),)}))
    assert (finding.check, finding.verdict) == ("alertmanager.silences", "warn")
    assert "silence s1 by ada until 2026-11-22 14:00 UTC pauses GPU pool l40s" in finding.said
    assert finding.remedy == "let it end, or expire it: amtool silence expire s1"


def test_a_silence_that_pauses_a_pool_and_hits_alerts_is_one_finding() -> None:
    (finding,) = found(peers({"silences": (a_silence(matchers=(Matcher(name="pool", value=".*", is_regex=True),)),)}))
    assert "pauses GPU pool l40s, and mutes 2 alerts of the autoscaler" in finding.said


def test_a_silence_that_is_over_or_hits_nothing_of_ours_is_not_told() -> None:
    over = a_silence(ends_at=NOW)
    others = a_silence(id="s2", matchers=(Matcher(name="component", value="db"),))
    assert found(peers({"silences": (over, others)})) == []


def test_of_no_peer_that_answers_nothing_else_is_said() -> None:
    away = peers({"problem": "no connection"}, {"problem": "no connection"})
    assert {finding.check for finding in found(away)} == {"alertmanager.peers"}
    assert len(found(away)) == 2


def test_a_silence_of_one_cluster_mutes_the_alerts_that_carry_its_label() -> None:
    of_a = a_silence(matchers=(Matcher(name="cluster", value="a"),))
    of_b = a_silence(id="s2", matchers=(Matcher(name="cluster", value="b"),))
    (finding,) = found(peers({"silences": (of_a, of_b)}))
    assert "silence s1 by ada" in finding.said
    assert "mutes 2 alerts of the autoscaler: GpuPodsPending, GpuAutoscalerHeartbeat" in finding.said


def test_the_heartbeat_is_of_no_pool() -> None:
    of_a_pool = a_silence(matchers=(Matcher(name="pool", value="l40s-id"),))
    (finding,) = found(peers({"silences": (of_a_pool,)}))
    assert "mutes 1 alert of the autoscaler: GpuPodsPending" in finding.said


def webhook(config: JSON) -> list[Finding]:
    """What is said of our webhook where both peers run *config*."""
    said = judge(peers(config=config), ALERTS, a_policy(), NOW)
    return [finding for finding in said if finding.check == "alertmanager.webhook"]


# What the Prometheus Operator makes of our AlertmanagerConfig; Alertmanager hides the address.
OPERATOR = """
receivers:
- {name: "null"}
- {name: people, webhook_configs: [{url: <secret>}]}
- name: gpu-autoscaler/gpu-autoscaler/gpu-autoscaler
  webhook_configs:
  - url: <secret>
    http_config: {authorization: {type: Bearer, credentials: <secret>}}
"""


def test_the_webhook_that_we_ship_is_well() -> None:
    (finding,) = webhook(as_shipped())
    assert (finding.verdict, finding.said) == ("pass", "receiver gpu-autoscaler posts to the autoscaler with a token")


def test_a_hidden_address_counts_by_the_name_of_its_receiver() -> None:
    name = "gpu-autoscaler/gpu-autoscaler/gpu-autoscaler"
    said = [replace(peer, original=OPERATOR, routed=(("GpuAutoscalerHeartbeat", (name,)),)) for peer in peers()]
    (finding,) = [f for f in judge(said, ALERTS, a_policy(), NOW) if f.check == "alertmanager.webhook"]
    assert finding.verdict == "pass"
    assert "hides its URL" in finding.said


@pytest.mark.parametrize(
    "change, verdict, words",
    [
        ({"url": "http://example.org/hook"}, "fail", "no receiver has a webhook to the autoscaler"),
        ({"http_config": {}}, "fail", "gets status 401"),
        ({"http_config": {"basic_auth": {"username": "x"}}}, "fail", "gets status 401"),
        ({"max_alerts": 10}, "warn", "after 10 alerts"),
        ({"send_resolved": False}, "warn", "resolved"),
    ],
)
def test_a_fault_in_the_webhook_is_found_named_and_has_a_remedy(change: JSON, verdict: str, words: str) -> None:
    config = as_shipped()
    next(r for r in config["receivers"] if r["name"] == "gpu-autoscaler")["webhook_configs"][0].update(change)
    (finding,) = webhook(config)
    assert finding.verdict == verdict
    assert words in finding.said
    assert finding.remedy


def test_an_alert_that_alertmanager_routes_elsewhere_is_found() -> None:
    (finding,) = found(peers({"routed": (ROUTED[0], ("GpuPodsPending", ("people",)))}))
    assert (finding.check, finding.verdict) == ("alertmanager.webhook", "fail")
    assert finding.said == "alerts routed to people and not to gpu-autoscaler: GpuPodsPending"


def test_which_receivers_a_peer_names_is_read_for_alerts_that_are_not_for_people(httpserver: HTTPServer) -> None:
    alerts = [
        {"labels": {"alertname": "GpuPodsPending", "action": "scale_up"}, "receivers": [{"name": "ours"}]},
        {"labels": {"alertname": "GpuIdleCostHigh", "action": "notify"}, "receivers": [{"name": "people"}]},
    ]
    beat = {"labels": {"alertname": "GpuAutoscalerHeartbeat", "action": "heartbeat"}, "receivers": [{"name": "a"}]}
    of_name = {"filter": 'alertname="GpuAutoscalerHeartbeat"'}
    httpserver.expect_request("/-/ready").respond_with_data("")
    httpserver.expect_request("/api/v2/status").respond_with_json({"cluster": {"status": "disabled"}})
    httpserver.expect_request("/api/v2/alerts", query_string=of_name).respond_with_json([beat])
    ours = {"filter": 'component="gpu-autoscaler"'}
    httpserver.expect_request("/api/v2/alerts", query_string=ours).respond_with_json(alerts)
    httpserver.expect_request("/api/v2/alerts").respond_with_json([])
    httpserver.expect_request("/api/v2/silences").respond_with_json([])
    peer = ask(httpserver.url_for(""), SystemClock(), (1, 5))
    assert peer.problem == ""
    assert peer.routed == (("GpuAutoscalerHeartbeat", ("a",)), ("GpuPodsPending", ("ours",)))


def test_a_webhook_at_a_host_of_another_name_is_ours_by_its_path() -> None:
    config = as_shipped()
    receiver = next(r for r in config["receivers"] if r["name"] == "gpu-autoscaler")
    receiver["webhook_configs"][0]["url"] = "http://scaler.infra.svc/webhook"
    assert [finding.verdict for finding in webhook(config)] == ["pass"]


def test_a_chat_bridge_at_the_same_path_is_not_taken_for_us() -> None:
    config = as_shipped()
    chat = next(r for r in config["receivers"] if r["name"] == "people-chat")
    chat["webhook_configs"] = [{"url": "http://bridge.chat.svc/webhook", "max_alerts": 3}]
    assert [finding.verdict for finding in webhook(config)] == ["pass"]


@pytest.mark.parametrize("original", ["", "route: [", "- a"])
def test_a_configuration_that_cannot_be_read_is_not_judged(original: str) -> None:
    said = [replace(peer, original=original) for peer in peers()]
    verdicts = {f.check: f.verdict for f in judge(said, ALERTS, a_policy(), NOW)}
    assert verdicts["alertmanager.webhook"] == "skip"


def test_a_peer_that_is_away_is_told_and_not_raised() -> None:
    peer = ask("http://us:secret@127.0.0.1:1", SystemClock(), (1, 1))
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
        self.now, self.said = 0.0, list[str]()

    def waiting(self) -> AlertWait:
        return AlertWait(say=self.said.append, sleep=self._sleep, elapsed=lambda: self.now)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def go(line: Line, hours: Hours) -> list[Finding]:
    server = ServerApi(line.url)
    with MonitoringApi("Alertmanager", line.url, SystemClock()) as peer:
        try:
            return list(send([peer], server, SystemClock(), hours.waiting()))
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
    assert hours.said[0] == "waiting for the test alert for 10 s"


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
            return list(send([peer], server, SystemClock(), Hours().waiting()))
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
