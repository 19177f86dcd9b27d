"""The outbox: each notice is told once per topic and key, and kept until every destination has it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import cache

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, or_, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import rows
from receiver.adapters.store.columns import storable
from receiver.adapters.store.database import StorePart, put
from receiver.adapters.store.prepared import Query, Write
from receiver.adapters.store.schema import outbox, tellings, topics
from receiver.adapters.store.totals import MESSAGES, count
from receiver.core.notices.grouping import OVER, SAID_EACH_STEP
from receiver.core.notices.sentences import Notice
from receiver.ports import StoredNotice, Telling

LONGEST_WAIT = timedelta(minutes=30)  # neither a retry nor a notice held back waits longer

# Compared as stored: what could not be kept was replaced.
TOLD = Query(select(topics).where(topics.c.topic.like(bindparam("pattern"), escape="/")))
TOLD_BEFORE = Query(select(topics.c.key == bindparam("same_key")).where(topics.c.topic == bindparam("of_topic")))


class SqlOutbox(StorePart):
    """What is said, and how far each notice is with each destination."""

    def say(self, notice: Notice, at: datetime) -> bool:
        with self._database.read() as connection:  # most was said before: that takes no write lock
            if _is_old(connection, notice):
                return False
        with self._database.write() as connection:
            return say(connection, notice, at)

    def stand(self, notices: Iterable[Notice], at: datetime) -> None:
        with self._database.read() as connection:  # mostly nothing waits: that takes no write lock
            if not _said_each_step(connection):
                return
        with self._database.write() as connection:
            _stand(connection, {storable(notice.topic): notice for notice in notices}, at)

    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]:
        escaped = prefix.replace("/", "//").replace("%", "/%").replace("_", "/_")
        with self._database.read() as connection:
            found = TOLD.rows(connection, pattern=f"{escaped}%")
        return {row["topic"]: (row["key"], row["told_at"]) for row in found}

    def notices_due(self, now: datetime, limit: int = 20) -> Sequence[StoredNotice]:
        # A time further away than any was set under a clock ahead of this one, and is not waited for.
        at = outbox.c.retry_at
        ready = or_(at.is_(None), at <= now, at > now + LONGEST_WAIT)
        query = select(outbox).where(*_undelivered(), ready).order_by(outbox.c.id).limit(limit)
        with self._database.read() as connection:
            return tuple(rows.notice(row) for row in connection.execute(query).mappings())

    def notices_like(self, group: str, limit: int = 1000) -> Sequence[StoredNotice]:
        query = select(outbox).where(outbox.c.grouped == group, *_undelivered()).order_by(outbox.c.id).limit(limit)
        with self._database.read() as connection:
            found = [rows.notice(row) for row in connection.execute(query).mappings()]
            tellings_of, newest = _tellings(connection, group), _newest(connection, found)
        return tuple(
            replace(one, tellings=tellings_of.get(one.id, {}), followed_by=cause if number > one.id else None)
            for one in found
            for number, cause in [newest[one.notice.topic]]
        )

    def reached_last(self, group: str, destination: str, now: datetime) -> datetime | None:
        at = tellings.c.reached_at
        query = select(func.max(at)).join(outbox)
        there = outbox.c.grouped == group, tellings.c.destination == destination, at <= now
        with self._database.read() as connection:
            return connection.execute(query.where(*there)).scalar()

    def notice_sent(self, notice: int, at: datetime) -> None:
        with self._database.write() as connection:
            if _update(connection, notice, {"sent_at": at}):
                count(connection, "notices", "sent")

    def notice_failed(self, notice: int, at: datetime, retry_at: datetime | None, error: str) -> None:
        values: dict[str, object] = {"attempts": outbox.c.attempts + 1, "retry_at": retry_at, "last_error": error}
        if retry_at is None:
            values["given_up_at"] = at
        with self._database.write() as connection:
            if _update(connection, notice, values) and retry_at is None:
                count(connection, "notices", "failed")

    def notices_over(self, numbers: Collection[int], at: datetime) -> None:
        with self._database.write() as connection:
            _over(connection, numbers, at)

    def notices_wait(self, numbers: Collection[int], until: datetime) -> None:
        waiting = update(outbox).where(outbox.c.id.in_(numbers), *_undelivered())
        with self._database.write() as connection:
            connection.execute(waiting.values(retry_at=until))

    def tell(self, numbers: Mapping[int, Telling], destination: str, outcome: tuple[str, str]) -> None:
        with self._database.write() as connection:
            for notice, telling in numbers.items():
                put(connection, tellings, {"notice": notice, "destination": destination, **asdict(telling)})
            count(connection, MESSAGES, *outcome)


def say(connection: Connection, notice: Notice, at: datetime) -> bool:
    """Insert *notice* unless the last one of its topic had the same key, or it clears what was never told."""
    if _is_old(connection, notice):
        return False
    put(connection, topics, {"topic": notice.topic, "key": notice.key, "told_at": at})
    fresh = {**rows.notice_values(notice), "created_at": at, "attempts": 0, "last_error": ""}
    _insertion(tuple(fresh)).run(connection, [fresh])
    return True


@cache
def _insertion(columns: tuple[str, ...]) -> Write:
    return Write(lambda _: plain_insert(outbox).inline(), columns)


def _is_old(connection: Connection, notice: Notice) -> bool:
    """True when the last notice of its topic had the same key, and for what clears what was never told."""
    told_before = TOLD_BEFORE.scalar(connection, of_topic=notice.topic, same_key=notice.key)
    return bool(told_before) or (notice.all_clear and told_before is None)


def _said_each_step(connection: Connection) -> Sequence[StoredNotice]:
    """Return the undelivered notices that every step says anew while they are true."""
    query = select(outbox).where(outbox.c.cause.in_(SAID_EACH_STEP), *_undelivered())
    return tuple(rows.notice(row) for row in connection.execute(query).mappings())


def _stand(connection: Connection, standing: Mapping[str, Notice], at: datetime) -> None:
    """Give those of *standing*, by topic, that wait in the outbox their present words, and end the others of their
    kind; what reached nobody may be said again."""
    for stored in _said_each_step(connection):
        notice, now = stored.notice, standing.get(stored.notice.topic)
        if now is None:
            _over(connection, [stored.id], at)
            if not _reached_anybody(connection, stored.id):
                connection.execute(delete(topics).where(topics.c.topic == notice.topic, topics.c.key == notice.key))
        elif storable(now.key) == notice.key and (now.title, now.body) != (notice.title, notice.body):
            _update(connection, stored.id, {"title": now.title, "body": now.body, "created_at": at})


def _over(connection: Connection, numbers: Collection[int], at: datetime) -> None:
    """End *numbers* undelivered: they are not true any more, and that is no failure."""
    ended = {"given_up_at": at, "last_error": OVER}
    connection.execute(update(outbox).where(outbox.c.id.in_(numbers), *_undelivered()).values(ended))


def _reached_anybody(connection: Connection, notice: int) -> bool:
    query = select(func.count()).where(tellings.c.notice == notice, tellings.c.reached_at.is_not(None))
    return bool(connection.execute(query).scalar())


def _tellings(connection: Connection, group: str) -> Mapping[int, Mapping[str, Telling]]:
    """How far each undelivered notice of *group* is, by destination."""
    found: dict[int, dict[str, Telling]] = {}
    of_them = select(tellings).join(outbox).where(outbox.c.grouped == group, *_undelivered())
    for row in connection.execute(of_them).mappings():
        found.setdefault(row["notice"], {})[row["destination"]] = Telling(
            attempts=row["attempts"],
            retry_at=row["retry_at"],
            reached_at=row["reached_at"],
            given_up_at=row["given_up_at"],
        )
    return found


def _newest(connection: Connection, found: Sequence[StoredNotice]) -> Mapping[str, tuple[int, str]]:
    """Number and cause of the newest notice of each topic of *found*."""
    if not found:
        return {}
    newer = outbox.c.id >= found[0].id, outbox.c.topic.in_({one.notice.topic for one in found})
    query = select(outbox.c.topic, outbox.c.id, outbox.c.cause).where(*newer).order_by(outbox.c.id)
    return {topic: (number, cause) for topic, number, cause in connection.execute(query)}


def _undelivered() -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return outbox.c.sent_at.is_(None), outbox.c.given_up_at.is_(None)


def _update(connection: Connection, notice: int, values: Mapping[str, object]) -> bool:
    """Change a notice that is still to be delivered; False for one that is not."""
    found = connection.execute(update(outbox).where(outbox.c.id == notice, *_undelivered()).values(values))
    return bool(found.rowcount == 1)
