"""Health, readiness and metrics: what a kubelet and Prometheus ask."""

import gzip
from datetime import timedelta

from flask import Blueprint, Response, jsonify, make_response, request
from prometheus_client.exposition import choose_encoder

from receiver.core.model.text import span
from receiver.ports import TryLater, WontWork
from receiver.web.api.documents import HealthDocument, ReadinessDocument
from receiver.web.parts import WebParts

GZIP_LEVEL = 3  # a twelfth of the size for little of the time


def blueprint(parts: WebParts) -> Blueprint:
    """Return /healthz, /readyz and /metrics."""
    routes = Blueprint("health", __name__)

    @routes.get("/healthz")
    def healthz() -> Response:
        """Answer 200 while the loop beats; 503 makes the kubelet restart the pod. The store is not asked."""
        health = parts.heartbeat()
        document = HealthDocument.of(health, watch=parts.watch(), mode=parts.mode, version=parts.version)
        return make_response(jsonify(document), 200 if health.alive else 503)

    @routes.get("/readyz")
    def readyz() -> Response:
        """Answer 200 when a delivery would be taken and kept, and steps go well.

        ``?exclude=steps`` leaves the steps out: Kubernetes asks so, because a pod that is not ready gets no deliveries,
        and no person could open the pages that say why steps fail.
        """
        reason = ""
        health = parts.heartbeat()
        if not parts.tokens().webhook:
            reason = "no webhook token: set GPU_AUTOSCALER_WEBHOOK_TOKEN"
        else:
            try:
                parts.store.check()
            except (TryLater, WontWork) as error:
                reason = f"store: {str(error).removeprefix('store: ')}"
        if not reason and request.args.get("exclude") != "steps":
            reason = parts.pools_pending()
        if not reason and request.args.get("exclude") != "steps" and not health.steps_well:
            reason = f"no step has succeeded for {span((health.good_age or timedelta()).total_seconds())}: see the log"
        document = ReadinessDocument.of(
            health, ready=not reason, reason=reason, pools=len(parts.policy.pools), mode=parts.mode
        )
        return make_response(jsonify(document), 503 if reason else 200)

    @routes.get("/metrics")
    def metrics() -> Response:
        try:
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        except (TypeError, ValueError):  # the library does not accept every version
            encode, content_type = choose_encoder("")
        answer = Response(encode(parts.registry), content_type=content_type)
        answer.vary.add("Accept-Encoding")
        if request.accept_encodings.quality("gzip"):
            answer.set_data(gzip.compress(answer.get_data(), compresslevel=GZIP_LEVEL))
            answer.content_encoding = "gzip"
        return answer

    return routes
