"""What the chart's schema says of the configuration file.

Everything below ``"definitions"`` in k8s/chart/values.schema.json comes from `receiver.config.model`, so that Helm
refuses a misspelled key before a pod starts with it. The rest of the file is written by hand.

Helm's values are typed and the server reads text, so a scalar may be a string, a number or a boolean wherever the
server takes its text. Contradictions between keys, and what no pattern says, such as the names of time zones, are left
to the server and `gpu-autoscaler check-config`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, TypeAdapter

from receiver.config import devices, notify, pools, values, web
from receiver.config.completion import FROM_CIVO
from receiver.config.model import Configuration
from receiver.config.pools import Filled, PoolSpec
from receiver.config.values import Patterned, Wrong, parse

SCHEMA = Path(__file__).resolve().parents[1] / "k8s" / "chart" / "values.schema.json"
ELSEWHERE = ("mode", "pools", "public_url")  # values of their own; a template says so where `config` has them
GENERATED = re.compile(r'(?<=\n)  "definitions": .*\Z', re.DOTALL)
JSON = dict[str, Any]

TRUTH = "^([Tt]rue|TRUE|[Ff]alse|FALSE|[Yy]es|YES|[Nn]o|NO|[Oo]n|ON|[Oo]ff|OFF|[TtFfYyNn01])$"
DURATION: JSON = {
    "type": ["string", "integer"],
    "pattern": "^ *(0|([0-9]+(y|w|d|h|m|s|ms))+) *$",
    "maximum": 0,  # of numbers, which have no unit
}
POSITIVE: JSON = {
    "type": "string",  # of numbers only 0 needs no unit
    "pattern": "^ *([0-9]+(y|w|d|h|m|s|ms))*[0-9]*[1-9][0-9]*(y|w|d|h|m|s|ms)([0-9]+(y|w|d|h|m|s|ms))* *$",
}
# The kinds of scalars by the name of their definition.
SCALARS: Mapping[str, JSON] = {
    "boolean": {"type": ["boolean", "integer", "string"], "pattern": TRUTH, "minimum": 0, "maximum": 1},
    "duration": DURATION,
    "positiveDuration": POSITIVE,
    "text": {"type": ["string", "number", "boolean"]},
    "word": {"type": ["string", "number", "boolean"], "minLength": 1},
}
NUMBER: JSON = {"type": ["number", "string"], "pattern": "^ *[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)? *$"}
WHOLE: JSON = {"type": ["integer", "string"], "pattern": "^ *[+-]?[0-9_]+([.]0*)? *$"}
RATIO: JSON = {**NUMBER, "exclusiveMinimum": 0, "maximum": 1}
NAMED = (devices, notify, pools, values, web)  # modules of kinds, whose definitions are named as there
# Python's \w and \d are of every script, Go's of ASCII alone.
CLASSES = {r"\d": "[0-9]", r"\w": "0-9A-Za-z_\u0080-\U0010ffff"}
BOUNDS = {"ge": "minimum", "lt": "exclusiveMaximum"}  # of a Decimal, as pydantic leaves them in its schema


def definitions() -> JSON:
    """Return the schema's definitions: ``pools`` and ``config``, and what they refer to."""
    found: JSON = {}
    _model(Configuration, found)
    config = found.pop(Configuration.__name__)
    given = config["properties"]
    pools = given["pools"]
    given |= {key: {} for key in ELSEWHERE}
    return {"config": {**config, "required": []}, "pools": pools, **SCALARS, **dict(sorted(found.items()))}


def _model(model: type[BaseModel], found: JSON) -> JSON:
    """Put the definition of *model* into *found*, and return a reference to it."""
    if model.__name__ not in found:
        hints = get_type_hints(model, include_extras=True)
        fields = model.model_fields
        found[model.__name__] = {}  # a section may hold itself
        found[model.__name__] |= {
            "type": "object",
            "additionalProperties": False,
            "required": [name for name, field in fields.items() if field.is_required() and not _left_out(model, name)],
            "properties": {name: _value(hints[name], found) for name in fields},
        }
    return {"$ref": f"#/definitions/{model.__name__}"}


def _left_out(model: type[BaseModel], name: str) -> bool:
    """True for a key that a file may leave to Civo."""
    return model is PoolSpec and name in FROM_CIVO


