"""Plant an exception into one function of the package, at every reference to it, and say whose call it is.

Every module, class, default, closure and table that refers to the function refers to the plant for a while. A call
belongs to a pool or a workload if one of its arguments does, or else an argument of the nearest caller that has one.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from dis import Bytecode
from enum import StrEnum
from functools import cache, cached_property, lru_cache, partial, wraps
from inspect import CO_VARARGS, unwrap
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import receiver

HOME = f"{Path(receiver.__file__).parent}/"
OTHERS = tuple(f"{Path(receiver.__file__).parents[1]}/{folder}/" for folder in ("simulator", "tests"))
CACHED = type(cache(lambda: None))
HOLDERS = (property, classmethod, staticmethod, cached_property, partial, CACHED)
WITHIN = ("fget", "__func__", "func", "__wrapped__")  # where they keep a function
DEEPEST = 4  # how many tables, partials and closures are looked through
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
    found: dict[str, FunctionType] = {}
    for namespace in _namespaces():
        for thing in vars(namespace).values():
            parts = [getattr(thing, name, None) for name in WITHIN] if isinstance(thing, HOLDERS) else [thing]
            for part in parts:
                function = unwrap(part) if isinstance(part, FunctionType) else part
                if isinstance(function, FunctionType) and (name := name_of(function.__code__)) is not None:
                    found.setdefault(name, function)
    return found


def _namespaces() -> Iterator[ModuleType | type]:
    """The modules of the package, and the classes in them."""
    for module in [m for name, m in list(sys.modules.items()) if name.split(".")[0] == "receiver"]:
        yield module
        yield from (thing for thing in vars(module).values() if isinstance(thing, type))


def forget_caches() -> None:
    """Empty every cache of the package's functions: a call that is answered from one enters no function."""
    for cached in _caches(len(sys.modules)):
        cached.cache_clear()


@cache
def _caches(_modules: int) -> list[Any]:
    things = [thing for space in _namespaces() for thing in vars(space).values()]
    inner = [thing.__func__ if isinstance(thing, (classmethod, staticmethod)) else thing for thing in things]
    return [thing for thing in inner if isinstance(thing, CACHED)]


def name_of(code: CodeType) -> str | None:
    """``core/scaling/assign.py:assign`` of a function of the package; None for others and generated ones."""
    if not code.co_filename.startswith(HOME) or "<" in code.co_qualname:
        return None
    return f"{code.co_filename.removeprefix(HOME)}:{code.co_qualname}"


def is_reached(frame: FrameType) -> bool:
    """False where the simulator or a test calls a function by its name, which no plant replaces there."""
    caller = frame.f_back
    return "." in frame.f_code.co_qualname or caller is None or not caller.f_code.co_filename.startswith(OTHERS)


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
    """Where the handlers of *code* begin and end, and their offsets; without those that only clear up, as after each
    comprehension since Python 3.12."""
    read: Any = Bytecode(code)
    begins = {instruction.offset for instruction in read if instruction.opname == "PUSH_EXC_INFO"}
    return [(entry.start, entry.end, entry.target) for entry in read.exception_entries if entry.target in begins]


def whose(frame: FrameType | None, is_bad: Callable[[str], bool | None]) -> Whose:
    """Whose the call of *frame* is: by its arguments, or else by those of the nearest caller that tell."""
    while frame is not None:
        if name_of(frame.f_code) is not None:
            told = whose_arguments(iter(_arguments(frame)), is_bad)
            if told is not Whose.ALL:
                return told
        frame = frame.f_back
    return Whose.ALL


def _arguments(frame: FrameType) -> list[Any]:
    """What the function of *frame* was called with, by the names of its parameters."""
    code = frame.f_code
    named = code.co_argcount + code.co_kwonlyargcount
    values = [frame.f_locals.get(name) for name in code.co_varnames[:named]]
    rest = frame.f_locals.get(code.co_varnames[named], ()) if code.co_flags & CO_VARARGS else ()
    return [*values, *rest]


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

    @wraps(function)
    def plant(*args: Any, **kwargs: Any) -> Any:
        told = whose_arguments(iter((*args, *kwargs.values())), is_bad)
        if told is Whose.ALL:
            told = whose(sys._getframe(1), is_bad)
        if strikes(told):
            raise PlantedError(f"planted into {name_of(function.__code__)}")
        return function(*args, **kwargs)

    with ExitStack() as undo:
        for holder, name in _references(len(sys.modules)).get(function, ()):
            before = _held(holder, name)
            after = _with_plant(before, function, plant, undo)
            if after is not before:
                _bind(holder, name, after, undo)
        yield


