"""Ask the parts of a running stack what they show; what does not answer is asked again in the next round."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import requests

from demo.stack import Stack
from demo.timeline import Seen, moment

JSON = dict[str, Any]
HEARTBEAT = re.compile(r"^gpu_autoscaler_last_heartbeat_timestamp_seconds (\S+)$", re.MULTILINE)
SNAPSHOT_HEADER = "Gpu-Autoscaler-Snapshot-At"


class Watcher:
    """Looks from outside: the simulator's state and calls, Alertmanager, the autoscaler's API and its log."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._last_call = 0
        self._log = LogTail(stack.places.log("receiver"))

    def look(self) -> Seen:
        """Return what is to be seen now. Raises requests.RequestException when a part does not answer."""
        stack = self._stack
        log = self._log.new()
        calls = stack.requests(after=self._last_call)
        answered = [c for c in calls if c["status"] is not None]
        if len(answered) == len(calls) and calls:  # a call under way is asked for again
            self._last_call = calls[-1]["seq"]
        alerts: dict[str, JSON] = {}
        for peer in stack.places.alertmanagers:
            alerts |= {a["fingerprint"]: a for a in stack.get(peer, "/api/v2/alerts")}
        return Seen(
            calls=answered,
            alerts=list(alerts.values()),
            decisions=stack.get("receiver", "/api/v1/decisions", limit=100),
            actions=stack.get("receiver", "/api/v1/actions", limit=100),
            log=log,
            state=stack.state(),
        )


class LogTail:
    """Reads what was added to a log of JSON lines; other lines are left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_to = 0
        self._rest = b""

    def new(self) -> list[JSON]:
        """Return the whole lines that came since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_to)
                added = file.read()
        except OSError:
            return []
        self._read_to += len(added)
        *lines, self._rest = (self._rest + added).split(b"\n")
        found = []
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                found.append(entry)
        return found


def quiet(stack: Stack, now: datetime, span: timedelta) -> bool:
    """Return True when nothing but a new alert will wake the autoscaler's loop within *span*.

    A growth that is to be timed is asked for at such a moment: what finds the pod is then its alert, and not a
    step that the tick, a heartbeat or a paid hour has called for.
    """
    try:
        answer = requests.get(stack.places.url("receiver") + "/api/v1/pools", timeout=15)
        pools = answer.json()
        metrics = stack.get("receiver", "/metrics", text=True)
    except (requests.RequestException, ValueError):
        return False
    if any(pool.get("open_action") for pool in pools):
        return False
    due = [moment(p["reconsider_at"]) for p in pools if p.get("reconsider_at")]
    stepped = answer.headers.get(SNAPSHOT_HEADER, "none")
    if stepped != "none":
        due.append(moment(stepped) + timedelta(seconds=seconds(stack.plan.tick)))
    beats = HEARTBEAT.search(metrics)
    if beats:
        interval = stack.plan.heartbeat_group_interval or "60s"
        due.append(datetime.fromtimestamp(float(beats[1]), UTC) + timedelta(seconds=seconds(interval)))
    return not any(now - timedelta(seconds=0.5) < at < now + span for at in due)


def seconds(text: str) -> float:
    """Return a duration such as ``60s``, ``5m`` or ``1h`` in seconds; one unit only."""
    units: Mapping[str, float] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    number = text.rstrip("msh")
    return float(number) * units[text[len(number) :]]
