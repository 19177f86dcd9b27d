"""Counters and marks: totals since the store was created, which do not fall when rows are pruned, and last times."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from receiver.adapters.store.database import StorePart, insert_in, put_all
from receiver.adapters.store.schema import actions, control, marks, outbox, totals

HEARTBEAT = "heartbeat"
LAST_DELIVERY = "last_delivery"
MESSAGES = "messages"  # by destination and outcome
PROVISION_BUCKETS = "provision_buckets"  # by pool, stage and the one bucket that each node falls into
PROVISION_MILLISECONDS = "provision_milliseconds"  # by pool and stage
MARKED = select(marks.c.at).where(marks.c.name == bindparam("of_name"))


@cache
def _addition(dialect: str) -> Any:
    """An INSERT that adds its total to the existing one."""
    statement = insert_in(dialect, totals)
    added = {"total": totals.c.total + statement.excluded.total}
    return statement.on_conflict_do_update(index_elements=[totals.c.name, totals.c.labels], set_=added)


def count(connection: Connection, name: str, *labels: str, by: int = 1) -> None:
    """Add *by* to the total *name* of *labels*."""
    count_all(connection, {(name, *labels): by})


def count_all(connection: Connection, by: Mapping[tuple[str, ...], int]) -> None:
    """Add to several totals, each named by its name and its labels.

    In sorted order: concurrent transactions then lock the rows in the same order and cannot deadlock.
    """
    added = [{"name": name, "labels": labels, "total": total} for (name, *labels), total in sorted(by.items())]
    connection.execute(_addition(connection.dialect.name), added)


def mark(connection: Connection, name: str, at: datetime) -> None:
    """Record that *name* happened at *at*; it replaces a later time, which was recorded under a wrong clock."""
    mark_all(connection, {name: at})


def mark_all(connection: Connection, moments: Mapping[str, datetime]) -> None:
    """Record the times of several events by name, in sorted order as in `count_all`."""
    put_all(connection, marks, [{"name": name, "at": at} for name, at in sorted(moments.items())])


def marked(connection: Connection, name: str) -> datetime | None:
    """Return when *name* last happened."""
    at: datetime | None = connection.execute(MARKED, {"of_name": name}).scalar()
    return at


class SqlTotals(StorePart):
    """Totals for /metrics."""

    def counts(self) -> Mapping[str, Any]:
        found: dict[str, dict[tuple[str, ...], int]] = {}
        pending = outbox.c.sent_at.is_(None), outbox.c.given_up_at.is_(None)
        oldest_pending = select(func.count(), func.min(outbox.c.created_at)).where(*pending)
        under_way = select(actions.c.pool, actions.c.opened_at).where(actions.c.closed_at.is_(None))
        with self._database.read() as connection:
            for row in connection.execute(select(totals)):
                found.setdefault(row.name, {})[tuple(row.labels)] = row.total
            waiting, oldest = connection.execute(oldest_pending).one()
            return {
                "deliveries": found.get("deliveries", {}).get((), 0),
                "alerts_by_action": _by_label(found.get("alerts", {})),
                "decisions": found.get("decisions", {}),
                "actions": found.get("actions", {}),
                "notices": {"sent": 0, "failed": 0, **_by_label(found.get("notices", {})), "pending": waiting},
                "oldest_notice_at": oldest,
                MESSAGES: found.get(MESSAGES, {}),
                "drifts": _by_label(found.get("drifts", {})),
                PROVISION_BUCKETS: found.get(PROVISION_BUCKETS, {}),
                PROVISION_MILLISECONDS: found.get(PROVISION_MILLISECONDS, {}),
                "open_actions": {row.pool: row.opened_at for row in connection.execute(under_way)},
                "last_delivery_at": marked(connection, LAST_DELIVERY),
                "heartbeat_at": marked(connection, HEARTBEAT),
                "last_step_at": connection.scalar(select(control.c.at)),
            }


def _by_label(found: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    """Totals of one label, by its value."""
    return {labels[0]: total for labels, total in found.items()}
