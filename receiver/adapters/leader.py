"""Leader election: for processes that share a SQLite file a file lock, held for as long as the process lives; for
replicas that share a PostgreSQL store a lease that is renewed meanwhile and expires by the database's clock.

Before `held` allows a write, the lease outlasts the longest write, according to the database. A takeover happens no
earlier than the end of the last lease plus its owner's longest write (docs/decisions/0043, 0070).
"""

import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from receiver.adapters.store.database import beside, parse
from receiver.adapters.store.lease_table import LeaseTable, is_in_force
from receiver.ports import Leader, WriterLostError

log = structlog.get_logger("receiver")

RENEWALS = 7  # in the time that a lease lasts, about every two seconds: several may fail


def process_name() -> str:
    """Return a name for this process that no other has: in Kubernetes it begins with the pod's name."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"


def boot_seconds() -> float:
    """Return seconds of a clock that never goes back and, where the system has one, runs while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """One process's part in the leader election of a store. Safe to use from several threads. `start` begins the
    thread that renews the lease whatever the loop does."""

    def __init__(self, table: LeaseTable, seconds: Callable[[], float] = boot_seconds) -> None:
        self._table, self._seconds = table, seconds
        self._parent, self._process = os.getppid(), os.getpid()
        self._guard = threading.Lock()
        self._term: int | None = None
        self._ends = 0.0  # in our own seconds, from before the renewal: never later than by the database's clock
        self._leader: Leader | None = None  # as last read
        self._trouble = ""  # what was logged last
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name="lease", daemon=True)

    def try_acquire(self) -> bool:
        """Begin a term if the lease is free; True while a term of ours lasts. Also False when the database does not
        answer: the loop waits, and the reason is logged once."""
        if self._term is not None or self._may_not_lead():
            return self.held()
        began, before = self._seconds(), self._leader
        try:
            row = self._table.take()
        except SQLAlchemyError as error:
            return self._unreachable(error)
        self._trouble = ""
        self._leader = Leader(name=row.owner, term=row.term) if row.owner else None
        if row.owner != self._table.owner:
            return False
        with self._guard:
            self._term = row.term
            self._lasts_from(began)
        log.info("lease taken", term=row.term, name=row.owner, after=before.name if before else None)
        return True

    def held(self) -> bool:
        """True if a write may begin now: our lease outlasts the longest write. The database says so by renewing it."""
        term = self._term
        return term is not None and not self._may_not_lead() and self._renew(term) and self.lasts()

    def lasts(self) -> bool:
        """True while our lease outlasts the longest write by our own clock; returns at once."""
        return self._term is not None and self._ends - self._seconds() >= self._table.longest_write.total_seconds()

    def release(self) -> None:
        """Release the lease, so that another replica leads at once. No call to the outside may be under way."""
        if self._process != os.getpid():
            return
        with self._guard:
            term, self._term = self._term, None
        if term is None:
            return
        try:
            self._table.release(term)
            log.info("lease released", term=term)
        except SQLAlchemyError as error:
            self._unreachable(error)

    @property
    def leader(self) -> Leader | None:
        term = self._term
        if term is None:
            return self._leader
        return Leader(name=self._table.owner, term=term, mine=self._seconds() < self._ends)

    def fence(self, connection: Connection) -> None:
        """Raise WriterLostError unless our term is in force; it then is until *connection*'s transaction ends."""
        term = self._term
        if term is None or not is_in_force(connection, self._table.owner, term):
            raise WriterLostError("this replica no longer leads: the rest of its last step is not stored")

    def start(self) -> None:
        """Renew the lease from now on, whenever we lead."""
        self._thread.start()

    def close(self) -> None:
        """End the thread and close the connections; a lease that was not released expires."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._table.close()

    def _keep_alive(self) -> None:
        while not self._stopping.wait(self._table.lasts.total_seconds() / RENEWALS):
            self.held()

    def _renew(self, term: int) -> bool:
        began = self._seconds()
        try:
            renewed = self._table.renew(term)
        except SQLAlchemyError as error:
            return self._unreachable(error)
        with self._guard:
            if self._term != term:
                return False
            if renewed:
                self._trouble = ""
                self._lasts_from(began)
                return True
            self._term = None
        log.error("lease lost", term=term, detail="another replica leads now; this one stops stepping")
        return False

    def _lasts_from(self, began: float) -> None:
        self._ends = max(self._ends, began + self._table.lasts.total_seconds())

    def _may_not_lead(self) -> bool:
        """True in an orphaned worker, beside which the next gunicorn may have started its own, and in a fork of us."""
        return os.getppid() != self._parent or os.getpid() != self._process

    def _unreachable(self, error: SQLAlchemyError) -> bool:
        if self._trouble != type(error).__name__:
            self._trouble = type(error).__name__
            log.warning("lease out of reach", error=self._trouble, detail="the database does not answer in time")
        return False


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
