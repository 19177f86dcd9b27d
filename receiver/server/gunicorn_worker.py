"""gunicorn's gthread worker, but a request costs a thread only once all of it has come.

gthread reads a request in one of its threads and waits for the client as long as that takes: sixteen clients that
send half a request and then nothing would end webhooks and health checks alike. Here the one thread that waits for
events anyway gathers the bytes, over TLS as well, whose handshake it makes. What is not complete in time is closed, and
when there are too many connections those that have been incomplete for longest go first.

And it waits for nobody: gthread lets that thread stand still after an answer until the client has closed its side, for
two seconds each. Nor do deliveries and probes wait for pages: those that take long, or whose readers do, never have all
threads.
"""

import selectors
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from time import monotonic
from typing import Any

from gunicorn import http
from gunicorn.sock import ssl_context
from gunicorn.workers.gthread import ThreadWorker

from receiver.server.request_buffer import Arriving

SEND_SECONDS = 10  # for a client to take some of its answer, or to send something that a thread waits for
READ_SECONDS = 10.0  # from a request's first byte, or the connection's beginning, to its last byte
STOPPING_SECONDS = 1.0  # the same once we stop
LEAVING_SECONDS = 2.0  # for a client to close its side after its last answer: sooner, and it may lose the end of it
REST_SECONDS = 0.05  # for what nobody read of a request: it has come, or the request was refused unread
LARGEST_HEAD = 64 * 1024
MOST_BYTES = 32 * 1024 * 1024  # of all requests together that are not answered yet
AT_ONCE = 256 * 1024  # bytes of one client before it is somebody else's turn
SPARE = 50  # connections that are made free when there are too many
RESERVED = 4  # threads that pages and API leave to deliveries and probes, whose answers are short and taken at once

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_MUCH = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Next(Enum):
    """What a connection needs."""

    BYTES = "bytes"
    THREAD = "thread"
    END = "end"


