"""Where the jobs of a replay come from: a file in one of three forms, or the history in Prometheus."""

from pathlib import Path

from receiver.adapters.kubernetes_export import read_export
from receiver.replay.traces import Reading, Trace, read_trace


def trace_from_file(path: Path, reading: Reading) -> Trace:
    """Return the trace at *path*. Raises BadTrace with every line or object that is wrong; OSError."""
    return read_trace(path, reading, read_export)
