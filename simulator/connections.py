"""HTTP/1.1 with connections that stay open from answer to answer, as those of Civo and of the API server do.

Werkzeug's own handler closes each after one answer, which costs a client a new connection for each call, and the server
a new thread.
"""

import logging
import socket
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LOG = logging.getLogger("simulator")
BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Handler(WSGIRequestHandler):
    """The requests of one connection, one after another. The app has to read each body to its end.

    Logs through logging, at debug level only: a scrape every second is no news.
    """

    server: "Server"
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a short answer on an open connection waits for the client's ACK
    wbufsize = -1  # head and body in one packet

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002, ARG002 (werkzeug's signature)
        LOG.debug(message, *args)

    def run_wsgi(self) -> None:
        """Answer one request. The connection closes if the client asks for that, or if the answer breaks off."""
        self.server.idle.discard(self.connection)
        self.environ = self.make_environ()
        head: list[Any] = []

        def start_response(
            status: str, headers: list[tuple[str, str]], _: object = None
        ) -> "Callable[[bytes], object]":
            head[:] = [status, headers]
            return self.wfile.write

        parts: Iterable[bytes] | None = None
        try:
            parts = self.server.app(self.environ, start_response)
            self._send(parts, head)
        except Exception as error:
            self.close_connection = True
            if not isinstance(error, ConnectionError):  # the client left, or a fault cut it off
                LOG.exception("%s %s failed", self.command, self.path)
        finally:
            if parts is not None and hasattr(parts, "close"):
                parts.close()
            self.server.idle.add(self.connection)
            self.close_connection |= self.server.ends

    def _send(self, parts: "Iterable[bytes]", head: list[Any]) -> None:
        """Send each part as soon as it is there; the head goes with the first one, even if that is empty."""
        chunked: bool | None = None
        for part in parts:
            if chunked is None:
                chunked = self._begin(*head)
            if part and chunked:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            elif part:
                self.wfile.write(part)
            self.wfile.flush()
        if chunked is None:
            chunked = self._begin(*head)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _begin(self, status: str, headers: list[tuple[str, str]]) -> bool:
        """Write the head. Return whether the body is sent in chunks, because its length is not known."""
        code, _, phrase = status.partition(" ")
        self.send_response(int(code), phrase)
        for name, value in headers:
            self.send_header(name, value)
        sized = any(name.lower() == "content-length" for name, _ in headers)
        endless = not sized and self.command != "HEAD" and int(code) not in BODILESS
        chunked = endless and self.request_version >= "HTTP/1.1"
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif endless:
            self.close_connection = True
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        return chunked

    def finish(self) -> None:
        """Close the files of the connection, whether or not the client still reads."""
        with suppress(ConnectionError):
            super().finish()


class Server(ThreadedWSGIServer):
    """A thread for each connection. `hang_up` ends those that wait for another request."""

    def __init__(self, host: str, port: int, app: Any) -> None:
        self.idle: set[socket.socket] = set()  # connections on which no request is being answered
        self.ends = False
        super().__init__(host, port, app, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.idle.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.idle.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Close idle connections now, and each other one after its answer."""
        self.ends = True
        for connection in list(self.idle):
            with suppress(OSError):  # it closed meanwhile
                connection.shutdown(socket.SHUT_RDWR)
