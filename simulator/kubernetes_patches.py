"""The patch formats of the Kubernetes API, applied to an object as JSON.

For what can be changed here (labels, annotations, unschedulable, taints, gates) a strategic merge patch means
the same as a JSON merge patch: none of these lists has a merge key in Kubernetes' types.
"""

import copy
from collections.abc import Mapping
from typing import Any

from receiver.replay.world.objects import Denied

JSON = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
MERGE_TYPES = frozenset({"application/merge-patch+json", "application/strategic-merge-patch+json"})


def patched(obj: JSON, content_type: str, patch: object) -> JSON:
    """Return *obj* with *patch*. Raises Denied (415, 400, 422)."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == JSON_PATCH:
        return _json_patched(copy.deepcopy(obj), patch)
    if kind in MERGE_TYPES:
        if not isinstance(patch, Mapping):
            raise Denied("BadRequest", 400, "a merge patch is an object")
        merged = _merged(obj, patch)
        assert isinstance(merged, dict)
        return merged
    raise Denied("UnsupportedMediaType", 415, f"the body of the request was in an unknown format: {kind}")


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7386; strategic directives (``$patch`` and the like) are not supported and left out."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _json_patched(obj: JSON, patch: object) -> JSON:
    """RFC 6902: add, replace, remove and test."""
    if not isinstance(patch, list):
        raise Denied("BadRequest", 400, "a JSON patch is a list of operations")
    for operation in patch:
        try:
            _operate(obj, operation["op"], operation["path"], operation.get("value"))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise Denied("Invalid", 422, f"the server rejected our request due to an error: {error!r}") from None
    return obj


def _operate(obj: JSON, op: str, path: str, value: Any) -> None:
    *parents, last = [p.replace("~1", "/").replace("~0", "~") for p in path.split("/")[1:]]
    where: Any = obj
    for part in parents:
        where = where[int(part)] if isinstance(where, list) else where[part]
    key: Any = last
    if isinstance(where, list):
        key = len(where) if last == "-" else int(last)
    if op == "test":
        if where[key] != value:
            raise ValueError(f"test of {path} failed")
    elif op == "remove":
        del where[key]
    elif op == "replace":
        where[key] = (where[key], value)[1]  # the old one must be there
    elif op == "add":
        if isinstance(where, list):
            where.insert(key, value)
        else:
            where[key] = value
    else:
        raise ValueError(f"unknown operation {op}")
