"""Values as the store keeps them: what a database would change or refuse is changed or refused here as well, and
nothing that is kept, or handed out, can be changed by whoever else holds it."""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sqlalchemy.engine.default import DefaultDialect

from receiver.adapters.store.columns import MOST, Json, storable
from receiver.ports import TryLater

JSON, DIALECT = Json(), DefaultDialect()
T = TypeVar("T")
Form = Callable[[Any], Any]


def kept(value: T) -> T:
    """Return the frozen dataclass *value* as the store keeps it: texts without what databases refuse, moments in UTC,
    bounded counts, and mappings of its own. What is in tuples stays as it is: databases keep them as JSON.

    Raises ValueError for a naive datetime and for money that is no finite Decimal, TypeError for a mapping that is no
    JSON, and TryLater where a field must not be None."""
    changes: dict[str, Any] = {}
    for name, form, optional in _forms(type(value)):  # type: ignore[arg-type]  # a class can be hashed
        before = getattr(value, name)
        if before is None:
            if not optional:
                raise TryLater(f"store: NOT NULL constraint failed: {name}", code="store")
        elif (after := form(before)) is not before:
            changes[name] = after
    return replace(value, **changes) if changes else value  # type: ignore[type-var]  # a dataclass


def fresh(value: Any) -> Any:
    """Return a copy of *value*, as far as it consists of mappings, lists and tuples."""
    if isinstance(value, Mapping):
        return {key: fresh(each) for key, each in value.items()}
    if isinstance(value, list):
        return [fresh(each) for each in value]
    return tuple(fresh(each) for each in value) if type(value) is tuple else value


def moment(value: datetime) -> datetime:
    """Return *value* in UTC. Raises ValueError for a naive one."""
    if value.tzinfo is UTC:
        return value
    if value.tzinfo is None:
        raise ValueError(f"the store does not take naive datetimes: {value!r}")
    return value.astimezone(UTC)


def _exact(value: Any) -> Decimal:
    if not isinstance(value, Decimal) or not value.is_finite():
        raise ValueError(f"money is a finite Decimal, not {value!r}")
    return value


def _bounded(value: int) -> int:
    return min(value, MOST)


def _through_json(value: Mapping[str, Any]) -> Any:
    return JSON.process_result_value(JSON.process_bind_param(value, DIALECT), DIALECT)


PLAIN: Mapping[Any, Form] = {str: storable, int: _bounded, Decimal: _exact, datetime: moment, Mapping: _through_json}


@cache
def _forms(kind: type) -> tuple[tuple[str, Form, bool], ...]:
    """The form of each field of the dataclass *kind* that has one, and whether it may be None."""
    found: list[tuple[str, Form, bool]] = []
    for name, hint in get_type_hints(kind).items():
        optional = NoneType in get_args(hint)
        inner = next(arg for arg in get_args(hint) if arg is not NoneType) if optional else hint
        form = kept if is_dataclass(inner) else PLAIN.get(get_origin(inner) or inner, _as_it_is)
        if form is not _as_it_is or not optional:
            found.append((name, form, optional))
    return tuple(found)


def _as_it_is(value: Any) -> Any:
    return value
