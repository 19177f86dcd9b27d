"""An API server for measurements: it lists given nodes and pods, its watches tell that nothing changes, and it counts
the bytes that it takes and sends. It runs in a process of its own, so that it takes no time from the step."""

import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

VERSION = "1000"
BOOKMARK_BEFORE_END = 2.0  # seconds, as kube-apiserver does


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lists: ClassVar[dict[str, Sequence[bytes]]] = {}
    counted = 0

    def do_GET(self) -> None:
        if self.path == "/bytes":
            self._answer(200, str(_Handler.counted).encode())
            return
        _Handler.counted += len(self.requestline) + len(str(self.headers))
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        found = self.lists.get(parts.path)
        if found is None:
            self._answer(404, b'{"kind": "Status", "message": "the server could not find the requested resource"}')
        elif query.get("watch"):
            self._watch(float(query["timeoutSeconds"]))
        else:
            self._answer(200, _page(found, int(query.get("limit", 0)), int(query.get("continue", 0))))

    def _watch(self, seconds: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        time.sleep(max(0.0, seconds - BOOKMARK_BEFORE_END))
        line = json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": VERSION}}}).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()
        time.sleep(min(seconds, BOOKMARK_BEFORE_END))
        self.wfile.write(b"0\r\n\r\n")
        _Handler.counted += len(line) + 150  # and the head

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        _Handler.counted += len(body) + 150

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _page(found: Sequence[bytes], limit: int, begin: int) -> bytes:
    end = begin + limit if limit else len(found)
    more = f', "continue": "{end}"' if end < len(found) else ""
    head = f'{{"metadata": {{"resourceVersion": "{VERSION}"{more}}}, "items": ['
    return head.encode() + b",".join(found[begin:end]) + b"]}"


def _serve(lists: dict[str, Sequence[bytes]], ready: Connection) -> None:
    _Handler.lists = lists
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    ready.send(server.server_port)
    server.serve_forever()


@contextmanager
def serving(nodes: Sequence[dict[str, Any]], pods: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the address of a server with these objects."""
    lists = {
        "/api/v1/nodes": [json.dumps(one).encode() for one in nodes],
        "/api/v1/pods": [json.dumps(one).encode() for one in pods],
    }
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(lists, theirs), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def counted(url: str) -> int:
    """Return how many bytes the server at *url* has taken and sent so far."""
    with urlopen(f"{url}/bytes") as answer:  # noqa: S310  # our own server
        return int(answer.read())
