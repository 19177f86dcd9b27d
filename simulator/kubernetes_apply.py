"""Server-side apply, as far as it is used here: list-maps are merged by their key, and what a manager applied before
and leaves out now goes, unless another value stands there by now. ``metadata.managedFields`` keeps what each manager
applied, whole instead of as field sets."""

import copy
from collections.abc import Mapping
from typing import Any

JSON = dict[str, Any]
APPLY = "application/apply-patch+yaml"
KEYS = ("name", "type")  # of the list-maps in the objects that are applied here: checks, conditions
NOT_OWNED = ("apiVersion", "kind", "metadata")


def applied(before: JSON, patch: Mapping[str, Any], manager: str) -> JSON:
    """Return *before* with what *manager* applies now. The metadata of *patch* only identify the object."""
    entries = before["metadata"].get("managedFields") or []
    known: JSON = next((e["fields"] for e in entries if e["manager"] == manager), {})
    mine = {name: value for name, value in patch.items() if name not in NOT_OWNED}
    after = _merged(_without(copy.deepcopy(before), known, mine), mine)
    others = [e for e in entries if e["manager"] != manager]
    identity = {n: v for n, v in (patch.get("metadata") or {}).items() if n in ("resourceVersion", "uid")}
    managed = [*others, {"manager": manager, "operation": "Apply", "fields": mine}]
    return {**after, "metadata": {**before["metadata"], **identity, "managedFields": managed}}


def _without(there: Any, known: Any, wanted: Any) -> Any:
    """Return *there* less what is *known* as applied before, unchanged since, and not *wanted* any more."""
    if isinstance(known, Mapping) and isinstance(there, Mapping):
        left = dict(there)
        for name, value in known.items():
            if name not in left:
                continue
            if isinstance(wanted, Mapping) and name in wanted:
                left[name] = _without(left[name], value, wanted[name])
            elif left[name] == value:
                del left[name]
        return left
    if _is_map(known) and _is_map(there):
        said = {_key(e): e for e in wanted} if _is_map(wanted) else {}
        gone = {_key(e): e for e in known}
        kept = []
        for entry in there:
            key = _key(entry)
            if key not in gone or key in said:
                kept.append(_without(entry, gone.get(key, {}), said.get(key, {})))
            elif theirs := {n: v for n, v in entry.items() if n not in gone[key] or gone[key][n] != v}:
                kept.append({**{n: v for n, v in entry.items() if n in KEYS}, **theirs})
        return kept
    return there


def _merged(there: Any, given: Any) -> Any:
    if isinstance(given, Mapping):
        found = dict(there) if isinstance(there, Mapping) else {}
        return {**found, **{name: _merged(found.get(name), value) for name, value in given.items()}}
    if _is_map(given):
        found = {_key(e): e for e in there} if _is_map(there) else {}
        return list({**found, **{_key(e): _merged(found.get(_key(e)), e) for e in given}}.values())
    return copy.deepcopy(given)


def _is_map(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(e, Mapping) and _key(e) for e in value)


def _key(entry: Mapping[str, Any]) -> str:
    return str(next((entry[key] for key in KEYS if key in entry), ""))
