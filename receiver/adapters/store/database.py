"""Connections and transactions: engines, durable commits, one writer at a time, and errors as TryLater."""

import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Executable, QueuePool, RowMapping, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError, StatementError

from receiver.core.model.memory import Memory
from receiver.core.model.usage import Owner
from receiver.ports import TryLater, WontWork

VARIABLE = "GPU_AUTOSCALER_DATABASE_URL"
EXAMPLES = "sqlite:////var/lib/gpu-autoscaler/store.db or postgresql://user:password@host:5432/database"
POOL_SIZE, OVERFLOW = 12, 4  # the loop, the courier, deliveries and pages; more callers queue for a moment
# Reuse the connection that was returned last: used in turns, every one of them would fill its caches.
LAST_USED_FIRST: dict[str, Any] = {"pool_use_lifo": True}
POSTGRES: dict[str, str | int] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds until a dead connection is noticed while sending
    # A process that is stopped within a transaction holds its locks no longer than this, above all the lease's.
    "options": "-c statement_timeout=10000 -c lock_timeout=5000 -c idle_in_transaction_session_timeout=5000"
    # The server's side: only keepalives show that a client has vanished during a statement.
    " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
    " -c synchronous_commit=on",
}
# Those limits do not help while a connection stays open and nothing answers (a frozen server, a hanging pooler): libpq
# waits forever, so `limit_answers` adds a limit.
BEGIN = "BEGIN"  # how a transaction on SQLite begins; in a connection's info: how its next one does
LIMIT = "answers_within"  # the attribute of such a connection, in seconds


