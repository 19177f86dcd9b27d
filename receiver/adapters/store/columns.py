"""Column types that return exactly what was stored, on SQLite and PostgreSQL alike."""

# ruff: noqa: ARG002
# SQLAlchemy passes a dialect to every type; ours rarely need it.

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, get_type_hints

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, Text
from sqlalchemy.types import TypeDecorator

TAG = "$"  # a JSON object with only this key holds a value of another type: {"$": [kind, text]}
TAGGED = f'"{TAG}"'  # in JSON text that may contain such an object
REPLACEMENT = "\ufffd"
MOST = 2**31 - 1  # what PostgreSQL's integer holds
A_MICROSECOND = timedelta(microseconds=1)
PLAIN = frozenset({str, int, bool, type(None)})  # JSON's own types


class Moment(TypeDecorator[datetime]):
    """A timezone-aware UTC datetime to the microsecond. A naive one is refused with ValueError. PostgreSQL keeps
    `timestamptz`; SQLite keeps ISO 8601 text in UTC, which sorts as time does."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else _in_utc(value)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any] | None:
        return _to_text if dialect.name == "sqlite" else super().bind_processor(dialect)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """Read SQLite's text directly: a step reads thousands of them."""
        return _from_text if dialect.name == "sqlite" else super().result_processor(dialect, coltype)


def _in_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(f"the store does not take naive datetimes: {value!r}")
    return value.astimezone(UTC)


def _to_text(value: datetime | None) -> str | None:
    return None if value is None else _in_utc(value).isoformat(" ", "microseconds").removesuffix("+00:00")


def _from_text(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(f"{value}+00:00")


def storable(text: str) -> str:
    """*text* as `PlainText` stores it."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", REPLACEMENT).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class PlainText(TypeDecorator[str]):
    """Text in which NUL and lone surrogates, which databases refuse, become U+FFFD. Both can occur in an alert's labels
    as JSON escapes, and the delivery must still be stored."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Word(TypeDecorator[Any]):
    """An enum of texts, stored by value."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.kind(value)


class Exact(TypeDecorator[Decimal]):
    """A Decimal stored as text, so that it keeps its digits. Floats are refused."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        if not isinstance(value, Decimal) or not value.is_finite():
            raise ValueError(f"money is a finite Decimal, not {value!r}")
        return str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value)


class Count(TypeDecorator[int]):
    """An integer, limited to what the column holds: a pod may request 9223372036854775807 GPUs."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return None if value is None else min(value, MOST)


class Duration(TypeDecorator[timedelta]):
    """A timedelta stored in microseconds."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: timedelta | None, dialect: Dialect) -> int | None:
        return None if value is None else value // A_MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> timedelta | None:
        return None if value is None else value * A_MICROSECOND


class Json(TypeDecorator[Any]):
    """A JSON-able value, also with Decimal, datetime, timedelta, tuple and non-finite floats, as ASCII text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else to_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        return json.loads(value, object_hook=_untag) if TAGGED in value else json.loads(value)


class Items(Json):
    """A tuple of texts, or of dataclasses without further ones within, as a JSON array. Of a dataclass, *without* names
    the fields that are not stored, and *unless_empty* those that are stored only when they are not empty, because older
    versions do not know them. Fields of newer versions are ignored."""

    cache_ok = True

    def __init__(self, kind: type, without: tuple[str, ...] = (), unless_empty: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.kind, self.without, self.unless_empty = kind, without, unless_empty
        hints = get_type_hints(kind) if is_dataclass(kind) else {}
        self._enums = {n: h for n, h in hints.items() if isinstance(h, type) and issubclass(h, StrEnum)}
        self._fields = tuple(name for name in hints if name not in without)

    def process_bind_param(self, value: tuple[Any, ...] | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return to_json([self._stored(item) if self._fields else item for item in value])

    def _stored(self, item: object) -> dict[str, Any]:
        fields = {name: getattr(item, name) for name in self._fields}
        return {name: value for name, value in fields.items() if value or name not in self.unless_empty}

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[Any, ...]:
        records = super().process_result_value(value, dialect) or ()
        if not self._fields:
            return tuple(records)
        return tuple(
            self.kind(**{n: self._enums[n](v) if n in self._enums else v for n, v in item.items() if n in self._fields})
            for item in records
        )


_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode  # json.dumps would create an encoder per call


def to_json(value: object) -> str:
    """Return *value* as JSON text in ASCII (NUL and lone surrogates stay escapes). TypeError for unknown types."""
    return _encode(_tag(value))


def _tag(value: Any) -> object:
    """Replace values of other types by tagged objects. A picture is mostly plain, so that comes first."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is dict and TAG not in value:
        return {k if type(k) is str else _key(k): v if type(v) in PLAIN else _tag(v) for k, v in value.items()}
    if kind is list:
        return [v if type(v) in PLAIN else _tag(v) for v in value]
    return _tag_rarer(value)


def _tag_rarer(value: object) -> object:
    match value:
        case int() | str():  # of a subclass, such as an enum
            return value
        case float():
            return value if math.isfinite(value) else {TAG: ["float", repr(value)]}
        case Decimal():
            return {TAG: ["decimal", str(value)]}
        case datetime():
            return {TAG: ["datetime", value.isoformat()]}
        case timedelta():
            return {TAG: ["microseconds", value // A_MICROSECOND]}
        case tuple():
            return {TAG: ["tuple", [_tag(v) for v in value]]}
        case list():
            return [_tag(v) for v in value]
        case Mapping():
            plain = {_key(k): _tag(v) for k, v in value.items()}
            return {TAG: ["object", list(plain.items())]} if TAG in plain else plain
        case _:
            raise TypeError(f"the store cannot keep a {type(value).__name__}: {value!r}")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"keys of stored objects must be strings, not {key!r}")
    return key


UNTAG: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "microseconds": lambda value: timedelta(microseconds=value),
    "tuple": tuple,
    "object": dict,
}


def _untag(json_object: dict[str, Any]) -> object:
    """Undo `_tag` for one object; json.loads calls it for inner objects first."""
    if json_object.keys() != {TAG}:
        return json_object
    kind, value = json_object[TAG]
    return UNTAG[kind](value)
