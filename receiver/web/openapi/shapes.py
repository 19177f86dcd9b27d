"""Small words for JSON Schema 2020-12, which OpenAPI 3.1 speaks, so that a schema reads like a table of fields."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from receiver.web.api.overrides import LONGEST_TEXT

Schema = dict[str, Any]
WORDS = {"minLength": 1, "maxLength": LONGEST_TEXT, "pattern": r"\S"}  # what a person must say


def _said(schema: Schema, says: str) -> Schema:
    return {**schema, "description": says} if says else schema


def text(says: str = "", **more: Any) -> Schema:
    """Any text."""
    return _said({"type": "string", **more}, says)


def count(says: str = "", **more: Any) -> Schema:
    """A whole number, 0 or more."""
    return _said({"type": "integer", "minimum": 0, **more}, says)


def number(says: str = "", **more: Any) -> Schema:
    """A number, also below 0."""
    return _said({"type": "number", **more}, says)


def yes_or_no(says: str = "") -> Schema:
    """True or false."""
    return _said({"type": "boolean"}, says)


def moment(says: str = "") -> Schema:
    """A time as RFC 3339 writes it, in UTC."""
    return _said({"type": "string", "format": "date-time"}, says)


def exact(says: str = "") -> Schema:
    """A number as text, such as USD: a binary float cannot hold cents."""
    return _said({"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}, says)


usd = exact


def ratio(says: str = "") -> Schema:
    """A ratio: 1 is the whole."""
    return _said({"type": "number", "minimum": 0}, says)


def month(says: str = "") -> Schema:
    """A calendar month such as 2026-11."""
    return _said({"type": "string", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$"}, says)


def one_of(kind: type[StrEnum] | Sequence[str], says: str = "") -> Schema:
    """One of the words of *kind*."""
    return _said({"type": "string", "enum": [str(word) for word in kind]}, says)


def listed(item: Schema, says: str = "") -> Schema:
    """An array."""
    return _said({"type": "array", "items": item}, says)


def by_name(value: Schema, says: str = "") -> Schema:
    """An object whose keys are names."""
    return _said({"type": "object", "additionalProperties": value}, says)


def anything(says: str) -> Schema:
    """An object that promises nothing."""
    return _said({"type": "object"}, says)


def whatever(says: str) -> Schema:
    """Any value at all."""
    return {"description": says}


def shared(name: str) -> Schema:
    """What ``components.schemas`` calls *name*."""
    return {"$ref": f"#/components/schemas/{name}"}


def maybe(schema: Schema) -> Schema:
    """*schema* or null: nobody knows, or there is none."""
    if "$ref" in schema:
        return {"oneOf": [schema, {"type": "null"}]}
    with_null: Schema = {**schema, "type": [schema["type"], "null"]}
    return {**with_null, "enum": [*schema["enum"], None]} if "enum" in schema else with_null


def fields(says: str, always: Mapping[str, Schema], sometimes: Mapping[str, Schema] | None = None) -> Schema:
    """An object: *always* has these fields and *sometimes* those. More may come with a newer server."""
    schema = {"type": "object", "properties": {**always, **(sometimes or {})}, "required": list(always)}
    return _said(schema, says)
