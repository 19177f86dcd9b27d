"""The geometry of a replay's pictures."""

from itertools import pairwise
from typing import Any

import pytest

from receiver.web.pages.replay_pictures import BARS, LINE, PANEL, PLOT, days, highest, hours, panel, plot


def a_policy(name: str = "ours", cost: float = 1000, wait: float = 100, **given: Any) -> dict[str, Any]:
    """What a document says of one."""
    said = {"name": name, "kind": "policy", "gpu_hours_started": cost, "gpu_hours_second": cost, "wait_mean_s": wait}
    return {**said, **given}


def an_hour(hour: int, wait: float, jobs: int = 1) -> dict[str, Any]:
    """Waits of one hour of the day."""
    return {"hour": hour, "jobs": jobs, "wait_mean_s": wait, "wait_p95_s": wait}


def test_a_panel_draws_what_was_held_below_what_was_waited_for() -> None:
    found = panel("ours", {"held": [4.0, 4.0], "waiting": [0.0, 4.0], "paid": [8.0, 8.0]}, most=8.0)
    half = PANEL / 2
    assert found.held == f"M0 {half:g} L2 {half:g} L2 {PANEL} L0 {PANEL} Z"
    assert found.waiting == f"M0 {half:g} L1 {half:g} L1 0 L2 0 L2 {half:g} L0 {half:g} Z"
    assert found.paid == "M0 0 L2 0"
    assert found.described == "ours: GPUs paid 8 on average and 8 at most, held 4 and 4, waited for 2.0 and 4."


def test_all_panels_are_as_high_as_the_most_of_any() -> None:
    one = {"held": [1.0], "waiting": [9.0], "paid": [4.0]}
    other = {"held": [3.0], "waiting": [0.0], "paid": [30.0]}
    assert highest([one, other]) == 30.0
    assert highest([{"held": [0.0], "waiting": [0.0], "paid": [0.0]}]) == 1.0


@pytest.mark.parametrize(
    ("until", "labels"),
    [
        ("2026-01-01T05:00:00Z", ["00:00", "01:00", "02:00", "03:00", "04:00"]),
        ("2026-01-04T00:00:00Z", ["Jan 1", "12:00", "Jan 2", "12:00", "Jan 3", "12:00"]),
        ("2026-02-01T00:00:00Z", ["Jan 1", "Jan 8", "Jan 15", "Jan 22", "Jan 29"]),
    ],
)
def test_there_are_as_many_dates_as_have_room(until: str, labels: list[str]) -> None:
    assert [tick.label for tick in days("2026-01-01T00:00:00Z", until)] == labels


def test_what_is_cheaper_stands_left_and_what_waits_less_stands_lower() -> None:
    found = plot([a_policy("a", cost=1000, wait=100), a_policy("b", cost=1300, wait=50)], by_the_hour=True)
    assert found is not None
    one, two = found.dots
    assert 0 <= one.x < two.x <= 100
    assert 0 <= one.y < two.y <= PLOT


def test_names_of_dots_in_one_place_stand_apart() -> None:
    found = plot([a_policy(name, cost=1000 + n, wait=100) for n, name in enumerate("abc")], by_the_hour=True)
    assert found is not None
    lines = sorted(dot.name_y for dot in found.dots)
    assert all(lower - upper >= LINE for upper, lower in pairwise(lines))


def test_what_would_squeeze_all_others_is_told_beside_the_plot() -> None:
    found = plot([a_policy(), a_policy("near", 1100), a_policy("always-on", 4000, 0)], by_the_hour=False)
    assert found is not None
    assert [dot.name for dot in found.dots] == ["ours", "near"]
    assert found.outside == ("always-on 4,000 GPU-hours, mean wait 0s",)


@pytest.mark.parametrize(
    ("waits", "labels"),
    [
        ((85.0, 111.0), ["1m30s", "1m40s", "1m50s"]),
        ((200.0, 400.0), ["4m00s", "5m00s", "6m00s"]),
        ((30.0, 290.0), ["50s", "1m40s", "3m20s"]),
    ],
)
def test_marks_are_round_and_spread_over_the_whole_axis(waits: tuple[float, float], labels: list[str]) -> None:
    one, two = (a_policy(name, 1000, wait - 1) for name, wait in zip("ab", waits, strict=True))
    found = plot([one, two], by_the_hour=True)
    assert found is not None
    assert [tick.label for tick in found.down] == labels


def test_policies_that_are_equal_have_a_plot_too() -> None:
    found = plot([a_policy("a"), a_policy("b")], by_the_hour=True)
    assert found is not None
    assert [dot.x for dot in found.dots] == [50.0, 50.0]
    assert len(found.across) >= 2
    assert len(found.down) >= 2


def test_without_anything_paid_there_is_no_plot() -> None:
    assert plot([a_policy(cost=0), a_policy("b")], by_the_hour=True) is None


def test_bars_are_the_first_policy_and_marks_the_other() -> None:
    first, other = [an_hour(0, 50), an_hour(1, 100)], [an_hour(0, 100), an_hour(1, 0, jobs=0)]
    found = hours(first, other, "peer")
    assert [bar.height for bar in found.bars] == [BARS / 2, BARS]
    assert [bar.mark for bar in found.bars] == [0.0, None]
    assert found.bars[0].title == "00:00 UTC, 1 jobs: 50s; peer 1m40s"


def test_a_policy_alone_has_bars_without_marks() -> None:
    assert [bar.mark for bar in hours([an_hour(0, 5)], None, "").bars] == [None]
