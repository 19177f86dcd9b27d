"""What reports are made of beside usage: charges and seeds, counts of units of work, GPUs in use, finished documents.

A charge or a seed that is dated later than now was kept under a wrong clock. It is not read while it is, and its month
is told anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select

from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, insert, put
from receiver.adapters.store.prepared import Query, Row
from receiver.adapters.store.schema import charges, closed_reports, in_use, pools, seeds, unit_counts
from receiver.core.model.charges import Charge, Charged, RunsElsewhere, Seed
from receiver.core.report.amounts import Counted
from receiver.core.report.in_use import InUse

IN_USE = Query(select(in_use).where(in_use.c.month == bindparam("of_month")).order_by(in_use.c.workload, in_use.c.life))
FIELDS = tuple(f.name for f in fields(Charge))
VALUES = attrgetter(*FIELDS)
ELSEWHERE = tuple(f.name for f in fields(RunsElsewhere))
NOW = bindparam("now", type_=Moment)
NEWEST = Query(select(charges).where(charges.c.asked_at <= NOW).order_by(charges.c.month.desc()).limit(1))
NEWEST_ASKED = Query(
    select(charges.c.month, charges.c.asked_at)
    .where(charges.c.asked_at <= NOW)
    .order_by(charges.c.month.desc())
    .limit(1)
)
SEED = Query(
    select(seeds).where(or_(seeds.c.at <= NOW, seeds.c.stated.is_not(None))).order_by(seeds.c.month.desc()).limit(1)
)


class SqlReports(StorePart):
    """What reports keep and read."""

    def keep_unit_count(self, counted: Counted) -> None:
        with self._database.write() as connection:
            put(connection, unit_counts, asdict(counted))

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
                put(connection, in_use, asdict(row if old is None else _together(old, row)))

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
    return tuple(InUse(**row) for row in IN_USE.rows(connection, of_month=month))


def _together(old: InUse, new: InUse) -> InUse:
    return replace(new, gpus=max(old.gpus, new.gpus), used=max(old.used, new.used), seconds=old.seconds + new.seconds)


def charged(connection: Connection, held: Charged | None, now: datetime) -> Charged | None:
    """Return the newest month's answer; *held* is not read again while it is that."""
    newest = NEWEST_ASKED.first(connection, now=now)
    if newest is None:
        return None
    if held is not None and (held.month, held.asked_at) == (newest["month"], newest["asked_at"]):
        return held
    return _charged(NEWEST.rows(connection, now=now)[0])


def _charged(row: Row) -> Charged:
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
    """Return the newest month's seed. A stated amount names its month itself: it stands whatever its date."""
    row = SEED.first(connection, now=now)
    return None if row is None else _seed(row)


def _seed(row: Row) -> Seed:
    nodes = (RunsElsewhere(**dict(zip(ELSEWHERE, values, strict=True))) for values in row["elsewhere"])
    return Seed(**{**row, "elsewhere": tuple(nodes)})


def _charge(names: Sequence[str], values: Sequence[Any]) -> Charge:
    return Charge(**dict(zip(names, values, strict=True)))
