"""Checked values, with every mistake at once.

`receiver.config.yaml_text` leaves every scalar as text. Pydantic reads the values; validators for other kinds raise
Wrong.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from itertools import islice
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import durationpy
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from receiver.core.model.overrides import EVERY_POOL
from receiver.core.model.signals import UNASSIGNED

Path = tuple[str | int, ...]


class Wrong(ValueError):
    """A value that cannot be used: the *problem*, the *remedy* as one clause, and the path from the section to it.
    *remedy* is a function where it takes time to find: not every mistake is shown."""

    def __init__(self, problem: str, remedy: str | Callable[[], str] = "", at: Path = ()) -> None:
        super().__init__(problem)
        self.problem, self._remedy, self.at = problem, remedy, at

    @property
    def remedy(self) -> str:
        return self._remedy() if callable(self._remedy) else self._remedy


class Contradictory(ValueError):
    """Fields of one section that are each valid and contradict each other."""

    def __init__(self, contradictions: Sequence[Wrong]) -> None:
        super().__init__("; ".join(wrong.problem for wrong in contradictions))
        self.found = contradictions


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake; *path* is a key such as ``pools[0].max_nodes``, or the name of an environment variable."""

    path: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        sentence = f"{self.path}: {self.problem}" if self.path else self.problem
        return f"{sentence}; {self.remedy}" if self.remedy else sentence


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


def nearest(word: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the most similar word of *candidates*, or None if none is similar."""
    by_lower = {name.lower(): name for name in candidates}
    close = get_close_matches(word.lower(), list(by_lower), n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return the remedy for an unknown *word*: the most similar known one, or all of them."""
    names = list(candidates)
    close = nearest(word, names)
    return f"did you mean {close}?" if close else f"use one of: {', '.join(names)}"


MANY = 12  # names; of more a message names the nearest only
CUTOFF, SURE = 0.4, 0.8  # similarity from which a name is worth reading, and from which it is the one that is meant


def _right_key(word: str, model: type[BaseModel] | None) -> str:
    """Return the remedy for the unknown key *word* in a section *model*: the key that is meant, there or in a section
    below, or all of a few keys."""
    names = list(model.model_fields) if model is not None else []
    if nearest(word, names) or len(names) <= MANY:
        return did_you_mean(word, names)
    below = {path.rpartition(".")[2]: path for path in _keys_below(model)}
    if deeper := nearest(word, below, cutoff=SURE):
        return f"did you mean {below[deeper]}?"
    close = get_close_matches(word.lower(), names, n=3, cutoff=CUTOFF)
    near = f"similar: {', '.join(close)}; " if close else ""
    return f"{near}docs/configuration.md has every key"


def _keys_below(model: type[BaseModel] | None, prefix: str = "") -> Iterator[str]:
    """Yield the keys of the sections in *model*, lists left out: ``limits.max_gpus``."""
    for name, field in model.model_fields.items() if model is not None else ():
        below = None if get_origin(field.annotation) in (tuple, dict) else model_in(field.annotation)
        if below is None:
            yield f"{prefix}{name}"
        yield from _keys_below(below, f"{prefix}{name}.")


@dataclass(frozen=True, slots=True)
class Patterned(BeforeValidator):
    """Reads text. What it takes matches *pattern* and not *reserved*, blanks around it aside; empty is no bound. The
    chart's schema has both, so they are in the syntax that Python shares with Go."""

    pattern: str = ""
    reserved: str = ""


# Largest first, each unit once, whole numbers only: the syntax of Prometheus.
_DURATION = re.compile(r"-?(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?")
_LONGEST = timedelta(days=366)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d\d?)?")  # Helm writes 1234567.25 as 1.23456725e+06
_LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_LABEL_NAME}"
MOST_MISTAKES = 100
AND_MORE = Mistake(path="", problem=f"there are more than {MOST_MISTAKES} mistakes", remedy="correct these first")
LARGEST_DELIVERY = 31 * 1024 * 1024  # with headers still below what all requests may hold (`server.gunicorn_worker`)


