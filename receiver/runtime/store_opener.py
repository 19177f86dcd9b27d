"""Open the store, trying again until it answers, and warm up a new one.

A database may start later than we do. A process that ended then would be restarted by the kubelet after ever longer
waits; this one answers 503 to webhooks and says at /readyz why.
"""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import chain, repeat
from time import monotonic

import structlog

from receiver.ports import ReadStore, TryLater
from receiver.runtime.background import Background

log = structlog.get_logger("receiver")

FIRST_TRY_SECONDS = 15.0  # before /healthz is answered; the startup probe allows two minutes in all
WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds after each failure; the last for all that follow


class Opening(Background):
    """A thread that ends when the store is open."""

    def __init__(self, open_store: Callable[[], None], waits: tuple[float, ...] = WAITS) -> None:
        """*open_store* raises TryLater when it may succeed later, WontWork when a person must act."""
        super().__init__("opening")
        self._open_store, self._waits = open_store, waits
        self._tried, self._opened = threading.Event(), threading.Event()
        self._failure: Exception | None = None  # of the first attempt, when it was not TryLater

    def begin(self, patience: float = FIRST_TRY_SECONDS) -> None:
        """Start, and return when the first attempt is over, after *patience* seconds in any case.

        Raises what it failed with, if that was not TryLater.
        """
        self.start()
        if not self._tried.wait(patience):
            self._tried.set()  # the start no longer waits; the result goes to the log
        if self._failure is not None:
            self._stopping.set()
            raise self._failure

    def is_open(self) -> bool:
        """True once the store can be used."""
        return self._opened.is_set()

    def run(self) -> None:
        """The thread's body."""
        began = monotonic()
        for wait in chain(self._waits, repeat(self._waits[-1])):
            opened = self._attempt(wait)
            if opened:
                self._opened.set()
                log.info("store open", after_seconds=round(monotonic() - began, 1))
            self._tried.set()
            if opened or self._stopping.wait(wait):
                return

    def _attempt(self, wait: float) -> bool:
        try:
            self._open_store()
        except TryLater as error:
            detail = "webhooks are answered 503 and nothing is decided until it opens"
            log.error("store not open", error=str(error), again_in_seconds=wait, detail=detail)
        except Exception as error:  # `begin` raises it if it still waits; a thread that ended would never try again
            if self._tried.is_set():
                log.exception("store not open", again_in_seconds=wait)
            else:
                self._failure = error
        else:
            return True
        return False


class WarmUp:
    """Whether the store is younger than *period*, counted from its first count of a pool, the same in every replica."""

    def __init__(self, store: ReadStore, period: timedelta) -> None:
        self._store, self._period = store, period
        self._over = period <= timedelta(0)
        self._told = False

    def ends_at(self, now: datetime) -> datetime | None:
        """Return when it will be over, as far as is known *now*; None when it is. Raises TryLater."""
        if self._over:
            return None
        began = min(self._store.watched().values(), default=now)
        if not began <= now < began + self._period:
            self._over = True
            log.info("warmed up", detail="from now on what is decided is done")
            return None
        if not self._told:
            self._told = True
            until = (began + self._period).isoformat()
            log.info("warming up", until=until, detail="a new store: what would be done is told, nothing is changed")
        return began + self._period
