"""The loop and the right to write: taken, lost in the midst of a step, and given up."""

import threading
from datetime import datetime, timedelta

import pytest
from structlog.testing import capture_logs

from receiver.adapters.clock import SystemClock
from receiver.ports import Leader, WriterLostError
from receiver.runtime.loop import Courier, Loop
from receiver.step.reconcile import Stepped
from tests.core.builders import a_policy, a_state, facts, run
from tests.e2e.waiting import until

HOUR = timedelta(hours=1)


class _Right:
    """The right to write, as a test hands it out; the timer too."""

    def __init__(self, mine: bool = True) -> None:
        self.mine, self.released, self.taken = mine, 0, 0

    def try_acquire(self) -> bool:
        self.taken += self.mine
        return self.mine

    def held(self) -> bool:
        return self.mine and self.taken > self.released

    def release(self) -> None:
        self.released += 1

    @property
    def leader(self) -> Leader:
        return Leader(name="us" if self.mine else "another", mine=self.held())

    def stepped(self, seconds: float, *, failed: bool, failures: object = ()) -> None:
        pass


def _stepped() -> Stepped:
    found = facts(a_state())
    assignment, decisions = run(found, a_policy())
    return Stepped(facts=found, assignment=assignment, decisions=decisions, reconsider_at=None)


def test_a_step_that_may_not_write_any_more_is_abandoned_the_right_given_up_and_that_is_said() -> None:
    right, steps = _Right(), threading.Semaphore(0)

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
    right, steps = _Right(mine), threading.Semaphore(0)

    def step(_now: datetime) -> Stepped:
        steps.release()
        return _stepped()

    loop = Loop(step, right, SystemClock(), HOUR, right)
    assert not loop.leads()
    loop.start()
    until(lambda: loop.health().state != "starting", "a loop that runs")
    assert (loop.leads(), loop.leading, loop.health().leader) == (mine, mine, right.leader)
    loop.stop()
    assert not loop.leads()


def test_who_delivers_beside_the_loop_outlives_a_right_that_cannot_be_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right, delivered = _Right(), threading.Event()

    def deliver(_now: datetime) -> int:
        delivered.set()
        return 0

    loop = Loop(lambda _now: _stepped(), right, SystemClock(), HOUR, right)
    loop.start()
    until(lambda: loop.leading, "a loop that leads")
    asked, broken = threading.Semaphore(0), True

    def held() -> bool:
        if broken:
            asked.release()
            raise OSError("Input/output error")
        return True

    monkeypatch.setattr(right, "held", held)
    courier = Courier(deliver, loop, SystemClock(), every=0.001)
    courier.start()
    assert asked.acquire(timeout=60)
    broken = False
    assert delivered.wait(60)
    courier.stop()
    loop.stop()


def test_a_loop_that_is_stopped_in_a_call_does_not_give_up_the_right_while_the_call_lasts() -> None:
    right, begun, ends = _Right(), threading.Event(), threading.Event()

    def step(_now: datetime) -> Stepped:
        begun.set()
        ends.wait(60)
        return _stepped()

    loop = Loop(step, right, SystemClock(), HOUR, right)
    loop.start()
    assert begun.wait(60)
    loop.stop(timeout=0.05)
    assert right.released == 0
    ends.set()
    loop.stop()
    assert right.released == 1
