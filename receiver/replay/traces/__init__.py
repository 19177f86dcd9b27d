"""Traces of jobs that ran somewhere, as jobs that a replay can submit."""

from receiver.ports.past import Past, PastPod, Trouble
from receiver.replay.traces.files import load_jobs, read_trace, recognised
from receiver.replay.traces.pods import trace_of_pods
from receiver.replay.traces.tidy import read_tidy
from receiver.replay.traces.trace import FORMATS, BadTrace, Format, TraceReading, Trace, told

__all__ = [
    "FORMATS",
    "BadTrace",
    "Format",
    "Past",
    "PastPod",
    "TraceReading",
    "Trace",
    "Trouble",
    "load_jobs",
    "read_tidy",
    "read_trace",
    "recognised",
    "told",
    "trace_of_pods",
]
