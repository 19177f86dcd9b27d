"""Webhook deliveries: stored before they are answered, marked once a step has considered them."""

import threading
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, func, insert, select, update

from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, fields_of, value_of
from receiver.adapters.store.figures import HEARTBEAT, LAST_DELIVERY, count_all, mark_all
from receiver.adapters.store.schema import alerts, deliveries, outbox
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert, SignalAction
from receiver.ports import Arrival, Delivery, TryLater

DELIVERIES_AT_ONCE = 6  # of the server's threads: the others keep answering while the database hangs
ENTRY_SECONDS = 1.0
ACTIONS = frozenset(SignalAction)
DELIVERY = ("receiver", "group_key", "body", "truncated", "warnings")  # fields stored under their names
NOT_CONSIDERED = select(deliveries.c.id).where(deliveries.c.considered_at.is_(None)).order_by(deliveries.c.id)
# One at a time: an IN (...) of each length would be another statement to compile and cache.
CONSIDER = (
    update(deliveries)
    .where(deliveries.c.id == bindparam("number"), deliveries.c.considered_at.is_(None))
    .values(considered_at=bindparam("now", type_=Moment))
)
# The newest by number, not by time: a clock may be set back, numbers only grow.
NEWEST = select(func.max(alerts.c.id)).where(alerts.c.received_at > bindparam("since", type_=Moment))
REMEMBERED = select(alerts).where(alerts.c.id.in_(NEWEST.group_by(alerts.c.fingerprint))).order_by(alerts.c.id)

LAST_STORED = select(
    select(func.max(deliveries.c.id)).scalar_subquery().label("delivery"),
    select(func.max(outbox.c.id)).scalar_subquery().label("notice"),
)


class SqlInbox(StorePart):
    """Deliveries, each in a transaction of its own."""

    _entry: threading.BoundedSemaphore

    def remember(self, delivery: Delivery, at: datetime) -> int:
        if not self._entry.acquire(timeout=ENTRY_SECONDS):
            raise TryLater("store: too many deliveries are waiting to be stored", code="store")
        try:
            with self._database.write() as connection:
                return _remember(connection, delivery, at)
        finally:
            self._entry.release()

    def newest(self) -> object:
        """Return what differs once a delivery was stored, or a notice, as with each change by a person."""
        return self._rows(LAST_STORED)

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]:
        return tuple(value_of(Alert, row) for row in self._rows(REMEMBERED, {"since": since}))

    def arrivals(self, since: datetime, until: datetime, *, limit: int = 500) -> Sequence[Arrival]:
        same = alerts.c.fingerprint, alerts.c.starts_at, alerts.c.firing
        first = select(func.min(alerts.c.id)).where(alerts.c.received_at.between(since, until)).group_by(*same)
        query = select(alerts).where(alerts.c.id.in_(first)).order_by(alerts.c.id.desc()).limit(limit)
        return tuple(Arrival(alert=value_of(Alert, row), at=row["received_at"]) for row in self._rows(query))


def _remember(connection: Connection, delivery: Delivery, at: datetime) -> int:
    values = {name: getattr(delivery, name) for name in DELIVERY}
    statement = insert(deliveries).returning(deliveries.c.id)
    number: int = connection.execute(statement, {**values, "received_at": at}).scalar_one()
    if delivery.alerts:
        received = [{**fields_of(alert), "delivery": number, "received_at": at} for alert in delivery.alerts]
        connection.execute(insert(alerts), received)
    # Arbitrary values of a sender must not become labels of a metric.
    actions = (alert.labels.get("action", "") for alert in delivery.alerts)
    by_action = Counter(action if action in ACTIONS else "other" for action in actions)
    count_all(connection, {("deliveries",): 1, **{("alerts", action): n for action, n in by_action.items()}})
    beats = any(a.firing and a.labels.get("alertname") == HEARTBEAT_ALERT for a in delivery.alerts)
    mark_all(connection, {LAST_DELIVERY: at, **({HEARTBEAT: at} if beats else {})})
    return number


def considered(connection: Connection, numbers: Sequence[int], at: datetime) -> None:
    """Mark *numbers* as considered; the first mark of each stays."""
    connection.execute(CONSIDER, [{"number": number, "now": at} for number in numbers])
