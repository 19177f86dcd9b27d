"""What Grafana would ask a Prometheus for a panel, and what it makes of the answer."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests

from tools.grafana.files import EVERYTHING, JSON, filled

POINTS = 700  # as many as a panel of half the width has pixels


class Refused(Exception):
    """Prometheus did not take the query; the text is its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From when to when (Unix seconds), and how often Prometheus scrapes (seconds)."""

    start: float
    end: float
    scrape: float

    def step(self, panel: JSON) -> float:
        """Grafana's ``$__interval``: no finer than the scrapes, or than what the panel sets.

        The panels' own is made for scrapes every 15 s; it shrinks with them.
        """
        least = 60 * self.scrape / 15 if panel.get("interval") == "1m" else self.scrape
        points: int = panel.get("maxDataPoints", POINTS)
        return max(least, (self.end - self.start) / points)

    def rate_interval(self, step: float) -> float:
        """Grafana's ``$__rate_interval`` for its ``$__interval``, *step*."""
        return max(step + self.scrape, 4 * self.scrape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series as a panel shows it: *name* by the legend's format, *ref* the letter of its query."""

    name: str
    ref: str
    labels: Mapping[str, str] = field(default_factory=dict)
    points: Sequence[tuple[float, float]] = ()

    @property
    def last(self) -> float | None:
        """The last value, or None."""
        return self.points[-1][1] if self.points else None


class Prometheus:
    """Asks one server. Raises Refused for a query that it does not take."""

    def __init__(self, url: str, chosen: Mapping[str, str] = EVERYTHING) -> None:
        self._url, self._chosen = url.rstrip("/"), chosen
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy

    def course(self, target: JSON, span: Span, step: float) -> list[Series]:
        """Return *target*'s series over *span*, or their values at its end where it asks for these."""
        window, whole = (f"{round(seconds * 1000)}ms" for seconds in (span.rate_interval(step), span.end - span.start))
        expr = filled(target["expr"], self._chosen, window, whole)
        if target["instant"]:
            found = self._ask("query", query=expr, time=f"{span.end:.3f}")
        else:
            start = span.start - span.start % step  # Grafana aligns steps, so that points do not wander
            found = self._ask(
                "query_range", query=expr, start=f"{start:.3f}", end=f"{span.end:.3f}", step=f"{step:.3f}"
            )
        if found["resultType"] == "scalar":
            return [Series(name="scalar", ref=target["refId"], points=[_point(found["result"])])]
        return [
            Series(
                name=legend(target["legendFormat"], one["metric"]),
                ref=target["refId"],
                labels=one["metric"],
                points=[_point(p) for p in one.get("values") or [one["value"]] if p[1] != "NaN"],
            )
            for one in found["result"]
        ]

    def choices(self, variable: JSON) -> list[str]:
        """Return what a variable offers beside "All", as people read it."""
        query = filled(variable["query"]["query"], self._chosen)
        if values := re.fullmatch(r"label_values\((.+), (\w+)\)", query):
            found = self._ask("query", query=f"group by ({values[2]}) ({values[1]})")["result"]
            return sorted(one["metric"][values[2]] for one in found if values[2] in one["metric"])
        asked = re.fullmatch(r"query_result\((.+)\)", query)
        assert asked is not None, query
        texts = []
        for one in self._ask("query", query=asked[1])["result"]:
            shown = ",".join(f'{k}="{v}"' for k, v in sorted(one["metric"].items()))
            fit = re.search(variable["regex"].strip("/").replace("(?<", "(?P<"), f"{{{shown}}} {one['value'][1]}")
            assert fit is not None, shown
            texts.append(fit["text"])
        return sorted(texts)

    def _ask(self, what: str, **query: str) -> JSON:
        url = f"{self._url}/api/v1/{what}"
        answer = self._session.post(url, data=query, timeout=60)
        if not answer.ok:
            raise Refused(f"{query.get('query')}: {answer.text}")
        found: JSON = answer.json()["data"]
        return found


def legend(text: str, labels: Mapping[str, str]) -> str:
    """Return a series' name by the format *text*."""
    if text == "__auto":
        shown = ", ".join(f'{k}="{v}"' for k, v in labels.items() if k != "__name__")
        return f"{labels.get('__name__', '')}{{{shown}}}"
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda m: labels.get(m[1], ""), text).strip()


def _point(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
