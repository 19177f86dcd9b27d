"""What /metrics and /healthz say of the watch of pods."""

from collections.abc import Iterator
from enum import StrEnum

from prometheus_client import Counter
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from receiver.metrics.families import PREFIX, gauge


class WatchState(StrEnum):
    """Whether pods are watched: not asked for, another process leads, they are, or they cannot be just now."""

    OFF = "off"
    WAITING = "waiting"
    UP = "up"
    DOWN = "down"


class WatchCounts(Collector):
    """How the watch stands and how often it woke the loop."""

    def __init__(self) -> None:
        """Nobody watches until somebody says so."""
        self.state = WatchState.OFF
        self._wakes = Counter(f"{PREFIX}_watch_wakes", "Times that the watch of pods woke the loop.", registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield both families; whoever is not to watch says nothing of how the watch stands."""
        rows = [((), float(self.state is WatchState.UP))] if self.state in (WatchState.UP, WatchState.DOWN) else []
        yield gauge("watch_up", "Whether the watch of pods stands (1) or not (0).", rows)
        yield from self._wakes.collect()

    def stands(self) -> None:
        """The connection is there."""
        self.state = WatchState.UP

    def fell(self) -> None:
        """It is not, though it should be."""
        self.state = WatchState.DOWN

    def not_ours(self) -> None:
        """Another process leads, or nobody does yet."""
        self.state = WatchState.WAITING

    def woke(self) -> None:
        """Count a wake-up."""
        self._wakes.inc()
