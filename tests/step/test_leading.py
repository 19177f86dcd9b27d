"""The loop and the right to write: taken, lost in the midst of a step, and given up."""

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from structlog.testing import capture_logs

from receiver.adapters.clock import SystemClock
from receiver.ports import WriterLostError
from receiver.runtime import loop as loops
from receiver.runtime.loop import Courier, Loop, LoopTerms
from receiver.step.reconcile import Stepped
from tests.core.builders import HOUR
from tests.e2e.waiting import until
from tests.step.loop_builders import Right, stepped_once


def test_a_step_that_may_not_write_any_more_is_abandoned_the_right_given_up_and_that_is_said() -> None:
    right, steps = Right(), threading.Semaphore(0)

    def step(_now: datetime) -> Stepped:
        steps.release()
        right.mine = False
        raise WriterLostError("the lease would end before the call")

    loop = Loop(step, right, SystemClock(), timedelta(milliseconds=10), right)
    with capture_logs() as logged:
        loop.start()
        assert steps.acquire(timeout=60)
        until(lambda: loop.health().state == "waiting", "a loop that waits")
        loop.stop()
    assert not steps.acquire(timeout=0)
    assert right.released >= 1
    said = [(line["event"], line.get("error") or line.get("leader")) for line in logged]
    assert said == [
        ("leading", None),
        ("stopped writing", "the lease would end before the call"),
        ("waiting", "another"),
    ]


@pytest.mark.parametrize("mine", [True, False])
def test_a_loop_says_whether_it_leads(mine: bool) -> None:
    right, steps = Right(mine), threading.Semaphore(0)

    def step(_now: datetime) -> Stepped:
        steps.release()
        return stepped_once()

    loop = Loop(step, right, SystemClock(), HOUR, right)
    assert not loop.leads()
    loop.start()
    until(lambda: loop.health().state != "starting", "a loop that runs")
    assert (loop.leads(), loop.health().leader) == (mine, right.leader)
    loop.stop()
    assert not loop.leads()


def test_who_delivers_beside_the_loop_outlives_a_right_that_cannot_be_asked_for() -> None:
    right, asked, delivered = Right(), threading.Semaphore(0), threading.Event()
    broken = True

    def deliver(_now: datetime) -> int:
        if broken:
            asked.release()
            raise OSError("Input/output error")
        delivered.set()
        return 0

    loop = Loop(lambda _now: stepped_once(), right, SystemClock(), HOUR, right)
    loop.start()
    until(loop.leads, "a loop that leads")
    courier = Courier(deliver, loop, SystemClock(), every=0.001)
    courier.start()
    assert asked.acquire(timeout=60)
    broken = False
    assert delivered.wait(60)
    courier.stop()
    loop.stop()


# --- what another replica stores


class _Stored:
    """What replicas stored last, and steps that take note of it."""

    def __init__(self) -> None:
        self.newest, self.steps = 0, threading.Semaphore(0)

    def step(self, _now: datetime) -> Stepped:
        self.steps.release()
        return stepped_once()


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Stored]:
    """A loop that leads, waits for an hour, and looks for news a hundred times a second."""
    monkeypatch.setattr(loops, "LOOK_SECONDS", 0.01)
    found, right = _Stored(), Right()
    loop = Loop(found.step, right, SystemClock(), HOUR, right, LoopTerms(newest=lambda: found.newest))
    loop.start()
    assert found.steps.acquire(timeout=60)
    yield found
    loop.stop()


def test_what_another_replica_stores_wakes_the_loop_that_leads_once(stored: _Stored) -> None:
    assert not stored.steps.acquire(timeout=0.1)
    stored.newest += 1
    assert stored.steps.acquire(timeout=60)
    assert not stored.steps.acquire(timeout=0.1)


def test_what_is_stored_during_a_step_is_looked_at_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LOOK_SECONDS", 0.01)
    right, newest, steps = Right(), [0], threading.Semaphore(0)

    def step(_now: datetime) -> Stepped:
        newest[0] = 1  # too late for this step
        steps.release()
        return stepped_once()

    loop = Loop(step, right, SystemClock(), HOUR, right, LoopTerms(newest=lambda: newest[0]))
    loop.start()
    assert all(steps.acquire(timeout=60) for _ in range(2))
    assert not steps.acquire(timeout=0.1)
    loop.stop()


def test_a_loop_that_is_stopped_in_a_call_does_not_give_up_the_right_while_the_call_lasts() -> None:
    right, begun, ends = Right(), threading.Event(), threading.Event()

    def step(_now: datetime) -> Stepped:
        begun.set()
        ends.wait(60)
        return stepped_once()

    loop = Loop(step, right, SystemClock(), HOUR, right)
    loop.start()
    assert begun.wait(60)
    loop.stop(timeout=0.05)
    assert right.released == 0
    ends.set()
    loop.stop()
    assert right.released == 1
