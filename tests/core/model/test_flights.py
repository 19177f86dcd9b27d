"""What a pool's count may still become by writes whose effect was not seen."""

from dataclasses import replace

import pytest

from receiver.core.model.actions import Action
from receiver.core.model.flights import Flight, Range, flights_of, settle
from tests.core.builders import MINUTE, NOW, a_flight, a_growth, a_removal


@pytest.mark.parametrize(
    ("flights", "low", "high"),
    [
        pytest.param([], 3, 3, id="nothing is under way"),
        pytest.param([a_flight(5)], 3, 5, id="a growth that was not answered may arrive or not"),
        pytest.param([a_flight(5), a_flight(4)], 3, 5, id="counts are absolute: they do not add up"),
        pytest.param([a_flight(2)], 3, 3, id="a growth that was overtaken lowers nothing"),
        pytest.param([a_flight(1, 3)], 1, 3, id="a removal that was accepted may show or not"),
        pytest.param([a_flight(1, 3), a_flight(5)], 1, 5, id="a removal, and a growth after it"),
    ],
)
def test_a_count_may_become_what_the_writes_under_way_ask_for(flights: list[Flight], low: int, high: int) -> None:
    assert settle(3, flights) == Range(low=low, high=high)


@pytest.mark.parametrize(("count", "inside"), [(0, False), (1, True), (3, True), (5, True), (6, False)])
def test_a_range_contains_its_ends(count: int, inside: bool) -> None:
    assert (count in Range(low=1, high=5)) is inside


@pytest.mark.parametrize(
    "action",
    [a_removal("n1"), replace(a_growth(2), pool="other-id")],
    ids=["a removal", "growth of another pool"],
)
def test_only_growth_of_the_pool_is_a_flight_to_it(action: Action) -> None:
    assert flights_of([action], "l40s-id") == ()


def test_a_growth_is_sent_when_it_was_last_left_without_an_answer() -> None:
    known, unknown = flights_of([a_growth(2, unanswered_at=NOW + MINUTE), a_growth(3)], "l40s-id")
    assert (known.target, known.sent_at, unknown.target, unknown.sent_at) == (2, NOW + MINUTE, 3, NOW)


def test_a_write_without_an_answer_explains_no_count_by_itself() -> None:
    assert not a_flight(5).explains(4)
