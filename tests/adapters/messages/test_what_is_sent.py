"""The requests that Slack gets, and Telegram by Apprise's plugin."""

import json
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import responses
from hypothesis import given
from hypothesis import strategies as st
from requests import PreparedRequest
from structlog.testing import capture_logs

from receiver.adapters.messages import Outbox, disarm, opened, slack
from receiver.adapters.store import open_store
from receiver.core.notices.grouping import Message
from receiver.core.notices.notice import Notice, Severity
from receiver.core.notices.routing import Format, Route
from tests.adapters.messages.destinations import LINKS, NOW, SLACK, SLACK_API, TELEGRAM, TELEGRAM_API
from tests.adapters.store.builders import migrated
from tests.clocks import FixedClock

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)
BOT_API = "https://slack.com/api/chat.postMessage"
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


def send(folder: Path, destination: str, notice: Notice, **routes: Route) -> int:
    store = open_store(migrated(folder / "store.db"))
    store.say(notice, NOW)
    finished = Outbox(store, [destination], FixedClock(NOW), links=LINKS, routes=routes).deliver_due(NOW)
    store.close()
    return finished


def texts(block: dict[str, Any]) -> list[dict[str, Any]]:
    """The text objects of *block*, without those of its buttons."""
    return [block["text"]] if "text" in block else list(block["elements"])


def shown(block: dict[str, Any]) -> list[str]:
    return [text["text"] for text in texts(block)]


def only(wire: responses.RequestsMock) -> PreparedRequest:
    assert len(wire.calls) == 1
    return wire.calls[0].request


def document(request: PreparedRequest) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(request.body or "")
    return loaded


def test_slack_gets_header_sentences_and_what_they_are_about(wire: responses.RequestsMock, tmp_path: Path) -> None:
    wire.post(SLACK_API, body="ok")
    assert send(tmp_path, SLACK, GROWN) == 1
    request = only(wire)
    assert (request.method, request.url) == ("POST", SLACK_API)
    assert request.headers["Content-Type"] == "application/json; charset=utf-8"
    sent = document(request)
    assert sent["channel"] == "#gpu"
    assert sent["text"] == f"\N{LARGE GREEN CIRCLE} GPU pool l40s: 1 -&gt; 3 nodes\n{GROWN.body}"
    assert [(block["type"], shown(block)) for block in sent["blocks"]] == [
        ("header", ["\N{LARGE GREEN CIRCLE} GPU pool l40s: 1 -&gt; 3 nodes"]),
        ("section", [GROWN.body]),
        ("context", ["Success"]),
    ]


def test_a_message_has_its_times_by_the_clocks_of_the_zone(wire: responses.RequestsMock, tmp_path: Path) -> None:
    wire.post(SLACK_API, body="ok")
    store = open_store(migrated(tmp_path / "store.db"))
    store.say(replace(GROWN, body="Paused until 2026-07-01 22:30 UTC."), NOW)
    Outbox(store, [SLACK], FixedClock(NOW), links=LINKS, zone="Europe/Berlin").deliver_due(NOW)
    store.close()
    assert "Paused until 2026-07-02 00:30 CEST." in document(only(wire))["text"]


def test_slack_gets_text_where_the_route_says_so(wire: responses.RequestsMock, tmp_path: Path) -> None:
    wire.post(SLACK_API, body="ok")
    assert send(tmp_path, f"chat={SLACK}", GROWN, chat=Route(format=Format.TEXT)) == 1
    (attachment,) = document(only(wire))["attachments"]
    assert (attachment["title"], attachment["text"]) == ("GPU pool l40s: 1 -&gt; 3 nodes", GROWN.body)


def test_a_slack_bot_posts_the_same_to_each_channel(wire: responses.RequestsMock, tmp_path: Path) -> None:
    wire.post(BOT_API, json={"ok": True})
    assert send(tmp_path, "slack://xoxb-1234-1234-abc124/#gpu/+C0123", GROWN) == 1
    first, second = (call.request for call in wire.calls)
    assert first.headers["Authorization"] == "Bearer xoxb-1234-1234-abc124"
    assert (document(first)["channel"], document(second)["channel"]) == ("#gpu", "C0123")
    assert document(first)["blocks"] == document(second)["blocks"]