class Section(BaseModel):
    """A mapping of the file: unknown keys are mistakes, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def contradictions(self) -> Iterator[Wrong]:
        """Yield contradictions between fields that are each valid."""
        return iter(())

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if contradictions := tuple(islice(self.contradictions(), MOST_MISTAKES)):
            raise Contradictory(contradictions)
        return self


def text(value: object) -> str:
    """Return *value* without surrounding white space; raise Wrong if it is empty or not a scalar."""
    if not isinstance(value, str):
        raise not_one_value(value)
    if not value.strip():
        raise Wrong("is empty", "give it a value or remove the key")
    return value.strip()


def not_one_value(value: object) -> Wrong:
    return Wrong(f"must be one value, not a {'mapping' if isinstance(value, dict) else 'list'}", "write one value")


def duration(value: object) -> timedelta:
    """Return a duration in Prometheus syntax, which may be negative; raise Wrong."""
    literal = text(value)
    if re.fullmatch(r"[1-9]\d*", literal):
        raise Wrong(f'"{literal}" has no unit', f"write {literal}s for seconds or {literal}m for minutes")
    if literal == "0":
        return timedelta(0)
    if not _DURATION.fullmatch(literal) or literal == "-":
        remedy = "write whole numbers with units, largest first, such as 30s, 5m, 1h30m or 1d"
        raise Wrong(f'"{literal}" is not a duration', remedy)
    try:
        length: timedelta = durationpy.from_str(literal)
    except (OverflowError, durationpy.DurationError):
        length = timedelta.max
    if abs(length) > _LONGEST:
        raise Wrong(f'"{literal}" is longer than a year', "write a shorter duration")
    return length


def spell_duration(length: timedelta) -> str:
    """Return *length* (not negative) as `duration` reads it: ``1s500ms``, where durationpy alone writes ``1.5s``."""
    seconds, fraction = divmod(length, timedelta(seconds=1))
    whole = str(durationpy.to_str(timedelta(seconds=seconds))) if seconds else ""
    return whole + (f"{fraction // timedelta(milliseconds=1)}ms" if fraction else "") or "0s"


def _lasting(least: timedelta, most: timedelta = _LONGEST) -> BeforeValidator:
    def check(value: object) -> timedelta:
        length = duration(value)
        if length < least:
            remedy = f"write at least {spell_duration(max(least, timedelta(seconds=bool(least))))}"
            raise Wrong(f'"{value}" is too short', remedy)
        if length > most:
            raise Wrong(f'"{value}" is too long', f"write at most {spell_duration(most)}")
        return length

    return BeforeValidator(check)


def _decimal(value: object) -> Decimal:
    literal = text(value)
    if not _NUMBER.fullmatch(literal):
        raise Wrong(f'"{literal}" is not a number', "write digits and a point, such as 0.70 or 1250.50")
    return Decimal(f"{Decimal(literal):f}")  # 1000000, not 1E+6: amounts are shown as they are here


def _ratio(value: object) -> Decimal:
    literal = text(value)
    percent, number = literal.endswith("%"), _decimal(literal.removesuffix("%").strip() or "%")
    if 1 < number <= 100 or (percent and 0 < number <= 100):
        raise Wrong(f'"{literal}" is a percentage and this is a ratio', f"write {number / 100:.2f}")
    if not 0 < number <= 1:
        raise Wrong(f'"{literal}" is out of range', "write a ratio above 0 and up to 1, such as 0.70")
    return number


def _day(value: object) -> date:
    literal = text(value)
    try:
        return date.fromisoformat(literal)
    except ValueError as error:
        raise Wrong(f'"{literal}" is not a day', "write it as 2026-08-22") from error


_zones = cache(available_timezones)  # it searches the disk


def _zone(value: object) -> str:
    zone, zones = text(value), _zones()
    if zone not in zones:
        raise Wrong(f'"{zone}" is not a time zone', lambda: _other_zone(zone))
    return zone


def _other_zone(zone: str) -> str:
    if re.search(r"[+-]\d", zone):  # the nearest name would be another offset, and Etc/GMT-1 is an hour ahead
        return "write a place such as Europe/London, or Etc/GMT-1 for UTC+1 without summer time"
    best = did_you_mean(zone, sorted(_zones())) if len(zone) > 3 else ""
    return best if best.startswith("did") else "write a name of the IANA database such as UTC or Europe/London"


def address(value: object, example: str = "http://prometheus.monitoring:9090") -> str:
    """Return an http or https URL without a final slash; raise Wrong without it: it may hold a password."""
    url = text(value)
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits or re.search(r"\s", url):
        raise Wrong("is not an http or https URL", f"write it whole, such as {example}")
    return url.rstrip("/")


def public_address(value: object) -> str:
    """Return a URL that messages show and to which a path can be added; raise Wrong."""
    url, remedy = address(value, "https://gpu.example.com"), "write it whole, such as https://gpu.example.com"
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise Wrong("contains a user or password, and messages show this URL to everyone", remedy)
    if "?" in url or "#" in url:
        raise Wrong("has a query or a fragment, and paths are added to this URL", remedy)
    return url


def _pool_name(value: object) -> str:
    name = text(value)
    if name == UNASSIGNED:
        raise Wrong(f'"{name}" is reserved: alerts use it for demand without a pool', "choose another name")
    if name == EVERY_POOL:
        raise Wrong(f'"{name}" is reserved: overrides use it for all pools', "choose another name")
    return name


def matching(pattern: str, kind: str, remedy: str, empty: bool = False) -> Patterned:
    whole = re.compile(pattern)

    def check(value: object) -> str:
        literal = "" if empty and value == "" else text(value)
        if not whole.fullmatch(literal):
            raise Wrong(f'"{literal}" is not {kind}', remedy)
        return literal

    return Patterned(check, pattern=pattern)


def at_most(most: int) -> BeforeValidator:
    """Refuse a list of more than *most* entries before these are looked at."""

    def check(value: object) -> object:
        if isinstance(value, list) and len(value) > most:
            raise Wrong(f"has {len(value):,} entries", f"write at most {most}")
        return value

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
Priority = Annotated[int, Field(ge=-(2**31), le=10**9)]  # a PriorityClass' value without the system's
Units = Annotated[int, Field(ge=1, lt=10**9)]
DeliveryBytes = Annotated[int, Field(ge=1, le=LARGEST_DELIVERY)]
Day = Annotated[date, BeforeValidator(_day)]
Month = Annotated[str, matching(r"20\d\d-(0[1-9]|1[0-2])", "a month", "write year and month, such as 2026-11")]
Zone = Annotated[str, BeforeValidator(_zone)]
Address = Annotated[str, Patterned(address, pattern=r"(?i:https?)://[^\s/?#]\S*")]
PublicAddress = Annotated[str, Patterned(public_address, pattern=r"(?i:https?)://[^\s/?#@]+(/[^\s?#]*)?")]
Text = Annotated[str, BeforeValidator(text)]
_NAMES = "write up to 63 letters, digits, dots, dashes or underscores"
_OBJECTS = "write lower-case letters, digits, dashes and dots, such as ml-batch"
_GPUS = "use nvidia.com/gpu, nvidia.com/gpu.shared or nvidia.com/mig-... only; cpu and memory are not counted"
_TAINTS = "write a domain with a slash (readiness.k8s.io/) or a whole key"
PoolName = Annotated[
    str,
    matching(_LABEL_NAME, "a name", f"{_NAMES}, such as l40s"),
    Patterned(_pool_name, reserved=f"{UNASSIGNED}|{EVERY_POOL}"),
]
Identifier = Annotated[str, matching(r"[\w.:-]+", "one word", "copy it as Civo shows it, without spaces or quotes")]
_OBJECT = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
ObjectName = Annotated[str, matching(_OBJECT, "a Kubernetes name", _OBJECTS)]
_COVERED = "write namespace/NAME, namespace/* or priorityclass/NAME"
NamespaceOrClass = Annotated[
    str, matching(rf"namespace/(\*|{_OBJECT})|priorityclass/{_OBJECT}", "a namespace or a priority class", _COVERED)
]
GpuResource = Annotated[
    str, matching(r"nvidia\.com/(gpu(\.shared)?|mig-[0-9a-z.+]+(\.shared)?)", "a GPU resource", _GPUS)
]
LabelKey = Annotated[str, matching(_LABEL_KEY, "a label key", "write it as Kubernetes does, such as example.com/team")]
TaintPrefix = Annotated[str, matching(f"{_LABEL_KEY}/?", "the beginning of a taint key", _TAINTS)]
LabelValue = Annotated[str, matching(f"({_LABEL_NAME})?", "a label value", _NAMES, empty=True)]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

Model = TypeVar("Model", bound=BaseModel)
Document = dict[str, Any]  # mappings, lists and text

_MAPPING = ("must be a mapping", "write its keys below it, each as key: value")
_LIST = ("must be a list", "write each entry on a line of its own that starts with a dash")
_CONTAINERS = {"model_type": _MAPPING, "model_attributes_type": _MAPPING, "dict_type": _MAPPING, "tuple_type": _LIST}
_SCALAR_WORDS = {
    "int_parsing": ('"{said}" is not a whole number', "write digits only, such as 8"),
    "int_parsing_size": ('"{said}" is too large', "write a smaller number"),
    "bool_parsing": ('"{said}" is neither true nor false', "write true or false"),
}
_BOUNDS = {  # pydantic's name of the bound, the problem, and the remedy
    "greater_than_equal": ("ge", "low", "write {} or more"),
    "less_than": ("lt", "high", "write less than {}"),
    "less_than_equal": ("le", "high", "write at most {}"),
}


def validated(kind: type[Model], document: Document, mistakes: list[Mistake]) -> tuple[Model | None, list[Mistake]]:
    """Return *document* as a *kind*, None if that is impossible, and every mistake in it beside *mistakes*.

    A section compares its keys once each of them is right. So what is wrong is taken out, or replaced by a value that
    contradicts nothing, and the rest is read again, until nothing new can be compared.
    """
    noted = {mistake.path for mistake in mistakes}  # a key without a value is not reported as missing too
    replaced: list[Path] = []
    while True:
        try:
            model = kind.model_validate(document)
            return None if replaced else model, mistakes
        except ValidationError as error:
            details = error.errors(include_url=False)
        wrongs = [((*_path(detail), *wrong.at), wrong) for detail in details for wrong in _words(detail, kind)]
        for path, wrong in wrongs:
            where = spell(path)
            if where in noted or any(_follows(path, wrong, from_path) for from_path in replaced):
                continue
            if len(mistakes) >= MOST_MISTAKES:
                return None, [*mistakes, AND_MORE]
            mistakes.append(Mistake(path=where, problem=wrong.problem, remedy=wrong.remedy))
        noted = {mistake.path for mistake in mistakes}
        document = document if replaced else deepcopy(document)
        taken = sorted({_optional(path, replaced) for path, _ in wrongs}, key=len, reverse=True)  # keys, then sections
        if not all(_replace(document, path, kind) for path in taken):
            return None, mistakes
        replaced += taken


def _optional(path: Path, replaced: Sequence[Path]) -> Path:
    """Return what is taken out where *path* is wrong: the key, or of a list of a pool or a section the whole list, as
    its entries are compared with each other; the section of a key that has been *replaced* already."""
    first = 2 if path[:1] == ("pools",) else 0
    index = next((index for index, part in enumerate(path) if index >= first and isinstance(part, int)), len(path))
    while path[:index] in replaced:
        index -= 1
    return path[:index]


def _replace(document: Document, path: Path, kind: type[BaseModel]) -> bool:
    """Take the key at *path* out of *document*, or put its neutral example there; return whether that is possible."""
    if not path or not isinstance(path[-1], str):
        return False
    section: Any = document
    for part in path[:-1]:
        section = section.get(part) if isinstance(section, dict) else section[part] if isinstance(part, int) else None
    model = _model_at(kind, path[:-1])
    field = model.model_fields.get(path[-1]) if model is not None else None
    if not isinstance(section, dict) or (field is None and path[-1] not in section):
        return False
    section.pop(path[-1], None)
    if field is not None and field.is_required():
        neutral = (field.examples or [])[1:]
        if not neutral:
            return False
        section[path[-1]] = neutral[0]
    return True


def _follows(path: Path, wrong: Wrong, replaced: Path) -> bool:
    """Return whether *wrong* at *path* may be due to the value that stands for *replaced*: it is about the section that
    holds it, or it names that key, in the same pool or outside of pools."""
    *above, key = replaced
    if path == replaced[: len(path)]:
        return True
    apart = above[:1] == ["pools"] and list(path[: len(above)]) != above[: len(path)]
    return not apart and bool(re.search(rf"\b{re.escape(str(key))}\b", f"{spell(path)} {wrong.problem} {wrong.remedy}"))


def parse(kind: object, value: str) -> Any:
    """Return *value* as one of the kinds of `receiver.config.values`; raise Wrong."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        wrong = next(_words(error.errors(include_url=False)[0]))
    raise wrong  # out here: chained to pydantic's error, which holds it too, neither would ever leave the memory


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _path(detail: ErrorDetails) -> Path:
    """Return where *detail* is; pydantic marks a mapping's key with a final ``[key]``."""
    loc = detail["loc"]
    return loc[:-1] if loc and loc[-1] == "[key]" else loc


