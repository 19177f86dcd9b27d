"""within_limits: all pools together stay within max_gpus, max_growth_per_hour and max_removals_per_hour."""

from datetime import timedelta

import pytest

from receiver.core.model.policy import Limits
from tests.core.builders import HOUR, NOW, a_busy_node, a_policy, a_state, growing, outcome, remedies, rules, shrinking


@pytest.mark.parametrize(
    ("limits", "given", "bought"),
    [
        pytest.param(Limits(max_gpus=0), {}, 0, id="no GPUs"),
        pytest.param(Limits(max_gpus=3), {}, 2, id="two GPUs are left beside a busy one"),
        pytest.param(Limits(max_growth_per_hour=2), {}, 2, id="two nodes in an hour"),
        pytest.param(Limits(max_growth_per_hour=2), {"grown_last_hour": 1}, 1, id="one was bought in the last hour"),
        pytest.param(Limits(max_growth_per_hour=2), {"grown_last_hour": 2}, 0, id="both were"),
        pytest.param(Limits(), {}, 5, id="no limit"),
    ],
)
def test_growth_stays_within(limits: Limits, given: dict[str, int], bought: int) -> None:
    decision = growing(a_policy(limits=limits), a_state(a_busy_node()), pods=5, **given)
    assert decision.target - decision.present == bought
    assert rules(decision, "limits", "holds") == (["within_limits"] if bought < 5 else [])


@pytest.mark.parametrize(("removed", "going"), [(0, 3), (1, 2), (3, 0)])
def test_removals_of_an_hour_stay_within(removed: int, going: int) -> None:
    decision = shrinking(a_policy(limits=Limits(max_removals_per_hour=3)), nodes=4, removed_last_hour=removed)
    assert decision.present - decision.target == going


def test_it_lets_go_an_hour_after_the_first_change_that_counts() -> None:
    first = NOW - timedelta(minutes=40)
    held = growing(a_policy(limits=Limits(max_growth_per_hour=1)), grown_last_hour=1, first_changed_at=first)
    assert outcome(held) == ("within_limits", 0)
    assert held.deciding.until == first + HOUR


def test_the_remedy_names_the_limit() -> None:
    said = [text for text, _ in remedies(growing(a_policy(limits=Limits(max_gpus=0))), "within_limits")]
    assert any("if max_gpus (0) is used up" in text for text in said)
