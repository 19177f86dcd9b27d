"""Prometheus itself: its clock, scrapes of what the rules read, retention, and the Alertmanagers it sends to."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import durationpy

from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.core.model.text import lasting, some
from receiver.doctor.checks import Area, Check, Finding, Installation, few
from receiver.doctor.rules import longest_range

FAR = timedelta(seconds=60)  # the alert GpuAutoscalerClockSkewed fires there
NOTICEABLE = timedelta(seconds=5)
SELDOM = timedelta(seconds=60)  # rules about an idle hour need a sample every minute
A_WEEK = timedelta(days=7)
OURS = ("kube-state-metrics", "gpu-autoscaler", "alertmanager")  # jobs that the rules or their alerts read

CLOCK = Check(
    "prometheus.clock",
    "whether Prometheus' clock and the local one agree: within 5 s, at most a minute",
    ("warn", "fail", "skip"),
    "run an NTP client (chrony, systemd-timesyncd) on both machines: ages, cooldowns and paid hours depend on the time",
)
TARGETS = Check(
    "prometheus.targets",
    "whether scrapes of kube-state-metrics, the DCGM exporter, Alertmanager and the autoscaler succeed",
    ("warn", "skip"),
    "the page /targets of Prometheus shows the error; the usual reasons are a NetworkPolicy or a port name",
)
INTERVALS = Check(
    "prometheus.intervals",
    "how often those are scraped: at least once a minute; a waiting pod is seen at the next scrape",
    ("warn", "skip"),
    "set interval: 15s in the ServiceMonitor, or scrape_interval in the job (kube-prometheus-stack has 30s)",
)
RETENTION = Check(
    "prometheus.retention",
    "whether it keeps samples for the longest range of the rules, and a week for a replay of the past",
    ("warn", "fail", "skip"),
    "raise --storage.tsdb.retention.time (prometheus.prometheusSpec.retention), or replay from long-term storage"
    " such as Thanos",
)
ALERTMANAGERS = Check(
    "prometheus.alertmanagers",
    "whether Prometheus sends its alerts to as many Alertmanagers as alertmanager.urls lists",
    ("warn", "fail", "skip"),
    "list every peer once in alerting.alertmanagers of Prometheus (spec.alerting with the operator)",
)
CHECKS = (CLOCK, TARGETS, INTERVALS, RETENTION, ALERTMANAGERS)


def look(installation: Installation) -> Iterator[Finding]:
    """Check the configured Prometheus."""
    url = installation.settings.configuration.prometheus.url
    if url is None:
        yield CLOCK.skipped("prometheus.url is not set")
        return
    with MonitoringApi("Prometheus", url, installation.clock, installation.timeouts) as api:
        ahead, uncertain = api.ahead()
        yield clock(ahead, uncertain)
        targets = api.told("targets", state="active")
        yield from scrapes(active_targets(targets)) if targets is not None else [_unknown(TARGETS)]
        info = api.told("status/runtimeinfo")
        kept = info.get("storageRetention") if isinstance(info, Mapping) else None
        yield retention(str(kept), length(longest_range())) if kept else _unknown(RETENTION)
        told = api.told("alertmanagers")
        peers = len(installation.settings.configuration.alertmanager.urls)
        yield alertmanagers(told, peers) if told is not None else _unknown(ALERTMANAGERS)


def _unknown(check: Check) -> Finding:
    return check.skipped("this source does not report it (it is not Prometheus itself)")


def clock(ahead: timedelta, uncertain: timedelta) -> Finding:
    """Judge how far Prometheus' clock is *ahead* (negative: behind), with the error *uncertain*."""
    off = max(abs(ahead) - uncertain, timedelta(0))
    said = (
        f"Prometheus' clock is {lasting(abs(ahead))} {'ahead of' if ahead > timedelta(0) else 'behind'} the local one"
    )
    if off > FAR:
        return CLOCK.failed(said)
    if off > NOTICEABLE:
        return CLOCK.warned(said)
    return CLOCK.passed(
        f"Prometheus' clock and the local one differ by at most {max(abs(ahead), uncertain).total_seconds():.1f} s"
    )


