"""The loop: one step at a time, woken by a webhook, by found pods, by a moment that a decision named, or by the tick.

It steps only while it is the one writer. Wake-ups are limited: in a storm of alerts, the deliveries must be kept and
answered, and a step costs about as much whether one alert came or a hundred.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Protocol

import structlog

from receiver.core.scaling.failures import Failure
from receiver.ports import Clock, Leader, LoopHealth, TryLater, WriterLostError
from receiver.runtime.background import Background
from receiver.step.reconcile import Stepped

log = structlog.get_logger("receiver")
LOCK_RETRY_SECONDS = 1.0
LOOK_SECONDS = 1.0  # between two looks for what other replicas stored
AFTER_ERROR_SECONDS = 5.0
SHORTEST_WAIT_SECONDS = 0.1
WITHOUT_A_GOOD_STEP = timedelta(minutes=5)  # as in GpuAutoscalerStepsSlow
LONGEST_CALL = timedelta(seconds=45)  # the sum of the timeouts that one slow source can cost a step
AT_ONCE = 3  # wake-ups
EVERY_SECONDS = 1.0  # for each wake-up after those
QUIET_SECONDS = 0.3  # pods of one job come one after the other: the loop is woken when no more come
LONGEST_SECONDS = 2.0  # and after that long in any case
BURST = 5  # wake-ups by pods that may follow one another as fast as that
SPACING_SECONDS = 3.0  # the time between two in the long run

Later = Callable[[float, Callable[[], None]], None]


class WakeupLimiter:
    """A leaky bucket of wake-ups. Times are monotonic seconds."""

    def __init__(self, at_once: int = AT_ONCE, every: float = EVERY_SECONDS) -> None:
        """Let *at_once* wake-ups pass without waiting, and one more for each *every* seconds since."""
        self._spare = (at_once - 1) * every
        self._every = every
        self._emptied_at: float | None = None  # when as many as at first could pass again, if none came

    def wait(self, now: float) -> float:
        """Return how many seconds the wake-up of *now* waits before its step; count it."""
        if self._emptied_at is None or self._emptied_at < now:
            self._emptied_at = now
        begins = max(now, self._emptied_at - self._spare)
        self._emptied_at += self._every
        return begins - now


def later(seconds: float, call: Callable[[], None]) -> None:
    """Run *call* after *seconds*, in a thread of its own."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


class WakeupBurst:
    """Gathers what is found: one wake-up for a burst, and no more of them than the loop can use."""

    def __init__(
        self, wake: Callable[[], None], after: Later = later, seconds: Callable[[], float] = monotonic
    ) -> None:
        self._wake, self._after, self._seconds = wake, after, seconds
        self._lock = threading.Lock()
        self._first: float | None = None
        self._last = 0.0
        self._earned_at = seconds() - BURST * SPACING_SECONDS  # when the next wake-up would be due at the long pace

    def found(self) -> None:
        """Wake the loop for this, soon; returns at once."""
        with self._lock:
            self._last = self._seconds()
            if self._first is not None:
                return
            self._first = self._last
        self._after(QUIET_SECONDS, self._look)

    def _look(self) -> None:
        with self._lock:
            now = self._seconds()
            assert self._first is not None
            gathered = min(self._last + QUIET_SECONDS, self._first + LONGEST_SECONDS)
            wait = max(gathered, self._earned_at - (BURST - 1) * SPACING_SECONDS) - now
            if wait <= 0:
                self._first = None
                self._earned_at = max(self._earned_at, now) + SPACING_SECONDS
        if wait > 0:
            self._after(wait, self._look)
        else:
            self._wake()


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
        """The holder of the lead, as far as this process knows without a query."""


class StepTimer(Protocol):
    """Where the loop counts itself (`receiver.metrics.collector.Instruments`)."""

    def stepped(self, seconds: float, *, failed: bool, failures: Sequence[Failure] = ()) -> None:
        """Count one step that took *seconds*, and the parts of it that failed."""


