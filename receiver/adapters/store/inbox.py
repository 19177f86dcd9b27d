"""Webhook deliveries: kept before they are answered, marked once a step has considered them."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, func, insert, select, update

from receiver.adapters.store import rows
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, upsert
from receiver.adapters.store.intake import Intake
from receiver.adapters.store.prepared import Query, Write
from receiver.adapters.store.schema import alerts, deliveries, marks
from receiver.adapters.store.totals import ADD, HEARTBEAT, LAST_DELIVERY
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert, SignalAction
from receiver.ports import Delivery

ACTIONS = frozenset(SignalAction)
DELIVERY = ("receiver", "group_key", "body", "truncated", "warnings", "received_at")
ALERT = ("delivery", "fingerprint", "starts_at", "firing", "labels", "annotations", "received_at")
NOT_CONSIDERED = Query(select(deliveries.c.id).where(deliveries.c.considered_at.is_(None)).order_by(deliveries.c.id))


# One by one: every length of an IN (...) is a text of its own, and connections keep the last 128 texts compiled.
CONSIDER = Write(
    lambda _: (
        update(deliveries)
        .where(deliveries.c.id == bindparam("number"), deliveries.c.considered_at.is_(None))
        .values(considered_at=bindparam("now", type_=Moment))
    )
)
INSERT_DELIVERIES = Write(lambda _: insert(deliveries).returning(deliveries.c.id), DELIVERY)
INSERT_ALERTS = Write(lambda _: insert(alerts), ALERT)


# The newest by number, not by time: a clock may be set back, numbers only grow.
NEWEST = select(func.max(alerts.c.id)).where(alerts.c.received_at > bindparam("since", type_=Moment))
REMEMBERED = Query(select(alerts).where(alerts.c.id.in_(NEWEST.group_by(alerts.c.fingerprint))).order_by(alerts.c.id))


class SqlInbox(StorePart):
    """Deliveries, which share commits (`receiver.adapters.store.intake`)."""

    _intake: Intake

    def remember(self, delivery: Delivery, at: datetime) -> int:
        return self._intake.remember(delivery, at)

    def _keep(self, received: Sequence[tuple[Delivery, datetime]]) -> Sequence[int]:
        """Insert deliveries, each with when it came, and their alerts, in one transaction; return their numbers, which
        grow in that order.

        However many they are, it takes the same few statements. Totals and marks are written in order, so that two
        processes that do so lock their rows in the same one.
        """
        with self._database.write() as connection:
            numbers = INSERT_DELIVERIES.numbered(connection, [_values(d, at) for d, at in received])
            listed = [
                {"delivery": number, "received_at": at, **rows.alert_values(alert)}
                for number, (delivery, at) in zip(numbers, received, strict=True)
                for alert in delivery.alerts
            ]
            INSERT_ALERTS.run(connection, listed)
            by_action = Counter(_action(alert) for delivery, _ in received for alert in delivery.alerts)
            counted = [{"name": "alerts", "labels": [action], "total": n} for action, n in sorted(by_action.items())]
            ADD.run(connection, [*counted, {"name": "deliveries", "labels": [], "total": len(received)}])
            heard = [{"name": HEARTBEAT, "at": at} for delivery, at in received if _is_heartbeat(delivery)]
            marked = [*heard[-1:], {"name": LAST_DELIVERY, "at": received[-1][1]}]
            upsert(marks, ("name", "at")).run(connection, marked)
        return tuple(numbers)

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]:
        with self._database.read() as connection:
            return tuple(rows.alert(row) for row in REMEMBERED.rows(connection, since=since))


def _values(delivery: Delivery, at: datetime) -> rows.Values:
    return {
        "receiver": delivery.receiver,
        "group_key": delivery.group_key,
        "body": delivery.body,
        "truncated": delivery.truncated,
        "warnings": list(delivery.warnings),
        "received_at": at,
    }


def _is_heartbeat(delivery: Delivery) -> bool:
    return any(a.firing and a.labels.get("alertname") == HEARTBEAT_ALERT for a in delivery.alerts)


def _action(alert: Alert) -> str:
    """The label `action`, or `other`: what a sender makes up must not become a metric's label."""
    said = alert.labels.get("action", "")
    return said if said in ACTIONS else "other"


def not_considered(connection: Connection) -> tuple[int, ...]:
    """Return the numbers of the deliveries that no finished step has considered."""
    return tuple(NOT_CONSIDERED.scalars(connection))


def considered(connection: Connection, numbers: Sequence[int], at: datetime) -> None:
    """Mark *numbers* as considered; the first time counts."""
    CONSIDER.run(connection, [{"number": number, "now": at} for number in numbers])
