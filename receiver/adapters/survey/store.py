"""The store for the doctor, while a server writes to it.

It writes nothing, takes no lock that a writer waits for, and keeps the password out of messages.
"""

import os
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from receiver.adapters.store.database import Database, database_file
from receiver.adapters.store.migrate import missing, names_in, newest
from receiver.ports import TryLater

PASSING = frozenset({"overlay", "tmpfs", "ramfs"})  # a container's own layer, or memory: lost on restart
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs"})
MOUNTS = Path("/proc/self/mounts")
WAITS_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The revision of a database (None: no tables yet), the newest known one, and the oldest one whose release is
    compatible with the database. *missing* are tables and columns of the newest revision that the database lacks."""

    revision: str | None
    newest: str
    oldest: str | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabasePlace:
    """The place of a SQLite file: whether file and folder exist and are writable, free bytes, file system (empty:
    unknown)."""

    file: Path
    exists: bool
    folder: bool
    writable: bool
    free: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A PostgreSQL server: its version, whether it accepts writes, and the schema of the database."""

    version: str
    takes_writes: bool
    schema: Schema


def place(url: URL) -> DatabasePlace:
    """Return the place of the file of *url* without opening it."""
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
    """Return the kind of file system of *folder*, empty if unknown (not Linux)."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found = [(fields[1].replace("\\040", " "), fields[2]) for line in lines if len(fields := line.split()) > 2]
    over = [(point, kind) for point, kind in found if folder == Path(point) or Path(point) in folder.parents]
    return max(over, key=lambda each: len(each[0]), default=("", ""))[1]


def sqlite_schema(file: Path) -> Schema:
    """Return the schema of the database in *file*, over a read-only connection. Raises TryLater."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=WAITS_SECONDS)

    try:
        with create_engine("sqlite://", creator=connect, poolclass=NullPool).connect() as connection:
            return _schema(connection)
    except DBAPIError as error:
        raise TryLater(f"{file}: {error.orig}", code="store") from None


def postgres(url: URL) -> Postgres:
    """Return the server of *url*. Raises TryLater without the password."""
    database = Database(url)
    try:
        with database.read() as connection:
            standby = bool(connection.execute(text("SELECT pg_is_in_recovery()")).scalar_one())
            closed = str(connection.execute(text("SHOW default_transaction_read_only")).scalar_one()) == "on"
            return Postgres(
                version=str(connection.execute(text("SHOW server_version")).scalar_one()),
                takes_writes=not standby and not closed,
                schema=_schema(connection),
            )
    finally:
        database.close()


def _schema(connection: Connection) -> Schema:
    tables = names_in(connection)
    revision = oldest = None
    if "alembic_version" in tables:
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if "compatibility" in tables:
        oldest = connection.execute(text("SELECT oldest FROM compatibility WHERE id = 1")).scalar()
    return Schema(revision=revision, newest=newest(), oldest=oldest, missing=tuple(missing(tables)))
