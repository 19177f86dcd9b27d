"""Within which time nine of ten of a pool's last nodes were usable."""

from datetime import timedelta
from typing import Any

from receiver.core.model.memory import FEWEST_NODES, LAST_NODES, NodeLife, slow_starts
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
