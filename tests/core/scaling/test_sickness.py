"""A pool whose nodes fall sick one after the other slows down."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from receiver.core.model.memory import NodeLife
from receiver.core.scaling.sickness import falling_sick
from tests.core.builders import HOUR, MINUTE, NOW


def lived(name: str, *, usable: timedelta, fell: timedelta | None = None, gone: bool = False) -> NodeLife:
    """A node that was usable and fell sick so long ago."""
    return NodeLife(
        instance=name,
        pool="l40s-id",
        name=name,
        size="x",
        created_at=NOW - usable - 5 * MINUTE,
        usable_at=NOW - usable,
        sick_since=None if fell is None else NOW - fell,
        gone_at=NOW if gone else None,
    )


def until(lives: Sequence[NodeLife]) -> datetime | None:
    found = falling_sick(lives, "l40s-id", NOW)
    return None if found is None else found.until


def test_one_sick_node_says_nothing_of_the_next_one() -> None:
    assert until([lived("a", usable=HOUR, fell=MINUTE)]) is None


def test_two_in_a_row_hold_for_five_minutes_and_each_one_more_doubles_that() -> None:
    row = [lived(name, usable=(n + 1) * HOUR, fell=(n + 1) * MINUTE) for n, name in enumerate("abcd")]
    for count, minutes in ((2, 5), (3, 10), (4, 20)):
        assert until(row[:count]) == NOW + (minutes - 1) * MINUTE
    assert falling_sick(row, "another-id", NOW) is None


def test_a_node_that_works_breaks_the_row_and_a_new_one_does_not_yet() -> None:
    row = [lived("a", usable=3 * HOUR, fell=MINUTE), lived("b", usable=2 * HOUR, fell=MINUTE, gone=True)]
    assert until([*row, lived("new", usable=29 * MINUTE)]) is not None
    assert until([*row, lived("well", usable=30 * MINUTE)]) is None
    assert until([*row, lived("done", usable=20 * MINUTE, gone=True)]) is None


def test_what_fell_sick_more_than_a_day_ago_does_not_count() -> None:
    assert until([lived("a", usable=40 * HOUR, fell=25 * HOUR), lived("b", usable=HOUR, fell=MINUTE)]) is None
