"""Delivery to destinations with filters: each gets what it wants, once, whatever the others do."""

import json
from datetime import timedelta
from typing import Any

import pytest
import responses
from structlog.testing import capture_logs

from receiver.adapters.messages import Outbox
from receiver.core.notices.notice import Cause, Notice, Severity
from receiver.core.notices.routing import Route
from simulator.store import MemoryStore
from tests.adapters.messages.destinations import LINKS, NOW
from tests.clocks import FixedClock

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)
CHAT, PAGER = "json://chat.example.com", "json://pager.example.com"
CHAT_API, PAGER_API = "http://chat.example.com/", "http://pager.example.com/"
PAGING = {"pager": Route(level=Severity.FAILURE)}
MINUTE = timedelta(minutes=1)


def say(store: MemoryStore, title: str, severity: Severity, **changes: Any) -> None:
    given: dict[str, Any] = {"cause": Cause.GROWTH_FAILED, "topic": f"action:{title}", "key": title, "pool": "l40s"}
    assert store.say(Notice(title=title, body="body", severity=severity, **{**given, **changes}), NOW)


def an_outbox(store: MemoryStore, clock: FixedClock, *, routes: Any = PAGING) -> Outbox:
    return Outbox(store, [CHAT, f"pager={PAGER}"], clock, links=LINKS, routes=routes)


def titles(wire: responses.RequestsMock, api: str) -> list[str]:
    return [json.loads(call.request.body or "{}")["title"] for call in wire.calls if call.request.url == api]


def test_a_pager_gets_failures_and_the_chat_gets_everything(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    wire.post(PAGER_API)
    say(store, "odd", Severity.WARNING, cause=Cause.STUCK)
    say(store, "broken", Severity.FAILURE)
    assert an_outbox(store, clock).deliver_due(NOW) == 2
    assert (titles(wire, CHAT_API), titles(wire, PAGER_API)) == (["odd", "broken"], ["broken"])
    assert store.counts()["messages"]["pager (json)", "delivered"] == 1


def test_of_one_group_a_destination_gets_only_what_it_wants(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    wire.post(PAGER_API)
    say(store, "planned", Severity.INFO, topic="t")
    say(store, "odd", Severity.WARNING, topic="t")
    routes = {"pager": Route(level=Severity.WARNING)}
    assert an_outbox(store, clock, routes=routes).deliver_due(NOW) == 2
    (message,) = [json.loads(call.request.body or "{}") for call in wire.calls if call.request.url == PAGER_API]
    assert (message["title"], "more like it" in message["message"]) == ("odd", False)


def test_a_destination_that_wants_nothing_of_it_holds_no_notice_back(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    say(store, "odd", Severity.WARNING)
    assert an_outbox(store, clock).deliver_due(NOW) == 1
    assert store.counts()["notices"] == {"pending": 0, "sent": 1, "failed": 0}


def test_what_no_destination_wants_goes_to_the_log(store: MemoryStore, clock: FixedClock) -> None:
    say(store, "odd", Severity.WARNING)
    with capture_logs() as logged:
        assert Outbox(store, [f"pager={PAGER}"], clock, links=LINKS, routes=PAGING).deliver_due(NOW) == 1
    assert [(line["event"], line["title"]) for line in logged] == [("notice", "odd")]
    assert store.counts()["notices"]["sent"] == 1


def test_a_pager_that_fails_is_tried_again_alone_also_after_a_restart(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    wire.post(PAGER_API, status=500)
    wire.post(PAGER_API)
    say(store, "broken", Severity.FAILURE)
    for _ in range(3):  # each time as if restarted
        an_outbox(store, clock).deliver_due(clock.pass_time(MINUTE))
    assert (titles(wire, CHAT_API), titles(wire, PAGER_API)) == (["broken"], ["broken", "broken"])
    assert store.counts()["notices"]["sent"] == 1


def test_a_destination_that_gets_a_name_does_not_hear_everything_again(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    wire.post(PAGER_API, status=500)
    say(store, "broken", Severity.FAILURE)
    an_outbox(store, clock).deliver_due(NOW)  # the pager keeps it in the outbox
    Outbox(store, [f"chat={CHAT}", f"pager={PAGER}"], clock, links=LINKS).deliver_due(clock.pass_time(MINUTE))
    assert titles(wire, CHAT_API) == ["broken"]


def test_a_name_without_a_section_gets_everything(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    wire.post(PAGER_API)
    say(store, "odd", Severity.INFO)
    an_outbox(store, clock, routes={}).deliver_due(NOW)
    assert titles(wire, PAGER_API) == ["odd"]
