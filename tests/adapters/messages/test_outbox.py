"""Delivery: retried, given up, told once per destination, and never with a secret in a log."""

import io
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import responses
from requests import ConnectionError as NoConnectionError
from structlog.testing import capture_logs

from receiver.adapters.messages import Outbox, check_destinations, hide, next_try
from receiver.core.notices.grouping import PageLinks, Seal
from receiver.core.notices.notice import Notice
from receiver.ports import StoredNotice, TryLater
from simulator.store import MemoryStore
from tests.adapters.messages.destinations import LINKS, NOW, SECRETS, SLACK, SLACK_API, TELEGRAM, TELEGRAM_API
from tests.clocks import FixedClock

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)
TOO_MANY = {"ok": False, "error_code": 429, "description": "Too Many Requests: retry after 30"}


def say(store: MemoryStore, *keys: str) -> None:
    for key in keys or ("k",):
        assert store.say(Notice(cause="test", topic="t", key=key, title=f"title {key}", body="body"), NOW)


def sent_to(wire: responses.RequestsMock) -> list[str]:
    names = {SLACK_API: "slack", TELEGRAM_API: "telegram"}
    return [names[call.request.url or ""] for call in wire.calls]


def test_nothing_due_sends_nothing(store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock) -> None:
    assert Outbox(store, [SLACK], clock, links=LINKS).deliver_due(NOW) == 0
    assert sent_to(wire) == []


@pytest.mark.parametrize(
    ("topic", "whom"),
    [
        ("report:team:vision", "telegram"),
        ("budget:team:vision", "telegram"),
        ("budget-change:team:vision", "telegram"),
        ("report:team:search", "slack"),
        ("report:everybody", "slack"),
        ("budget:pool:vision", "slack"),
        ("override:team:vision", "slack"),
    ],
)
def test_what_is_about_a_team_goes_to_its_own_destination_and_everything_else_to_the_others(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock, topic: str, whom: str
) -> None:
    wire.post(SLACK_API, body="ok")
    wire.post(TELEGRAM_API, json={"ok": True})
    assert store.say(Notice(cause="test", topic=topic, key="k", title="t", body="b"), NOW)
    assert Outbox(store, [SLACK], clock, {"vision": [TELEGRAM]}, links=LINKS).deliver_due(NOW) == 1
    assert sent_to(wire) == [whom]


