"""The part of the store that keeps counts of units of work (`receiver.ports.ReportStore` says what each call means)."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import select

from receiver.adapters.store.database import Database, put
from receiver.adapters.store.schema import pools, unit_counts
from receiver.core.report.units import Counted


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

    def watched(self) -> Mapping[str, datetime]:
        """See ReportStore."""
        statement = select(pools.c.pool, pools.c.watched_since).where(pools.c.watched_since.is_not(None))
        with self._database.read() as connection:
            return {row.pool: row.watched_since for row in connection.execute(statement)}
