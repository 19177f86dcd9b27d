"""A store that is not there when the process starts: it is asked for again, and nobody steps before it is there."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from threading import Event

import pytest
from structlog.testing import capture_logs

from receiver.adapters.clock import SystemClock
from receiver.metrics.collector import Instruments
from receiver.ports import Leader, TryLater, WontWork
from receiver.runtime.loop import Loop, LoopTerms
from receiver.runtime.store_opener import Opening
from receiver.step.reconcile import Stepped
from tests.e2e.waiting import until

GONE = TryLater("store: connection refused", code="store")
NEWER = WontWork("the database was written by a newer version", code="store")


class Store:
    """Fails as it is told, one failure an attempt, and then opens."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = iter(failures)

    def open(self) -> None:
        for failure in self._failures:
            raise failure


@pytest.fixture
def opening() -> Iterator[Callable[..., Opening]]:
    """What opens stores without a pause; each ends with the test."""
    made: list[Opening] = []

    def make(store: Store) -> Opening:
        made.append(Opening(store.open, waits=(0.001,)))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def test_a_store_that_is_there_is_open_at_once(opening: Callable[..., Opening]) -> None:
    found = opening(Store())
    found.begin()
    assert found.is_open()


def test_a_store_that_does_not_answer_is_asked_again_until_it_does(opening: Callable[..., Opening]) -> None:
    found = opening(Store(*[GONE] * 5))
    found.begin()
    until(found.is_open, "an open store")


def test_what_needs_a_person_is_said_by_the_first_attempt(opening: Callable[..., Opening]) -> None:
    with pytest.raises(WontWork, match="newer version"):
        opening(Store(NEWER)).begin()


@pytest.mark.parametrize("failure", [NEWER, RuntimeError("a bug in a migration")])
def test_what_shows_only_once_the_store_has_come_does_not_end_the_asking(
    opening: Callable[..., Opening], failure: Exception
) -> None:
    found = opening(Store(GONE, failure, failure))
    found.begin()
    until(found.is_open, "an open store")


def test_a_first_attempt_that_takes_long_is_not_waited_for(opening: Callable[..., Opening]) -> None:
    held: list[bool] = []

    class Slow(Store):
        def open(self) -> None:
            until(lambda: bool(held), "the end of a migration")

    found = opening(Slow())
    found.begin(patience=0.01)
    assert not found.is_open()
    held.append(True)
    until(found.is_open, "an open store")


class Asked:
    """A right to write that counts who asks for it."""

    def __init__(self) -> None:
        self.times = 0

    def try_acquire(self) -> bool:
        self.times += 1
        return True

    def held(self) -> bool:
        return False

    def release(self) -> None:
        """Nothing to give up."""

    @property
    def leader(self) -> Leader | None:
        return None


def test_a_loop_without_its_store_beats_and_asks_nobody_to_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receiver.runtime.loop.LOCK_RETRY_SECONDS", 0.01)
    asked, turns = Asked(), 0
    there: list[bool] = []

    def may_begin() -> bool:
        nonlocal turns
        turns += 1
        return bool(there)

    def step(_now: datetime) -> Stepped:
        raise TryLater("nothing to see", code="civo")

    loop = Loop(step, asked, SystemClock(), timedelta(seconds=60), Instruments(), LoopTerms(may_begin=may_begin))
    loop.start()
    try:
        until(lambda: turns > 3, "some beats")
        assert (loop.health().state, loop.health().steps, asked.times) == ("starting", 0, 0)
        assert loop.health().beat_age < timedelta(seconds=5)
        there.append(True)
        until(lambda: loop.health().steps == 1, "a step")
    finally:
        loop.stop()


def test_what_needs_a_person_is_logged_when_nobody_waits_for_the_first_attempt_any_more() -> None:
    answered, asked = Event(), Event()

    def open_store() -> None:
        if asked.is_set():
            return
        asked.set()
        answered.wait(60)
        raise NEWER

    found = Opening(open_store, waits=(0.001,))
    with capture_logs() as logged:
        found.begin(patience=0.01)
        answered.set()
        until(found.is_open, "an open store")
    assert [line["event"] for line in logged] == ["store not open", "store open"]
