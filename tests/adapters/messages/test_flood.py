"""A flood of alerts, and pools that flap: what reaches the phone is one message per pool and kind of news."""

from collections import Counter
from collections.abc import Callable

import pytest
from pytest_httpserver import HTTPServer

from receiver.core.notices.notice import Cause
from receiver.ports import WontWork
from simulator.store import MemoryStore
from tests.adapters.messages.streams import EVERY, SECOND, Flood

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)

POOLS = tuple(f"p{n:02}" for n in range(1, 9))
ALERTS = 240  # in a minute


@pytest.fixture
def flood(store: MemoryStore, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> Flood:
    monkeypatch.setattr("apprise.plugins.base.NotifyBase.throttle", lambda *_, **__: None)
    return Flood(store=store, server=httpserver, pools=POOLS)


def pairs(flood: Flood) -> list[tuple[str, str]]:
    """The pool (or topic) and kind of news of each message that reached the destination, oldest first."""
    of_title = {told.notice.title: (told.notice.pool or told.notice.topic, told.notice.cause) for told in flood.said()}
    return [of_title[message["title"]] for message in flood.told()]


def test_hundreds_of_alerts_in_a_minute_over_many_pools_are_one_message_per_pool_and_kind_of_news(
    flood: Flood, figure: Callable[[str], None]
) -> None:
    for second in range(60):
        flood.post(*(flood.an_alert(flood.posted + n) for n in range(ALERTS * (second + 1) // 60 - flood.posted)))
        if second % 4 == 0:
            for pool in POOLS[second // 4 % 2 :: 2]:
                flood.submit(pool, seconds=600)  # each pool grows about eight times
            if second in (20, 32, 44):
                flood.life.cloud.fail_next(WontWork(f"refused at {second}", code="refused"), "resize")
            flood.life.step()
        flood.deliver(flood.now() + SECOND)
    messages, notices = Counter(pairs(flood)), flood.said()
    assert flood.posted == ALERTS
    assert set(messages.values()) == {1}
    assert len({pool for pool, cause in messages if cause == Cause.GREW}) == len(POOLS)
    assert any(cause == Cause.GROWTH_FAILED for _, cause in messages)
    asked = f"{ALERTS} alerts in a minute over {len(POOLS)} pools: {len(notices)} notices, {messages.total()} messages"
    figure(f"{asked}, at most {max(messages.values())} per pool and kind of news")

    flood.deliver(flood.now() + EVERY)
    later = Counter(pairs(flood))
    assert max(later.values()) == 2
    assert flood.store.counts()["notices"]["pending"] == 0
    assert sum(flood.lines()) + later.total() == len(notices)


def test_pools_that_flap_for_half_an_hour_are_told_once_in_five_minutes_each(
    store: MemoryStore, httpserver: HTTPServer, figure: Callable[[str], None]
) -> None:
    flood = Flood(store=store, server=httpserver, pools=POOLS[:2])
    for _ in range(15):  # each pool grows by a node and loses it again every other minute
        for pool in flood.pools:
            flood.submit(pool, seconds=5)
        for wait in (30, 10, 10, 70):
            flood.life.step()
            flood.deliver(flood.now() + wait * SECOND)
    flood.deliver(flood.now() + EVERY)
    messages, notices = Counter(pairs(flood)), flood.said()
    assert set(messages) == {(f"{pool}-id", cause) for pool in flood.pools for cause in (Cause.GREW, Cause.SHRANK)}
    assert max(messages.values()) <= 30 // 5 + 1
    assert sum(flood.lines()) + messages.total() == len(notices) > 2 * messages.total()
    figure(f"2 pools that flap for half an hour: {len(notices)} notices, {messages.total()} messages")
