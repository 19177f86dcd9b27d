"""From YAML text to checked values, with every mistake at once.

The loader leaves every scalar as text, because YAML 1.1 (https://yaml.org/spec/1.1/) reads ``20:00`` as 1200, ``on`` as
true and ``0123`` as 83. Pydantic reads the values; validators for other kinds raise Wrong.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from itertools import islice
from typing import Annotated, Any, Literal, Self, TypeVar, get_args
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import durationpy
import yaml
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
CUTOFF = 0.4  # similarity from which a name is worth reading


def _right_key(word: str, keys: Iterable[str]) -> str:
    """Return the remedy for the unknown key *word*: the key that is meant, or the nearest of many *keys*."""
    names = list(keys)
    if nearest(word, names) or len(names) <= MANY:
        return did_you_mean(word, names)
    close = get_close_matches(word.lower(), names, n=3, cutoff=CUTOFF)
    near = f"similar: {', '.join(close)}; " if close else ""
    return f"{near}docs/configuration.md has every key"


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
# Of a file, aliases resolved: a few lines of them can stand for billions of values, and each mistake repeats a value.
MOST_VALUES, MOST_CHARACTERS = 20_000, 1_000_000
LONGEST_KEY, DEEPEST = 1_024, 50  # characters, each mistake below it repeats them; levels
TOO_MANY = f"holds more than {MOST_VALUES} values"
TOO_DEEP = f"is nested more than {DEEPEST} levels deep"
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
ObjectName = Annotated[str, matching(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", "a Kubernetes name", _OBJECTS)]
GpuResource = Annotated[
    str, matching(r"nvidia\.com/(gpu(\.shared)?|mig-[0-9a-z.+]+(\.shared)?)", "a GPU resource", _GPUS)
]
LabelKey = Annotated[str, matching(_LABEL_KEY, "a label key", "write it as Kubernetes does, such as example.com/team")]
TaintPrefix = Annotated[str, matching(f"{_LABEL_KEY}/?", "the beginning of a taint key", _TAINTS)]
LabelValue = Annotated[str, matching(f"({_LABEL_NAME})?", "a label value", _NAMES, empty=True)]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

Model = TypeVar("Model", bound=BaseModel)
Document = dict[str, Any]  # mappings, lists and text

# libyaml's takes a tenth of the time; a PyYAML that was built without it lacks it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_SCALARS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "bool", "int", "float", "timestamp", "value")}
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


def load(kind: type[Model], content: str) -> tuple[Model | None, list[Mistake]]:
    """Return *content* (YAML) as a *kind*, None if that is impossible, and every mistake in it."""
    try:
        document, mistakes = read(content)
    except ConfigError as error:
        return None, list(error.mistakes)
    return validated(kind, document, mistakes)


def validated(kind: type[Model], document: Document, mistakes: list[Mistake]) -> tuple[Model | None, list[Mistake]]:
    """Return *document* as a *kind*, None if that is impossible, and every mistake in it beside *mistakes*."""
    try:
        return kind.model_validate(document), mistakes
    except ValidationError as error:
        noted = {mistake.path for mistake in mistakes}  # a key without a value is not reported as missing too
        errors = ((detail, wrong) for detail in error.errors(include_url=False) for wrong in _words(detail, kind))
        for detail, wrong in errors:
            where = spell((*_path(detail), *wrong.at))
            if where not in noted:
                if len(mistakes) >= MOST_MISTAKES:
                    return None, [*mistakes, AND_MORE]
                mistakes.append(Mistake(path=where, problem=wrong.problem, remedy=wrong.remedy))
        return None, mistakes


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


def read(text: str) -> tuple[Document, list[Mistake]]:
    """Return the document in *text* and the mistakes that leave the rest of it readable.

    Raises ConfigError when there is no document: invalid YAML, an empty file, something else than a mapping.
    """
    try:
        _require_few_levels(text)
        node = yaml.compose(text, Loader=_LOADER)
        problem, remedy = "is empty", "list at least one pool under pools"
    except yaml.YAMLError as error:
        node, reason, mark = None, getattr(error, "problem", None) or str(error), getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem, remedy = f"is not YAML: {reason}{where}", "check indentation, colons and quotes there"
        if mark and "".join(text.split("\n")[mark.line : mark.line + 1])[mark.column : mark.column + 1] == "\t":
            remedy = "indent with spaces, not tabs"
    if isinstance(node, yaml.MappingNode):
        reader = _Reader()
        return reader.mapping(node, ()), reader.mistakes
    if node is not None:
        problem, remedy = "is not a mapping", "start it with keys such as pools:"
    raise ConfigError([Mistake(path="", problem=f"the file {problem}", remedy=remedy)])


def _require_few_levels(text: str) -> None:
    """Raise ConfigError for a document of more values or levels than any configuration, before it is composed: libyaml
    composes by recursion, and thousands of levels end the process."""
    nodes = levels = 0
    for event in yaml.parse(text, Loader=_LOADER):
        nodes += isinstance(event, yaml.NodeEvent)
        levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if levels > DEEPEST + 1:
            raise _too_large(TOO_DEEP)
        if nodes > 2 * MOST_VALUES + 1:  # a value has a key at most
            raise _too_large(TOO_MANY)


def _too_large(problem: str) -> ConfigError:
    return ConfigError([Mistake(path="", problem=f"the file {problem}", remedy="use fewer aliases and levels")])


class _Reader:
    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._above: list[yaml.Node] = []  # an alias may point at a node that contains it
        self._values = self._characters = 0

    def mapping(self, node: yaml.MappingNode, path: Path) -> Document:
        self._count(node)
        own: Document = {}
        merged: Document = {}
        lines: dict[str, int] = {}
        self._above.append(node)
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            self._count(key_node, key=True)
            if key_node.tag == _MERGE:
                # One mapping, or a list of them in which earlier ones win.
                sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for source in reversed(sources):
                    if isinstance(source, yaml.MappingNode) and source not in self._above:
                        merged |= self.mapping(source, path)
                    else:
                        self._note((*path, "<<"), "must name a mapping", "point it at an anchor of a mapping")
            elif not isinstance(key_node, yaml.ScalarNode):
                self._note(path, f"line {line} has a key that is not a word", "write keys as plain text")
            elif (key := key_node.value) in lines:
                where = f"lines {lines[key]} and {line}" if lines[key] != line else f"line {line}"
                self._note((*path, key), f"is given twice ({where})", "keep one of them")
            else:
                lines[key] = line
                value = self._value(value_node, (*path, key))
                if value is not None:
                    own[key] = value
        self._above.pop()
        return merged | own

    def _value(self, node: yaml.Node, path: Path) -> object:
        self._count(node)
        if node in self._above:
            self._note(path, "contains itself", "remove the alias")
        elif isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            self._above.append(node)
            items = [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
            self._above.pop()
            return items
        elif node.tag == _NULL:
            self._note(path, "has no value", "give it one or remove the key")
        elif node.tag not in _SCALARS:
            self._note(path, f"has the unknown tag {node.tag}", "write the value as plain text")
        else:
            return node.value
        return None

    def _count(self, node: yaml.Node, *, key: bool = False) -> None:
        """Raise ConfigError for a document that is larger than any configuration."""
        length = len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        self._values, self._characters = self._values + (not key), self._characters + length
        limits = {
            TOO_MANY: self._values > MOST_VALUES,
            f"holds more than {MOST_CHARACTERS} characters": self._characters > MOST_CHARACTERS,
            f"has a key of more than {LONGEST_KEY} characters": key and length > LONGEST_KEY,
            TOO_DEEP: len(self._above) > DEEPEST,
        }
        for problem in (problem for problem, exceeded in limits.items() if exceeded):
            raise _too_large(problem)

    def _note(self, path: Path, problem: str, remedy: str) -> None:
        if len(self.mistakes) >= MOST_MISTAKES:
            raise ConfigError([*self.mistakes, AND_MORE])
        self.mistakes.append(Mistake(path=spell(path), problem=problem, remedy=remedy))


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
        yield Wrong("unknown key", _right_key(str(path[-1]), model.model_fields if model else ()))
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
