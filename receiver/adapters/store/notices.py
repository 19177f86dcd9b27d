"""The outbox: each notice is told once per topic and key, and kept until every destination has it."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, bindparam, or_, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import rows
from receiver.adapters.store.database import put
from receiver.adapters.store.schema import outbox, topics
from receiver.adapters.store.totals import count
from receiver.core.tell import Notice
from receiver.ports import StoredNotice

# Compared as stored: what could not be kept was replaced.
TOLD_BEFORE = select(topics.c.key == bindparam("same_key")).where(topics.c.topic == bindparam("of_topic"))


def say(connection: Connection, notice: Notice, at: datetime) -> bool:
    """Insert *notice* unless the last one of its topic had the same key, or it clears what was never told."""
    told_before = connection.execute(TOLD_BEFORE, {"of_topic": notice.topic, "same_key": notice.key}).scalar()
    if told_before or (notice.all_clear and told_before is None):
        return False
    put(connection, topics, {"topic": notice.topic, "key": notice.key, "told_at": at})
    fresh = {**rows.notice_values(notice), "created_at": at, "attempts": 0, "reached": [], "last_error": ""}
    connection.execute(plain_insert(outbox).values(fresh))
    return True


def told(connection: Connection, prefix: str) -> Mapping[str, tuple[str, datetime]]:
    """Return key and time of the last notice of each topic that begins with *prefix*."""
    query = select(topics).where(topics.c.topic.startswith(prefix, autoescape=True))
    return {row["topic"]: (row["key"], row["told_at"]) for row in connection.execute(query).mappings()}


def due(connection: Connection, now: datetime, limit: int) -> Sequence[StoredNotice]:
    """Return the notices to deliver now, oldest first."""
    ready = or_(outbox.c.retry_at.is_(None), outbox.c.retry_at <= now)
    query = select(outbox).where(*_undelivered(), ready).order_by(outbox.c.id).limit(limit)
    return tuple(rows.notice(row) for row in connection.execute(query).mappings())


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


def reached(connection: Connection, notice: int) -> frozenset[str]:
    """Return the destinations (as the outbox calls them) that have a notice already."""
    found = connection.execute(select(outbox.c.reached).where(outbox.c.id == notice)).scalar()
    return frozenset(found or ())


def reach(connection: Connection, notice: int, destination: str) -> None:
    """Note that *destination* has a notice, so that another one's failure does not send it there again."""
    everyone = sorted(reached(connection, notice) | {destination})
    connection.execute(update(outbox).where(outbox.c.id == notice).values(reached=everyone))


def _undelivered() -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return outbox.c.sent_at.is_(None), outbox.c.given_up_at.is_(None)


def _update(connection: Connection, notice: int, values: Mapping[str, object]) -> bool:
    """Change a notice that is still to be delivered; False for one that is not."""
    found = connection.execute(update(outbox).where(outbox.c.id == notice, *_undelivered()).values(values))
    return bool(found.rowcount == 1)
