"""Messages are delivered beside the loop: whatever a destination does, steps go on and write to the store."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import pytest

from receiver.adapters.clock import SystemClock
from receiver.adapters.messages import Outbox
from receiver.adapters.store import SqlStore, open_store
from receiver.core.notices.notice import Cause, Notice
from receiver.ports import Leader
from receiver.runtime.loop import Courier, Loop, LoopTerms, WakeupLimiter
from receiver.runtime.reload import Reloader
from receiver.runtime.store_opener import Opening
from receiver.server.bootstrap import Running
from receiver.step.reconcile import Stepped
from tests.adapters.messages.destinations import LINKS
from tests.adapters.store.builders import migrated
from tests.adapters.wire import hanging_server
from tests.core.builders import a_policy, a_state, facts, run
from tests.e2e.waiting import until

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)
HOUR = timedelta(hours=1)


class TheWriter:
    """The right to write, which nobody else wants."""

    mine = True

    @property
    def leader(self) -> Leader:
        return Leader(name="us", mine=self.mine)

    def try_acquire(self) -> bool:
        return self.mine

    def held(self) -> bool:
        return self.mine

    def release(self) -> None:
        self.mine = False


class NoTimer:
    """Counts nothing."""

    def stepped(self, seconds: float, *, failed: bool, failures: object = ()) -> None:
        """A step ended."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    opened = open_store(migrated(tmp_path / "store.db"))
    yield opened
    opened.close()


def has_more(steps: list[datetime], than: int) -> bool:
    """True when there are more of them."""
    return len(steps) > than


def a_step(store: SqlStore, steps: list[datetime]) -> Any:
    """A step that writes, as each does."""
    found = facts(a_state())
    assignment, decisions = run(found, a_policy())

    def step(now: datetime) -> Stepped:
        store.check()
        steps.append(now)
        return Stepped(facts=found, assignment=assignment, decisions=decisions, reconsider_at=None)

    return step


def test_steps_go_on_and_write_while_a_destination_hangs(store: SqlStore) -> None:
    clock, steps = SystemClock(), list[datetime]()
    loop = Loop(a_step(store, steps), TheWriter(), clock, HOUR, NoTimer(), LoopTerms(pace=WakeupLimiter(at_once=100)))
    with hanging_server("/", "POST") as (server, arrivals):
        hangs = f"{server.url_for('/').replace('http', 'json')}?rto=60"
        courier = Courier(Outbox(store, [hangs], clock, links=LINKS).deliver_due, loop, clock, every=0.01)
        store.say(Notice(cause=Cause.GREW, topic="t", key="k", title="t", body="b"), clock.now())
        loop.start()
        courier.start()
        try:
            until(lambda: arrivals, "a destination that hangs")
            before = len(steps)
            while len(steps) < before + 5:
                seen = len(steps)
                loop.wake()
                until(partial(has_more, steps, seen), "another step")
            assert store.counts()["messages"] == {}  # it still hangs
            assert len(arrivals) == 1
        finally:
            loop.stop()
            courier.stop(timeout=0)
    courier.join(60)
    assert not courier.is_alive()


def test_only_who_leads_delivers(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receiver.runtime.loop.LOCK_RETRY_SECONDS", 0.05)
    clock, writer, asked = SystemClock(), TheWriter(), list[datetime]()

    def deliver(now: datetime) -> int:
        asked.append(now)
        return 0

    writer.mine = False
    loop = Loop(a_step(store, []), writer, clock, HOUR, NoTimer())
    courier = Courier(deliver, loop, clock, every=0.01)
    courier.start()
    loop.start()
    try:
        until(lambda: loop.health().state == "waiting", "a loop that waits")
        assert asked == []
        writer.mine = True
        until(lambda: asked, "a delivery")
    finally:
        courier.stop()
        loop.stop()


def a_process(store: SqlStore, opening: Opening, loop: Loop, courier: Courier) -> Running:
    """A process whose other threads have nothing to do."""
    writer: Any = None
    calm: list[Any] = [Reloader(lambda: None) for _ in range(3)]
    observer, reloader, pools = calm
    return Running(store, writer, opening, loop, courier, observer, None, reloader, pools)


def test_a_message_under_way_takes_no_time_from_the_loop_when_the_process_is_told_to_stop(store: SqlStore) -> None:
    clock, opening = SystemClock(), Opening(store.open)
    loop = Loop(a_step(store, []), TheWriter(), clock, HOUR, NoTimer())
    under_way, told = Event(), Event()

    def deliver(_now: datetime) -> int:
        under_way.set()
        deadline = monotonic() + 60
        while loop.health().state != "stopped" and monotonic() < deadline:
            sleep(0.01)
        if loop.health().state == "stopped":
            told.set()
        return 0

    courier = Courier(deliver, loop, clock, every=0.01)
    running = a_process(store, opening, loop, courier)
    opening.begin()
    running.start()
    until(under_way.is_set, "a message under way")
    running.stop()
    assert told.is_set()
    assert not courier.is_alive()


def test_a_process_that_is_told_to_stop_gives_its_right_to_write_up_before_anybody_waits_for_it(
    store: SqlStore,
) -> None:
    clock, opening, writer = SystemClock(), Opening(store.open), TheWriter()
    loop = Loop(a_step(store, []), writer, clock, HOUR, NoTimer())
    running = a_process(store, opening, loop, Courier(lambda _: 0, loop, clock, every=0.01))
    opening.begin()
    running.start()
    until(lambda: loop.health().steps, "a first step")
    running.tell()
    until(lambda: not writer.mine, "a right to write that nobody has")
    running.stop()
