"""Any value of a frozen dataclass, read off its annotations: nothing in it is likely to be a default."""

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from random import Random
from typing import Any

LEAVES: Mapping[Any, Any] = {
    bool: lambda dice: dice.random() < 0.5,
    int: lambda dice: dice.randrange(1, 10**6),
    float: lambda dice: dice.random(),
    str: lambda dice: dice.choice(("plain", "ünï/çode", 'quo"ted', "")) + str(dice.random()),
    Decimal: lambda dice: Decimal(dice.randrange(10**6)).scaleb(-dice.randrange(5)),
    datetime: lambda dice: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=dice.randrange(10**14)),
    timedelta: lambda dice: timedelta(microseconds=dice.randrange(-(10**6), 10**13)),
    date: lambda dice: date(2026, dice.randrange(1, 13), dice.randrange(1, 29)),
    time: lambda dice: time(dice.randrange(24), dice.randrange(60)),
    type(None): lambda _dice: None,
}


def any_value(kind: Any, dice: Random) -> Any:
    """Return a value of the annotation *kind*. Raises TypeError for one that is not known here."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in LEAVES:
        return LEAVES[kind](dice)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return dice.choice(list(kind))
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        within = tuple[kind, ...]  # values of the same kind within one have none themselves
        given = {f.name: () if hints[f.name] == within else any_value(hints[f.name], dice) for f in fields(kind)}
        return kind(**given)  # type: ignore[operator]  # a class
    if origin in (typing.Union, types.UnionType):
        others = [arg for arg in args if arg is not type(None)]
        return None if len(others) < len(args) and dice.random() < 0.2 else any_value(dice.choice(others), dice)
    if origin is typing.Literal:
        return dice.choice(args)
    if origin is tuple and args[-1] is ...:
        return tuple(any_value(args[0], dice) for _ in range(dice.randrange(1, 3)))
    if origin is tuple:
        return tuple(any_value(arg, dice) for arg in args)
    if origin is frozenset:
        return frozenset(any_value(args[0], dice) for _ in range(2))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {any_value(args[0], dice): any_value(args[1], dice) for _ in range(2)}
    raise TypeError(f"no values of {kind} are known here")
