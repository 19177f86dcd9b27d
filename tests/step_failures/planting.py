"""Plant an exception into one function, whoever holds a reference to it, and say whose call it is.

A function's code object is replaced, so that tables, partials and names imported elsewhere meet the plant too. A call
belongs to a pool or a workload if one of its arguments does, or else an argument of the nearest caller that has one.
"""

import builtins
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import receiver

HOME = f"{Path(receiver.__file__).parent}/"
HOOK = "_planted_exception"
BAD = "bad"  # pools whose id begins so, namespaces, nodes and workloads that name it
MOST_LOOKED_AT = 50


class PlantedError(Exception):
    """The bug."""


class Whose(StrEnum):
    """Whose a call is."""

    BAD = "bad"
    GOOD = "good"
    ALL = "all"


def functions() -> dict[str, FunctionType]:
    """Every function of the package that has been defined by now, by file and qualified name."""
    found: dict[str, FunctionType] = {}
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            name = name_of(thing.__code__)
            if name is not None:
                found.setdefault(name, thing)
    return found


def name_of(code: CodeType) -> str | None:
    """``core/assign.py:assign`` of a function of the package; None for others, comprehensions and generated ones."""
    if not code.co_filename.startswith(HOME) or "<" in code.co_qualname:
        return None
    return f"{code.co_filename.removeprefix(HOME)}:{code.co_qualname}"


def whose(frame: FrameType | None, is_bad: Callable[[str], bool | None]) -> Whose:
    """Whose the call of *frame* is: by its arguments, or else by those of the nearest caller that tell."""
    while frame is not None:
        if name_of(frame.f_code) is not None:
            code = frame.f_code
            found = {
                _whose(frame.f_locals.get(v), is_bad)
                for v in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            }
            if Whose.BAD in found:
                return Whose.BAD
            if Whose.GOOD in found:
                return Whose.GOOD
        frame = frame.f_back
    return Whose.ALL


def whose_arguments(arguments: Iterator[Any], is_bad: Callable[[str], bool | None]) -> Whose:
    """Whose the *arguments* are."""
    found = {_whose(value, is_bad) for value in arguments}
    return Whose.BAD if Whose.BAD in found else Whose.GOOD if Whose.GOOD in found else Whose.ALL


def _whose(value: Any, is_bad: Callable[[str], bool | None]) -> Whose:
    if isinstance(value, str):
        told = is_bad(value)
        return Whose.ALL if told is None else Whose.BAD if told else Whose.GOOD
    if isinstance(value, (tuple, list, frozenset, set)):
        found = {_whose(v, is_bad) for v in list(value)[:MOST_LOOKED_AT]}  # all of one pool, or nobody's
        return found.pop() if len(found) == 1 else Whose.ALL
    for name in ("pods", "namespace", "pool", "instance", "id", "pool_id", "workload", "state"):
        inner = getattr(value, name, None)
        if inner is not None and inner is not value:
            found_inside = _whose(inner, is_bad)
            if found_inside is not Whose.ALL:
                return found_inside
    return Whose.ALL


@contextmanager
def planted(
    function: FunctionType, strikes: Callable[[Whose], bool], is_bad: Callable[[str], bool | None]
) -> Iterator[None]:
    """Let *function* raise PlantedError at each call that *strikes*."""
    original = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    name = name_of(function.__code__)

    def hook(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        told = whose_arguments(iter((*args, *kwargs.values())), is_bad)
        if told is Whose.ALL:
            told = whose(sys._getframe(2), is_bad)
        if strikes(told):
            raise PlantedError(f"planted into {name}")
        return original(*args, **kwargs)

    setattr(builtins, HOOK, hook)
    before = function.__code__
    function.__code__ = _wrapper(before)
    try:
        yield
    finally:
        function.__code__ = before
        delattr(builtins, HOOK)


def _wrapper(code: CodeType) -> CodeType:
    """Code that hands all arguments to the hook, with the same free variables as *code*."""
    free = code.co_freevars
    if not free:
        return (lambda *args, **kwargs: _planted_exception(args, kwargs)).__code__  # type: ignore[name-defined] # noqa: F821
    names = ", ".join(free)
    lines = (f"def outer({names}):", " def inner(*args, **kwargs):", f"  ({names},)", f"  return {HOOK}(args, kwargs)")
    source = "\n".join((*lines, " return inner"))
    made: dict[str, Any] = {}
    exec(source, made)
    return made["outer"](*free).__code__  # type: ignore[no-any-return]
