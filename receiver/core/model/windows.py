"""Wall-clock windows in a named zone, with the vocabulary of Alertmanager's time_intervals."""

import math
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

HORIZON = timedelta(days=8)  # a weekly window opens or closes within it; a rarer one is looked at again later
_DAY = timedelta(days=1)
_STEP = 6 * 3600  # seconds; no zone changes its offset twice within it


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When a pool's bounds differ. Ranges are inclusive at both ends except *times*, whose end is exclusive.

    An empty field matches always. Running work beyond *max_nodes* is evicted after *evict_after* (None: never).
    """

    name: str
    location: str = "UTC"
    times: tuple[tuple[int, int], ...] = ()  # minutes of the day, 0 <= start < end <= 1440
    weekdays: tuple[tuple[int, int], ...] = ()  # 0 (Sunday) to 6
    days_of_month: tuple[tuple[int, int], ...] = ()  # 1 to 31, or -31 to -1 from the month's end
    months: tuple[tuple[int, int], ...] = ()  # 1 to 12
    years: tuple[tuple[int, int], ...] = ()
    min_nodes: int | None = None
    max_nodes: int | None = None
    standby_nodes: int | None = None
    evict_after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds in force at one moment, in nodes, and the *names* of the windows that are open then."""

    min_nodes: int
    max_nodes: int
    standby_nodes: int
    names: tuple[str, ...] = ()


def is_open(window: Window, at: datetime) -> bool:
    """True when the wall clock of the window's zone shows a moment of *window* at *at* (timezone-aware).

    The clock decides: a range inside the hour that a zone skips does not open that day, and one inside the hour that it
    repeats opens twice.
    """
    local = at.astimezone(ZoneInfo(window.location))
    weekday = local.isoweekday() % 7
    return (
        _within(window.times, local.hour * 60 + local.minute, end_exclusive=True)
        and _within(window.weekdays, weekday)
        and _on_day(window.days_of_month, local.date())
        and _within(window.months, local.month)
        and _within(window.years, local.year)
    )


def next_change(windows: Iterable[Window], at: datetime) -> datetime | None:
    """Return the first moment after *at* (UTC), within 8 days, at which one of *windows* opens or closes."""
    changes = [change for window in windows if (change := _change_of(window, at)) is not None]
    return min(changes, default=None)


def stays_open(window: Window, since: datetime, until: datetime) -> bool:
    """True when *window* is open at *since* and does not close before *until*."""
    if not is_open(window, since):
        return False
    at = since
    while at < until:
        closes = _change_of(window, at)
        if closes is not None:
            return closes > until
        at += HORIZON
    return True


def bounds_at(min_nodes: int, max_nodes: int, standby_nodes: int, windows: Sequence[Window], at: datetime) -> Bounds:
    """Return the bounds in force at *at*, given a pool's own bounds and its *windows*.

    A number in an open window replaces the pool's own. Several open windows combine: the lowest maximum, the highest
    minimum, the highest standby. The pool's own maximum is never exceeded, and a maximum cuts minimum and standby: a
    ceiling goes before a floor.
    """
    opened = [window for window in windows if is_open(window, at)]
    ceiling = min([max_nodes, *(w.max_nodes for w in opened if w.max_nodes is not None)])
    floor = max((w.min_nodes for w in opened if w.min_nodes is not None), default=min_nodes)
    standby = max((w.standby_nodes for w in opened if w.standby_nodes is not None), default=standby_nodes)
    return Bounds(
        min_nodes=min(floor, ceiling),
        max_nodes=ceiling,
        standby_nodes=min(standby, ceiling),
        names=tuple(window.name for window in opened),
    )


def _within(ranges: Sequence[tuple[int, int]], value: int, *, end_exclusive: bool = False) -> bool:
    if not ranges:
        return True
    return any(start <= value < end if end_exclusive else start <= value <= end for start, end in ranges)


def _on_day(ranges: Sequence[tuple[int, int]], day: date) -> bool:
    """True when *day* lies in one of *ranges*; a negative day counts from the end of that month (-1 is the last)."""
    length = monthrange(day.year, day.month)[1]
    placed = [tuple(d if d > 0 else length + 1 + d for d in span) for span in ranges]
    return not placed or any(start <= day.day <= end for start, end in placed)


@lru_cache(maxsize=256)  # a step asks for the same windows at the same moments again and again
def _change_of(window: Window, at: datetime) -> datetime | None:
    before = is_open(window, at)
    return next((moment for moment in _candidates(window, at) if is_open(window, moment) is not before), None)


def _candidates(window: Window, at: datetime) -> Iterator[datetime]:
    """Yield every moment in (at, at + 8 days] at which *window* can change, in order: the midnights and range ends of
    the wall clock, and changes of the zone's offset, where the clock may jump into or out of a range."""
    start = at.astimezone(UTC)
    minutes = {0, *(minute % 1440 for span in window.times for minute in span)}
    for begin, end in ((start, start + _DAY), (start + _DAY, start + HORIZON)):  # most change within a day
        moments = {
            *_wall_moments(window, minutes, begin, end),
            *_offset_changes(ZoneInfo(window.location), begin, end),
        }
        yield from sorted(moment for moment in moments if begin < moment <= end)


def _wall_moments(window: Window, minutes: Iterable[int], begin: datetime, end: datetime) -> Iterator[datetime]:
    zone = ZoneInfo(window.location)
    first = begin.astimezone(zone).date() - timedelta(days=1)
    wanted = [time(*divmod(minute, 60)) for minute in minutes]
    for offset in range((end - begin).days + 4):
        day = first + timedelta(days=offset)
        for clock in wanted:
            wall = datetime.combine(day, clock, tzinfo=zone)
            yield wall.astimezone(UTC)
            yield wall.replace(fold=1).astimezone(UTC)  # the second time, in the night that repeats an hour


def _offset_changes(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """The moments in (start, end] from which *zone* has another offset than just before."""
    first = start.replace(microsecond=0)

    def offset(second: int) -> timedelta | None:
        return (first + timedelta(seconds=second)).astimezone(zone).utcoffset()

    length = math.ceil((end - first).total_seconds()) + 1
    for low in range(0, length - 1, _STEP):
        high, old = min(low + _STEP, length - 1), offset(low)
        if offset(high) != old:
            second = bisect_left(range(low, high), True, key=lambda at, old=old: offset(at) != old)  # type: ignore[misc]
            yield first + timedelta(seconds=low + second)
