"""Selectors of devices: CEL expressions in the environment of Kubernetes' scheduler, each bounded in size and time.

What upstream has and the library lacks is added here: quantities, semantic versions, and an empty map for a domain that
a device does not have (dynamic-resource-allocation/cel of Kubernetes 1.36). An attribute that a device does not have is
an error there, which stops the allocation; here it makes the answer unknown. The library is imported when the first
selector is judged: clusters without claims do not load it.
"""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from time import monotonic
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from receiver.core.model.devices import Attribute, Device

LONGEST = 10 * 1024  # characters (CELSelectorExpressionMaxLength); the library bounds nesting (32) and loops (10,000)
MOST_CHARACTERS = 1_000_000  # of a text: each cel.bind can add its variable to itself
USUAL_ITEMS, MOST_ITEMS = 32, 500  # of a list: a device has at most 32 attributes, an expression writes others
GROWS = re.compile(r"\b(replace|join|format)\b")  # they make long texts of short ones
BUDGET_SECONDS, REFILLED_AFTER_SECONDS = 2.0, 10.0
KEPT_CHARACTERS, KEPT_ANSWERS = 200_000, 20_000  # of compiled expressions, which take 150 times their length
QUANTITY, VERSION = "\x01q", "\x01v"  # in front of texts that stand for values of these types
_LITERAL = re.compile(r'"([^"\\]*)"|\'([^\'\\]*)\'')
_LOOPS = re.compile(r"\b(all|exists|exists_one|map|filter)\b")
_READS_ALL = re.compile(rf"{_LOOPS.pattern}|\bsize\b|\+")  # with them any attribute may matter
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)


