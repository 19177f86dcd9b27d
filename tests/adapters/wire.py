"""Servers that misbehave on purpose, and how to look for secrets in what an adapter says."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from demo.processes import free_port
from tests.e2e.waiting import until


@contextmanager
def hanging_server(path: str, method: str) -> Iterator[tuple[HTTPServer, list[str]]]:
    """Serve *method* *path* by waiting until the block ends; the list grows with every such request."""
    release = threading.Event()
    arrivals: list[str] = []

    def handler(request: Request) -> Response:
        arrivals.append(request.method)
        release.wait(60)
        return Response("{}")

    server = HTTPServer(threaded=True)
    server.expect_request(path, method=method).respond_with_handler(handler)
    server.start()
    try:
        yield server, arrivals
    finally:
        release.set()
        server.stop()


def came(arrivals: list[str]) -> list[str]:
    """Return *arrivals* when there is one: who asked may have given up before the server came to the request."""
    until(lambda: arrivals, "a request")
    return arrivals


def unused_url() -> str:
    """Return a loopback URL where nobody listens."""
    return f"http://127.0.0.1:{free_port()}"


def requests_sent(httpserver: HTTPServer, method: str) -> list[Request]:
    """Return the requests of *method* that reached *httpserver*, in order."""
    return [request for request, _ in httpserver.log if request.method == method]


def said_by(error: BaseException, caplog: pytest.LogCaptureFixture) -> str:
    """Return everything a person could read of *error*: its chain as text and repr, and the log."""
    words = [caplog.text]
    current: BaseException | None = error
    while current is not None:
        words += [str(current), repr(current), repr(current.args)]
        current = current.__cause__ or current.__context__
    return "\n".join(words)


def log_everything(caplog: pytest.LogCaptureFixture) -> None:
    """Let even the chattiest library log into *caplog*."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="urllib3.connectionpool")  # the outbox keeps it quiet once there was one
