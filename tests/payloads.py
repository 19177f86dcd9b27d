"""Webhook payloads as Alertmanager sends them (version "4")."""

from datetime import UTC, datetime, timedelta
from typing import Any

from receiver.adapters.clock import SystemClock

ENDS = "0001-01-01T00:00:00Z"  # Go's zero time: it has not ended


def stamp(moment: datetime) -> str:
    """Return *moment* as Go writes it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def an_alert(status: str = "firing", began: str | None = None, **labels: str) -> dict[str, Any]:
    """One alert that asks for growth; *began* is a minute ago unless given."""
    now = SystemClock().now()
    said = {"alertname": "GpuPodsPending", "component": "gpu-autoscaler", "action": "scale_up", "pool": "unassigned"}
    return {
        "status": status,
        "labels": {**said, **labels},
        "annotations": {"summary": "Pods wait for GPUs"},
        "startsAt": began or stamp(now - timedelta(minutes=1)),
        "endsAt": ENDS if status == "firing" else stamp(now),
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "ab12cd34ef56ab12",
    }


def a_payload(*alerts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """One message of the group GpuPodsPending; one firing alert unless others are given."""
    said = list(alerts) or [an_alert()]
    return {
        "version": "4",
        "groupKey": '{}/{component="gpu-autoscaler"}:{alertname="GpuPodsPending", pool="unassigned"}',
        "truncatedAlerts": 0,
        "status": "firing" if any(a["status"] == "firing" for a in said) else "resolved",
        "receiver": "gpu-autoscaler",
        "groupLabels": {"alertname": "GpuPodsPending", "pool": "unassigned"},
        "commonLabels": {"component": "gpu-autoscaler"},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093",
        "alerts": said,
        **changes,
    }


def heartbeat() -> dict[str, Any]:
    """The sign of life."""
    return a_payload(an_alert(alertname="GpuAutoscalerHeartbeat", action="heartbeat", pool=""))
