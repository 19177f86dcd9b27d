"""A watch of pods beside the loop: it wakes the loop, which looks at everything anew (docs/decisions/0003).

Without it nothing is lost but speed: the loop is woken by alerts and by its own tick as well.
"""

import random
import threading
from collections.abc import Callable
from time import monotonic

import structlog

from receiver.metrics.process import WatchCounts
from receiver.ports import DemandWatch, TryLater, WontWork

log = structlog.get_logger("receiver")

QUIET_SECONDS = 0.3  # pods of one job come one after the other: the loop is woken when no more come
LONGEST_SECONDS = 2.0  # and after that long in any case
BURST = 5  # wake-ups that may follow one another as fast as that
SPACING_SECONDS = 3.0  # the time between two in the long run
LEAD_RETRY_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 60.0
FAILURES_TOLD = 3  # in a row; one is nothing to hear of
SHORTEST_STAND_SECONDS = 5.0  # a watch that ends sooner has failed, whatever it said
LISTED_JITTER_SECONDS = 2.0  # the longest wait for the next watch after the API server answers a list again

Later = Callable[[float, Callable[[], None]], None]


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


def backoff(failures: int, chance: Callable[[], float] = random.random) -> float:
    """Return how many seconds to wait after so many *failures* in a row (1 or more): doubled each time, up to a
    minute, of which a random half is left out, so that replicas do not come back together."""
    whole = min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(failures - 1, 10))
    return whole * (1 - chance() / 2)


class Lookout(threading.Thread):
    """Follow *watch* while *leads* says that ours is the loop that writes, and *wake* it for what is found."""

    def __init__(
        self,
        watch: DemandWatch,
        wake: Callable[[], None],
        leads: Callable[[], bool],
        counts: WatchCounts,
        wait: Callable[[int], float] = backoff,
        chance: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(name="lookout", daemon=True)
        self._watch, self._wake, self._leads, self._counts, self._wait = watch, wake, leads, counts, wait
        self._chance = chance
        self._pace = WakeupBurst(self._woken)
        self._stopping = threading.Event()
        self._rouse = threading.Event()  # set to cut a wait short
        self._hurries = True  # whether a list that succeeds cuts the wait short
        self._failures = 0
        self._told = False

    def stop(self, timeout: float = 5.0) -> None:
        """End the watch, at most *timeout* seconds later."""
        self._stopping.set()
        self._rouse.set()
        self._watch.close()
        if self.is_alive():
            self.join(timeout)

    def run(self) -> None:
        """The thread's body: only the leader watches."""
        pause = 0.0
        while not self._waited(pause):
            if not self._leads():
                self._counts.not_ours()
                pause = LEAD_RETRY_SECONDS
                continue
            pause = self._follow_once()

    def listed(self, succeeded: bool) -> None:
        """Hear whether the API server answered a list: once it does after an outage, the watch is tried again at once.

        That happens once until a list fails or the watch stands: where lists succeed and watches do not, the wait
        grows as always. Any thread may call this; it returns at once.
        """
        if not succeeded:
            self._hurries = True
        elif self._hurries and self._failures:
            self._hurries, self._failures = False, 0
            self._rouse.set()

    def _waited(self, pause: float) -> bool:
        """Wait for *pause* seconds, or less when the API server answers again; True when the thread is to end."""
        if self._rouse.wait(pause):
            self._rouse.clear()
            self._stopping.wait(LISTED_JITTER_SECONDS * self._chance())
        return self._stopping.is_set()

    def _follow_once(self) -> float:
        """Follow the watch to its end; return how many seconds to wait before the next one."""
        began = monotonic()
        try:
            self._watch.follow(self._stands, self._pace.found)
            error: Exception = TryLater("the watch of pods was ended at once")
            if monotonic() - began >= SHORTEST_STAND_SECONDS:
                self._failures, self._hurries = 0, True
                return 0.0
        except (TryLater, WontWork) as raised:
            error = raised
        except Exception as raised:  # the watch outlives any bug in reading it
            log.exception("watch of pods failed")
            error = raised
        if self._stopping.is_set():
            return 0.0
        stood = monotonic() - began >= SHORTEST_STAND_SECONDS
        self._failures = 1 if stood else self._failures + 1
        self._hurries = self._hurries or stood
        return self._failed(error)

    def _failed(self, error: Exception) -> float:
        self._counts.fell()
        if not self._told and (isinstance(error, WontWork) or self._failures >= FAILURES_TOLD):
            self._told = True
            log.warning("pods are not watched", error=str(error), detail="alerts and the tick find them, only later")
        if isinstance(error, WontWork):
            return LONGEST_BACKOFF_SECONDS
        asked = error.delay.total_seconds() if isinstance(error, TryLater) and error.delay else 0.0
        self._hurries = self._hurries and not asked
        return max(asked, self._wait(self._failures))

    def _stands(self) -> None:
        self._counts.stands()
        self._rouse.clear()
        if self._told:
            self._told = False
            log.info("pods are watched again")

    def _woken(self) -> None:
        if self._leads():
            self._counts.woke()
            self._wake()
