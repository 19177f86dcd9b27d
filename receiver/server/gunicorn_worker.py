"""gunicorn's gthread worker, but a request gets a thread only once it is complete.

gthread waits in one of its threads for the rest of a request: sixteen slow clients would block webhooks and health
checks. Here the event thread, which never blocks, collects the bytes, also over TLS, whose handshake it makes.
Incomplete requests are closed after a timeout, or the oldest first with too many connections. Requests that may be slow
(pages) never occupy all threads. What is used of gunicorn beyond its documentation is in `RELIES_ON`; a test compares
it with the installed one.
"""

import re
import selectors
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum
from functools import partial
from time import monotonic
from types import FrameType
from typing import Any

from gunicorn import http
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.http.parser import Parser
from gunicorn.http.unreader import Unreader
from gunicorn.sock import ssl_context
from gunicorn.workers.base import Worker as BaseWorker
from gunicorn.workers.gthread import PollableMethodQueue, TConn, ThreadWorker

SEND_SECONDS = 10  # for a client to accept part of its answer, or to send something that a thread waits for
READ_SECONDS = 10.0  # from a request's first byte, or the start of the connection, to its last byte
STOPPING_SECONDS = 1.0  # the same while the worker stops
LEAVING_SECONDS = 2.0  # for a client to close its side after its last answer; closing sooner may cut off the answer
REST_SECONDS = 0.05  # for the unread rest of a request: it has arrived, or the request was refused unread
LARGEST_HEAD = 64 * 1024
MOST_BYTES = 32 * 1024 * 1024  # of all unanswered requests together
AT_ONCE = 256 * 1024  # bytes read from one client before the next one's turn
SPARE = 50  # connections that are freed when there are too many
RESERVED = 4  # threads that pages and API leave to deliveries and probes, whose answers are short
URGENT = (b"POST /webhook ", b"GET /healthz ", b"GET /readyz ")
END = b"\r\n\r\n"
MOST_DIGITS = 18  # of a Content-Length

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_MUCH = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
REFUSED = "Invalid request from ip="
BROKEN = "Error handling request"

