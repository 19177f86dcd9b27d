"""GET /api/v1/alerts: what Alertmanager delivered within the last hour, so that somebody can see whether it arrives."""

from datetime import timedelta
from typing import Any

from flask import Blueprint, Response, jsonify, request

from receiver.core.model.signals import Alert
from receiver.web.api.documents import moment
from receiver.web.parts import WebParts

AN_HOUR = timedelta(hours=1)


def add_received(routes: Blueprint, parts: WebParts) -> None:
    """Add the route to *routes*."""

    @routes.get("/alerts")
    def alerts() -> Response:
        name = request.args.get("alertname")
        found = parts.store.remembered_alerts(parts.clock.now() - AN_HOUR)
        return jsonify([_document(a) for a in reversed(found) if name in (None, a.labels.get("alertname"))])


def _document(alert: Alert) -> dict[str, Any]:
    return {
        "alertname": alert.labels.get("alertname", ""),
        "labels": dict(alert.labels),
        "firing": alert.firing,
        "starts_at": moment(alert.starts_at),
        "fingerprint": alert.fingerprint,
        "delivery": alert.delivery,
    }
