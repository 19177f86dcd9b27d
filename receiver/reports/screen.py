"""What screens of text are made from: tables, titled lists, times, ratios and what is unknown."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from receiver.core.model.text import span

OLD = timedelta(minutes=2)  # a picture older than this is shown as old: the loop may be stalled
UNKNOWN = "unknown"


def aligned(rows: Sequence[Sequence[str]], sides: str = "<", gap: str = "  ") -> Iterator[str]:
    """*rows* of equally many cells as lines with columns as wide as they need, *gap* between them.

    *sides* has a ``<`` or ``>`` for each column, cells to the left or to the right; its last one counts for the rest.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    specs = [f"{side}{width}" for side, width in zip(sides.ljust(len(widths), sides[-1]), widths, strict=True)]
    return (in_columns(row, specs, gap).rstrip() for row in rows)


def in_columns(cells: Sequence[str], specs: Sequence[str], gap: str = " ") -> str:
    """*cells* as a line, each as one of *specs* has it (``>11``: to the right, 11 columns wide)."""
    return gap.join(f"{cell:{spec}}" for cell, spec in zip(cells, specs, strict=True))


def listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    """*lines* below each other, the first behind *title*."""
    for place, line in enumerate(lines):
        yield (" " * len(title) if place else title) + line


def known(count: object) -> str:
    """*count*, or a question mark."""
    return "?" if count is None else str(count)


def moment(value: object) -> datetime | None:
    """*value*, RFC 3339 text or an aware datetime, in UTC, or None when it is no time."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return at.astimezone(UTC) if isinstance(at, datetime) and at.tzinfo is not None else None


def clock_time(at: datetime, beside: datetime | None) -> str:
    """The time of day, with the date where it is another day than *beside*."""
    same = beside is not None and at.date() == beside.date()
    return f"{at:%H:%M:%S} UTC" if same else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def since(start: datetime | None, at: datetime | None) -> str:
    """``since 14:18:00 UTC (11 min)``, as seen from *at*."""
    if start is None:
        return "since an unknown time"
    lasted = f" ({span((at - start).total_seconds())})" if at is not None else ""
    return f"since {clock_time(start, at)}{lasted}"


def until(end: datetime | None, at: datetime | None) -> str:
    """``at 14:18:00 UTC (in 11 min)``, as seen from *at*."""
    if end is None:
        return "at an unknown time"
    time_left = f" (in {span((end - at).total_seconds())})" if at is not None and end > at else ""
    return f"at {clock_time(end, at)}{time_left}"


def as_of(at: datetime | None, now: datetime) -> str:
    """Of when the picture is, and whether that is long ago."""
    if at is None:
        return "as of: no step has finished yet"
    old = f" - {span((now - at).total_seconds())} ago: the loop may be stalled, see /healthz" if now - at > OLD else ""
    return f"as of {clock_time(at, now)}{old}"


def printable(document: object) -> Any:
    """*document*, a text or JSON of texts, without control characters: names and comments are others' words."""
    if isinstance(document, str):
        return document if document.isprintable() else "".join(c if c.isprintable() else "?" for c in document)
    if isinstance(document, Mapping):
        return {key: printable(value) for key, value in document.items()}
    if isinstance(document, Sequence):
        return [printable(value) for value in document]
    return document


def minute(stated: str) -> str:
    """Return a time of the document to the minute."""
    return f"{stated[:16].replace('T', ' ')} UTC"


def foreseen(line: Mapping[str, Any]) -> object:
    """Return a budget's forecast, None without one."""
    return line.get("forecast_usd")  # missing in reports closed by an older version


def assumed(budgets: Sequence[Mapping[str, Any]]) -> str:
    """Return the assumption of the forecasts of *budgets*, empty without any."""
    since = next((line["forecast_since"] for line in budgets if line.get("forecast_since")), None)
    if since is None:
        return ""
    if all(foreseen(line) is None for line in budgets):
        return f"Forecast: not known yet. It needs a day of costs, and has them since {minute(since)}."
    return f"Forecast: the average cost per hour since {minute(since)} continues."
