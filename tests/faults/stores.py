"""A real store per process, in memory where the system has a folder there, emptied between worlds."""

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, event

from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.schema import metadata
from tests.adapters.store.builders import migrated

IN_MEMORY = Path("/dev/shm")


@contextmanager
def a_store() -> Iterator[SqlStore]:
    """A new store, gone afterwards."""
    folder = tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None, prefix="faults-")
    store = open_store(migrated(Path(folder) / "ledger.db"))
    try:
        yield store
    finally:
        store.close()
        shutil.rmtree(folder, ignore_errors=True)


def empty(store: SqlStore) -> None:
    """Forget everything, row numbers too: opening a new one takes as long as several steps."""
    with store._database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
        connection.exec_driver_sql("DELETE FROM sqlite_sequence")


def rebuilt(store: SqlStore) -> SqlStore:
    """The store as a new process opens it: on the same database, knowing nothing from before."""
    return SqlStore(store._database)


ILLNESSES = {"full": "PRAGMA max_page_count = 1", "read_only": "PRAGMA query_only = ON", "lost": ""}
HEALTH = ("PRAGMA max_page_count = 1073741823", "PRAGMA query_only = OFF")


@contextmanager
def ill(store: SqlStore, how: str) -> Iterator[None]:
    """Let SQLite itself refuse meanwhile: its disk is *full*, its file *read_only*, or a connection is *lost*."""
    engine = store._database.engine

    def on_begin(connection: Connection) -> None:
        if how == "lost":
            connection.connection.dbapi_connection.close()  # type: ignore[union-attr] # it is connected, or none began
        else:
            connection.exec_driver_sql(ILLNESSES[how])

    event.listen(engine, "begin", on_begin)
    try:
        yield
    finally:
        event.remove(engine, "begin", on_begin)
        with engine.connect() as connection:
            for pragma in HEALTH:
                connection.exec_driver_sql(pragma)


@contextmanager
def silent_log(errors: list[str]) -> Iterator[None]:
    """Keep the product's log quiet but for errors, which go to *errors*."""

    def keep(_logger: Any, _name: str, event: Any) -> Any:
        errors.append(f"{event.get('event')}: {event.get('exception', '')}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.processors.format_exc_info, keep],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
    )
    try:
        yield
    finally:
        structlog.configure(**before)
