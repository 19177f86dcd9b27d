"""A proxy between the product and one of its sources, which can lose, delay and refuse what passes through it."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import urllib3

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
)
AT_ONCE = 65536  # bytes
WATCH = re.compile(r"[?&]watch=(1|[tT]rue)")
ALL_PODS = re.compile(r"/api/v1/pods(\?|$)")
LONGEST_WATCH = 3600.0  # seconds
Happens = Literal["lost", "late", "expired", "then"]


@dataclass(slots=True)
class Call:
    """A call that passed: *status* is what the source answered, None while it has not."""

    method: str
    path: str
    body: bytes
    at: float = field(default_factory=time.monotonic)
    status: int | None = None

    @property
    def json(self) -> Any:
        """The decoded body, None for none."""
        return json.loads(self.body) if self.body else None


@dataclass(slots=True)
class _Armed:
    what: Happens
    method: str
    path: str
    left: int
    seconds: float = 0.0
    then: Callable[[Call], None] | None = None


class Lever:
    """Listens on loopback and passes every call on to *upstream* (a URL), until told otherwise.

    *pool* trusts the source's certificate; *seen* is told of each call before it is passed on. Of lists and watches of
    all pods, those that it *hides* are left out.
    """

    def __init__(
        self,
        upstream: str,
        pool: urllib3.PoolManager | None = None,
        seen: Callable[[Call], None] | None = None,
        hides: Callable[[dict[str, Any]], bool] | None = None,
    ) -> None:
        self.upstream = upstream.rstrip("/")
        self.calls: list[Call] = []
        self.seen, self._hides = seen, hides
        self._pool = pool or urllib3.PoolManager(maxsize=32)
        self._armed: list[_Armed] = []
        self._lock = threading.Lock()
        self._away = False
        self.cuts = 0
        self._released = threading.Event()
        self._open: set[socket.socket] = set()
        self._answers: set[urllib3.BaseHTTPResponse] = set()
        lever = self

        class Handler(_Handler):
            lever_of = lever

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    # --- what can happen ---

    def lose(self, method: str, path: str, times: int = 1) -> None:
        """Let the next *times* matching calls take effect, and cut the connection instead of answering."""
        self._arm(_Armed("lost", method, path, times))

    def hold(self, method: str, path: str, seconds: float, times: int = 1) -> None:
        """Let the next *times* matching calls take effect, and answer them *seconds* late, or at `release`."""
        self._arm(_Armed("late", method, path, times, seconds))

    def expire(self, times: int = 1) -> None:
        """Answer the next *times* watches that their version is too old (410 Gone)."""
        self._arm(_Armed("expired", "GET", WATCH.pattern, times))

    def after(self, method: str, path: str, then: Callable[[Call], None]) -> None:
        """Call *then* when the next matching call has taken effect, before it is answered."""
        self._arm(_Armed("then", method, path, 1, then=then))

    def away(self) -> None:
        """Cut every connection, and each new one at once."""
        self._away = True
        self.cut()

    def back(self) -> None:
        """Let everything through again."""
        self._away = False

    def cut(self) -> None:
        """Cut every connection, as a restart of the source does."""
        with self._lock:
            self.cuts += 1
            answers, ends = tuple(self._answers), tuple(self._open)
        for answer in answers:
            with suppress(Exception):  # what was read to its end meanwhile cannot be shut down
                answer.shutdown()
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Answer what is held, and forget what is armed."""
        with self._lock:
            self._armed.clear()
        self._released.set()
        self._released = threading.Event()

    def close(self) -> None:
        """End every connection, and take no more."""
        self.away()
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._pool.clear()

    def sent(self, method: str, path: str) -> list[Call]:
        """Return the calls so far of *method* whose path and query match *path* (regular expressions)."""
        return [c for c in tuple(self.calls) if re.fullmatch(method, c.method) and re.search(path, c.path)]

    def armed(self) -> int:
        """Return how many of the armed faults no call has met."""
        with self._lock:
            return sum(armed.left for armed in self._armed)

    # --- what the handler needs ---

    def _arm(self, armed: _Armed) -> None:
        with self._lock:
            self._armed.append(armed)

    def take(self, call: Call) -> _Armed | None:
        """Use up and return what is armed for *call*."""
        with self._lock:
            for armed in self._armed:
                if re.fullmatch(armed.method, call.method) and re.search(armed.path, call.path):
                    armed.left -= 1
                    if not armed.left:
                        self._armed.remove(armed)
                    return armed
        return None

    def refuses(self) -> bool:
        """True while the source is away."""
        return self._away

    def wait(self, seconds: float) -> None:
        """Wait until `release`, at most *seconds*."""
        self._released.wait(seconds)

    def opened(self, end: socket.socket, *, still: bool) -> None:
        """Note a client's connection, or its end."""
        with self._lock:
            (self._open.add if still else self._open.discard)(end)

    def reading(self, answer: urllib3.BaseHTTPResponse, *, still: bool) -> None:
        """Note an answer that is being read, or its end."""
        with self._lock:
            (self._answers.add if still else self._answers.discard)(answer)

    def sieve(self, call: Call) -> Callable[[bytes], bytes] | None:
        """Return what leaves out the hidden objects of an answer to *call* (of a line of it, where it is a watch); None
        where nothing is hidden."""
        if self._hides is None or call.method != "GET" or not ALL_PODS.match(call.path):
            return None
        return _Sieve(self._hides)

    def forward(self, call: Call, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Send *call* on and return the answer, unread. Raises urllib3's HTTPError."""
        answer = self._pool.request(
            call.method,
            self.upstream + call.path,
            body=call.body or None,
            headers={k: v for k, v in headers.items() if k.lower() not in HOP_BY_HOP},
            timeout=urllib3.Timeout(connect=5, read=LONGEST_WATCH),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        call.status = answer.status
        return answer


class _Sieve:
    def __init__(self, hides: Callable[[dict[str, Any]], bool]) -> None:
        self._hides = hides

    def __call__(self, content: bytes) -> bytes:
        try:
            found = json.loads(content)
        except ValueError:
            return content
        if isinstance(found, dict) and isinstance(found.get("items"), list):
            kept = [one for one in found["items"] if not self._hides(one)]
            return content if len(kept) == len(found["items"]) else json.dumps({**found, "items": kept}).encode()
        shown = found.get("object") if isinstance(found, dict) else None
        changes = isinstance(found, dict) and found.get("type") in ("ADDED", "MODIFIED", "DELETED")
        return b"" if changes and isinstance(shown, dict) and self._hides(shown) else content


class _Handler(BaseHTTPRequestHandler):
    """One client's connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    lever_of: Lever

    def setup(self) -> None:
        super().setup()
        self.lever_of.opened(self.connection, still=True)

    def finish(self) -> None:
        self.lever_of.opened(self.connection, still=False)
        with suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with suppress(OSError):  # the client left, or the connection was cut
            super().handle()

    def log_message(self, *_: object) -> None:
        """Say nothing: `Lever.calls` has it."""

    def _pass(self) -> None:
        lever, self.close_connection = self.lever_of, True
        call = Call(self.command, self.path, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        if lever.refuses():
            return
        lever.calls.append(call)
        if lever.seen is not None:
            lever.seen(call)
        armed = lever.take(call)
        if armed is not None and armed.what == "expired":
            self._answer_expired()
            return
        try:
            answer = lever.forward(call, dict(self.headers))
        except urllib3.exceptions.HTTPError:
            return  # the source itself does not answer: cut, as it did
        lever.reading(answer, still=True)
        cuts = lever.cuts
        try:
            if armed is not None:
                content = answer.read()
                content = sieve(content) if (sieve := lever.sieve(call)) is not None else content
                if armed.then is not None:
                    armed.then(call)
                lever.wait(armed.seconds)
                if armed.what == "lost" or lever.refuses():
                    return
                self._head(answer, len(content))
                self.wfile.write(content)
            else:
                self._stream(answer, lambda: lever.cuts == cuts, lever.sieve(call))
            self.close_connection = lever.cuts != cuts
        except urllib3.exceptions.HTTPError:
            return
        finally:
            lever.reading(answer, still=False)
            answer.release_conn() if not self.close_connection else answer.close()

    def _head(self, answer: urllib3.BaseHTTPResponse, length: int | None) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _stream(
        self, answer: urllib3.BaseHTTPResponse, whole: Callable[[], bool], sieve: Callable[[bytes], bytes] | None
    ) -> None:
        """Pass the answer on as it comes: a watch has no end. One that was not left *whole* does not end well. With a
        *sieve*, line by line."""
        if sieve is not None:
            self._sifted(answer, whole, sieve)
            return
        length = "0" if answer.status in (204, 304) else answer.headers.get("Content-Length")
        self._head(answer, int(length) if length is not None else None)
        while came := answer.read1(AT_ONCE, decode_content=False):
            self.wfile.write(came if length is not None else b"%x\r\n%s\r\n" % (len(came), came))
            self.wfile.flush()
        if length is None and whole():
            self.wfile.write(b"0\r\n\r\n")

    def _sifted(
        self, answer: urllib3.BaseHTTPResponse, whole: Callable[[], bool], sieve: Callable[[bytes], bytes]
    ) -> None:
        self._head(answer, None)
        if not WATCH.search(self.path):  # a list may have any number of lines
            if kept := sieve(answer.read()):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(kept), kept))
            if whole():
                self.wfile.write(b"0\r\n\r\n")
            return
        rest = b""

        def pass_on(line: bytes) -> None:
            if kept := sieve(line):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(kept), kept))
                self.wfile.flush()

        while came := answer.read1(AT_ONCE, decode_content=False):
            *lines, rest = (rest + came).split(b"\n")
            for line in lines:
                pass_on(line + b"\n")
        if rest:
            pass_on(rest)
        if whole():
            self.wfile.write(b"0\r\n\r\n")

    def _answer_expired(self) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired"}
        event = {"type": "ERROR", "object": {**status, "code": 410, "message": "too old resource version"}}
        content = json.dumps(event).encode() + b"\n"
        self.send_response_only(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do_HEAD = _pass  # noqa: N815 (http.server's names)
