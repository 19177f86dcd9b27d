"""Authorization: one token, a list of denied rights and, where given, the rules of a ClusterRole."""

import hmac
from collections.abc import Mapping
from typing import Any

from flask import Response, g, jsonify, request

from receiver.replay.world.objects import Denied
from simulator.kubernetes_objects import status_json
from simulator.live import Live

OPEN_PATHS = frozenset({"/version", "/healthz", "/livez", "/readyz"})


def authorize(live: Live) -> tuple[Response, int] | None:
    """Answer 401 to a caller without the token, where one is configured."""
    g.live = live
    token = live.config.kubernetes.token
    if token is None or request.path in OPEN_PATHS:
        return None
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode()):
        return None
    return jsonify(status_json(401, "Unauthorized", "Unauthorized")), 401


def need(live: Live, verb: str, resource: str) -> None:
    """Raise Denied (403) when the caller may not *verb* *resource* (``create`` ``pods/eviction``).

    Group and name are those of the request's path. A resource may be given with its group behind it
    (``workloads.kueue.x-k8s.io``).
    """
    group = request.path.split("/")[2] if request.path.startswith("/apis/") else ""
    plain = resource.removesuffix(f".{group}") if group else resource
    if _why_not(live, verb, group, plain, (request.view_args or {}).get("name") or ""):
        where = f' in API group "{group}"'
        raise Denied(
            "Forbidden", 403, f'{resource} is forbidden: User "{live.user}" cannot {verb} resource "{plain}"{where}'
        )


def review(live: Live, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a SelfSubjectAccessReview. Raises Denied (422) when it names no attributes."""
    spec = body.get("spec") or {}
    resource = spec.get("resourceAttributes")
    if resource is None and spec.get("nonResourceAttributes") is None:
        raise Denied("Invalid", 422, "spec.resourceAttributes: exactly one of both attributes must be specified")
    asked = resource or {}
    name = "/".join(filter(None, (asked.get("resource"), asked.get("subresource"))))
    why = _why_not(live, asked.get("verb") or "", asked.get("group") or "", name, asked.get("name") or "")
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": not why, **({"reason": why} if why else {})},
    }


def _why_not(live: Live, verb: str, group: str, resource: str, name: str) -> str:
    """Return why the caller may not do this, empty when it may."""
    if live.denied & {f"{verb} {resource}", f"{verb} {resource}.{group}"}:
        return "denied by the simulator's configuration"
    if live.rules is None or any(_allows(rule, verb, group, resource, name) for rule in live.rules):
        return ""
    return "no rule of the ClusterRole allows it"


def _allows(rule: Mapping[str, Any], verb: str, group: str, resource: str, name: str) -> bool:
    """True when *rule* of a ClusterRole covers this. A rule for names covers no list, no watch and no new object."""
    asked = (("verbs", verb), ("apiGroups", group), ("resources", resource))
    names = rule.get("resourceNames") or ()
    return all(what in rule.get(key, ()) or "*" in rule.get(key, ()) for key, what in asked) and (
        not names or name in names
    )
