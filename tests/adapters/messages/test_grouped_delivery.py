"""Grouped delivery: one message of a kind at a time to each destination, whatever the others, the clock or we do."""

from datetime import datetime, timedelta
from typing import Any

import pytest
import responses

from receiver.adapters.messages import Outbox
from receiver.core.notices.notice import Cause, Notice, Severity
from simulator.store import MemoryStore
from tests.adapters.messages.destinations import (
    CHAT,
    CHAT_API,
    LINKS,
    MINUTE,
    NOW,
    SECOND,
    TELEGRAM,
    TELEGRAM_API,
    deliver_until,
    delivered_messages,
)
from tests.adapters.wire import hanging_server
from tests.clocks import FixedClock
from tests.e2e.waiting import until

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)


def say(store: MemoryStore, title: str, at: datetime, cause: Cause = Cause.GREW, **changes: Any) -> None:
    given: dict[str, Any] = {"topic": "action:l40s", "key": f"{title} {at}", "pool": "l40s"}
    assert store.say(Notice(cause=cause, title=title, body="body", **{**given, **changes}), at)


def an_outbox(store: MemoryStore, clock: FixedClock, *destinations: str) -> Outbox:
    return Outbox(store, destinations or [CHAT], clock, links=LINKS, every=5 * MINUTE)


def titles(wire: responses.RequestsMock) -> list[str]:
    return [message["title"] for message in delivered_messages(wire)]


