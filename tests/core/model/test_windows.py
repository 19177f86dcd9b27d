"""Windows follow the wall clock of their zone, also through the nights that skip or repeat an hour.

The second half looks at every zone of the IANA database, around changes of its offset from 2024 to 2027. A change of
offset is found there apart from how the code looks for it: by asking for the offset every few days.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.model.windows import HORIZON, Bounds, Window, bounds_at, is_open, next_change
from tests.core.builders import AN_INSTANT, DAY, HOUR, MINUTE

ZONES = (
    "UTC",
    "Europe/London",  # skips at 01:00 UTC
    "America/New_York",
    "America/Santiago",  # skips midnight itself
    "Australia/Lord_Howe",  # half an hour
    "Asia/Kolkata",  # +05:30, never changes
    "Africa/Casablanca",  # changes for Ramadan
    "Pacific/Apia",  # +13, and a whole day was skipped in 2011
)
NIGHTS = ((20 * 60, 1440), (0, 7 * 60))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_window_without_fields_is_always_open() -> None:
    assert is_open(Window(name="always", max_nodes=1), utc("2026-02-28T23:59:59"))


def test_a_time_range_includes_its_start_and_not_its_end() -> None:
    window = Window(name="morning", times=((7 * 60, 9 * 60),))
    assert [is_open(window, utc(f"2026-05-04T{clock}")) for clock in ("06:59:59", "07:00", "08:59:59", "09:00")] == [
        False,
        True,
        True,
        False,
    ]


def test_a_range_to_24_00_lasts_until_midnight() -> None:
    window = Window(name="evening", times=((1200, 1440),))
    assert is_open(window, utc("2026-05-04T23:59:59.999999"))
    assert not is_open(window, utc("2026-05-05T00:00"))


def test_the_zone_of_the_window_decides_and_not_that_of_the_server() -> None:
    window = Window(name="nights", location="Europe/London", times=NIGHTS)
    assert is_open(window, utc("2026-07-01T19:00"))  # 20:00 in London's summer
    assert not is_open(window, utc("2026-01-01T19:00"))  # 19:00 in its winter


def test_weekdays_count_from_sunday_and_include_both_ends() -> None:
    window = Window(name="work", weekdays=((1, 5),))
    days = [is_open(window, utc(f"2026-05-0{day}T12:00")) for day in range(3, 10)]  # 3 May 2026 is a Sunday
    assert days == [False, True, True, True, True, True, False]


@pytest.mark.parametrize(
    ("day", "expected"), [("2028-02-28", False), ("2028-02-29", True), ("2027-02-28", True), ("2026-04-30", True)]
)
def test_minus_one_is_the_last_day_of_any_month(day: str, expected: bool) -> None:
    window = Window(name="closing", days_of_month=((-1, -1),))
    assert is_open(window, utc(f"{day}T12:00")) is expected


def test_a_day_range_may_run_from_a_date_to_the_end_of_the_month() -> None:
    window = Window(name="late", days_of_month=((28, -2),))
    assert [is_open(window, utc(f"2026-01-{day}T12:00")) for day in (27, 28, 30, 31)] == [False, True, True, False]


def test_a_day_that_the_month_does_not_have_never_opens() -> None:
    window = Window(name="31st", days_of_month=((31, 31),))
    assert not any(is_open(window, utc(f"2026-04-{day:02}T12:00")) for day in range(1, 31))


def test_months_and_years_narrow_a_window_together() -> None:
    window = Window(name="summer", months=((6, 8),), years=((2026, 2026),))
    assert is_open(window, utc("2026-06-01T00:00"))
    assert not is_open(window, utc("2026-09-01T00:00"))
    assert not is_open(window, utc("2027-06-01T00:00"))


def test_a_range_in_the_hour_that_is_skipped_does_not_open_that_night() -> None:
    window = Window(name="gap", location="Europe/London", times=((60, 120),))
    day = [utc("2026-03-29T00:00") + timedelta(minutes=m) for m in range(180)]
    assert not any(is_open(window, moment) for moment in day)


def test_a_range_in_the_hour_that_is_repeated_opens_both_times() -> None:
    window = Window(name="fold", location="Europe/London", times=((60, 90),))
    assert [is_open(window, utc(f"2026-10-25T{clock}")) for clock in ("00:15", "00:45", "01:15", "01:45")] == [
        True,
        False,
        True,
        False,
    ]


def test_the_second_time_of_a_repeated_hour_closes_a_window_too() -> None:
    window = Window(name="fold", location="Europe/London", times=((60, 90),))
    changes = [utc("2026-10-24T23:00")]
    while len(changes) < 5:
        changes.append(next_change([window], changes[-1]) or changes[-1])
    assert [f"{change:%H:%M}" for change in changes[1:]] == ["00:00", "00:30", "01:00", "01:30"]


def test_a_night_window_ends_at_seven_on_the_wall_through_both_changes() -> None:
    window = Window(name="nights", location="Europe/London", times=NIGHTS)
    assert next_change([window], utc("2026-03-28T22:00")) == utc("2026-03-29T06:00")  # a short night
    assert next_change([window], utc("2026-10-24T22:00")) == utc("2026-10-25T07:00")  # a long one


def test_a_window_that_starts_in_the_skipped_hour_opens_when_the_clock_jumps() -> None:
    window = Window(name="early", location="Europe/London", times=((90, 240),))
    assert next_change([window], utc("2026-03-29T00:10")) == utc("2026-03-29T01:00")


def test_the_next_change_is_that_of_whichever_window_moves_first() -> None:
    late = Window(name="late", times=((600, 660),))
    early = Window(name="early", times=((300, 360),))
    assert next_change([late, early], utc("2026-05-04T00:00")) == utc("2026-05-04T05:00")


def test_two_ranges_that_meet_at_midnight_are_one() -> None:
    window = Window(name="nights", times=NIGHTS)
    assert next_change([window], utc("2026-05-04T21:00")) == utc("2026-05-05T07:00")


def test_a_window_that_does_not_change_within_the_horizon_has_no_next_change() -> None:
    assert next_change([Window(name="june", months=((6, 6),))], utc("2026-01-01T00:00")) is None
    assert next_change([], utc("2026-01-01T00:00")) is None


def test_a_change_at_the_very_moment_asked_about_is_already_past() -> None:
    window = Window(name="morning", times=((420, 540),))
    assert next_change([window], utc("2026-05-04T07:00")) == utc("2026-05-04T09:00")


def test_bounds_are_the_pools_own_while_no_window_is_open() -> None:
    night = Window(name="nights", times=NIGHTS, max_nodes=0)
    assert bounds_at(1, 8, 2, [night], utc("2026-05-04T12:00")) == Bounds(min_nodes=1, max_nodes=8, standby_nodes=2)


def test_an_open_window_replaces_what_it_states_and_leaves_the_rest() -> None:
    day = Window(name="day", min_nodes=0, standby_nodes=1)
    assert bounds_at(2, 8, 0, [day], utc("2026-05-04T12:00")) == Bounds(
        min_nodes=0, max_nodes=8, standby_nodes=1, names=("day",)
    )


def test_open_windows_combine_to_lowest_maximum_highest_minimum_and_highest_standby() -> None:
    one = Window(name="one", min_nodes=1, max_nodes=6, standby_nodes=0)
    two = Window(name="two", min_nodes=2, max_nodes=4, standby_nodes=1)
    assert bounds_at(0, 8, 0, [one, two], utc("2026-05-04T12:00")) == Bounds(
        min_nodes=2, max_nodes=4, standby_nodes=1, names=("one", "two")
    )


def test_no_window_raises_the_pools_own_maximum() -> None:
    burst = Window(name="burst", max_nodes=20)
    assert bounds_at(0, 8, 0, [burst], utc("2026-05-04T12:00")).max_nodes == 8


def test_a_ceiling_goes_before_floor_and_standby() -> None:
    night = Window(name="nights", max_nodes=0)
    assert bounds_at(2, 8, 1, [night], utc("2026-05-04T12:00")) == Bounds(
        min_nodes=0, max_nodes=0, standby_nodes=0, names=("nights",)
    )


def ranges(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda pair: (min(pair), max(pair)))


times = ranges(0, 1439).map(lambda pair: (pair[0], pair[1] + 1))
windows = st.builds(
    Window,
    name=st.just("w"),
    location=st.sampled_from(ZONES),
    times=st.lists(times, max_size=2).map(tuple),
    weekdays=st.lists(ranges(0, 6), max_size=1).map(tuple),
    days_of_month=st.lists(ranges(1, 31) | ranges(-31, -1), max_size=1).map(tuple),
    months=st.lists(ranges(1, 12), max_size=1).map(tuple),
)
# Half of the moments lie close to a change of offset somewhere, the rest anywhere in the year.
NEAR_CHANGES = ("2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-09-06", "2026-02-15")
moments = st.builds(
    lambda day, seconds: utc(f"{day}T00:00") + timedelta(seconds=seconds),
    st.sampled_from(NEAR_CHANGES),
    st.integers(-86400, 86400),
) | st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 (hypothesis wants naive bounds)


@settings(max_examples=60, deadline=None)
@given(windows, moments)
def test_nothing_changes_before_the_next_change_and_something_does_at_it(window: Window, at: datetime) -> None:
    change = next_change([window], at)
    until = change or at + HORIZON
    now = is_open(window, at)
    moment = at.replace(second=0, microsecond=0) + timedelta(minutes=1)
    while moment < until:
        assert is_open(window, moment) is now
        moment += timedelta(minutes=1)
    if change is not None:
        assert change.utcoffset() == timedelta(0)
        assert at < change <= at + HORIZON
        assert is_open(window, change) is not now
        assert is_open(window, change - timedelta(microseconds=1)) is now


@given(
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
    st.lists(
        st.builds(
            Window,
            name=st.just("w"),
            min_nodes=st.none() | st.integers(0, 12),
            max_nodes=st.none() | st.integers(0, 12),
            standby_nodes=st.none() | st.integers(0, 12),
        ),
        max_size=4,
    ),
)
def test_bounds_never_cross_and_never_exceed_the_pools_maximum(
    low: int, high: int, spare: int, opened: list[Window]
) -> None:
    bounds = bounds_at(low, high, spare, opened, utc("2026-05-04T12:00"))
    assert 0 <= bounds.min_nodes <= bounds.max_nodes <= high
    assert 0 <= bounds.standby_nodes <= bounds.max_nodes


@given(windows, moments)
def test_the_zone_in_which_a_moment_is_written_does_not_matter(window: Window, at: datetime) -> None:
    assert is_open(window, at) is is_open(window, at.astimezone(ZoneInfo("Asia/Tokyo")))


EVERY_ZONE = sorted(available_timezones())
FIRST, LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
A_FEW_DAYS = 6 * DAY  # no zone changes its offset twice within it: the closest two are a Ramadan apart
MIDNIGHT = 1440
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
    for zone in EVERY_ZONE:
        for jump in jumps(zone):
            for window in windows_at(zone, jump):
                yield window, jump - 5 * HOUR
                if jump != YEARS_END:
                    yield window, jump - AN_INSTANT
                    yield window, jump


def test_the_database_has_zones_that_change_and_zones_that_do_not() -> None:
    changing = [zone for zone in EVERY_ZONE if changes_of(zone)]
    assert len(EVERY_ZONE) > 400
    assert 100 < len(changing) < len(EVERY_ZONE) - 100
    assert {"Europe/London", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Almaty"} <= set(changing)


def test_in_every_zone_nothing_changes_before_the_next_change_and_something_does_at_it() -> None:
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
    for zone in EVERY_ZONE:
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


def test_in_every_zone_it_does_not_matter_in_which_a_moment_is_written() -> None:
    london = Window(name="nights", location="Europe/London", times=NIGHTS)
    for zone in EVERY_ZONE:
        moment = jumps(zone)[0]
        there = moment.astimezone(ZoneInfo(zone))
        assert there.astimezone(UTC) == moment
        assert is_open(london, there) is is_open(london, moment), (zone, moment)
        assert next_change([london], there) == next_change([london], moment), (zone, moment)


def test_what_is_open_at_once_leaves_the_lowest_maximum_and_the_highest_minimum_on_both_sides_of_a_jump() -> None:
    for zone in EVERY_ZONE:
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
