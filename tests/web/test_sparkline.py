"""The small line of utilization: as high as the ratio, broken where nobody measured."""

from datetime import timedelta

from receiver.web.pages.lanes import EDGE, HEIGHT, sparkline, sparklines
from tests.web.builders import NOW


def heights(path: str) -> list[float]:
    return [float(point.split()[1]) for point in path.lstrip("M").split("L")]


def test_a_line_is_as_high_as_the_ratio() -> None:
    (path,) = sparkline([0.0, 0.5, 1.0]).lines
    assert heights(path) == [HEIGHT - EDGE, HEIGHT / 2, EDGE]


def test_a_ratio_beyond_its_bounds_stays_in_the_picture() -> None:
    (path,) = sparkline([-0.2, 1.7]).lines
    assert heights(path) == [HEIGHT - EDGE, EDGE]


def test_what_nobody_measured_is_a_gap_and_not_zero() -> None:
    assert len(sparkline([0.5, 0.5, None, 0.5, 0.5]).lines) == 2
    assert sparkline([None, None]).lines == ()


def test_a_moment_alone_is_still_drawn() -> None:
    (path,) = sparkline([None, 0.5, None]).lines
    assert len(heights(path)) == 2


def test_the_words_say_what_the_line_shows() -> None:
    assert sparkline([0.2, None, 0.8]).described == (
        "Utilization of the last 3 h: 20\xa0% to 80\xa0%, last 80\xa0%; unknown for 5 min."
    )
    assert sparkline([None]).described == "Utilization of the last 3 h: unknown."


def test_samples_of_five_minutes_are_one_point_and_each_pool_has_its_line() -> None:
    found = [("a", NOW - timedelta(minutes=m), ratio) for m, ratio in [(1, 0.2), (2, 0.6), (9, None)]]
    lines = sparklines([*found, ("b", NOW - timedelta(hours=4), 0.5)], NOW)
    assert list(lines) == ["a"]
    assert heights(lines["a"].lines[0])[0] == HEIGHT - EDGE - 0.4 * (HEIGHT - 2 * EDGE)


def test_a_hole_in_which_no_step_fell_is_bridged_and_one_in_which_nobody_could_tell_is_not() -> None:
    seen = [("a", NOW - timedelta(minutes=m), 0.5) for m in (2, 12)]
    assert len(sparklines(seen, NOW)["a"].lines) == 1
    assert len(sparklines([*seen, ("a", NOW - timedelta(minutes=7), None)], NOW)["a"].lines) == 2
