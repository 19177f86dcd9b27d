"""What a Prometheus stores of an exposition: the labels of the target, and those of the page that clash with them.

Also how promtool's tests write what was stored over time. A series that is not on a page any more, or whose target does
not answer, is stale at the next scrape, as Prometheus marks it.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache, lru_cache

import yaml

from tests.rules.files import RULES

Labels = Mapping[str, str]
SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:\\.|[^"\\])*)"')
TARGETS_OWN = frozenset({"__metrics_path__"})


@cache
def honored(job: str) -> bool:
    """Whether the example configuration keeps a page's labels where they clash with the target's."""
    scrapes = yaml.safe_load((RULES / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    return any(s["job_name"] == job and s.get("honor_labels", False) for s in scrapes)


def stored(page: str, target: Labels, *, honor: bool) -> Iterator[tuple[str, str]]:
    """Yield series and value as Prometheus stores them of a *page* scraped from *target*."""
    own = tuple((k, v) for k, v in target.items() if k not in TARGETS_OWN)
    for sample in SAMPLE.finditer(page):
        yield _stored_series(sample["name"], sample["labels"] or "", own, honor), sample["value"]


@lru_cache(maxsize=100_000)  # the next page of the same target has mostly the same series
def _stored_series(name: str, labels: str, own: Sequence[tuple[str, str]], honor: bool) -> str:
    of_target = dict(own)
    of_page = {k: v for k, v in LABEL.findall(labels) if v}
    if honor:
        return series(name, {**of_target, **of_page})
    renamed = {f"exported_{k}" if k in of_target else k: v for k, v in of_page.items()}
    return series(name, {**renamed, **of_target})


def series(name: str, labels: Labels) -> str:
    """Return a series in PromQL's notation; values of labels are taken as they are escaped on the page."""
    inner = ",".join(f'{k}="{v}"' for k, v in sorted(labels.items()))
    return f"{name}{{{inner}}}"


class Notebook:
    """Values by series over evenly spaced scrapes."""

    def __init__(self) -> None:
        self.scrapes = 0
        self._values: dict[str, list[str]] = {}

    def write(self, found: Mapping[str, str]) -> None:
        """Write down one scrape of everything."""
        for name in self._values.keys() | found.keys():
            column = self._values.setdefault(name, ["_"] * self.scrapes)
            gone = column[-1:] not in ([], ["_"], ["stale"])
            column.append(found.get(name) or ("stale" if gone else "_"))
        self.scrapes += 1

    def input_series(self, metrics: Container[str]) -> list[dict[str, str]]:
        """Return the series of *metrics* as a promtool test takes them."""
        chosen = ((n, column) for n, column in sorted(self._values.items()) if n.partition("{")[0] in metrics)
        return [{"series": name, "values": _short(column)} for name, column in chosen]

    def open_metrics(self, metrics: Container[str], start: float, every: float) -> str:
        """Return the series of *metrics* for promtool to make a database of; *start* is Unix time, *every* seconds.

        A series that goes has no mark of it there: it is seen for five minutes longer.
        """
        lines = [
            f"{name} {value} {start + place * every:.3f}"
            for name, column in sorted(self._values.items())
            if name.partition("{")[0] in metrics
            for place, value in enumerate(column)
            if value not in ("_", "stale")
        ]
        return "\n".join([*lines, "# EOF", ""])

    def names(self) -> set[str]:
        """Return the metrics that were there at any time."""
        return {name.partition("{")[0] for name in self._values}


def _short(column: Sequence[str]) -> str:
    """Promtool's notation, in which ``4x2`` is 4 three times and ``_x2`` two gaps."""
    parts: list[str] = []
    at = 0
    while at < len(column):
        value, end = column[at], at
        while end < len(column) and column[end] == value:
            end += 1
        count = end - at
        if value == "stale":
            parts += ["stale"] * count
        elif value == "_":
            parts.append(f"_x{count}" if count > 1 else "_")
        else:
            parts.append(f"{value}x{count - 1}" if count > 1 else value)
        at = end
    return " ".join(parts)
