"""The store as the doctor reads it, beside a server that writes there.

Promises to take no lock that a writer waits for, to write nothing, and to keep the password out of every message.
"""

import os
import shutil
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import URL, Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from receiver.adapters.http.sessions import ClockReading
from receiver.adapters.store.database import Database, database_file
from receiver.adapters.store.migrate import missing, names_in, newest
from receiver.ports import Clock, TryLater

PASSING = frozenset({"overlay", "tmpfs", "ramfs"})  # a container's own layer, or memory
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs"})
MOUNTS = Path("/proc/self/mounts")
WAITS_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What revision a database has (None: it has no tables yet), the newest that we know, and the oldest revision whose
    release the database's own says can live with it. *missing* names what the newest has and the database lacks."""

    revision: str | None
    newest: str
    oldest: str | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabasePlace:
    """Where a SQLite file is: whether file and folder are there and may be written to, bytes free there, the kind of
    file system."""

    file: Path
    exists: bool
    folder: bool
    writable: bool
    free: int
    kind: str

    @property
    def remote(self) -> bool:
        """True for a file system over a network: SQLite's locks and shared memory do not work there."""
        return self.kind in NETWORK

    @property
    def passing(self) -> bool:
        """True for what ends with the container, or with the machine's next start."""
        return self.kind in PASSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A PostgreSQL server: its version, whether it takes writes, and its time beside ours."""

    version: str
    takes_writes: bool
    told: ClockReading


def place(url: URL) -> DatabasePlace:
    """Return where the file of *url* is; nothing is opened."""
    file = database_file(url)
    folder = file.parent
    there = folder.is_dir()
    touched = [path for path in (file, Path(f"{file}-wal"), folder) if path.exists()]
    return DatabasePlace(
        file=file,
        exists=file.is_file(),
        folder=there,
        writable=there and all(os.access(path, os.W_OK) for path in touched),
        free=shutil.disk_usage(folder).free if there else 0,
        kind=file_system(folder) if there else "",
    )


def file_system(folder: Path) -> str:
    """Return the kind of file system that *folder* is on, empty where nobody tells (no Linux)."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found = [(fields[1].replace("\\040", " "), fields[2]) for line in lines if len(fields := line.split()) > 2]
    over = [(point, kind) for point, kind in found if folder == Path(point) or Path(point) in folder.parents]
    return max(over, key=lambda each: len(each[0]), default=("", ""))[1]


def sqlite_schema(file: Path) -> Schema:
    """Return the schema of the database in *file*, read by a connection that cannot write. Raises TryLater."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=WAITS_SECONDS)

    try:
        with create_engine("sqlite://", creator=connect, poolclass=NullPool).connect() as connection:
            return _schema(connection)
    except DBAPIError as error:
        raise TryLater(f"{file}: {error.orig}", code="store") from None


def postgres(url: URL, clock: Clock) -> tuple[Postgres, Schema]:
    """Return what the server of *url* and its database are. Raises TryLater without the password."""
    database = Database(url)
    try:
        with database.read() as connection:
            began = clock.now()
            now: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
            here = clock.now()
            version = str(connection.execute(text("SHOW server_version")).scalar_one())
            standby = bool(connection.execute(text("SELECT pg_is_in_recovery()")).scalar_one())
            closed = str(connection.execute(text("SHOW default_transaction_read_only")).scalar_one()) == "on"
            schema = _schema(connection)
    finally:
        database.close()
    told = ClockReading(there=now.astimezone(UTC), here=here, took=here - began)
    server = Postgres(version=version, takes_writes=not standby and not closed, told=told)
    return server, schema


def _schema(connection: Connection) -> Schema:
    tables = names_in(connection)
    revision = oldest = None
    if "alembic_version" in tables:
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if "compatibility" in tables:
        oldest = connection.execute(text("SELECT oldest FROM compatibility WHERE id = 1")).scalar()
    return Schema(revision=revision, newest=newest(), oldest=oldest, missing=tuple(missing(tables)))
