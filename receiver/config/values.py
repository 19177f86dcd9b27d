"""The kinds of values in the configuration file.

The loader leaves every scalar as text (`receiver.config.document`). Pydantic reads numbers, flags and words; what it
has no type for is read here. Validators raise Wrong; `document` words pydantic's own errors.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import durationpy
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from receiver.core.model.overrides import EVERY_POOL
from receiver.core.model.signals import UNASSIGNED

Path = tuple[str | int, ...]


class Wrong(ValueError):
    """A value that cannot be used: the *problem*, and the *remedy* as one clause.

    *at* is the path from the section that raises it to the key, empty for a field's own validator.
    """

    def __init__(self, problem: str, remedy: str = "", at: Path = ()) -> None:
        super().__init__(problem)
        self.problem, self.remedy, self.at = problem, remedy, at


class Contradictory(ValueError):
    """Fields of one section that are each valid and contradict each other."""

    def __init__(self, found: Sequence[Wrong]) -> None:
        super().__init__("; ".join(wrong.problem for wrong in found))
        self.found = found


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake; *path* is a key such as ``pools[0].max_nodes``, or the name of an environment variable."""

    path: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        said = f"{self.path}: {self.problem}" if self.path else self.problem
        return f"{said}; {self.remedy}" if self.remedy else said


class ConfigError(ValueError):
    """An unusable configuration. str() lists every mistake, one a line; *mistakes* has them as values."""

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
    """Return the most similar word of *known*, or None if none is similar."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(by_lower), n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown *word*: the most similar known one, or all of them."""
    names = list(known)
    close = nearest(word, names)
    return f"did you mean {close}?" if close else f"use one of: {', '.join(names)}"


# Largest first, each unit once, whole numbers only: the syntax of Prometheus.
_DURATION = re.compile(r"-?(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?")
_LONGEST = timedelta(days=366)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_LABEL_NAME}"
LARGEST_DELIVERY = 31 * 1024 * 1024  # with headers still below what all requests may hold (`server.gunicorn_worker`)


