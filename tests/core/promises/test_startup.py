"""What past nodes say about the next ones."""

from dataclasses import replace

import pytest

from receiver.core.model.memory import NodeLife
from receiver.core.promises.startup import FEWEST, LAST_NODES, Learnt, Startup, chance, gap, learn
from tests.core.builders import MINUTE, NOW, SECOND, a_life
from tests.core.promises.past import a_past_node, nine_nodes

POOL = "l40s-id"


def left(learnt: Learnt, instance: str | None = None, passed: float = 0) -> list[float]:
    return list(learnt.left(POOL, instance, NOW - passed * SECOND, NOW))


def test_the_kth_of_n_values_is_exceeded_by_the_next_one_with_a_chance_of_one_less_k_of_n_and_one() -> None:
    values = [10.0, 20.0, 30.0, 40.0]
    assert [round(chance(values, v), 6) for v in values] == [0.2, 0.4, 0.6, 0.8]
    assert chance(values, 25.0) == pytest.approx(0.5)


def test_beyond_the_last_value_the_mean_gap_goes_on_until_it_is_certain() -> None:
    values = [10.0, 20.0, 30.0, 40.0]
    assert chance(values, 45.0) == pytest.approx(0.9)
    assert (chance(values, 50.0), chance(values, 60.0), chance(values, 0.0)) == (1.0, 1.0, 0.0)


def test_values_that_differ_by_the_noise_of_floating_point_alone_are_certain_a_moment_later() -> None:
    values = [300.0] * 4 + [300.00000000000006]
    assert chance(values, values[-1] + gap(values)) == pytest.approx(1.0)


def test_a_new_node_takes_as_long_as_the_past_ones() -> None:
    assert left(learn(nine_nodes())) == [100 + 10 * n for n in range(9)]


def test_a_node_has_less_left_the_longer_it_is_on_its_way() -> None:
    assert left(learn(nine_nodes()), passed=30) == [70 + 10 * n for n in range(9)]


def test_a_node_that_still_builds_is_compared_with_those_that_took_as_long_to_build() -> None:
    past = [a_past_node(n, usable=100 + 10 * n, built=20 + 10 * n, ready=100) for n in range(9)]
    # Built, as seen half a tick late, after 15 to 95 seconds: five of them were still built after 50.
    assert left(learn(past), passed=50) == [90, 100, 110, 120, 130]


def test_a_node_that_installs_its_driver_is_compared_with_how_long_that_took() -> None:
    life = a_life("i-new", created_at=NOW - 10 * MINUTE, active_at=NOW - 3 * MINUTE, ready_at=NOW - 25 * SECOND)
    learnt = learn([*nine_nodes(), life])
    # They were Ready after 75 s, and usable 25 to 105 s later; this one has been Ready for 30 s.
    assert left(learnt, "i-new") == [5, 15, 25, 35, 45, 55, 65, 75]


def test_of_a_node_that_takes_longer_than_almost_all_nothing_is_known() -> None:
    assert left(learn(nine_nodes()), passed=57) == []


def test_a_few_nodes_say_nothing_of_the_spread() -> None:
    assert left(learn(nine_nodes()[: FEWEST - 1])) == []
    assert left(learn(nine_nodes()[:FEWEST])) != []


def test_the_last_nodes_count_and_older_ones_do_not() -> None:
    past = [a_past_node(n, usable=100 if n < 10 else 200) for n in range(LAST_NODES + 10)]
    assert set(left(learn(past))) == {200}


def test_a_node_that_was_usable_before_it_was_watched_says_nothing() -> None:
    life = a_past_node(0, usable=100)
    assert Startup.of(a_past_node(0, usable=100, seen_at=life.usable_at)) is None


def test_a_node_without_a_pod_was_usable_half_a_tick_before_a_step_saw_it() -> None:
    found = Startup.of(a_past_node(0, usable=100, bound_at=None))
    assert found is not None
    assert found.usable == 95


def test_the_image_pull_of_the_first_pod_is_part_of_the_time_to_its_start() -> None:
    found = Startup.of(a_past_node(0, usable=100, running_at=a_past_node(0, usable=100).created_at + 140 * SECOND))
    assert found is not None
    assert (found.usable, found.start) == (100, 40)


def pulling(image: str, seconds: int, count: int, first: int = 0) -> list[NodeLife]:
    """Past nodes that took 100 s, and whose first pod waited so long for the pull of *image*."""
    began = [a_past_node(n, usable=100, image=image) for n in range(first, first + count)]
    return [replace(life, running_at=life.created_at + (100 + seconds) * SECOND) for life in began]


def test_the_pull_of_an_image_takes_as_long_as_its_pulls_on_past_nodes() -> None:
    learnt = learn([*pulling("small", 10, FEWEST), *pulling("huge", 480, FEWEST, first=FEWEST)])
    assert list(learnt.left(POOL, None, NOW, NOW, "small")) == pytest.approx([110] * 2 * FEWEST, abs=0.01)
    assert list(learnt.left(POOL, None, NOW, NOW, "huge")) == pytest.approx([580] * 2 * FEWEST, abs=0.01)
    assert (learnt.pull(POOL, "small"), learnt.pull(POOL, "huge")) == (10 * SECOND, 480 * SECOND)


def test_how_long_nodes_take_is_learnt_from_all_of_them_whatever_they_pulled() -> None:
    quick = [a_past_node(n, usable=50, image="other", running_at=None) for n in range(3)]
    learnt = learn([*quick, *pulling("huge", 480, FEWEST, first=3)])
    assert list(learnt.left(POOL, None, NOW, NOW, "huge")) == pytest.approx([530] * 3 + [580] * FEWEST, abs=0.01)


def test_the_next_pull_may_take_longer_than_any_before() -> None:
    pulls = [life for n in range(FEWEST) for life in pulling("huge", 100 + 10 * n, 1, first=n)]
    learnt = learn([*pulls, *(a_past_node(n, usable=100, image="other", running_at=None) for n in range(5, 9))])
    assert max(learnt.left(POOL, None, NOW, NOW, "huge")) == 100 + 140 + 10


def test_an_image_that_few_nodes_began_with_is_expected_to_take_what_all_pulls_took() -> None:
    learnt = learn([*pulling("small", 10, FEWEST), *pulling("huge", 480, FEWEST - 1, first=FEWEST)])
    assert learnt.left(POOL, None, NOW, NOW, "huge") == learnt.left(POOL, None, NOW, NOW)
    assert learnt.pull(POOL, "huge") is None
