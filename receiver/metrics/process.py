"""What /metrics says of this process alone: its calls to Civo, and (as /healthz does) its watch of pods."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

from prometheus_client import Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from receiver.metrics.families import PREFIX, gauge

METHODS = ("GET", "PUT", "DELETE")
OUTCOMES = ("ok", "try_later", "wont_work")
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class CivoCalls(Collector):
    """Counts calls by method and by how they ended: answered, worth another try, or refused for good."""

    def __init__(self) -> None:
        """Start every method and outcome at 0, so that a first failure is an increase."""
        self._ended = Counter(
            f"{PREFIX}_civo_requests", "Calls to Civo by outcome.", ["method", "outcome"], registry=None
        )
        self._seconds = Histogram(
            f"{PREFIX}_civo_request_seconds",
            "Time of a call to Civo, in seconds.",
            ["method"],
            registry=None,
            buckets=BUCKETS,
        )
        for method in METHODS:
            self._seconds.labels(method=method)
            for outcome in OUTCOMES:
                self._ended.labels(method=method, outcome=outcome)

    def collect(self) -> Iterator[Metric]:
        """Yield both families."""
        for metric in (self._ended, self._seconds):
            yield from metric.collect()

    def ended(self, method: str, outcome: str, seconds: float) -> None:
        """Count one call; *outcome* is one of OUTCOMES."""
        self._ended.labels(method=method, outcome=outcome).inc()
        self._seconds.labels(method=method).observe(seconds)


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
        self.ages: Callable[[], Mapping[str, float]] = dict
        self._wakes = Counter(f"{PREFIX}_watch_wakes", "Times that the watch of pods woke the loop.", registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield the families; whoever is not to watch says nothing of how the watch stands."""
        rows = [((), float(self.state is WatchState.UP))] if self.state in (WatchState.UP, WatchState.DOWN) else []
        yield gauge("watch_up", "Whether the watch of pods stands (1) or not (0).", rows)
        ages = [((resource,), age) for resource, age in self.ages().items()]
        said = "Seconds since the API server last confirmed a list that a watch keeps."
        yield gauge("cache_age_seconds", said, ages, "resource")
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
