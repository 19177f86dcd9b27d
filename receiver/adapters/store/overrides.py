"""What people set at run time: overrides, and allowances of budgets.

Overrides are kept until they end and for a while after that, so that who said what can be looked up. Every change of an
allowance is kept for the record; the last of each scope and month is in force.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, or_, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import outbox
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart
from receiver.adapters.store.prepared import Query, Row
from receiver.adapters.store.schema import budget_changes, overrides
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import BudgetChange, Scope
from receiver.core.notices.sentences import Notice
from receiver.ports import StoredOverride

NOT_ENDED = Query(select(overrides).where(overrides.c.ended_at.is_(None)).order_by(overrides.c.at, overrides.c.id))

RAN_OUT = overrides.c.ended_at.is_not(None), overrides.c.ended_by.is_(None)
RAN_OUT_EARLY = Query(
    select(overrides)
    .where(*RAN_OUT, overrides.c.until > bindparam("now", type_=Moment))
    .order_by(overrides.c.at, overrides.c.id)
)
CHANGES = Query(select(budget_changes).order_by(budget_changes.c.id))


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


def changes_in_force(connection: Connection) -> tuple[BudgetChange, ...]:
    """Return the last change of a budget for each scope, name and month."""
    last: dict[tuple[str, str, str], BudgetChange] = {}
    for row in CHANGES.rows(connection):
        given = {name: row[name] for name in BudgetChange.__slots__}
        last[row["scope"], row["name"], row["month"]] = BudgetChange(**{**given, "scope": Scope(row["scope"])})
    return tuple(last.values())


class SqlOverrides(StorePart):
    """Overrides and changes of budgets."""

    def set_override(self, override: Override, notice: Notice) -> None:
        with self._database.write() as connection:
            insert_override(connection, override)
            outbox.say(connection, notice, override.at)

    def end_override(self, override: str, at: datetime, by: str | None, notice: Notice) -> bool:
        going_on = overrides.c.id == override, overrides.c.ended_at.is_(None)
        with self._database.write() as connection:
            found = connection.execute(update(overrides).where(*going_on).values(ended_at=at, ended_by=by))
            if found.rowcount != 1:
                return False
            outbox.say(connection, notice, at)
        return True

    def resume_override(self, override: str, at: datetime, notice: Notice) -> bool:
        with self._database.write() as connection:
            found = connection.execute(
                update(overrides).where(overrides.c.id == override, *RAN_OUT).values(ended_at=None)
            )
            if found.rowcount != 1:
                return False
            outbox.say(connection, notice, at)
        return True

    def overrides(self, *, limit: int = 50) -> Sequence[StoredOverride]:
        order = overrides.c.ended_at.is_not(None), overrides.c.at.desc(), overrides.c.id
        with self._database.read() as connection:
            found = connection.execute(select(overrides).order_by(*order).limit(limit))
            return tuple(_stored(row) for row in found.mappings())

    def overrides_between(self, since: datetime, until: datetime) -> Sequence[StoredOverride]:
        lasted = overrides.c.until > since, or_(overrides.c.ended_at.is_(None), overrides.c.ended_at > since)
        query = select(overrides).where(overrides.c.at < until, *lasted).order_by(overrides.c.at, overrides.c.id)
        with self._database.read() as connection:
            return tuple(_stored(row) for row in connection.execute(query).mappings())

    def override(self, override: str) -> StoredOverride | None:
        with self._database.read() as connection:
            row = connection.execute(select(overrides).where(overrides.c.id == override)).mappings().first()
        return None if row is None else _stored(row)

    def change_budget(self, change: BudgetChange, notice: Notice) -> None:
        values = {name: getattr(change, name) for name in BudgetChange.__slots__}
        with self._database.write() as connection:
            connection.execute(plain_insert(budget_changes).values({**values, "scope": change.scope.value}))
            outbox.say(connection, notice, change.at)

    def allowances_set(self, month: str) -> Sequence[BudgetChange]:
        with self._database.read() as connection:
            return tuple(change for change in changes_in_force(connection) if change.month == month)


def _stored(row: Row) -> StoredOverride:
    given = {name: row[name] for name in Override.__slots__}
    return StoredOverride(
        override=Override(**{**given, "kind": OverrideKind(row["kind"])}),
        ended_at=row["ended_at"],
        ended_by=row["ended_by"],
    )