class Beat:
    """When the loop last showed progress: a step does before each call, and is stuck only where one of them is."""

    def __init__(self) -> None:
        self._at = monotonic()

    def __call__(self) -> None:
        self._at = monotonic()

    @property
    def age(self) -> timedelta:
        return timedelta(seconds=monotonic() - self._at)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTerms:
    """When a loop may step. Until *may_begin* is true it beats, but neither leads nor steps. Steps call *beat* to show
    progress. *newest* changes when another replica has stored something for the next step."""

    pace: WakeupLimiter = field(default_factory=WakeupLimiter)
    may_begin: Callable[[], bool] = lambda: True
    beat: Beat = field(default_factory=Beat)
    longest_call: timedelta = LONGEST_CALL
    newest: Callable[[], object] = lambda: None


class Loop(Background):
    """Run *step* for as long as we are the one writer."""

    def __init__(
        self,
        step: Callable[[datetime], Stepped],
        writer: Writer,
        clock: Clock,
        tick: timedelta,
        timer: StepTimer,
        terms: LoopTerms | None = None,
    ) -> None:
        super().__init__("loop")
        self._step, self._writer, self._clock, self._tick, self._timer = step, writer, clock, tick, timer
        self._woken = threading.Event()
        self._terms = terms or LoopTerms()
        self._state = "starting"
        self._waits_for: str | None = None  # who led when that was logged last
        self._steps = 0
        self._errors = 0
        self._good_at = monotonic()  # when a step last went well, or this loop began to lead

    def wake(self) -> None:
        """Step as soon as possible, in a storm within a second; returns at once."""
        self._woken.set()

    def stop(self, timeout: float = 15.0) -> None:
        """End after the step under way, which gives up the right to write; wait for that *timeout* seconds at most."""
        self._stopping.set()  # before it wakes
        self._woken.set()
        super().stop(timeout)

    def health(self) -> LoopHealth:
        """Return the loop's heartbeat for /healthz, and how its steps go for /readyz."""
        fresh = 3 * self._tick + self._terms.longest_call
        return LoopHealth(
            state="stopped" if self._stopping.is_set() else self._state,
            beat_age=self._terms.beat.age,
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

    def run(self) -> None:
        """The thread's body."""
        try:
            while not self._stopping.is_set():
                self._terms.beat()
                if not self._terms.may_begin() or not self._take_the_lead():
                    self._stopping.wait(LOCK_RETRY_SECONDS)
                    continue
                self._woken.clear()  # before the step, so that nothing that arrives during it is lost
                newest = self._terms.newest()
                wait = self._step_once()
                self._terms.beat()
                if self._is_woken(wait, newest):  # what else comes until the step is part of it
                    self._stopping.wait(self._terms.pace.wait(monotonic()))
        finally:
            self._writer.release()  # no call of ours is under way any more

    def _is_woken(self, seconds: float, newest_known: object) -> bool:
        """Wait *seconds* for a wake-up, or for something newer than *newest_known*; False when neither comes."""
        ends = monotonic() + seconds
        while (seconds_left := ends - monotonic()) > 0:
            if self._woken.wait(min(seconds_left, LOOK_SECONDS)) or self._terms.newest() != newest_known:
                return True
        return False

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


class Courier(Background):
    """Deliver notices beside the loop, so that a bad destination never delays scaling."""

    def __init__(self, deliver: Callable[[datetime], int], loop: Loop, clock: Clock, every: float = 1.0) -> None:
        super().__init__("courier")
        self._deliver, self._loop, self._clock, self._every = deliver, loop, clock, every

    def run(self) -> None:
        """The thread's body: only the leader delivers, so that nothing is told twice."""
        while not self._stopping.wait(self._every):
            if not self._loop.leads():
                continue
            try:
                self._deliver(self._clock.now())
            except TryLater as error:
                log.warning("notices wait", error=str(error))
            except Exception:  # a broken destination must not end the courier
                log.exception("notices failed")
