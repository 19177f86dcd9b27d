"""Allowances set at run time: every one is kept for the record, the last of each scope and month is in force."""

from collections.abc import Sequence

from sqlalchemy import Connection, select
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import notices
from receiver.adapters.store.database import Database
from receiver.adapters.store.prepared import Query
from receiver.adapters.store.schema import budget_changes
from receiver.core.model.policy import BudgetChange, Scope
from receiver.core.notices.sentences import Notice

IN_ORDER = Query(select(budget_changes).order_by(budget_changes.c.id))


def in_force(connection: Connection) -> tuple[BudgetChange, ...]:
    """Return the last change of each scope, name and month."""
    last: dict[tuple[str, str, str], BudgetChange] = {}
    for row in IN_ORDER.rows(connection):
        given = {name: row[name] for name in BudgetChange.__slots__}
        last[row["scope"], row["name"], row["month"]] = BudgetChange(**{**given, "scope": Scope(row["scope"])})
    return tuple(last.values())


class SqlBudgets:
    """The part of the store that `receiver.ports.BudgetStore` describes."""

    _database: Database

    def change_budget(self, change: BudgetChange, notice: Notice) -> None:
        """See BudgetStore."""
        values = {name: getattr(change, name) for name in BudgetChange.__slots__}
        with self._database.write() as connection:
            connection.execute(plain_insert(budget_changes).values({**values, "scope": change.scope.value}))
            notices.say(connection, notice, change.at)

    def allowances_set(self, month: str) -> Sequence[BudgetChange]:
        """See BudgetStore."""
        with self._database.read() as connection:
            return tuple(change for change in in_force(connection) if change.month == month)
