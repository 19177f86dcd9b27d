"""Alerts and silences as Alertmanager tells them, reduced to signals and paused pools."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.model import UNASSIGNED, Signal, SignalAction
from receiver.core.policy import Policy

COMPONENT = "gpu-autoscaler"
HEARTBEAT_ALERT = "GpuAutoscalerHeartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert of a webhook or of Alertmanager's API v2; identity is (fingerprint, starts_at, firing)."""

    fingerprint: str
    labels: Mapping[str, str]
    starts_at: datetime
    firing: bool = True
    annotations: Mapping[str, str] = field(default_factory=dict)


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
        )
    return tuple(sorted(found.values(), key=lambda s: (s.alertname, s.fingerprint, s.starts_at)))


def silenced_pools(silences: Iterable[Silence], policy: Policy) -> Mapping[str, str]:
    """Return pool id -> sentence for every pool that a silence pauses.

    A silence pauses a pool when it matches ``{component="gpu-autoscaler", pool=<id or name>}`` without
    naming an alert: it speaks of the pool, not of one alert.
    """
    paused: dict[str, str] = {}
    for silence in silences:
        if any(m.name == "alertname" for m in silence.matchers):
            continue
        if not any(m.name == "pool" for m in silence.matchers):
            continue
        for pool in policy.pools:
            named = any(
                all(m.matches({"component": COMPONENT, "pool": name}) for m in silence.matchers)
                for name in (pool.id, pool.name)
            )
            if named:
                who = silence.created_by or "someone"
                paused[pool.id] = f"silenced in Alertmanager by {who} until {silence.ends_at:%Y-%m-%d %H:%M} UTC" + (
                    f": {silence.comment}" if silence.comment else ""
                )
    return paused
