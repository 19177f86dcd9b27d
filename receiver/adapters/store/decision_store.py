"""The part of the store that tells what was decided and done (`receiver.ports.DecisionStore` says what calls mean)."""

from collections.abc import Sequence

from receiver.adapters.store import decisions, grounds
from receiver.adapters.store.database import Database
from receiver.ports import GroundsKept, StoredAction, StoredDecision


class SqlDecisions:
    """Decisions and actions, read."""

    _database: Database

    def decisions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredDecision]:
        """See DecisionStore."""
        with self._database.read() as connection:
            return decisions.listed(connection, pool, limit)

    def decision(self, number: int) -> StoredDecision | None:
        """See DecisionStore."""
        with self._database.read() as connection:
            return decisions.one(connection, number)

    def grounds(self, number: int) -> GroundsKept | None:
        """See DecisionStore."""
        with self._database.read() as connection:
            return grounds.kept(connection, number)

    def beside(self, stored: StoredDecision) -> tuple[int | None, int | None]:
        """See DecisionStore."""
        with self._database.read() as connection:
            return decisions.beside(connection, stored)

    def followed(self, number: int) -> Sequence[StoredAction]:
        """See DecisionStore."""
        with self._database.read() as connection:
            return decisions.followed(connection, number)

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        """See DecisionStore."""
        with self._database.read() as connection:
            return decisions.history(connection, pool, limit)
