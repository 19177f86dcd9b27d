"""The outbox: each notice is sent once per topic and key, and kept until every destination has it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, bindparam, delete, func, or_, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store.columns import storable
from receiver.adapters.store.database import StorePart, fields_of, put, value_of
from receiver.adapters.store.figures import MESSAGES, count
from receiver.adapters.store.schema import outbox, tellings, topics
from receiver.core.notices.grouping import OVER, SAID_EACH_STEP, group_of
from receiver.core.notices.notice import Notice
from receiver.ports import StoredNotice, Telling

LONGEST_WAIT = timedelta(minutes=30)  # of a retry, or of a notice held back

UNDELIVERED = outbox.c.sent_at.is_(None) & outbox.c.given_up_at.is_(None)
WAITING = select(outbox).where(UNDELIVERED).order_by(outbox.c.id)
REPEATED = WAITING.where(outbox.c.cause.in_(SAID_EACH_STEP))  # those that every step repeats while they are true
CAUSES = select(outbox.c.topic, outbox.c.id, outbox.c.cause).order_by(outbox.c.id)
TOLD = select(topics).where(topics.c.topic.like(bindparam("pattern"), escape="/"))
LAST_KEY = select(topics.c.key).where(topics.c.topic == bindparam("of_topic"))
KEYS = select(topics.c.topic, topics.c.key).where(topics.c.topic.in_(bindparam("topics", expanding=True)))


class SqlOutbox(StorePart):
    """Notices, and how far each is with each destination."""

    def say(self, notice: Notice, at: datetime) -> bool:
        with self._database.read() as connection:  # most notices are repeats, which need no write lock
            if not _is_news(notice, _last_key(connection, notice)):
                return False
        with self._database.write() as connection:
            return say(connection, notice, at)

    def stand(self, notices: Sequence[Notice], at: datetime, *, complete: bool) -> Sequence[Notice]:
        standing = {storable(notice.topic): notice for notice in notices}
        with self._database.read() as connection:  # mostly nothing is new and nothing waits: no write lock is needed
            rows = connection.execute(KEYS, {"topics": list(standing)}) if standing else ()
            keys = {row.topic: row.key for row in rows}
            news = [notice for notice in notices if _is_news(notice, keys.get(storable(notice.topic)))]
            waits = complete and connection.execute(REPEATED).first() is not None
            if not (news or waits):
                return ()
        with self._database.write() as connection:
            new_notices = [notice for notice in news if say(connection, notice, at)]
            if complete:
                _bring_up_to_date(connection, standing, at)
        return new_notices

    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]:
        escaped = prefix.replace("/", "//").replace("%", "/%").replace("_", "/_")
        return {row["topic"]: (row["key"], row["told_at"]) for row in self._rows(TOLD, {"pattern": f"{escaped}%"})}

    def notices_due(self, now: datetime, limit: int = 20) -> Sequence[StoredNotice]:
        # A time further away than LONGEST_WAIT was set under a clock that was ahead.
        at = outbox.c.retry_at
        ready = or_(at.is_(None), at <= now, at > now + LONGEST_WAIT)
        return tuple(_stored(row) for row in self._rows(WAITING.where(ready).limit(limit)))

    def notices_like(self, group: str, limit: int = 1000) -> Sequence[StoredNotice]:
        of_group = outbox.c.grouped == group
        tellings_of: dict[int, dict[str, Telling]] = {}
        with self._database.read() as connection:
            notices = [_stored(row) for row in connection.execute(WAITING.where(of_group).limit(limit)).mappings()]
            progress = select(tellings).join(outbox).where(of_group, UNDELIVERED)
            for row in connection.execute(progress).mappings():
                tellings_of.setdefault(row["notice"], {})[row["destination"]] = value_of(Telling, row)
            # Number and cause of the newest notice of each topic.
            oldest, topics_of = min((n.id for n in notices), default=0), {n.notice.topic for n in notices}
            newer = CAUSES.where(outbox.c.id >= oldest, outbox.c.topic.in_(topics_of))
            newest = {topic: (number, cause) for topic, number, cause in connection.execute(newer)}
        return tuple(
            replace(stored, tellings=tellings_of.get(stored.id, {}), followed_by=cause if number > stored.id else None)
            for stored in notices
            for number, cause in [newest[stored.notice.topic]]
        )

    def reached_last(self, group: str, destination: str, now: datetime) -> datetime | None:
        at = tellings.c.reached_at
        query = select(func.max(at)).join(outbox)
        conditions = outbox.c.grouped == group, tellings.c.destination == destination, at <= now
        with self._database.read() as connection:
            return connection.execute(query.where(*conditions)).scalar()

    def notice_sent(self, notice: int, at: datetime) -> None:
        with self._database.write() as connection:
            if _update(connection, [notice], sent_at=at):
                count(connection, "notices", "sent")

    def notice_failed(self, notice: int, at: datetime, retry_at: datetime | None, error: str) -> None:
        values = {"attempts": outbox.c.attempts + 1, "retry_at": retry_at, "last_error": error}
        with self._database.write() as connection:
            if retry_at is not None:
                _update(connection, [notice], **values)
            elif _update(connection, [notice], **values, given_up_at=at):
                count(connection, "notices", "failed")

    def notices_over(self, numbers: Collection[int], at: datetime) -> None:
        with self._database.write() as connection:
            _update(connection, numbers, given_up_at=at, last_error=OVER)

    def notices_wait(self, numbers: Collection[int], until: datetime) -> None:
        with self._database.write() as connection:
            _update(connection, numbers, retry_at=until)

    def tell(self, numbers: Mapping[int, Telling], destination: str, outcome: tuple[str, str]) -> None:
        with self._database.write() as connection:
            for notice, telling in numbers.items():
                put(connection, tellings, {"notice": notice, "destination": destination, **fields_of(telling)})
            count(connection, MESSAGES, *outcome)

    def messages(
        self, since: datetime, until: datetime, *, pool: str | None = None, limit: int = 200
    ) -> Sequence[StoredNotice]:
        query = select(outbox).where(outbox.c.created_at.between(since, until)).order_by(outbox.c.id.desc())
        if pool is not None:
            query = query.where(outbox.c.pool == pool)
        return tuple(_stored(row) for row in self._rows(query.limit(limit)))

    def undelivered(self, *, limit: int = 20) -> Sequence[StoredNotice]:
        return tuple(_stored(row) for row in self._rows(WAITING.limit(limit)))


def say(connection: Connection, notice: Notice, at: datetime) -> bool:
    """Insert *notice* unless the last one of its topic had the same key, or it is the all-clear of nothing."""
    if not _is_news(notice, _last_key(connection, notice)):
        return False
    put(connection, topics, {"topic": notice.topic, "key": notice.key, "told_at": at})
    values = {"grouped": group_of(notice), "created_at": at, "attempts": 0, "last_error": ""}
    connection.execute(plain_insert(outbox), {**fields_of(notice), **values})
    return True


def _last_key(connection: Connection, notice: Notice) -> str | None:
    key = connection.execute(LAST_KEY, {"of_topic": notice.topic}).scalar()
    return None if key is None else str(key)


def _is_news(notice: Notice, last_key: str | None) -> bool:
    """True unless the last notice of its topic had the same key, or it is the all-clear of nothing."""
    if last_key is None:
        return not notice.all_clear
    return storable(notice.key) != last_key


def _bring_up_to_date(connection: Connection, standing: Mapping[str, Notice], at: datetime) -> None:
    """Give the waiting notices that steps repeat the words of *standing*, by topic; withdraw those not among them."""
    for stored in [_stored(row) for row in connection.execute(REPEATED).mappings()]:
        notice, now = stored.notice, standing.get(stored.notice.topic)
        if now is None:
            _update(connection, [stored.id], given_up_at=at, last_error=OVER)
            reached = select(tellings).where(tellings.c.notice == stored.id, tellings.c.reached_at.is_not(None))
            if connection.execute(reached).first() is None:  # the topic may be sent again
                same = topics.c.topic == notice.topic, topics.c.key == notice.key
                connection.execute(delete(topics).where(*same))
        elif storable(now.key) == notice.key and (now.title, now.body) != (notice.title, notice.body):
            # After a failed attempt the age stays: GpuAutoscalerNoticesStuck reads it.
            told_at = {} if stored.attempts else {"created_at": at}
            _update(connection, [stored.id], title=now.title, body=now.body, **told_at)


def _update(connection: Connection, numbers: Collection[int], **values: object) -> bool:
    """Change notices that are still to be delivered; True if there were any."""
    cursor = connection.execute(update(outbox).where(outbox.c.id.in_(numbers), UNDELIVERED).values(values))
    return bool(cursor.rowcount)


def _stored(row: RowMapping) -> StoredNotice:
    outcome = {name: row[name] for name in ("id", "attempts", "sent_at", "given_up_at", "last_error")}
    return StoredNotice(notice=value_of(Notice, row), at=row["created_at"], **outcome)
