"""Where the jobs of a replay come from: a file in one of two forms, or the history in Prometheus."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from receiver.ports.past import Past
from receiver.replay.traces import Reading, Trace, read_trace, trace_of_pods

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What is asked of the Prometheus at *url*: GPU pods between *since* and *until*, seen every *step*; *timeout* is
    for one query."""

    url: str
    since: datetime
    until: datetime
    step: timedelta
    timeout: timedelta


def trace_from_file(path: Path, reading: Reading) -> Trace:
    """Return the trace at *path*. Raises BadTrace with every line or object that is wrong; OSError."""
    return read_trace(path, reading, _export)


def trace_from_prometheus(asked: Remembered, reading: Reading, progress: Progress | None = None) -> Trace:
    """Return what a Prometheus remembers as a trace. Raises BadTrace, TryLater, WontWork."""
    from receiver.adapters.monitoring.history import PrometheusHistory  # only here are the clients needed

    history = PrometheusHistory(asked.url, asked.timeout.total_seconds(), reading.team_label)
    try:
        past = history.past(asked.since, asked.until, asked.step, progress)
        return trace_of_pods(past, history.shown, "prometheus", reading)
    finally:
        history.close()


def _export(path: Path, made_at: datetime | None) -> Past:
    from receiver.adapters.kubernetes.export import read_export  # imports a client that takes a second to load

    return read_export(path, made_at)
