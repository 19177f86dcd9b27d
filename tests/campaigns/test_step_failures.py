"""An exception in a function of a step, at each place that meets one: what the other pools still get.

One function stands for all whose exceptions a place meets: where code loses its guard, or new code has none, the place
is another one. `make step-failures` plants into every function, and into the store's on SQLite.
"""

import pytest

from campaigns.step_failures.planting import Whose
from campaigns.step_failures.promises import done_twice, is_shared, never_met, not_recovered, not_served
from campaigns.step_failures.table import Row, one_at_each_place, table
from simulator.store import MemoryStore
from tests.stores import silent_log


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """One function of each place with the exception planted."""
    with silent_log([]):
        return list(table(MemoryStore(), lambda points: one_at_each_place(points, is_shared)))


def test_every_planted_bug_is_met(rows: list[Row]) -> None:
    assert never_met(rows) == []


def test_a_bug_that_belongs_to_one_pool_leaves_the_other_pools_served(rows: list[Row]) -> None:
    own = [row for row in rows if row.whose is Whose.BAD and not is_shared(row.function)]
    assert len(own) > 40, "few places met an exception of one pool: the scenario does too little"
    assert not_served(rows, Whose.BAD) == []


def test_a_bug_in_what_is_made_for_people_changes_nothing_for_any_pool(rows: list[Row]) -> None:
    shown = [row for row in rows if row.whose is Whose.ALL and not is_shared(row.function)]
    assert len(shown) > 10
    assert not_served(rows, Whose.ALL) == []


def test_once_a_bug_is_gone_every_pool_is_served_and_every_delivery_considered(rows: list[Row]) -> None:
    assert not_recovered(rows) == []


def test_no_bug_lets_anything_be_bought_or_removed_twice(rows: list[Row]) -> None:
    assert done_twice(rows) == []
