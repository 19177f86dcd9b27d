"""Traces of jobs that ran somewhere, as jobs that a replay can submit."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from receiver.ports.past import Past, PastPod, Trouble
from receiver.replay.traces.encoding import lines
from receiver.replay.traces.formats import recognised
from receiver.replay.traces.pods import trace_of_pods
from receiver.replay.traces.slurm import read_sacct
from receiver.replay.traces.tidy import read_tidy
from receiver.replay.traces.trace import FORMATS, BadTrace, Format, Reading, Trace, told
from receiver.replay.world.config import Job

__all__ = [
    "FORMATS",
    "BadTrace",
    "Format",
    "Past",
    "PastPod",
    "Reading",
    "Trace",
    "Trouble",
    "load_jobs",
    "read_sacct",
    "read_tidy",
    "read_trace",
    "recognised",
    "told",
    "trace_of_pods",
]

Export = Callable[[Path, datetime | None], Past]  # a file, and when it was made


def read_trace(path: Path, reading: Reading, export: Export) -> Trace:
    """Return the trace in a file; *export* reads what Kubernetes wrote.

    Raises BadTrace with every line or object that is wrong, unless *reading* skips them; OSError.
    """
    form = reading.format or recognised(path)
    if form == "kubernetes":
        return trace_of_pods(export(path, reading.made_at), path.name, form, reading)
    return (read_sacct if form == "sacct" else read_tidy)(lines(path), path.name, reading)


def load_jobs(path: Path, start: datetime) -> list[Job]:
    """Return the jobs of a CSV trace that begins at *start*. Raises BadTrace, OSError."""
    return list(read_tidy(lines(path), path.name, replace(Reading(), start=start)).jobs)