def _words(detail: ErrorDetails, kind: type[BaseModel] | None = None) -> Iterator[Wrong]:
    """Yield *detail*, an error of pydantic, in plain words; *kind* is the model of the whole document."""
    value, context, sort = detail["input"], detail.get("ctx", {}), detail["type"]
    reason, path = context.get("error"), _path(detail)
    if isinstance(reason, Contradictory):
        yield from reason.found
    elif isinstance(reason, Wrong):
        yield reason
    elif sort == "missing":  # the example beside the field says what to add
        model, key = _model_at(kind, path[:-1]), str(path[-1])
        examples = model.model_fields[key].examples if model else None
        yield Wrong("is missing", f"add {examples[0] if examples else key}")
    elif sort == "extra_forbidden":
        model = _model_at(kind, path[:-1])
        yield Wrong("unknown key", _right_key(str(path[-1]), model))
    elif sort in _CONTAINERS:
        yield Wrong(*_CONTAINERS[sort])
    elif isinstance(value, dict | list):
        yield not_one_value(value)
    elif value == "":
        yield Wrong("is empty", "give it a value or remove the key")
    elif sort in ("enum", "literal_error"):
        words = re.findall(r"'([^']+)'", context["expected"])
        close = nearest(value, words)
        remedy = f"did you mean {close}?" if close else "write one of them"
        yield Wrong(f'must be {" or ".join(words)}, not "{value}"', remedy)
    elif sort in _BOUNDS:
        bound, size, remedy = _BOUNDS[sort]
        yield Wrong(f'"{value}" is too {size}', remedy.format(context[bound]))
    else:
        problem, remedy = _SCALAR_WORDS.get(sort, (detail["msg"].lower(), "correct it"))
        yield Wrong(problem.format(said=value), remedy)


def _model_at(kind: type[BaseModel] | None, path: Iterable[str | int]) -> type[BaseModel] | None:
    for key in path:
        if isinstance(key, str) and kind is not None and key in kind.model_fields:
            kind = model_in(kind.model_fields[key].annotation)
    return kind


def model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model that *annotation* holds, possibly inside a tuple, a mapping or an optional; else None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (model_in(part) for part in get_args(annotation))
    return next((model for model in models if model is not None), None)
