"""Request bodies of Civo's API, parsed as Civo does: as JSON whatever the headers say."""

from collections.abc import Mapping
from typing import Any

from flask import request

from receiver.core.model.policy import Taint
from receiver.replay.world.objects import Denied


def body_of_request() -> Mapping[str, Any]:
    """Return the request's JSON object; none is an empty one. Raises Denied (400).

    Content-Type and Content-Encoding are not looked at: the official client says gzip and sends plain JSON.
    """
    if not request.get_data():
        return {}
    given = request.get_json(force=True, silent=True)
    if not isinstance(given, Mapping):
        raise Denied("marshaling_objects_to_json", 400, "Failed to read the body as JSON")
    return given


def count_in(body: Mapping[str, Any]) -> int | None:
    """Return the ``count``, None when there is none. Raises Denied (400) for what is no whole number."""
    count = body.get("count")
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, int):
        raise Denied("marshaling_objects_to_json", 400, "Failed to read the body as JSON")
    return count


def labels_in(body: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the ``labels``, None when there are none. Raises Denied (400)."""
    labels = body.get("labels")
    if labels is not None and not isinstance(labels, Mapping):
        raise Denied("marshaling_objects_to_json", 400, "Failed to read the body as JSON")
    return labels


def taints_in(body: Mapping[str, Any]) -> tuple[Taint, ...] | None:
    """Return the ``taints``, None when there are none or they are null. Raises Denied (400)."""
    taints = body.get("taints")
    if taints is None:
        return None
    try:
        return tuple(
            Taint(key=t["key"], value=t.get("value") or "", effect=t.get("effect") or "NoSchedule") for t in taints
        )
    except (TypeError, KeyError, AttributeError):
        raise Denied("marshaling_objects_to_json", 400, "Failed to read the body as JSON") from None
