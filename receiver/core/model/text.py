"""Formatting of numbers and durations in sentences, and sanitizing of external text."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from zoneinfo import ZoneInfo

# Control characters but tab and line breaks; what turns the direction of reading around; separators that some readers
# take for the end of a line. Terminals, logs and people's eyes obey them.
OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """External *text* with U+FFFD in place of characters that a screen would obey instead of show."""
    return OBEYED.sub("\ufffd", text)


def with_names(text: str, names: Mapping[str, str]) -> str:
    """*text* with the names for the ids in *names*. Only whole ids are replaced: ``l40s`` stands neither in
    ``nvidia.com/l40s`` nor in ``l40s-prod``."""
    mentioned = sorted((id_ for id_ in names if id_ and id_ in text), key=len, reverse=True)
    if not mentioned:
        return text
    ids = "|".join(map(re.escape, mentioned))
    return re.sub(rf"(?<![\w./=@-])(?:{ids})(?![\w/=@-]|[.:]\w)", lambda match: names[match[0]], text)


def cut(text: str, longest: int) -> str:
    """*text*, shortened to *longest* characters if it has more."""
    return text if len(text) <= longest else text[: longest - 4].rstrip(" .,;:\n") + " ..."


def some(count: int, noun: str) -> str:
    """*count* and *noun*, in the plural unless there is exactly one: ``1 node``, ``0 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def clock(at: datetime, now: datetime) -> str:
    """*at* as a time of day, with its date where that is not today's."""
    return f"{at:%H:%M:%S} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def minute(at: datetime, now: datetime) -> str:
    """*at* as a time of day to the minute, with its date where that is not today's."""
    return f"{at:%H:%M} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M} UTC"


def number(value: object) -> Decimal | None:
    """*value* as a finite Decimal, or None if it is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        decimal = Decimal(str(value))
    except InvalidOperation:
        return None
    return decimal if decimal.is_finite() else None


def dollars(value: object, otherwise: str = "unknown") -> str:
    """*value* USD for people: ``$1,234.50``, ``-$5.00``; below $0.10 with as many digits as matter (``$0.0004``)."""
    usd = number(value)
    if usd is None:
        return otherwise
    digits = 2 if abs(usd) >= DIME else min(6, max(4, -usd.adjusted()))
    rounded = usd.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)  # as `in_cents`
    whole, _, cents = f"{abs(rounded):,f}".partition(".")
    return f"{'-' if rounded < 0 else ''}${whole}.{cents[:2]}{cents[2:].rstrip('0')}"


DIME = Decimal("0.1")  # from here on cents are enough


def percent(ratio: object, otherwise: str = "unknown") -> str:
    """*ratio* (0-1) for people: ``121%``, half a percent up."""
    exact = number(ratio)
    return otherwise if exact is None else f"{(exact * 100).quantize(Decimal(1), ROUND_HALF_UP):f}%"


def listed(names: Sequence[str], most: int = 3) -> str:
    """*names* as a list that does not grow: ``a, b, c and 4 more``."""
    unnamed = len(names) - most
    return ", ".join(names[:most]) + (f" and {unnamed} more" if unnamed > 0 else "")


def lasting(length: timedelta) -> str:
    """*length* as Prometheus writes it, to the second: ``2h``, ``1h30m``, ``45s``."""
    seconds = int(length.total_seconds())
    parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def moment(at: datetime) -> str:
    """*at* with its date, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


_IN_UTC = re.compile(r"(?<!, )(?:(\d{4}-\d\d-\d\d)[ \xa0])?(\d\d:\d\d(?::\d\d)?)[ \xa0]UTC\b")


def in_zone(text: str, zone: str, now: datetime) -> str:
    """*text* with its times of UTC as the clocks of *zone* show them: ``15:18:00 CET``, with the date where that is not
    today's. A time without a date is one of the UTC day of *now*. Sentences are stored in UTC; this is for where a
    person reads them."""
    if zone == "UTC":
        return text
    local = ZoneInfo(zone)

    def shown(match: re.Match[str]) -> str:
        day, clock_time = match[1], match[2]
        try:
            at = datetime.fromisoformat(f"{day or now.astimezone(UTC).date()} {clock_time}").replace(tzinfo=UTC)
        except ValueError:  # no time, such as 99:00
            return match[0]
        at = at.astimezone(local)
        form = "%H:%M:%S" if clock_time.count(":") > 1 else "%H:%M"
        dated = day is not None or at.date() != now.astimezone(local).date()
        return at.strftime(f"%Y-%m-%d {form} %Z" if dated else f"{form} %Z")

    return _IN_UTC.sub(shown, text)


def span(seconds: float) -> str:
    """Return a duration in one or two units, for sentences: ``5 min``, ``3 h 10 min``."""
    whole = math.floor(abs(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        hours, minutes = whole // 3600, whole % 3600 // 60
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = whole // 86400, whole % 86400 // 3600
    return f"{days} d {hours} h" if hours else f"{days} d"


def brief(seconds: float) -> str:
    """Return a duration in one or two units, for columns: ``45s``, ``2m05s``, ``3h10m``, ``9d4h``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"
