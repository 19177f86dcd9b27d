"""What /metrics says of this process' calls to Civo."""

from collections.abc import Iterator

from prometheus_client import Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from receiver.metrics.families import PREFIX

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
