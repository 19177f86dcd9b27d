"""A report as CSV (RFC 4180): a header, one line per cost line, and one line per other fact of its document."""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

OF_LINES = (
    "month",
    "paid_for",
    "pool",
    "size",
    "kind",
    "namespace",
    "workload",
    "team",
    "project",
    "workload_class",
    "environment",
    "cost_center",
    "priority_class",
    "gpu_hours",
    "usd",
)
COLUMNS = ("record", *OF_LINES, "fact", "value")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # a spreadsheet runs text that begins so


def as_csv(report: Mapping[str, Any]) -> str:
    """Return *report*: its cost lines (record ``line``), then everything else that it says (record ``fact``).

    Facts leave the columns of lines empty, so that a column of those still adds up. A fact is named by its way through
    the document, such as ``always_on.saved_usd`` or ``days.0.usd``. Text that a spreadsheet would take for a formula
    gets an apostrophe before it.
    """
    written = io.StringIO()
    table = csv.DictWriter(written, COLUMNS, lineterminator="\r\n", restval="")
    table.writeheader()
    for line in report["lines"]:
        said = {name: _cell(line.get(name, report["month"])) for name in OF_LINES}
        table.writerow({"record": "line", **said})
    for fact, value in _facts({name: value for name, value in report.items() if name != "lines"}, ""):
        table.writerow({"record": "fact", "month": report["month"], "fact": _cell(fact), "value": _cell(value)})
    return written.getvalue()


def _facts(value: Any, way: str) -> Iterator[tuple[str, Any]]:
    """What *value* says, each with its *way* through the document; what is not known is empty."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _facts(inner, f"{way}.{name}" if way else str(name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _facts(inner, f"{way}.{number}")
    else:
        yield way, value


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
