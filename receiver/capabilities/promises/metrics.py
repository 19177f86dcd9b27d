"""How promises ended, as a metric."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from receiver.core.model.policy import Policy
from receiver.core.promises.calibration import Came
from receiver.metrics.families import Families, Scrape, counter, filled
from receiver.ports import ReadStore


def promise_metrics(_: ReadStore, policy: Policy) -> Families:
    """Return what tells at a scrape how the first promises to waiting workloads ended."""
    combinations = [(pool.id, came.value) for pool in policy.pools for came in Came]

    def families(scrape: Scrape) -> Iterator[Metric]:
        ends = filled(scrape.counts.get("promises"), combinations)
        text = "First promises to waiting workloads that ended: begun by the promised p50, by the p90, or late."
        yield counter("promises", text, ends, "pool", "came")

    return families
