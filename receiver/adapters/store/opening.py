"""Making a store: from its URL, on disk or in a server, or in memory."""

import os

from sqlalchemy import make_url

from receiver.adapters.store import schema
from receiver.adapters.store.database import LOCK_WAIT_SECONDS, Database
from receiver.adapters.store.engines import EXAMPLES, VARIABLE, database_file, is_sqlite, parse
from receiver.adapters.store.sql_store import SqlStore
from receiver.ports import WontWork


def open_store(url: str, *, lock_wait: float = LOCK_WAIT_SECONDS) -> SqlStore:
    """Open the store at *url*, bring its schema up to date and return it.

    WontWork when a person must act (the URL, the path's permissions, a newer schema, a missing driver);
    TryLater when the database does not answer now. A lock of another process is waited for *lock_wait* seconds.
    """
    store = store_at(url, lock_wait=lock_wait)
    try:
        store.open()
    except BaseException:
        store.close()
        raise
    return store


def store_at(url: str, *, lock_wait: float = LOCK_WAIT_SECONDS) -> SqlStore:
    """Return the store at *url*, every call of which raises TryLater until `SqlStore.open` has succeeded.

    Nobody is asked for anything yet. WontWork when *url* cannot be used as it is written, or not by this process.
    """
    parsed = parse(url)
    if is_sqlite(parsed):
        _writable_folder(parsed.database or "")
        parsed = parsed.set(database=str(database_file(parsed)))
    try:
        database = Database(parsed, lock_wait=lock_wait)
    except ModuleNotFoundError as error:
        raise WontWork(
            f"{VARIABLE} names PostgreSQL, whose driver is missing: install civo-gpu-autoscaler[postgres]", code="store"
        ) from error
    _check_options(database)
    database.gate.close("the database was not reached yet")
    return SqlStore(database)


def open_in_memory() -> SqlStore:
    """Return an empty store that is gone when it is closed: for simulations, which have nothing to survive."""
    database = Database(make_url("sqlite://"))
    schema.metadata.create_all(database.engine)
    return SqlStore(database)


def _writable_folder(path: str) -> None:
    """Create the folder of *path* and make sure that a database can be written there."""
    file = database_file(parse(f"sqlite:///{path}"))
    remedy = f"let {VARIABLE} name a file in a folder that this process may write to (a mounted volume in Kubernetes)"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WontWork(f"cannot create {file.parent}: {error.strerror}; {remedy}", code="store") from error
    if file.is_dir():
        raise WontWork(f"{file} is a folder; {remedy}", code="store")
    if not os.access(file if file.exists() else file.parent, os.W_OK) or not os.access(file.parent, os.W_OK):
        raise WontWork(f"cannot write to {file}; {remedy}", code="store")


def _check_options(database: Database) -> None:
    """Raise WontWork for an option after the ``?`` that PostgreSQL's client does not know: it would never connect."""
    if is_sqlite(database.url):
        return
    from psycopg import ProgrammingError  # an extra: it need not be installed
    from psycopg.conninfo import make_conninfo

    for name in database.url.query:
        try:
            make_conninfo("", **{name: ""})
        except ProgrammingError:
            raise WontWork(f"{VARIABLE} has the unknown option {name!r}; write {EXAMPLES}", code="store") from None
