"""What workloads held of the nodes: added up per month, instance, workload and owner, never twice for the same time.

The owner is in the key because names are used again: two teams may run a Job of one name on one node in one month.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, bindparam, case, delete, or_, select

from receiver.adapters.store.database import StorePart, insert_in
from receiver.adapters.store.prepared import Query, Row, Write
from receiver.adapters.store.schema import holdings, unwatched, usage, workload_lives
from receiver.adapters.store.totals import mark, marked
from receiver.core.model.usage import Accounted, Accounting, GpuHolding, Owner, Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import Watch

ACCOUNTED = "accounted"  # the mark up to which usage is in the ledger
ACCOUNTED_SINCE = "accounted_since"  # and from when on
KEPT_FROM = "usage_kept_from"  # usage of the months before this moment's was pruned
OWNER = tuple(Owner.__slots__)
ADDED = ("held", "node_seconds", "measured", "idle", "busy", "memory", "seconds")
HIGHEST = ("peak_engine", "peak_memory")
HELD = Query(select(holdings).order_by(holdings.c.uid))
RUNNING = Query(select(workload_lives).where(workload_lives.c.ended_at.is_(None)).order_by(workload_lives.c.workload))
LASTED = Query(
    select(workload_lives.c.bound_at, workload_lives.c.ended_at)
    .where(workload_lives.c.ended_at.is_not(None), workload_lives.c.bound_at.is_not(None))
    .order_by(workload_lives.c.ended_at.desc())
    .limit(bindparam("most"))
)
LET_GO = Write(lambda _: delete(holdings).where(holdings.c.uid == bindparam("of_uid")))


class SqlUsage(StorePart):
    """What workloads held. What was read is kept until the account moves: a step asks for it every few seconds."""

    _accounted: Accounted | None = None
    _month: tuple[str, datetime | None, tuple[Usage, ...]] | None = None  # the month read last, where it stood then

    def accounted(self) -> Accounted:
        with self._database.read() as connection:
            known, at = self._accounted, _standing(connection)
            if known is None or at != known.at:
                holdings = tuple(_holding(row) for row in HELD.rows(connection))
                running = tuple(_life(row) for row in RUNNING.rows(connection))
                known = Accounted(at=at, holdings=holdings, running=running)
        self._accounted = known
        return known

    def account(self, accounting: Accounting, since: datetime | None, at: datetime) -> bool:
        self._accounted = self._month = None
        with self._database.write() as connection:
            if _standing(connection) != since:
                return False
            _put(connection, usage, [_values(row) for row in accounting.usage])
            _put(connection, unwatched, [asdict(row) for row in accounting.unwatched])
            _put(connection, workload_lives, [_values(life) for life in accounting.lives])
            _hold(connection, accounting.holdings)
            mark(connection, ACCOUNTED, at)
            began = marked(connection, ACCOUNTED_SINCE) if since is not None and at < since else since
            if began is None or at < began:  # the first one, or the first one was under a clock that was ahead
                mark(connection, ACCOUNTED_SINCE, at)
        return True

    def usage(self, month: str) -> Sequence[Usage]:
        with self._database.read() as connection:
            known, standing = self._month, _standing(connection)
            if known is None or known[:2] != (month, standing):
                known = (month, standing, _of_month(connection, month))
        self._month = known
        return known[2]

    def unwatched(self, month: str) -> Sequence[Unwatched]:
        statement = select(unwatched).where(unwatched.c.month == month).order_by(unwatched.c.instance)
        with self._database.read() as connection:
            return tuple(Unwatched(**row) for row in connection.execute(statement).mappings())

    def watch(self) -> Watch:
        with self._database.read() as connection:
            return Watch(
                since=marked(connection, ACCOUNTED_SINCE),
                until=_standing(connection),
                kept_from=marked(connection, KEPT_FROM),
            )

    def workload_lives(self, since: datetime, until: datetime) -> Sequence[WorkloadLife]:
        table = workload_lives.c
        existed = table.created_at <= until, or_(table.ended_at.is_(None), table.ended_at >= since)
        statement = select(workload_lives).where(*existed).order_by(table.created_at, table.workload)
        with self._database.read() as connection:
            return tuple(_life(row) for row in connection.execute(statement).mappings())

    def lasted(self, limit: int) -> Sequence[timedelta]:
        with self._database.read() as connection:
            return tuple(ended - bound for bound, ended in LASTED.tuples(connection, most=limit))


def _standing(connection: Connection) -> datetime | None:
    """Up to when usage is in the ledger."""
    return marked(connection, ACCOUNTED)


def _of_month(connection: Connection, month: str) -> tuple[Usage, ...]:
    """The usage of *month*."""
    statement = select(usage).where(usage.c.month == month).order_by(*usage.primary_key)
    found = connection.execute(statement).mappings()
    return tuple(Usage(**{n: v for n, v in row.items() if n not in OWNER}, owner=_owner(row)) for row in found)


def _hold(connection: Connection, wanted: tuple[GpuHolding, ...]) -> None:
    """Let the table of holdings be *wanted*: a pod seldom changes, so only what differs is written."""
    known = {row["uid"]: _holding(row) for row in HELD.rows(connection)}
    new = {holding.uid: holding for holding in wanted}
    gone = [{"of_uid": uid} for uid in known if uid not in new]
    LET_GO.run(connection, gone)
    changed = [_values(holding) for uid, holding in new.items() if known.get(uid) != holding]
    _put(connection, holdings, changed)


def _put(connection: Connection, table: Table, values: list[dict[str, Any]]) -> None:
    if values:
        _addition(table, tuple(values[0])).run(connection, values)


@cache
def _addition(table: Table, columns: tuple[str, ...]) -> Write:
    """An INSERT that adds seconds, keeps the higher peak, and replaces everything else."""
    keys = [column.name for column in table.primary_key]

    def build(dialect: str) -> Any:
        statement = insert_in(dialect, table)
        changes = {c.name: _merged(c, statement.excluded[c.name]) for c in table.columns if c.name not in keys}
        return statement.on_conflict_do_update(index_elements=keys, set_=changes)

    return Write(build, columns)


def _merged(old: Any, new: Any) -> Any:
    if old.name in ADDED:
        return old + new
    if old.name in HIGHEST:
        return case((or_(old.is_(None), new > old), new), else_=old)
    return new


def _values(row: Usage | WorkloadLife | GpuHolding) -> dict[str, Any]:
    """Columns of a row whose owner is spread over columns of its own."""
    names = (name for name in type(row).__slots__ if name != "owner")
    return {name: getattr(row, name) for name in names} | {name: getattr(row.owner, name) for name in OWNER}


def _owner(row: Row) -> Owner:
    return Owner(**{name: row[name] for name in OWNER})


def _holding(row: Row) -> GpuHolding:
    return GpuHolding(**{n: v for n, v in row.items() if n not in OWNER}, owner=_owner(row))


def _life(row: Row) -> WorkloadLife:
    return WorkloadLife(**{n: v for n, v in row.items() if n not in OWNER}, owner=_owner(row))
