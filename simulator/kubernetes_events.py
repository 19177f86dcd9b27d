"""Events as core/v1 and as events.k8s.io/v1 write them: two forms of one object."""

from collections.abc import Mapping
from typing import Any

from receiver.replay.world.objects import Denied, WorldEvent
from simulator.kubernetes_objects import micro_stamp, stamp, uid_of
from simulator.live import Live

JSON = dict[str, Any]
NEW_TO_CORE: Mapping[str, str] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
}
CORE_TO_NEW: Mapping[str, str] = {core: new for new, core in NEW_TO_CORE.items()}
NEW_NEEDS = ("eventTime", "reportingController", "reportingInstance", "action", "reason", "type")
NEW_API, CORE_API = "events.k8s.io/v1", "v1"


def post(live: Live, namespace: str, api: str, body: Mapping[str, Any]) -> JSON:
    """Keep an Event; the caller holds the world. Raises Denied: 409 for a name in use, 422 for a body that is none."""
    missing = [f for f in NEW_NEEDS if not body.get(f)] if api == NEW_API else []
    if missing:
        raise Denied("Invalid", 422, f"Event is invalid: {', '.join(missing)}: Required value")
    core = {NEW_TO_CORE.get(k, k): v for k, v in body.items()} if api == NEW_API else dict(body)
    target = core.get("involvedObject") or {}
    # The API server's rule: an Event stands in the namespace of its object, cluster-wide objects in default.
    if (target.get("namespace") or "default") != namespace:
        raise Denied("Invalid", 422, "Event is invalid: involvedObject.namespace: does not match event.namespace")
    metadata = dict(core.get("metadata") or {})
    if any(_key(e) == (namespace, metadata.get("name")) for e in live.posted_events.values()):
        raise Denied("AlreadyExists", 409, f'events "{metadata.get("name")}" already exists')
    event = live.world.record_event(
        kind=target.get("kind", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        uid=target.get("uid", ""),
        reason=core.get("reason", ""),
        message=core.get("message", ""),
        type=core.get("type") or "Normal",
        component=core.get("reportingComponent") or (core.get("source") or {}).get("component", ""),
    )
    name = metadata.get("name") or f"{metadata.get('generateName', '')}{event.id.rsplit('.', 1)[-1]}"
    live.posted_events[event.version] = {
        **_rendered(event),
        **{k: v for k, v in core.items() if k not in ("apiVersion", "kind", "metadata") and v is not None},
        "metadata": {**_rendered(event)["metadata"], **metadata, "name": name, "namespace": namespace},
    }
    return live.posted_events[event.version]


def core_json(live: Live, event: WorldEvent) -> JSON:
    """Return *event* in the words of core/v1, as it was posted if it was."""
    return live.posted_events.get(event.version) or _rendered(event)


def in_words_of(api: str, core: JSON) -> JSON:
    """Return a core/v1 Event in the words of *api*."""
    if api == CORE_API:
        return core
    return {**{CORE_TO_NEW.get(k, k): v for k, v in core.items()}, "apiVersion": NEW_API}


def find(live: Live, namespace: str, name: str) -> JSON:
    """Return an Event. Raises Denied (404)."""
    for event in live.world.events:
        core = core_json(live, event)
        if _key(core) == (namespace, name):
            return core
    raise Denied("NotFound", 404, f'events "{name}" not found')


def _key(core: JSON) -> tuple[str, str]:
    return core["metadata"]["namespace"], core["metadata"]["name"]


def _rendered(event: WorldEvent) -> JSON:
    namespace = event.namespace or "default"
    return {
        "apiVersion": CORE_API,
        "kind": "Event",
        "metadata": {
            "name": event.id,
            "namespace": namespace,
            "uid": uid_of(namespace, event.id),
            "resourceVersion": str(event.version),
            "creationTimestamp": stamp(event.at),
        },
        "involvedObject": {
            "kind": event.kind,
            "name": event.name,
            **({"namespace": event.namespace} if event.namespace else {}),
            **({"uid": event.uid} if event.uid else {}),
        },
        "reason": event.reason,
        "message": event.message,
        "type": event.type,
        "source": {"component": event.component},
        "reportingComponent": event.component,
        "reportingInstance": "",
        "eventTime": micro_stamp(event.at),
        "firstTimestamp": stamp(event.at),
        "lastTimestamp": stamp(event.at),
        "count": 1,
    }