def find_references() -> None:
    """Find all references and caches now, once for all processes that are forked later."""
    _references(len(sys.modules))
    _caches(len(sys.modules))


@cache
def _references(_modules: int) -> dict[FunctionType, list[tuple[Any, str]]]:
    """The attributes through which each function is reached: a holder and a name."""
    found: dict[FunctionType, list[tuple[Any, str]]] = {}
    for namespace in dict.fromkeys(_namespaces()):
        for name in list(vars(namespace)):
            for function in set(_functions_in(vars(namespace)[name])):
                found.setdefault(function, []).append((namespace, name))
    for function in list(found):
        for name in ("__defaults__", "__kwdefaults__"):
            for default in set(_functions_in(getattr(function, name))):
                found[default].append((function, name))
    return found


def _functions_in(value: Any, depth: int = 0) -> Iterator[FunctionType]:
    if isinstance(value, FunctionType) and name_of(value.__code__) is not None:
        yield value
    if depth < DEEPEST:
        for part in _parts(value):
            yield from _functions_in(part, depth + 1)


def _parts(value: Any) -> Iterator[Any]:
    """What *value* keeps: the contents of a table, the function in a holder, what a wrapper calls."""
    if isinstance(value, FunctionType) or _is_record(value):
        yield from (_held(holder, name) for holder, name in _attributes(value))
    elif isinstance(value, (*HOLDERS, MethodType)):
        yield from (getattr(value, name, None) for name in WITHIN)
    elif type(value) is dict:
        yield from value.values()
    elif type(value) in (tuple, list, set, frozenset):
        yield from value


def _cells(function: FunctionType) -> list[Any]:
    """The closure of a wrapper, as `contextmanager` makes it."""
    return list(function.__closure__ or ()) if hasattr(function, "__wrapped__") else []


def _attributes(value: Any) -> list[tuple[Any, str]]:
    """The attributes of *value* that can be set to something else for a while."""
    if isinstance(value, FunctionType):
        return [(cell, "cell_contents") for cell in _cells(value)]
    return [(value, field.name) for field in fields(value)] if _is_record(value) else []


def _is_record(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _with_plant(value: Any, function: FunctionType, plant: Any, undo: ExitStack, depth: int = 0) -> Any:
    """*value* with *plant* for *function*: another value, or itself where it can be changed in place until *undo*."""
    if value is function:
        return plant
    if value is plant or depth == DEEPEST:  # a record that two modules name has its plant by then
        return value

    def inside(part: Any) -> Any:
        return _with_plant(part, function, plant, undo, depth + 1)

    for holder, name in (changeable := _attributes(value)):
        part = _held(holder, name)
        if (new := inside(part)) is not part:
            _bind(holder, name, new, undo)
    if changeable:
        return value
    before = list(_parts(value))
    after = [inside(part) for part in before]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return value
    return _made_anew(value, after, inside)


def _made_anew(value: Any, parts: list[Any], inside: Callable[[Any], Any]) -> Any:
    if type(value) is dict:
        return dict(zip(value, parts, strict=True))
    if isinstance(value, property):
        return property(inside(value.fget), value.fset, value.fdel, value.__doc__)
    if isinstance(value, (classmethod, staticmethod)):
        return type(value)(inside(value.__func__))
    if isinstance(value, cached_property):
        made = cached_property(inside(value.func))
        made.__set_name__(None, value.attrname)  # type: ignore[arg-type]
        return made
    if isinstance(value, partial):
        return partial(inside(value.func), *value.args, **value.keywords)
    if isinstance(value, MethodType):
        return MethodType(inside(value.__func__), value.__self__)
    if isinstance(value, CACHED):
        return lru_cache(**value.cache_parameters())(inside(value.__wrapped__))
    return type(value)(parts)


def _held(holder: Any, name: str) -> Any:
    return vars(holder)[name] if isinstance(holder, (ModuleType, type)) else getattr(holder, name)


def _bind(holder: Any, name: str, value: Any, undo: ExitStack) -> None:
    """Let *name* of *holder* be *value* until *undo*."""
    set_it = object.__setattr__ if _is_record(holder) else setattr
    undo.callback(set_it, holder, name, _held(holder, name))
    set_it(holder, name, value)
