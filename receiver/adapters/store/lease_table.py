"""The lease in the database: one row with the leader, its term (a change of leader increments it), and the expiry."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import URL, Connection, bindparam, create_engine, func, select, text, update
from sqlalchemy.exc import OperationalError

from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import insert, limit_answers, postgres_arguments
from receiver.adapters.store.schema import lease

THE_ONE = 1  # the row
THE_ROW = select(lease).where(lease.c.id == THE_ONE)
OURS = (lease.c.id == THE_ONE, lease.c.owner == bindparam("of_owner"), lease.c.term == bindparam("of_term"))
# A leader's transactions lock the row with "FOR KEY SHARE", which permits renewals (they change no key) and delays
# `take` (it locks the whole row): a former leader's writes are committed before the next leader reads, or refused.
LEADS = select(lease.c.owner, lease.c.term).where(lease.c.id == THE_ONE).with_for_update(read=True, key_share=True)
# Silent sessions of a former leader that hold the row. PostgreSQL ends sessions that are idle between statements, but
# waits forever for the rest of a statement that has arrived in part.
SILENT = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_locks USING (pid)"
    " WHERE datname = current_database() AND relation = 'lease'::regclass AND mode = 'RowShareLock' AND granted"
    " AND pid <> pg_backend_pid() AND wait_event = 'ClientRead'"
    " AND xact_start < clock_timestamp() - interval '2 seconds'"
)
TAKES_QUICKLY = text("SET LOCAL lock_timeout = 500")  # milliseconds; the caller retries a second later
LOCK_NOT_AVAILABLE = "55P03"
# A process that is frozen within a transaction must not block the row.
QUICK: dict[str, str | int] = {
    "connect_timeout": 3,
    "tcp_user_timeout": 5_000,
    "options": "-c statement_timeout=3000 -c lock_timeout=2000 -c idle_in_transaction_session_timeout=3000",
}
ANSWER_SECONDS = 4.0  # more than the server's own limit for a statement

Now = Callable[[Connection], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """The row as read *at* a time of the database's clock; *owner* None: no leader. No other process may take it before
    *free_at*, which is later than *expires_at* by the owner's longest call."""

    owner: str | None
    term: int
    expires_at: datetime
    free_at: datetime
    at: datetime

    def is_free_to(self, name: str) -> bool:
        """True when the process *name* may take it; it may always retake its own."""
        return self.owner in (None, name) or self.at >= self.free_at


def database_now(connection: Connection) -> datetime:
    """Return PostgreSQL's current time, not that of the transaction's begin."""
    found: datetime = connection.execute(select(func.clock_timestamp(type_=Moment))).scalar_one()
    return found


def is_in_force(connection: Connection, owner: str, term: int) -> bool:
    """True during this *term* of *owner*; no other begins before the transaction of *connection* ends. The number alone
    does not suffice: in a restored backup the terms continue from an older one."""
    found = connection.execute(LEADS).first()
    return found is not None and (found.owner, found.term) == (owner, term)


class LeaseTable:
    """The row, over separate connections with short timeouts. Every call is one transaction or statement and raises
    SQLAlchemyError when the database does not answer. Safe to use from many threads."""

    def __init__(self, url: URL, now: Now = database_now, answers_within: float = ANSWER_SECONDS) -> None:
        """Use the store at *url*, whose schema is up to date; *now* reads its clock. Waits *answers_within* seconds for
        a server that does not answer."""
        waits: dict[str, Any] = {}
        if url.get_backend_name() == "postgresql":
            waits = postgres_arguments(url, QUICK)
        self._engine = create_engine(url, pool_size=2, max_overflow=2, pool_pre_ping=True, connect_args=waits)
        if waits:
            limit_answers(self._engine, answers_within)
        self._now = now

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._engine.dispose()

    def read(self) -> LeaseRow | None:
        """Return the row; None before the first leader."""
        with self._engine.connect() as connection:
            return self._held(connection, THE_ROW)

    def take(self, owner: str, lasts: timedelta, waits: timedelta) -> int | None:
        """Begin a term of *owner* if the lease is free; return its number, or None while another process has the lease.
        The lease *lasts* this long from now, and others *wait* for the owner's longest call beyond that. Call it when
        the row read is free: silent sessions that still lock it are then terminated."""
        try:
            return self._take(owner, lasts, waits)
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != LOCK_NOT_AVAILABLE:
                raise
            with self._engine.begin() as connection:
                if not connection.execute(SILENT).all():
                    raise
        return self._take(owner, lasts, waits)

    def _take(self, owner: str, lasts: timedelta, waits: timedelta) -> int | None:
        with self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(TAKES_QUICKLY)
            whole = THE_ROW.with_for_update()
            found = self._held(connection, whole)
            if found is None:
                now = self._now(connection)
                free = {"id": THE_ONE, "term": 0, "wakes": 0, "expires_at": now, "free_at": now}
                connection.execute(insert(connection, lease).values(free).on_conflict_do_nothing())
                found = self._held(connection, whole)
            assert found is not None
            if not found.is_free_to(owner):
                return None
            term = found.term + 1
            ends = found.at + lasts
            values = {"owner": owner, "term": term, "expires_at": ends, "free_at": ends + waits}
            connection.execute(update(lease).where(lease.c.id == THE_ONE).values(values))
            return term

    def renew(self, owner: str, term: int, lasts: timedelta, waits: timedelta) -> bool:
        """Extend the lease of this *term* to last this long from now; False when another term has begun."""
        with self._engine.begin() as connection:
            ends = self._now(connection) + lasts
            return self._change(connection, owner, term, {"expires_at": ends, "free_at": ends + waits})

    def left(self, owner: str, term: int) -> timedelta | None:
        """Return the remaining time of this *term* by the database's clock; None when it is over."""
        found = self.read()
        return found.expires_at - found.at if found and (found.owner, found.term) == (owner, term) else None

    def free(self, owner: str, term: int) -> None:
        """Release the lease, if it is still of this *term*."""
        with self._engine.begin() as connection:
            now = self._now(connection)
            self._change(connection, owner, term, {"owner": None, "expires_at": now, "free_at": now})

    def wake(self) -> None:
        """Count one wake-up for the leader."""
        with self._engine.begin() as connection:
            connection.execute(update(lease).where(lease.c.id == THE_ONE).values(wakes=lease.c.wakes + 1))

    def wakes(self) -> int:
        """Return how many wake-ups were counted."""
        with self._engine.connect() as connection:
            return int(connection.execute(select(lease.c.wakes).where(lease.c.id == THE_ONE)).scalar() or 0)

    def _held(self, connection: Connection, query: Any) -> LeaseRow | None:
        row = connection.execute(query).first()
        if row is None:
            return None
        at = self._now(connection)  # after the row, whose lock may have taken time
        return LeaseRow(owner=row.owner, term=row.term, expires_at=row.expires_at, free_at=row.free_at, at=at)

    def _change(self, connection: Connection, owner: str, term: int, values: dict[str, Any]) -> bool:
        statement = update(lease).where(*OURS).values(values)
        return connection.execute(statement, {"of_owner": owner, "of_term": term}).rowcount == 1
