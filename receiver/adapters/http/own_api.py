"""Client of the server's HTTP API, for the command line and the doctor.

No message contains credentials, neither those in the URL nor tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfoNotFoundError

import requests

from receiver.adapters.http.sessions import Bearer, json_of, moment, quick_session, shown, wire_failure
from receiver.core.model.text import in_zone
from receiver.ports import TryLater

SNAPSHOT_HEADER = "Gpu-Autoscaler-Snapshot-At"
ZONE_HEADER = "Gpu-Autoscaler-Timezone"


class RefusedError(Exception):
    """The server refused the request (400, 401, 409); *document* is its answer with the reason and a remedy."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(str(document.get("error")))
        self.document = document


class NotThereError(RefusedError):
    """The server answered 404; *document* explains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """One JSON object, and the time of its step (None: before the first)."""

    document: Mapping[str, Any]
    at: datetime | None


class ServerApi:
    """The API at *url* (http or https, without a final slash); *timeout* is seconds per request, or (connect, read).
    *reader* is the token for reading, if reading needs one. Credentials in the URL are a proxy's and take
    precedence: a request has only one Authorization header."""

    def __init__(
        self,
        url: str,
        timeout: float | tuple[float, float] = 10,
        session: requests.Session | None = None,
        reader: str | None = None,
    ) -> None:
        self._url, self._timeout = url, timeout
        self.zone = "UTC"  # as of the last answer, the zone in which people read times
        self._session = session or quick_session()
        self._reads: dict[str, Any] = {"auth": Bearer(reader)} if reader and not urlsplit(url).username else {}

    def __repr__(self) -> str:
        return f"ServerApi({self.shown!r})"

    @property
    def shown(self) -> str:
        return shown(self._url)

    def as_read(self, line: str, now: datetime) -> str:
        """Return *line* with its times by the clocks of the server's zone; those of UTC where it is not known here."""
        try:
            return in_zone(line, self.zone, now)
        except (ValueError, OSError, ZoneInfoNotFoundError):
            return line

    def close(self) -> None:
        self._session.close()

    def get(self, *path: str, query: Mapping[str, str] | None = None) -> ServerAnswer:
        """Return the answer of ``/api/v1/PATH?QUERY``, each part of *path* quoted. Raises NotThereError for a 404 of
        the API, RefusedError for a wrong token, TryLater without a usable answer."""
        return _answer(self._send("GET", path, params=dict(query or {}), **self._reads))

    def probe(self, path: str) -> tuple[int, Mapping[str, Any]]:
        """Return status and JSON object of *path*, such as ``/healthz``, whatever the status. Raises TryLater
        without such an answer."""
        response = self._request("GET", path, f"{self.shown}: ", **self._reads)
        document = json_of(response)
        if not isinstance(document, dict):
            detail = f"{self.shown} answered {response.status_code}, but not as a GPU autoscaler: it is another server"
            raise TryLater(detail, code="malformed")
        return response.status_code, document

    def get_list(self, *path: str) -> Sequence[Mapping[str, Any]]:
        """Return the JSON array of ``/api/v1/PATH``. Raises what `get` raises."""
        response = self._send("GET", path, **self._reads)
        document = json_of(response)
        if response.status_code == 200 and isinstance(document, list):
            return document
        _answer(response)
        raise TryLater("it did not answer with a list: it is another server", code="malformed")

    def get_csv(self, *path: str, query: Mapping[str, str]) -> str:
        """Return the table of ``/api/v1/PATH?QUERY``. Raises what `get` raises."""
        response = self._send("GET", path, params=dict(query), **self._reads)
        if response.status_code == 200 and response.headers.get("Content-Type", "").startswith("text/csv"):
            return response.content.decode()
        _answer(response)
        raise TryLater("it did not answer with CSV: it is an older version or another server", code="malformed")

    def post(self, *path: str, body: Mapping[str, Any], token: str) -> ServerAnswer:
        """Send *body* as JSON with the operator's *token*. Raises what `get` raises, and RefusedError."""
        return _answer(self._send("POST", path, json=dict(body), auth=Bearer(token)))

    def post_text(self, *path: str, text: str, query: Mapping[str, str]) -> ServerAnswer:
        """Ask with YAML *text*, which changes nothing. Raises what `get` raises, and RefusedError."""
        body: dict[str, Any] = {"data": text.encode(), "headers": {"Content-Type": "application/yaml"}}
        return _answer(self._send("POST", path, params=dict(query), **body, **self._reads))

    def delete(self, *path: str, query: Mapping[str, str], token: str) -> ServerAnswer:
        """Delete with the operator's *token*. Raises what `get` raises, and RefusedError."""
        return _answer(self._send("DELETE", path, params=dict(query), auth=Bearer(token)))

    def _send(self, method: str, path: Sequence[str], **more: object) -> requests.Response:
        return self._request(method, "/".join(["/api/v1", *(quote(part, safe="") for part in path)]), "", **more)

    def _request(self, method: str, path: str, who: str, **more: Any) -> requests.Response:
        try:
            response = self._session.request(
                method, self._url + path, timeout=self._timeout, allow_redirects=False, **more
            )
            self.zone = response.headers.get(ZONE_HEADER, self.zone)
            return response
        except (requests.RequestException, OSError, ValueError) as error:
            code, phrase = wire_failure(error)
            raise TryLater(f"{who}{phrase}", code=code) from None


def _answer(response: requests.Response) -> ServerAnswer:
    document, status = json_of(response), response.status_code
    if not isinstance(document, dict) or not (status in (200, 201) or {"error", "remedy"} <= set(document)):
        detail = f"it answered {status}, but not as a GPU autoscaler: it is another server or a login page"
        raise TryLater(detail, code="malformed")
    if status == 404:
        raise NotThereError(document)
    if status in (400, 401, 409):
        raise RefusedError(document)
    if status not in (200, 201):
        detail = f"it answered {status}: {document.get('error')}; {document.get('remedy')}"
        raise TryLater(detail, code=f"http_{status}")
    return ServerAnswer(document=document, at=moment(response.headers.get(SNAPSHOT_HEADER)))
