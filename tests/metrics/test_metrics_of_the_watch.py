"""Whether the watch of pods stands, as a metric."""

import pytest

from receiver.metrics.collector import WatchCounts
from receiver.reports.state import WatchState


@pytest.mark.parametrize(
    ("state", "values"),
    [(WatchState.OFF, []), (WatchState.WAITING, []), (WatchState.UP, [1.0]), (WatchState.DOWN, [0.0])],
)
def test_only_a_process_that_watches_says_whether_its_watch_stands(state: WatchState, values: list[float]) -> None:
    """Else every follower would show a broken watch."""
    counts = WatchCounts()
    counts.state = state
    [family] = [f for f in counts.collect() if f.name == "gpu_autoscaler_watch_up"]
    assert [sample.value for sample in family.samples] == values
