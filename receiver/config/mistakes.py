"""What is wrong with a configuration, said so that the next edit is obvious."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import Annotated, Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

import durationpy
from pydantic import BeforeValidator

from receiver.core.model.overrides import EVERY_POOL
from receiver.core.model.signals import UNASSIGNED

Path = tuple[str | int, ...]


class Wrong(ValueError):
    """A value that cannot be meant: the *problem*, and the *remedy* in one clause. Field readers raise it."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake, *path* where (``pools[0].max_nodes``, or the name of an environment variable)."""

    path: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        said = f"{self.path}: {self.problem}" if self.path else self.problem
        return f"{said}; {self.remedy}" if self.remedy else said


class ConfigError(ValueError):
    """A configuration that cannot be used. str() lists every mistake, one a line; *mistakes* has them as values."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes: Sequence[Mistake] = tuple(dict.fromkeys(mistakes))
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


def spell(path: Path) -> str:
    """Return *path* as people write it: ``pools[0].resources[nvidia.com/gpu]``."""
    text = ""
    for part in path:
        if isinstance(part, int) or not re.fullmatch(r"[\w-]+", part):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the word of *known* that *word* was probably meant to be, or None."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(by_lower), n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown *word*: the nearest known one, or all of them."""
    names = list(known)
    close = nearest(word, names)
    return f"did you mean {close}?" if close else f"known here: {', '.join(names)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A contradiction at *path* that involves the fields in *over* too."""

    path: Path
    problem: str
    remedy: str
    over: tuple[Path, ...] = ()

    def mistake(self) -> Mistake:
        return Mistake(path=spell(self.path), problem=self.problem, remedy=self.remedy)


# Largest first, each unit once, whole numbers only: what Prometheus itself takes.
_DURATION = re.compile(r"(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?")
_LONGEST = timedelta(days=366)
_LONGEST_TICK = timedelta(minutes=5)
_TRILLION = Decimal(10**12)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_LABEL_NAME}")
_LABEL_VALUE = re.compile(rf"({_LABEL_NAME})?")
_POOL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_GPU_RESOURCE = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-[0-9a-z.+]+(\.shared)?)")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def text(value: Any, wanted: str) -> str:
    """Return *value* if it is text and not empty; raise Wrong naming what was *wanted*."""
    if isinstance(value, dict | list):
        raise Wrong(f"must be {wanted}, not a {'mapping' if isinstance(value, dict) else 'list'}", "write one value")
    if not isinstance(value, str) or not value.strip():
        raise Wrong(f"must be {wanted}, and is empty", "give it a value or remove the key")
    return value.strip()


def duration(value: Any) -> timedelta:
    """Return a duration of 0 or more as Prometheus writes it; raise Wrong."""
    said = text(value, "a duration")
    if re.fullmatch(r"[1-9]\d*", said):
        raise Wrong(f'"{said}" has no unit', f"write {said}s for seconds or {said}m for minutes")
    if said.startswith("-"):
        raise Wrong(f'"{said}" is negative', "write 0s or more")
    if not _DURATION.fullmatch(said) and said != "0":
        raise Wrong(
            f'"{said}" is not a duration', "write whole numbers with units, largest first, such as 30s, 5m, 1h30m or 1d"
        )
    try:
        length = timedelta(0) if said == "0" else durationpy.from_str(said)
    except (OverflowError, durationpy.DurationError):
        length = timedelta.max
    if length > _LONGEST:
        raise Wrong(f'"{said}" is longer than a year', "write a shorter duration")
    assert isinstance(length, timedelta)
    return length


def longer_than_zero(value: Any) -> timedelta:
    """Return a duration above 0; raise Wrong."""
    length = _at_least_a_second(value)
    if not length:
        raise Wrong("must be longer than 0", "write at least 1s")
    return length


def period(value: Any) -> timedelta:
    """Return a duration of at least a second, for things that are done again and again; raise Wrong."""
    length = _at_least_a_second(value)
    if length < timedelta(seconds=1):
        raise Wrong(f'"{value}" is too often', "write at least 1s")
    return length


def tick(value: Any) -> timedelta:
    """Return how often the loop looks: at least a second and at most five minutes; raise Wrong.

    Steps further apart than `receiver.core.model.memory.IN_A_ROW` would never be sure of the clock.
    """
    length = period(value)
    if length > _LONGEST_TICK:
        raise Wrong(f'"{value}" is too seldom', "write at most 5m; a webhook wakes it at once in any case")
    return length