def test_a_pool_that_flaps_is_told_at_once_and_then_once_in_five_minutes(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    outbox = an_outbox(store, clock)
    for n in range(12):
        say(store, f"GPU pool l40s: {'3 -> 4' if n % 2 == 0 else '4 -> 3'} nodes", clock.at)
        deliver_until(outbox, clock, NOW + (n + 1) * MINUTE)
    deliver_until(outbox, clock, NOW + 20 * MINUTE)
    first, second, third, fourth = delivered_messages(wire)
    assert first["title"] == "GPU pool l40s: 3 -> 4 nodes"
    assert first["message"].startswith("body\nWhat to do: ")
    assert "And 3 more like it since 12:01 UTC: 4 -> 3 nodes (2 times), 3 -> 4 nodes." in second["message"]
    assert "more like it since 12:05 UTC" in third["message"]
    assert fourth["title"] == "GPU pool l40s: 4 -> 3 nodes"
    assert "This message was created at 12:11 UTC." in fourth["message"]
    assert store.counts()["notices"] == {"pending": 0, "sent": 12, "failed": 0}


def test_a_destination_that_is_named_twice_hears_everything_once(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    say(store, "a", clock.at)
    an_outbox(store, clock, CHAT, CHAT).deliver_due(clock.at)
    assert titles(wire) == ["a"]


def test_a_failure_goes_out_at_once_beside_what_waits(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    outbox = an_outbox(store, clock)
    for title, cause, severity in (
        ("first", Cause.WITHDRAWN, Severity.INFO),
        ("waits", Cause.WITHDRAWN, Severity.INFO),
        ("failed", Cause.WITHDRAWN, Severity.FAILURE),
        ("grew", Cause.GREW, Severity.SUCCESS),
    ):
        say(store, title, clock.at, cause, severity=severity)
        outbox.deliver_due(clock.pass_time(SECOND))
    assert titles(wire) == ["first", "failed", "grew"]


def test_what_waits_survives_a_restart_and_another_replica(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    say(store, "a", clock.at)
    an_outbox(store, clock).deliver_due(clock.at)
    say(store, "b", clock.pass_time(MINUTE))
    an_outbox(store, clock).deliver_due(clock.at)
    say(store, "c", clock.pass_time(MINUTE))
    deliver_until(an_outbox(store, clock), clock, NOW + 5 * MINUTE - SECOND)
    assert titles(wire) == ["a"]
    deliver_until(an_outbox(store, clock), clock, NOW + 6 * MINUTE)
    assert titles(wire) == ["a", "c"]
    assert "And 1 more like it since 12:01 UTC: b." in delivered_messages(wire)[1]["message"]


@pytest.mark.parametrize("back", [2 * SECOND, timedelta(days=30)])
def test_a_clock_that_jumps_back_holds_nothing_back(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock, back: timedelta
) -> None:
    wire.post(CHAT_API)
    outbox = an_outbox(store, clock)
    for title in "ab":
        say(store, title, clock.at)
        outbox.deliver_due(clock.at)  # b waits
    say(store, "c", clock.pass_time(-back))
    outbox.deliver_due(clock.pass_time(timedelta(0)))
    assert titles(wire) == ["a", "c"]
    say(store, "d", clock.pass_time(SECOND))  # and from there on the rule holds as ever
    outbox.deliver_due(clock.at)
    assert titles(wire) == ["a", "c"]


def test_a_destination_that_fails_does_not_delay_what_waits_for_another(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    wire.post(TELEGRAM_API, status=500)
    outbox = an_outbox(store, clock, TELEGRAM, CHAT)
    for n in range(3):
        say(store, f"{n}", clock.at)
        deliver_until(outbox, clock, NOW + (n + 1) * MINUTE)
    deliver_until(outbox, clock, NOW + 5 * MINUTE + 20 * SECOND)
    assert titles(wire) == ["0", "2"]
    assert store.counts()["messages"]["destination 2 (json)", "delivered"] == 2


def test_a_destination_that_answers_again_gets_what_waited_as_one(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API, status=503)
    outbox = an_outbox(store, clock)
    for n in range(6):
        say(store, f"P: {n}", clock.at)
        deliver_until(outbox, clock, NOW + (n + 1) * 10 * MINUTE)
    wire.reset()
    wire.post(CHAT_API)
    deliver_until(outbox, clock, NOW + 100 * MINUTE)
    (message,) = delivered_messages(wire)
    assert message["title"] == "P: 5"
    assert "And 5 more like it since 12:00 UTC: 0, 1, 2, 3, 4." in message["message"]
    assert store.counts()["notices"] == {"pending": 0, "sent": 6, "failed": 0}


def test_a_destination_that_failed_is_asked_once_in_half_a_minute_however_much_waits(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API, status=503)
    outbox = an_outbox(store, clock)
    for n in range(40):
        say(store, f"{n}", clock.at, pool=f"pool {n}")
    deliver_until(outbox, clock, NOW + 5 * MINUTE - SECOND)
    assert len(delivered_messages(wire)) == 10
    assert store.counts()["messages"] == {("destination 1 (json)", "failed"): 10}


def test_one_message_that_a_destination_refuses_does_not_keep_it_from_the_others(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    def answer(request: Any) -> tuple[int, dict[str, str], str]:
        return (400 if "poison" in str(request.body) else 200), {}, ""

    wire.add_callback(responses.POST, CHAT_API, callback=answer)
    outbox = an_outbox(store, clock)
    say(store, "poison", clock.at, pool="a")
    for n in range(20):
        say(store, f"{n}", clock.at, pool=f"pool {n}")
    deliver_until(outbox, clock, NOW + 90 * SECOND)
    assert store.counts()["notices"] == {"pending": 1, "sent": 20, "failed": 0}


def test_a_destination_that_hangs_costs_its_timeout_once_and_the_next_round_serves_the_others_first(
    store: MemoryStore, clock: FixedClock
) -> None:
    with hanging_server("/", "POST") as (hangs, arrivals), hanging_server("/none", "POST") as (other, _):
        other.expect_request("/chat", method="POST").respond_with_data("ok")
        bad = f"{hangs.url_for('/').replace('http', 'json')}?cto=0.3&rto=0.3"
        good = f"{other.url_for('/chat').replace('http', 'json')}"
        outbox = an_outbox(store, clock, bad, good)
        for n in range(5):
            say(store, f"{n}", clock.at, pool=f"pool {n}")
        outbox.deliver_due(clock.at)
        until(lambda: arrivals, "the first try")  # who asked may have given up before the server came to it
        assert len(arrivals) == 1
        assert store.counts()["messages"] == {
            ("destination 1 (json)", "failed"): 1,
            ("destination 2 (json)", "delivered"): 5,
        }
        say(store, "next", clock.pass_time(31 * SECOND), pool="another")
        outbox.deliver_due(clock.at)
        until(lambda: len(arrivals) >= 2, "the second try")
        assert len(arrivals) == 2
        assert store.counts()["messages"]["destination 2 (json)", "delivered"] == 6
