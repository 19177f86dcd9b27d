"""What delivery asks of the store (`receiver.adapters.messages.delivery.OutboxStore` says what it means)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from receiver.adapters.store import notices, totals
from receiver.adapters.store.columns import storable
from receiver.adapters.store.database import Database
from receiver.core.notices.sentences import Notice
from receiver.ports import StoredNotice, Telling


class SqlOutbox:
    """The outbox: what is said, and how far each notice is with each destination."""

    _database: Database

    def say(self, notice: Notice, at: datetime) -> bool:
        """See Store. A topic is remembered for 90 days. What was said before, as most is, takes no write lock."""
        with self._database.read() as connection:
            if notices.is_old(connection, notice):
                return False
        with self._database.write() as connection:
            return notices.say(connection, notice, at)

    def stand(self, standing: Iterable[Notice], at: datetime) -> None:
        """See Store. Mostly nothing waits, and that takes no write lock."""
        with self._database.read() as connection:
            if not notices.said_each_step(connection):
                return
        with self._database.write() as connection:
            notices.stand(connection, {storable(notice.topic): notice for notice in standing}, at)

    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]:
        """See Store."""
        with self._database.read() as connection:
            return notices.told(connection, prefix)

    def notices_due(self, now: datetime, limit: int = 20) -> Sequence[StoredNotice]:
        """See Store."""
        with self._database.read() as connection:
            return notices.due(connection, now, limit)

    def notice_sent(self, notice: int, at: datetime) -> None:
        """See Store."""
        with self._database.write() as connection:
            notices.sent(connection, notice, at)

    def notice_failed(self, notice: int, at: datetime, retry_at: datetime | None, error: str) -> None:
        """See Store."""
        with self._database.write() as connection:
            notices.failed(connection, notice, at, retry_at, error)

    def notices_over(self, numbers: Collection[int], at: datetime) -> None:
        """Never send these notices: they are not true any more."""
        with self._database.write() as connection:
            notices.over(connection, numbers, at)

    def notices_like(self, group: str, limit: int = 1000) -> Sequence[StoredNotice]:
        """Return the undelivered notices of *group* (`core.notices.grouping`), oldest first, with their tellings."""
        with self._database.read() as connection:
            return notices.like(connection, group, limit)

    def reached_last(self, group: str, destination: str, now: datetime) -> datetime | None:
        """Return when a notice of *group* last reached *destination*, not after *now*."""
        with self._database.read() as connection:
            return notices.reached_last(connection, group, destination, now)

    def notices_wait(self, numbers: Collection[int], until: datetime) -> None:
        """Do nothing about these notices before *until*."""
        with self._database.write() as connection:
            notices.wait(connection, numbers, until)

    def tell(self, numbers: Mapping[int, Telling], destination: str, outcome: tuple[str, str]) -> None:
        """Keep how far each notice is with *destination* (a digest, never a URL) after one message to it, and count
        that message by *outcome*: the destination's name and what became of it."""
        with self._database.write() as connection:
            notices.tell(connection, numbers, destination)
            totals.count(connection, totals.MESSAGES, *outcome)
