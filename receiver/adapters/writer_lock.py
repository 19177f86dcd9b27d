"""The right to be the one loop that writes, held for as long as this process lives."""

import contextlib
import fcntl
import os
from pathlib import Path
from threading import Lock
from typing import Protocol

import structlog
from sqlalchemy import URL, Connection, Engine, create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from receiver.adapters.store.database import postgres_arguments
from receiver.adapters.store.urls import beside, is_sqlite, parse
from receiver.ports import TryLater, WontWork

log = structlog.get_logger("receiver")

LOCK_KEY = 0x6770755F6C6F6F70  # "gpu_loop": PostgreSQL's advisory locks are named by a number


class _Hold(Protocol):
    """Where the lock is."""

    def take(self) -> bool:
        """Take the lock without waiting; False when another process has it. TryLater, WontWork if that is unknown."""

    def keeps(self) -> bool:
        """True while the lock that was taken is still the one that counts."""

    def let_go(self) -> None:
        """Release the lock; safe to call twice."""


class WriterLock:
    """The lock of one store's loop. Safe to use from several threads.

    SQLite: an exclusive `flock` on ``<db file>.loop.lock``, which the kernel drops when the process dies,
    however it dies. PostgreSQL: a session's advisory lock on a connection of its own, which the server drops
    when the connection ends.
    """

    def __init__(self, url: str) -> None:
        """Name the lock of the store at *url*; WontWork for a URL that `open_store` would refuse too."""
        parsed = parse(url)
        self._hold: _Hold = _FileHold(beside(parsed, ".loop.lock")) if is_sqlite(parsed) else _SessionHold(parsed)
        self._parent = os.getppid()
        self._owner: int | None = None  # the process that took it: a fork inherits the file, not the right
        self._trouble = ""  # what was logged last
        self._guard = Lock()

    def try_acquire(self) -> bool:
        """Take the right if nobody has it; True when it is ours.

        False, too, when the lock cannot be asked for: the loop waits then, and the log says why, once.
        """
        with self._guard:
            if self._orphaned():
                return False
            if self._owner == os.getpid() and self._hold.keeps():
                return True
            self._hold.let_go()
            self._owner = os.getpid() if self._taken() else None
            return self._owner is not None

    def held(self) -> bool:
        """True while the right is ours and the process that started us lives.

        Asked before each write to the outside. An orphaned worker must stop: the next gunicorn may have
        started its own.
        """
        with self._guard:
            return self._owner == os.getpid() and not self._orphaned() and self._hold.keeps()

    def release(self) -> None:
        """Give the right up."""
        with self._guard:
            if self._owner == os.getpid():
                self._hold.let_go()
            self._owner = None

    def _taken(self) -> bool:
        try:
            taken = self._hold.take()
        except (TryLater, WontWork) as error:
            if str(error) != self._trouble:
                log.warning("writer lock out of reach", error=str(error))
            self._trouble = str(error)
            return False
        self._trouble = ""
        return taken

    def _orphaned(self) -> bool:
        return os.getppid() != self._parent


class _FileHold:
    """`flock` on a file that is never removed: removing it would let two processes lock two files of one name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def take(self) -> bool:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)  # Python keeps it from children
        except OSError as error:
            raise WontWork(f"cannot open {self._path}: {error.strerror}", code="store") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if isinstance(error, BlockingIOError):
                return False
            raise WontWork(f"cannot lock {self._path}: {error.strerror}", code="store") from error
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())  # for a person who asks who holds it
        self._file = file
        return True

    def keeps(self) -> bool:
        if self._file is None:
            return False
        try:
            there = self._path.stat()
        except OSError:
            return False
        here = os.fstat(self._file)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def let_go(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _SessionHold:
    """An advisory lock of a PostgreSQL session."""

    def __init__(self, url: URL) -> None:
        self._engine: Engine = create_engine(
            url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=postgres_arguments(url)
        )
        self._connection: Connection | None = None

    def take(self) -> bool:
        try:
            connection = self._engine.connect()
            taken = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": LOCK_KEY}).scalar()
        except SQLAlchemyError as error:
            raise TryLater(
                f"store: the writer lock cannot be asked for ({type(error).__name__})", code="store"
            ) from None
        if not taken:
            connection.close()
            return False
        self._connection = connection
        return True

    def keeps(self) -> bool:
        if self._connection is None:
            return False
        try:  # the lock lives as long as the session, so an answer on this connection is the proof
            self._connection.execute(text("SELECT 1"))
        except SQLAlchemyError:
            self.let_go()
            return False
        return True

    def let_go(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(SQLAlchemyError):
                self._connection.close()  # without a pool this ends the session, and that is what unlocks
            self._connection = None
