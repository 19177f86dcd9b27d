"""Windows follow the wall clock of their zone, also through the nights that skip or repeat an hour."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.model.windows import HORIZON, Bounds, Window, bounds_at, is_open, next_change

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
