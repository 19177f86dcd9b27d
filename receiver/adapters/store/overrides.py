"""Overrides: kept until they end, and for a while after that, so that who said what can be looked up."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, or_, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import notices
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import Database
from receiver.adapters.store.prepared import Query, Row
from receiver.adapters.store.schema import overrides
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.notices.sentences import Notice
from receiver.ports import StoredOverride

NOT_ENDED = Query(select(overrides).where(overrides.c.ended_at.is_(None)).order_by(overrides.c.at, overrides.c.id))

RAN_OUT = overrides.c.ended_at.is_not(None), overrides.c.ended_by.is_(None)
RAN_OUT_EARLY = Query(
    select(overrides)
    .where(*RAN_OUT, overrides.c.until > bindparam("now", type_=Moment))
    .order_by(overrides.c.at, overrides.c.id)
)


def not_ended(connection: Connection) -> tuple[Override, ...]:
    """Return those that nobody has ended, the oldest first: a step decides by time which of them are in force."""
    return tuple(_stored(row).override for row in NOT_ENDED.rows(connection))


def ran_out_early(connection: Connection, now: datetime) -> tuple[Override, ...]:
    """Return those that ended by themselves although their time is not over: a step ran under a clock ahead."""
    return tuple(_stored(row).override for row in RAN_OUT_EARLY.rows(connection, now=now))


def insert_override(connection: Connection, override: Override) -> None:
    """Keep *override*."""
    values = {name: getattr(override, name) for name in Override.__slots__}
    connection.execute(plain_insert(overrides).values({**values, "kind": override.kind.value}))


class SqlOverrides:
    """The part of the store that `receiver.ports.OverrideStore` describes."""

    _database: Database

    def set_override(self, override: Override, notice: Notice) -> None:
        """See OverrideStore."""
        with self._database.write() as connection:
            insert_override(connection, override)
            notices.say(connection, notice, override.at)

    def end_override(self, override: str, at: datetime, by: str | None, notice: Notice) -> bool:
        """See OverrideStore."""
        going_on = overrides.c.id == override, overrides.c.ended_at.is_(None)
        with self._database.write() as connection:
            found = connection.execute(update(overrides).where(*going_on).values(ended_at=at, ended_by=by))
            if found.rowcount != 1:
                return False
            notices.say(connection, notice, at)
        return True

    def resume_override(self, override: str, at: datetime, notice: Notice) -> bool:
        """See OverrideStore."""
        with self._database.write() as connection:
            found = connection.execute(
                update(overrides).where(overrides.c.id == override, *RAN_OUT).values(ended_at=None)
            )
            if found.rowcount != 1:
                return False
            notices.say(connection, notice, at)
        return True

    def overrides(self, *, limit: int = 50) -> Sequence[StoredOverride]:
        """See OverrideStore."""
        order = overrides.c.ended_at.is_not(None), overrides.c.at.desc(), overrides.c.id
        with self._database.read() as connection:
            found = connection.execute(select(overrides).order_by(*order).limit(limit))
            return tuple(_stored(row) for row in found.mappings())

    def overrides_between(self, since: datetime, until: datetime) -> Sequence[StoredOverride]:
        """See ReportStore."""
        lasted = overrides.c.until > since, or_(overrides.c.ended_at.is_(None), overrides.c.ended_at > since)
        query = select(overrides).where(overrides.c.at < until, *lasted).order_by(overrides.c.at, overrides.c.id)
        with self._database.read() as connection:
            return tuple(_stored(row) for row in connection.execute(query).mappings())

    def override(self, override: str) -> StoredOverride | None:
        """See OverrideStore."""
        with self._database.read() as connection:
            row = connection.execute(select(overrides).where(overrides.c.id == override)).mappings().first()
        return None if row is None else _stored(row)


def _stored(row: Row) -> StoredOverride:
    given = {name: row[name] for name in Override.__slots__}
    return StoredOverride(
        override=Override(**{**given, "kind": OverrideKind(row["kind"])}),
        ended_at=row["ended_at"],
        ended_by=row["ended_by"],
    )
