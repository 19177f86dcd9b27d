"""The store on SQLite or PostgreSQL: its parts together, opening and pruning.

The Protocols of `receiver.ports.store` document each call."""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Delete, Text, cast, delete, except_, func, make_url, or_, select

from receiver.adapters.store import inbox, schema
from receiver.adapters.store.database import (
    EXAMPLES,
    LOCK_WAIT_SECONDS,
    VARIABLE,
    Database,
    Fence,
    database_file,
    is_in_memory,
    is_sqlite,
    parse,
    put,
)
from receiver.adapters.store.figures import HELD_MILLISECONDS, SqlFigures, count, hour_of, mark_all
from receiver.adapters.store.inbox import SqlInbox
from receiver.adapters.store.memory import SqlActions, SqlMemory
from receiver.adapters.store.migrate import upgrade
from receiver.adapters.store.outbox import SqlOutbox
from receiver.adapters.store.overrides import SqlOverrides
from receiver.adapters.store.usage import KEPT_FROM, SqlUsage
from receiver.core.explain.samples import Doing
from receiver.core.model.memory import Control
from receiver.core.model.pool_facts import PoolFacts
from receiver.ports import Snapshot, TryLater, WontWork

LIVES_KEPT = timedelta(days=400)  # a year of spend and what a month's start still needs: 13 months
SAMPLES_KEPT = timedelta(days=8)  # the pages draw seven
DECISIONS_KEPT = timedelta(days=90)
KEPT = {  # how long after the time in this column a row is kept
    schema.outbox.c.sent_at: timedelta(days=7),
    schema.outbox.c.given_up_at: timedelta(days=7),
    schema.drifts.c.at: timedelta(days=7),
    schema.samples.c.at: SAMPLES_KEPT,
    schema.topics.c.told_at: timedelta(days=90),
    schema.actions.c.closed_at: timedelta(days=400),
    schema.overrides.c.ended_at: timedelta(days=400),
    schema.questions.c.expires_at: timedelta(days=400),
    schema.charges.c.asked_at: timedelta(days=400),
    schema.idle_spans.c.since: timedelta(days=400),
}


