"""Ends as people type them: what is understood, what is refused with which example, and that what we print is read."""

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.config.typed import LONGEST, UNITS, end_of, length_of
from receiver.config.values import Wrong, duration, spell_duration
from receiver.core.model.text import lasting

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SECONDS = st.integers(1, int(LONGEST.total_seconds())).map(lambda seconds: timedelta(seconds=seconds))
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("said", "length"),
    [
        ("2 hours", 2 * HOUR),
        ("90 min", 1.5 * HOUR),
        ("1h30m", 1.5 * HOUR),
        ("1 h 30 min", 1.5 * HOUR),
        ("1.5h", 1.5 * HOUR),
        ("3 days", 72 * HOUR),
        (" 2 Hours ", 2 * HOUR),
        ("1w", 168 * HOUR),
        ("45s", timedelta(seconds=45)),
        ("0.5 days", 12 * HOUR),
    ],
)
def test_a_length_is_read_as_people_type_it(said: str, length: timedelta) -> None:
    assert length_of(said) == length


@pytest.mark.parametrize("spell", [lasting, spell_duration], ids=["as messages print it", "as the file prints it"])
@given(length=SECONDS)
def test_every_length_that_is_printed_is_read_as_the_same(spell: object, length: timedelta) -> None:
    assert callable(spell)
    assert length_of(spell(length)) == length


@given(milliseconds=st.integers(0, 10**8))
def test_every_length_that_the_file_prints_the_file_takes(milliseconds: int) -> None:
    length = timedelta(milliseconds=milliseconds)
    assert duration(spell_duration(length)) == length


@given(count=st.integers(1, 50), unit=st.sampled_from(sorted(UNITS)), gap=st.sampled_from(["", " ", "  "]))
def test_every_unit_counts_with_and_without_a_space(count: int, unit: str, gap: str) -> None:
    assert length_of(f"{count}{gap}{unit}") == timedelta(seconds=count * UNITS[unit])


@given(said=st.text(alphabet="0123456789.,:-+ hmdswuntil", max_size=14))
def test_any_text_is_an_end_ahead_or_refused_with_a_remedy(said: str) -> None:
    try:
        ahead = NOW < end_of(said, NOW, "UTC") <= NOW + LONGEST
    except Wrong as wrong:
        ahead = wrong.remedy != ""
    assert ahead


@pytest.mark.parametrize(
    ("said", "problem", "remedy"),
    [
        ("2", '"2" has no unit', "write 2 min or 2 h"),
        ("1.5", '"1.5" has no unit', "write 1.5 min or 1.5 h"),
        ("1h 30", '"1h 30" is not a length of time', "such as 90 min, 1h30m or 3 days"),
        ("1,5h", '"1,5h" is not a length of time', "until 09:00"),
        ("-2h", '"-2h" is not a length of time', "90 min"),
        ("soon", '"soon" is not a length of time', "90 min"),
        ("3 months", '"months" is not a unit of time', "such as 90 min"),
        ("30m 1h", '"30m 1h" is ambiguous', "such as 1h30m"),
        ("1h 1h", '"1h 1h" is ambiguous', "such as 1h30m"),
        ("1.5h 10m", '"1.5h 10m" is ambiguous', "such as 1h30m"),
        ("09:00", '"09:00" may be a length or a time of day', "write until 09:00, or a length such as 90 min"),
        ("until 9", '"until 9" names no time of day', "such as until 09:00"),
        ("until 25:00", '"until 25:00" names no time of day', "such as until 09:00"),
        ("until tomorrow", '"until tomorrow" names no time of day', "such as until 09:00"),
        ("0s", '"0s" is too short', "write at least 1s"),
        ("0.1s", '"0.1s" is too short', "write at least 1s"),
        ("400 days", '"400 days" is longer than a year', "write a shorter length"),
        ("999999999w", '"999999999w" is longer than a year', "write a shorter length"),
    ],
)
def test_what_is_unclear_is_refused_with_an_example(said: str, problem: str, remedy: str) -> None:
    with pytest.raises(Wrong) as caught:
        end_of(said, NOW, "UTC")
    assert caught.value.problem == problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("said", "zone", "end"),
    [
        ("until 09:00", "UTC", "2026-11-21T09:00"),
        ("until 18:00", "UTC", "2026-11-20T18:00"),
        ("Until 9:00", "Europe/Berlin", "2026-11-21T08:00"),
        ("until 12:00", "UTC", "2026-11-21T12:00"),  # now is not ahead
        ("until 09:00", "America/New_York", "2026-11-20T14:00"),
    ],
)
def test_until_a_time_of_day_is_its_next_moment_on_the_clock_of_the_zone(said: str, zone: str, end: str) -> None:
    assert end_of(said, NOW, zone) == datetime.fromisoformat(end).replace(tzinfo=UTC)


@given(clock=st.times(timezones=st.none()).map(lambda at: time(at.hour, at.minute)))
def test_a_printed_time_of_day_is_read_as_the_same(clock: time) -> None:
    assert end_of(f"until {clock:%H:%M}", NOW, "Europe/London").time() == clock
