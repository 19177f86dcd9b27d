"""The lease in the database: one row with the leader, its term (a change of leader increments it), and the expiry. All
times are the database's clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import URL, ColumnElement, Connection, Interval, create_engine, func, literal, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import OperationalError

from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import limit_answers, postgres_arguments
from receiver.adapters.store.schema import lease

THE_ONE = 1  # the row
LOCK_NOT_AVAILABLE = "55P03"
# A leader's transactions lock the row with "FOR KEY SHARE", which permits renewals (they change no key) and delays
# `take` (it locks the whole row): a former leader's writes are committed before the next leader reads, or refused.
LEADS = select(lease.c.owner, lease.c.term).where(lease.c.id == THE_ONE).with_for_update(read=True, key_share=True)
# Ends transactions of a former leader that still lock the row. PostgreSQL's own timeouts do so too, except for one that
# is silent in the midst of a statement. A rival that takes the lease never locks it for as long as this.
END_OLD_WRITES = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_locks USING (pid)"
    " WHERE datname = current_database() AND relation = 'lease'::regclass AND mode = 'RowShareLock' AND granted"
    " AND pid <> pg_backend_pid() AND xact_start < clock_timestamp() - interval '2 seconds'"
)
# A process that is frozen within a transaction must not block the row.
QUICK: dict[str, str | int] = {
    "connect_timeout": 3,
    "tcp_user_timeout": 5_000,
    "options": "-c statement_timeout=3000 -c lock_timeout=500 -c idle_in_transaction_session_timeout=3000",
}
ANSWER_SECONDS = 4.0  # more than the server's own limit for a statement
CLOCK: ColumnElement[datetime] = func.clock_timestamp(type_=Moment)  # not that of the transaction's begin


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """The last owner of the lease and its term; *owner* None: released."""

    owner: str | None
    term: int


def is_in_force(connection: Connection, owner: str, term: int) -> bool:
    """True during this *term* of *owner*; no other begins before the transaction of *connection* ends. The number alone
    does not suffice: in a restored backup the terms continue from an older one."""
    row = connection.execute(LEADS).first()
    return row is not None and (row.owner, row.term) == (owner, term)


class LeaseTable:
    """The row, over separate connections with short timeouts. *owner*'s lease *lasts* this long from each renewal, and
    no other process takes it before the *longest_write* of its owner could have ended too. Every call raises
    SQLAlchemyError when the database does not answer. Safe to use from many threads."""

    def __init__(
        self,
        url: URL,
        owner: str,
        lasts: timedelta,
        longest_write: timedelta,
        *,
        clock: ColumnElement[datetime] = CLOCK,
        answers_within: float = ANSWER_SECONDS,
    ) -> None:
        """Use the PostgreSQL store at *url*, whose schema is up to date; *clock* is its time. Waits *answers_within*
        seconds for a server that does not answer."""
        self.owner, self.lasts, self.longest_write = owner, lasts, longest_write
        self._engine = create_engine(
            url, pool_size=2, max_overflow=2, pool_pre_ping=True, connect_args=postgres_arguments(url, QUICK)
        )
        limit_answers(self._engine, answers_within)
        free = or_(lease.c.owner.is_(None), lease.c.owner == owner, lease.c.free_at <= clock)
        self._row = select(lease.c.owner, lease.c.term, free.label("free")).where(lease.c.id == THE_ONE)
        ends = clock + literal(lasts, Interval)
        self._from_now = {"expires_at": ends, "free_at": ends + literal(longest_write, Interval)}
        self._released = {"owner": None, "expires_at": clock, "free_at": clock}

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._engine.dispose()

    def take(self) -> LeaseRow:
        """Begin a term of the owner if the lease is free; return who has it now. If it is free and locked, transactions
        of the former leader are ended, so that the next call succeeds."""
        try:
            return self._take()
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
                with self._engine.begin() as connection:
                    connection.execute(END_OLD_WRITES)
            raise

    def _take(self) -> LeaseRow:
        with self._engine.begin() as connection:
            row = connection.execute(self._row).first()
            if row is None:
                first = insert(lease).values(id=THE_ONE, term=0, wakes=0, **self._released)
                connection.execute(first.on_conflict_do_nothing())
            elif not row.free:
                return LeaseRow(row.owner, row.term)
            row = connection.execute(self._row.with_for_update()).one()
            if not row.free:
                return LeaseRow(row.owner, row.term)
            self._change(connection, row.term, {"owner": self.owner, "term": row.term + 1, **self._from_now})
            return LeaseRow(self.owner, row.term + 1)

    def renew(self, term: int) -> bool:
        """Make the lease of this *term* last from now; False when another term has begun."""
        with self._engine.begin() as connection:
            return self._change(connection, term, self._from_now, lease.c.owner == self.owner)

    def release(self, term: int) -> None:
        """Release the lease, if it is still of this *term*."""
        with self._engine.begin() as connection:
            self._change(connection, term, self._released, lease.c.owner == self.owner)

    def _change(self, connection: Connection, term: int, values: dict[str, Any], *where: ColumnElement[bool]) -> bool:
        of_term = update(lease).where(lease.c.id == THE_ONE, lease.c.term == term, *where)
        return connection.execute(of_term.values(values)).rowcount == 1
