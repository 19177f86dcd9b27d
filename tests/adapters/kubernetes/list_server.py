"""An API server of lists for tests that look hundreds of times: no socket, only what urllib3 does above one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from unittest.mock import patch

from urllib3 import HTTPConnectionPool, HTTPResponse

Answer = Callable[[str], tuple[int, bytes]]
HOST = "lists.invalid"  # no such host, if anything asks past urllib3's pool


@contextmanager
def list_server(answer: Answer) -> Iterator[str]:
    """Serve what *answer* returns for each path, a status and JSON, in the thread that asks; yield the URL."""

    def respond(pool: HTTPConnectionPool, connection: object, method: str, url: str, **_: Any) -> HTTPResponse:
        assert (pool.host, method) == (HOST, "GET")
        status, body = answer(url.partition("?")[0])
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        return HTTPResponse(BytesIO(body), headers, status, request_method=method, request_url=url)

    with patch.object(HTTPConnectionPool, "_make_request", respond):
        yield f"http://{HOST}"
