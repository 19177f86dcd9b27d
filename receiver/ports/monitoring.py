"""Prometheus and Alertmanager."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from receiver.core.model.activity import Activity, Course, Sample
from receiver.core.model.pods import Pod
from receiver.core.model.signals import Alert, Silence


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryFacts:
    """What the recording rules say. *utilization* and *coverage* are ratios by pool id; *waiting* are pods
    as kube-state-metrics knows them (with a pool hint); *rules_alive* is true when the heartbeat alert
    fires in Prometheus, which proves that our rules are evaluated. *nodes* is what DCGM shows now, by node name."""

    utilization: Mapping[str, float] = field(default_factory=dict)
    coverage: Mapping[str, float] = field(default_factory=dict)
    waiting: tuple[Pod, ...] = ()
    nodes: Mapping[str, Activity] = field(default_factory=dict)
    rules_alive: bool = False


class Telemetry(Protocol):
    """Prometheus, or anything that speaks its HTTP API. May raise TryLater or WontWork."""

    def look(self) -> TelemetryFacts:
        """Return the latest values."""

    def courses(self, window: timedelta) -> Mapping[str, Course]:
        """Return what the GPUs of each pod did over the last *window*, by ``namespace/name``."""

    def value(self, query: str, at: datetime) -> float | None:
        """Return the one value that *query* has as of *at*, None when it has none, or several."""

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """Return what each GPU of each pod did over the last two minutes, by ``namespace/name`` of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmFacts:
    """Our alerts that fire (union over the peers) and are not silenced (by any), and the active silences."""

    alerts: tuple[Alert, ...] = ()
    silences: tuple[Silence, ...] = ()


class Alarms(Protocol):
    """Alertmanager. May raise TryLater or WontWork."""

    def look(self) -> AlarmFacts:
        """Return what fires now."""
