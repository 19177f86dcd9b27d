"""The right to be the one loop that writes to a SQLite file, held for as long as this process lives.

On PostgreSQL it is a lease (`receiver.adapters.leader.lease`).
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

import structlog

from receiver.adapters.store.database import beside, parse
from receiver.ports import Leader, WontWork

log = structlog.get_logger("receiver")


class WriterLock:
    """The lock of one store's loop: an exclusive `flock` on ``<db file>.loop.lock``, which the kernel drops when the
    process dies, however it dies. Safe to use from several threads.
    """

    def __init__(self, url: str) -> None:
        """Name the lock of the SQLite store at *url*; WontWork for a URL that `open_store` would refuse too."""
        self._hold = _FileHold(beside(parse(url), ".loop.lock"))
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
            if self._owner == os.getpid() and self._hold.is_held():
                return True
            self._hold.drop()
            self._owner = os.getpid() if self._taken() else None
            return self._owner is not None

    def held(self) -> bool:
        """True while the right is ours and the process that started us lives.

        Asked before each write to the outside. An orphaned worker must stop: the next gunicorn may have
        started its own.
        """
        with self._guard:
            return self._owner == os.getpid() and not self._orphaned() and self._hold.is_held()

    def release(self) -> None:
        """Give the right up."""
        with self._guard:
            if self._owner == os.getpid():
                self._hold.drop()
            self._owner = None

    @property
    def leader(self) -> Leader | None:
        """Who has the lock, by the number of its process; None while that is not known."""
        mine = self._owner == os.getpid()
        process = str(self._owner) if mine else self._hold.holder()
        return Leader(name=f"process {process}", mine=mine) if process else None

    def _taken(self) -> bool:
        try:
            taken = self._hold.take()
        except WontWork as error:
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
        self._file = file  # before anything can fail: a file that nobody closes would keep the lock from us, too
        with suppress(OSError):  # a full disk
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}\n".encode())  # for a person who asks who holds it
        return True

    def holder(self) -> str:
        """What the last process that took the lock wrote into it."""
        try:
            return self._path.read_text(encoding="ascii", errors="replace").strip()[:20]
        except OSError:
            return ""

    def is_held(self) -> bool:
        if self._file is None:
            return False
        try:
            there = self._path.stat()
        except OSError:
            return False
        here = os.fstat(self._file)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def drop(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
