"""The running server as the kubelet and the command line ask it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import requests

from receiver.adapters.http.own_api import Bearer
from receiver.adapters.http.sessions import quick_session, shown, wire_failure
from receiver.ports import TryLater


class ServerSurvey:
    """The server at *url*; *timeouts* are (connect, read) seconds, *reader* the token to read with, if any."""

    def __init__(self, url: str, timeouts: tuple[float, float], reader: str | None = None) -> None:
        self.shown = shown(url)
        self._url = url
        self._timeouts = timeouts
        self._reader = reader
        self._session = quick_session(repeats=0)  # a 503 is an answer here

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def ask(self, path: str) -> tuple[int, Mapping[str, Any]]:
        """Return status and JSON object of *path*. Raises TryLater when there is no such answer."""
        # As an auth hook, which outranks ~/.netrc; an address with credentials of its own, a proxy's, reads with those.
        auth = Bearer(self._reader) if self._reader and not urlsplit(self._url).username else None
        try:
            response = self._session.get(self._url + path, timeout=self._timeouts, auth=auth, allow_redirects=False)
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
