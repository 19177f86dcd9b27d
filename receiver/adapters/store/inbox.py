"""Webhook deliveries: stored before they are answered, marked once a step has considered them."""

import threading
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, bindparam, func, insert, select, update

from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, Values
from receiver.adapters.store.schema import alerts, deliveries
from receiver.adapters.store.totals import HEARTBEAT, LAST_DELIVERY, count_all, mark_all
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert, SignalAction
from receiver.ports import Delivery, TryLater

DELIVERIES_AT_ONCE = 6  # of the server's threads: the others keep answering while the database hangs
ENTRY_SECONDS = 1.0
ACTIONS = frozenset(SignalAction)
ALERT = ("fingerprint", "starts_at", "firing", "labels", "annotations")  # fields of `Alert` stored under their names
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

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]:
        with self._database.read() as connection:
            return tuple(alert_of(row) for row in connection.execute(REMEMBERED, {"since": since}).mappings())


def _remember(connection: Connection, delivery: Delivery, at: datetime) -> int:
    number: int = connection.execute(
        insert(deliveries).returning(deliveries.c.id),
        {
            "receiver": delivery.receiver,
            "group_key": delivery.group_key,
            "body": delivery.body,
            "truncated": delivery.truncated,
            "warnings": list(delivery.warnings),
            "received_at": at,
        },
    ).scalar_one()
    if delivery.alerts:
        received = [{"delivery": number, "received_at": at, **_alert_values(alert)} for alert in delivery.alerts]
        connection.execute(insert(alerts), received)
    by_action = Counter(_action(alert) for alert in delivery.alerts)
    count_all(connection, {("deliveries",): 1, **{("alerts", action): n for action, n in by_action.items()}})
    mark_all(connection, {LAST_DELIVERY: at, **({HEARTBEAT: at} if _is_heartbeat(delivery) else {})})
    return number


def _alert_values(alert: Alert) -> Values:
    return {name: getattr(alert, name) for name in ALERT}


def alert_of(row: RowMapping) -> Alert:
    """Return one alert as it was delivered."""
    return Alert(delivery=row["delivery"], **{name: row[name] for name in ALERT})


def _is_heartbeat(delivery: Delivery) -> bool:
    return any(a.firing and a.labels.get("alertname") == HEARTBEAT_ALERT for a in delivery.alerts)


def _action(alert: Alert) -> str:
    """The label `action`, or `other`: arbitrary values of a sender must not become labels of a metric."""
    action = alert.labels.get("action", "")
    return action if action in ACTIONS else "other"


def not_considered(connection: Connection) -> tuple[int, ...]:
    """Return the numbers of the deliveries that no finished step has considered."""
    return tuple(connection.execute(NOT_CONSIDERED).scalars())


def considered(connection: Connection, numbers: Sequence[int], at: datetime) -> None:
    """Mark *numbers* as considered; the first mark of each stays."""
    connection.execute(CONSIDER, [{"number": number, "now": at} for number in numbers])
