"""Health, readiness and metrics: what a kubelet and Prometheus ask."""

from datetime import timedelta
from typing import Any

from flask import Blueprint, Response, jsonify, make_response, request
from prometheus_client.exposition import choose_encoder

from receiver.core.model.text import span
from receiver.ports import LoopHealth, TryLater, WontWork
from receiver.web.api.documents import HealthDocument, LoopDocument, ReadinessDocument
from receiver.web.parts import WebParts


def loop_document(health: LoopHealth, **more: Any) -> LoopDocument:
    """Return how the loop is doing and who leads; *more* makes it a document of health."""
    good, leader = health.good_age, health.leader
    return (HealthDocument if more else LoopDocument)(
        status="ok" if health.alive else "stale",
        loop=str(health.state),
        beat_age_seconds=round(health.beat_age.total_seconds(), 3),
        fresh_seconds=round(health.fresh.total_seconds(), 3),
        steps=health.steps,
        errors=health.errors,
        good_step_age_seconds=None if good is None else round(good.total_seconds(), 3),
        good_step_within_seconds=round(health.good_within.total_seconds(), 3),
        leader=leader.name if leader else None,
        term=leader.term if leader else None,
        **more,
    )


def blueprint(parts: WebParts) -> Blueprint:
    """Return /healthz, /readyz and /metrics."""
    routes = Blueprint("health", __name__)

    @routes.get("/healthz")
    def healthz() -> Response:
        """Answer 200 while the loop beats; 503 makes the kubelet restart the pod. The store is not asked."""
        health = parts.heartbeat()
        document = loop_document(health, watch=parts.watch(), mode=parts.mode, version=parts.version).document()
        return make_response(jsonify(document), 200 if health.alive else 503)

    @routes.get("/readyz")
    def readyz() -> Response:
        """Answer 200 when a delivery would be taken and kept, and steps go well.

        ``?exclude=steps`` leaves the steps out: Kubernetes asks so, because a pod that is not ready gets no deliveries,
        and no person could open the pages that say why steps fail.
        """
        reason = ""
        health = parts.heartbeat()
        if not parts.webhook_tokens:
            reason = "no webhook token: set GPU_AUTOSCALER_WEBHOOK_TOKEN"
        else:
            try:
                parts.store.check()
            except (TryLater, WontWork) as error:
                reason = f"store: {str(error).removeprefix('store: ')}"
        if not reason and request.args.get("exclude") != "steps" and not health.steps_well:
            reason = f"no step has succeeded for {span((health.good_age or timedelta()).total_seconds())}: see the log"
        document = ReadinessDocument(
            ready=not reason,
            reason=reason,
            pools=len(parts.policy.pools),
            mode=parts.mode,
            loop=str(health.state),
            leader=health.leader.name if health.leader else None,
            term=health.leader.term if health.leader else None,
        )
        return make_response(jsonify(document.document()), 503 if reason else 200)

    @routes.get("/metrics")
    def metrics() -> Response:
        """Answer the registry in the exposition format that the scraper asks for."""
        try:
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        except (TypeError, ValueError):  # the library does not accept every version
            encode, content_type = choose_encoder("")
        return Response(encode(parts.registry), content_type=content_type)

    return routes