def _at_least_a_second(value: Any) -> timedelta:
    """Return a duration, where 0 is no remedy for a negative one; raise Wrong."""
    if isinstance(value, str) and value.strip().startswith("-"):
        raise Wrong(f'"{value.strip()}" is negative', "write at least 1s")
    return duration(value)


def ratio(value: Any) -> Decimal:
    """Return a ratio above 0 and up to 1; raise Wrong, with the ratio meant for a percentage."""
    said = text(value, "a ratio from 0 to 1")
    percent = said.endswith("%")
    number = _decimal(said.removesuffix("%").strip(), f'"{said}" is not a ratio', "write a number such as 0.70")
    if 1 < number <= 100 or (percent and 0 < number <= 100):
        raise Wrong(f'"{said}" is a percentage and this is a ratio', f"write {number / 100:.2f}")
    if not 0 < number <= 1:
        raise Wrong(f'"{said}" is out of range', "write a ratio above 0 and up to 1, such as 0.70")
    return number


def celsius(value: Any) -> int:
    """Return a temperature that a GPU may have, in whole degrees Celsius; raise Wrong."""
    degrees = whole(value)
    if not 30 <= degrees <= 120:
        raise Wrong(f'"{degrees}" is out of range', "write degrees Celsius from 30 to 120, such as 85")
    return degrees


def money(value: Any) -> Decimal:
    """Return an exact amount of USD, 0 or more and below a trillion; raise Wrong."""
    said = text(value, "an amount of USD")
    amount = _decimal(said, f'"{said}" is not an amount of USD', "write digits and a point, such as 1250.50")
    if amount < 0:
        raise Wrong(f'"{said}" is negative', "write 0 or more; 0 buys nothing")
    if amount >= _TRILLION:  # beyond 28 digits no cent can be told any more
        raise Wrong("is a trillion USD or more", "write what may be spent")
    return amount


def month(value: Any) -> str:
    """Return a calendar month such as 2026-11; raise Wrong."""
    said = text(value, "a month")
    if not re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", said):
        raise Wrong(f'"{said}" is not a month', "write year and month, such as 2026-11")
    return said


def _decimal(said: str, problem: str, remedy: str) -> Decimal:
    if not _NUMBER.fullmatch(said):
        raise Wrong(problem, remedy)
    try:
        return Decimal(said)
    except InvalidOperation as error:
        raise Wrong(problem, remedy) from error


def whole(value: Any) -> int:
    """Return a whole number, 0 or more; raise Wrong."""
    said = text(value, "a whole number")
    if re.fullmatch(r"-\d+", said):
        raise Wrong(f'"{said}" is negative', "write 0 or more")
    if not re.fullmatch(r"\d{1,9}", said):
        raise Wrong(f'"{said}" is not a whole number', "write digits only, such as 8")
    return int(said)


def units(value: Any) -> int:
    """Return a whole number of 1 or more; raise Wrong."""
    number = whole(value)
    if number < 1:
        raise Wrong("must be at least 1", "raise it or leave the key out")
    return number


def flag(value: Any) -> bool:
    """Return true or false as YAML 1.1 writes them; raise Wrong."""
    said = text(value, "true or false").lower()
    known = dict.fromkeys(("true", "yes", "on"), True) | dict.fromkeys(("false", "no", "off"), False)
    if said not in known:
        raise Wrong(f'"{said}" is neither true nor false', "write true or false")
    return known[said]


def zone(value: Any) -> str:
    """Return the name of a time zone that this machine knows; raise Wrong."""
    said = text(value, "a time zone")
    known = _zones()
    if said not in known:
        best = did_you_mean(said, sorted(known)) if len(said) > 3 else ""
        remedy = best if best.startswith("did") else "write a name of the IANA database such as UTC or Europe/London"
        raise Wrong(f'"{said}" is not a time zone', remedy)
    return ZoneInfo(said).key


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())  # it searches the disk on every call


def address(value: Any) -> str:
    """Return an http or https URL without a slash at its end; raise Wrong. It may hold a password: never repeated."""
    said = text(value, "a URL")
    try:
        parts = urlsplit(said)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits or re.search(r"\s", said):
        raise Wrong("is not an http or https URL", "write it whole, such as http://prometheus.monitoring:9090")
    return said.rstrip("/")


def pool_name(value: Any) -> str:
    """Return what people call a pool: a word that can be a metric label and part of a path; raise Wrong."""
    said = text(value, "a name")
    if said == UNASSIGNED:
        raise Wrong(f'"{said}" is what alerts call demand of no pool', "choose another name")
    if said == EVERY_POOL:
        raise Wrong(f'"{said}" is what overrides call every pool', "choose another name")
    if not _POOL_NAME.fullmatch(said):
        raise Wrong(
            f'"{said}" is not a name', "write up to 63 letters, digits, dots, dashes or underscores, such as l40s"
        )
    return said