def parse(url: str) -> URL:
    """Return *url* with our driver. Raises WontWork, without the password, for a URL that cannot be used."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise WontWork(f"{VARIABLE} is not a database URL; write {EXAMPLES}", code="store") from error
    backend = parsed.drivername.partition("+")[0]
    if backend in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise WontWork(f"{VARIABLE} names {backend!r}, which is not supported; write {EXAMPLES}", code="store")
    if parsed.database in (None, "", ":memory:") or (parsed.database or "").startswith("file:") or parsed.host:
        raise WontWork(
            f"{VARIABLE} must name a file on disk, or nothing would survive a restart; write {EXAMPLES}"
            " (four slashes before an absolute path)",
            code="store",
        )
    return parsed.set(drivername="sqlite")


def is_sqlite(url: URL) -> bool:
    """True for SQLite, in a file or in memory."""
    return url.get_backend_name() == "sqlite"


def is_in_memory(url: URL) -> bool:
    """True for a SQLite database without a file; only `open_in_memory` makes one."""
    return is_sqlite(url) and not url.database


def database_file(url: URL) -> Path:
    """The absolute path of a SQLite database, with symbolic links resolved: two names of one file share its locks."""
    assert is_sqlite(url)
    assert url.database is not None
    return Path(url.database).resolve()


def beside(url: URL, suffix: str) -> Path:
    """The path of a lock file beside a SQLite database: ``<db file><suffix>``."""
    file = database_file(url)
    return file.with_name(file.name + suffix)


def connect(url: URL, lock_wait: float, answers_within: float) -> Engine:
    """Return the engine of *url*, which waits *lock_wait* seconds for a lock or a free connection, and
    *answers_within* seconds for a PostgreSQL server that does not answer."""
    if not is_sqlite(url):
        sizes = {"pool_size": POOL_SIZE, "max_overflow": OVERFLOW, "pool_timeout": lock_wait, **LAST_USED_FIRST}
        engine = create_engine(url, pool_pre_ping=True, connect_args=postgres_arguments(url), **sizes)
        limit_answers(engine, answers_within)
        return engine
    in_memory = is_in_memory(url)  # its only connection is the database; threads queue for it
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=1 if in_memory else POOL_SIZE,
        max_overflow=0 if in_memory else OVERFLOW,
        pool_timeout=lock_wait,
        connect_args={"timeout": lock_wait, "check_same_thread": False},
        **LAST_USED_FIRST,
    )
    _durable_sqlite(engine)
    return engine


def _durable_sqlite(engine: Engine) -> None:
    """WAL so that readers never wait, FULL so that a commit is on disk, BEGIN IMMEDIATE so that writers queue. A
    transaction that reads first and writes later can fail with "database is locked" without waiting, so writers take
    the lock at the start (https://www.sqlite.org/lang_transaction.html). The dialect sends BEGIN: a listener on the
    engine would cost every statement its time. Each connection caches at most 512 kB of pages, not 2 MB (34 MB for
    the whole pool): a commit on another connection empties the cache anyway."""

    @event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # `_begin` sends BEGIN
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-512"):
            connection.execute(f"PRAGMA {pragma}").close()

    def _begin(dbapi_connection: Any) -> None:
        dbapi_connection.execute(dbapi_connection.info.pop(BEGIN, BEGIN)).close()

    engine.dialect.do_begin = _begin  # type: ignore[method-assign]  # of this engine's own dialect


class SameFiles:
    """Detects that the files of a SQLite database, or the log beside it, were replaced while this process uses them. A
    process with an open database does not notice when a copy takes its place: it keeps writing to unlinked files and
    acknowledges what the next start will not find. Safe to use from several threads."""

    def __init__(self, url: URL) -> None:
        self._files = (database_file(url), beside(url, "-wal"))
        self._first: tuple[tuple[int, int], ...] | None = None
        self._anchor: sqlite3.Connection | None = None  # SQLite deletes the log when the last connection is closed

    def look(self) -> None:
        """Raise TryLater unless the files are those of the first look, or a driver's error. Call it from one thread at
        a time within a transaction that writes: both files exist then, until `forget`."""
        if self._anchor is None:
            self._anchor = sqlite3.connect(self._files[0], check_same_thread=False)
            self._anchor.execute("PRAGMA schema_version").fetchone()  # opens the log
        try:
            identities = tuple((stat.st_dev, stat.st_ino) for stat in (file.stat() for file in self._files))
        except OSError:
            identities = ()
        if self._first is None:
            self._first = identities or None
        elif identities != self._first:
            raise TryLater(
                "store: the database file, or the -wal beside it, was replaced or removed while this process used it;"
                " stop the process, put the file in place, start it again",
                code="store",
            )

    def forget(self) -> None:
        """Start over: this process has closed the database."""
        self._first = None
        if self._anchor is not None:
            self._anchor.close()
            self._anchor = None


def postgres_arguments(url: URL, changes: Mapping[str, str | int] | None = None) -> dict[str, str | int]:
    """Time limits for a connection to PostgreSQL, with *changes*; parameters of the URL win. The settings in
    ``options`` are joined, and the last one of each counts: a URL that sets a schema there keeps our limits."""
    changes = changes or {}
    limits = {name: value for name, value in {**POSTGRES, **changes}.items() if name not in url.query}
    url_options = url.query.get("options", ())
    ours = (str(options) for options in (POSTGRES["options"], changes.get("options")) if options)
    return {**limits, "options": " ".join([*ours, *([url_options] if isinstance(url_options, str) else url_options)])}


def limit_answers(engine: Engine, seconds: float) -> None:
    """Make statements on *engine* (PostgreSQL) fail, and close their connection, after *seconds* without an answer."""

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: object, _record: object, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        return _patient(seconds).connect(*arguments, **named)


@contextmanager
def more_patient(connection: Connection, seconds: float) -> Iterator[None]:
    """Wait *seconds* for each answer on *connection* where answers are limited, for statements that take longer."""
    driver: Any = connection.connection.driver_connection
    before = getattr(driver, LIMIT, None)
    if before is not None:
        setattr(driver, LIMIT, seconds)
    try:
        yield
    finally:
        if before is not None:
            setattr(driver, LIMIT, before)


@cache
def _patient(seconds: float) -> Any:
    """The driver's connection class with this limit; imported here because the driver is an optional extra."""
    import psycopg

    class Patient(psycopg.Connection[Any]):
        """A connection that gives up."""

        answers_within = seconds

        def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **named: Any) -> Any:
            """Wait as the driver does, at most *answers_within* seconds. Raises OperationalError."""
            return super().wait(_limited(gen, self.answers_within, self._give_up), *arguments, **named)

        def _give_up(self) -> Exception:
            self.pgconn.finish()
            return psycopg.OperationalError(f"no answer within {self.answers_within:g} s")

    return Patient


def _limited(
    steps: Generator[Any, Any, Any], seconds: float, give_up: Callable[[], Exception]
) -> Generator[Any, Any, Any]:
    """Run *steps*, which the driver resumes when data has arrived and ten times a second in any case."""
    until = monotonic() + seconds
    try:
        wants = next(steps)
        while True:
            ready = yield wants
            if not ready and monotonic() > until:
                steps.close()
                raise give_up()
            wants = steps.send(ready)
    except StopIteration as end:
        return end.value


LOCK_WAIT_SECONDS = 5.0  # below Alertmanager's ten seconds for an answer
ANSWER_SECONDS = 12.0  # more than the server's own limit for a statement

Fence = Callable[[Connection], None]  # raises to end a transaction that must not happen
Values = dict[str, Any]  # of a row, by column
T = TypeVar("T")


class Gate:
    """Refuses reads and writes until the schema is what this version expects."""

    def __init__(self) -> None:
        self._closed = ""

    def close(self, because: str) -> None:
        self._closed = because

    def open(self) -> None:
        self._closed = ""

    def go_through(self) -> None:
        """Raise TryLater while the gate is closed."""
        if self._closed:
            raise TryLater(f"store: {self._closed}", code="store")


