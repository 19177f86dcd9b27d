"""A client of the HTTP APIs of Prometheus and Alertmanager for the doctor. No message contains credentials."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import requests

from receiver.adapters.http.sessions import json_of, quick_session, shown, wire_failure
from receiver.ports import Clock, TryLater

Labels = Mapping[str, str]
MOST_SAID = 300  # characters of an external error


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantSample:
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTime:
    """How far a server's clock is *ahead* of the local one, with the error *uncertain*; *delay* is the age that a
    sample must have before its queries show it, 0 except in VictoriaMetrics (``-search.latencyOffset``)."""

    ahead: timedelta
    uncertain: timedelta
    delay: timedelta


class MonitoringApi:
    """The API at *url*; *name* is its name in messages, *timeout* is seconds per request."""

    def __init__(self, name: str, url: str, clock: Clock, timeout: float | tuple[float, float] = 10) -> None:
        self._url = url.strip().rstrip("/")
        self._name, self._clock, self._timeout = name, clock, timeout
        self._session = quick_session(repeats=1)

    def __enter__(self) -> "MonitoringApi":
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    @property
    def shown(self) -> str:
        return shown(self._url)

    def get(self, path: str, **query: str) -> Any:
        """Return the JSON of GET *path*. Raises TryLater, with a code such as ``http_404``."""
        document = json_of(self._send("GET", path, params=query))
        if document is None:
            raise self._malformed(path)
        return document

    def text(self, path: str) -> str:
        return self._send("GET", path).text

    def post(self, path: str, body: object) -> None:
        """POST *body* as JSON, once. Raises TryLater."""
        self._send("POST", path, json=body)

    def data(self, path: str, **query: str) -> Any:
        """Return ``data`` of Prometheus' answer to GET ``/api/v1/PATH``. Raises TryLater."""
        document = self.get(f"/api/v1/{path}", **query)
        if not isinstance(document, dict) or "data" not in document:
            raise self._malformed(path)
        return document["data"]

    def told(self, path: str, **query: str) -> Any:
        """Return the same, or None if the server lacks it, as Thanos or Mimir may. Raises TryLater."""
        try:
            return self.data(path, **query)
        except TryLater as error:
            if error.code.startswith("http_4") or error.code in ("http_501", "malformed"):
                return None
            raise

    def vector(self, query: str) -> Sequence[InstantSample]:
        data = self.data("query", query=query)
        try:
            return [
                InstantSample(labels={str(k): str(v) for k, v in raw["metric"].items()}, value=float(raw["value"][1]))
                for raw in data["result"]
            ]
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise self._malformed(query) from None

    def server_time(self) -> ServerTime:
        """Return how Prometheus' clock and queries stand to the local clock. Raises TryLater."""
        before = self._clock.now()
        data = self.data("query", query="time()")
        after = self._clock.now()
        try:
            vector = data["result"]
            at, value = map(float, vector[0]["value"] if data.get("resultType") == "vector" else vector)
            delay = timedelta(seconds=max(0, math.ceil(round(at - value, 3))))  # VictoriaMetrics truncates `at`
            theirs = datetime.fromtimestamp(value, UTC) + delay
        except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError):
            raise self._malformed("time()") from None
        half = (after - before) / 2
        return ServerTime(ahead=theirs - (before + half), uncertain=half, delay=delay)

    def _send(self, method: str, path: str, **options: Any) -> requests.Response:
        try:
            answer = self._session.request(
                method, self._url + path, timeout=self._timeout, allow_redirects=False, **options
            )
        except (requests.RequestException, OSError, ValueError) as error:
            code, phrase = wire_failure(error)
            raise TryLater(f"{self._name} at {self.shown}: {phrase}", code=code) from None
        if not 200 <= answer.status_code < 300:
            document = json_of(answer)  # with the error's text, of Prometheus as an object, of Alertmanager as text
            reason = document.get("error") if isinstance(document, dict) else document
            detail = f": {str(reason)[:MOST_SAID]}" if reason and not isinstance(reason, list) else ""
            sentence = f"{self._name} at {self.shown} answered {path} with {answer.status_code}{detail}"
            raise TryLater(sentence, code=f"http_{answer.status_code}")
        return answer

    def _malformed(self, what: str) -> TryLater:
        return TryLater(f"malformed answer of {self._name} at {self.shown}: {what}", code="malformed")
