"""POST /webhook: authenticate, read, parse, remember, wake. It decides nothing and calls nobody outside."""

import structlog
from flask import Blueprint, Response, jsonify, make_response, request

from receiver import alerts
from receiver.web.auth import require_bearer
from receiver.web.body import read_body
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

log = structlog.get_logger(__name__)


def blueprint(parts: WebParts) -> Blueprint:
    """Return the webhook's one route."""
    routes = Blueprint("webhook", __name__)
    pools = tuple(name for pool in parts.policy.pools for name in (pool.id, pool.name))

    @routes.post("/webhook", provide_automatic_options=False)
    def receive() -> Response:
        """Remember one delivery, wake the loop, answer 202. What policy thinks of it is decided later."""
        require_bearer(request.headers.get("Authorization"), parts.webhook_tokens)
        body = read_body(request, parts.max_body_bytes)
        now = parts.clock.now()
        try:
            delivery = alerts.parse(body, received_at=now, pools=pools)
        except alerts.BadPayload as error:
            log.warning("delivery refused", field=error.field, error=str(error))
            raise Problem(400, str(error), error.remedy, field=error.field) from error
        number = parts.store.remember(delivery, now)  # on disk before the 202; TryLater becomes 503
        parts.wake()
        log.info("delivery", delivery=number, alerts=len(delivery.alerts), group=delivery.group_key)
        document = {"delivery": number, "alerts": len(delivery.alerts), "warnings": list(delivery.warnings)}
        return make_response(jsonify(document), 202)

    return routes
