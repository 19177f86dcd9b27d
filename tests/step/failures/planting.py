"""Plant an exception into one function, whoever holds a reference to it, and say whose call it is.

A function's code object is replaced, so that tables, partials and names imported elsewhere meet the plant too. A call
belongs to a pool or a workload if one of its arguments does, or else an argument of the nearest caller that has one.
"""

import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dis import Bytecode
from enum import StrEnum
from functools import cache, cached_property, partial
from inspect import unwrap
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import receiver

HOME = f"{Path(receiver.__file__).parent}/"
HOLDERS = (property, classmethod, staticmethod, cached_property, partial, type(cache(lambda: None)))
WITHIN = ("fget", "__func__", "func", "__wrapped__")  # where they keep a function
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
    """Every function and method of the package's modules that are imported by now, by file and qualified name."""
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("receiver")]
    things = [thing for module in modules for thing in vars(module).values()]
    things += [inner for thing in things if isinstance(thing, type) for inner in vars(thing).values()]
    found: dict[str, FunctionType] = {}
    for thing in things:
        parts = [getattr(thing, name, None) for name in WITHIN] if isinstance(thing, HOLDERS) else [thing]
        for part in parts:
            function = unwrap(part) if isinstance(part, FunctionType) else part
            if isinstance(function, FunctionType) and (name := name_of(function.__code__)) is not None:
                found.setdefault(name, function)
    return found


def name_of(code: CodeType) -> str | None:
    """``core/scaling/assign.py:assign`` of a function of the package; None for others and generated ones."""
    if not code.co_filename.startswith(HOME) or "<" in code.co_qualname:
        return None
    return f"{code.co_filename.removeprefix(HOME)}:{code.co_qualname}"


def caught_at(frame: FrameType) -> tuple[str, int] | None:
    """The place above *frame* that first meets what it raises: a function of the package, the offset of its handler."""
    above = frame.f_back
    while above is not None:
        code = above.f_code
        if code.co_filename.startswith(HOME):
            for begins, ends, handler in _handlers(code):
                if begins <= above.f_lasti < ends:
                    return code.co_qualname, handler
        above = above.f_back
    return None


@cache
def _handlers(code: CodeType) -> list[tuple[int, int, int]]:
    read: Any = Bytecode(code)
    return [(entry.start, entry.end, entry.target) for entry in read.exception_entries]


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
            # The frame stands for the one that the function would have had: whose it is can be read off its arguments.
            _first, _second = (*args, *kwargs.values(), None, None)[:2]
            raise PlantedError(f"planted into {name}")
        return original(*args, **kwargs)

    key = f"{HOOK}_{abs(hash(name))}"
    setattr(builtins, key, hook)
    before = function.__code__
    function.__code__ = _wrapper(before, key)
    try:
        yield
    finally:
        function.__code__ = before
        delattr(builtins, key)


def _wrapper(code: CodeType, key: str) -> CodeType:
    """Code that hands all arguments to the hook *key*, with the same free variables as *code*."""
    names = ", ".join(code.co_freevars)
    lines = (f"def outer({names}):", " def inner(*args, **kwargs):", f"  ({names},)" if names else "  pass")
    source = "\n".join((*lines, f"  return {key}(args, kwargs)", " return inner"))
    made: dict[str, Any] = {}
    exec(source, made)
    planted_code: CodeType = made["outer"](*code.co_freevars).__code__
    return planted_code.replace(co_filename=code.co_filename)  # a traceback names the file that the bug is in
