"""A report's cost lines as CSV (RFC 4180): a header, and one line per cost line."""

import csv
import io
from collections.abc import Mapping
from typing import Any

COLUMNS = (
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
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs text that begins so


def as_csv(report: Mapping[str, Any]) -> str:
    """Return the lines of *report*. Text that a spreadsheet would take for a formula gets an apostrophe before it."""
    written = io.StringIO()
    table = csv.DictWriter(written, COLUMNS, lineterminator="\r\n")
    table.writeheader()
    for line in report["lines"]:
        table.writerow({name: _cell(line.get(name, report["month"])) for name in COLUMNS})
    return written.getvalue()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
