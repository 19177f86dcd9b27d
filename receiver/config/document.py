"""YAML text to a model, with every mistake at once.

The loader leaves every scalar as text, because YAML 1.1 (https://yaml.org/spec/1.1/) reads ``20:00`` as 1200, ``on`` as
true and ``0123`` as 83. Pydantic reads the values and finds the mistakes; this module words them.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from receiver.config.values import (
    ConfigError,
    Contradictory,
    Mistake,
    Path,
    Wrong,
    did_you_mean,
    nearest,
    not_one_value,
    spell,
)

Model = TypeVar("Model", bound=BaseModel)
Document = dict[str, Any]  # mappings, lists and text

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
    try:
        return kind.model_validate(document), mistakes
    except ValidationError as error:
        noted = {mistake.path for mistake in mistakes}  # a key without a value is not reported as missing too
        for detail in error.errors(include_url=False):
            path = _path(detail)
            for wrong in _words(detail, kind):
                where = spell((*path, *wrong.at))
                if where not in noted:
                    mistakes.append(Mistake(path=where, problem=wrong.problem, remedy=wrong.remedy))
        return None, mistakes


def parse(kind: Any, value: str) -> Any:
    """Return *value* as one of the kinds of `receiver.config.values`; raise Wrong."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise next(_words(error.errors(include_url=False)[0])) from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read(text: str) -> tuple[Document, list[Mistake]]:
    """Return the document in *text* and the mistakes that leave the rest of it readable.

    Raises ConfigError when there is no document: invalid YAML, an empty file, something else than a mapping.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError([_broken(error)]) from error
    except RecursionError:
        mistake = Mistake(path="", problem="the file is not YAML: brackets are nested too deep", remedy="close them")
        raise ConfigError([mistake]) from None
    if node is None:
        raise ConfigError([Mistake(path="", problem="the file is empty", remedy="list at least one pool under pools")])
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(
            [Mistake(path="", problem="the file is not a mapping", remedy="start it with keys such as pools:")]
        )
    reader = _Reader()
    return reader.mapping(node, ()), reader.mistakes


def _broken(error: yaml.YAMLError) -> Mistake:
    problem = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    remedy = "indent with spaces, not tabs" if "'\\t'" in problem else "check indentation, colons and quotes there"
    return Mistake(path="", problem=f"the file is not YAML: {problem}{where}", remedy=remedy)


class _Reader:
    """Turns YAML nodes into dicts, lists and text, and collects mistakes on the way."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._above: list[yaml.Node] = []  # an alias may point at a node that contains it

    def mapping(self, node: yaml.MappingNode, path: Path) -> Document:
        own: Document = {}
        merged: Document = {}
        lines: dict[str, int] = {}
        self._above.append(node)
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == _MERGE:
                merged |= self._merged(value_node, path)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._note(path, f"line {line} has a key that is not a word", "write keys as plain text")
                continue
            key = key_node.value
            if key in lines:
                where = f"lines {lines[key]} and {line}" if lines[key] != line else f"line {line}"
                self._note((*path, key), f"is given twice ({where})", "keep one of them")
                continue
            lines[key] = line
            value = self._value(value_node, (*path, key))
            if value is not None:
                own[key] = value
        self._above.pop()
        return merged | own

    def _merged(self, node: yaml.Node, path: Path) -> Document:
        """Return the mapping behind ``<<``, or the union of a list of them, in which earlier ones win."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: Document = {}
        for source in reversed(sources):
            if isinstance(source, yaml.MappingNode) and source not in self._above:
                found |= self.mapping(source, path)
            else:
                self._note((*path, "<<"), "must name a mapping", "point it at an anchor of a mapping")
        return found

    def _value(self, node: yaml.Node, path: Path) -> Any:
        """Return the value of *node*, or None after noting a mistake."""
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

    def _note(self, path: Path, problem: str, remedy: str) -> None:
        self.mistakes.append(Mistake(path=spell(path), problem=problem, remedy=remedy))


def _path(detail: ErrorDetails) -> Path:
    """Return where *detail* is; pydantic marks a mapping's key with a final ``[key]``."""
    loc = detail["loc"]
    return loc[:-1] if loc and loc[-1] == "[key]" else loc


def _words(detail: ErrorDetails, kind: type[BaseModel] | None = None) -> Iterator[Wrong]:
    """Yield *detail*, an error of pydantic, in plain words; *kind* is the model of the whole document."""
    said, context, sort = detail["input"], detail.get("ctx", {}), detail["type"]
    reason, path = context.get("error"), _path(detail)
    if isinstance(reason, Contradictory):
        yield from reason.found
    elif isinstance(reason, Wrong):
        yield reason
    elif sort == "missing":
        yield Wrong("is missing", f"add {_example(kind, path)}")
    elif sort == "extra_forbidden":
        yield Wrong("unknown key", did_you_mean(str(path[-1]), _keys_at(kind, path[:-1])))
    elif sort in _CONTAINERS:
        yield Wrong(*_CONTAINERS[sort])
    elif isinstance(said, dict | list):
        yield not_one_value(said)
    elif said == "":
        yield Wrong("is empty", "give it a value or remove the key")
    elif sort in ("enum", "literal_error"):
        words = re.findall(r"'([^']+)'", context["expected"])
        close = nearest(said, words)
        remedy = f"did you mean {close}?" if close else "write one of them"
        yield Wrong(f'must be {" or ".join(words)}, not "{said}"', remedy)
    elif sort in _BOUNDS:
        bound, size, remedy = _BOUNDS[sort]
        yield Wrong(f'"{said}" is too {size}', remedy.format(context[bound]))
    else:
        problem, remedy = _SCALAR_WORDS.get(sort, (detail["msg"].lower(), "correct it"))
        yield Wrong(problem.format(said=said), remedy)


def _model_at(kind: type[BaseModel] | None, path: Iterable[str | int]) -> type[BaseModel] | None:
    """Return the model of the mapping at *path* below *kind*."""
    for key in path:
        if isinstance(key, str) and kind is not None and key in kind.model_fields:
            kind = model_in(kind.model_fields[key].annotation)
    return kind


def _keys_at(kind: type[BaseModel] | None, path: Path) -> list[str]:
    model = _model_at(kind, path)
    return list(model.model_fields) if model else []


def _example(kind: type[BaseModel] | None, path: Path) -> str:
    """Return what to add for a required key: the example beside its field."""
    model = _model_at(kind, path[:-1])
    examples = model.model_fields[str(path[-1])].examples if model else None
    return str(examples[0]) if examples else str(path[-1])


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that *annotation* holds, possibly inside a tuple, a mapping or an optional; else None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (model_in(part) for part in get_args(annotation))
    return next((model for model in found if model is not None), None)
