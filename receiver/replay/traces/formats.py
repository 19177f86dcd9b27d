"""Which form a trace is written in, by its content."""

from pathlib import Path

from receiver.ports.past import Trouble
from receiver.replay.traces.encoding import beginning
from receiver.replay.traces.slurm import EXPORT
from receiver.replay.traces.tidy import COLUMNS
from receiver.replay.traces.trace import FORMATS, BadTrace, Format

KUBECTL = "kubectl get jobs,pods -A -o json"


def recognised(path: Path) -> Format:
    """Return what the file at *path* is written in. Raises BadTrace where it is nothing known; OSError."""
    text = beginning(path).lstrip()
    first = text.splitlines()[0]
    names = {name.strip().lower() for name in first.split("|")}
    if text[0] in "{[":
        return "kubernetes"
    if {"jobid", "jobidraw"} & names:
        return "sacct"
    if first.split()[0].lower() in ("jobid", "jobidraw"):
        raise _unknown("its columns are aligned with spaces, as sacct prints them for people", f"export with {EXPORT}")
    if text.startswith(("apiVersion:", "---", "items:", "kind:")):
        raise _unknown("it is YAML", f"export with {KUBECTL}")
    if {name.strip().strip('"').lower() for mark in ",;\t" for name in first.split(mark)} & set(COLUMNS):
        return "csv"
    raise _unknown(f"it is none of {', '.join(FORMATS)}", "say which with --format, or see docs/replay-traces.md")


def _unknown(problem: str, remedy: str) -> BadTrace:
    return BadTrace([Trouble(where="line 1", field="format", problem=problem, remedy=remedy)])
