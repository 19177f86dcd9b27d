"""Counters and marks: what /metrics shows must not fall when rows are pruned."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from receiver.adapters.store.database import StorePart, insert_in, put_all
from receiver.adapters.store.prepared import Query, Write
from receiver.adapters.store.schema import actions, control, marks, outbox, totals

HEARTBEAT = "heartbeat"
LAST_DELIVERY = "last_delivery"
MESSAGES = "messages"  # by destination and outcome
PROVISION_BUCKETS = "provision_buckets"  # by pool, stage and the one bucket that each node falls into
PROVISION_MILLISECONDS = "provision_milliseconds"  # by pool and stage
MARKED = Query(select(marks.c.at).where(marks.c.name == bindparam("of_name")))


def _addition(dialect: str) -> Any:
    """An INSERT that adds its total to the one there is."""
    statement = insert_in(dialect, totals)
    added = {"total": totals.c.total + statement.excluded.total}
    return statement.on_conflict_do_update(index_elements=[totals.c.name, totals.c.labels], set_=added)


ADD = Write(_addition, ("name", "labels", "total"))


def count(connection: Connection, name: str, *labels: str, by: int = 1) -> None:
    """Add *by* to the total *name* of *labels*."""
    count_all(connection, {(name, *labels): by})


def count_all(connection: Connection, by: Mapping[tuple[str, ...], int]) -> None:
    """Add to several totals at once; each is named by its name and then its labels.

    In order, so that two processes that do so lock their rows in the same one.
    """
    added = [{"name": name, "labels": labels, "total": total} for (name, *labels), total in sorted(by.items())]
    ADD.run(connection, added)


def mark(connection: Connection, name: str, at: datetime) -> None:
    """Note that *name* happened at *at*. The latest note counts, whatever an earlier one under a wrong clock said."""
    mark_all(connection, {name: at})


def mark_all(connection: Connection, moments: Mapping[str, datetime]) -> None:
    """Note the moments of several things that happened, by name."""
    put_all(connection, marks, [{"name": name, "at": at} for name, at in sorted(moments.items())])


def marked(connection: Connection, name: str) -> datetime | None:
    """When *name* happened last."""
    at: datetime | None = MARKED.scalar(connection, of_name=name)
    return at


class SqlTotals(StorePart):
    """What /metrics shows."""

    def counts(self) -> Mapping[str, Any]:
        with self._database.read() as connection:
            found: dict[str, dict[tuple[str, ...], int]] = {}
            for row in connection.execute(select(totals)).mappings():
                found.setdefault(row["name"], {})[tuple(row["labels"])] = row["total"]
            alerts = {labels[0]: total for labels, total in found.get("alerts", {}).items()}
            pending = outbox.c.sent_at.is_(None), outbox.c.given_up_at.is_(None)
            waiting, oldest = connection.execute(
                select(func.count(), func.min(outbox.c.created_at)).where(*pending)
            ).one()
            notices = {labels[0]: total for labels, total in found.get("notices", {}).items()}
            under_way = select(actions.c.pool, actions.c.opened_at).where(actions.c.closed_at.is_(None))
            return {
                "deliveries": found.get("deliveries", {}).get((), 0),
                "alerts_by_action": alerts,
                "decisions": found.get("decisions", {}),
                "actions": found.get("actions", {}),
                "notices": {"sent": 0, "failed": 0, **notices, "pending": waiting},
                "oldest_notice_at": oldest,
                MESSAGES: found.get(MESSAGES, {}),
                "drifts": {labels[0]: total for labels, total in found.get("drifts", {}).items()},
                PROVISION_BUCKETS: found.get(PROVISION_BUCKETS, {}),
                PROVISION_MILLISECONDS: found.get(PROVISION_MILLISECONDS, {}),
                "open_actions": {row.pool: row.opened_at for row in connection.execute(under_way)},
                "last_delivery_at": marked(connection, LAST_DELIVERY),
                "heartbeat_at": marked(connection, HEARTBEAT),
                "last_step_at": connection.scalar(select(control.c.at)),
            }