def identifier(value: Any) -> str:
    """Return an id or size as Civo writes it: one word; raise Wrong."""
    said = text(value, "one word")
    if not re.fullmatch(r"[\w.:-]+", said):
        raise Wrong(f'"{said}" is not one word', "copy it as Civo shows it, without spaces or quotes")
    return said


def object_name(value: Any) -> str:
    """Return the name of a Kubernetes object or namespace (DNS label or subdomain); raise Wrong."""
    said = text(value, "a name")
    if not _OBJECT_NAME.fullmatch(said):
        raise Wrong(
            f'"{said}" is no name of Kubernetes', "write small letters, digits, dashes and dots, such as ml-batch"
        )
    return said


def gpu_resource(value: Any) -> str:
    """Return the name of a GPU resource as NVIDIA's device plugin offers it; raise Wrong."""
    said = text(value, "a resource name")
    if not _GPU_RESOURCE.fullmatch(said):
        raise Wrong(
            "is not a GPU resource",
            "name nvidia.com/gpu, nvidia.com/gpu.shared or nvidia.com/mig-... only; cpu and memory are not counted",
        )
    return said


def label_key(value: Any) -> str:
    """Return the key of a Kubernetes label or taint; raise Wrong."""
    said = text(value, "a label key")
    if not _LABEL_KEY.fullmatch(said):
        raise Wrong(f'"{said}" is not a label key', "write it as Kubernetes does, such as gpu or example.com/team")
    return said


def taint_prefix(value: Any) -> str:
    """Return what keys of taints begin with, such as ``readiness.k8s.io/`` or a whole key; raise Wrong."""
    said = text(value, "the beginning of a taint's key")
    if not _LABEL_KEY.fullmatch(said.removesuffix("/")):
        raise Wrong(
            f'"{said}" is not the beginning of a taint key', "write a domain with a slash (readiness.k8s.io/) or a key"
        )
    return said


def label_value(value: Any) -> str:
    """Return the value of a Kubernetes label or taint, which may be empty; raise Wrong."""
    said = "" if value == "" else text(value, "a label value")
    if not _LABEL_VALUE.fullmatch(said):
        raise Wrong(f'"{said}" is not a label value', "write up to 63 letters, digits, dots, dashes or underscores")
    return said


def taint_effect(value: Any) -> str:
    """Return a taint's effect; raise Wrong."""
    said = text(value, "a taint's effect")
    if said not in _EFFECTS:
        raise Wrong(f'"{said}" is not a taint effect', did_you_mean(said, _EFFECTS))
    return said


def one_of(kind: type[StrEnum]) -> Callable[[Any], StrEnum]:
    """Return a reader of the words of *kind*."""
    words = [member.value for member in kind]

    def read(value: Any) -> StrEnum:
        said = text(value, " or ".join(words))
        if said not in words:
            raise Wrong(f'must be {" or ".join(words)}, not "{said}"', did_you_mean(said, words))
        return kind(said)

    return read


Duration = Annotated[timedelta, BeforeValidator(duration)]
LongerThanZero = Annotated[timedelta, BeforeValidator(longer_than_zero)]
Tick = Annotated[timedelta, BeforeValidator(tick)]
Period = Annotated[timedelta, BeforeValidator(period)]
Ratio = Annotated[Decimal, BeforeValidator(ratio)]
Celsius = Annotated[int, BeforeValidator(celsius)]
Money = Annotated[Decimal, BeforeValidator(money)]
Month = Annotated[str, BeforeValidator(month)]
Whole = Annotated[int, BeforeValidator(whole)]
Units = Annotated[int, BeforeValidator(units)]
Flag = Annotated[bool, BeforeValidator(flag)]
Zone = Annotated[str, BeforeValidator(zone)]
Address = Annotated[str, BeforeValidator(address)]
PoolName = Annotated[str, BeforeValidator(pool_name)]
Identifier = Annotated[str, BeforeValidator(identifier)]
ObjectName = Annotated[str, BeforeValidator(object_name)]
GpuResource = Annotated[str, BeforeValidator(gpu_resource)]
LabelKey = Annotated[str, BeforeValidator(label_key)]
TaintPrefix = Annotated[str, BeforeValidator(taint_prefix)]
LabelValue = Annotated[str, BeforeValidator(label_value)]
TaintEffect = Annotated[str, BeforeValidator(taint_effect)]
Text = Annotated[str, BeforeValidator(lambda value: text(value, "text"))]
