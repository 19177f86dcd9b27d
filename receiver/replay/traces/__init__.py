"""Traces of jobs that ran elsewhere, as jobs that a replay can submit: which format a file has, and its reading."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from receiver.ports import Past, Trouble
from receiver.replay.traces.pods import trace_of_pods
from receiver.replay.traces.trace import COLUMNS, FORMATS, BadTrace, Format, Trace, TraceReading, read_tidy
from receiver.replay.world.objects import Job

BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
PACKED = {b"\x1f\x8b": "gunzip", b"BZ": "bunzip2", b"\xfd7zXZ": "unxz", b"PK": "unzip", b"(\xb5/\xfd": "unzstd"}
BEGINNING = 65536
KUBECTL = "kubectl get jobs,pods -A -o json"

Export = Callable[[Path, datetime | None], Past]  # a file, and when it was made


def read_trace(path: Path, reading: TraceReading, export: Export) -> Trace:
    """Return the trace in a file; *export* reads an export of Kubernetes.

    Raises BadTrace with every malformed line or object, unless *reading* skips them; OSError.
    """
    form = reading.format or recognised(path)
    if form == "kubernetes":
        return trace_of_pods(export(path, reading.made_at), path.name, form, reading)
    return read_tidy(lines(path), path.name, reading)


def load_jobs(path: Path, start: datetime) -> list[Job]:
    """Return the jobs of a CSV trace that begins at *start*. Raises BadTrace, OSError."""
    return list(read_tidy(lines(path), path.name, replace(TraceReading(), start=start)).jobs)


def recognised(path: Path) -> Format:
    """Return the format of the file at *path*. Raises BadTrace for an unknown one; OSError."""
    text = _beginning(path).lstrip()
    first = text.splitlines()[0]
    if text[0] in "{[":
        return "kubernetes"
    if text.startswith(("apiVersion:", "---", "items:", "kind:")):
        raise _bad("line 1", "format", "it is YAML", f"export with {KUBECTL}")
    if {name.strip().strip('"').lower() for mark in ",;\t" for name in first.split(mark)} & set(COLUMNS):
        return "csv"
    remedy = "say which with `format` in the file of --timing, or see docs/replay-traces.md"
    raise _bad("line 1", "format", f"it is none of {', '.join(FORMATS)}", remedy)


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file with their ends, without a byte order mark. Raises BadTrace unless it is UTF-8."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                yield (raw.removeprefix(BOM) if number == 1 else raw).decode("utf-8")
            except UnicodeDecodeError as error:
                problem = f"byte 0x{raw[error.start]:02x} is not UTF-8"
                remedy = "save the file as UTF-8 (iconv -f latin1 -t utf-8)"
                raise _bad(f"line {number}", "text", problem, remedy) from None


def _beginning(path: Path) -> str:
    """Return the first lines of a file. Raises BadTrace if it is empty or not text; OSError."""
    with path.open("rb") as file:
        head = file.read(BEGINNING)
    for magic, tool in PACKED.items():
        if head.startswith(magic):
            raise _bad("file", "text", "is compressed", f"unpack it first ({tool})")
    if head.startswith(UTF16) or b"\0" in head[:200]:
        raise _bad("file", "text", "is UTF-16 or binary", "save it as UTF-8 (iconv -f utf-16 -t utf-8)")
    text = head.removeprefix(BOM).decode("utf-8", errors="replace")
    if not text.strip():
        raise _bad("file", "text", "is empty", "export it again")
    return text


def _bad(where: str, field: str, problem: str, remedy: str) -> BadTrace:
    return BadTrace([Trouble(where=where, field=field, problem=problem, remedy=remedy)])
