"""The server's own HTTP API, as the command line asks it, and its health as the kubelet does.

Promises to keep credentials, those that the address may carry and the tokens, out of every message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

import requests

from receiver.adapters.http.sessions import quick_session, shown, wire_failure
from receiver.adapters.http.timestamps import moment
from receiver.ports import TryLater

SNAPSHOT_HEADER = "Gpu-Autoscaler-Snapshot-At"


class NotThereError(Exception):
    """The server has no such thing (404); *document* is its answer, which says what that can mean."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(str(document.get("error")))
        self.document = document


class RefusedError(Exception):
    """The server did not do what it was asked (400, 401, 409); *document* is its answer: why, and what helps."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(str(document.get("error")))
        self.document = document


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """One JSON object, and when the step was that it stems from (None: before the first)."""

    document: Mapping[str, Any]
    at: datetime | None


class ServerApi:
    """The API at *url* (http or https, without a slash at its end); *timeout* is seconds per request, or those of
    (connect, read).

    *reader* is the token to read with, None where reading needs none. An address with credentials of its own, which
    are a proxy's, reads with those: a request has one Authorization header.
    """

    def __init__(
        self,
        url: str,
        timeout: float | tuple[float, float] = 10,
        session: requests.Session | None = None,
        reader: str | None = None,
    ) -> None:
        self._url, self._timeout = url, timeout
        self._session = session or quick_session()
        self._reads: dict[str, Any] = {"auth": Bearer(reader)} if reader and not urlsplit(url).username else {}

    def __repr__(self) -> str:
        return f"ServerApi({self.shown!r})"

    @property
    def shown(self) -> str:
        """The address without credentials."""
        return shown(self._url)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def get(self, *path: str, query: Mapping[str, str] | None = None) -> ServerAnswer:
        """Return what ``/api/v1/PATH?QUERY`` answers, each part of *path* quoted.

        Raises NotThereError for a 404 of the server's own, RefusedError when it wants another token, TryLater when
        there is no answer that can be used.
        """
        return self._one("GET", path, params=dict(query or {}), **self._reads)

    def probe(self, path: str) -> tuple[int, Mapping[str, Any]]:
        """Return status and JSON object of *path*, such as ``/healthz``, whatever the status.

        Raises TryLater when there is no such answer.
        """
        try:
            response = self._session.get(self._url + path, timeout=self._timeout, allow_redirects=False, **self._reads)
        except (requests.RequestException, OSError, ValueError) as error:
            code, phrase = wire_failure(error)
            raise TryLater(f"{self.shown}: {phrase}", code=code) from None
        try:
            document = response.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            said = f"{self.shown} answered {response.status_code}, not as this program does: it is another server"
            raise TryLater(said, code="malformed")
        return response.status_code, document

    def get_list(self, *path: str) -> Sequence[Mapping[str, Any]]:
        """Return the JSON array of objects that ``/api/v1/PATH`` answers. Raises what `get` raises."""
        response = self._send("GET", path, **self._reads)
        try:
            found = response.json()
        except ValueError:
            found = None
        if response.status_code == 200 and isinstance(found, list):
            return found
        self._answer(response)
        raise TryLater("it answered something else than a list: it is another server", code="malformed")

    def post(self, *path: str, body: Mapping[str, Any], token: str) -> ServerAnswer:
        """Send *body* as JSON with the operator's *token*. Raises what `get` raises, and RefusedError."""
        return self._one("POST", path, json=dict(body), auth=Bearer(token))

    def delete(self, *path: str, query: Mapping[str, str], token: str) -> ServerAnswer:
        """Delete with the operator's *token*. Raises what `get` raises, and RefusedError."""
        return self._one("DELETE", path, params=dict(query), auth=Bearer(token))

    def _one(self, method: str, path: Sequence[str], **more: Any) -> ServerAnswer:
        return self._answer(self._send(method, path, **more))

    def _send(self, method: str, path: Sequence[str], **more: Any) -> requests.Response:
        address = "/".join([f"{self._url}/api/v1", *(quote(part, safe="") for part in path)])
        try:
            return self._session.request(method, address, timeout=self._timeout, allow_redirects=False, **more)
        except (requests.RequestException, OSError, ValueError) as error:
            code, phrase = wire_failure(error)
            raise TryLater(phrase, code=code) from None

    def _answer(self, response: requests.Response) -> ServerAnswer:
        document = _document(response)
        if response.status_code == 404:
            raise NotThereError(document)
        if response.status_code in (400, 401, 409):
            raise RefusedError(document)
        if response.status_code not in (200, 201):
            said = f"it answered {response.status_code}: {document.get('error')}; {document.get('remedy')}"
            raise TryLater(said, code=f"http_{response.status_code}")
        return ServerAnswer(document=document, at=moment(response.headers.get(SNAPSHOT_HEADER)))


class Bearer(requests.auth.AuthBase):
    """A token. (A plain header would give way to what the address or a .netrc says.)"""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _document(response: requests.Response) -> Mapping[str, Any]:
    """The JSON object of a page of the API; TryLater for one that somebody else wrote."""
    try:
        document = response.json()
    except ValueError:
        document = None
    ours = isinstance(document, dict) and (response.status_code in (200, 201) or {"error", "remedy"} <= set(document))
    if not ours:
        who = "is another server, or a proxy that wants you to log in"
        raise TryLater(f"it answered {response.status_code}, not as this program does: it {who}", code="malformed")
    return document  # type: ignore[no-any-return]  # a dict, as was just seen
