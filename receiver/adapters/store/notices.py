"""The outbox: each notice is told once per topic and key, and kept until every destination has it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import cache

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, or_, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import rows
from receiver.adapters.store.columns import storable
from receiver.adapters.store.database import put
from receiver.adapters.store.prepared import Query, Write
from receiver.adapters.store.schema import outbox, tellings, topics
from receiver.adapters.store.totals import count
from receiver.core.notices.grouping import OVER, SAID_EACH_STEP
from receiver.core.notices.sentences import Notice
from receiver.ports import StoredNotice, Telling

LONGEST_WAIT = timedelta(minutes=30)  # neither a retry nor a notice held back waits longer

# Compared as stored: what could not be kept was replaced.
TOLD = Query(select(topics).where(topics.c.topic.like(bindparam("pattern"), escape="/")))
TOLD_BEFORE = Query(select(topics.c.key == bindparam("same_key")).where(topics.c.topic == bindparam("of_topic")))


def say(connection: Connection, notice: Notice, at: datetime) -> bool:
    """Insert *notice* unless the last one of its topic had the same key, or it clears what was never told."""
    if is_old(connection, notice):
        return False
    put(connection, topics, {"topic": notice.topic, "key": notice.key, "told_at": at})
    fresh = {**rows.notice_values(notice), "created_at": at, "attempts": 0, "last_error": ""}
    _insertion(tuple(fresh)).run(connection, [fresh])
    return True


@cache
def _insertion(columns: tuple[str, ...]) -> Write:
    return Write(lambda _: plain_insert(outbox).inline(), columns)


def is_old(connection: Connection, notice: Notice) -> bool:
    """True when the last notice of its topic had the same key, and for what clears what was never told."""
    told_before = TOLD_BEFORE.scalar(connection, of_topic=notice.topic, same_key=notice.key)
    return bool(told_before) or (notice.all_clear and told_before is None)


def said_each_step(connection: Connection) -> Sequence[StoredNotice]:
    """Return the undelivered notices that every step says anew while they are true."""
    query = select(outbox).where(outbox.c.cause.in_(SAID_EACH_STEP), *_undelivered())
    return tuple(rows.notice(row) for row in connection.execute(query).mappings())


def stand(connection: Connection, standing: Mapping[str, Notice], at: datetime) -> None:
    """Give those of *standing*, by topic, that wait in the outbox their present words, and end the others of their
    kind; what reached nobody may be said again."""
    for stored in said_each_step(connection):
        notice, now = stored.notice, standing.get(stored.notice.topic)
        if now is None:
            over(connection, [stored.id], at)
            if not _reached_anybody(connection, stored.id):
                connection.execute(delete(topics).where(topics.c.topic == notice.topic, topics.c.key == notice.key))
        elif storable(now.key) == notice.key and (now.title, now.body) != (notice.title, notice.body):
            _update(connection, stored.id, {"title": now.title, "body": now.body, "created_at": at})


def over(connection: Connection, numbers: Collection[int], at: datetime) -> None:
    """End *numbers* undelivered: they are not true any more, and that is no failure."""
    ended = {"given_up_at": at, "last_error": OVER}
    connection.execute(update(outbox).where(outbox.c.id.in_(numbers), *_undelivered()).values(ended))


def _reached_anybody(connection: Connection, notice: int) -> bool:
    query = select(func.count()).where(tellings.c.notice == notice, tellings.c.reached_at.is_not(None))
    return bool(connection.execute(query).scalar())


def told(connection: Connection, prefix: str) -> Mapping[str, tuple[str, datetime]]:
    """Return key and time of the last notice of each topic that begins with *prefix*."""
    escaped = prefix.replace("/", "//").replace("%", "/%").replace("_", "/_")
    return {row["topic"]: (row["key"], row["told_at"]) for row in TOLD.rows(connection, pattern=f"{escaped}%")}


def due(connection: Connection, now: datetime, limit: int) -> Sequence[StoredNotice]:
    """Return the notices of which something is to be done now, oldest first.

    A time further away than any was set under a clock ahead of this one, and is not waited for.
    """
    at = outbox.c.retry_at
    ready = or_(at.is_(None), at <= now, at > now + LONGEST_WAIT)
    query = select(outbox).where(*_undelivered(), ready).order_by(outbox.c.id).limit(limit)
    return tuple(rows.notice(row) for row in connection.execute(query).mappings())


def like(connection: Connection, group: str, limit: int) -> Sequence[StoredNotice]:
    """Return the undelivered notices of *group*, oldest first, with how far each is with each destination."""
    query = select(outbox).where(outbox.c.grouped == group, *_undelivered()).order_by(outbox.c.id).limit(limit)
    found = [rows.notice(row) for row in connection.execute(query).mappings()]
    how_far: dict[int, dict[str, Telling]] = {}
    of_them = select(tellings).join(outbox).where(outbox.c.grouped == group, *_undelivered())
    for row in connection.execute(of_them).mappings():
        how_far.setdefault(row["notice"], {})[row["destination"]] = Telling(
            attempts=row["attempts"],
            retry_at=row["retry_at"],
            reached_at=row["reached_at"],
            given_up_at=row["given_up_at"],
        )
    newest = _newest(connection, found)
    return tuple(
        replace(one, tellings=how_far.get(one.id, {}), followed_by=cause if number > one.id else None)
        for one in found
        for number, cause in [newest[one.notice.topic]]
    )


def _newest(connection: Connection, found: Sequence[StoredNotice]) -> Mapping[str, tuple[int, str]]:
    """Number and cause of the newest notice of each topic of *found*."""
    if not found:
        return {}
    newer = outbox.c.id >= found[0].id, outbox.c.topic.in_({one.notice.topic for one in found})
    query = select(outbox.c.topic, outbox.c.id, outbox.c.cause).where(*newer).order_by(outbox.c.id)
    return {topic: (number, cause) for topic, number, cause in connection.execute(query)}


def reached_last(connection: Connection, group: str, destination: str, now: datetime) -> datetime | None:
    """When a notice of *group* last reached *destination*, not after *now*."""
    at = tellings.c.reached_at
    query = select(func.max(at)).join(outbox)
    return connection.execute(
        query.where(outbox.c.grouped == group, tellings.c.destination == destination, at <= now)
    ).scalar()


def sent(connection: Connection, notice: int, at: datetime) -> None:
    """Mark a notice as delivered."""
    if _update(connection, notice, {"sent_at": at}):
        count(connection, "notices", "sent")


def failed(connection: Connection, notice: int, at: datetime, retry_at: datetime | None, error: str) -> None:
    """Count a failed delivery; without *retry_at* the notice is given up."""
    values: dict[str, object] = {"attempts": outbox.c.attempts + 1, "retry_at": retry_at, "last_error": error}
    if retry_at is None:
        values["given_up_at"] = at
    if _update(connection, notice, values) and retry_at is None:
        count(connection, "notices", "failed")


def wait(connection: Connection, notices: Collection[int], until: datetime) -> None:
    """Do nothing about *notices* before *until*."""
    connection.execute(update(outbox).where(outbox.c.id.in_(notices), *_undelivered()).values(retry_at=until))


def tell(connection: Connection, notices: Mapping[int, Telling], destination: str) -> None:
    """Keep how far each of *notices* is with *destination*."""
    for notice, telling in notices.items():
        put(connection, tellings, {"notice": notice, "destination": destination, **asdict(telling)})


def _undelivered() -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return outbox.c.sent_at.is_(None), outbox.c.given_up_at.is_(None)


def _update(connection: Connection, notice: int, values: Mapping[str, object]) -> bool:
    """Change a notice that is still to be delivered; False for one that is not."""
    found = connection.execute(update(outbox).where(outbox.c.id == notice, *_undelivered()).values(values))
    return bool(found.rowcount == 1)
