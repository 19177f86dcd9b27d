"""The part of the store that keeps counts of units of work (`receiver.ports.ReportStore` says what each call means)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, select

from receiver.adapters.store import charges, decisions
from receiver.adapters.store.database import Database, insert, put
from receiver.adapters.store.prepared import Query
from receiver.adapters.store.schema import closed_reports, in_use, pools, unit_counts
from receiver.core.model.charges import Charged
from receiver.core.report.in_use import InUse
from receiver.core.report.standstills import Spoke
from receiver.core.report.units import Counted

IN_USE = Query(select(in_use).where(in_use.c.month == bindparam("of_month")).order_by(in_use.c.workload, in_use.c.life))


class SqlReports:
    """What the queries of units of work said last."""

    _database: Database

    def keep_unit_count(self, counted: Counted) -> None:
        """See ReportStore."""
        with self._database.write() as connection:
            put(connection, unit_counts, asdict(counted))

    def unit_counts(self, month: str) -> Mapping[str, Counted]:
        """See ReportStore."""
        statement = select(unit_counts).where(unit_counts.c.month == month).order_by(unit_counts.c.name)
        with self._database.read() as connection:
            return {row["name"]: Counted(**row) for row in connection.execute(statement).mappings()}

    def keep_in_use(self, found: Sequence[InUse]) -> None:
        """See ReportStore."""
        if not found:
            return
        with self._database.write() as connection:
            known = {(row.workload, row.life): row for row in _in_use(connection, found[0].month)}
            for row in found:
                old = known.get((row.workload, row.life)) if row.month == found[0].month else None
                put(connection, in_use, asdict(row if old is None else _together(old, row)))

    def in_use(self, month: str) -> Sequence[InUse]:
        """See ReportStore."""
        with self._database.read() as connection:
            return _in_use(connection, month)

    def spoken(self, since: datetime, until: datetime) -> Sequence[Spoke]:
        """See ReportStore. Decisions are kept for 90 days."""
        with self._database.read() as connection:
            return decisions.spoken(connection, since, until)

    def charged_of(self, month: str) -> Charged | None:
        """See ReportStore."""
        with self._database.read() as connection:
            return charges.charged_of(connection, month)

    def close_report(self, month: str, scope: str, document: Mapping[str, Any], at: datetime) -> None:
        """See ReportStore."""
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
        """See ReportStore."""
        table = closed_reports.c
        statement = select(table.document).where(table.month == month, table.scope == scope, table.at <= now)
        with self._database.read() as connection:
            document: Mapping[str, Any] | None = connection.execute(statement).scalar()
        return document

    def closed_scopes(self, month: str, now: datetime) -> frozenset[str]:
        """See ReportStore."""
        table = closed_reports.c
        statement = select(table.scope).where(table.month == month, table.at <= now)
        with self._database.read() as connection:
            return frozenset(connection.execute(statement).scalars())

    def watched(self) -> Mapping[str, datetime]:
        """See ReportStore."""
        statement = select(pools.c.pool, pools.c.watched_since).where(pools.c.watched_since.is_not(None))
        with self._database.read() as connection:
            return {row.pool: row.watched_since for row in connection.execute(statement)}


def _in_use(connection: Connection, month: str) -> tuple[InUse, ...]:
    return tuple(InUse(**row) for row in IN_USE.rows(connection, of_month=month))


def _together(old: InUse, new: InUse) -> InUse:
    return replace(new, gpus=max(old.gpus, new.gpus), used=max(old.used, new.used), seconds=old.seconds + new.seconds)
