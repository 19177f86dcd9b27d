"""Leader election: for processes that share a SQLite file a file lock, held for as long as the process lives; for
replicas that share a PostgreSQL store a lease that is renewed meanwhile and expires by the database's clock.

Before `held` allows a write, the lease outlasts the longest call, according to the database. A takeover happens no
earlier than the end of the last lease plus its owner's longest call (docs/decisions/0043).
"""

import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from receiver.adapters.store.database import beside, parse
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


def boot_seconds() -> float:
    """Return seconds of a clock that never goes back and, where the system has one, runs while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """One process's part in the leader election of a store. Safe to use from several threads. `start` begins the
    thread that renews the lease whatever the loop does; without it `heartbeat` is called by hand."""

    def __init__(
        self, table: LeaseTable, terms: Terms, name: str | None = None, seconds: Callable[[], float] = boot_seconds
    ) -> None:
        self._table, self._terms, self._seconds = table, terms, seconds
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"  # in Kubernetes the pod's name
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

    def try_acquire(self) -> bool:
        """Begin a term if the last lease has expired; True while a term of ours lasts. Also False when the database
        does not answer: the loop waits, and the reason is logged once."""
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
        if self._term is None:
            return self._leader
        return Leader(name=self.name, term=self._term, mine=self._seconds() < self._ends)

    def fence(self, connection: Connection) -> None:
        """Raise WriterLostError unless our term is in force; it then is until *connection*'s transaction ends."""
        term = self._term
        if term is None or not is_in_force(connection, self.name, term):
            raise WriterLostError("this replica no longer leads: the rest of its last step is not stored")

    def nudge_leader(self) -> None:
        """Wake the leader's loop soon; returns at once. Does nothing on the leader, whose loop is woken directly."""
        if self._term is None:
            self._nudging = True
            self._rouse.set()

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
                if self._nudging:
                    self._nudging = False
                    try:
                        self._table.wake()
                    except SQLAlchemyError:
                        self._nudging = True
                        raise
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
        interval = min(LONGEST_HEARTBEAT_SECONDS, self._terms.lasts.total_seconds() / RENEWALS)
        while not self._stopping.is_set():
            try:
                self.heartbeat()
            except Exception:  # without renewals the lease expires: a bug elsewhere, as in *wake*, must not cause that
                log.exception("lease heartbeat failed")
            if self._rouse.wait(interval):
                self._rouse.clear()
                self._stopping.wait(WAKE_SPACING_SECONDS)

    def _take(self) -> bool:
        began = self._seconds()
        found = self._table.read()
        self._leader = Leader(name=found.owner, term=found.term) if found and found.owner else None
        self._trouble = ""
        free = found is None or found.is_free_to(self.name)
        term = self._table.take(self.name, self._terms.lasts, self._terms.longest_call) if free else None
        if term is None:
            return False
        with self._guard:
            self._term, self._wakes_seen = term, None
            self._lasts_from(began)
        log.info("lease taken", term=term, name=self.name, after=self._leader.name if self._leader else None)
        return True

    def _renew(self) -> None:
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
        self._renew_at = began + self._terms.lasts.total_seconds() / RENEWALS

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


class WriterLock:
    """An exclusive `flock` on ``<db file>.loop.lock``, which the kernel releases when the process dies. Safe to use
    from several threads. The file is never removed: that would let two processes lock two files of one name."""

    def __init__(self, url: str) -> None:
        """Prepare the lock of the SQLite store at *url*; WontWork for a URL that `open_store` would refuse too."""
        self._path = beside(parse(url), ".loop.lock")
        self._file: int | None = None
        self._parent = os.getppid()
        self._owner: int | None = None  # the process that took the lock: a fork inherits the file, not the lock
        self._trouble = ""  # what was logged last
        self._guard = threading.Lock()

    def try_acquire(self) -> bool:
        """Take the lock if it is free; True while this process has it. Also False when the lock file cannot be
        opened or locked: the loop waits, and the reason is logged once."""
        with self._guard:
            if os.getppid() != self._parent:
                return False
            if self._is_ours():
                return True
            self._drop()
            self._owner = os.getpid() if self._take() else None
            return self._owner is not None

    def held(self) -> bool:
        """True while the lock is ours and the process that started us lives. Called before each write to the
        outside. An orphaned worker must stop: the next gunicorn may have started its own."""
        with self._guard:
            return os.getppid() == self._parent and self._is_ours()

    def release(self) -> None:
        with self._guard:
            if self._owner == os.getpid():
                self._drop()
            self._owner = None

    @property
    def leader(self) -> Leader | None:
        """The process that has the lock, by its number; None while that is unknown."""
        mine, process = self._owner == os.getpid(), str(self._owner)
        if not mine:
            try:
                process = self._path.read_text(encoding="ascii", errors="replace").strip()[:20]
            except OSError:
                return None
        return Leader(name=f"process {process}", mine=mine) if process else None

    def _take(self) -> bool:
        doing = "open"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)  # Python closes it in child processes
            doing = "lock"
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
                raise
        except BlockingIOError:
            self._trouble = ""
            return False
        except OSError as error:
            trouble = f"cannot {doing} {self._path}: {error.strerror}"
            if trouble != self._trouble:
                log.warning("cannot take the writer lock", error=trouble)
            self._trouble = trouble
            return False
        self._file, self._trouble = file, ""
        with suppress(OSError):  # a full disk
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}\n".encode())  # shows people which process has it
        return True

    def _is_ours(self) -> bool:
        """True while this process has the lock on the file that is at the path now."""
        if self._file is None or self._owner != os.getpid():
            return False
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file))
        except OSError:
            return False

    def _drop(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
