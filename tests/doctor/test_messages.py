"""Destinations of messages: what is missing, odd or not understood is told, and no secret with it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.doctor.checks import Finding
from receiver.doctor.messages import look
from tests.doctor.builders import document
from tests.doctor.builders import installation as installed

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)
URLS = "GPU_AUTOSCALER_NOTIFY_URLS"
SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
TELEGRAM = "tgram://123456789:abcdefg_hijklmnop"


def found(
    folder: Path, urls: str = "", teams: str = "", *, send: bool = False, said: dict[str, Any] | None = None
) -> list[Finding]:
    more = {URLS: urls, "GPU_AUTOSCALER_TEAM_NOTIFY_URLS": teams}
    return list(look(replace(installed(folder, said, **more), send_test_message=send)))


def trouble(said: list[Finding]) -> list[str]:
    return [f"{f.check.removeprefix('messages.')} {f.verdict}" for f in said if f.verdict in ("warn", "fail")]


def test_destinations_that_can_be_used_raise_no_alarm(tmp_path: Path) -> None:
    told = found(tmp_path, f"{SLACK} {TELEGRAM}/12315544", f"vision={SLACK}")
    assert trouble(told) == []
    assert "2 destinations for all messages, and those of 1 team" in told[0].said


def test_the_format_of_each_destination_is_said(tmp_path: Path) -> None:
    told = found(tmp_path, f"{SLACK} pager={TELEGRAM}/12315544")
    assert told[1].said == "2 destinations: destination 1 (slack) as Slack blocks, pager (tgram) as text"


def test_nobody_to_tell_is_a_warning(tmp_path: Path) -> None:
    assert trouble(found(tmp_path)) == ["destinations warn"]


def test_a_team_alone_does_not_hear_what_is_about_no_team(tmp_path: Path) -> None:
    told = found(tmp_path, teams=f"vision={SLACK}")
    assert trouble(told) == ["destinations warn"]
    assert "messages go to teams only" in told[0].said


@pytest.mark.parametrize(
    "url, check, words",
    [
        (TELEGRAM, "complete warn", "names no chat"),
        ("slack://xoxb-1234-1234-abc124", "complete warn", "go to #general"),
        (f"{TELEGRAM}/111/222", "complete warn", "has several targets"),
        ("nosuch://aaaaaaaa", "understood fail", "does not understand it"),
        ("pager=nosuch://aaaaaaaa", "understood fail", "pager (nosuch): Apprise does not understand it"),
    ],
)
def test_what_is_wrong_with_an_address_is_named_without_its_secret(
    tmp_path: Path, url: str, check: str, words: str
) -> None:
    told = found(tmp_path, url)
    assert trouble(told) == [check]
    (finding,) = [f for f in told if f.verdict in ("warn", "fail")]
    assert words in finding.said
    assert finding.remedy
    assert url.partition("://")[2] not in " ".join(f.said + f.remedy for f in told)


def test_a_slack_bot_with_a_channel_is_complete(tmp_path: Path) -> None:
    assert trouble(found(tmp_path, "slack://xoxb-1234-1234-abc124/#gpu")) == []


def test_a_test_message_is_sent_only_on_request(tmp_path: Path, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/good").respond_with_data("ok")
    where = httpserver.url_for("").rstrip("/").replace("http://", "json://")
    assert found(tmp_path, f"{where}/good")[-1].verdict == "skip"
    assert httpserver.log == []


def test_a_test_message_goes_to_every_destination_and_each_says_what_became_of_it(
    tmp_path: Path, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/good").respond_with_data("ok")
    httpserver.expect_request("/bad/SECRETWORD").respond_with_data("no", status=403)
    where = httpserver.url_for("").rstrip("/").replace("http://", "json://")
    told = found(tmp_path, f"{where}/good {where}/bad/SECRETWORD", f"vision={where}/good", send=True)
    sent = [f for f in told if f.check == "messages.test_message"]
    assert [f.verdict for f in sent] == ["pass", "fail", "pass"]
    assert "destination 2 (json)" in sent[1].said
    assert "of team vision" in sent[2].said
    assert "SECRETWORD" not in sent[1].said
    (body,) = {request.get_json()["title"] for request, _ in httpserver.log if request.path == "/good"}
    assert body == "Test message of the GPU autoscaler"


def test_a_test_message_is_an_event_where_events_go(tmp_path: Path, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/events").respond_with_data()
    said = document(notify={"destinations": {"events": {"format": "cloudevents"}}})
    for _ in range(2):
        told = found(tmp_path, f"events={httpserver.url_for('/events')}", send=True, said=said)
        assert told[-1].said == "events (http) accepted the test message"
    first, second = (request.get_json(force=True) for request, _ in httpserver.log)
    assert first["type"] == "io.gpu-autoscaler.notice.test.v1"
    assert first["id"] != second["id"]


def test_a_format_that_a_destination_does_not_take_is_named(tmp_path: Path) -> None:
    said = document(notify={"destinations": {"pager": {"format": "slack"}}})
    (finding,) = [f for f in found(tmp_path, f"pager={TELEGRAM}/1", said=said) if f.verdict == "fail"]
    assert "pager (tgram): it is no Slack webhook" in finding.said
