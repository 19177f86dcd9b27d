"""The part of the store that keeps usage (`receiver.ports.UsageStore` says what each call means)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from receiver.adapters.store import charges, usage
from receiver.adapters.store.database import Database
from receiver.core.model.memory import NodeLife
from receiver.core.model.seed import Seed
from receiver.core.model.usage import Accounted, Accounting, Unwatched, Usage, WorkloadLife
from receiver.core.money.watched_time import Watch


class SqlUsage:
    """What workloads held. What was read is kept until the account moves: a step asks for it every few seconds."""

    _database: Database
    _accounted: Accounted | None = None
    _month: tuple[str, datetime | None, tuple[Usage, ...]] | None = None  # the month read last, where it stood then

    def accounted(self) -> Accounted:
        """See UsageStore."""
        with self._database.read() as connection:
            known = self._accounted
            if known is None or usage.standing(connection) != known.at:
                known = usage.accounted(connection)
        self._accounted = known
        return known

    def account(self, accounting: Accounting, since: datetime | None, at: datetime) -> bool:
        """See UsageStore."""
        self._accounted = self._month = None
        with self._database.write() as connection:
            return usage.account(connection, accounting, since, at)

    def usage(self, month: str) -> Sequence[Usage]:
        """See UsageStore."""
        with self._database.read() as connection:
            known, standing = self._month, usage.standing(connection)
            if known is None or known[:2] != (month, standing):
                known = (month, standing, usage.of_month(connection, month))
        self._month = known
        return known[2]

    def unwatched(self, month: str) -> Sequence[Unwatched]:
        """See UsageStore."""
        with self._database.read() as connection:
            return usage.unwatched_of(connection, month)

    def watch(self) -> Watch:
        """See UsageStore."""
        with self._database.read() as connection:
            return usage.watch(connection)

    def seed_of(self, month: str) -> Seed | None:
        """See UsageStore."""
        with self._database.read() as connection:
            return charges.seed_of(connection, month)

    def workload_lives(self, since: datetime, until: datetime) -> Sequence[WorkloadLife]:
        """See UsageStore."""
        with self._database.read() as connection:
            return usage.lives_between(connection, since, until)

    def lasted(self, limit: int) -> Sequence[timedelta]:
        """See UsageStore."""
        with self._database.read() as connection:
            return usage.lasted(connection, limit)

    def node_lives(self, since: datetime) -> Sequence[NodeLife]:
        """See UsageStore."""
        with self._database.read() as connection:
            return usage.node_lives_since(connection, since)