def _value(hint: Any, found: JSON) -> JSON:
    """Return the schema of a value of the kind *hint*."""
    if is_read_by_a_function(hint) and not _is_list(hint):
        return _matching(hint, found) or _scalar(hint)
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    arguments = get_args(kind)
    match get_origin(kind):
        case origin if origin in (Union, UnionType):
            [one] = [part for part in arguments if part is not type(None)]  # null removes a key in Helm
            return _value(one, found)
        case origin if origin is tuple:
            least = {"minItems": 1} if Filled in get_args(hint)[1:] else {}
            return {"type": "array", **least, "items": _value(arguments[0], found)}
        case origin if origin is dict:
            names = _value(arguments[0], found)
            return {"type": "object", "propertyNames": names, "additionalProperties": _value(arguments[1], found)}
        case origin if origin is Literal:
            return {"enum": list(arguments)}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model(kind, found)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"enum": [str(word) for word in kind]}
    return _named("boolean") if kind is bool else _scalar(hint)


def _matching(hint: Any, found: JSON) -> JSON | None:
    """Put the definition of a kind that patterns bound into *found*, and return a reference to it; None for others."""
    bounds = [part for part in get_args(hint)[1:] if isinstance(part, Patterned)]
    if not bounds:
        return None
    [name] = {name for module in NAMED for name, kind in vars(module).items() if kind == hint}
    number = any(_takes(hint, word) for word in ("8", "2026"))  # a year is one too
    shapes = {"string": True, "number": number, "boolean": _takes(hint, "true")}
    definition: JSON = {"type": [shape for shape, taken in shapes.items() if taken]}
    for part in bounds:
        definition |= {"pattern": _whole(part.pattern)} if part.pattern else {}
        definition |= {"not": {"type": "string", "pattern": _whole(part.reserved)}} if part.reserved else {}
    found[name] = definition
    return {"$ref": f"#/definitions/{name}"}


def _whole(pattern: str) -> str:
    """Return the schema's pattern of a text that *pattern* matches, and that blanks may surround."""
    for shorthand, characters in CLASSES.items():
        pattern = pattern.replace(shorthand, characters)
    return rf"^\s*({pattern})\s*$"


def is_read_by_a_function(hint: Any) -> bool:
    """True for a kind of value that a validator reads from text."""
    return any(isinstance(part, BeforeValidator) for part in get_args(hint)[1:]) if _is_annotated(hint) else False


def _is_annotated(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def _is_list(hint: Any) -> bool:
    kind = get_args(hint)[0]
    return get_origin(kind) is tuple and Ellipsis in get_args(kind)


def _scalar(hint: Any) -> JSON:
    kind = get_args(hint)[0] if _is_annotated(hint) else hint
    if kind is timedelta:
        return _named("duration" if _takes(hint, "0s") else "positiveDuration")
    if kind is Decimal:
        bounds = TypeAdapter(hint).json_schema()
        number = {**NUMBER, **{BOUNDS[key]: bounds[key] for key in BOUNDS if key in bounds}}
        return number if _takes(hint, "1.5") else RATIO
    if kind is int and not is_read_by_a_function(hint):
        bounds = TypeAdapter(hint).json_schema()
        return {**WHOLE, **{key: bounds[key] for key in ("minimum", "maximum", "exclusiveMaximum") if key in bounds}}
    return _named("text" if _takes(hint, "") else "word")


def _named(scalar: str) -> JSON:
    return {"$ref": f"#/definitions/{scalar}"}


def _takes(hint: Any, value: str) -> bool:
    try:
        parse(hint, value)
    except Wrong:
        return False
    return True


def _lines(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield the definitions as text, a property to a line."""
    for name, definition in value.items():
        rest = {key: said for key, said in definition.items() if key != "properties"}
        if "properties" not in definition:
            yield f"    {json.dumps(name)}: {json.dumps(rest)}"
            continue
        properties = ",\n".join(
            f"        {json.dumps(key)}: {json.dumps(said)}" for key, said in definition["properties"].items()
        )
        yield f'    {json.dumps(name)}: {json.dumps(rest)[:-1]}, "properties": {{\n{properties}\n    }}}}'


def text() -> str:
    """Return the content of the schema's file."""
    generated = '  "definitions": {\n' + ",\n".join(_lines(definitions())) + "\n  }\n}\n"
    return GENERATED.sub(lambda _: generated, SCHEMA.read_text(encoding="utf-8"))


def generated() -> dict[Path, str]:
    """Return the schema as it should be."""
    return {SCHEMA: text()}