class Section(BaseModel):
    """A mapping of the file: unknown keys are mistakes, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def contradictions(self) -> Iterator[Wrong]:
        """Yield contradictions between fields that are each valid."""
        return iter(())

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if found := tuple(self.contradictions()):
            raise Contradictory(found)
        return self


def text(value: Any) -> str:
    """Return *value* without surrounding white space; raise Wrong if it is empty or not a scalar."""
    if not isinstance(value, str):
        raise not_one_value(value)
    if not value.strip():
        raise Wrong("is empty", "give it a value or remove the key")
    return value.strip()


def not_one_value(value: Any) -> Wrong:
    """Return the mistake of a list or mapping in place of a scalar."""
    return Wrong(f"must be one value, not a {'mapping' if isinstance(value, dict) else 'list'}", "write one value")


def duration(value: Any) -> timedelta:
    """Return a duration in Prometheus syntax, which may be negative; raise Wrong."""
    said = text(value)
    if re.fullmatch(r"[1-9]\d*", said):
        raise Wrong(f'"{said}" has no unit', f"write {said}s for seconds or {said}m for minutes")
    if said == "0":
        return timedelta(0)
    if not _DURATION.fullmatch(said) or said == "-":
        raise Wrong(
            f'"{said}" is not a duration', "write whole numbers with units, largest first, such as 30s, 5m, 1h30m or 1d"
        )
    try:
        length: timedelta = durationpy.from_str(said)
    except (OverflowError, durationpy.DurationError):
        length = timedelta.max
    if abs(length) > _LONGEST:
        raise Wrong(f'"{said}" is longer than a year', "write a shorter duration")
    return length


def spell_duration(length: timedelta) -> str:
    """Return *length* in Prometheus syntax."""
    return str(durationpy.to_str(length)) if length else "0s"


def _lasting(least: timedelta, most: timedelta = _LONGEST) -> BeforeValidator:
    """Return a validator of durations between the two bounds."""

    def check(value: Any) -> timedelta:
        length = duration(value)
        if length < least:
            remedy = f"write at least {spell_duration(max(least, timedelta(seconds=bool(least))))}"
            raise Wrong(f'"{value}" is too short', remedy)
        if length > most:
            raise Wrong(f'"{value}" is too long', f"write at most {spell_duration(most)}")
        return length

    return BeforeValidator(check)


def _decimal(value: Any) -> Decimal:
    said = text(value)
    if not _NUMBER.fullmatch(said):
        raise Wrong(f'"{said}" is not a number', "write digits and a point, such as 0.70 or 1250.50")
    return Decimal(said)


def _ratio(value: Any) -> Decimal:
    """Return a ratio above 0 and up to 1; raise Wrong, with the ratio that a percentage stands for."""
    said = text(value)
    percent, number = said.endswith("%"), _decimal(said.removesuffix("%").strip() or "%")
    if 1 < number <= 100 or (percent and 0 < number <= 100):
        raise Wrong(f'"{said}" is a percentage and this is a ratio', f"write {number / 100:.2f}")
    if not 0 < number <= 1:
        raise Wrong(f'"{said}" is out of range', "write a ratio above 0 and up to 1, such as 0.70")
    return number


def _day(value: Any) -> date:
    said = text(value)
    try:
        return date.fromisoformat(said)
    except ValueError as error:
        raise Wrong(f'"{said}" is not a day', "write it as 2026-08-22") from error


def _zone(value: Any) -> str:
    said = text(value)
    if said not in _zones():
        best = did_you_mean(said, sorted(_zones())) if len(said) > 3 else ""
        remedy = best if best.startswith("did") else "write a name of the IANA database such as UTC or Europe/London"
        raise Wrong(f'"{said}" is not a time zone', remedy)
    return said


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())  # searches the disk on every call


def address(value: Any, example: str = "http://prometheus.monitoring:9090") -> str:
    """Return an http or https URL without a final slash; raise Wrong without it: it may hold a password."""
    said = text(value)
    try:
        parts = urlsplit(said)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits or re.search(r"\s", said):
        raise Wrong("is not an http or https URL", f"write it whole, such as {example}")
    return said.rstrip("/")


def public_address(value: Any) -> str:
    """Return a URL that messages show and to which a path can be added; raise Wrong."""
    said, remedy = address(value, "https://gpu.example.com"), "write it whole, such as https://gpu.example.com"
    parts = urlsplit(said)
    if parts.username is not None or parts.password is not None:
        raise Wrong("contains a user or password, and messages show this URL to everyone", remedy)
    if "?" in said or "#" in said:
        raise Wrong("has a query or a fragment, and paths are added to this URL", remedy)
    return said


def _pool_name(value: Any) -> str:
    said = text(value)
    if said == UNASSIGNED:
        raise Wrong(f'"{said}" is how alerts name demand without a pool', "choose another name")
    if said == EVERY_POOL:
        raise Wrong(f'"{said}" is how overrides name all pools', "choose another name")
    return said


def _matching(pattern: str, kind: str, remedy: str, empty: bool = False) -> BeforeValidator:
    """Return a validator of text that matches *pattern* as a whole and is called *kind*."""
    whole = re.compile(pattern)

    def check(value: Any) -> str:
        said = "" if empty and value == "" else text(value)
        if not whole.fullmatch(said):
            raise Wrong(f'"{said}" is not {kind}', remedy)
        return said

    return BeforeValidator(check)


Duration = Annotated[timedelta, _lasting(timedelta(0))]
LongerThanZero = Annotated[timedelta, _lasting(timedelta(milliseconds=1))]
Period = Annotated[timedelta, _lasting(timedelta(seconds=1))]
# Steps further apart than `core.model.memory.IN_A_ROW` would never trust the clock.
Tick = Annotated[timedelta, _lasting(timedelta(seconds=1), timedelta(minutes=5))]
# The alert GpuAutoscalerNoticesStuck fires for a message that has waited a quarter of an hour.
Spacing = Annotated[timedelta, _lasting(timedelta(milliseconds=1), timedelta(minutes=10))]
Ratio = Annotated[Decimal, BeforeValidator(_ratio)]
# Below a trillion, every cent fits the 28 digits that Decimal calculates with.
Money = Annotated[Decimal, BeforeValidator(_decimal), Field(ge=0, lt=10**12)]
Celsius = Annotated[int, Field(ge=30, le=120)]
Whole = Annotated[int, Field(ge=0, lt=10**9)]
Units = Annotated[int, Field(ge=1, lt=10**9)]
DeliveryBytes = Annotated[int, Field(ge=1, le=LARGEST_DELIVERY)]
Day = Annotated[date, BeforeValidator(_day)]
Month = Annotated[str, _matching(r"20\d\d-(0[1-9]|1[0-2])", "a month", "write year and month, such as 2026-11")]
Zone = Annotated[str, BeforeValidator(_zone)]
Address = Annotated[str, BeforeValidator(address)]
PublicAddress = Annotated[str, BeforeValidator(public_address)]
Text = Annotated[str, BeforeValidator(text)]
PoolName = Annotated[
    str,
    _matching(_LABEL_NAME, "a name", "write up to 63 letters, digits, dots, dashes or underscores, such as l40s"),
    BeforeValidator(_pool_name),
]
Identifier = Annotated[str, _matching(r"[\w.:-]+", "one word", "copy it as Civo shows it, without spaces or quotes")]
ObjectName = Annotated[
    str,
    _matching(
        r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?",
        "a Kubernetes name",
        "write lower-case letters, digits, dashes and dots, such as ml-batch",
    ),
]
GpuResource = Annotated[
    str,
    _matching(
        r"nvidia\.com/(gpu(\.shared)?|mig-[0-9a-z.+]+(\.shared)?)",
        "a GPU resource",
        "use nvidia.com/gpu, nvidia.com/gpu.shared or nvidia.com/mig-... only; cpu and memory are not counted",
    ),
]
LabelKey = Annotated[str, _matching(_LABEL_KEY, "a label key", "write it as Kubernetes does, such as example.com/team")]
TaintPrefix = Annotated[
    str,
    _matching(
        f"{_LABEL_KEY}/?",
        "the beginning of a taint key",
        "write a domain with a slash (readiness.k8s.io/) or a whole key",
    ),
]
LabelValue = Annotated[
    str,
    _matching(
        f"({_LABEL_NAME})?", "a label value", "write up to 63 letters, digits, dots, dashes or underscores", empty=True
    ),
]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
