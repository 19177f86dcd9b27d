"""The gate before all faces: it keeps the request log, and lets calls meet the faults that stand."""

import json
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Any

from werkzeug.test import run_wsgi_app
from werkzeug.wrappers import Request, Response

from simulator.http_faults import HttpFault, HttpFaults
from simulator.kubernetes_objects import status_json
from simulator.live import Live

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

READING = frozenset({"GET", "HEAD", "OPTIONS"})
KEPT = 100_000
MET = "gpu-autoscaler.met"  # key of a WSGI environment: a list of the faults that the call met
HTML = "<html><head><title>{0}</title></head><body><center><h1>{0}</h1></center><hr>nginx</body></html>"


def face_of(path: str) -> str:
    """Return which face a path belongs to; the simulator's own (``/_...``) has none."""
    if path == "/v2" or path.startswith("/v2/"):
        return "civo"
    if path.startswith(("/metrics/", "/sd/")):
        return "metrics"
    return "" if path.startswith("/_") else "kubernetes"


class RequestLog:
    """Every call of Civo's face and every writing call of the Kubernetes face, in order of arrival, and the number of
    calls of each face."""

    def __init__(self) -> None:
        self._entries: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._lock = threading.Lock()
        self._next = 1
        self._calls: Counter[str] = Counter()

    def count(self, face: str) -> None:
        with self._lock:
            self._calls[face] += 1

    def calls(self) -> dict[str, int]:
        """Return the number of calls since the start, by face; a watch is one."""
        with self._lock:
            return dict(self._calls)

    def begin(self, **entry: Any) -> dict[str, Any]:
        """Note a call that came in."""
        with self._lock:
            entry = {"seq": self._next, **entry, "status": None, "fault": None}
            self._next += 1
            self._entries.append(entry)
            return entry

    def entries(self) -> list[dict[str, Any]]:
        """Return what is kept, oldest first."""
        with self._lock:
            return [dict(e) for e in self._entries]

    def clear(self) -> None:
        """Forget all of it."""
        with self._lock:
            self._entries.clear()


class Gate:
    """WSGI middleware around the faces."""

    def __init__(self, app: "WSGIApplication", live: Live, faults: HttpFaults, log: RequestLog) -> None:
        self._app = app
        self._live = live
        self._faults = faults
        self._log = log

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        request = Request(environ)
        body = request.get_data()  # to its end: the next request on the connection begins there
        environ["wsgi.input"] = BytesIO(body)  # a fault may answer without the app, and the log needs the body too
        environ["CONTENT_LENGTH"] = str(len(body))
        face = face_of(request.path)
        if not face:
            return self._app(environ, start_response)
        self._log.count(face)
        entry = self._noted(face, request, body)
        fault = self._faults.take(face, request.method, request.full_path.rstrip("?"))
        if fault is not None:
            entry["fault"] = fault.kind
            environ.setdefault(MET, []).append(fault.kind)
            return self._met(fault, face, environ, start_response, entry)

        def started(status: str, *rest: Any) -> Any:
            entry["status"] = int(status.split(" ", 1)[0])
            return start_response(status, *rest)

        return self._app(environ, started)

    def _noted(self, face: str, request: Request, body: bytes) -> dict[str, Any]:
        with self._live.lock:
            at = max(self._live.clock.now(), self._live.world.now)
        entry = {
            "at": at.isoformat(),
            "face": face,
            "host": request.host,
            "method": request.method,
            "path": request.path,
            "query": request.args.to_dict(),
            "content_type": request.content_type,
            "body": _read(body),
        }
        if face == "civo" or (face == "kubernetes" and request.method not in READING):
            return self._log.begin(**entry)
        return entry

    def _met(
        self,
        fault: HttpFault,
        face: str,
        environ: "WSGIEnvironment",
        start_response: "StartResponse",
        entry: dict[str, Any],
    ) -> Iterable[bytes]:
        if fault.kind == "slow":
            self._wait(fault)
            answer = Response(*_buffered(self._app, environ))
            entry["status"] = answer.status_code
            return answer(environ, start_response)
        took_effect = Response(*_buffered(self._app, environ)) if fault.after_effect or fault.kind == "hang" else None
        if fault.kind == "timeout":
            self._wait(fault)
            raise hung_up(environ)
        if fault.kind == "hang":
            assert took_effect is not None
            whole = took_effect.get_data()
            start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(whole) + 1))])
            return self._half(fault, whole, environ)
        answer = _answer(fault, face)
        entry["status"] = answer.status_code
        return answer(environ, start_response)

    def _half(self, fault: HttpFault, whole: bytes, environ: "WSGIEnvironment") -> Iterator[bytes]:
        yield whole[: len(whole) // 2]
        self._wait(fault)
        raise hung_up(environ)

    def _wait(self, fault: HttpFault) -> None:
        """Wait as long as the fault says, until it is cleared or the simulator stops."""
        released = self._faults.released
        until = time.monotonic() + fault.seconds.total_seconds()
        while (left := until - time.monotonic()) > 0 and not self._live.stopping.is_set():
            if released.wait(min(left, 0.2)):
                return


def _buffered(app: "WSGIApplication", environ: "WSGIEnvironment") -> tuple[bytes, str, Any]:
    chunks, status, headers = run_wsgi_app(app, environ, buffered=True)
    return b"".join(chunks), status, headers


def hung_up(environ: "WSGIEnvironment") -> ConnectionAbortedError:
    """Close the connection without another word; the server takes the error for a client that left."""
    connection = environ.get("werkzeug.socket")
    if connection is not None:
        connection.shutdown(socket.SHUT_RDWR)
    return ConnectionAbortedError("a fault closed the connection")


def _answer(fault: HttpFault, face: str) -> Response:
    if fault.kind == "not_json":
        title = f"{fault.status} {HTTPStatus(fault.status).phrase}"
        return Response(HTML.format(title), fault.status, content_type="text/html")
    body: Mapping[str, object] = {"code": fault.code, "reason": fault.reason, "details": fault.details}
    status, headers = fault.status, {}
    if fault.kind == "rate_limit":
        status = 429
        body = {"code": "rate_limited", "reason": "Too many requests", "details": ""}
        if fault.retry_after is not None:
            headers["Retry-After"] = str(fault.retry_after)
    if face == "kubernetes":
        body = status_json(status, str(body["code"]), str(body["reason"]))
    return Response(json.dumps(body), status, headers, content_type="application/json")


def _read(body: bytes) -> object:
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
