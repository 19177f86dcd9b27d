"""The requests that Slack and Telegram get, as Apprise's own plugins make them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import responses
from requests import PreparedRequest

from receiver.adapters.messages import Outbox, disarm, opened
from receiver.adapters.store import open_store
from receiver.core.notices.grouping import Message
from receiver.core.notices.notice import Notice, Severity
from tests.adapters.messages.destinations import LINKS, NOW, SLACK, SLACK_API, TELEGRAM, TELEGRAM_API, FixedClock
from tests.adapters.store.builders import migrated

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)

GROWN = Notice(
    cause="test",
    topic="action:5f3c",
    key="grow:1:3:confirmed",
    title="GPU pool l40s: 1 -> 3 nodes",
    body="Why: 2 pods wait for *2* GPUs (ml_team/train_1).\nBudget 2026-11: $120.00 of $5,000.00 spent (2%).",
    severity=Severity.SUCCESS,
)


@pytest.fixture
def wire() -> Any:
    with responses.RequestsMock() as wire:
        yield wire


def send(folder: Path, destination: str, notice: Notice) -> int:
    store = open_store(migrated(folder / "store.db"))
    store.say(notice, NOW)
    finished = Outbox(store, [destination], FixedClock(NOW), links=LINKS).deliver_due(NOW)
    store.close()
    return finished


def only(wire: responses.RequestsMock) -> PreparedRequest:
    assert len(wire.calls) == 1
    return wire.calls[0].request


def document(request: PreparedRequest) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(request.body or "")
    return loaded


def test_slack_gets_title_and_text_in_one_attachment(wire: responses.RequestsMock, tmp_path: Path) -> None:
    wire.post(SLACK_API, body="ok")
    assert send(tmp_path, SLACK, GROWN) == 1
    request = only(wire)
    assert (request.method, request.url) == ("POST", SLACK_API)
    assert request.headers["Content-Type"] == "application/json; charset=utf-8"
    assert request.headers["User-Agent"] == "gpu-autoscaler"
    sent = document(request)
    assert sent["attachments"][0].pop("ts") > 0  # when Apprise made it, by the machine's clock
    assert sent == {
        "channel": "#gpu",
        "mrkdwn": False,
        "attachments": [
            {
                "title": "GPU pool l40s: 1 -&gt; 3 nodes",
                "text": "Why: 2 pods wait for *2* GPUs (ml_team/train_1).\n"
                "Budget 2026-11: $120.00 of $5,000.00 spent (2%).",
                "color": "#3AA337",
                "footer": "gpu-autoscaler",
            }
        ],
    }


def test_telegram_gets_a_bold_title_and_the_text_as_html(wire: responses.RequestsMock, tmp_path: Path) -> None:
    wire.post(TELEGRAM_API, json={"ok": True, "result": {}})
    assert send(tmp_path, TELEGRAM, GROWN) == 1
    request = only(wire)
    assert (request.method, request.url) == ("POST", TELEGRAM_API)
    assert request.headers["Content-Type"] == "application/json"
    assert document(request) == {
        "chat_id": 12315544,
        "parse_mode": "HTML",
        "text": "<b>GPU pool l40s: 1 -&gt; 3 nodes</b>\r\nWhy: 2 pods wait for *2* GPUs (ml_team/train_1).\r\n"
        "Budget 2026-11: $120.00 of $5,000.00 spent (2%).",
        "disable_notification": False,
        "disable_web_page_preview": True,
    }


@pytest.mark.parametrize(
    ("severity", "colour"),
    [("info", "#3AA3E3"), ("success", "#3AA337"), ("warning", "#CACF29"), ("failure", "#A32037")],
)
def test_a_notice_is_coloured_by_its_severity(
    wire: responses.RequestsMock, tmp_path: Path, severity: str, colour: str
) -> None:
    wire.post(SLACK_API, body="ok")
    send(tmp_path, SLACK, Notice(cause="test", topic="t", key="k", title="t", body="b", severity=Severity(severity)))
    assert document(only(wire))["attachments"][0]["color"] == colour


def test_what_an_alert_says_cannot_call_the_whole_channel(wire: responses.RequestsMock, tmp_path: Path) -> None:
    wire.post(SLACK_API, body="ok")
    send(
        tmp_path, SLACK, Notice(cause="test", topic="t", key="k", title="@here <!channel>", body="<!everyone> @channel")
    )
    (attachment,) = document(only(wire))["attachments"]
    said = attachment["title"] + attachment["text"]
    assert not any(call in said for call in ("@here", "@channel", "<!", "&lt;!"))
    assert said.replace("\u200b", "") == "@here &lt;!channel&gt;&lt;!everyone&gt; @channel"


@pytest.mark.parametrize(
    "call",
    [
        *("@channel", "@here", "@Everyone", "@all", "<!channel>", "<!here|here>", "<!subteam^S1>", "<@U1>"),
        *("@alice", ".@alice", "-@alice", "\u00e9@alice"),
    ],
)
def test_a_mention_reads_the_same_and_calls_nobody(call: str) -> None:
    assert call not in disarm(f"node {call} is idle")
    assert disarm(f"node {call} is idle").replace("\u200b", "") == f"node {call} is idle"


EVIL = "https://evil.test/x"


@pytest.mark.parametrize(
    "hidden",
    [
        f"[the page]({EVIL})",
        f"![](  {EVIL})",
        f"<{EVIL}|the page>",
        f"[a][1] [1]: {EVIL}",
        f"<{EVIL}>",
        "<javascript:x>",
    ],
)
def test_no_address_hides_behind_other_words(hidden: str) -> None:
    said = disarm(f"Civo says {hidden}.")
    assert not re.search(r"\]\(|\]\[|\]:|<\w+:", said)
    assert said.replace("\u200b", "") == f"Civo says {hidden}."


@pytest.mark.parametrize("obeyed", ["\x1b[2J", "\x07", "\u202egpj.exe", "\u2066", "\u200f", "\x9b1m", "\u2028"])
def test_what_a_screen_would_obey_is_sent_to_nobody(obeyed: str) -> None:
    assert obeyed[0] not in disarm(f"node {obeyed}")


# How each speaks to its service: escaped HTML, escaped Markdown, Markdown as it is, and plain text.
CHATS = [
    SLACK,
    TELEGRAM,
    "discord://1234567890123456789/abcdefghijklmnopqrstuvwxyz0123456789012345678901234567890123456789",
    "mmost://chat.example.com/3ccdd113474722377935511fc85d3dd4",
    "workflows://host.example.com:443/workflowid/signature/",
    "gchat://workspace/key/token",
    "ntfy://ntfy.example.com/topic",
    "json://chat.example.com",
]


@pytest.mark.parametrize("url", CHATS, ids=lambda url: url.partition(":")[0])
def test_no_chat_is_given_a_mention_a_hidden_link_or_markup_of_others(url: str) -> None:
    evil = f"@here @alice <@U1> <!channel> [ok]({EVIL}) <{EVIL}|ok> \u202ex \x1b[1m"
    (destination,) = opened([url])
    with responses.RequestsMock() as wire:
        wire.post(re.compile(".*"), json={"ok": True, "result": {}})
        destination.send(Message(title=f"T {evil}", body=evil), Severity.INFO)
        sent = json.dumps(document(wire.calls[0].request), ensure_ascii=False)
    assert re.findall(r"@here|@alice|<@|<!|&lt;[@!]|\]\(|<http|\u202e|\\u001b", sent) == []


@pytest.mark.parametrize("plain", ["ops@hereford.example", "a < b", "pool@2x", "1 -> 3", "<b>", "me@allied.example"])
def test_what_is_no_mention_is_left_alone(plain: str) -> None:
    assert disarm(plain) == plain
