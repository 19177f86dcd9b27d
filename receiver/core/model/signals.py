"""What Alertmanager says: alerts reduced to signals, and silences that pause a pool."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.model.policy import Policy
from receiver.core.model.text import some

UNASSIGNED = "unassigned"
HEARTBEAT_ALERT = "GpuAutoscalerHeartbeat"
REPEAT_INTERVAL = timedelta(hours=4)  # of an Alertmanager route that sets none
GROUP_INTERVAL = timedelta(minutes=5)


class SignalAction(StrEnum):
    """What an alert requests: the value of its label ``action``."""

    SCALE_UP = "scale_up"
    SCALE_DOWN = "scale_down"
    HOLD = "hold"
    PAUSE_SCALE_UP = "pause_scale_up"
    FREEZE = "freeze"
    FALLBACK = "fallback"
    HEARTBEAT = "heartbeat"
    NOTIFY = "notify"


RESTRAINING = (SignalAction.HOLD, SignalAction.PAUSE_SCALE_UP, SignalAction.FREEZE, SignalAction.FALLBACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One firing alert reduced to what a decision may depend on. *pool* None means every pool.

    *delivery* is the number of the last webhook delivery that brought it, where the step knows that.
    """

    action: SignalAction
    alertname: str
    fingerprint: str
    starts_at: datetime
    pool: str | None = None
    delivery: int | None = None


def payload_life(repeat_interval: timedelta = REPEAT_INTERVAL, group_interval: timedelta = GROUP_INTERVAL) -> timedelta:
    """Return how long an alert counts after its last delivery.

    Alertmanager repeats a firing alert at most *repeat_interval* + *group_interval* after the last delivery, and one
    *group_interval* later if a delivery fails.
    """
    return 2 * repeat_interval + group_interval


PAYLOAD_LIFE = payload_life()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert of a webhook or of Alertmanager's API v2; identity is (fingerprint, starts_at, firing)."""

    fingerprint: str
    labels: Mapping[str, str]
    starts_at: datetime
    firing: bool = True
    annotations: Mapping[str, str] = field(default_factory=dict)
    delivery: int | None = None


def numbered(alerts: Iterable[Alert], stored: Iterable[Alert]) -> list[Alert]:
    """Return *alerts* with the numbers of the deliveries that brought them, where *stored* has them."""
    numbers = {(a.fingerprint, a.starts_at): a.delivery for a in stored}
    return [replace(a, delivery=numbers.get((a.fingerprint, a.starts_at))) for a in alerts]


def signals_from(alerts: Iterable[Alert], policy: Policy) -> tuple[Signal, ...]:
    """Return the signals of firing *alerts* with a known action, in a stable order.

    The label ``pool`` may hold a pool's id or name. Absent, ``unassigned`` or a pool that we do not resize means every
    pool for demand (``scale_up``), and none for other actions: an alert about another pool must not hold ours.
    """
    signals: dict[tuple[str, datetime], Signal] = {}
    for alert in alerts:
        try:
            action = SignalAction(alert.labels.get("action", ""))
        except ValueError:
            continue
        if not alert.firing:
            continue
        label = alert.labels.get("pool", UNASSIGNED) or UNASSIGNED
        pool = policy.pool(label)
        if pool is None and label != UNASSIGNED and action is not SignalAction.SCALE_UP:
            continue
        signals[alert.fingerprint, alert.starts_at] = Signal(
            action=action,
            alertname=alert.labels.get("alertname", ""),
            fingerprint=alert.fingerprint,
            starts_at=alert.starts_at,
            pool=pool.id if pool else None,
            delivery=alert.delivery,
        )
    return tuple(sorted(signals.values(), key=lambda s: (s.alertname, s.fingerprint, s.starts_at)))


COMPONENT = "gpu-autoscaler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """One matcher of a silence, as API v2 gives it."""

    name: str
    value: str
    is_regex: bool = False
    is_equal: bool = True

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when *labels* satisfy this matcher; an absent label counts as empty, as in Alertmanager."""
        have = labels.get(self.name, "")
        hit = re.fullmatch(self.value, have) is not None if self.is_regex else have == self.value
        return hit is self.is_equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """An active silence: who, why, until when."""

    id: str
    matchers: tuple[Matcher, ...]
    ends_at: datetime
    created_by: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSilence:
    """The silence that pauses a pool: the last to end of those that name it. *more* others name it too."""

    id: str
    by: str
    until: datetime
    comment: str = ""
    more: int = 0

    def __str__(self) -> str:
        others = f" ({some(self.more, 'other silence')} too)" if self.more else ""
        comment = f": {self.comment}" if self.comment else ""
        return f"silenced in Alertmanager by {self.by} until {self.until:%Y-%m-%d %H:%M} UTC{others}{comment}"


def silenced_pools(silences: Iterable[Silence], policy: Policy) -> Mapping[str, PoolSilence]:
    """Return, by pool id, what pauses it, for every pool that a silence pauses.

    A silence pauses a pool when it matches ``{component="gpu-autoscaler", pool=<id or name>}`` without naming an alert:
    it is about the pool, not about one alert.
    """
    silenced: dict[str, PoolSilence] = {}
    for silence in sorted(silences, key=lambda s: (s.ends_at, s.id)):
        named = {matcher.name for matcher in silence.matchers}
        if "pool" not in named or "alertname" in named:
            continue
        for pool in policy.pools:
            alerts = [{"component": COMPONENT, "pool": known_as} for known_as in (pool.id, pool.name)]
            if any(all(matcher.matches(alert) for matcher in silence.matchers) for alert in alerts):
                overlapping = silenced[pool.id].more + 1 if pool.id in silenced else 0
                by = silence.created_by or "someone"
                silenced[pool.id] = PoolSilence(
                    id=silence.id, by=by, until=silence.ends_at, comment=silence.comment, more=overlapping
                )
    return silenced


def forgotten(stored: Iterable[Alert], reported: Iterable[Alert], silences: Iterable[Silence]) -> list[Alert]:
    """Return those of *stored* that fire and restrain the autoscaler, though Alertmanager, which has just started, has
    neither *reported* them again nor silences them."""
    reported_keys, silences = {(a.fingerprint, a.starts_at) for a in reported}, tuple(silences)
    return [
        alert
        for alert in stored
        if alert.firing
        and alert.labels.get("action") in RESTRAINING
        and (alert.fingerprint, alert.starts_at) not in reported_keys
        and not any(all(m.matches(alert.labels) for m in silence.matchers) for silence in silences)
    ]
