"""Leader election for replicas that share a PostgreSQL store: a lease that is renewed while this process runs and
expires by the database's clock when it does not.

Before `held` allows a write, the lease outlasts the longest call, according to the database. A takeover happens no
earlier than the end of the last lease plus its owner's longest call (docs/decisions/0043).
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
WAKE_SPACING_SECONDS = 0.2  # at most this often a waiting replica passes a storm of alerts on to the leader


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long a lease *lasts* after each renewal, and how long the *longest_call* to the outside may take."""

    lasts: timedelta
    longest_call: timedelta

    @property
    def renewed_every(self) -> timedelta:
        """The interval between renewals."""
        return self.lasts / RENEWALS

    @property
    def heartbeat(self) -> timedelta:
        """The interval between the heartbeats of the thread beside the loop."""
        return min(timedelta(seconds=LONGEST_HEARTBEAT_SECONDS), self.renewed_every)


def own_name() -> str:
    """Return a unique name for this process: its host's (in Kubernetes the pod's) name and more."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"


def boot_seconds() -> float:
    """Return seconds of a clock that never goes back and, where the system has one, runs while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """One process's part in the leader election of a store. Safe to use from several threads.

    `start` begins the thread that renews the lease whatever the loop does; without it `heartbeat` is called by hand.
    """

    def __init__(
        self,
        table: LeaseTable,
        terms: Terms,
        name: str | None = None,
        seconds: Callable[[], float] = boot_seconds,
    ) -> None:
        self._table, self._terms, self._seconds = table, terms, seconds
        self.name = name or own_name()
        self._parent, self._process = os.getppid(), os.getpid()
        self._guard = threading.Lock()
        self._term: int | None = None
        self._ends = 0.0  # in our own seconds, from before the renewal: never later than by the database's clock
        self._renew_at = 0.0
        self._leader: Leader | None = None
        self._trouble = ""  # what was logged last
        self._wake: Callable[[], None] = lambda: None
        self._wakes_seen: int | None = None
        self._nudging = False
        self._rouse, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name="lease", daemon=True)

    # --- for the loop

    def try_acquire(self) -> bool:
        """Begin a term if the last lease has expired; True while a term of ours lasts.

        Also False when the database does not answer: the loop waits, and the reason is logged once.
        """
        if self._may_not_lead():
            return False
        try:
            if self._term is not None:
                self._renew()
                return self.held()
            return self._take()
        except SQLAlchemyError as error:
            self._unreachable(error)
            return False

    def held(self) -> bool:
        """True if a write may begin now: our lease outlasts the longest call, according to the database."""
        term = self._term
        if term is None or self._may_not_lead() or not self._outlasts(self._ends):
            return False
        asked_at = self._seconds()
        try:
            left = self._table.left(self.name, term)
        except SQLAlchemyError as error:
            self._unreachable(error)
            return False
        if left is None:
            self._lose(term)
            return False
        self._trouble = ""
        return self._term == term and self._outlasts(asked_at + left.total_seconds())

    def lasts(self) -> bool:
        """True while our lease outlasts the longest call by our own clock; returns at once."""
        return self._term is not None and self._outlasts(self._ends)

    def release(self) -> None:
        """Release the lease, so that another replica leads at once. No call to the outside may be under way."""
        if self._process != os.getpid():
            return
        with self._guard:
            term, self._term = self._term, None
        if term is None:
            return
        try:
            self._table.free(self.name, term)
            log.info("lease released", term=term)
        except SQLAlchemyError as error:
            self._unreachable(error)

    @property
    def leader(self) -> Leader | None:
        """The leader as last read; does not query the database."""
        if self._term is None:
            return self._leader
        return Leader(name=self.name, term=self._term, mine=self._seconds() < self._ends)

    # --- for what the loop writes to the store

    def fence(self, connection: Connection) -> None:
        """Raise WriterLostError unless our term is in force; it then is until *connection*'s transaction ends."""
        term = self._term
        if term is None or not is_in_force(connection, self.name, term):
            raise WriterLostError("this replica no longer leads: the rest of its last step is not stored")

    # --- for replicas that do not lead

    def nudge_leader(self) -> None:
        """Wake the leader's loop soon; returns at once. Does nothing on the leader, whose loop is woken directly."""
        if self._term is None:
            self._nudging = True
            self._rouse.set()

    # --- the thread beside the loop

    def start(self, wake: Callable[[], None]) -> None:
        """Renew the lease from now on; call *wake* for our loop when another replica nudges the leader."""
        self._wake = wake
        self._thread.start()

    def close(self) -> None:
        """End the thread and close the connections; a lease that was not released expires."""
        self._stopping.set()
        self._rouse.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._table.close()

    def heartbeat(self) -> None:
        """As the leader, renew the lease when due and look for nudges; as another replica, pass our nudge on."""
        try:
            if self._term is None:
                self._pass_nudge_on()
                return
            if self._may_not_lead():
                return  # the lease expires, or whatever stops us releases it
            if self._seconds() >= self._renew_at:
                self._renew()
            before, self._wakes_seen = self._wakes_seen, self._table.wakes()
            if before is not None and self._wakes_seen != before:
                self._wake()
        except SQLAlchemyError as error:
            self._unreachable(error)

    def _keep_alive(self) -> None:
        interval = self._terms.heartbeat.total_seconds()
        while not self._stopping.is_set():
            try:
                self.heartbeat()
            except Exception:  # without renewals the lease expires: a bug elsewhere, as in *wake*, must not cause that
                log.exception("lease heartbeat failed")
            if self._rouse.wait(interval):
                self._rouse.clear()
                self._stopping.wait(WAKE_SPACING_SECONDS)

    def _pass_nudge_on(self) -> None:
        if self._nudging:
            self._nudging = False
            try:
                self._table.wake()
            except SQLAlchemyError:
                self._nudging = True
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
            self._term, self._wakes_seen = term, None
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
            log.error("lease lost", term=term, detail="another replica leads now; this one stops stepping")

    def _may_not_lead(self) -> bool:
        """True in an orphaned worker, beside which the next gunicorn may have started its own, and in a fork of us."""
        return os.getppid() != self._parent or os.getpid() != self._process

    def _unreachable(self, error: SQLAlchemyError) -> None:
        if self._trouble != type(error).__name__:
            self._trouble = type(error).__name__
            log.warning("lease out of reach", error=self._trouble, detail="the database does not answer in time")
