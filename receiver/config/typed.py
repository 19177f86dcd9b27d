"""An end as people type it: ``90 min``, ``1h30m``, ``3 days``, ``until 09:00``. The configuration file is stricter."""

import re
from datetime import datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise

from receiver.config.values import Wrong
from receiver.core.model.overrides import next_time

EXAMPLE = "write a length such as 90 min, 1h30m or 3 days, or a time such as until 09:00"
LONGEST = timedelta(days=366)
UNITS = {  # seconds by how people write the unit; m is a minute, as in Prometheus
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86400),
}
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
_PART = re.compile(rf"({_NUMBER})\s*([a-z]+)")
_LENGTH = re.compile(rf"{_PART.pattern}(?:\s*{_PART.pattern})*")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def end_of(phrase: str, now: datetime, timezone: str) -> datetime:
    """Return the end (UTC) that *phrase* means at *now*; ``until 09:00`` is on a clock in *timezone*. Raise Wrong."""
    first, _, clock_time = phrase.strip().lower().partition(" ")
    if first != "until":
        return now + length_of(phrase)
    match = _CLOCK.fullmatch(clock_time.strip())
    if match is None:
        raise Wrong(f'"{phrase}" names no time of day', "write hours and minutes, such as until 09:00")
    return next_time(now, timezone, time(int(match[1]), int(match[2])))


def length_of(phrase: str) -> timedelta:
    """Return the length that *phrase* means; raise Wrong for what is not one or may mean several."""
    text = phrase.strip().lower()
    if re.fullmatch(_NUMBER, text):
        raise Wrong(f'"{phrase}" has no unit', f"write {text} min or {text} h")
    if _CLOCK.fullmatch(text):
        raise Wrong(f'"{phrase}" may be a length or a time of day', f"write until {text}, or a length such as 90 min")
    if not _LENGTH.fullmatch(text):
        raise Wrong(f'"{phrase}" is not a length of time', EXAMPLE)
    parts = [(Decimal(number), unit) for number, unit in _PART.findall(text)]
    unknown = next((unit for _, unit in parts if unit not in UNITS), None)
    if unknown is not None:
        raise Wrong(f'"{unknown}" is not a unit of time', "use s, min, h, days or weeks, such as 90 min")
    sizes = [UNITS[unit] for _, unit in parts]
    falling = all(larger > smaller for larger, smaller in pairwise(sizes))
    if not falling or (len(parts) > 1 and any(number % 1 for number, _ in parts)):
        raise Wrong(f'"{phrase}" is ambiguous', "write whole numbers, the largest unit first, such as 1h30m")
    seconds = sum((number * UNITS[unit] for number, unit in parts), Decimal(0))
    if seconds < 1:
        raise Wrong(f'"{phrase}" is too short', "write at least 1s")
    if seconds > int(LONGEST.total_seconds()):
        raise Wrong(f'"{phrase}" is longer than a year', "write a shorter length")
    return timedelta(microseconds=int(seconds * 10**6))
