"""Alerts as Alertmanager tells them, reduced to signals."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from receiver.core.model.model import UNASSIGNED, Signal, SignalAction
from receiver.core.model.policy import Policy

HEARTBEAT_ALERT = "GpuAutoscalerHeartbeat"
REPEAT_INTERVAL = timedelta(hours=4)  # of an Alertmanager route that sets none
GROUP_INTERVAL = timedelta(minutes=5)


def payload_life(repeat_interval: timedelta = REPEAT_INTERVAL, group_interval: timedelta = GROUP_INTERVAL) -> timedelta:
    """Return how long an alert counts after its last delivery.

    Alertmanager repeats a firing alert at most *repeat_interval* + *group_interval* after the last delivery, and one
    *group_interval* later if a delivery fails.
    """
    return 2 * repeat_interval + group_interval


PAYLOAD_LIFE = payload_life()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert of a webhook or of Alertmanager's API v2; identity is (fingerprint, starts_at, firing).

    *delivery* is the number of the delivery that brought it, once it is kept.
    """

    fingerprint: str
    labels: Mapping[str, str]
    starts_at: datetime
    firing: bool = True
    annotations: Mapping[str, str] = field(default_factory=dict)
    delivery: int | None = None


def numbered(alerts: Iterable[Alert], kept: Iterable[Alert]) -> list[Alert]:
    """Return *alerts* with the numbers of the deliveries that brought them, as far as *kept* tells."""
    numbers = {(a.fingerprint, a.starts_at): a.delivery for a in kept}
    found = ((a, numbers.get((a.fingerprint, a.starts_at))) for a in alerts)
    return [a if a.delivery == number else replace(a, delivery=number) for a, number in found]


def signals_from(alerts: Iterable[Alert], policy: Policy) -> tuple[Signal, ...]:
    """Return the signals of the *alerts* that fire and carry an action we know, in a stable order.

    The label ``pool`` may hold a pool's id or name; absent, ``unassigned`` or a pool that is not ours to
    resize means every pool for demand (``scale_up``), and nothing for the rest: what was said of somebody
    else's pool must not hold ours.
    """
    found: dict[tuple[str, datetime], Signal] = {}
    for alert in alerts:
        try:
            action = SignalAction(alert.labels.get("action", ""))
        except ValueError:
            continue
        if not alert.firing:
            continue
        said = alert.labels.get("pool", UNASSIGNED) or UNASSIGNED
        pool = policy.pool(said)
        if pool is None and said != UNASSIGNED and action is not SignalAction.SCALE_UP:
            continue
        found[alert.fingerprint, alert.starts_at] = Signal(
            action=action,
            alertname=alert.labels.get("alertname", ""),
            fingerprint=alert.fingerprint,
            starts_at=alert.starts_at,
            pool=pool.id if pool else None,
            delivery=alert.delivery,
        )
    return tuple(sorted(found.values(), key=lambda s: (s.alertname, s.fingerprint, s.starts_at)))
