"""Events for machines, over a real server: one request per notice, the same id in every retry, and no redirect."""

import base64
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs

from receiver.adapters.messages import Outbox
from receiver.core.notices.grouping import PageLinks, Seal
from receiver.core.notices.notice import Cause, Notice, Severity
from receiver.core.notices.routing import Format, Route
from simulator.store import MemoryStore
from tests.adapters.messages.destinations import NOW
from tests.clocks import FixedClock

LINKS = PageLinks(
    cluster_name="prod",
    public_url="https://gpu.example.com",
    pool_names={"5f3c": "l40s"},
    seal=lambda: Seal("an operator's long token", "a key"),
)
ROUTES = {"events": Route(format=Format.CLOUDEVENTS)}
SECRET = "SECRET-of-the-endpoint"
PATH = f"/hooks/{SECRET}"
MINUTE = timedelta(minutes=1)


def say(store: MemoryStore, *titles: str, at: datetime = NOW, **changes: Any) -> None:
    for title in titles:
        notice = Notice(cause=Cause.GREW, topic="action:5f3c", key=title, title=title, body="body", pool="5f3c")
        given = {name: getattr(notice, name) for name in ("cause", "topic", "key", "title", "body", "pool")}
        assert store.say(Notice(**{**given, **changes}), at)


def an_outbox(store: MemoryStore, clock: FixedClock, url: str, links: PageLinks = LINKS) -> Outbox:
    return Outbox(store, [f"events={url}"], clock, links=links, routes=ROUTES)


def events(server: HTTPServer) -> list[dict[str, Any]]:
    return [request.get_json(force=True) for request, _ in server.log]


def test_an_event_has_all_that_the_specification_wants(
    store: MemoryStore, clock: FixedClock, httpserver: HTTPServer
) -> None:
    httpserver.expect_request(PATH, method="POST").respond_with_data(status=202)
    say(store, "GPU pool l40s: 1 -> 3 nodes", severity=Severity.SUCCESS, decision=42)
    assert an_outbox(store, clock, httpserver.url_for(PATH)).deliver_due(NOW) == 1
    ((request, _),) = httpserver.log
    assert request.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    (event,) = events(httpserver)
    assert event.pop("id")
    assert event == {
        "specversion": "1.0",
        "source": "https://gpu.example.com",
        "type": "io.gpu-autoscaler.notice.grew.v1",
        "time": "2026-11-21T12:00:00+00:00",
        "subject": "l40s",
        "datacontenttype": "application/json",
        "data": {
            "title": "[prod] GPU pool l40s: 1 -> 3 nodes",
            "body": "body",
            "severity": "success",
            "cluster": "prod",
            "pool": "l40s",
            "team": None,
            "decision": 42,
            "links": [
                {"label": "Decision 42", "url": "https://gpu.example.com/decisions/42"},
            ],
        },
    }


def test_without_a_public_url_the_source_names_the_cluster(
    store: MemoryStore, clock: FixedClock, httpserver: HTTPServer
) -> None:
    httpserver.expect_request(PATH).respond_with_data()
    say(store, "a", pool=None)
    an_outbox(store, clock, httpserver.url_for(PATH), PageLinks(cluster_name="prod")).deliver_due(NOW)
    (event,) = events(httpserver)
    assert (event["source"], "subject" in event) == ("/gpu-autoscaler/prod", False)


def test_each_notice_is_an_event_of_its_own_however_fast_they_come(
    store: MemoryStore, clock: FixedClock, httpserver: HTTPServer
) -> None:
    httpserver.expect_request(PATH).respond_with_data()
    outbox = an_outbox(store, clock, httpserver.url_for(PATH))
    say(store, "a", "b")
    assert outbox.deliver_due(NOW) == 2
    say(store, "c", at=clock.pass_time(timedelta(seconds=1)))
    assert outbox.deliver_due(clock.at) == 1
    found = events(httpserver)
    assert [event["data"]["title"] for event in found] == ["[prod] a", "[prod] b", "[prod] c"]
    assert len({event["id"] for event in found}) == 3


