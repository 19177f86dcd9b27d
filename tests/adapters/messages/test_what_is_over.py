"""A message is true when it is sent: what ended while it waited is not sent, and what goes on is told as it is now."""

from datetime import datetime, timedelta
from typing import Any

import pytest
import responses
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from receiver.adapters.messages import Outbox
from receiver.core.notices.notice import Cause, Notice
from receiver.ports import Telling
from simulator.store import MemoryStore
from tests.adapters.messages.destinations import (
    CHAT,
    CHAT_API,
    LINKS,
    MINUTE,
    NOW,
    SECOND,
    deliver_until,
    delivered_messages,
)
from tests.clocks import FixedClock

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)
BUDGET = "budget:cluster:"


def a_notice(cause: Cause, key: str = "k", **changes: Any) -> Notice:
    given: dict[str, Any] = {"topic": BUDGET, "title": f"{cause} {key}", "body": "body"}
    return Notice(cause=cause, key=key, **{**given, **changes})


def held(key: str = "2026-11-21", **changes: Any) -> Notice:
    said: dict[str, Any] = {"topic": "held:l40s:within_budget", "title": "l40s does not grow", "pool": "l40s"}
    return a_notice(Cause.HELD, key, **{**said, **changes})


def an_outbox(store: MemoryStore, clock: FixedClock) -> Outbox:
    return Outbox(store, [CHAT], clock, links=LINKS, every=5 * MINUTE)


def titles(wire: responses.RequestsMock) -> list[str]:
    return [message["title"] for message in delivered_messages(wire)]


