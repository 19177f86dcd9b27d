"""The right to be the one loop that writes, of several replicas on PostgreSQL: a lease that is renewed as long as this
process runs, and that ends by the database's clock when it does not.

Promises: before it says that a write may be made, the lease outlasts the longest call by the database's own word; and
it takes over no earlier than the last lease's end and its owner's longest call (docs/decisions/0043).
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from receiver.adapters.store.lease_table import LeaseTable, is_in_force
from receiver.ports import Leader, WriterLostError

log = structlog.get_logger("receiver")

LONGEST_HEARTBEAT_SECONDS = 1.0
RENEWALS = 6  # in the time that a lease lasts: several may fail
WAKE_SPACING_SECONDS = 0.2  # a storm of alerts at a replica that waits is told to the leader this often


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long a lease *lasts* after each renewal, and how long the *longest_call* to the outside may take."""

    lasts: timedelta
    longest_call: timedelta

    @property
    def renewed_every(self) -> timedelta:
        """How often it is renewed."""
        return self.lasts / RENEWALS

    @property
    def heartbeat(self) -> timedelta:
        """How often the thread beside the loop looks after it."""
        return min(timedelta(seconds=LONGEST_HEARTBEAT_SECONDS), self.renewed_every)


def own_name() -> str:
    """Return a name for this process that no other has or had: its host's (in Kubernetes the pod's) and more."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"


def seconds_awake_or_not() -> float:
    """Return seconds that never go back and go on while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """One process's part in the lease of a store. Safe to use from several threads.

    `start` begins the thread that renews it, whatever the loop does; without it `heartbeat` is called by hand.
    """

    def __init__(
        self,
        table: LeaseTable,
        terms: Terms,
        name: str | None = None,
        seconds: Callable[[], float] = seconds_awake_or_not,
    ) -> None:
        self._table, self._terms, self._seconds = table, terms, seconds
        self.name = name or own_name()
        self._parent, self._process = os.getppid(), os.getpid()
        self._guard = threading.Lock()
        self._term: int | None = None
        self._ends = 0.0  # in our own seconds, from before it was renewed: never later than by the database's clock
        self._renew_at = 0.0
        self._leader: Leader | None = None
        self._trouble = ""  # what was logged last
        self._wake: Callable[[], None] = lambda: None
        self._heard: int | None = None
        self._calling = False
        self._rouse, self._stopping = threading.Event(), threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="lease", daemon=True)

    # --- for the loop

    def try_acquire(self) -> bool:
        """Begin a term if the last one's time is over; True while one of ours lasts.

        False, too, when the database does not answer: the loop waits then, and the log says why, once.
        """
        if self._is_not_ours_to_hold():
            return False
        try:
            if self._term is not None:
                self._renew()
                return self.held()
            return self._take()
        except SQLAlchemyError as error:
            self._out_of_reach(error)
            return False

    def held(self) -> bool:
        """True when a write may begin now: our lease outlasts the longest call, by the word of the database."""
        term = self._term
        if term is None or self._is_not_ours_to_hold() or not self._outlasts(self._ends):
            return False
        asked_at = self._seconds()
        try:
            left = self._table.left(self.name, term)
        except SQLAlchemyError as error:
            self._out_of_reach(error)
            return False
        if left is None:
            self._lose(term)
            return False
        self._trouble = ""
        return self._term == term and self._outlasts(asked_at + left.total_seconds())

    def lasts(self) -> bool:
        """True while our lease outlasts the longest call by our own clock, which is asked in no time."""
        return self._term is not None and self._outlasts(self._ends)

    def release(self) -> None:
        """Give the lease up, so that another replica leads at once. No call to the outside may be under way."""
        if self._process != os.getpid():
            return
        with self._guard:
            term, self._term = self._term, None
        if term is None:
            return
        try:
            self._table.free(self.name, term)
            log.info("lease given up", term=term)
        except SQLAlchemyError as error:
            self._out_of_reach(error)

    @property
    def leader(self) -> Leader | None:
        """Who leads, as far as was heard last; the database is not asked."""
        if self._term is None:
            return self._leader
        return Leader(name=self.name, term=self._term, mine=self._seconds() < self._ends)

    # --- for what the loop writes to the store

    def fence(self, connection: Connection) -> None:
        """Raise WriterLostError unless our term is in force, which it is until *connection*'s transaction ends."""
        term = self._term
        if term is None or not is_in_force(connection, self.name, term):
            raise WriterLostError(
                "this replica does not lead any more: what its last step still had to store is refused"
            )

    # --- for replicas that do not lead

    def nudge_leader(self) -> None:
        """Wake the loop of whoever leads, soon; returns at once. Ours is woken without."""
        if self._term is None:
            self._calling = True
            self._rouse.set()

    # --- the thread beside the loop

    def start(self, wake: Callable[[], None]) -> None:
        """Look after the lease from now on; *wake* our loop when a replica that does not lead calls."""
        self._wake = wake
        self._keeper.start()

    def close(self) -> None:
        """End the thread and close the connections; a lease that was not released ends by itself."""
        self._stopping.set()
        self._rouse.set()
        if self._keeper.is_alive():
            self._keeper.join(5.0)
        self._table.close()

    def heartbeat(self) -> None:
        """Renew our lease when it is time, hear who called, and pass on what is to be told to whoever leads."""
        try:
            if self._term is None:
                self._pass_on()
                return
            if self._is_not_ours_to_hold():
                return  # it ends by itself, or by who stops us
            if self._seconds() >= self._renew_at:
                self._renew()
            self._listen()
        except SQLAlchemyError as error:
            self._out_of_reach(error)

    def _keep(self) -> None:
        beat = self._terms.heartbeat.total_seconds()
        while not self._stopping.is_set():
            try:
                self.heartbeat()
            except Exception:  # a lease that is no longer renewed ends: that must not come of a bug in something else
                log.exception("lease not looked after")
            if self._rouse.wait(beat):
                self._rouse.clear()
                self._stopping.wait(WAKE_SPACING_SECONDS)

    def _listen(self) -> None:
        number = self._table.wakes()
        before, self._heard = self._heard, number
        if before is not None and number != before:
            self._wake()

    def _pass_on(self) -> None:
        if self._calling:
            self._calling = False
            try:
                self._table.wake()
            except SQLAlchemyError:
                self._calling = True
                raise

    def _take(self) -> bool:
        began = self._seconds()
        found = self._table.read()
        self._leader = Leader(name=found.owner, term=found.term) if found and found.owner else None
        self._trouble = ""
        if found is not None and not found.is_free_to(self.name):
            return False
        term = self._table.take(self.name, self._terms.lasts, self._terms.longest_call)
        if term is None:
            return False
        with self._guard:
            self._term, self._heard = term, None
            self._lasts_from(began)
        log.info("lease taken", term=term, name=self.name, after=self._leader.name if self._leader else None)
        return True

    def _renew(self) -> None:
        """Raises SQLAlchemyError."""
        term, began = self._term, self._seconds()
        if term is None:
            return
        if not self._table.renew(self.name, term, self._terms.lasts, self._terms.longest_call):
            self._lose(term)
            return
        self._trouble = ""
        with self._guard:
            if self._term == term:
                self._lasts_from(began)

    def _lasts_from(self, began: float) -> None:
        self._ends = began + self._terms.lasts.total_seconds()
        self._renew_at = began + self._terms.renewed_every.total_seconds()

    def _outlasts(self, ends: float) -> bool:
        return ends - self._seconds() >= self._terms.longest_call.total_seconds()

    def _lose(self, term: int) -> None:
        with self._guard:
            lost = self._term == term
            self._term = None if lost else self._term
        if lost:
            log.error("lease lost", term=term, detail="another replica has taken the lead; this one stops stepping")

    def _is_not_ours_to_hold(self) -> bool:
        """True in an orphaned worker, beside which the next gunicorn may have started its own, and in a fork of us."""
        return os.getppid() != self._parent or os.getpid() != self._process

    def _out_of_reach(self, error: SQLAlchemyError) -> None:
        if self._trouble != type(error).__name__:
            self._trouble = type(error).__name__
            log.warning("lease out of reach", error=self._trouble, detail="the database does not answer in time")
