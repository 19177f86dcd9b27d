"""Words for what a screen shows: times, lists and what nobody knows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from receiver.core.model.text import span

OLD = timedelta(minutes=2)  # a picture older than this is told as old: the loop may stand still


def listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    """*lines* below each other, the first behind *title*."""
    for number, line in enumerate(lines):
        yield (" " * len(title) if number else title) + line


def known(count: Any) -> str:
    """*count*, or a question mark."""
    return "?" if count is None else str(count)


def moment(text: Any) -> datetime | None:
    """The time that *text* is, in UTC, or None."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if isinstance(text, str) else None
    except ValueError:
        return None


def clock(at: datetime, beside: datetime | None) -> str:
    """The time of day, with the date where it is another day than *beside*."""
    same = beside is not None and at.date() == beside.date()
    return f"{at:%H:%M:%S} UTC" if same else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def since(text: Any, at: datetime | None) -> str:
    """``since 14:18:00 UTC (11 min)``, as seen from *at*."""
    found = moment(text)
    if found is None:
        return "since an unknown time"
    lasted = f" ({span((at - found).total_seconds())})" if at is not None else ""
    return f"since {clock(found, at)}{lasted}"


def until(text: Any, at: datetime | None) -> str:
    """``at 14:18:00 UTC (in 11 min)``, as seen from *at*."""
    found = moment(text)
    if found is None:
        return "at an unknown time"
    left = f" (in {span((found - at).total_seconds())})" if at is not None and found > at else ""
    return f"at {clock(found, at)}{left}"


def as_of(at: datetime | None, now: datetime) -> str:
    """Of when the picture is, and whether that is long ago."""
    if at is None:
        return "as of: no step has finished yet"
    old = f" - {span((now - at).total_seconds())} ago: the loop may stand still, see /healthz" if now - at > OLD else ""
    return f"as of {clock(at, now)}{old}"


def usd(amount: Any) -> str:
    """*amount* of USD with cents and separators, or a question mark."""
    try:
        return "?" if amount is None else f"{Decimal(str(amount)):,.2f}"
    except InvalidOperation:
        return "?"


def printable(found: Any) -> Any:
    """*found*, a text or a JSON document of texts, without control characters: names and comments are others' words."""
    if isinstance(found, str):
        return found if found.isprintable() else "".join(c if c.isprintable() else "?" for c in found)
    if isinstance(found, Mapping):
        return {key: printable(value) for key, value in found.items()}
    if isinstance(found, Sequence):
        return [printable(value) for value in found]
    return found
