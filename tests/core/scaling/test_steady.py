"""When the clock is believed with what two steps may do, and when with what nothing ever replaces."""

from datetime import datetime, timedelta

from receiver.core.model.memory import is_trusted, steady_since
from tests.core.builders import MINUTE, NOW


def sure_after(*steps: tuple[timedelta, bool]) -> list[bool]:
    """Whether the clock was sure at each of *steps* (their time, and whether they were steady)."""
    since: datetime | None = None
    found = []
    for at, steady in steps:
        since = steady_since(since, NOW + at, steady=steady)
        found.append(is_trusted(since, NOW + at))
    return found


def test_an_hour_of_steady_steps_makes_the_clock_sure() -> None:
    steps = [(minutes * MINUTE, True) for minutes in (0, 10, 59, 60, 61)]
    assert sure_after(*steps) == [False, False, False, True, True]


def test_a_step_that_is_not_steady_begins_the_hour_anew() -> None:
    ahead = timedelta(days=12)
    steps = [(0 * MINUTE, True), (60 * MINUTE, True), (ahead, False), (ahead + MINUTE, True), (61 * MINUTE, False)]
    assert sure_after(*steps) == [False, True, False, False, False]
    assert sure_after((0 * MINUTE, False), (90 * MINUTE, False)) == [False, False]
