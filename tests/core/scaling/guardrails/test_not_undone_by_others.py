"""not_undone_by_others: a change that another system reverted three times in a day is not tried again for a day."""

from datetime import timedelta

import pytest

from receiver.core.model.model import Drift
from tests.core.builders import NOW, a_state, growing, outcome, remedies, shrinking

DAY = timedelta(days=1)


def reverted(*minutes: int, undoes: bool = True) -> tuple[Drift, ...]:
    """The count went back from two to one, so many minutes ago."""
    return tuple(Drift(at=NOW - timedelta(minutes=m), from_count=2, to_count=1, undoes=undoes) for m in minutes)


def test_growth_that_was_reverted_three_times_waits_for_a_day() -> None:
    held = growing(state=a_state(drifts=reverted(10, 20, 30)))
    assert outcome(held) == ("not_undone_by_others", 0)
    assert held.deciding.until == NOW - timedelta(minutes=10) + DAY


@pytest.mark.parametrize(
    "drifts",
    [
        pytest.param(reverted(10, 20), id="twice"),
        pytest.param(reverted(10, 20, 30, undoes=False), id="what others changed was not ours"),
        pytest.param(reverted(24 * 60, 24 * 60 + 10, 24 * 60 + 20), id="a day ago"),
    ],
)
def test_growth_goes_on_where_it_was_reverted(drifts: tuple[Drift, ...]) -> None:
    assert outcome(growing(state=a_state(drifts=drifts))) == ("demand", 1)


def test_lowering_by_others_does_not_stop_removal() -> None:
    assert outcome(shrinking(state={"drifts": reverted(10, 20, 30)})) == ("idle_nodes", -1)


def test_the_remedy_is_to_leave_the_count_alone() -> None:
    found = remedies(growing(state=a_state(drifts=reverted(10, 20, 30))), "not_undone_by_others")
    assert any("if the count at Civo is left alone until then" in text for text, _ in found)
