"""The tables of docs/metrics.md, and the metrics that the receiver exports."""

import re
from collections.abc import Mapping
from functools import cache

from tests.docs.pages import section, table, text_of
from tests.metrics.counted import a_counted_store
from tests.metrics.scrapes import scrape

PAGE = text_of("docs/metrics.md")
RECEIVER = "The receiver"
THEMSELVES = ("Prometheus itself", "Alertmanager")
SIMULATED = ("dcgm-exporter", "kube-state-metrics", "Kueue", "Volcano")


@cache
def exporter_rows(title: str) -> Mapping[str, str]:
    """What one exporter's table says of each metric; a row may have several, each with the labels that are used."""
    return {name: says for cell, says in table(section(PAGE, title)) for name in re.findall(r"`(\w+)", cell)}


def told_type(says: str) -> str:
    """The type of a metric of which the page *says* this: a gauge unless another one is named."""
    return next((kind for kind in ("counter", "histogram") if says.startswith(kind)), "gauge")


@cache
def receivers_metrics() -> frozenset[str]:
    """The names in the receiver's table; a row has several, each with its labels."""
    return frozenset(name for _, cell in table(section(PAGE, RECEIVER)) for name in re.findall(r"`(\w+)", cell))


def metric_types(text: str) -> Mapping[str, str]:
    """What an exposition says of its metrics' types; names as they are in queries."""
    return dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))


@cache
def exported_types() -> Mapping[str, str]:
    """The types of everything that the receiver exports."""
    return metric_types(scrape(a_counted_store()))
