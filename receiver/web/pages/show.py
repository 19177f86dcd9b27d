"""How values look on a page: money, counts, ratios and times. What is not known says so; it is never 0."""

from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from markupsafe import Markup, escape

from receiver.core.model.text import span

UNKNOWN = "unknown"


def number(value: Any) -> Decimal | None:
    """Return *value* as a finite Decimal, or None when it is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def time_of(value: Any) -> datetime | None:
    """Return *value* (RFC 3339 text or an aware datetime) in UTC, or None when it is no time."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return value.astimezone(UTC)


def count(value: Any) -> str:
    """Return a count, or a question mark."""
    found = number(value)
    return "?" if found is None else f"{found.normalize():f}"


def usd(value: Any) -> str:
    """Return USD with cents."""
    found = number(value)
    return UNKNOWN if found is None else f"${found:,.2f}"


def percent(value: Any) -> str:
    """Return a ratio 0-1 as whole percent."""
    found = number(value)
    return UNKNOWN if found is None else f"{found * 100:.0f}\N{NO-BREAK SPACE}%"


def hours(value: Any) -> str:
    """Return GPU-hours, or another large count, to a tenth."""
    found = number(value)
    return UNKNOWN if found is None else f"{found:,.1f}".removesuffix(".0")


def lasting(value: Any) -> str:
    """Return a length of time, given in seconds, in the units people think in."""
    found = number(value)
    return UNKNOWN if found is None else span(float(found))


def fine_usd(value: Any) -> str:
    """Return USD with cents, or with four digits where cents would hide it."""
    found = number(value)
    return UNKNOWN if found is None else usd(found) if found >= 1 else f"${found:.4f}"


def ago(value: Any, now: datetime) -> str:
    """Return how far *value* lies from *now*: ``3 min ago`` or ``in 5 min``."""
    at = time_of(value)
    if at is None:
        return UNKNOWN
    seconds = (now - at).total_seconds()
    return f"in {span(seconds)}" if seconds <= -1 else f"{span(max(seconds, 0))} ago"


def stamp(value: Any, now: datetime) -> Markup:
    """Return a time element: relative text for the eye, the exact UTC moment for machines and on hover."""
    at = time_of(value)
    if at is None:
        return escape(UNKNOWN)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat().replace("+00:00", "Z"), f"{at:%Y-%m-%d %H:%M:%S} UTC", ago(at, now)
    )
