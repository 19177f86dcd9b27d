"""Label and field selectors as the Kubernetes API reads them from a query."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from receiver.replay.world.objects import Denied

JSON = Mapping[str, Any]
Matches = Callable[[JSON], bool]

FIELDS: Mapping[str, Mapping[str, Callable[[JSON], str]]] = {
    "Pod": {
        "metadata.name": lambda o: o["metadata"]["name"],
        "metadata.namespace": lambda o: o["metadata"]["namespace"],
        "spec.nodeName": lambda o: o["spec"].get("nodeName", ""),
        "spec.schedulerName": lambda o: o["spec"].get("schedulerName", ""),
        "status.phase": lambda o: o["status"]["phase"],
        "status.nominatedNodeName": lambda o: o["status"].get("nominatedNodeName", ""),
    },
    "Node": {
        "metadata.name": lambda o: o["metadata"]["name"],
        "spec.unschedulable": lambda o: "true" if o["spec"].get("unschedulable") else "false",
    },
    "ResourceSlice": {
        "metadata.name": lambda o: o["metadata"]["name"],
        "spec.driver": lambda o: o["spec"].get("driver", ""),
        "spec.nodeName": lambda o: o["spec"].get("nodeName", ""),
        "spec.pool.name": lambda o: (o["spec"].get("pool") or {}).get("name", ""),
    },
    "Event": {
        "metadata.name": lambda o: o["metadata"]["name"],
        "metadata.namespace": lambda o: o["metadata"]["namespace"],
        "reason": lambda o: o["reason"],
        "type": lambda o: o["type"],
        "involvedObject.kind": lambda o: o["involvedObject"].get("kind", ""),
        "involvedObject.name": lambda o: o["involvedObject"].get("name", ""),
        "involvedObject.namespace": lambda o: o["involvedObject"].get("namespace", ""),
        "involvedObject.uid": lambda o: o["involvedObject"].get("uid", ""),
    },
}
SET_BASED = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s+\((?P<values>[^()]*)\)$")
EQUALITY = re.compile(r"^(?P<key>[^!=\s]+)\s*(?P<op>==|=|!=)\s*(?P<value>\S*)$")


def selector(kind: str, labels: str | None, fields: str | None) -> Matches:
    """Return what tells whether an object is selected. Raises Denied (400) for a selector that is none."""
    tests = [_label_test(part) for part in _parts(labels or "")]
    tests += [_field_test(kind, part) for part in _parts(fields or "")]
    return lambda obj: all(test(obj) for test in tests)


def _parts(text: str) -> list[str]:
    """Split at the commas that stand outside parentheses."""
    return [p.strip() for p in re.split(r",(?![^()]*\))", text) if p.strip()]


def _labels(obj: JSON) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def _label_test(part: str) -> Matches:
    if found := SET_BASED.match(part):
        key, values = found["key"], {v.strip() for v in found["values"].split(",")}
        if found["op"] == "in":
            return lambda o: _labels(o).get(key) in values
        return lambda o: _labels(o).get(key) not in values
    if found := EQUALITY.match(part):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda o: _labels(o).get(key) != value
        return lambda o: _labels(o).get(key) == value
    if re.fullmatch(r"!\s*[^\s=!]+", part):
        absent = part[1:].strip()
        return lambda o: absent not in _labels(o)
    if re.fullmatch(r"[^\s=!]+", part):
        return lambda o: part in _labels(o)
    raise Denied("BadRequest", 400, f"unable to parse requirement: {part!r}")


def _field_test(kind: str, part: str) -> Matches:
    found = EQUALITY.match(part)
    field = FIELDS.get(kind, {}).get(found["key"]) if found else None
    if found is None or field is None:
        raise Denied("BadRequest", 400, f"field label not supported: {part}")
    value, read = found["value"], field
    if found["op"] == "!=":
        return lambda o: read(o) != value
    return lambda o: read(o) == value
