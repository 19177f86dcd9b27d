"""Leader election among processes that share a SQLite file: a file lock, held for as long as this process lives.

On PostgreSQL it is a lease (`receiver.adapters.leader.lease`).
"""

import fcntl
import os
from contextlib import suppress
from threading import Lock

import structlog

from receiver.adapters.store.database import beside, parse
from receiver.ports import Leader

log = structlog.get_logger("receiver")


class WriterLock:
    """An exclusive `flock` on ``<db file>.loop.lock``, which the kernel releases when the process dies. Safe to use
    from several threads.

    The file is never removed: that would let two processes lock two files of one name.
    """

    def __init__(self, url: str) -> None:
        """Prepare the lock of the SQLite store at *url*; WontWork for a URL that `open_store` would refuse too."""
        self._path = beside(parse(url), ".loop.lock")
        self._file: int | None = None
        self._parent = os.getppid()
        self._owner: int | None = None  # the process that took the lock: a fork inherits the file, not the lock
        self._trouble = ""  # what was logged last
        self._guard = Lock()

    def try_acquire(self) -> bool:
        """Take the lock if it is free; True while this process has it.

        Also False when the lock file cannot be opened or locked: the loop waits, and the reason is logged once.
        """
        with self._guard:
            if self._orphaned():
                return False
            if self._is_ours():
                return True
            self._drop()
            self._owner = os.getpid() if self._take() else None
            return self._owner is not None

    def held(self) -> bool:
        """True while the lock is ours and the process that started us lives.

        Called before each write to the outside. An orphaned worker must stop: the next gunicorn may have
        started its own.
        """
        with self._guard:
            return not self._orphaned() and self._is_ours()

    def release(self) -> None:
        """Release the lock."""
        with self._guard:
            if self._owner == os.getpid():
                self._drop()
            self._owner = None

    @property
    def leader(self) -> Leader | None:
        """The process that has the lock, by its number; None while that is unknown."""
        mine = self._owner == os.getpid()
        process = str(self._owner) if mine else self._last_owner()
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
            there = self._path.stat()
        except OSError:
            return False
        here = os.fstat(self._file)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def _drop(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _last_owner(self) -> str:
        try:
            return self._path.read_text(encoding="ascii", errors="replace").strip()[:20]
        except OSError:
            return ""

    def _orphaned(self) -> bool:
        return os.getppid() != self._parent
