"""Deliveries that arrive together share one transaction: the disk is waited for once, and each is answered after it.

Whoever comes while nobody commits commits at once, alone. Whoever comes during a commit waits for the next one, which
the first of those waiting makes for all of them, so the slower the disk, the more share one commit ("group commit").
In a storm the senders just answered send again at once: a few milliseconds are waited until as many are there as last
time, and no longer once they do not come. Who comes alone never waits.

Waiting has an end: each who waits holds a thread of the server, and health checks need one too. While a commit takes
too long, or after one that failed, one delivery tries and everyone else is told at once to come again.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from time import monotonic
from typing import TypeGuard

from receiver.adapters.store.database import ValuesRefusedError
from receiver.ports import Delivery, TryLater

Received = tuple[Delivery, datetime]
Keep = Callable[[Sequence[Received]], Sequence[int]]  # one transaction; the numbers, in the same order
MOST_AT_ONCE = 100
PATIENCE_SECONDS = 2.0
GATHER_SECONDS = 0.003  # about what four deliveries take from their answers to the next ones


class _Waiting:
    """One delivery that is not on disk yet. *turn* is let go when it has its *outcome*, or is to commit next."""

    __slots__ = ("outcome", "received", "turn")

    def __init__(self, received: Received) -> None:
        self.received = received
        self.outcome: int | BaseException | None = None
        self.turn = threading.Lock()  # a lock is the cheapest thing that can be waited for
        self.turn.acquire()


class Intake:
    """Where deliveries are kept together; safe to use from many threads."""

    def __init__(self, keep: Keep, patience: float = PATIENCE_SECONDS, gather: float = GATHER_SECONDS) -> None:
        """Use *keep* for each transaction; it raises `ValuesRefusedError` for values that no transaction can hold.

        A delivery waits *patience* seconds for what others commit, and a commit *gather* seconds for deliveries.
        """
        self._keep = keep
        self._patience = patience
        self._gather_seconds = gather
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._committing = False
        self._began = 0.0  # the commit under way, in seconds of `monotonic`
        self._failing = False  # the last commit did not succeed
        self._expected = 1  # deliveries: how many came together of late
        self._enough: threading.Lock | None = None  # let go when as many wait; None while nobody gathers

    def remember(self, delivery: Delivery, at: datetime) -> int:
        """Keep *delivery*, which came *at*; return its number when it is on disk. TryLater when it is not.

        One that was told to try later may be kept all the same: it was part of a commit that took too long.
        """
        mine = _Waiting((delivery, at))
        with self._lock:
            if self._committing and (self._failing or monotonic() - self._began > self._patience):
                raise _stuck()
            self._waiting.append(mine)
            self._tell_enough()
            first = not self._committing
            if first:
                self._commit_begins()
        if not first:
            if not mine.turn.acquire(timeout=self._patience) and self._withdrawn(mine):
                raise _stuck()
            if mine.outcome is not None:
                return _said(mine.outcome)
        return self._commit_with(mine)

    def _withdrawn(self, mine: _Waiting) -> bool:
        """Wait no more; False when *mine* was called at this very moment."""
        with self._lock:
            if mine.turn.acquire(blocking=False):
                return False
            with suppress(ValueError):  # it is being committed: whoever does so finds nobody to tell
                self._waiting.remove(mine)
            return True

    def _commit_with(self, mine: _Waiting) -> int:
        """Commit *mine* and everything else that waits, then let the first who came meanwhile do the same."""
        self._gather()
        with self._lock:
            self._enough = None
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        assert batch[0] is mine  # who commits next is the first of those who wait
        try:
            outcomes = self._outcomes([waiting.received for waiting in batch])
        except BaseException as error:  # noqa: BLE001 (a thread that is ended leaves nobody waiting)
            outcomes = [error] * len(batch)
        self._hand_on(len(batch), failed=all(_is_outage(outcome) for outcome in outcomes))
        for waiting, outcome in zip(batch[1:], outcomes[1:], strict=True):
            waiting.outcome = outcome
            waiting.turn.release()
        return _said(outcomes[0])

    def _gather(self) -> None:
        """Wait a moment for those who came together with us last time: they were answered at once and send again."""
        with self._lock:
            if len(self._waiting) >= self._expected:
                return
            enough = self._enough = threading.Lock()
            enough.acquire()
        enough.acquire(timeout=self._gather_seconds)

    def _tell_enough(self) -> None:
        if self._enough is not None and len(self._waiting) >= self._expected:
            self._enough.release()
            self._enough = None

    def _hand_on(self, kept: int, *, failed: bool) -> None:
        with self._lock:
            self._failing = failed
            self._expected = min(kept + len(self._waiting), MOST_AT_ONCE)
            self._committing = False
            if self._waiting:
                self._commit_begins()
                self._waiting[0].turn.release()

    def _commit_begins(self) -> None:
        self._committing, self._began = True, monotonic()

    def _outcomes(self, received: Sequence[Received]) -> list[int | BaseException]:
        """Keep *received* in one transaction, or in one each where one of them cannot be kept; the others can."""
        try:
            return list(self._keep(received))
        except Exception as error:  # noqa: BLE001 (whoever sent it is told)
            if len(received) == 1:
                return [error]
            if _is_outage(error):  # one by one would fail as well
                return [TryLater(str(error), code=error.code, delay=error.delay) for _ in received]
        return [self._outcomes([one])[0] for one in received]


def _is_outage(outcome: object) -> TypeGuard[TryLater]:
    """True for what the next transaction would say, too."""
    return isinstance(outcome, TryLater) and not isinstance(outcome, ValuesRefusedError)


def _said(outcome: int | BaseException) -> int:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _stuck() -> TryLater:
    return TryLater("store: other deliveries wait for it already", code="store")
