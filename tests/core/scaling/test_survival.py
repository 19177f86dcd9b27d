"""How likely it is that work goes on, from its age and from what others lasted."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.scaling.packing import LATER, Survival
from tests.core.builders import HOUR, NOW, a_pod

lengths = st.lists(st.timedeltas(timedelta(0), timedelta(days=9)), max_size=30)
ages = st.timedeltas(timedelta(0), timedelta(days=9))


def test_with_nothing_known_what_has_run_longer_runs_on_longer() -> None:
    unknowing = Survival()
    chances = [unknowing.chance(age * HOUR, HOUR) for age in (0, 1, 10, 100)]
    assert chances == sorted(chances)
    assert chances[1] == pytest.approx(65 / 125)  # an hour and five minutes of two hours and five


def test_many_workloads_that_lasted_as_long_say_more_than_age() -> None:
    knowing = Survival.of([2 * HOUR] * 995)
    assert knowing.chance(HOUR, HOUR / 2) > 0.99
    assert knowing.chance(HOUR, HOUR) < 0.01


def test_workloads_that_ended_younger_say_nothing_of_one_that_got_older() -> None:
    assert Survival.of([HOUR / 2] * 300).chance(HOUR, HOUR) == Survival().chance(HOUR, HOUR)


def test_one_of_two_pods_goes_on_more_likely_than_one() -> None:
    pods = [a_pod("a"), a_pod("b")]
    one, two = (Survival().goes_on(some, NOW + HOUR) for some in (pods[:1], pods))
    assert one < two < 1


def test_a_pod_counts_from_when_it_got_its_node() -> None:
    waited = a_pod("a", created_at=NOW - 9 * HOUR, bound_at=NOW - HOUR)
    at_once = a_pod("b", created_at=NOW - HOUR)
    assert Survival().goes_on([waited], NOW) == Survival().goes_on([at_once], NOW)


@given(lasted=lengths, age=ages)
def test_law_a_chance_is_a_ratio_and_falls_with_time(lasted: list[timedelta], age: timedelta) -> None:
    survival = Survival.of(lasted)
    chances = [survival.chance(age, more) for more in LATER]
    assert all(0 < chance < 1 for chance in chances)
    assert chances == sorted(chances, reverse=True)
