"""One thread, one step at a time: woken by a webhook, by a moment a decision named, or by the tick.

It steps only while it is the one writer. The wake flag is cleared before a step, so that what arrives during
one is never lost.
"""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Protocol

import structlog

from receiver.core.scaling.failures import Failure
from receiver.ports import Clock, Leader, LoopHealth, TryLater, WriterLostError
from receiver.runtime.wakeups import WakeupLimiter
from receiver.step.reconcile import Stepped

log = structlog.get_logger("receiver")

LOCK_RETRY_SECONDS = 1.0
AFTER_ERROR_SECONDS = 5.0
SHORTEST_WAIT_SECONDS = 0.1
WITHOUT_A_GOOD_STEP = timedelta(minutes=5)  # as in GpuAutoscalerStepsSlow
LONGEST_CALL = timedelta(seconds=45)  # the sum of the timeouts that one slow source can cost a step


class Writer(Protocol):
    """The right to be the one loop that writes."""

    def try_acquire(self) -> bool:
        """Take the lead if it is free; True when this process leads."""

    def held(self) -> bool:
        """True while it is ours and our parent process lives."""

    def release(self) -> None:
        """Give it up; no call to the outside may be under way."""

    @property
    def leader(self) -> Leader | None:
        """Who has it, as far as is known without asking anybody."""


class StepTimer(Protocol):
    """Where the loop counts itself (`receiver.metrics.collector.Instruments`)."""

    def stepped(self, seconds: float, *, failed: bool, failures: Sequence[Failure] = ()) -> None:
        """Count one step that took *seconds*, and the parts of it that failed."""


class Beat:
    """When the loop last showed that it goes on. A step shows it before each source that it asks and before each write:
    it lasts as long as all of them together, and is stuck only where one of them is. Safe for many threads."""

    def __init__(self) -> None:
        self._at = monotonic()

    def __call__(self) -> None:
        """Show it now."""
        self._at = monotonic()

    @property
    def age(self) -> timedelta:
        """How long ago that was."""
        return timedelta(seconds=monotonic() - self._at)


