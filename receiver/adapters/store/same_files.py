"""Whether a SQLite database still is in the files in which this process began to write.

Who puts a copy in the place of a database that is in use changes nothing for who has it open: that one goes on in files
that have no name any more, and answers for what the next start will not find.
"""

import sqlite3

from sqlalchemy import URL

from receiver.adapters.store.urls import beside, database_file
from receiver.ports import TryLater


class SameFiles:
    """The database and the log beside it. Safe to use from several threads."""

    def __init__(self, url: URL) -> None:
        self._files = (database_file(url), beside(url, "-wal"))
        self._first: tuple[tuple[int, int], ...] | None = None
        self._anchor: sqlite3.Connection | None = None  # SQLite deletes the log when the last connection is closed

    def look(self) -> None:
        """Raise TryLater unless the files are those of the first look. To be called by one thread at a time, within a
        transaction that writes: both are there then, and stay until `forget`. Raises what the driver raises, too."""
        if self._anchor is None:
            self._anchor = sqlite3.connect(self._files[0], check_same_thread=False)
            self._anchor.execute("PRAGMA schema_version").fetchone()  # opens the log
        try:
            found = tuple((told.st_dev, told.st_ino) for told in (file.stat() for file in self._files))
        except OSError:
            found = ()
        if self._first is None:
            self._first = found or None
        elif found != self._first:
            raise TryLater(
                "store: the database file, or the -wal beside it, was replaced or removed while this process used it;"
                " stop the process, put the file in place, start it again",
                code="store",
            )

    def forget(self) -> None:
        """Begin anew: nobody of this process has the database open."""
        self._first = None
        if self._anchor is not None:
            self._anchor.close()
            self._anchor = None
