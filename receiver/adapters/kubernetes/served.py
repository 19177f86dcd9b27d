"""Which fields the API server knows of an object, by the OpenAPI document that it serves.

A field that an older version of an API does not know makes the API server refuse the whole object in a server-side
apply, and is lost in a merge patch. So what it does not know is left out, and said. Where the document cannot be read,
everything is sent, and what a refusal names is left out from then on.

Source: ``/openapi/v3`` of Kubernetes 1.27 and newer, which every account may read (ClusterRole ``system:discovery``).
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from time import monotonic
from typing import Any

from receiver.adapters.http.sessions import Remarks
from receiver.adapters.kubernetes.api import OPENAPI, ClusterWire, Json, section
from receiver.ports import TryLater, WontWork

# The API server's own words for a field that a server-side apply may not have (structured-merge-diff).
NOT_DECLARED = re.compile(r"\.(\w+): field not declared in schema")
READ_AGAIN_AFTER = 3600.0  # seconds: an API may have been upgraded
DEPTH = 12  # of references inside a document


Kind = tuple[str, str, str]  # group, version, kind


class ServedFields:
    """The fields of the kinds that we write. Each document is read once an hour at most."""

    def __init__(self, wire: ClusterWire, remarks: Remarks, seconds: Callable[[], float] = monotonic) -> None:
        self._wire, self._remarks, self._seconds = wire, remarks, seconds
        self._known: dict[Kind, tuple[float, Json | None]] = {}
        self._refused: dict[Kind, frozenset[str]] = {}

    def known(self, group: str, version: str, kind: str, wanted: Json) -> Json:
        """Return *wanted*, the fields of an object of that kind, without those that the API server does not know."""
        schema = self._schema(group, version, kind)
        unknown: list[str] = []
        fields: Json = _known(wanted, schema or {}, self._refused.get((group, version, kind), frozenset()), "", unknown)
        for path in dict.fromkeys(unknown):
            detail = f"this cluster's {kind} ({group}/{version}) has no field {path}: it is left out"
            self._remarks.warn("field not served", detail)
        return fields

    def learns(self, group: str, version: str, kind: str, error: TryLater | WontWork) -> bool:
        """Note the fields that *error*, the refusal of a server-side apply, names; False where it names no new one."""
        key = (group, version, kind)
        before = self._refused.get(key, frozenset())
        self._refused[key] = before | frozenset(NOT_DECLARED.findall(str(error)))
        return self._refused[key] != before

    def _schema(self, group: str, version: str, kind: str) -> Json | None:
        key, now = (group, version, kind), self._seconds()
        read_at, schema = self._known.get(key, (now - READ_AGAIN_AFTER, None))
        if now - read_at < READ_AGAIN_AFTER:
            return schema
        try:
            document = self._wire.ask("get", "openapi", OPENAPI, group, version)
        except (TryLater, WontWork) as error:
            self._remarks.warn("schema not read", f"{error}; every field of {kind} is sent")
            self._known[key] = now, schema
            return schema
        schema = next(_schemas(document, group, version, kind), None)
        self._known[key] = now, schema
        return schema


def _schemas(document: Json, group: str, version: str, kind: str) -> Iterator[Json]:
    every = section(section(document, "components"), "schemas")
    wanted = {"group": group, "version": version, "kind": kind}
    for schema in every.values():
        if isinstance(schema, dict) and wanted in (schema.get("x-kubernetes-group-version-kind") or ()):
            yield _resolved({"properties": {"status": section(schema, "properties").get("status")}}, every, DEPTH)


def _resolved(schema: object, every: Mapping[str, Any], depth: int) -> Json:
    """Return the parts of *schema* that say which fields there are; empty where any field may be."""
    if not isinstance(schema, Mapping) or not depth or schema.get("x-kubernetes-preserve-unknown-fields"):
        return {}
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1:  # how a reference with a description is written
        return _resolved(parts[0], every, depth - 1)
    if "$ref" in schema:
        return _resolved(every.get(str(schema["$ref"]).rpartition("/")[2]), every, depth - 1)
    if "items" in schema:
        return {"items": _resolved(schema["items"], every, depth - 1)}
    if "properties" not in schema:
        return {}
    fields = section(dict(schema), "properties")
    return {"properties": {name: _resolved(field, every, depth - 1) for name, field in fields.items()}}


def _known(value: object, schema: Json, refused: Collection[str], path: str, unknown: list[str]) -> Any:
    if isinstance(value, Mapping):
        fields = schema.get("properties")
        served = {n: v for n, v in value.items() if n not in refused and (fields is None or n in fields)}
        unknown += [f"{path}.{name}" for name in value if name not in served]
        return {n: _known(v, (fields or {}).get(n, {}), refused, f"{path}.{n}", unknown) for n, v in served.items()}
    if isinstance(value, list):
        return [_known(each, schema.get("items", {}), refused, f"{path}[]", unknown) for each in value]
    return value
