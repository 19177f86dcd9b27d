"""GPU pods that ran before, rebuilt from what Prometheus remembers of kube-state-metrics and dcgm-exporter.

Reads page by page, each page some spans of an hour. What no scrape saw is not there: a pod that came and went between
two scrapes, and one that ran in a gap and was deleted in it. A pod whose object is still there after its end is known
to the second, one that was deleted while it ran to the scrape.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from receiver.adapters.http.sessions import quick_retry, quick_session, shown, wire_failure
from receiver.adapters.monitoring import history_queries as asked
from receiver.adapters.monitoring.history_pods import Gap, PodBook, gaps, lost_sight
from receiver.adapters.monitoring.prometheus import status_of
from receiver.ports import TryLater, WontWork
from receiver.ports.past import Past

SPAN = timedelta(hours=1)
SHOWN = 60
PAGE = 24  # spans that are asked for at once
A_WHILE = timedelta(minutes=30)
SIGHTING = timedelta(seconds=60)  # how closely gaps are looked for
SMALLER = "a span of an hour is too much for it: raise its --query.max-samples, or --query-timeout here"
TOO_LARGE = frozenset({"http_422", "http_503", "timeout"})  # fewer spans at once may be answered

Progress = Callable[[int, int], None]
Series = Sequence[tuple[Mapping[str, str], list[tuple[float, float]]]]


class PrometheusHistory:
    """What the Prometheus at *url* remembers; *timeout* is seconds per query."""

    def __init__(self, url: str, timeout: float = 60, team_label: str = "team") -> None:
        self.shown = shown(url.strip().rstrip("/"))
        self._session = quick_session()
        self._timeout = timeout
        self._team_label = team_label
        self._prometheus = PrometheusConnect(
            url=url.strip().rstrip("/"), retry=quick_retry(), session=self._session, timeout=timeout + 5
        )

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def past(self, since: datetime, until: datetime, step: timedelta, progress: Progress | None = None) -> Past:
        """Return the GPU pods between *since* and *until*, looked for every *step*, best the scrape interval.

        *progress* is told how many pages of how many are read. Raises WontWork where there is no history at all,
        TryLater where Prometheus does not answer.
        """
        self._asked("vector(1)", until, until, SPAN)  # one that never answers must not be asked in halves
        scrapes, every = self._scrapes(since, until)
        if not scrapes:
            raise WontWork(
                f"Prometheus at {self.shown} has no up{{{asked.STATE}}} between {since:%Y-%m-%d %H:%M} and "
                f"{until:%Y-%m-%d %H:%M} UTC: let it scrape kube-state-metrics under that job, or ask for a later time",
                code="no_history",
            )
        book = PodBook(self._team_label)
        texts = asked.queries(SPAN, step, self._team_label)
        pages = list(_pages(since, until, SPAN, PAGE))
        for number, (first, last) in enumerate(pages, start=1):
            for name, text in texts.items():
                series = self._range(text, first, last, SPAN)
                for labels, values in series:
                    book.note(name, labels, values)
                if name == asked.REQUESTED and not series:  # nobody asked for a GPU: there is nothing to know of him
                    break
            if progress is not None:
                progress(number, len(pages))
        pods, troubles = book.pods(until, step, SPAN)
        holes = gaps(scrapes, since, until, step)
        unsure = lost_sight(pods, holes, step)
        return Past(
            pods=pods,
            since=since,
            until=until,
            tolerations_known=False,
            troubles=troubles,
            notes=list(_notes(holes, unsure, every, pods, until)),
        )

    def _scrapes(self, since: datetime, until: datetime) -> tuple[list[float], float]:
        """Return when kube-state-metrics was scraped, as closely as gaps matter, and every how many seconds."""
        scrapes: list[float] = []
        for first, last in _pages(since, until, SIGHTING, 24 * 60):
            for _, values in self._range(asked.SCRAPED, first, last, SIGHTING):
                scrapes.extend(value for _, value in values)
        counts = [0.0]
        for first, last in _pages(since, until, SPAN, 24 * 31):
            for _, values in self._range(asked.rate_of_scrapes(A_WHILE), first, last, SPAN):
                counts.extend(value for _, value in values)
        return scrapes, A_WHILE.total_seconds() / max(1.0, *counts)

    def _range(self, query: str, first: datetime, last: datetime, step: timedelta) -> Series:
        """Return the series of a range query; one that is too large is asked in halves."""
        try:
            return self._asked(query, first, last, step)
        except TryLater as error:
            points = (last - first) // step
            if error.code not in TOO_LARGE:
                raise
            if points < 1:
                raise TryLater(f"{error}; {SMALLER}", code=error.code) from None
        middle = first + step * (points // 2)
        return [*self._range(query, first, middle, step), *self._range(query, middle + step, last, step)]

    def _asked(self, query: str, first: datetime, last: datetime, step: timedelta) -> Series:
        """Errors are raised ``from None``: the client puts whole answers into its own."""
        try:
            result = self._prometheus.custom_query_range(
                query, first, last, f"{round(step.total_seconds())}s", {"timeout": f"{self._timeout:g}s"}
            )
        except PrometheusApiClientException as error:
            code = status_of(error)
            detail = f"Prometheus at {self.shown} answered {_short(query)} with {code.removeprefix('http_')}"
            raise TryLater(detail, code=code) from None
        except (requests.exceptions.JSONDecodeError, KeyError, TypeError):
            raise self._malformed(query) from None
        except (requests.RequestException, OSError, ValueError) as error:
            code, phrase = wire_failure(error)
            raise TryLater(f"Prometheus at {self.shown} was asked for {_short(query)}: {phrase}", code=code) from None
        if not isinstance(result, list):
            raise self._malformed(query)
        return [self._series(record, query) for record in result]

    def _series(self, record: Any, query: str) -> tuple[Mapping[str, str], list[tuple[float, float]]]:
        try:
            labels = {str(k): str(v) for k, v in record["metric"].items()}
            return labels, [(float(at), float(text)) for at, text in record["values"]]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._malformed(query) from None

    def _malformed(self, query: str) -> TryLater:
        detail = f"Prometheus at {self.shown} answered {_short(query)} with something that is no range vector"
        return TryLater(detail, code="malformed")


def _short(query: str) -> str:
    """Return how a query begins: whole ones are a screen long."""
    return repr(query if len(query) <= SHOWN else f"{query[:SHOWN]}...")


def _pages(since: datetime, until: datetime, span: timedelta, most: int) -> Iterator[tuple[datetime, datetime]]:
    """Yield first and last moment of pages of at most *most* points, *span* apart; the last point is *until*, and each
    looks back over its span, so that the first covers *since*."""
    points = max(1, -(-(until - since) // span))
    begin = until - (points - 1) * span
    for index in range(0, points, most):
        yield begin + index * span, begin + min(index + most - 1, points - 1) * span


def _notes(holes: Sequence[Gap], unsure: int, every: float, pods: Sequence[Any], until: datetime) -> Iterator[str]:
    unseen = "pods that came and went between two scrapes are not in it"
    yield f"history until {until:%Y-%m-%d %H:%M} UTC, scraped about every {every:.0f} s: {unseen}"
    for hole in holes:
        yield f"Prometheus saw nothing from {hole}: pods that came and went in it are missing"
    if unsure:
        yield f"{unsure} pods were last seen right before it saw nothing: taken as ended then"
    if pods and not any(p.gpu_util is not None for p in pods):
        yield "no utilization of dcgm-exporter carries a pod: every job is taken as busy"