def test_a_retry_has_the_same_id_and_what_arrived_is_not_sent_again(
    store: MemoryStore, clock: FixedClock, httpserver: HTTPServer
) -> None:
    for status in (200, 503, 200, 200):
        httpserver.expect_ordered_request(PATH).respond_with_data(status=status)
    say(store, "a", "b", "c")
    assert an_outbox(store, clock, httpserver.url_for(PATH)).deliver_due(NOW) == 1
    later = clock.pass_time(MINUTE)
    assert an_outbox(store, clock, httpserver.url_for(PATH)).deliver_due(later) == 2  # as if restarted
    found = events(httpserver)
    assert [event["data"]["title"] for event in found] == ["[prod] a", "[prod] b", "[prod] b", "[prod] c"]
    assert found[1] == found[2]


def test_a_retry_has_the_same_id_although_the_notice_was_brought_up_to_date(
    store: MemoryStore, clock: FixedClock, httpserver: HTTPServer
) -> None:
    for status in (503, 200):
        httpserver.expect_ordered_request(PATH).respond_with_data(status=status)
    outbox = an_outbox(store, clock, httpserver.url_for(PATH))
    for body in ("$9.00 left", "$8.00 left"):
        held = Notice(cause=Cause.HELD, topic="held:5f3c:within_budget", key="2026-11-21", title="held", body=body)
        store.stand([held], clock.at, complete=True)
        outbox.deliver_due(clock.at)
        clock.pass_time(MINUTE)
    first, again = events(httpserver)
    assert (first["id"], again["data"]["body"]) == (again["id"], "$8.00 left")


def test_a_long_queue_goes_out_over_several_rounds(
    store: MemoryStore, clock: FixedClock, httpserver: HTTPServer
) -> None:
    httpserver.expect_request(PATH).respond_with_data()
    say(store, *(f"{number:02}" for number in range(45)))
    outbox = an_outbox(store, clock, httpserver.url_for(PATH))
    assert [outbox.deliver_due(clock.pass_time(timedelta(seconds=1))) for _ in range(4)] == [20, 20, 5, 0]
    assert [event["data"]["title"] for event in events(httpserver)] == [f"[prod] {number:02}" for number in range(45)]


def test_no_redirect_takes_the_event_elsewhere(store: MemoryStore, clock: FixedClock, httpserver: HTTPServer) -> None:
    elsewhere = {"Location": httpserver.url_for("/elsewhere")}
    httpserver.expect_request(PATH).respond_with_data(status=307, headers=elsewhere)
    say(store, "a")
    with capture_logs() as logged:
        assert an_outbox(store, clock, httpserver.url_for(PATH)).deliver_due(NOW) == 0
    assert [request.path for request, _ in httpserver.log] == [PATH]
    assert logged[0]["errors"] == ["events (http): it answered 307"]


def test_an_endpoint_that_repeats_its_secret_shows_it_to_no_log(
    store: MemoryStore, clock: FixedClock, httpserver: HTTPServer
) -> None:
    httpserver.expect_request(PATH).respond_with_data(f"no such hook: {SECRET}", status=404)
    say(store, "a")
    with capture_logs() as logged:
        an_outbox(store, clock, httpserver.url_for(PATH)).deliver_due(NOW)
    assert logged[0]["errors"] == ["events (http): it answered 404 no such hook: ***"]


def test_the_login_in_a_url_is_sent_and_that_of_netrc_is_not(
    store: MemoryStore, clock: FixedClock, httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text(f"machine {httpserver.host} login other password SECRET\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    httpserver.expect_request(PATH).respond_with_data()
    say(store, "a")
    url = httpserver.url_for(PATH)
    an_outbox(store, clock, url).deliver_due(NOW)
    an_outbox(store, clock, url.replace("http://", "http://me:p%40ss@")).deliver_due(NOW)
    say(store, "b")
    an_outbox(store, clock, url.replace("http://", "http://me:p%40ss@")).deliver_due(NOW)
    found = [request.headers.get("Authorization") for request, _ in httpserver.log]
    assert found == [None, f"Basic {base64.b64encode(b'me:p@ss').decode()}"]


def test_an_event_holds_no_link_that_answers_a_question(
    store: MemoryStore, clock: FixedClock, httpserver: HTTPServer
) -> None:
    httpserver.expect_request(PATH).respond_with_data()
    say(store, "Grow?", cause=Cause.ASKS, question="q-1")
    an_outbox(store, clock, httpserver.url_for(PATH)).deliver_due(NOW)
    assert "/answer/" not in str(events(httpserver))
