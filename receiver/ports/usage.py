"""The part of the ledger that says who used the nodes that were paid for."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from receiver.core.model.memory import NodeLife
from receiver.core.model.seed import Seed
from receiver.core.model.usage import Accounted, Accounting, Unwatched, Usage, WorkloadLife
from receiver.core.money.watched_time import Watch


class UsageStore(Protocol):
    """What workloads held, by calendar month (``2026-11``). Every call may raise TryLater (store down)."""

    def accounted(self) -> Accounted:
        """Return where the account stands."""

    def account(self, accounting: Accounting, since: datetime | None, at: datetime) -> bool:
        """Add *accounting*, which covers *since* to *at*, and move the account to *at*, in one transaction.

        False, and nothing is written, when the account does not stand at *since*: somebody else has counted that
        time. So no time is counted twice, whoever crashes when.
        """

    def usage(self, month: str) -> Sequence[Usage]:
        """Return what was held in *month*, one row per instance and workload."""

    def unwatched(self, month: str) -> Sequence[Unwatched]:
        """Return what nobody watched in *month*, one row per instance."""

    def watch(self) -> Watch:
        """Return since when usage is accounted for, up to when, and which months were forgotten."""

    def seed_of(self, month: str) -> Seed | None:
        """Return what *month* had cost before this store watched, or None when it watched from the beginning."""

    def workload_lives(self, since: datetime, until: datetime) -> Sequence[WorkloadLife]:
        """Return the workloads that existed at some time from *since* to *until*, the oldest first."""

    def lasted(self, limit: int) -> Sequence[timedelta]:
        """Return how long the last workloads that ended ran, from the first pod's node on, at most *limit* of them."""

    def node_lives(self, since: datetime) -> Sequence[NodeLife]:
        """Return the node lives that are living, or ended after *since*, the oldest first."""