class Patient(ssl.SSLSocket):
    """A TLS socket that blocks for `SEND_SECONDS` at most: OpenSSL asks the kernel again when that gives up."""

    def setblocking(self, flag: bool) -> None:
        """Wait for a while, or not at all."""
        self.settimeout(SEND_SECONDS if flag else 0)


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no annotations
    """Threads for requests, none for those who have not said yet what they want."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.told_to_stop: Callable[[], None] = lambda: None  # may be set: what is to end beside the answers under way
        self._arriving: dict[Any, Arriving] = {}  # by connection, the oldest first; the poller has each
        self._leaving: dict[Any, float] = {}  # until when each that was answered may close, the oldest first; likewise
        self._answering: dict[Any, int] = {}  # bytes of what threads have, by connection
        self._held = 0  # bytes of all of both
        self._slow: set[Any] = set()  # connections that a page or the API is made for
        self._queue: deque[Any] = deque()  # and those for which one is to be made

    def enqueue_req(self, conn: Any) -> None:
        """Give *conn* to a thread once its request has come; gunicorn calls this when there may be one."""
        arriving = Arriving(monotonic() + READ_SECONDS)
        if self.cfg.is_ssl and not conn.initialized and not self._wrapped(conn):
            self._done(conn, arriving, Next.END)
            return
        conn.sock.setblocking(False)
        if conn.parser is not None:
            arriving.bytes += conn.parser.unreader.take_buffered()
        needs = self._take(conn, arriving)
        if needs is not Next.BYTES:
            self._done(conn, arriving, needs)
            return
        self._arriving[conn] = arriving
        self._held += len(arriving.bytes)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_more, conn))

    def handle_exit(self, sig: int, frame: Any) -> None:
        """SIGTERM. What runs beside the requests hears of it now: waiting for them first could take all the time there
        is."""
        if self.alive:
            self.method_queue.defer(self.told_to_stop)
        super().handle_exit(sig, frame)

    def finish_request(self, conn: Any, fs: Any) -> None:
        """See what comes next on *conn*; gunicorn calls this after an answer."""
        self._held -= self._answering.pop(conn, 0)
        if conn in self._slow:
            self._slow.remove(conn)
            if self._queue:
                self._make(self._queue.popleft())
        if fs.cancelled() or fs.exception() is not None or fs.result():
            super().finish_request(conn, fs)
        else:
            self._part(conn)

    def murder_pending(self) -> None:
        """Close what took too long; gunicorn calls this after every round of events."""
        super().murder_pending()
        now = monotonic()
        latest = now + (READ_SECONDS if self.alive else STOPPING_SECONDS)
        crowded = self.nr_conns >= self.worker_connections
        for conn in [conn for conn, until in self._leaving.items() if crowded or until <= now]:
            self._left(conn)
        spare = SPARE if self.nr_conns >= self.worker_connections else 0
        for number, (conn, arriving) in enumerate(list(self._arriving.items())):
            arriving.until = min(arriving.until, latest)
            if number < spare or arriving.until <= now:
                self._forget(conn)
                self._done(conn, arriving, Next.END)

    def _keepalive_after(self, conn: Any, keepalive: bool) -> bool:
        """Whether another request may follow on *conn*; gunicorn calls this in a thread, and would wait 5 s there for a
        body that was refused unread."""
        return keepalive and bool(conn.parser.finish_body(deadline=monotonic() + REST_SECONDS))

    def _wrapped(self, conn: Any) -> bool:
        """Begin TLS on a new connection, which then counts as gunicorn's own `TConn.init` leaves it."""
        try:
            context = ssl_context(self.cfg)  # the files are read anew: they may have been renewed
            context.sslsocket_class = Patient
            conn.sock = context.wrap_socket(conn.sock, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError) as error:  # a file that is not there, or no certificate; a client that is gone
            self.log.warning("no TLS for a client: %s", type(error).__name__)
            return False
        conn.initialized = True
        return True

    def _part(self, conn: Any) -> None:
        """Let the client close its side first, as RFC 9112 asks for (section 9.6), without waiting for it."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_last, conn))
        except (OSError, ValueError):  # it is gone already
            self.nr_conns -= 1
            conn.close()
        else:
            self._leaving[conn] = monotonic() + LEAVING_SECONDS

    def _on_last(self, conn: Any, _sock: Any) -> None:
        try:
            if conn.sock.recv(AT_ONCE):
                return  # of a request that was refused before all of it had come
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self._left(conn)

    def _left(self, conn: Any) -> None:
        del self._leaving[conn]
        self.poller.unregister(conn.sock)
        self.nr_conns -= 1
        conn.close()

    def _on_more(self, conn: Any, _sock: Any) -> None:
        arriving = self._arriving[conn]
        before = len(arriving.bytes)
        needs = self._take(conn, arriving)
        self._held += len(arriving.bytes) - before
        if needs is not Next.BYTES:
            self._forget(conn)
            self._done(conn, arriving, needs)

    def _forget(self, conn: Any) -> None:
        self._held -= len(self._arriving.pop(conn).bytes)
        self.poller.unregister(conn.sock)

    def _take(self, conn: Any, arriving: Arriving) -> Next:
        """Take what has come without waiting, and say what comes next."""
        try:
            if self.cfg.is_ssl and not conn.sock.version():
                conn.sock.do_handshake()
            came = conn.sock.recv(AT_ONCE)  # of TLS one record, which is smaller: nothing is left where nobody looks
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            came = None
        except OSError:
            came = b""
        if came == b"":
            return Next.END
        held = len(arriving.bytes) if conn in self._arriving else 0  # it is counted already
        arriving.bytes += came or b""
        told = arriving.head_complete
        if arriving.complete(MOST_BYTES):
            return Next.THREAD
        if not arriving.head_complete and len(arriving.bytes) > LARGEST_HEAD:
            _say(conn, HEAD_TOO_LARGE)
            return Next.END
        if self._held + len(arriving.bytes) - held > MOST_BYTES:
            _say(conn, TOO_MUCH)
            return Next.END
        if not told and arriving.wants_continue:
            _say(conn, CONTINUE)
        return Next.BYTES

    def _done(self, conn: Any, arriving: Arriving, needs: Next) -> None:
        if needs is Next.END:
            self.nr_conns -= 1
            conn.close()
            return
        if conn.parser is None:
            conn.parser = http.get_parser(self.cfg, conn.sock, conn.client)
        # gunicorn makes the socket a blocking one: the kernel ends what would block for good. Nothing is to be received
        # any more; should we ever find another end of a request than gunicorn, that must not cost the thread.
        for way in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            conn.sock.setsockopt(socket.SOL_SOCKET, way, struct.pack("ll", SEND_SECONDS, 0))
        conn.parser.unreader.unread(bytes(arriving.bytes))
        self._answering[conn] = len(arriving.bytes)
        self._held += len(arriving.bytes)
        conn.data_ready = True
        if arriving.urgent:
            super().enqueue_req(conn)
        elif len(self._slow) < max(1, self.cfg.threads - RESERVED):
            self._make(conn)
        else:
            self._queue.append(conn)

    def _make(self, conn: Any) -> None:
        self._slow.add(conn)
        super().enqueue_req(conn)


def _say(conn: Any, words: bytes) -> None:
    """Send a few bytes to a client that may be gone or may not read."""
    with suppress(OSError):
        conn.sock.send(words)
