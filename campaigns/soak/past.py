"""A past for a store that is a few hours old: its closed rows again and again, back to what the longest window reads.

Without it, every figure of a young store grows for as long as its windows fill: a week of samples, a month of work.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Table, create_engine, insert, select, update

from receiver.adapters.store import schema
from receiver.adapters.store.sql_store import DECISIONS_KEPT, LIVES_KEPT, SAMPLES_KEPT
from receiver.adapters.store.usage import ACCOUNTED_SINCE

A_WEEK = timedelta(days=7)
FAR = 10**7  # between the numbers of two copies
Row = dict[str, Any]
# What tells two rows of a table apart or refers to another copied row, and how long a row is kept.
NAMES: Mapping[Table, tuple[tuple[str, ...], timedelta]] = {
    schema.node_lives: (("instance",), LIVES_KEPT),
    schema.workload_lives: (("life",), LIVES_KEPT),
    schema.usage: (("instance", "life"), LIVES_KEPT),
    schema.unwatched: (("instance",), LIVES_KEPT),
    schema.actions: (("id", "decision"), LIVES_KEPT),
    schema.overrides: (("id",), LIVES_KEPT),
    schema.grounds: (("digest",), DECISIONS_KEPT),
    schema.decisions: (("id", "facts", "policy"), DECISIONS_KEPT),
    schema.topics: (("topic",), DECISIONS_KEPT),
    schema.turns: (("instance",), SAMPLES_KEPT),
    schema.samples: ((), SAMPLES_KEPT),
    schema.outbox: (("id", "topic", "decision"), A_WEEK),
    schema.deliveries: (("id",), A_WEEK),
    schema.alerts: (("id", "delivery"), A_WEEK),
}
ENDS = ("gone_at", "ended_at", "closed_at", "sent_at", "considered_at")  # columns that are empty while a row is open


def add_past(url: str, span: timedelta, days: float) -> dict[str, int]:
    """Write *days* of past before the *span* that the store at *url* has; no server uses it. Returns the new rows by
    table."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            lives = connection.execute(select(schema.node_lives).where(schema.node_lives.c.gone_at.is_not(None)))
            gone = {life.instance: life.created_at for life in lives}
            written = {
                table.name: _again(connection, table, names, span, min(timedelta(days=days), kept), gone)
                for table, (names, kept) in NAMES.items()
            }
            mark = schema.marks.c.name == ACCOUNTED_SINCE
            if (began := connection.execute(select(schema.marks.c.at).where(mark)).scalar()) is not None:
                connection.execute(update(schema.marks).where(mark).values(at=began - timedelta(days=days)))
            return written
    finally:
        engine.dispose()


def _again(
    connection: Connection,
    table: Table,
    names: Sequence[str],
    span: timedelta,
    kept: timedelta,
    gone: Mapping[str, datetime],
) -> int:
    """Write the closed rows of *table* once for each *span* that fits into the time for which they are *kept*."""
    closed = [row for row in map(dict, connection.execute(select(table)).mappings()) if _is_closed(row, gone)]
    copies = [
        {name: _earlier(name, value, row, names, number, number * span, gone) for name, value in row.items()}
        for number in range(1, int(kept / span) + 1)
        for row in closed
    ]
    if copies:
        connection.execute(insert(table), copies)
    return len(copies)


def _is_closed(row: Row, gone: Mapping[str, datetime]) -> bool:
    return all(row[name] is not None for name in ENDS if name in row) and row.get("instance", "") in {"", *gone}


def _earlier(
    name: str, value: Any, row: Row, names: Sequence[str], number: int, back: timedelta, gone: Mapping[str, datetime]
) -> Any:
    """The *value* of column *name* in the copy of *row* that lies *back*."""
    if isinstance(value, datetime):
        return value - back
    if name == "month":
        return f"{gone[row['instance']] - back:%Y-%m}"
    if name not in names or value is None:
        return value
    return value - number * FAR if isinstance(value, int) else f"{value}-{number}"
