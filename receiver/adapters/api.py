"""The server's own HTTP API, as the command line asks it.

Promises to read only, and to keep credentials that the address may carry out of every message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import requests

from receiver.adapters.sessions import quick_session, shown, wire_failure
from receiver.adapters.timestamps import moment
from receiver.ports import TryLater

SNAPSHOT_HEADER = "Gpu-Autoscaler-Snapshot-At"


class NotThereError(Exception):
    """The server has no such thing (404); *document* is its answer, which says what that can mean."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(str(document.get("error")))
        self.document = document


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One JSON object, and when the step was that it stems from (None: before the first)."""

    document: Mapping[str, Any]
    at: datetime | None


class ServerApi:
    """The API at *url* (http or https, without a slash at its end); *timeout* is seconds per request."""

    def __init__(self, url: str, timeout: float = 10, session: requests.Session | None = None) -> None:
        self._url, self._timeout = url, timeout
        self._session = session or quick_session()

    def __repr__(self) -> str:
        return f"ServerApi({self.shown!r})"

    @property
    def shown(self) -> str:
        """The address without credentials."""
        return shown(self._url)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def get(self, *path: str) -> Answer:
        """Return what ``/api/v1/PATH`` answers, each part of *path* quoted.

        Raises NotThereError for a 404 of the server's own, TryLater when there is no answer that can be used.
        """
        address = "/".join([f"{self._url}/api/v1", *(quote(part, safe="") for part in path)])
        try:
            response = self._session.get(address, timeout=self._timeout, allow_redirects=False)
        except (requests.RequestException, OSError, ValueError) as error:
            code, phrase = wire_failure(error)
            raise TryLater(phrase, code=code) from None
        document = _document(response)
        if response.status_code == 404:
            raise NotThereError(document)
        if response.status_code != 200:
            said = f"it answered {response.status_code}: {document.get('error')}; {document.get('remedy')}"
            raise TryLater(said, code=f"http_{response.status_code}")
        return Answer(document=document, at=moment(response.headers.get(SNAPSHOT_HEADER)))


def _document(response: requests.Response) -> Mapping[str, Any]:
    """The JSON object of a page of the API; TryLater for one that somebody else wrote."""
    try:
        document = response.json()
    except ValueError:
        document = None
    ours = isinstance(document, dict) and (response.status_code == 200 or {"error", "remedy"} <= set(document))
    if not ours:
        who = "is another server, or a proxy that wants you to log in"
        raise TryLater(f"it answered {response.status_code}, not as this program does: it {who}", code="malformed")
    return document  # type: ignore[no-any-return]  # a dict, as was just seen
