"""Metric families from the rows of a scrape. Names end in their unit; ratios are 0-1, money is USD."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from receiver.core.model.policy import Policy
from receiver.ports import ReadStore

PREFIX = "gpu_autoscaler"

Value = float | Decimal | timedelta | datetime | None
Row = tuple[Sequence[str], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """When /metrics is read, and what `ReadStore.counts` said then."""

    at: datetime
    counts: Mapping[str, Any]


Families = Callable[[Scrape], Iterable[Metric]]  # raises TryLater when the store fails
AddedFamilies = Callable[[ReadStore, Policy], Families]


def filled(counts: Mapping[Any, float] | None, combinations: Iterable[tuple[str, ...]]) -> list[Row]:
    """Return every one of *combinations*, 0 where *counts* (labels to number) has none, then what else it has."""
    rows: dict[tuple[str, ...], float] = dict.fromkeys(combinations, 0.0)
    for labels, total in (counts or {}).items():
        key = (labels,) if isinstance(labels, str) else tuple(labels)
        if all(isinstance(part, str) for part in key):  # an open action has no outcome yet
            rows[key] = float(total)
    return list(rows.items())


def _add(family: GaugeMetricFamily | CounterMetricFamily, rows: Iterable[Row]) -> Metric:
    """Add *rows*: moments in Unix seconds, lengths in seconds, and nothing for what is not known."""
    for labels, value in rows:
        match value:
            case None:
                continue
            case datetime():
                value = value.timestamp()
            case timedelta():
                value = value.total_seconds()
        family.add_metric(labels, float(value))
    return family


def gauge(name: str, text: str, rows: Iterable[Row], *labels: str) -> Metric:
    return _add(GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels), rows)


def single(name: str, text: str, value: Value) -> Metric:
    """Return a gauge without labels."""
    return gauge(name, text, [((), value)])


def counter(name: str, text: str, rows: Iterable[Row], *labels: str) -> Metric:
    return _add(CounterMetricFamily(f"{PREFIX}_{name}", text, labels=labels), rows)


def histogram(
    name: str,
    text: str,
    combinations: Iterable[tuple[str, ...]],
    bounds: Sequence[str],
    buckets: Mapping[tuple[str, ...], int],
    sums: Mapping[tuple[str, ...], float],
    *labels: str,
) -> Metric:
    """Return a histogram of every one of *combinations* and what else was counted.

    *buckets* says by (labels, upper bound) how many fell into that bucket alone, *sums* by labels what they come to.
    """
    family = HistogramMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
    for values in dict.fromkeys((*combinations, *sums)):
        counted = [(float(key[-1]), total) for key, total in buckets.items() if key[:-1] == values]
        upto = [(bound, float(sum(n for b, n in counted if b <= float(bound)))) for bound in bounds]
        family.add_metric(values, upto, sums.get(values, 0.0))
    return family
