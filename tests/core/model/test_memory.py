"""Within which time nine of ten of a pool's last nodes were usable; and when the clock is trusted."""

from datetime import datetime, timedelta
from typing import Any

from receiver.core.model.memory import FEWEST_NODES, LAST_NODES, NodeLife, is_sure, slow_starts, trusted_since
from tests.core.builders import MINUTE, NOW, a_life


def started(number: int, minutes: float, **changes: Any) -> NodeLife:
    """The node of that number, usable so many minutes after its creation."""
    at = NOW - timedelta(hours=100 - number)
    usable = at + minutes * MINUTE
    return a_life(f"i-{number}", **{"created_at": at, "seen_at": at, "usable_at": usable, **changes})


def test_nine_of_ten_were_usable_within_that_time() -> None:
    assert slow_starts(started(n, 1 + n) for n in range(10)) == {"l40s-id": 9 * MINUTE}


def test_few_nodes_say_nothing() -> None:
    assert slow_starts(started(n, 4) for n in range(FEWEST_NODES - 1)) == {}


def test_only_the_last_nodes_count() -> None:
    slow = [started(n, 30) for n in range(20)]
    assert slow_starts([*slow, *(started(20 + n, 4) for n in range(LAST_NODES))]) == {"l40s-id": 4 * MINUTE}


def test_a_node_that_was_usable_before_it_was_watched_does_not_count() -> None:
    assert slow_starts(started(n, 4, seen_at=NOW) for n in range(10)) == {}


def sure_after(*steps: tuple[timedelta, bool]) -> list[bool]:
    """Whether the clock was sure at each of *steps* (their time, and whether their clock was trusted)."""
    since: datetime | None = None
    found = []
    for at, trusted in steps:
        since = trusted_since(since, NOW + at, trusted=trusted)
        found.append(is_sure(since, NOW + at))
    return found


def test_an_hour_of_trusted_steps_makes_the_clock_sure() -> None:
    steps = [(minutes * MINUTE, True) for minutes in (0, 10, 59, 60, 61)]
    assert sure_after(*steps) == [False, False, False, True, True]


def test_a_step_that_is_not_trusted_begins_the_hour_anew() -> None:
    ahead = timedelta(days=12)
    steps = [(0 * MINUTE, True), (60 * MINUTE, True), (ahead, False), (ahead + MINUTE, True), (61 * MINUTE, False)]
    assert sure_after(*steps) == [False, True, False, False, False]
    assert sure_after((0 * MINUTE, False), (90 * MINUTE, False)) == [False, False]