def _deletions(now: datetime) -> Iterator[Delete]:
    """The statements that delete what is too old at *now*, in order."""
    week = now - timedelta(days=7)
    deliveries, decisions, turns = schema.deliveries.c, schema.decisions.c, schema.turns.c
    yield delete(schema.deliveries).where(deliveries.considered_at < week, deliveries.received_at < week)
    newest = select(func.max(decisions.id)).group_by(decisions.pool)  # which each pool's next one is compared with
    yield delete(schema.decisions).where(decisions.at < now - DECISIONS_KEPT, decisions.id.not_in(newest))
    # As a difference of sets: PostgreSQL looks for each row of NOT IN through all of them once they are some 40,000.
    unused = except_(select(schema.grounds.c.digest), select(decisions.facts), select(decisions.policy))
    yield delete(schema.grounds).where(schema.grounds.c.digest.in_(unused))
    for column, period in KEPT.items():
        yield delete(column.table).where(column < now - period)
    kept_from = now - LIVES_KEPT
    # Whole months only, so that none looks cheaper than it was; in some zones the month begins the day before.
    lived = kept_from.replace(day=1, hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    yield delete(schema.node_lives).where(schema.node_lives.c.gone_at < lived)
    yield delete(schema.workload_lives).where(schema.workload_lives.c.ended_at < lived)
    for table in (schema.usage, schema.unwatched, schema.unit_counts, schema.in_use):
        yield delete(table).where(table.c.month < f"{kept_from:%Y-%m}")  # months sort as text does
    totals = schema.totals.c
    hour = f'["{hour_of(now - SAMPLES_KEPT)}"]'  # as the labels are stored
    yield delete(schema.totals).where(totals.name == HELD_MILLISECONDS, cast(totals.labels, Text) < hour)
    later = schema.turns.alias()
    goes_on = ~select(later.c.at).where(later.c.instance == turns.instance, later.c.at > turns.at).exists()
    yield delete(schema.turns).where(turns.at < now - SAMPLES_KEPT, or_(~goes_on, turns.doing == Doing.GONE))


THE_ONE = 1  # the only row of the snapshot, of the control state, and of Civo's facts
CONTROL = select(schema.control.c.state)
CONTROL_STATE = TypeAdapter(Control)
FACTS = select(schema.pool_facts.c.facts)
POOL_FACTS = TypeAdapter(PoolFacts)
SNAPSHOT_AT = select(schema.snapshot.c.at)
SNAPSHOT = select(schema.snapshot.c.picture, schema.snapshot.c.at)


def facts_in(connection: Connection) -> PoolFacts | None:
    """Return what Civo last said of the pools, None before its first answer."""
    state = connection.execute(FACTS).scalar()
    return None if state is None else POOL_FACTS.validate_python(state)


class SqlStore(SqlInbox, SqlMemory, SqlActions, SqlOutbox, SqlOverrides, SqlUsage, SqlFigures):
    """The durable memory; safe to use from many threads. `open_store` makes one."""

    def __init__(self, database: Database) -> None:
        """Use *database*; `open` migrates its schema."""
        self._database = database
        self._entry = threading.BoundedSemaphore(inbox.DELIVERIES_AT_ONCE)
        self._picture: Snapshot | None = None  # as last read or written

    def fenced(self, fence: Fence) -> "SqlStore":
        """Return the same store for a loop: each write begins with *fence*, which may raise WriterLostError."""
        return SqlStore(self._database.fenced(fence))

    def open(self) -> None:
        """Migrate the schema; until then every other call raises TryLater. May be repeated after a failure. Raises
        WontWork when an operator must act (a newer schema, a file that is not a database), TryLater when the database
        does not answer, or rejects these credentials."""
        try:
            upgrade(self._database)
        except (TryLater, WontWork, OSError) as error:
            cause: Exception = error
            if isinstance(error, OSError):  # the lock file beside the database
                cause = WontWork(f"cannot write beside the file that {VARIABLE} names: {error.strerror}", code="store")
            elif isinstance(error, TryLater) and "file is not a database" in str(error):
                remedy = "name another file, or move it away"
                cause = WontWork(f"the file that {VARIABLE} names is not a SQLite database: {remedy}", code="store")
            self._database.gate.close(f"not open since this process started: {str(cause).removeprefix('store: ')}")
            if cause is error:
                raise
            raise cause from None
        self._database.gate.open()

    def close(self) -> None:
        """Close every connection that is not in use."""
        self._database.close()

    def keep_control(self, control: Control, deliveries: Sequence[int] = ()) -> None:
        state = CONTROL_STATE.dump_python(control, mode="json")
        with self._database.write() as connection:
            put(connection, schema.control, {"id": THE_ONE, "at": control.at, "state": state})
            if deliveries:
                inbox.considered(connection, deliveries, control.at)

    def control(self) -> Control | None:
        with self._database.read() as connection:
            state = connection.execute(CONTROL).scalar()
        return None if state is None else CONTROL_STATE.validate_python(state)

    def keep_pool_facts(self, facts: PoolFacts) -> None:
        with self._database.write() as connection:
            state = POOL_FACTS.dump_python(facts, mode="json")
            put(connection, schema.pool_facts, {"id": THE_ONE, "facts": state})

    def pool_facts(self) -> PoolFacts | None:
        with self._database.read() as connection:
            return facts_in(connection)

    def keep_snapshot(self, snapshot: Mapping[str, Any], at: datetime) -> None:
        with self._database.write() as connection:
            put(connection, schema.snapshot, {"id": THE_ONE, "at": at, "picture": dict(snapshot)})
        self._picture = snapshot, at

    def snapshot(self) -> Snapshot | None:
        with self._database.read() as connection:
            snapshot = self._picture
            if snapshot is None or connection.execute(SNAPSHOT_AT).scalar() != snapshot[1]:
                row = connection.execute(SNAPSHOT).first()
                snapshot = None if row is None else (row.picture, row.at)
        self._picture = snapshot  # parsed once, and never by the loop that wrote it
        return snapshot

    def prune(self, now: datetime) -> int:
        """Delete what is too old to matter; return the number of rows. Totals stay as they are. Never deleted:
        deliveries that no step has considered, open actions, undelivered notices, living nodes, each pool's last
        decision, and the last turn of living nodes."""
        with self._write_memory() as connection:
            mark_all(connection, {KEPT_FROM: now - LIVES_KEPT})
            return sum(connection.execute(statement).rowcount for statement in _deletions(now))

    def check(self) -> None:
        self._database.gate.go_through()
        url = self._database.url
        if is_sqlite(url) and not is_in_memory(url) and not database_file(url).exists():
            raise TryLater("store: the database file is gone", code="store")
        with self._database.write() as connection:
            count(connection, "checks")


def open_store(url: str, *, lock_wait: float = LOCK_WAIT_SECONDS) -> SqlStore:
    """Open the store at *url*, migrate its schema and return it. Waits *lock_wait* seconds for locks of others. Raises
    WontWork when an operator must act (URL, permissions, newer schema, missing driver), TryLater when the database does
    not answer."""
    store = store_at(url, lock_wait=lock_wait)
    try:
        store.open()
    except BaseException:
        store.close()
        raise
    return store


def store_at(url: str, *, lock_wait: float = LOCK_WAIT_SECONDS) -> SqlStore:
    """Return the store at *url*, every call of which raises TryLater until `SqlStore.open` has succeeded. It does not
    connect. Raises WontWork when *url*, or its folder, cannot be used."""
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
    database.gate.close("the database has not been reached yet")
    return SqlStore(database)


def open_in_memory() -> SqlStore:
    """Return an empty store in memory, for simulations and tests."""
    database = Database(make_url("sqlite://"))
    schema.metadata.create_all(database.engine)
    return SqlStore(database)


def _writable_folder(path: str) -> None:
    """Create the folder of *path*. Raises WontWork unless a database can be written there."""
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
    """Raise WontWork for an option after the ``?`` that libpq does not know: it would never connect."""
    if is_sqlite(database.url):
        return
    from psycopg import ProgrammingError  # an optional extra
    from psycopg.conninfo import make_conninfo

    for name in database.url.query:
        try:
            make_conninfo("", **{name: ""})
        except ProgrammingError:
            raise WontWork(f"{VARIABLE} has the unknown option {name!r}; write {EXAMPLES}", code="store") from None
