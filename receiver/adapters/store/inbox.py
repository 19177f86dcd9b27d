"""Webhook deliveries: kept before they are answered, marked once a step has considered them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, func, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import rows
from receiver.adapters.store.schema import alerts, deliveries
from receiver.adapters.store.totals import HEARTBEAT, LAST_DELIVERY, count, mark
from receiver.core.model import SignalAction
from receiver.core.signals import HEARTBEAT_ALERT, Alert
from receiver.ports import Delivery

AT_ONCE = 500  # numbers in one IN (...): every engine takes that many

NOT_CONSIDERED = select(deliveries.c.id).where(deliveries.c.considered_at.is_(None)).order_by(deliveries.c.id)


def remember(connection: Connection, delivery: Delivery, at: datetime) -> int:
    """Insert one delivery with its alerts; return its number."""
    values = {
        "receiver": delivery.receiver,
        "group_key": delivery.group_key,
        "body": delivery.body,
        "truncated": delivery.truncated,
        "warnings": list(delivery.warnings),
        "received_at": at,
    }
    number: int = connection.execute(plain_insert(deliveries).values(values).returning(deliveries.c.id)).scalar_one()
    if delivery.alerts:
        listed = [{"delivery": number, "received_at": at, **rows.alert_values(a)} for a in delivery.alerts]
        connection.execute(plain_insert(alerts), listed)
    count(connection, "deliveries")
    mark(connection, LAST_DELIVERY, at)
    if any(a.firing and a.labels.get("alertname") == HEARTBEAT_ALERT for a in delivery.alerts):
        mark(connection, HEARTBEAT, at)
    by_action: dict[str, int] = {}
    for alert in delivery.alerts:
        by_action[_action(alert)] = by_action.get(_action(alert), 0) + 1
    for action, total in sorted(by_action.items()):
        count(connection, "alerts", action, by=total)
    return number


def _action(alert: Alert) -> str:
    """The label `action`, or `other`: what a sender makes up must not become a metric's label."""
    said = alert.labels.get("action", "")
    return said if said in list(SignalAction) else "other"


def remembered_alerts(connection: Connection, since: datetime) -> tuple[Alert, ...]:
    """Return the newest alert per fingerprint among the deliveries received after *since*."""
    newest = alerts.c.id.desc()  # not by time: a clock may be set back, numbers only grow
    place = func.row_number().over(partition_by=alerts.c.fingerprint, order_by=newest).label("place")
    ranked = select(alerts, place).where(alerts.c.received_at > since).subquery()
    found = connection.execute(select(ranked).where(ranked.c.place == 1).order_by(ranked.c.id))
    return tuple(rows.alert(row) for row in found.mappings())


def not_considered(connection: Connection) -> tuple[int, ...]:
    """Return the numbers of the deliveries that no finished step has considered."""
    return tuple(connection.execute(NOT_CONSIDERED).scalars())


def considered(connection: Connection, numbers: Sequence[int], at: datetime) -> None:
    """Mark *numbers* as considered; the first time counts."""
    for start in range(0, len(numbers), AT_ONCE):
        chosen = deliveries.c.id.in_(numbers[start : start + AT_ONCE])
        connection.execute(
            update(deliveries).where(chosen, deliveries.c.considered_at.is_(None)).values(considered_at=at)
        )
