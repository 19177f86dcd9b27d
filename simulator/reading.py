"""Dataclasses read strictly from YAML or JSON: every error at once, with its path; durations as Prometheus writes them.

The world's own dataclasses stay the only place that lists what a pool or a job has.
"""

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import durationpy
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    create_model,
)

T = TypeVar("T")
STRICT = ConfigDict(extra="forbid", frozen=True)


class Unreadable(Exception):
    """Invalid input; *errors* has one line per error, each beginning with its path."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


def _duration(value: object) -> object:
    if isinstance(value, str):
        try:
            return durationpy.from_str(value)
        except Exception as error:  # noqa: BLE001 (durationpy raises bare Exceptions too)
            raise ValueError(f"is no duration such as 90s, 5m or 1h30m: {error}") from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
_DURATION: TypeAdapter[timedelta] = TypeAdapter(Duration)
Moment = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]


def read(cls: type[T], given: object, path: str = "") -> T:
    """Return *given* as a *cls* (a dataclass or a pydantic model). Raises Unreadable; *path* leads its messages."""
    try:
        return cast("T", value_of(model_of(cast("Any", cls)).model_validate(given)))
    except ValidationError as error:
        raise Unreadable([_line(path, e["loc"], e["msg"]) for e in error.errors()]) from None


def duration(given: object, path: str) -> timedelta:
    """Return a duration given as ``90s`` or in seconds. Raises Unreadable; *path* leads its message."""
    try:
        return _DURATION.validate_python(given)
    except ValidationError as error:
        raise Unreadable([_line(path, (), e["msg"]) for e in error.errors()]) from None


@cache
def model_of(cls: Any) -> type[BaseModel]:
    """Return the strict pydantic model that reads *cls*; a model is its own."""
    if issubclass(cls, BaseModel):
        return cast("type[BaseModel]", cls)
    hints = get_type_hints(cls)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        # What is left out stays out of `model_fields_set`: the dataclass itself knows its defaults.
        fields[field.name] = (_readable(hints[field.name]), ... if needed else None)
    model: type[BaseModel] = create_model(cls.__name__, __config__=STRICT, **fields)
    _BUILDS[model] = cls
    return model


_BUILDS: dict[type[BaseModel], type] = {}


def value_of(read_value: Any) -> Any:
    """Return what *read_value* stands for: models made from dataclasses become those, also inside containers."""
    if type(read_value) in _BUILDS:
        given = {name: value_of(getattr(read_value, name)) for name in read_value.model_fields_set}
        return _BUILDS[type(read_value)](**given)
    if isinstance(read_value, Mapping):
        return {k: value_of(v) for k, v in read_value.items()}
    if isinstance(read_value, tuple | list):
        return type(read_value)(value_of(v) for v in read_value)
    return read_value


def _readable(hint: Any) -> Any:
    """Return *hint* with durations, moments and nested dataclasses made readable."""
    if hint is timedelta:
        return Duration
    if hint is datetime:
        return Moment
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return model_of(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(_readable(i) for i in inner)]  # noqa: UP007 (built at run time)
    if origin is tuple:
        return GenericAlias(tuple, tuple(i if i is Ellipsis else _readable(i) for i in inner))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return GenericAlias(Mapping, (inner[0], _readable(inner[1])))
    return hint


def _line(path: str, loc: tuple[int | str, ...], message: str) -> str:
    named = (str(part) for part in loc if not str(part).startswith(("function-", "literal[")))  # a union's branches
    where = ".".join((*([path] if path else []), *named)) or "the whole"
    return f"{where}: {message.removeprefix('Value error, ')}"
