"""Whether two windows can meet, against opening both on every minute that matters."""

from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.config.pools import WindowSpec, may_overlap, never_opens
from receiver.config.settings import to_core
from receiver.core.model.windows import is_open


def spec(**fields: object) -> WindowSpec:
    """A window, which is not refused when it never opens."""
    with patch("receiver.config.pools.never_opens", lambda _: False):
        return WindowSpec.model_validate({"name": "w", "max_nodes": "1", **fields})


def hours(first: int, last: int) -> list[dict[str, str]]:
    return [{"start_time": f"{first:02}:00", "end_time": f"{last:02}:00"}]


def test_ranges_that_only_touch_do_not_meet() -> None:
    assert not may_overlap(spec(times=hours(8, 12)), spec(times=hours(12, 18)))
    assert may_overlap(spec(times=hours(8, 13)), spec(times=hours(12, 18)))


def test_the_last_day_meets_the_29th_and_not_the_27th() -> None:
    assert may_overlap(spec(days_of_month=["-1"]), spec(days_of_month=["29"]))
    assert not may_overlap(spec(days_of_month=["-1"]), spec(days_of_month=["27"]))


def test_windows_of_two_zones_are_not_judged() -> None:
    assert not may_overlap(spec(), spec(location="Asia/Tokyo"))


spans = st.tuples(st.integers(0, 23), st.integers(1, 24)).filter(lambda pair: pair[0] < pair[1])
days = st.tuples(st.integers(1, 31), st.integers(1, 31)).map(sorted) | st.tuples(
    st.integers(-31, -1), st.integers(-31, -1)
).map(sorted)
months = st.tuples(st.integers(1, 12), st.integers(1, 12)).map(sorted)
specs = st.builds(
    lambda span, day, month, weekday: spec(
        **({"times": hours(*span)} if span else {}),
        **({"days_of_month": [f"{day[0]}:{day[1]}"]} if day else {}),
        **({"months": [f"{month[0]}:{month[1]}"]} if month else {}),
        **({"weekdays": [weekday]} if weekday else {}),
    ),
    st.none() | spans,
    st.none() | days,
    st.none() | months,
    st.none() | st.sampled_from(["sunday", "monday:tuesday"]),
)


@settings(max_examples=60, deadline=None)
@given(specs, specs)
def test_windows_that_are_ever_open_together_are_found(one: WindowSpec, other: WindowSpec) -> None:
    first, second = to_core(one), to_core(other)
    start = datetime(2024, 1, 1, tzinfo=UTC)  # a leap year
    begins = {0, *(minute for window in (first, second) for minute, _ in window.times)}  # so does every time together
    together = any(
        is_open(first, moment) and is_open(second, moment)
        for day in range(366)
        for minute in begins
        for moment in [start + timedelta(days=day, minutes=minute)]
    )
    if together:
        assert may_overlap(one, other)
    elif not (one.days_of_month or other.days_of_month or one.weekdays or other.weekdays):
        assert not may_overlap(one, other)


@pytest.mark.parametrize(
    ("fields", "never"),
    [
        ({"months": ["february"], "days_of_month": ["30"]}, True),
        ({"months": ["february"], "days_of_month": ["29"]}, False),  # in a leap year
        ({"months": ["february"], "days_of_month": ["28:31"]}, False),
        ({"months": ["april", "june"], "days_of_month": ["31"]}, True),
        ({"months": ["april:may"], "days_of_month": ["31"]}, False),
        ({"months": ["april"], "days_of_month": ["-31"]}, True),
        ({"months": ["april"], "days_of_month": ["-30"]}, False),
        ({"months": ["april"]}, False),
        ({"months": ["february"], "days_of_month": ["29"], "years": ["2026:2027"]}, True),
        ({"months": ["february"], "days_of_month": ["29"], "years": ["2026:2028"]}, False),
        ({"days_of_month": ["1"], "months": ["january"], "years": ["2026"], "weekdays": ["friday"]}, True),
        ({"days_of_month": ["1"], "months": ["january"], "years": ["2026"], "weekdays": ["thursday"]}, False),
        ({"days_of_month": ["31"], "years": ["2026"], "weekdays": ["sunday"]}, False),
        ({"days_of_month": ["13"], "weekdays": ["friday"]}, False),
    ],
)
def test_a_window_never_opens_when(fields: dict[str, object], never: bool) -> None:
    assert never_opens(spec(**fields)) is never


@settings(max_examples=60, deadline=None)
@given(days, months)
def test_a_window_that_never_opens_is_closed_on_every_day_of_four_years(day: list[int], month: list[int]) -> None:
    fields = spec(days_of_month=[f"{day[0]}:{day[1]}"], months=[f"{month[0]}:{month[1]}"])
    first, window = datetime(2024, 1, 1, tzinfo=UTC), to_core(fields)
    assert never_opens(fields) is not any(is_open(window, first + timedelta(days=n)) for n in range(4 * 366))
