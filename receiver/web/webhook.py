"""POST /webhook: authenticate, read, parse, remember, wake. It decides nothing and calls no other system.

Throughput counts in a storm of alerts, so an accepted delivery never reaches Flask: routing, sessions and hooks for
pages would cost more than storing it. Flask answers what cannot be accepted.
"""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog
from flask import Blueprint, Request, Response, request

from receiver.ports import Delivery, alert_payload
from receiver.web.api.request_parts import read_body
from receiver.web.auth.tokens import require_bearer
from receiver.web.errors import Problem
from receiver.web.parts import HEADERS, NO_STORE, WebParts

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/webhook"
FAILURE = "gpu_autoscaler.failure"  # in the WSGI environment: why the delivery was not taken
LARGE = 256 * 1024  # bytes
PATIENCE_SECONDS = 2.0  # for another large one
BEGAN = "gpu_autoscaler.began"  # the same: when it came, in seconds of time.perf_counter

log = structlog.get_logger(__name__)


class Door:
    """A WSGI application before another: takes deliveries itself, and leaves to the other what is none or fails."""

    def __init__(self, inner: "WSGIApplication", parts: WebParts) -> None:
        self._inner, self._parts = inner, parts
        self._large = threading.BoundedSemaphore()
        self._pools = tuple(name for pool in parts.policy.pools for name in (pool.id, pool.name))
        self._headers = [*HEADERS.items(), *NO_STORE.items(), ("Content-Type", "application/json")]

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ.get("PATH_INFO") != PATH or environ.get("REQUEST_METHOD") != "POST":
            return self._inner(environ, start_response)
        began = environ[BEGAN] = time.perf_counter()
        try:
            number, delivery = self._take(Request(environ))
        except Exception as error:  # noqa: BLE001 (each kind has its answer in receiver.web.errors)
            environ[FAILURE] = error
            return self._inner(environ, start_response)
        document = {"delivery": number, "alerts": len(delivery.alerts), "warnings": list(delivery.warnings)}
        body = json.dumps(document, separators=(",", ":")).encode() + b"\n"
        start_response("202 ACCEPTED", [*self._headers, ("Content-Length", str(len(body)))])
        self._parts.instruments.webhook_answered(202, time.perf_counter() - began)
        return [body]

    def _take(self, incoming: Request) -> tuple[int, Delivery]:
        """Remember one delivery and wake the loop; return its number. What policy thinks of it is decided later."""
        parts = self._parts
        require_bearer(incoming.environ.get("HTTP_AUTHORIZATION"), parts.tokens().webhook)
        with self._turn(incoming.content_length):
            body = read_body(incoming, parts.max_body_bytes)
            now = parts.clock.now()
            try:
                delivery = alert_payload.parse(body, received_at=now, pools=self._pools)
            except alert_payload.BadPayload as error:
                log.warning("delivery refused", field=error.field, error=str(error))
                raise Problem(400, str(error), error.remedy, field=error.field) from error
            number = parts.store.remember(delivery, now)  # on disk before the 202; TryLater becomes 503
            parts.wake()
        log.info("delivery", delivery=number, alerts=len(delivery.alerts), group=delivery.group_key)
        return number, delivery

    @contextmanager
    def _turn(self, size: int | None) -> Iterator[None]:
        """One large delivery at a time: as objects of Python it takes ten times its bytes. None is a size unknown."""
        if size is not None and size <= LARGE:
            yield
            return
        if not self._large.acquire(timeout=PATIENCE_SECONDS):
            raise Problem(503, "other large deliveries are being read", "try again; small ones need not wait")
        try:
            yield
        finally:
            self._large.release()


def blueprint(_parts: WebParts) -> Blueprint:
    """Return the webhook's one route: only what the `Door` did not take comes that far."""
    routes = Blueprint("webhook", __name__)

    @routes.post(PATH, provide_automatic_options=False)
    def refuse() -> Response:
        failure: Exception = request.environ[FAILURE]
        raise failure

    return routes
