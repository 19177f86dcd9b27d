"""Who may do what: one token, and a list of rights that are denied."""

import hmac
from collections.abc import Mapping
from typing import Any

from flask import Response, jsonify, request

from receiver.replay.world import Refused
from simulator.kubernetes_objects import status_json
from simulator.live import Live

OPEN_PATHS = frozenset({"/version", "/healthz", "/livez", "/readyz"})


def authorize(live: Live) -> tuple[Response, int] | None:
    """Answer 401 to a caller without the token, where one is configured."""
    token = live.config.kubernetes.token
    if token is None or request.path in OPEN_PATHS:
        return None
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode()):
        return None
    return jsonify(status_json(401, "Unauthorized", "Unauthorized")), 401


def need(live: Live, verb: str, resource: str) -> None:
    """Raise Refused (403) when ``verb resource`` (``create pods/eviction``) is denied."""
    if f"{verb} {resource}" in live.denied:
        user = "system:serviceaccount:gpu-autoscaler:gpu-autoscaler"
        raise Refused("Forbidden", 403, f'{resource} is forbidden: User "{user}" cannot {verb} resource "{resource}"')


def review(live: Live, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a SelfSubjectAccessReview. Raises Refused (422) when it names no attributes."""
    spec = body.get("spec") or {}
    resource = spec.get("resourceAttributes")
    if resource is None and spec.get("nonResourceAttributes") is None:
        raise Refused("Invalid", 422, "spec.resourceAttributes: exactly one of both attributes must be specified")
    resource = resource or {}
    name = "/".join(filter(None, (resource.get("resource"), resource.get("subresource"))))
    allowed = f"{resource.get('verb')} {name}" not in live.denied
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": allowed, **({} if allowed else {"reason": "denied by the simulator's configuration"})},
    }
