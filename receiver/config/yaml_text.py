"""From YAML text to a document of mappings, lists and text, with every mistake at once.

Every scalar stays text, because YAML 1.1 (https://yaml.org/spec/1.1/) reads ``20:00`` as 1200, ``on`` as true and
``0123`` as 83.
"""

from typing import Any

import yaml

from receiver.config.values import (
    AND_MORE,
    MOST_MISTAKES,
    ConfigError,
    Document,
    Mistake,
    Model,
    Path,
    spell,
    validated,
)

# Of a file, aliases resolved: a few lines of them can stand for billions of values, and each mistake repeats a value.
MOST_VALUES, MOST_CHARACTERS = 20_000, 1_000_000
LONGEST_KEY, DEEPEST = 1_024, 50  # characters, each mistake below it repeats them; levels
TOO_MANY = f"holds more than {MOST_VALUES} values"
TOO_DEEP = f"is nested more than {DEEPEST} levels deep"

# libyaml's takes a tenth of the time; a PyYAML that was built without it lacks it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_SCALARS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "bool", "int", "float", "timestamp", "value")}


def load(kind: type[Model], content: str) -> tuple[Model | None, list[Mistake]]:
    """Return *content* (YAML) as a *kind*, None if that is impossible, and every mistake in it."""
    try:
        document, mistakes = read(content)
    except ConfigError as error:
        return None, list(error.mistakes)
    return validated(kind, document, mistakes)


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
