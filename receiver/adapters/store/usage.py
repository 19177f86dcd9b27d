"""Usage by month, instance, workload and owner, and the other inputs of reports: charges, seeds, counts, documents.

The owner is part of the key because names are reused: two teams may run a Job of the same name on one node in a month.
A charge or a seed dated later than now was stored under a wrong clock: it is ignored until then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, Table, bindparam, case, delete, or_, select

from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, Values, fields_of, insert, insert_in, put
from receiver.adapters.store.schema import (
    OWNER,
    charges,
    closed_reports,
    holdings,
    in_use,
    pools,
    seeds,
    unit_counts,
    unwatched,
    usage,
    workload_lives,
)
from receiver.adapters.store.totals import mark, marked
from receiver.core.model.charges import Charge, Charged, RunsElsewhere, Seed
from receiver.core.model.usage import Accounted, Accounting, GpuHolding, Owner, Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import Watch
from receiver.core.report.lines import Counted
from receiver.core.report.rightsizing import InUse

ACCOUNTED = "accounted"  # the mark up to which usage is in the ledger
ACCOUNTED_SINCE = "accounted_since"  # and from when on
KEPT_FROM = "usage_kept_from"  # usage of the months before this moment's was pruned
ADDED = ("held", "node_seconds", "measured", "idle", "busy", "memory", "seconds")
HIGHEST = ("peak_engine", "peak_memory")
HELD = select(holdings).order_by(holdings.c.uid)
RUNNING = select(workload_lives).where(workload_lives.c.ended_at.is_(None)).order_by(workload_lives.c.workload)
LASTED = (
    select(workload_lives.c.bound_at, workload_lives.c.ended_at)
    .where(workload_lives.c.ended_at.is_not(None), workload_lives.c.bound_at.is_not(None))
    .order_by(workload_lives.c.ended_at.desc())
)
RELEASE = delete(holdings).where(holdings.c.uid == bindparam("of_uid"))


class SqlUsage(StorePart):
    """Usage. What was read is cached until the account moves: a step asks for it every few seconds."""

    _accounted: Accounted | None = None
    _month: tuple[str, datetime | None, tuple[Usage, ...]] | None = None  # as last read, with the time of the account

    def accounted(self) -> Accounted:
        with self._database.read() as connection:
            known, at = self._accounted, _standing(connection)
            if known is None or at != known.at:
                holdings = tuple(_owned(GpuHolding, row) for row in connection.execute(HELD).mappings())
                running = tuple(_owned(WorkloadLife, row) for row in connection.execute(RUNNING).mappings())
                known = Accounted(at=at, holdings=holdings, running=running)
        self._accounted = known
        return known

    def account(self, accounting: Accounting, since: datetime | None, at: datetime) -> bool:
        self._accounted = self._month = None
        with self._database.write() as connection:
            if _standing(connection) != since:
                return False
            _add(connection, usage, [_values(row) for row in accounting.usage])
            _add(connection, unwatched, [fields_of(row) for row in accounting.unwatched])
            _add(connection, workload_lives, [_values(life) for life in accounting.lives])
            _hold(connection, accounting.holdings)
            mark(connection, ACCOUNTED, at)
            began = marked(connection, ACCOUNTED_SINCE) if since is not None and at < since else since
            if began is None or at < began:  # the first, or the first was under a clock that was ahead
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
            return tuple(_owned(WorkloadLife, row) for row in connection.execute(statement).mappings())

    def lasted(self, limit: int) -> Sequence[timedelta]:
        with self._database.read() as connection:
            return tuple(ended - bound for bound, ended in connection.execute(LASTED.limit(limit)))


def _standing(connection: Connection) -> datetime | None:
    """The time up to which usage is in the ledger."""
    return marked(connection, ACCOUNTED)


def _of_month(connection: Connection, month: str) -> tuple[Usage, ...]:
    """The usage of *month*."""
    statement = select(usage).where(usage.c.month == month).order_by(*usage.primary_key)
    found = connection.execute(statement).mappings()
    return tuple(_owned(Usage, row) for row in found)


def _hold(connection: Connection, wanted: tuple[GpuHolding, ...]) -> None:
    """Make the table of holdings equal *wanted*: pods rarely change, so only differences are written."""
    known = {row["uid"]: _owned(GpuHolding, row) for row in connection.execute(HELD).mappings()}
    new = {holding.uid: holding for holding in wanted}
    gone = [{"of_uid": uid} for uid in known if uid not in new]
    if gone:
        connection.execute(RELEASE, gone)
    changed = [_values(holding) for uid, holding in new.items() if known.get(uid) != holding]
    _add(connection, holdings, changed)


def _add(connection: Connection, table: Table, values: list[Values]) -> None:
    if values:
        connection.execute(_addition(connection.dialect.name, table), values)


@cache
def _addition(dialect: str, table: Table) -> Any:
    """An INSERT that adds seconds, keeps the higher peak, and replaces everything else."""
    keys = [column.name for column in table.primary_key]
    statement = insert_in(dialect, table)
    changes = {c.name: _merged(c, statement.excluded[c.name]) for c in table.columns if c.name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changes)


def _merged(old: Any, new: Any) -> Any:
    if old.name in ADDED:
        return old + new
    if old.name in HIGHEST:
        return case((or_(old.is_(None), new > old), new), else_=old)
    return new


Owned = TypeVar("Owned", Usage, WorkloadLife, GpuHolding)


def _values(row: Owned) -> Values:
    """Columns of a row; its owner has columns of its own."""
    values = {**fields_of(row), **fields_of(row.owner)}
    del values["owner"]
    return values


def _owned(kind: type[Owned], row: RowMapping) -> Owned:
    """The value of *kind* in *row*."""
    owner = Owner(**{name: row[name] for name in OWNER})
    return kind(**{name: value for name, value in row.items() if name not in OWNER}, owner=owner)


IN_USE = select(in_use).where(in_use.c.month == bindparam("of_month")).order_by(in_use.c.workload, in_use.c.life)
FIELDS = tuple(f.name for f in fields(Charge))
VALUES = attrgetter(*FIELDS)
ELSEWHERE = tuple(f.name for f in fields(RunsElsewhere))
NOW = bindparam("now", type_=Moment)
NEWEST = select(charges).where(charges.c.asked_at <= NOW).order_by(charges.c.month.desc()).limit(1)
NEWEST_ASKED = (
    select(charges.c.month, charges.c.asked_at)
    .where(charges.c.asked_at <= NOW)
    .order_by(charges.c.month.desc())
    .limit(1)
)
SEED = select(seeds).where(or_(seeds.c.at <= NOW, seeds.c.stated.is_not(None))).order_by(seeds.c.month.desc()).limit(1)


class SqlReports(StorePart):
    """The inputs of reports, and their documents."""

    def keep_unit_count(self, counted: Counted) -> None:
        with self._database.write() as connection:
            put(connection, unit_counts, fields_of(counted))

    def unit_counts(self, month: str) -> Mapping[str, Counted]:
        statement = select(unit_counts).where(unit_counts.c.month == month).order_by(unit_counts.c.name)
        with self._database.read() as connection:
            return {row["name"]: Counted(**row) for row in connection.execute(statement).mappings()}

    def keep_in_use(self, found: Sequence[InUse]) -> None:
        if not found:
            return
        with self._database.write() as connection:
            known = {(row.workload, row.life): row for row in _in_use(connection, found[0].month)}
            for row in found:
                old = known.get((row.workload, row.life)) if row.month == found[0].month else None
                put(connection, in_use, fields_of(row if old is None else _together(old, row)))

    def in_use(self, month: str) -> Sequence[InUse]:
        with self._database.read() as connection:
            return _in_use(connection, month)

    def keep_charged(self, charged: Charged) -> None:
        row = {
            "month": charged.month,
            "asked_at": charged.asked_at,
            "answered_at": charged.answered_at,
            "records": {"fields": list(FIELDS), "rows": [list(VALUES(r)) for r in charged.records]},
            "unreadable": list(charged.unreadable),
            "failure": charged.failure,
            "failing_since": charged.failing_since,
        }
        with self._database.write() as connection:
            put(connection, charges, row)

    def charged_of(self, month: str) -> Charged | None:
        with self._database.read() as connection:
            row = connection.execute(select(charges).where(charges.c.month == month)).mappings().first()
        return None if row is None else _charged(row)

    def keep_seed(self, seed: Seed) -> None:
        row = {"month": seed.month, "at": seed.at, "hours": dict(seed.hours), "usd": seed.usd, "stated": seed.stated}
        elsewhere = [[getattr(node, name) for name in ELSEWHERE] for node in seed.elsewhere]
        with self._database.write() as connection:
            put(connection, seeds, {**row, "elsewhere": elsewhere})

    def seed_of(self, month: str) -> Seed | None:
        with self._database.read() as connection:
            row = connection.execute(select(seeds).where(seeds.c.month == month)).mappings().first()
        return None if row is None else _seed(row)

    def close_report(self, month: str, scope: str, document: Mapping[str, Any], at: datetime) -> None:
        values = {"month": month, "scope": scope, "at": at, "document": document}
        table = closed_reports.c
        with self._database.write() as connection:
            new = insert(connection, closed_reports).values(values)
            connection.execute(
                new.on_conflict_do_update(
                    index_elements=[table.month, table.scope],
                    set_={"at": new.excluded.at, "document": new.excluded.document},
                    where=table.at > at,
                )
            )

    def closed_report(self, month: str, scope: str, now: datetime) -> Mapping[str, Any] | None:
        table = closed_reports.c
        statement = select(table.document).where(table.month == month, table.scope == scope, table.at <= now)
        with self._database.read() as connection:
            document: Mapping[str, Any] | None = connection.execute(statement).scalar()
        return document

    def closed_scopes(self, month: str, now: datetime) -> frozenset[str]:
        table = closed_reports.c
        statement = select(table.scope).where(table.month == month, table.at <= now)
        with self._database.read() as connection:
            return frozenset(connection.execute(statement).scalars())

    def watched(self) -> Mapping[str, datetime]:
        statement = select(pools.c.pool, pools.c.watched_since).where(pools.c.watched_since.is_not(None))
        with self._database.read() as connection:
            return {row.pool: row.watched_since for row in connection.execute(statement)}


def _in_use(connection: Connection, month: str) -> tuple[InUse, ...]:
    return tuple(InUse(**row) for row in connection.execute(IN_USE, {"of_month": month}).mappings())


def _together(old: InUse, new: InUse) -> InUse:
    return replace(new, gpus=max(old.gpus, new.gpus), used=max(old.used, new.used), seconds=old.seconds + new.seconds)


def charged(connection: Connection, held: Charged | None, now: datetime) -> Charged | None:
    """Return the newest month's answer; *held* where it still is that one."""
    newest = connection.execute(NEWEST_ASKED, {"now": now}).first()
    if newest is None:
        return None
    if held is not None and (held.month, held.asked_at) == (newest.month, newest.asked_at):
        return held
    return _charged(connection.execute(NEWEST, {"now": now}).mappings().one())


def _charged(row: RowMapping) -> Charged:
    return Charged(
        month=row["month"],
        asked_at=row["asked_at"],
        answered_at=row["answered_at"],
        records=tuple(_charge(row["records"]["fields"], values) for values in row["records"]["rows"]),
        unreadable=tuple(row["unreadable"]),
        failure=row["failure"],
        failing_since=row["failing_since"],
    )


def seed(connection: Connection, now: datetime) -> Seed | None:
    """Return the newest month's seed. A stated amount names its month, so it counts whatever its date."""
    row = connection.execute(SEED, {"now": now}).mappings().first()
    return None if row is None else _seed(row)


def _seed(row: RowMapping) -> Seed:
    nodes = (RunsElsewhere(**dict(zip(ELSEWHERE, values, strict=True))) for values in row["elsewhere"])
    return Seed(**{**row, "elsewhere": tuple(nodes)})


def _charge(names: Sequence[str], values: Sequence[Any]) -> Charge:
    return Charge(**dict(zip(names, values, strict=True)))