class Loop(threading.Thread):
    """Run *step* for as long as we are the one writer."""

    def __init__(
        self,
        step: Callable[[datetime], Stepped],
        writer: Writer,
        clock: Clock,
        tick: timedelta,
        timer: StepTimer,
        pace: WakeupLimiter | None = None,
        may_begin: Callable[[], bool] = lambda: True,
        beat: Beat | None = None,
        longest_call: timedelta = LONGEST_CALL,
    ) -> None:
        """Ask *may_begin* before the first step: until it is true the loop beats, but neither leads nor steps.

        The parts of a step call *beat* to show progress; none of them takes more than *longest_call*.
        """
        super().__init__(name="loop", daemon=True)
        self._step, self._writer, self._clock, self._tick, self._timer = step, writer, clock, tick, timer
        self._woken = threading.Event()
        self._pace = pace or WakeupLimiter()
        self._may_begin = may_begin
        self._stopping = threading.Event()
        self._beat = beat or Beat()
        self._longest_call = longest_call
        self._state = "starting"
        self._waits_for: str | None = None  # who led when that was logged last
        self._steps = 0
        self._errors = 0
        self._good_at = monotonic()  # when a step last went well, or this loop began to lead

    def wake(self) -> None:
        """Step as soon as possible, in a storm within a second (`receiver.runtime.wakeups`); returns at once."""
        self._woken.set()

    def stop(self, timeout: float = 15.0) -> None:
        """End after the step under way, which gives up the right to write, and wait for that *timeout* seconds at most.

        A step that is not through by then may be in the midst of a call: the right ends with the process, or by itself.
        """
        self._stopping.set()
        self._woken.set()
        if self.is_alive():
            self.join(timeout)

    def health(self) -> LoopHealth:
        """Return the loop's heartbeat for /healthz, and how its steps go for /readyz."""
        fresh = 3 * self._tick + self._longest_call
        return LoopHealth(
            state="stopped" if self._stopping.is_set() else self._state,
            beat_age=self._beat.age,
            fresh=fresh,
            steps=self._steps,
            errors=self._errors,
            good_age=self.good_age(),
            good_within=max(WITHOUT_A_GOOD_STEP, fresh),
            leader=self._writer.leader,
        )

    def good_age(self) -> timedelta | None:
        """Return how long ago a step last went well, or this loop began to lead; None where it does not lead."""
        return timedelta(seconds=monotonic() - self._good_at) if self.leads() else None

    def leads(self) -> bool:
        """True while this loop is the one that writes, as far as is known without asking anybody."""
        leader = self._writer.leader
        return self._state == "leading" and leader is not None and leader.mine and not self._stopping.is_set()

    @property
    def leading(self) -> bool:
        """True while this loop is the one writer, as the lock or lease says."""
        try:
            return self._state == "leading" and self._writer.held()
        except Exception:  # who asks beside the loop outlives it, as the loop does
            log.exception("writer lock not reached")
            return False

    def run(self) -> None:
        """The thread's body."""
        try:
            self._go_round()
        finally:
            self._writer.release()  # no call of ours is under way any more

    def _go_round(self) -> None:
        while not self._stopping.is_set():
            self._beat()
            if not self._may_begin() or not self._take_the_lead():
                self._stopping.wait(LOCK_RETRY_SECONDS)
                continue
            self._woken.clear()
            wait = self._step_once()
            self._beat()
            if self._woken.wait(wait):  # what else comes until the step is part of it
                self._stopping.wait(self._pace.wait(monotonic()))

    def _take_the_lead(self) -> bool:
        if self._may_lead():
            if self._state != "leading":
                log.info("leading", detail="this process is the one that writes")
                self._good_at = monotonic()
            self._state = "leading"
            return True
        leader = self._writer.leader
        name = leader.name if leader else None
        if self._state != "waiting" or name != self._waits_for:
            detail = "another loop holds the store's writer lock; webhooks are answered meanwhile"
            log.info("waiting", detail=detail, leader=name, before=self._state)
        self._state, self._waits_for = "waiting", name
        return False

    def _may_lead(self) -> bool:
        try:
            return self._writer.held() or self._writer.try_acquire()
        except Exception:  # the loop outlives a lock that cannot be asked for: it waits and asks again
            log.exception("writer lock not reached")
            return False

    def _step_once(self) -> float:
        """Run one step; return how many seconds to wait for a wake-up."""
        began = monotonic()
        failed = True
        failures: Sequence[Failure] = ()
        wait = min(AFTER_ERROR_SECONDS, self._tick.total_seconds())
        try:
            stepped = self._step(self._clock.now())
            failed, failures = bool(stepped.failed_pools), stepped.failures
            if not failed or len(stepped.failed_pools) < len(stepped.decisions):  # at least one pool was served
                self._good_at = monotonic()
            wait = self._until(stepped.reconsider_at)
        except WriterLostError as error:
            self._writer.release()
            wait = min(wait, LOCK_RETRY_SECONDS)
            log.error("stopped writing", error=str(error), detail="the step was abandoned")
        except TryLater as error:
            log.error("step failed", error=str(error), code=error.code)
        except Exception:  # the loop outlives any bug in a step: the next look starts from the world again
            log.exception("step failed")
        self._steps += 1
        self._errors += failed
        self._timer.stepped(monotonic() - began, failed=failed, failures=failures)
        return wait

    def _until(self, moment: datetime | None) -> float:
        tick = self._tick.total_seconds()
        if moment is None:
            return tick
        return min(tick, max(SHORTEST_WAIT_SECONDS, (moment - self._clock.now()).total_seconds()))


class Courier(threading.Thread):
    """Deliver notices beside the loop, so that a bad destination never delays scaling."""

    def __init__(self, deliver: Callable[[datetime], int], loop: Loop, clock: Clock, every: float = 1.0) -> None:
        super().__init__(name="courier", daemon=True)
        self._deliver, self._loop, self._clock, self._every = deliver, loop, clock, every
        self._stopping = threading.Event()

    def stop(self, timeout: float = 5.0) -> None:
        """End after the delivery under way, at most *timeout* seconds later."""
        self._stopping.set()
        if self.is_alive():
            self.join(timeout)

    def run(self) -> None:
        """The thread's body: only the leader delivers, so that nothing is told twice."""
        while not self._stopping.wait(self._every):
            if not self._loop.leading:
                continue
            try:
                self._deliver(self._clock.now())
            except TryLater as error:
                log.warning("notices wait", error=str(error))
            except Exception:  # a broken destination must not end the courier
                log.exception("notices failed")
