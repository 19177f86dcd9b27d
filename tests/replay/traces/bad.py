"""The traces that are refused: ``bad.yaml`` says what is in each, and what is reported about it.

``csv`` stands below the header of a trace. ``pods`` and ``objects`` are a list as kubectl exports it: a pod by how it
differs from `tests.replay.traces.exports.a_pod`, an object as it is. ``text`` is the whole of a file, whose ``ending``
is .csv unless the case names one; ``encoding`` is UTF-8, and ``bytes`` are in base64. The messages are generated: leave
``message`` out, run ``make generate``, and read the diff.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from receiver.cli.replay_run import trace_from_file
from receiver.replay.traces.trace import BadTrace, TraceReading
from tests.lint import load_yaml
from tests.refused import with_messages
from tests.replay.traces.exports import a_pod

TABLE = Path(__file__).parent / "bad.yaml"
HEADER = "job_id,submit_s,duration_s,gpus,pods,gpus_per_pod,user_or_team,gpu_type,gpu_util\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A trace that is refused, by the *fields* of its case."""

    name: str
    fields: Mapping[str, Any]

    @property
    def content(self) -> bytes:
        """What is in the file."""
        if "bytes" in self.fields:
            return base64.b64decode(self.fields["bytes"])
        return self._text().encode(self.fields.get("encoding", "utf-8"))

    def _text(self) -> str:
        if "csv" in self.fields:
            return HEADER + str(self.fields["csv"])
        if "text" in self.fields:
            return str(self.fields["text"])
        items = [*(a_pod(**pod) for pod in self.fields.get("pods", ())), *self.fields.get("objects", ())]
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, ensure_ascii=False)

    @property
    def ending(self) -> str:
        """How the file's name ends."""
        return str(self.fields.get("ending", "json" if {"pods", "objects"} & self.fields.keys() else "csv"))

    @property
    def reported(self) -> str:
        """What is reported about the trace now; empty when it is accepted."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / f"{self.name}.{self.ending}"
            file.write_bytes(self.content)
            try:
                trace_from_file(file, TraceReading())
            except BadTrace as error:
                return f"{error}\n"
        return ""


def cases(table: str) -> Iterator[Case]:
    """Yield the cases of *table*, which is the text of ``bad.yaml``."""
    for name, fields in load_yaml(table).items():
        yield Case(name=name, fields=fields)


def generated() -> dict[Path, str]:
    """Return the table as it should be."""
    table = TABLE.read_text(encoding="utf-8")
    found = {case.name: case for case in cases(table)}
    return {TABLE: with_messages(table, lambda name: found[name].reported)}
