"""Migrations: bring the schema to what this version expects, one process at a time."""

import fcntl
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import structlog
from sqlalchemy import Connection, inspect, text

from receiver.adapters.store.database import VARIABLE, Database, beside, is_in_memory, is_sqlite, more_patient
from receiver.adapters.store.schema import metadata
from receiver.ports import WontWork

log = structlog.get_logger("receiver")

SCRIPTS = Path(__file__).parent.parent / "migrations"
LONGEST_STATEMENT_SECONDS = 600.0  # of a migration, or of waiting for another process's
# Within its transaction a migration loads alembic, which takes seconds where the processor's share is small.
PATIENT = {"lock_timeout": 0, "statement_timeout": 0, "idle_in_transaction_session_timeout": 600_000}  # milliseconds
NAMED = 5  # names listed in an error
REMEDY = (
    "restore an intact backup, or start with an empty database, which then asks Civo what the month has cost"
    " (docs/operations.md, Restore)"
)
LOCK_KEY = 0x6770755F6D6967  # "gpu_mig": PostgreSQL's advisory locks are named by a number


def upgrade(database: Database) -> None:
    """Run the missing migrations in one transaction. A schema that a newer version has migrated further stays as it is,
    if that version declared it compatible: both run during a rolling upgrade. Raises WontWork otherwise, and for a
    database that lacks what its revision includes."""
    with _alone(database), database.preparing() as connection:
        if not _is_current(connection):
            with more_patient(connection, LONGEST_STATEMENT_SECONDS):
                if connection.dialect.name == "postgresql":  # other processes may be migrating
                    for setting, limit in PATIENT.items():
                        connection.execute(text(f"SET LOCAL {setting} = {limit}"))
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
                if not _is_current(connection):
                    _migrate(connection)
        if absent := missing(names_in(connection)):
            revision = ", ".join(connection.execute(text("SELECT version_num FROM alembic_version")).scalars())
            raise WontWork(
                f"the database that {VARIABLE} names has schema revision {revision} but lacks {_few(absent)}; {REMEDY}",
                code="store",
            )


def missing(present: Mapping[str, Collection[str]]) -> list[str]:
    """Return the names of this version's tables, columns and unique indexes that are not *present*, names of
    columns and indexes by table; additional ones there belong to a newer version."""
    absent: list[str] = []
    for table in metadata.sorted_tables:
        if table.name not in present:
            absent.append(f"table {table.name}")
        else:
            absent += [f"column {c}" for c in table.columns if c.name not in present[table.name]]
            absent += [f"index {i.name}" for i in table.indexes if i.unique and i.name not in present[table.name]]
    return absent


def _few(names: list[str]) -> str:
    others = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {others} more" if others > 0 else "")


def names_in(connection: Connection) -> dict[str, set[str]]:
    """Return the names of the columns and indexes of every table."""
    inspector = inspect(connection)
    indexes = inspector.get_multi_indexes()
    return {
        key[1]: {column["name"] for column in columns} | {str(index["name"]) for index in indexes.get(key, ())}
        for key, columns in inspector.get_multi_columns().items()
    }


def _is_current(connection: Connection) -> bool:
    """True when the newest migration was the last one to run. Nearly every start finds this and need not load Alembic,
    which would stay in memory (9 MB)."""
    if not inspect(connection).has_table("alembic_version"):
        return False
    return list(connection.execute(text("SELECT version_num FROM alembic_version")).scalars()) == [newest()]


def newest() -> str:
    """Return the newest revision that this version knows."""
    return max(file.name.partition("_")[0] for file in (SCRIPTS / "versions").glob("[0-9]*_*.py"))


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    revisions = {script.revision for script in scripts.walk_revisions()}
    present = set(MigrationContext.configure(connection).get_current_heads())
    if strange := present - revisions:
        # The newer version may have declared its schema compatible with our latest revision.
        declared = inspect(connection).has_table("compatibility")
        query = text("SELECT oldest FROM compatibility WHERE id = 1")
        oldest = connection.execute(query).scalar() if declared else None
        if oldest is not None and str(oldest) <= newest():
            log.warning("a newer version has migrated the database", schema=sorted(strange))
            return
        raise WontWork(
            f"the database that {VARIABLE} names was written by a newer version (schema {', '.join(strange)});"
            " run that version, or restore a backup from before it",
            code="store",
        )
    if not present and (ours := sorted(metadata.tables.keys() & names_in(connection))):
        raise WontWork(
            f"the database that {VARIABLE} names has our tables but no schema revision ({_few(ours)}); {REMEDY}",
            code="store",
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@contextmanager
def _alone(database: Database) -> Iterator[None]:
    """Hold a file lock beside a SQLite database, whose own lock does not cover creating it and switching to WAL."""
    if not is_sqlite(database.url) or is_in_memory(database.url):
        yield
        return
    with beside(database.url, ".migrate.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed or the process dies
        yield