def active_targets(data: Any) -> Sequence[Mapping[str, Any]]:
    """Return the targets that the rules depend on among *data*, the answer to ``/api/v1/targets``."""
    found = data.get("activeTargets") if isinstance(data, Mapping) else None
    targets = [target for target in found or () if isinstance(target, Mapping)]
    return [target for target in targets if _job(target) in OURS or "dcgm" in _job(target)]


def _job(target: Mapping[str, Any]) -> str:
    labels = target.get("labels")
    return str(labels.get("job") or "") if isinstance(labels, Mapping) else ""


def scrapes(targets: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Find targets that are down, and jobs that are scraped too rarely."""
    if not targets:
        yield TARGETS.skipped(
            "no target has the job kube-state-metrics, gpu-autoscaler, alertmanager, or one with dcgm in its name"
        )
        return
    down = [t for t in targets if t.get("health") == "down"]
    for target in down:
        where = f"{_job(target)} at {(target.get('labels') or {}).get('instance')}"
        yield TARGETS.warned(f"{where} is down: {target.get('lastError') or 'no reason given'}")
    if not down:
        yield TARGETS.passed(f"{some(len(targets), 'target')} of {few(sorted({_job(t) for t in targets}))} up")
    said = {_job(t): str(t.get("scrapeInterval") or "") for t in targets}
    seldom = [job for job, every in said.items() if length(every) > SELDOM]
    shown = ", ".join(f"{job} every {every}" for job, every in sorted(said.items()) if every)
    if seldom:
        yield INTERVALS.warned(f"scraped less than once a minute: {few(seldom)} ({shown})")
    elif shown:
        yield INTERVALS.passed(shown)


def length(duration: str) -> timedelta:
    """Return the length of *duration* (``1h30m``, ``15d``, ``0s``), 0 if it is not a duration."""
    try:
        found: timedelta = durationpy.from_str(duration)
    except (durationpy.DurationError, OverflowError):
        return timedelta(0)
    return found


def retention(kept: str, window: timedelta) -> Finding:
    """Judge Prometheus' retention: ``15d``, ``10d or 50GiB``, or a size alone."""
    lasts = length(kept.partition(" or ")[0])
    if not lasts:
        return RETENTION.skipped(f"it keeps {kept}, which is not a time")
    if lasts < window:
        return RETENTION.failed(f"it keeps {kept}, and rules look back {lasting(window)}")
    if lasts < A_WEEK:
        return RETENTION.warned(f"it keeps {kept}: a replay of less than a week has no weekend")
    return RETENTION.passed(f"it keeps {kept}; `replay --since` can go back as far")


def alertmanagers(data: Any, configured: int) -> Finding:
    """Compare the Alertmanagers in *data*, the answer of Prometheus, with the number of *configured* peers."""
    listed = data.get("activeAlertmanagers") if isinstance(data, Mapping) else None
    urls = [str(one.get("url") or "") for one in listed or () if isinstance(one, Mapping)]
    named = sorted({url.partition("://")[2].partition("/")[0] for url in urls})
    if not named:
        return ALERTMANAGERS.failed("Prometheus sends its alerts to no Alertmanager")
    if not configured:
        return ALERTMANAGERS.skipped(f"alertmanager.urls is empty; Prometheus sends to {few(named)}")
    if len(named) != configured:
        said = f"Prometheus sends to {few(named)}: {len(named)}, and alertmanager.urls lists {configured}"
        return ALERTMANAGERS.warned(said, "list every peer in alertmanager.urls: a silence may exist at one peer only")
    return ALERTMANAGERS.passed(f"Prometheus sends to {few(named)}")


AREA = Area(
    name="prometheus",
    source="Prometheus",
    checks=CHECKS,
    look=look,
    remedy="check prometheus.url and that this pod can reach it (NetworkPolicy): without Prometheus no node is removed",
)
