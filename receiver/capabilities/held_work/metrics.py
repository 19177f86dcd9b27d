"""The same as metrics, with a bounded number of series."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from receiver.capabilities.held_work.refusals import HeldPods, held_work
from receiver.core.model.policy import Policy
from receiver.metrics.families import Families, Scrape, Value, gauge
from receiver.ports import ReadStore
from receiver.reports.picture import kept_picture

MOST_SERIES = 100  # owners with a series each, in the order of service; the API lists all
LABELS = ("workload_namespace", "workload", "pool", "reason")


def held_work_metrics(store: ReadStore, _: Policy) -> Families:
    """Return what tells at a scrape which waiting work gets no node."""

    def families(_: Scrape) -> Iterator[Metric]:
        lines = held_work(*kept_picture(store)).held[:MOST_SERIES]
        yield _gauge("held_work_gpus", "GPUs of waiting pods of an owner that get no node now.", lines, "gpus")
        text = "When what holds them ends by itself, Unix time; none where no time is known."
        yield _gauge("held_work_until_timestamp_seconds", text, lines, "not_before")
        text = "USD per hour that their GPUs cost in this pool; none where it is not known."
        yield _gauge("held_work_usd_per_hour", text, lines, "usd_per_hour")

    return families


def _gauge(name: str, text: str, lines: tuple[HeldPods, ...], field: str) -> Metric:
    rows = [((line.namespace, line.owner, line.pool or "", line.reason), _value(line, field)) for line in lines]
    return gauge(name, text, rows, *LABELS)


def _value(line: HeldPods, field: str) -> Value:
    value: Value = getattr(line, field)
    return value
