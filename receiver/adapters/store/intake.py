"""Deliveries that arrive together share one transaction: the disk is waited for once, and each is answered after it.

Whoever comes while nobody commits commits at once, alone. Whoever comes during a commit waits for the next one, which
the first of those waiting makes for all of them. So nothing is ever delayed to gather more, and the slower the disk,
the more share one commit ("group commit").
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime

from receiver.adapters.store.database import Refused
from receiver.ports import Delivery, TryLater

Received = tuple[Delivery, datetime]
Keep = Callable[[Sequence[Received]], Sequence[int]]  # one transaction; the numbers, in the same order
MOST_AT_ONCE = 100


class _Waiting:
    """One delivery that is not on disk yet. *turn* ends with its number, or with None when it is to commit next."""

    __slots__ = ("received", "turn")

    def __init__(self, received: Received) -> None:
        self.received = received
        self.turn: Future[int | None] = Future()


class Intake:
    """Where deliveries are kept together; safe to use from many threads."""

    def __init__(self, keep: Keep) -> None:
        """Use *keep* for each transaction; it raises `Refused` for values that no transaction can hold."""
        self._keep = keep
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._committing = False

    def remember(self, delivery: Delivery, at: datetime) -> int:
        """Keep *delivery*, which came *at*; return its number when it is on disk. TryLater when it is not."""
        mine = _Waiting((delivery, at))
        with self._lock:
            self._waiting.append(mine)
            first, self._committing = not self._committing, True
        if not first:
            number = mine.turn.result()
            if number is not None:
                return number
        return self._commit_with(mine)

    def _commit_with(self, mine: _Waiting) -> int:
        """Commit *mine* and everything else that waits, then let the first who came meanwhile do the same."""
        with self._lock:
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        assert batch[0] is mine  # who commits next is the first of those who wait
        try:
            outcomes = self._outcomes([waiting.received for waiting in batch])
        except BaseException as error:  # noqa: BLE001 (a thread that is ended leaves nobody waiting)
            outcomes = [error] * len(batch)
        self._hand_on()
        for waiting, outcome in zip(batch[1:], outcomes[1:], strict=True):
            if isinstance(outcome, int):
                waiting.turn.set_result(outcome)
            else:
                waiting.turn.set_exception(outcome)
        own = outcomes[0]
        if isinstance(own, int):
            return own
        raise own

    def _hand_on(self) -> None:
        with self._lock:
            following = self._waiting[0] if self._waiting else None
            self._committing = following is not None
        if following is not None:
            following.turn.set_result(None)

    def _outcomes(self, received: Sequence[Received]) -> list[int | BaseException]:
        """Keep *received* in one transaction, or in one each where one of them cannot be kept; the others can."""
        try:
            return list(self._keep(received))
        except Exception as error:  # noqa: BLE001 (whoever sent it is told)
            if len(received) == 1:
                return [error]
            if isinstance(error, TryLater) and not isinstance(error, Refused):  # one by one would fail as well
                return [TryLater(str(error), code=error.code, delay=error.delay) for _ in received]
        return [self._outcomes([one])[0] for one in received]
