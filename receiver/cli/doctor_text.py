"""The doctor's findings as lines for people and as a document for programs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import click

from receiver.core.model.text import some
from receiver.doctor.checks import NEEDS_REMEDY, VERDICTS, Finding
from receiver.reports.screen import printable

Found = Sequence[tuple[str, Sequence[Finding]]]  # findings by the name of the area
COLOURS = {"pass": "green", "warn": "yellow", "fail": "red", "skip": "bright_black"}
SHOWN = {"pass": "pass", "warn": "WARN", "fail": "FAIL", "skip": "skip"}


def counts(found: Found) -> dict[str, int]:
    """Return the number of findings of every verdict."""
    counted = Counter(finding.verdict for _, findings in found for finding in findings)
    return {verdict: counted[verdict] for verdict in VERDICTS}


def lines(found: Found, *, problems: bool = False) -> Iterator[str]:
    """Yield a table, area by area, with remedies, and a summary at the end.

    With *problems* the table has only warnings and failures.
    """
    shown = [f for _, findings in found for f in findings if not problems or f.verdict in NEEDS_REMEDY]
    width = max((len(finding.check) for finding in shown), default=0)
    for finding in shown:
        yield from told(finding, width)
    yield summary(found)


def told(finding: Finding, width: int = 16) -> Iterator[str]:
    """Yield the lines of one finding, the name of its check in *width* columns."""
    verdict = click.style(SHOWN[finding.verdict], fg=COLOURS[finding.verdict])
    yield f"{verdict}  {finding.check:{width}}  {printable(finding.said)}"
    if finding.remedy:
        yield f"      {'':{width}}  what to do: {printable(finding.remedy)}"


def summary(found: Found) -> str:
    """Return the summary line."""
    number = counts(found)
    parts = [
        f"{number['pass']} passed",
        some(number["warn"], "warning"),
        f"{number['fail']} failed",
        f"{number['skip']} skipped",
    ]
    return ", ".join(parts)


def document(found: Found, *, version: str, mode: str | None, at: datetime) -> dict[str, Any]:
    """Return the document of ``--json``; docs/doctor.md describes its keys."""
    return {
        "version": version,
        "at": at.isoformat(timespec="seconds"),
        "mode": mode,
        "summary": counts(found),
        "findings": [
            {"area": area, "check": f.check, "verdict": f.verdict, "said": f.said, "remedy": f.remedy or None}
            for area, findings in found
            for f in findings
        ],
    }
