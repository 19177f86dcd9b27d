"""Connections and transactions: durable commits, writes one at a time, and errors as TryLater."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from functools import cache
from typing import Any

from sqlalchemy import URL, Connection, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError

from receiver.adapters.store.engines import SameFiles, connect, is_in_memory, is_sqlite
from receiver.adapters.store.prepared import Write
from receiver.core.model.memory import Memory
from receiver.ports import TryLater

AT_ONCE = 500  # numbers in one IN (...): every engine takes that many
LOCK_WAIT_SECONDS = 5.0  # below Alertmanager's ten seconds for an answer
ANSWER_SECONDS = 12.0  # more than the server's own limit for a statement

Fence = Callable[[Connection], None]  # raises what ends a transaction that must not be


class ValuesRefusedError(TryLater):
    """The database works but does not take these values."""


class WriteTurn:
    """One thread at a time; TryLater for who waited *longest* seconds in vain."""

    def __init__(self, longest: float) -> None:
        self._lock = threading.Lock()
        self._longest = longest

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self._longest):
            raise TryLater("store: database is locked", code="store")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Gate:
    """Whether the schema is what this version expects; until it is, nothing may be read or written."""

    def __init__(self) -> None:
        self._closed = ""

    def close(self, because: str) -> None:
        """Let nobody through, *because* of this."""
        self._closed = because

    def open(self) -> None:
        """Let everybody through."""
        self._closed = ""

    def go_through(self) -> None:
        """Raise TryLater while it is closed."""
        if self._closed:
            raise TryLater(f"store: {self._closed}", code="store")


class Database:
    """An engine whose transactions raise TryLater when the database fails; safe to use from many threads."""

    def __init__(
        self, url: URL, *, lock_wait: float = LOCK_WAIT_SECONDS, answers_within: float = ANSWER_SECONDS
    ) -> None:
        """Prepare to connect to *url*; a lock held by another process is waited for *lock_wait* seconds, and a server
        that does not answer *answers_within* seconds."""
        self.url = url
        self.gate = Gate()
        self._fence: Fence | None = None
        self._files = SameFiles(url) if is_sqlite(url) and not is_in_memory(url) else None
        # SQLite's writers of this process queue here: its own lock is waited for by asking again after longer sleeps.
        self._writer: AbstractContextManager[object] = WriteTurn(lock_wait) if is_sqlite(url) else nullcontext()
        self.engine = connect(url, lock_wait, answers_within)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view of the store."""
        self.gate.go_through()
        with self._errors(), self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            connection.begin()  # what is prepared does not; rolled back when the connection is given back
            with self._watched(connection):
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction, on disk when this ends without an exception; rolled back otherwise."""
        self.gate.go_through()
        with self.preparing() as connection:
            yield connection

    @contextmanager
    def preparing(self) -> Iterator[Connection]:
        """The same, and open before the gate is: for what makes the schema what it must be."""
        with self._errors(), self._writer, self.engine.connect() as connection:
            connection = connection.execution_options(gpu_autoscaler_write=True)
            with connection.begin():
                if self._files is not None:
                    self._files.look()
                if self._fence is not None:
                    self._fence(connection)
                with self._watched(connection):
                    yield connection

    def fenced(self, fence: Fence) -> "Database":
        """Return the same database, over the same connections, each of whose writes begins with *fence*."""
        other = copy(self)
        other._fence = fence
        return other

    def close(self) -> None:
        """Close every connection that is not in use."""
        self.engine.dispose()
        if self._files is not None:
            self._files.forget()

    @contextmanager
    def _watched(self, connection: Connection) -> Iterator[None]:
        """Give up *connection* when it breaks under what is prepared, as SQLAlchemy does under what it runs itself."""
        dialect = self.engine.dialect
        try:
            yield
        except dialect.loaded_dbapi.Error as error:
            raw: Any = connection.connection.dbapi_connection
            if dialect.is_disconnect(error, raw, None):
                connection.invalidate(error)
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        driver = self.engine.dialect.loaded_dbapi  # what is prepared is not wrapped by SQLAlchemy
        try:
            yield
        except (driver.DataError, driver.IntegrityError) as error:
            raise ValuesRefusedError(self._sentence(error), code="store") from None
        except driver.Error as error:
            raise TryLater(self._sentence(error), code="store") from None
        except (DataError, IntegrityError) as error:
            raise ValuesRefusedError(self._sentence(error.orig or error), code="store") from None
        except DBAPIError as error:
            raise TryLater(self._sentence(error.orig or error), code="store") from None
        except StatementError as error:
            if isinstance(error.orig, ValueError | TypeError):
                raise error.orig from None  # a value that the columns refuse: a bug of the caller, not an outage
            raise
        except SQLAlchemyError as error:
            raise TryLater(self._sentence(error), code="store") from None

    def _sentence(self, error: BaseException) -> str:
        """One line for *error* without the password of the URL."""
        text = " ".join(str(error).split())
        password = self.url.password
        return f"store: {text.replace(str(password), '***') if password else text}"


class StorePart:
    """What the parts of `receiver.adapters.store.SqlStore` share. The Protocols of `receiver.ports.store` say what
    their calls mean."""

    _database: Database
    _last_read: Memory | None = None  # while it is what pools and lives hold

    @contextmanager
    def _write_memory(self) -> Iterator[Connection]:
        """Open a transaction that may change what `memory` last returned."""
        self._last_read = None
        with self._database.write() as connection:
            yield connection


def insert(connection: Connection, table: Table) -> Any:
    """An INSERT that can say ON CONFLICT, in the connection's dialect (both engines spell it the same)."""
    return insert_in(connection.dialect.name, table)


def put(connection: Connection, table: Table, values: Mapping[str, Any], **only_new: Any) -> None:
    """Insert a row, or update the one with its primary key, with *values*; a new one has *only_new* as well."""
    upsert(table, tuple(values), tuple(only_new)).run(connection, [{**only_new, **values}])


def put_all(connection: Connection, table: Table, values: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns, or update those with their primary keys."""
    upsert(table, tuple(values[0])).run(connection, values)


def insert_in(dialect: str, table: Table) -> Any:
    """The same INSERT, in the dialect of that name."""
    build: type[Insert] = postgresql.Insert if dialect == "postgresql" else sqlite.Insert
    return build(table)


@cache  # building a statement takes longer than running it
def upsert(table: Table, columns: tuple[str, ...], only_new: tuple[str, ...] = ()) -> Write:
    """An INSERT of *columns* that updates those in the row with the same primary key; a new one gets *only_new* too."""
    keys = [column.name for column in table.primary_key]

    def build(dialect: str) -> Any:
        statement = insert_in(dialect, table)
        changes = {name: statement.excluded[name] for name in columns if name not in keys}
        return statement.on_conflict_do_update(index_elements=keys, set_=changes)

    return Write(build, (*only_new, *(name for name in columns if name not in only_new)))