def test_a_hold_that_waited_is_not_sent_after_the_budget_was_raised(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    outbox = an_outbox(store, clock)
    for cause, key in ((Cause.BUDGET_HOLD, "first"), (Cause.BUDGET_CLEAR, "below")):
        store.say(a_notice(cause, key), clock.at)
        deliver_until(outbox, clock, clock.at + MINUTE)
    store.say(a_notice(Cause.BUDGET_HOLD, "again"), clock.at)
    deliver_until(outbox, clock, clock.at + MINUTE)
    store.say(a_notice(Cause.BUDGET_WARN, "raised"), clock.at)
    deliver_until(outbox, clock, clock.at + 10 * MINUTE)
    assert titles(wire) == ["budget_hold first", "budget_clear below", "budget_warn raised"]
    assert store.counts()["notices"] == {"pending": 0, "sent": 3, "failed": 0}


def test_a_budget_that_is_held_again_is_told_though_the_all_clear_still_waits(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    outbox = an_outbox(store, clock)
    for n in range(3):
        store.say(a_notice(Cause.BUDGET_HOLD, f"{n}"), clock.at)
        deliver_until(outbox, clock, clock.at + 30 * SECOND)
        if n < 2:
            store.say(a_notice(Cause.BUDGET_CLEAR, f"below {n}"), clock.at)
            deliver_until(outbox, clock, clock.at + 30 * SECOND)
    deliver_until(outbox, clock, clock.at + 10 * MINUTE)
    assert titles(wire) == ["budget_hold 0", "budget_clear below 0", "budget_hold 2"]


def test_what_happened_is_told_whatever_came_after_it(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    outbox = an_outbox(store, clock)
    for n, cause in enumerate([Cause.GREW, Cause.GREW, Cause.SHRANK]):
        store.say(a_notice(cause, f"{n}", topic="action:l40s", pool="l40s"), clock.at)
        deliver_until(outbox, clock, clock.at + MINUTE)
    deliver_until(outbox, clock, clock.at + 10 * MINUTE)
    assert titles(wire) == ["grew 0", "shrank 2", "grew 1"]


def test_a_hold_on_a_pool_that_ended_while_it_waited_is_not_sent_and_is_told_when_it_comes_again(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    outbox = an_outbox(store, clock)
    store.say(held(topic="held:l40s:within_maximum"), clock.at)
    deliver_until(outbox, clock, clock.at + MINUTE)
    store.say(held(), clock.at)
    store.stand([held()], clock.at, complete=True)
    deliver_until(outbox, clock, clock.at + MINUTE)
    store.stand([], clock.at, complete=True)
    deliver_until(outbox, clock, clock.at + 10 * MINUTE)
    assert len(delivered_messages(wire)) == 1
    assert store.say(held(), clock.at)
    store.stand([held()], clock.at, complete=True)
    deliver_until(outbox, clock, clock.at + MINUTE)
    assert len(delivered_messages(wire)) == 2


def test_what_goes_on_is_told_as_it_is_when_it_is_sent(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock
) -> None:
    wire.post(CHAT_API)
    outbox = an_outbox(store, clock)
    for topic in ("held:l40s:within_maximum", "held:l40s:within_budget"):
        store.say(held(topic=topic, body="$1.00 spent"), clock.at)
        deliver_until(outbox, clock, clock.at + 10 * SECOND)
    deliver_until(outbox, clock, clock.at + 4 * MINUTE)
    store.stand([held(body="$9.00 spent"), held(topic="held:l40s:within_maximum")], clock.at, complete=True)
    deliver_until(outbox, clock, clock.at + 10 * MINUTE)
    assert delivered_messages(wire)[1]["message"].startswith("$9.00 spent\n")


def test_what_a_destination_has_is_not_told_again_when_it_ends_before_another_got_it(store: MemoryStore) -> None:
    store.say(held(), NOW)
    [stored] = store.notices_due(NOW)
    store.tell({stored.id: Telling(reached_at=NOW)}, "d1", ("one", "delivered"))
    store.stand([], NOW + MINUTE, complete=True)
    assert not store.say(held(), NOW + MINUTE)


CONDITIONS = st.lists(st.tuples(st.integers(1, 400), st.booleans()), max_size=10)


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(CONDITIONS)
@example([(1, True), (1, False), (10, True), (1, False)])
def test_nothing_is_ever_sent_that_is_not_true_any_more_and_what_lasts_is_told(
    course: list[tuple[int, bool]],
) -> None:
    """A budget that goes beyond its hold and back at random: each message is true in the moment at which it comes."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as wire:
        wire.post(CHAT_API)
        store, clock = MemoryStore(), FixedClock(NOW)
        outbox = an_outbox(store, clock)
        holds, sent = False, 0

        def until(end: datetime) -> None:
            nonlocal sent
            while clock.at < end:
                outbox.deliver_due(clock.at)
                for message in delivered_messages(wire)[sent:]:
                    assert message["title"].startswith("budget_hold" if holds else "budget_clear")
                sent = len(delivered_messages(wire))
                clock.pass_time(20 * SECOND)

        for n, (seconds, now_holds) in enumerate(course):
            if now_holds != holds:
                holds = now_holds
                cause = Cause.BUDGET_HOLD if holds else Cause.BUDGET_CLEAR
                store.say(a_notice(cause, f"{n}", all_clear=not holds), clock.at)
            until(clock.at + seconds * SECOND)
        until(clock.at + timedelta(minutes=6))
        last = [message["title"].split()[0] for message in delivered_messages(wire)][-1:]
        assert last in ([["budget_hold"]] if holds else [["budget_clear"], []])


@pytest.mark.parametrize(("refused", "age"), [(False, timedelta(0)), (True, 10 * MINUTE)])
def test_what_a_destination_refuses_grows_old_though_its_figures_move(
    store: MemoryStore, clock: FixedClock, wire: responses.RequestsMock, refused: bool, age: timedelta
) -> None:
    wire.post(CHAT_API, status=500)
    outbox = an_outbox(store, clock)
    store.say(held(body="$1.00 spent"), clock.at)
    if refused:
        deliver_until(outbox, clock, clock.at + MINUTE)
    store.stand([held(body="$9.00 spent")], NOW + 10 * MINUTE, complete=True)
    assert NOW + 10 * MINUTE - store.counts()["oldest_notice_at"] == age
