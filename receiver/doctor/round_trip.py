"""A test alert round: to Alertmanager, through its routes, to our webhook, and back through our own API."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from receiver.adapters.http.own_api import NotThereError, RefusedError, ServerApi
from receiver.adapters.http.sessions import moment
from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.core.model.signals import COMPONENT, SignalAction
from receiver.core.model.text import lasting
from receiver.doctor.checks import Check, Finding
from receiver.ports import Clock, TryLater

NAME = "GpuAutoscalerDoctor"
PATIENCE = 75.0  # seconds: longer than a group_wait of a minute
EVERY = 0.5  # seconds between two looks
SAID_EVERY = 10.0  # seconds between two words to who waits
LASTS = timedelta(minutes=10)  # Alertmanager ends it by itself then, whatever happens to us

HEARD = Check(
    "alertmanager.heard",
    "whether the running autoscaler says that it hears the heartbeat",
    ("fail", "skip"),
    "see whether alertmanager.webhook passes; the runbook GpuAutoscalerHeartbeat goes through the line",
)
ROUND = Check(
    "alertmanager.test_alert",
    "with `--send-test-alert`: whether an alert that is posted to Alertmanager arrives here, and how long it takes",
    ("fail", "skip"),
    "see whether alertmanager.webhook passes, to which receiver amtool routes it, and what Alertmanager"
    " logs: 401 is a wrong token, a timeout a NetworkPolicy",
)
CHECKS = (HEARD, ROUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertWait:
    """How to wait: *sleep* takes seconds, *say* tells whoever waits, *elapsed* is a clock that only moves on."""

    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    elapsed: Callable[[], float] = time.monotonic
    patience: float = PATIENCE


def heard(server: ServerApi, now: datetime) -> Finding:
    """Say what the server says of the heartbeat, as of *now*."""
    try:
        sources = server.get("status").document.get("sources") or ()
    except (TryLater, NotThereError, RefusedError) as error:
        return HEARD.skipped(f"the server at {server.shown} cannot be asked: {error}")
    for source in sources:
        if source.get("source") == "heartbeat":
            at = moment(source.get("at"))
            ago = f"{lasting(max(now - at, timedelta(0)))} ago" if at else "never"
            if source.get("up"):
                return HEARD.passed(f"the autoscaler heard the heartbeat {ago}")
            return HEARD.failed(f"the autoscaler does not hear the heartbeat (last: {ago})")
    return HEARD.skipped("the server has made no step yet")


def send(peers: Sequence[MonitoringApi], server: ServerApi, clock: Clock, waiting: AlertWait) -> Iterator[Finding]:
    """Post a test alert to every one of *peers*, as Prometheus does, wait for it to arrive at *server*, and end it."""
    labels = {
        "alertname": NAME,
        "component": COMPONENT,
        "namespace": COMPONENT,
        "action": SignalAction.NOTIFY.value,
        "severity": "none",
        "test": uuid.uuid4().hex,
    }
    try:
        server.get_list("alerts")
    except (TryLater, NotThereError, RefusedError) as error:
        yield ROUND.failed(f"the server at {server.shown} cannot be asked what has arrived: {error}")
        return
    began = clock.now()
    refusals = {peer.shown: _post(peer, labels, began, began + LASTS) for peer in peers}
    posted = [shown for shown, why in refusals.items() if not why]
    if not posted:
        yield ROUND.failed(f"no Alertmanager took the test alert: {'; '.join(refusals.values())}")
        return
    started = waiting.elapsed()
    try:
        took = _until_there(server, labels["test"], waiting)
    finally:
        for peer in peers:
            _post(peer, labels, began, clock.now())
    if took is None:
        waited = f"{waiting.elapsed() - started:.0f} s"
        yield ROUND.failed(f"the test alert was taken by {', '.join(posted)} and did not arrive within {waited}")
    else:
        yield ROUND.passed(f"the test alert went round in {took:.1f} s")


def _post(peer: MonitoringApi, labels: dict[str, str], begins: datetime, ends: datetime) -> str:
    """Post it; return why that failed, empty when it did not."""
    alert = {
        "labels": labels,
        "annotations": {"summary": "A test by gpu-autoscaler doctor; nothing is wrong and nothing need be done."},
        "startsAt": begins.isoformat(),
        "endsAt": ends.isoformat(),
    }
    try:
        peer.post("/api/v2/alerts", [alert])
    except TryLater as error:
        return str(error)
    return ""


def _until_there(server: ServerApi, test: str, waiting: AlertWait) -> float | None:
    """Return after how many seconds the alert was there; None when patience is over."""
    began = told = waiting.elapsed()
    while (passed := waiting.elapsed() - began) < waiting.patience:
        if any(_is_ours(alert, test) for alert in _received(server)):
            return passed
        if waiting.elapsed() - told >= SAID_EVERY:
            told = waiting.elapsed()
            waiting.say(f"waiting for the test alert for {passed:.0f} s")
        waiting.sleep(EVERY)
    return None


def _received(server: ServerApi) -> Sequence[Any]:
    try:
        return server.get_list("alerts")
    except (TryLater, NotThereError, RefusedError):
        return ()


def _is_ours(alert: Any, test: str) -> bool:
    labels = alert.get("labels") if isinstance(alert, dict) else None
    return isinstance(labels, dict) and labels.get("test") == test
