"""Windows as written: Alertmanager's time_intervals vocabulary to the ranges of the core.

Source: https://prometheus.io/docs/alerting/latest/configuration/#time_interval.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator

from receiver.config.mistakes import LongerThanZero, Text, Whole, Wrong, Zone, did_you_mean, longer_than_zero, text
from receiver.config.section import Section
from receiver.core.model.windows import Window
from receiver.core.notices.grouping import AT_MOST_EVERY

WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)|24:00")


def minute(value: Any) -> int:
    """Return the minute of the day of a wall-clock time, 24:00 being 1440; raise Wrong."""
    said = text(value, "a time of day")
    if not _CLOCK.fullmatch(said):
        raise Wrong(f'"{said}" is not a time of day', "write hours and minutes from 00:00 to 24:00, such as 20:00")
    hours, minutes = said.split(":")
    return int(hours) * 60 + int(minutes)


def weekdays_range(value: Any) -> tuple[int, int]:
    """Return a range of weekdays, Sunday being 0; raise Wrong."""
    first, last, said = _ends(value, "a weekday or a range of them")
    start, end = _named(first, WEEKDAYS, "weekday"), _named(last, WEEKDAYS, "weekday")
    if start > end:
        remedy = "write two entries: " + ", ".join(
            _range(WEEKDAYS[a], WEEKDAYS[b]) for a, b in ((start, len(WEEKDAYS) - 1), (0, end))
        )
        raise Wrong(f'"{said}" runs over the end of the week (weeks begin on sunday)', remedy)
    return start, end


def months_range(value: Any) -> tuple[int, int]:
    """Return a range of months, January being 1; names and numbers may be mixed; raise Wrong."""
    first, last, said = _ends(value, "a month or a range of them")
    start, end = _month(first), _month(last)
    if start > end:
        parts = ((start, 12), (1, end))
        remedy = "write two entries: " + ", ".join(_range(MONTHS[a - 1], MONTHS[b - 1]) for a, b in parts)
        raise Wrong(f'"{said}" runs over the end of the year', remedy)
    return start, end


def days_of_month_range(value: Any) -> tuple[int, int]:
    """Return a range of days; negative ones count from the month's end (-1 is the last day); raise Wrong."""
    first, last, said = _ends(value, "a day of the month or a range of them")
    start, end = _day(first), _day(last)
    if start < 0 < end:
        raise Wrong(f'"{said}" starts from the end of the month and ends from its beginning', "write two entries")
    # Months of other lengths cannot be judged here; what is inverted even in the longest one is a mistake.
    if (start if start > 0 else 32 + start) > (end if end > 0 else 32 + end):
        raise Wrong(
            f'"{said}" is inverted', "write the earlier day first, or two entries for a range over the month's end"
        )
    return start, end


def years_range(value: Any) -> tuple[int, int]:
    """Return a range of years; raise Wrong."""
    first, last, said = _ends(value, "a year or a range of them")
    for year in (first, last):
        if not re.fullmatch(r"[12]\d{3}", year):
            raise Wrong(f'"{year}" is not a year', "write four digits, such as 2026")
    if first > last:
        raise Wrong(f'"{said}" is inverted', "write the earlier year first")
    return int(first), int(last)


def _ends(value: Any, wanted: str) -> tuple[str, str, str]:
    said = text(value, wanted).lower()
    first, colon, last = said.partition(":")
    return first.strip(), (last if colon else first).strip(), said


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first}:{last}"


def _named(word: str, names: Sequence[str], what: str) -> int:
    if word not in names:
        raise Wrong(f'"{word}" is not a {what}', did_you_mean(word, names))
    return names.index(word)


def _month(word: str) -> int:
    if re.fullmatch(r"\d+", word):
        if 1 <= int(word) <= 12:
            return int(word)
        raise Wrong(f'"{word}" is not a month', "write 1 to 12 or a name such as january")
    return _named(word, MONTHS, "month") + 1


def _day(word: str) -> int:
    if not re.fullmatch(r"-?\d{1,2}", word) or not 1 <= abs(int(word)) <= 31:
        raise Wrong(f'"{word}" is not a day of the month', "write 1 to 31, or -1 to -31 from the month's end")
    return int(word)


def filled(value: Any) -> Any:
    """Return *value* unless it is an empty list, which would read as never and mean always; raise Wrong."""
    if value == []:
        raise Wrong("is empty", "list at least one range, or remove the key to match always")
    return value


class TimeRange(Section):
    """A range of the wall clock; the end is exclusive."""

    start_time: Annotated[int, BeforeValidator(minute)]
    """begin of a range, inclusive"""
    end_time: Annotated[int, BeforeValidator(minute)]
    """its end, exclusive; a range over midnight is written as two"""


Filled = BeforeValidator(filled)


class WindowSpec(Section):
    """When a pool's bounds differ, as written."""

    name: Text
    """what logs, chat and pages call it"""
    location: Zone = "UTC"
    """whose wall clock counts"""
    times: Annotated[tuple[TimeRange, ...], Filled] = ()
    weekdays: Annotated[tuple[Annotated[tuple[int, int], BeforeValidator(weekdays_range)], ...], Filled] = ()
    """`monday`, `monday:friday`; weeks begin on sunday"""
    days_of_month: Annotated[tuple[Annotated[tuple[int, int], BeforeValidator(days_of_month_range)], ...], Filled] = ()
    """`1`, `1:5`; negative days count from the end: `-1` is the last"""
    months: Annotated[tuple[Annotated[tuple[int, int], BeforeValidator(months_range)], ...], Filled] = ()
    """`january`, `5:8`"""
    years: Annotated[tuple[Annotated[tuple[int, int], BeforeValidator(years_range)], ...], Filled] = ()
    """`2026`, `2026:2027`"""
    min_nodes: Whole | None = None
    """the pool's minimum while the window is open"""
    max_nodes: Whole | None = None
    """the pool's maximum while the window is open"""
    standby_nodes: Whole | None = None
    """the pool's standby while the window is open"""
    evict_after: LongerThanZero | None = None
    """evict running work beyond `max_nodes` this long after it was announced; without it running work ends by itself"""

    def window(self) -> Window:
        """Return the core's value."""
        return Window(
            name=self.name,
            location=self.location,
            times=tuple((span.start_time, span.end_time) for span in self.times),
            weekdays=self.weekdays,
            days_of_month=self.days_of_month,
            months=self.months,
            years=self.years,
            min_nodes=self.min_nodes,
            max_nodes=self.max_nodes,
            standby_nodes=self.standby_nodes,
            evict_after=self.evict_after,
        )


LONGEST = timedelta(minutes=10)  # GpuAutoscalerNoticesStuck fires for what has waited a quarter of an hour


def spacing(value: Any) -> timedelta:
    """Return a duration above 0 and up to 10 minutes; raise Wrong."""
    length = longer_than_zero(value)
    if length > LONGEST:
        raise Wrong(f'"{value}" is too seldom', "write at most 10m; what waits longer counts as stuck")
    return length


Spacing = Annotated[timedelta, BeforeValidator(spacing)]


class NotifySpec(Section):
    """How often people are told."""

    at_most_every: Spacing = AT_MOST_EVERY
    """of one kind of news about one pool at most one message goes out in this time; the others wait for its end and
    come as one ([more](operations.md#how-many-messages-come))"""
