"""The stores of worlds: in memory, and for every fifth seed a real one, emptied between worlds.

Both stand for what outlives the process. A crash at a call, or a refusal, is on the same side of its commit in both.
"""

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import structlog
from sqlalchemy import Connection, event

from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.schema import metadata
from simulator.store import MemoryStore
from tests.adapters.store.builders import migrated

IN_MEMORY = Path("/dev/shm")
ON_SQLITE = 5  # every so many seeds
WorldStore = SqlStore | MemoryStore
S = TypeVar("S", SqlStore, MemoryStore, WorldStore)


class StoreWithoutRecords(MemoryStore):
    """The store of a life without chores: its steps decide and act, and leave nothing for people to read. A test that
    asks it for any of that fails, rather than finding that nothing was told."""

    def _nothing(self, *_args: object, **_named: object) -> NoReturn:
        raise AssertionError("a life without chores keeps no notices, pages, samples or usage: see the mark `chores`")

    notices_due = snapshot = samples = spoken = grounds = in_use = accounted = unit_counts = _nothing


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


@contextmanager
def store_of(seed: int) -> Iterator[WorldStore]:
    """A new store of the kind on which the world of *seed* is played."""
    if seed % ON_SQLITE:
        yield MemoryStore()
        return
    with a_store() as store:
        yield store


def choose(seed: int, real: SqlStore) -> WorldStore:
    """The store on which the world of *seed* is played: *real*, or a new one in memory."""
    return MemoryStore() if seed % ON_SQLITE else real


def empty(store: WorldStore) -> None:
    """Forget everything, row numbers too: opening a new one takes as long as several steps."""
    if isinstance(store, MemoryStore):
        store.forget()
        return
    with store._database.write() as connection:
        file = connection.connection.dbapi_connection
        assert file is not None
        for statement in EMPTYING:  # SQLAlchemy takes four times as long
            file.execute(statement)


def rebuilt(store: S) -> S:
    """The store as a new process opens it: it holds the same, and knows nothing else from before."""
    return store.reopened() if isinstance(store, MemoryStore) else type(store)(store._database)


EMPTYING = (*(f"DELETE FROM {t.name}" for t in reversed(metadata.sorted_tables)), "DELETE FROM sqlite_sequence")
ILLNESSES = {"full": "PRAGMA max_page_count = 1", "read_only": "PRAGMA query_only = ON", "lost": ""}
HEALTH = ("PRAGMA max_page_count = 1073741823", "PRAGMA query_only = OFF")


@contextmanager
def ill(store: WorldStore, how: str) -> Iterator[None]:
    """Let SQLite itself refuse meanwhile: its disk is *full*, its file *read_only*, or a connection is *lost*. The
    store in memory refuses what it has to write, and with a lost connection all that it is asked."""
    if isinstance(store, MemoryStore):
        store.illness = how
        try:
            yield
        finally:
            store.illness = None
        return
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
