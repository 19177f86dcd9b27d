"""A storm of alerts makes the loop step now and then, not all the time, and one alert never waits."""

import threading
from datetime import datetime, timedelta

from receiver.adapters.clock import SystemClock
from receiver.runtime.loop import Loop, LoopTerms, WakeupLimiter
from receiver.step.reconcile import Stepped
from tests.core.builders import a_policy, a_state, facts, run


def waits(pace: WakeupLimiter, *moments: float) -> list[float]:
    """Return how long each wake-up waits."""
    return [round(pace.wait(m), 6) for m in moments]


def test_the_first_wake_ups_do_not_wait() -> None:
    assert waits(WakeupLimiter(at_once=3, every=1), 100, 100, 100) == [0, 0, 0]


def test_those_that_follow_without_a_pause_are_spread_evenly() -> None:
    assert waits(WakeupLimiter(at_once=2, every=1), 100, 100, 100, 101, 102) == [0, 0, 1, 1, 1]


def test_after_a_pause_some_may_pass_again() -> None:
    assert waits(WakeupLimiter(at_once=2, every=1), 100, 100, 101, 110, 110, 110) == [0, 0, 0, 0, 0, 1]


def test_one_now_and_then_never_waits() -> None:
    assert waits(WakeupLimiter(at_once=1, every=1), 0, 1, 2.5, 3.5, 60) == [0, 0, 0, 0, 0]


class _Alone:
    """Writer and timer of a loop that has nobody beside it."""

    leader = None

    def try_acquire(self) -> bool:
        return True

    def held(self) -> bool:
        return True

    def release(self) -> None:
        pass

    def stepped(self, seconds: float, *, failed: bool, failures: object = ()) -> None:
        pass


def _loop(stepped: threading.Semaphore, pace: WakeupLimiter) -> Loop:
    found = facts(a_state())
    assignment, decisions = run(found, a_policy())

    def step(_now: datetime) -> Stepped:
        stepped.release()
        return Stepped(facts=found, assignment=assignment, decisions=decisions, reconsider_at=None)

    alone = _Alone()
    return Loop(step, alone, SystemClock(), timedelta(hours=1), alone, LoopTerms(pace=pace))


def test_what_arrives_during_a_wait_is_part_of_the_step_that_follows_it() -> None:
    steps = threading.Semaphore(0)
    loop = _loop(steps, WakeupLimiter(at_once=2, every=0.2))
    loop.start()
    assert steps.acquire(timeout=60)  # the first, unasked
    for _ in range(2):
        loop.wake()
        assert steps.acquire(timeout=60)
    for _ in range(50):  # all of them before the pace lets another step begin
        loop.wake()
    assert steps.acquire(timeout=60)
    assert not steps.acquire(timeout=0.3)
    loop.stop()


def test_a_loop_that_waits_for_its_pace_can_be_stopped() -> None:
    asked = threading.Semaphore(0)

    class AnHour(WakeupLimiter):
        def wait(self, now: float) -> float:
            asked.release()
            return 3600

    loop = _loop(threading.Semaphore(0), AnHour())
    loop.start()
    loop.wake()
    assert asked.acquire(timeout=60)
    loop.stop(timeout=60)
    assert not loop.is_alive()