class Database:
    """An engine whose transactions raise TryLater when the database fails; safe to use from many threads."""

    def __init__(
        self, url: URL, *, lock_wait: float = LOCK_WAIT_SECONDS, answers_within: float = ANSWER_SECONDS
    ) -> None:
        """Prepare to `connect` to *url*."""
        self.url = url
        self.gate = Gate()
        self._fence: Fence | None = None
        self._files = SameFiles(url) if is_sqlite(url) and not is_in_memory(url) else None
        self._writer = threading.Lock() if is_sqlite(url) else None
        self._lock_wait = lock_wait
        self.engine = connect(url, lock_wait, answers_within)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view of the store."""
        self.gate.go_through()
        with self._errors(), self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction: on disk when the block ends without an exception, rolled back otherwise."""
        self.gate.go_through()
        with self.preparing() as connection:
            yield connection

    @contextmanager
    def preparing(self) -> Iterator[Connection]:
        """As `write`, and allowed while the gate is closed: for migrations."""
        with self._errors(), self._turn(), self.engine.connect() as connection:
            if self._writer is not None:
                connection.info[BEGIN] = "BEGIN IMMEDIATE"
            with connection.begin():
                if self._files is not None:
                    self._files.look()
                if self._fence is not None:
                    self._fence(connection)
                yield connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let SQLite's writers of this process queue: SQLite itself polls for its lock with growing sleeps."""
        if self._writer is not None and not self._writer.acquire(timeout=self._lock_wait):
            raise TryLater("store: database is locked", code="store")
        try:
            yield
        finally:
            if self._writer is not None:
                self._writer.release()

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
    def _errors(self) -> Iterator[None]:
        driver = self.engine.dialect.loaded_dbapi  # `SameFiles` calls it directly
        try:
            yield
        except (DBAPIError, driver.Error) as error:
            raise TryLater(self._sentence(getattr(error, "orig", None) or error), code="store") from None
        except StatementError as error:
            if isinstance(error.orig, ValueError | TypeError):
                raise error.orig from None  # the columns refuse the value: a bug of the caller, not an outage
            raise
        except SQLAlchemyError as error:
            raise TryLater(self._sentence(error), code="store") from None

    def _sentence(self, error: BaseException) -> str:
        """One line for *error* without the password of the URL."""
        text = " ".join(str(error).split())
        password = self.url.password
        return f"store: {text.replace(str(password), '***') if password else text}"


class StorePart:
    """Base of the parts of `receiver.adapters.store.SqlStore`. The Protocols of `receiver.ports.store` document their
    calls."""

    _database: Database
    _last_read: Memory | None = None  # set while it equals what the tables of pools and lives hold

    @contextmanager
    def _write_memory(self) -> Iterator[Connection]:
        """Open a transaction that may change what `memory` last returned."""
        self._last_read = None
        with self._database.write() as connection:
            yield connection

    def _rows(self, query: Executable, values: Values | None = None) -> Sequence[RowMapping]:
        with self._database.read() as connection:
            return connection.execute(query, values).mappings().all()


def fields_of(value: Any) -> Values:
    """The fields of a frozen dataclass with slots, by name: columns have the same names. An owner's lie beside them."""
    fields = {name: getattr(value, name) for name in type(value).__slots__}
    owner = fields.pop("owner", None)
    return fields if owner is None else fields | fields_of(owner)


def value_of(kind: type[T], row: RowMapping) -> T:
    """The value of the dataclass *kind* in *row*; further columns are ignored."""
    names = kind.__slots__  # type: ignore[attr-defined]
    return kind(**{name: value_of(Owner, row) if name == "owner" else row[name] for name in names})


Upsert = sqlite.Insert | postgresql.Insert  # that supports ON CONFLICT; both engines spell it the same


def insert_in(dialect: str, table: Table) -> Upsert:
    """An INSERT in the dialect of that name."""
    build: type[Upsert] = postgresql.Insert if dialect == "postgresql" else sqlite.Insert
    return build(table)


def insert(connection: Connection, table: Table) -> Upsert:
    """The same in the dialect of *connection*."""
    return insert_in(connection.dialect.name, table)


def put(connection: Connection, table: Table, *rows: Mapping[str, Any], **only_new: object) -> None:
    """Insert each of *rows*, which all have the same columns, or update the row with its primary key; a new row also
    gets *only_new*."""
    statement = _upsert(connection.dialect.name, table, tuple(rows[0]))
    connection.execute(statement, [{**only_new, **row} for row in rows])


@cache  # building a statement takes longer than running it
def _upsert(dialect: str, table: Table, columns: tuple[str, ...]) -> Upsert:
    keys = [column.name for column in table.primary_key]
    statement = insert_in(dialect, table)
    changes = {name: statement.excluded[name] for name in columns if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changes)
