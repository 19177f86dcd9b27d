"""POST /webhook: authenticate, read, parse, remember, wake. It decides nothing and calls no other system."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from receiver.ports import Delivery, alert_payload
from receiver.web.api.request_parts import read_body
from receiver.web.auth.tokens import require_bearer
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

PATH = "/webhook"
LARGE = 256 * 1024  # bytes
PATIENCE_SECONDS = 2.0  # for another large one

log = structlog.get_logger(__name__)


def blueprint(parts: WebParts) -> Blueprint:
    """Return the webhook's one route."""
    routes = Blueprint("webhook", __name__)
    large = threading.BoundedSemaphore()

    @routes.post(PATH, provide_automatic_options=False)
    def take() -> ResponseReturnValue:
        require_bearer(request.headers.get("Authorization"), parts.tokens().webhook)
        with _turn(large, request.content_length):
            number, delivery = _remember(parts, read_body(request, parts.configuration.webhook.max_bytes))
            parts.wake()
        log.info("delivery", delivery=number, alerts=len(delivery.alerts), group=delivery.group_key)
        return {"delivery": number, "alerts": len(delivery.alerts), "warnings": list(delivery.warnings)}, 202

    return routes


def _remember(parts: WebParts, body: bytes) -> tuple[int, Delivery]:
    """Store the delivery and return its number; what policy makes of it is decided later. Problem 400 for a payload
    that is none; TryLater becomes 503."""
    now = parts.clock.now()
    pools = tuple(name for pool in parts.policy.pools for name in (pool.id, pool.name))
    try:
        delivery = alert_payload.parse(body, received_at=now, pools=pools)
    except alert_payload.BadPayload as error:
        log.warning("delivery refused", field=error.field, error=str(error))
        raise Problem(400, str(error), error.remedy, field=error.field) from error
    return parts.store.remember(delivery, now), delivery  # on disk before the 202


@contextmanager
def _turn(large: threading.BoundedSemaphore, size: int | None) -> Iterator[None]:
    """One large delivery at a time: as objects of Python it takes ten times its bytes. None is a size unknown."""
    if size is not None and size <= LARGE:
        yield
        return
    if not large.acquire(timeout=PATIENCE_SECONDS):
        raise Problem(503, "other large deliveries are being read", "try again; small ones need not wait")
    try:
        yield
    finally:
        large.release()
