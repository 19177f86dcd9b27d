"""ResourceQuotas of the Kubernetes API, and their admission: a pod that would exceed one is refused when it is posted.

Of a quota `spec.hard` counts for ``requests.<extended resource>``, and of its scopes ``PriorityClass``. A world's own
jobs are submitted past the API server, so no quota refuses them.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from receiver.replay.world.objects import Denied, PodSpec, WorldPod
from simulator.kubernetes_custom import Note
from simulator.kubernetes_objects import stamp, uid_of

JSON = dict[str, Any]
REQUESTS = "requests."


class Quotas:
    """The quotas of all namespaces. Hold the world's lock."""

    def __init__(self, note: Note) -> None:
        self._objects: dict[tuple[str, str], JSON] = {}
        self._note = note
        self._changes = 0

    def every(self) -> list[JSON]:
        """Return all of them."""
        return list(self._objects.values())

    def get(self, namespace: str, name: str) -> JSON:
        """Return one. Raises Denied (404)."""
        if (namespace, name) not in self._objects:
            raise Denied("NotFound", 404, f'resourcequotas "{name}" not found')
        return self._objects[namespace, name]

    def create(self, namespace: str, given: Mapping[str, Any], now: datetime) -> JSON:
        """Add one. Raises Denied (422 without a name, 409 when it is there)."""
        metadata = given.get("metadata") or {}
        name = metadata.get("name")
        if not name:
            raise Denied("Invalid", 422, "metadata.name: Required value: name or generateName is required")
        if metadata.get("namespace") not in (None, namespace):
            raise Denied("BadRequest", 400, "the namespace of the object does not match the one of the request")
        if (namespace, name) in self._objects:
            raise Denied("AlreadyExists", 409, f'resourcequotas "{name}" already exists')
        uid = uid_of("ResourceQuota", namespace, name, str(self._changes))
        own = {"namespace": namespace, "uid": uid, "creationTimestamp": stamp(now)}
        return self._keep({**given, "kind": "ResourceQuota", "apiVersion": "v1", "metadata": {**metadata, **own}})

    def replace(self, after: JSON) -> JSON:
        """Bring in what a patch left. Raises Denied (422): what a quota is scoped to cannot be changed."""
        before = self.get(after["metadata"]["namespace"], after["metadata"]["name"])
        for field in ("scopes", "scopeSelector"):
            if (after.get("spec") or {}).get(field) != (before.get("spec") or {}).get(field):
                raise Denied("Invalid", 422, f"spec.{field}: Invalid value: field is immutable")
        return self._keep(after)

    def delete(self, namespace: str, name: str, options: Any) -> JSON:
        """Take one away. Raises Denied (404, and 409 for another uid or version than *options* name)."""
        found = self.get(namespace, name)
        wanted = (options or {}).get("preconditions") or {}
        for field in ("uid", "resourceVersion"):
            if wanted.get(field) not in (None, found["metadata"][field]):
                raise Denied("Conflict", 409, f'the {field} in the precondition does not match "{name}"')
        self._note("ResourceQuota", found, None)
        return self._objects.pop((namespace, name))

    def admit(self, pod: PodSpec, there: Iterable[WorldPod]) -> None:
        """Raise Denied (403) when *pod* would exceed a quota of its namespace, *there* being the cluster's pods."""
        mine = [p for p in there if p.namespace == pod.namespace and not p.over]
        for (namespace, name), found in sorted(self._objects.items()):
            spec = found.get("spec") or {}
            if namespace != pod.namespace or not _covers(spec, pod.priority_class):
                continue
            for resource, hard in sorted((spec.get("hard") or {}).items()):
                asked = pod.requests.get(str(resource).removeprefix(REQUESTS), 0)
                if not str(resource).startswith(REQUESTS) or not asked:
                    continue
                covered = (p for p in mine if _covers(spec, p.priority_class))
                used = sum(p.requests.get(resource.removeprefix(REQUESTS), 0) for p in covered)
                if used + asked > int(hard):
                    said = f"requested: {resource}={asked}, used: {resource}={used}, limited: {resource}={hard}"
                    raise Denied("Forbidden", 403, f'pods "{pod.name}" is forbidden: exceeded quota: {name}, {said}')

    def _keep(self, quota: JSON) -> JSON:
        self._changes += 1
        key = quota["metadata"]["namespace"], quota["metadata"]["name"]
        self._objects[key] = self._note("ResourceQuota", self._objects.get(key), quota)
        return self._objects[key]


def _covers(spec: Mapping[str, Any], priority_class: str) -> bool:
    """True when all scopes of a quota cover a pod of *priority_class* (empty: of none), as the API server judges."""
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    scoped = [e for e in expressions if e.get("scopeName") == "PriorityClass"]
    return all(_matches(e, priority_class) for e in scoped)


def _matches(expression: Mapping[str, Any], priority_class: str) -> bool:
    values = expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return priority_class in values
        case "NotIn":
            return priority_class not in values
        case "Exists":
            return bool(priority_class)
        case _:
            return not priority_class