class Selectors:
    """The `Judge` of devices. Answers are kept: the same devices are asked about at each step."""

    def __init__(self, seconds: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._programs: dict[str, Any] = {}
        self._characters = 0  # of those
        self._answers: dict[tuple[object, ...], bool | None] = {}
        self._spent, self._since = 0.0, 0.0
        self._environment: Any = None

    def __call__(self, expression: str, device: Device) -> bool | None:
        """Return whether *device* meets *expression*. None: it is not valid CEL for devices, too long, too costly, or
        fails on this device; or judging took too much time just now."""
        read = _read_by(expression, device)
        key = (expression, device.driver, *(tuple(sorted(fields.items())) for fields in read))
        if key in self._answers:
            return self._answers[key]
        began = self._seconds()
        if not 0 <= began - self._since < REFILLED_AFTER_SECONDS:
            self._spent, self._since = 0.0, began
        if self._spent > BUDGET_SECONDS:
            return None
        answer = self._judged(expression, device)
        self._spent += self._seconds() - began
        if len(self._answers) >= KEPT_ANSWERS:
            self._answers.clear()
        self._answers[key] = answer
        return answer

    def _judged(self, expression: str, device: Device) -> bool | None:
        try:
            if expression not in self._programs:
                self._characters += len(expression)
                if self._characters > KEPT_CHARACTERS:
                    self._programs.clear()
                    self._characters = len(expression)
                self._programs[expression] = None if is_too_costly(expression) else self._compiled(expression)
            program = self._programs[expression]
            lists = any(kind == "list" for kind, _ in _read_by(expression, device)[0].values())
            verdict = (
                None
                if program is None or lists
                else program.eval(data={"device": _described(expression, device)}).value()
            )
        except (RuntimeError, ValueError, TypeError, ArithmeticError):  # what the library raises
            return None
        return verdict if isinstance(verdict, bool) else None

    def _compiled(self, expression: str) -> object:
        if self._environment is None:
            self._environment = environment()
        try:
            return self._environment.compile(expression)
        except RuntimeError:  # it is not valid
            return None


def is_too_costly(expression: str) -> bool:
    """True where evaluation may take much memory: a list that a loop makes is copied for each of its items."""
    growth = (1 + expression.count("+")) ** min(expression.count("bind"), 20)
    items = growth * (expression.count(",") + USUAL_ITEMS) if _LOOPS.search(expression) else 0
    long = len(expression) > LONGEST or growth * len(expression) > MOST_CHARACTERS
    return long or items > MOST_ITEMS or GROWS.search(expression) is not None


@lru_cache(maxsize=100)
def _words(expression: str) -> frozenset[str] | None:
    """The words of *expression*; None where it may read an attribute that it does not name."""
    return None if _READS_ALL.search(expression) else frozenset(re.findall(r"\w+", expression))


def _read_by(expression: str, device: Device) -> tuple[Mapping[str, Attribute], Mapping[str, str]]:
    """The attributes and capacities of *device* that *expression* may read: many devices differ only in what it does
    not, such as their UUID. Every word of a name counts: an index may have any text."""
    words = _words(expression)
    if words is None:
        return device.attributes, device.capacity
    return (
        {name: value for name, value in device.attributes.items() if name.rpartition("/")[2] in words},
        {name: value for name, value in device.capacity.items() if name.rpartition("/")[2] in words},
    )


def _described(expression: str, device: Device) -> dict[str, Any]:
    """The variable ``device``, with an empty map for each domain that *expression* may name."""
    domains = {a or b for a, b in _LITERAL.findall(expression)}
    attributes: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    capacity: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    for name, (kind, value) in device.attributes.items():
        domain, _, short = name.rpartition("/")
        if kind != "list":
            attributes.setdefault(domain, {})[short] = version(str(value)) if kind == "version" else value
    for name, amount in device.capacity.items():
        domain, _, short = name.rpartition("/")
        capacity.setdefault(domain, {})[short] = quantity(amount)
    return {
        "driver": device.driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": False,
    }


def quantity(text: str) -> str:
    """Return what stands for the quantity *text*: equal ones are equal. Raises ValueError."""
    return f"{QUANTITY}{parse_quantity(text).normalize():f}"


def version(text: str) -> str:
    """Return what stands for the semantic version *text*. Raises ValueError."""
    if _SEMVER.fullmatch(text) is None:
        raise ValueError(f"{text} is no semantic version")
    return VERSION + text


def _amount(value: str) -> Decimal:
    if not value.startswith(QUANTITY):
        raise ValueError("not a quantity")
    return Decimal(value.removeprefix(QUANTITY))


def _release(value: str) -> tuple[int, int, int]:
    match = _SEMVER.fullmatch(value.removeprefix(VERSION)) if value.startswith(VERSION) else None
    if match is None:
        raise ValueError("not a semantic version")
    return int(match[1]), int(match[2]), int(match[3])


def _order(value: str) -> tuple[Any, ...]:
    """The sort key of a quantity or version; one of the other kind compares with it as an error."""
    if value.startswith(QUANTITY):
        return (_amount(value),)
    release, before = _release(value), _SEMVER.fullmatch(value.removeprefix(VERSION))
    parts = before[4].split(".") if before is not None and before[4] else None
    # A pre-release comes before its release; its numbers come before its words (semver.org, 11).
    pre_release = ((1,),) if parts is None else ((0,), *((0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts))
    return (*release, pre_release)


def compare(first: str, second: str) -> int:
    """Return -1, 0 or 1. Raises ValueError for two values of different types."""
    if first[:2] != second[:2]:
        raise ValueError("two types")
    a, b = _order(first), _order(second)
    return (a > b) - (a < b)


def _holds(check: Callable[[str], str]) -> Callable[[str], bool]:
    def held(text: str) -> bool:
        try:
            check(text)
        except ValueError:
            return False
        return True

    return held


# Name, parameters (all strings), whether it is a method, its result, and what it does.
FUNCTIONS: tuple[tuple[str, int, bool, str, Callable[..., Any]], ...] = (
    ("quantity", 1, False, "STRING", quantity),
    ("isQuantity", 1, False, "BOOL", _holds(quantity)),
    ("semver", 1, False, "STRING", version),
    ("isSemver", 1, False, "BOOL", _holds(version)),
    ("compareTo", 2, True, "INT", compare),
    ("isLessThan", 2, True, "BOOL", lambda a, b: compare(a, b) < 0),
    ("isGreaterThan", 2, True, "BOOL", lambda a, b: compare(a, b) > 0),
    ("major", 1, True, "INT", lambda v: _release(v)[0]),
    ("minor", 1, True, "INT", lambda v: _release(v)[1]),
    ("patch", 1, True, "INT", lambda v: _release(v)[2]),
    ("sign", 1, True, "INT", lambda q: (_amount(q) > 0) - (_amount(q) < 0)),
    ("isInteger", 1, True, "BOOL", lambda q: _amount(q) == _amount(q).to_integral_value()),
    ("asInteger", 1, True, "INT", lambda q: int(_amount(q))),
    ("asApproximateFloat", 1, True, "DOUBLE", lambda q: float(_amount(q))),
    ("add", 2, True, "STRING", lambda a, b: f"{QUANTITY}{(_amount(a) + _amount(b)).normalize():f}"),
    ("sub", 2, True, "STRING", lambda a, b: f"{QUANTITY}{(_amount(a) - _amount(b)).normalize():f}"),
)


def environment() -> object:
    """Return the library's environment of selectors."""
    from cel_expr_python import cel  # 50 MB that most clusters never need
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    types: Mapping[str, Any] = {name: getattr(cel.Type, name) for name in ("STRING", "BOOL", "INT", "DOUBLE")}
    declared = [
        cel.FunctionDecl(
            name,
            [cel.Overload(f"{name}_{n}", types[result], [cel.Type.STRING] * n, is_member=member, impl=does)],
        )
        for name, n, member, result, does in FUNCTIONS
    ]
    extensions = [ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    return cel.NewEnv(variables={"device": cel.Type.DYN}, extensions=extensions, functions=declared)