# Functions by owner and name with their signatures; attributes that a constructor sets; texts in log messages.
RELIES_ON: dict[tuple[Any, str], str] = {
    (Arbiter, "reload"): "(self)",
    (ThreadWorker, "enqueue_req"): "(self, conn)",
    (ThreadWorker, "finish_request"): "(self, conn, fs)",
    (ThreadWorker, "handle_exit"): "(self, sig, frame)",
    (ThreadWorker, "murder_pending"): "(self)",
    (ThreadWorker, "_keepalive_after"): "(self, conn, keepalive)",
    (PollableMethodQueue, "defer"): "(self, callback, *args)",
    (TConn, "close"): "(self, graceful=False)",
    (Parser, "finish_body"): "(self, deadline=None, max_bytes=None)",
    (Unreader, "take_buffered"): "(self)",
    (Unreader, "unread"): "(self, data)",
    (http, "get_parser"): "(cfg, source, source_addr, http2_connection=False)",
    (Logger, "warning"): "(self, msg, *args, **kwargs)",
    (Logger, "exception"): "(self, msg, *args, **kwargs)",
}
RELIES_ON_ATTRIBUTES: dict[Any, tuple[str, ...]] = {
    BaseWorker: ("alive", "cfg", "log"),
    ThreadWorker: ("method_queue", "nr_conns", "poller", "worker_connections"),
    TConn: ("client", "data_ready", "initialized", "parser", "sock"),
    Parser: ("unreader",),
}
RELIES_ON_TEXTS: dict[Any, tuple[str, ...]] = {BaseWorker: (REFUSED, BROKEN), ThreadWorker: (BROKEN,)}

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)
_LENGTHS = re.compile(rb"\r\ncontent-length[ \t]*:", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect:[ \t]*100-continue", re.IGNORECASE)


class RequestBuffer:
    """The bytes of one request so far. It only finds the end; gunicorn parses the request."""

    def __init__(self, until: float) -> None:
        """Start empty; *until* is the deadline of the request, in seconds of `monotonic`."""
        self.bytes = bytearray()
        self.until = until
        self._head = 0  # where the body begins; 0 while the head is incomplete
        self._needed: int | None = None  # bytes of head and body; None: chunked
        self._chunk = 0  # where the next chunk's size begins

    @property
    def head_complete(self) -> bool:
        return self._head > 0

    @property
    def wants_continue(self) -> bool:
        """Whether the client waits for "100 Continue" before it sends the body."""
        return self.head_complete and bool(_EXPECTS.search(self.bytes, 0, self._head))

    def complete(self, largest: int) -> bool:
        """Return whether the request is complete, or malformed so that gunicorn refuses it without waiting for more.
        A body of more than *largest* bytes is not waited for: it is refused unread."""
        if not self._head:
            at = self.bytes.find(END)
            if at < 0:
                return False
            self._head = self._chunk = at + len(END)
            chunked = _CHUNKED.search(self.bytes, 0, self._head) is not None
            if len(_LENGTHS.findall(self.bytes, 0, self._head)) > (0 if chunked else 1):
                return True  # two lengths are request smuggling: refused unread
            length_match = _LENGTH.search(self.bytes, 0, self._head)
            digits = length_match[1].lstrip(b"0") if length_match else b""  # gunicorn ignores leading zeros, too
            length = int(digits[:MOST_DIGITS] or b"0")  # cut off it is still larger than any accepted length
            self._needed = None if chunked else self._head + length
        if self._needed is None:
            return self._last_chunk_came()
        return len(self.bytes) >= self._needed or self._needed - self._head > largest

    def _last_chunk_came(self) -> bool:
        while True:
            end = self.bytes.find(b"\r\n", self._chunk)
            if end < 0:
                return False
            try:
                size = int(self.bytes[self._chunk : end].partition(b";")[0], 16)
            except ValueError:
                return True
            if size <= 0:
                return self.bytes.find(END, end) >= 0
            if len(self.bytes) < end + 2 + size + 2:
                return False
            self._chunk = end + 2 + size + 2


class CarefulLogger(Logger):  # type: ignore[misc]  # gunicorn leaves it untyped
    """gunicorn's log without quotes from requests, which may have a token in the wrong place."""

    def warning(self, msg: str, *args: object, **kwargs: object) -> None:
        """Log *msg*; of a refused request only the client and the kind of mistake."""
        if isinstance(msg, str) and msg.startswith(REFUSED):
            who, _, wrong = msg.partition(": ")  # such as "Invalid HTTP Header: 'Bearer ...'"
            kind = re.split(r"[:'\"(]", wrong, maxsplit=1)[0].strip()[:60]
            msg, args = "%s: %s", (who, kind or "not understood")
        super().warning(msg, *args, **kwargs)

    def exception(self, msg: str, *args: object, **kwargs: object) -> None:
        """Log *msg* with its trace; of a failed request without its URL, which may contain a secret link."""
        if isinstance(msg, str) and msg.startswith(BROKEN):
            msg, args = BROKEN, ()
        super().exception(msg, *args, **kwargs)


class Next(Enum):
    """What a connection needs."""

    BYTES = "bytes"
    THREAD = "thread"
    END = "end"


class TimedTlsSocket(ssl.SSLSocket):
    """A TLS socket that blocks for at most `SEND_SECONDS`: OpenSSL repeats a system call that timed out."""

    def setblocking(self, flag: bool) -> None:
        self.settimeout(SEND_SECONDS if flag else 0)


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no annotations
    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.told_to_stop: Callable[[], None] = lambda: None  # called on SIGTERM, while answers are still under way
        self._arriving: dict[Any, RequestBuffer] = {}  # by connection, the oldest first; all are in the poller
        self._leaving: dict[Any, float] = {}  # answered connections and their deadlines, the oldest first; likewise
        self._answering: dict[Any, int] = {}  # bytes of requests that threads have, by connection
        self._held = 0  # bytes of all requests in _arriving and _answering
        self._slow: set[Any] = set()  # connections whose page or API answer is being made
        self._queue: deque[Any] = deque()  # connections that wait for one

    def enqueue_req(self, conn: TConn) -> None:
        """Give *conn* to a thread once its request is complete; gunicorn calls this when there may be one."""
        arriving = RequestBuffer(monotonic() + READ_SECONDS)
        if self.cfg.is_ssl and not conn.initialized and not self._start_tls(conn):
            self._dispatch(conn, arriving, Next.END)
            return
        conn.sock.setblocking(False)
        if conn.parser is not None:
            arriving.bytes += conn.parser.unreader.take_buffered()
        needs = self._read(conn, arriving)
        if needs is not Next.BYTES:
            self._dispatch(conn, arriving, needs)
            return
        self._arriving[conn] = arriving
        self._held += len(arriving.bytes)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_more, conn))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Tell the loop about SIGTERM at once: it must not wait until the requests under way have been answered."""
        if self.alive:
            self.method_queue.defer(self.told_to_stop)
        super().handle_exit(sig, frame)

    def finish_request(self, conn: TConn, fs: Future[Any]) -> None:
        """Keep or close *conn*; gunicorn calls this after an answer."""
        self._held -= self._answering.pop(conn, 0)
        if conn in self._slow:
            self._slow.remove(conn)
            if self._queue:
                self._answer_slowly(self._queue.popleft())
        if fs.cancelled() or fs.exception() is not None or fs.result():
            super().finish_request(conn, fs)
        else:
            self._half_close(conn)

    def murder_pending(self) -> None:
        """Close connections that took too long; gunicorn calls this after every round of events."""
        super().murder_pending()
        now = monotonic()
        latest = now + (READ_SECONDS if self.alive else STOPPING_SECONDS)
        crowded = self.nr_conns >= self.worker_connections
        for conn in [conn for conn, until in self._leaving.items() if crowded or until <= now]:
            self._close(conn)
        spare = SPARE if self.nr_conns >= self.worker_connections else 0
        for number, (conn, arriving) in enumerate(list(self._arriving.items())):
            arriving.until = min(arriving.until, latest)
            if number < spare or arriving.until <= now:
                self._forget(conn)
                self._dispatch(conn, arriving, Next.END)

    def _keepalive_after(self, conn: TConn, keepalive: bool) -> bool:
        """Return whether another request may follow on *conn*; gunicorn calls this in a thread and would wait 5 s there
        for a body that was refused unread."""
        return keepalive and bool(conn.parser.finish_body(deadline=monotonic() + REST_SECONDS))

    def _start_tls(self, conn: TConn) -> bool:
        """Start TLS on a new connection and mark it as gunicorn's `TConn.init` would; return whether that worked."""
        try:
            context = ssl_context(self.cfg)  # reads the files again: they may have been renewed
            context.sslsocket_class = TimedTlsSocket
            conn.sock = context.wrap_socket(conn.sock, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError) as error:  # a missing or invalid file; a client that has gone
            self.log.warning("no TLS for a client: %s", type(error).__name__)
            return False
        conn.initialized = True
        return True

    def _half_close(self, conn: TConn) -> None:
        """Let the client close its side first, as RFC 9112 section 9.6 asks, without blocking."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_last, conn))
        except (OSError, ValueError):  # it has closed already
            self.nr_conns -= 1
            conn.close()
        else:
            self._leaving[conn] = monotonic() + LEAVING_SECONDS

    def _on_last(self, conn: TConn, _sock: socket.socket) -> None:
        try:
            if conn.sock.recv(AT_ONCE):
                return  # the rest of a request that was refused unread
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self._close(conn)

    def _close(self, conn: TConn) -> None:
        del self._leaving[conn]
        self.poller.unregister(conn.sock)
        self.nr_conns -= 1
        conn.close()

    def _on_more(self, conn: TConn, _sock: socket.socket) -> None:
        arriving = self._arriving[conn]
        before = len(arriving.bytes)
        needs = self._read(conn, arriving)
        self._held += len(arriving.bytes) - before
        if needs is not Next.BYTES:
            self._forget(conn)
            self._dispatch(conn, arriving, needs)

    def _forget(self, conn: TConn) -> None:
        self._held -= len(self._arriving.pop(conn).bytes)
        self.poller.unregister(conn.sock)

    def _read(self, conn: TConn, arriving: RequestBuffer) -> Next:
        try:
            if self.cfg.is_ssl and not conn.sock.version():
                conn.sock.do_handshake()
            came = conn.sock.recv(AT_ONCE)  # of TLS one record, which is smaller: nothing stays behind in OpenSSL
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            came = None
        except OSError:
            came = b""
        if came == b"":
            return Next.END
        counted = len(arriving.bytes) if conn in self._arriving else 0  # counted already
        arriving.bytes += came or b""
        had_head = arriving.head_complete
        if arriving.complete(MOST_BYTES):
            return Next.THREAD
        if not arriving.head_complete and len(arriving.bytes) > LARGEST_HEAD:
            _send(conn, HEAD_TOO_LARGE)
            return Next.END
        if self._held + len(arriving.bytes) - counted > MOST_BYTES:
            _send(conn, TOO_MUCH)
            return Next.END
        if not had_head and arriving.wants_continue:
            _send(conn, CONTINUE)
        return Next.BYTES

    def _dispatch(self, conn: TConn, arriving: RequestBuffer, needs: Next) -> None:
        if needs is Next.END:
            self.nr_conns -= 1
            conn.close()
            return
        if conn.parser is None:
            conn.parser = http.get_parser(self.cfg, conn.sock, conn.client)
        # gunicorn makes the socket blocking; these limits end what would block for ever. If this module and gunicorn
        # disagree about the end of a request, that must not cost the thread.
        for way in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            conn.sock.setsockopt(socket.SOL_SOCKET, way, struct.pack("ll", SEND_SECONDS, 0))
        conn.parser.unreader.unread(bytes(arriving.bytes))
        self._answering[conn] = len(arriving.bytes)
        self._held += len(arriving.bytes)
        conn.data_ready = True
        if arriving.bytes.startswith(URGENT):
            super().enqueue_req(conn)
        elif len(self._slow) < max(1, self.cfg.threads - RESERVED):
            self._answer_slowly(conn)
        else:
            self._queue.append(conn)

    def _answer_slowly(self, conn: TConn) -> None:
        self._slow.add(conn)
        super().enqueue_req(conn)


def _send(conn: TConn, data: bytes) -> None:
    with suppress(OSError):
        conn.sock.send(data)
