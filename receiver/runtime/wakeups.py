"""How often wake-ups make the loop step: the first few at once, and then evenly, however many come.

A step costs about as much whether one alert came or a hundred. In a storm of alerts it is the deliveries that must be
kept and answered: a loop that stepped after each of them would take the processor and the store from the next.
"""

import threading
from collections.abc import Callable
from time import monotonic

AT_ONCE = 3
EVERY_SECONDS = 1.0
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