def test_what_slack_rejects_with_status_200_is_not_delivered(wire: responses.RequestsMock, tmp_path: Path) -> None:
    wire.post(BOT_API, json={"ok": False, "error": "not_in_channel"})
    with capture_logs() as logged:
        assert send(tmp_path, "slack://xoxb-1234-1234-abc124/#gpu", GROWN) == 0
    assert logged[0]["errors"] == ["destination 1 (slack): it answered not_in_channel"]


def test_links_of_a_slack_message_are_buttons_and_commands_are_lines() -> None:
    links = (("Decision 42", "https://gpu.example.com/decisions/42"), ("What to do", "docs/costs.md"))
    _, section, _, actions = slack.document(Message(title="t", text="b", links=links))["blocks"]
    assert section["text"]["text"] == "b\nWhat to do: docs/costs.md"
    (button,) = actions["elements"]
    assert (button["text"]["text"], button["url"]) == links[0]


def test_a_slack_message_names_cluster_pool_team_and_decision() -> None:
    message = Message(title="t", severity=Severity.FAILURE, cluster="prod", pool="l40s", team="vision", decision=7)
    _, context = slack.document(message)["blocks"]
    dot = " \N{MIDDLE DOT} "
    assert shown(context) == [dot.join(("Failure", "Cluster prod", "Pool l40s", "Team vision", "Decision 7"))]


@given(st.text("&<>ab @[", max_size=4000), st.text("&<>", max_size=300), st.text(max_size=4000))
def test_no_text_makes_slack_reject_the_message(title: str, label: str, address: str) -> None:
    links = ((label, f"https://{address}"), ("A", "https://a.example"))
    header, section, _, actions = slack.document(Message(title=title, text=title or "b", links=links))["blocks"]
    assert len(header["text"]["text"]) <= 150
    assert len(section["text"]["text"]) <= 3000
    assert all(len(button["text"]["text"]) <= 75 and len(button["url"]) <= 3000 for button in actions["elements"])


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
    ("severity", "sign"), [("info", ""), ("success", "GREEN"), ("warning", "YELLOW"), ("failure", "RED")]
)
def test_a_slack_message_shows_its_severity_as_a_colour_and_as_a_word(severity: str, sign: str) -> None:
    header, context = slack.document(Message(title="t", severity=Severity(severity)))["blocks"]
    colour = unicodedata.lookup(f"LARGE {sign} CIRCLE") + " " if sign else ""
    assert (shown(header), shown(context)) == ([f"{colour}t"], [severity.capitalize()])


def test_what_an_alert_says_cannot_call_the_whole_channel(wire: responses.RequestsMock, tmp_path: Path) -> None:
    wire.post(SLACK_API, body="ok")
    send(
        tmp_path, SLACK, Notice(cause="test", topic="t", key="k", title="@here <!channel>", body="<!everyone> @channel")
    )
    sent = document(only(wire))
    said = sent["text"] + "".join(word for block in sent["blocks"] for word in shown(block))
    assert not any(call in said for call in ("@here", "@channel", "<!", "&lt;!"))
    assert sent["text"].replace("\u200b", "") == "@here &lt;!channel&gt;\n&lt;!everyone&gt; @channel"
    assert {text["type"] for block in sent["blocks"] for text in texts(block)} == {"plain_text"}


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
        destination.send(Message(title=f"T {evil}", text=evil))
        sent = json.dumps(document(wire.calls[0].request), ensure_ascii=False)
    assert re.findall(r"@here|@alice|<@|<!|&lt;[@!]|\]\(|<http|\u202e|\\u001b", sent) == []


@pytest.mark.parametrize("plain", ["ops@hereford.example", "a < b", "pool@2x", "1 -> 3", "<b>", "me@allied.example"])
def test_what_is_no_mention_is_left_alone(plain: str) -> None:
    assert disarm(plain) == plain
