"""Windows in every zone of the IANA database, around changes of its offset from 2024 to 2027.

A change of offset is found here apart from how the code looks for it: by asking for the offset every few days.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest

from receiver.core.model.windows import Window, bounds_at, is_open, next_change
from tests.core.builders import DAY, HOUR, MINUTE

ZONES = sorted(available_timezones())
FIRST, LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
A_FEW_DAYS = 6 * DAY  # no zone changes its offset twice within it: the closest two are a Ramadan apart
AN_INSTANT = timedelta(microseconds=1)
MIDNIGHT = 1440
NIGHTS = ((20 * 60, 1440), (0, 7 * 60))
YEARS_END = datetime(2026, 12, 31, 21, 30, tzinfo=UTC)  # where no clock ever jumps, this moment is looked at


@cache
def changes_of(zone: str) -> tuple[datetime, ...]:
    """The moments (UTC, to the minute) from which *zone* shows another offset than a minute before."""
    there = ZoneInfo(zone)
    found = []
    day, before = FIRST, FIRST.astimezone(there).utcoffset()
    while day < LAST:
        after = (day + A_FEW_DAYS).astimezone(there).utcoffset()
        if after != before:
            low, high = 0, A_FEW_DAYS // MINUTE
            while high - low > 1:
                middle = (low + high) // 2
                same = (day + middle * MINUTE).astimezone(there).utcoffset() == before
                low, high = (middle, high) if same else (low, middle)
            found.append(day + high * MINUTE)
        day, before = day + A_FEW_DAYS, after
    return tuple(found)


def jumps(zone: str) -> tuple[datetime, ...]:
    """The last jump forwards and the last back, or a moment without one."""
    return changes_of(zone)[-2:] or (YEARS_END,)


def around(zone: str) -> Iterator[datetime]:
    """Moments at which to look: before, at and after each jump of the clock."""
    for change in changes_of(zone) or (YEARS_END,):
        yield from (change - 5 * HOUR, change - AN_INSTANT, change, change + 90 * MINUTE)


def offset(zone: str, moment: datetime) -> timedelta:
    return moment.astimezone(ZoneInfo(zone)).utcoffset() or timedelta(0)


def minute_of(moment: datetime, zone: str) -> int:
    there = moment.astimezone(ZoneInfo(zone))
    return there.hour * 60 + there.minute


def windows_at(zone: str, moment: datetime) -> Iterator[Window]:
    """Windows that begin or end where the clock of *zone* jumps at *moment*, and some that people write."""
    there = ZoneInfo(zone)
    before, after = minute_of(moment - MINUTE, zone), minute_of(moment, zone)
    low, high = sorted((before, after))
    yield Window(name="nights", location=zone, times=NIGHTS)
    yield Window(name="in the jump", location=zone, times=((low, high + 1),))
    yield Window(name="from the jump on", location=zone, times=((after, min(MIDNIGHT, after + 45)),))
    length = abs(offset(zone, moment - MINUTE) - offset(zone, moment)) // MINUTE
    within = ((after if moment.astimezone(there).fold else before + 1) + length // 2) % MIDNIGHT
    yield Window(name="from within the jump on", location=zone, times=((within, min(MIDNIGHT, within + 60)),))
    yield Window(name="on the last day", location=zone, days_of_month=((-1, -1),), times=((30, MIDNIGHT),))


def every() -> Iterator[tuple[Window, datetime]]:
    """Every window of every zone with each moment from which the next change is asked for."""
    for zone in ZONES:
        for jump in jumps(zone):
            for window in windows_at(zone, jump):
                yield window, jump - 5 * HOUR
                if jump != YEARS_END:
                    yield window, jump - AN_INSTANT
                    yield window, jump


def test_the_database_has_zones_that_change_and_zones_that_do_not() -> None:
    changing = [zone for zone in ZONES if changes_of(zone)]
    assert len(ZONES) > 400
    assert 100 < len(changing) < len(ZONES) - 100
    assert {"Europe/London", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Almaty"} <= set(changing)


def test_nothing_changes_before_the_next_change_and_something_does_at_it() -> None:
    for window, at in every():
        change = next_change([window], at)
        now = is_open(window, at)
        seen = [at + n * 15 * MINUTE for n in range(1, 24)]  # over the jump and an hour more
        if change is not None:
            assert at < change, (window, at)
            assert change.utcoffset() == timedelta(0), (window, at)
            assert is_open(window, change) is not now, (window, at, change)
            assert is_open(window, change - AN_INSTANT) is now, (window, at, change)
            span = change - at
            seen = [m for m in (*seen, *(at + span * n / 7 for n in range(1, 7))) if m < change]
        assert all(is_open(window, moment) is now for moment in seen), (window, at, change)


def test_two_entries_that_meet_at_midnight_are_one_night_that_ends_at_seven_on_the_wall() -> None:
    for zone in ZONES:
        window, there = Window(name="nights", location=zone, times=NIGHTS), ZoneInfo(zone)
        for moment in jumps(zone):
            evening = (moment.astimezone(there).replace(tzinfo=None) - DAY).replace(hour=21, minute=0, second=0)
            for night in range(
                3 if moment != YEARS_END else 1
            ):  # the one before the clock jumps, the one in which it does, the one after
                start = (evening + night * DAY).replace(tzinfo=there).astimezone(UTC)
                end = next_change([window], start)
                assert end is not None, (zone, start)
                assert end.astimezone(there).strftime("%H:%M:%S") == "07:00:00", (zone, start, end)
                assert 8 * HOUR <= end - start <= 12 * HOUR, (zone, start, end)  # ten hours, Troll jumps by two


def test_the_zone_in_which_a_moment_is_written_does_not_matter() -> None:
    london = Window(name="nights", location="Europe/London", times=NIGHTS)
    for zone in ZONES:
        moment = jumps(zone)[0]
        there = moment.astimezone(ZoneInfo(zone))
        assert there.astimezone(UTC) == moment
        assert is_open(london, there) is is_open(london, moment), (zone, moment)
        assert next_change([london], there) == next_change([london], moment), (zone, moment)


def test_what_is_open_at_once_leaves_the_lowest_maximum_and_the_highest_minimum_on_both_sides_of_a_jump() -> None:
    for zone in ZONES:
        for moment in around(zone):
            windows = [
                Window(name="nights", location=zone, times=NIGHTS, min_nodes=1, max_nodes=3, standby_nodes=0),
                Window(name="weekend", location=zone, weekdays=((0, 0), (6, 6)), min_nodes=2, max_nodes=5),
                Window(name="month's end", location=zone, days_of_month=((-2, -1),), max_nodes=4, standby_nodes=2),
            ]
            there = moment.astimezone(ZoneInfo(zone))
            night = there.hour >= 20 or there.hour < 7
            weekend = there.weekday() >= 5
            month_ends = (there + 2 * DAY).month != there.month
            bounds = bounds_at(0, 8, 1, windows, moment)
            assert bounds.max_nodes == (3 if night else 4 if month_ends else 5 if weekend else 8), (zone, moment)
            assert bounds.min_nodes == (2 if weekend else 1 if night else 0), (zone, moment)
            standby = 2 if month_ends else 0 if night else 1
            assert bounds.standby_nodes == min(standby, bounds.max_nodes), (zone, moment)
            opened = [
                n
                for n, is_so in zip(("nights", "weekend", "month's end"), (night, weekend, month_ends), strict=True)
                if is_so
            ]
            assert list(bounds.names) == opened, (zone, moment)


@pytest.mark.parametrize("zone", ["Europe/London", "America/New_York", "Asia/Kolkata", "Pacific/Auckland", "UTC"])
def test_holidays_are_months_and_days_of_the_month_and_last_three_whole_days_on_the_wall(zone: str) -> None:
    christmas = Window(name="christmas", location=zone, months=((12, 12),), days_of_month=((24, 26),), max_nodes=0)
    there = ZoneInfo(zone)
    for year in (2026, 2027):
        begin = datetime(year, 12, 24, tzinfo=there).astimezone(UTC)
        end = datetime(year, 12, 27, tzinfo=there).astimezone(UTC)
        assert next_change([christmas], begin - DAY) == begin
        assert next_change([christmas], begin) == end
        assert bounds_at(1, 8, 1, [christmas], begin).max_nodes == 0
        assert bounds_at(1, 8, 1, [christmas], end).max_nodes == 8
    only_once = Window(
        name="stock-taking", location=zone, years=((2026, 2026),), months=((12, 12),), days_of_month=((31, 31),)
    )
    assert is_open(only_once, datetime(2026, 12, 31, 12, tzinfo=there))
    assert not is_open(only_once, datetime(2027, 12, 31, 12, tzinfo=there))