def test_a_teams_destination_that_fails_is_named_without_its_secrets_and_tried_again(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(TELEGRAM_API, json=TOO_MANY, status=429)
    assert store.say(Notice(cause="test", topic="report:team:vision", key="k", title="t", body="b"), NOW)
    with capture_logs() as logs:
        assert Outbox(store, [], clock, {"vision": [TELEGRAM]}, links=LINKS).deliver_due(NOW) == 0
    said = str(logs)
    assert "of team vision destination 1 (tgram)" in said
    assert not any(secret in said for secret in SECRETS)
    assert len(store.notices_due(NOW + timedelta(minutes=1))) == 1


def test_a_delivered_notice_is_not_sent_again(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(SLACK_API, body="ok")
    say(store)
    outbox = Outbox(store, [SLACK], clock, links=LINKS)
    assert [outbox.deliver_due(NOW), outbox.deliver_due(NOW + timedelta(days=1))] == [1, 0]
    assert store.counts()["notices"] == {"pending": 0, "sent": 1, "failed": 0}


@pytest.mark.parametrize(
    ("destination", "api", "answer"),
    [
        (SLACK, SLACK_API, {"status": 500, "body": "server error"}),
        (TELEGRAM, TELEGRAM_API, {"status": 429, "json": TOO_MANY}),
        (SLACK, SLACK_API, {"body": NoConnectionError("no route to host")}),
    ],
    ids=["slack 500", "telegram 429", "no connection"],
)
def test_a_failed_notice_is_sent_again_half_a_minute_later(
    store: MemoryStore,
    clock: FixedClock,
    wire: responses.RequestsMock,
    destination: str,
    api: str,
    answer: dict[str, Any],
) -> None:
    wire.post(api, **answer)
    wire.post(api, json={"ok": True}) if api == TELEGRAM_API else wire.post(api, body="ok")
    say(store)
    outbox = Outbox(store, [destination], clock, links=LINKS)
    assert outbox.deliver_due(NOW) == 0
    assert outbox.deliver_due(clock.pass_time(timedelta(seconds=29))) == 0
    assert len(wire.calls) == 1
    assert outbox.deliver_due(clock.pass_time(timedelta(seconds=1))) == 1
    assert len(wire.calls) == 2


def test_the_reason_of_a_failure_is_kept(store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock) -> None:
    wire.post(TELEGRAM_API, status=429, json=TOO_MANY)
    say(store)
    with capture_logs() as logged:
        Outbox(store, [TELEGRAM], clock, links=LINKS).deliver_due(NOW)
    (line,) = logged
    assert line["event"] == "notice not delivered"
    assert line["errors"][0].startswith("destination 1 (tgram): ")
    assert "429" in line["errors"][0]
    assert line["retry_at"] == "2026-11-21T12:00:30+00:00"


def test_retries_double_up_to_half_an_hour() -> None:
    waits = [(at - NOW).total_seconds() for n in range(9) if (at := next_try(n, NOW))]
    assert waits == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_a_notice_is_given_up_after_a_day(store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock) -> None:
    wire.post(SLACK_API, status=500)
    say(store)
    outbox = Outbox(store, [SLACK], clock, links=LINKS)
    while store.counts()["notices"]["pending"]:
        outbox.deliver_due(clock.pass_time(timedelta(minutes=2)))
        assert clock.at - NOW < timedelta(hours=25)
    assert clock.at - NOW >= timedelta(hours=24)
    assert store.counts()["notices"] == {"pending": 0, "sent": 0, "failed": 1}
    assert 50 < len(wire.calls) < 60


def test_a_failing_destination_does_not_make_the_others_hear_it_twice(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(SLACK_API, status=500)
    wire.post(SLACK_API, status=500)
    wire.post(SLACK_API, body="ok")
    wire.post(TELEGRAM_API, json={"ok": True})
    say(store)
    for _ in range(3):  # each time as if restarted
        Outbox(store, [SLACK, TELEGRAM], clock, links=LINKS).deliver_due(clock.pass_time(timedelta(minutes=5)))
    assert sent_to(wire) == ["slack", "telegram", "slack", "slack"]
    assert store.counts()["notices"]["sent"] == 1


def test_a_failing_destination_is_tried_once_per_round(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(SLACK_API, status=500)
    wire.post(TELEGRAM_API, json={"ok": True})
    for topic in "abc":
        assert store.say(Notice(cause="test", topic=topic, key="k", title="t", body="b"), NOW)
    Outbox(store, [SLACK, TELEGRAM], clock, links=LINKS).deliver_due(NOW)
    assert sent_to(wire) == ["slack", "telegram", "telegram", "telegram"]


@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "restarted"])
def test_a_clock_that_was_ahead_keeps_no_message_back(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock, restarts: bool
) -> None:
    wire.post(SLACK_API, status=500)
    wire.post(SLACK_API, body="ok")
    say(store)
    outbox = Outbox(store, [SLACK], clock, links=LINKS)
    outbox.deliver_due(NOW)
    if restarts:
        outbox = Outbox(store, [SLACK], clock, links=LINKS)
    outbox.deliver_due(clock.pass_time(-timedelta(days=2)))
    assert store.counts()["notices"]["sent"] == 1


def test_without_a_destination_notices_go_to_the_log(store: MemoryStore, clock: FixedClock) -> None:
    say(store)
    with capture_logs() as logged:
        assert Outbox(store, [], clock, links=LINKS).deliver_due(NOW) == 1
    assert logged == [
        {"event": "notice", "log_level": "info", "title": "title k", "body": "body", "severity": "info", "pool": None}
    ]
    assert store.counts()["notices"]["sent"] == 1


def test_the_log_holds_no_link_that_answers_a_question(store: MemoryStore, clock: FixedClock) -> None:
    links = PageLinks(public_url="https://gpus.example.com", seal=lambda: Seal("an operator's long token", "a key"))
    store.say(Notice(cause="test", topic="t", key="k", title="Grow?", body="b", question="q-1", decision=7), NOW)
    with capture_logs() as logged:
        Outbox(store, [], clock, links=links).deliver_due(NOW)
    assert logged[0]["body"] == "b\nDecision 7: https://gpus.example.com/decisions/7"


def test_a_destination_that_breaks_inside_its_plugin_is_a_failed_delivery(
    store: MemoryStore, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> bool:
        raise RuntimeError(f"at {SLACK_API}")

    monkeypatch.setattr("apprise.plugins.slack.NotifySlack.send", broken)
    say(store)
    with capture_logs() as logged:
        assert Outbox(store, [SLACK], clock, links=LINKS).deliver_due(NOW) == 0
    assert logged[0]["event"] == "notice not delivered"
    assert not any(secret in str(logged) for secret in SECRETS)


class DownStore(MemoryStore):
    """A store that fails as soon as it is asked."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def notices_due(self, now: Any, limit: int = 20) -> list[StoredNotice]:
        raise self._error


@pytest.mark.parametrize("error", [TryLater("store: database is locked"), RuntimeError("a bug")])
def test_a_store_that_fails_raises_nothing_here(clock: FixedClock, error: Exception) -> None:
    with capture_logs() as logged:
        assert Outbox(DownStore(error), [SLACK], clock, links=LINKS).deliver_due(NOW) == 0
    assert logged[0]["event"] in ("notices wait", "notices failed")


@pytest.fixture
def everything_logged() -> Iterator[io.StringIO]:
    """All that reaches the root logger at the level of DEBUG, as with the widest setting of a deployment."""
    root, written = logging.getLogger(), io.StringIO()
    handler, level = logging.StreamHandler(written), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.mark.parametrize("answer", [{"status": 500}, {"status": 404}, {"body": NoConnectionError(f"to {SLACK_API}")}])
def test_no_log_of_any_level_holds_a_secret(
    store: MemoryStore,
    clock: FixedClock,
    wire: responses.RequestsMock,
    everything_logged: io.StringIO,
    answer: dict[str, Any],
) -> None:
    wire.post(SLACK_API, **answer)
    wire.post(TELEGRAM_API, **answer)
    say(store)
    broken = f"slack://{SECRETS[2]}"
    with capture_logs() as ours:
        Outbox(store, [SLACK, TELEGRAM, broken], clock, links=LINKS).deliver_due(NOW)
        check_destinations([broken, f"{SECRETS[2]}", f"nosuch://{SECRETS[2]}"])
    assert len(ours[0]["errors"]) == 3
    logged = everything_logged.getvalue() + str(ours)
    assert not any(secret in logged for secret in SECRETS)


def test_what_the_wire_logs_at_debug_is_kept_quiet(everything_logged: io.StringIO) -> None:
    check_destinations([])
    wire = logging.getLogger("urllib3.connectionpool")  # it writes the path of each request, and Telegram's has a token
    wire.debug("POST /bot123456789:abcdefg_hijklmnop/sendMessage")
    wire.warning("a retry")
    assert everything_logged.getvalue() == "a retry\n"


def test_what_apprise_repeats_of_a_destination_is_hidden() -> None:
    assert hide("no answer from https://x/T1JJ3T3L2/TIiajkdnlazkcOXrIdevi7FQ: 500", SLACK) == (
        "no answer from https://x/***/***: 500"
    )


def test_what_apprise_repeats_as_it_reads_it_is_hidden_too() -> None:
    said = hide("login of me with p@ss/w rd failed", "mailtos://me:p%40ss%2Fw%20rd@mail.example.com")
    assert said == "login of me with *** failed"


def test_destinations_that_apprise_understands_pass() -> None:
    assert check_destinations([SLACK, TELEGRAM, "mailto://user:secret@example.com"]) == []


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("slack://hunter2", "destination 2 (slack): "),
        ("nosuch://hunter2/x", "destination 2 (nosuch): "),
        ("hunter2", "destination 2: "),
        ("", "destination 2: "),
    ],
)
def test_a_destination_that_apprise_does_not_understand_is_named_without_its_secret(url: str, name: str) -> None:
    (problem,) = check_destinations([TELEGRAM, url])
    assert problem.startswith(name)
    assert "does not understand" in problem
    assert "hunter2" not in problem


def test_a_replica_that_may_not_send_leaves_the_messages_to_the_one_that_may(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(SLACK_API, body="ok")
    say(store)
    assert Outbox(store, [SLACK], clock, links=LINKS, may_send=lambda: False).deliver_due(NOW) == 0
    assert sent_to(wire) == []
    assert Outbox(store, [SLACK], clock, links=LINKS).deliver_due(clock.now()) == 1
    assert sent_to(wire) == ["slack"]
