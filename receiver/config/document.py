"""YAML as plain text: every scalar stays as it was written, so 1.79 is never a float and 20:00 never a number.

YAML 1.1 (https://yaml.org/spec/1.1/) would read ``20:00`` as 1200, ``on`` as true and ``0123`` as 83. Each field
reads its own text instead, and can say what it expected.
"""

from typing import Any

import yaml

from receiver.config.mistakes import ConfigError, Mistake, Path, spell

_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_SCALARS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "bool", "int", "float", "timestamp", "value")}

Document = dict[str, Any]  # mappings, lists and text


def read(text: str) -> tuple[Document, list[Mistake]]:
    """Return the document in *text* and the mistakes that do not keep the rest from being read.

    Raises ConfigError when there is no document: broken YAML, an empty file, something else than a mapping.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError([_broken(error)]) from error
    except RecursionError:
        mistake = Mistake(path="", problem="the file is not YAML: brackets without end", remedy="close them")
        raise ConfigError([mistake]) from None
    if node is None:
        raise ConfigError([Mistake(path="", problem="the file is empty", remedy="name at least one pool under pools")])
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
    """Turns nodes into dicts, lists and text, and collects what is wrong on the way."""

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
                self._say(path, f"line {line} has a key that is not a word", "write keys as plain text")
                continue
            key = key_node.value
            if key in lines:
                where = f"lines {lines[key]} and {line}" if lines[key] != line else f"line {line}"
                problem = f"is given twice ({where})"
                self._say((*path, key), problem, "keep one of them")
                continue
            lines[key] = line
            value = self._value(value_node, (*path, key))
            if value is not None:
                own[key] = value
        self._above.pop()
        return merged | own

    def _merged(self, node: yaml.Node, path: Path) -> Document:
        """What ``<<`` brings in: one mapping, or a list of them in which earlier ones win."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: Document = {}
        for source in reversed(sources):
            if isinstance(source, yaml.MappingNode) and source not in self._above:
                found |= self.mapping(source, path)
            else:
                self._say((*path, "<<"), "must name a mapping", "point it at an anchor of a mapping")
        return found

    def _value(self, node: yaml.Node, path: Path) -> Any:
        """The value of *node*, or None after a mistake was noted."""
        if node in self._above:
            self._say(path, "contains itself", "remove the alias")
            return None
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            self._above.append(node)
            items = [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
            self._above.pop()
            return items
        if node.tag == _NULL:
            self._say(path, "has no value", "give it one or remove the key")
            return None
        if node.tag not in _SCALARS:
            self._say(path, f"has the unknown tag {node.tag}", "write the value as plain text")
            return None
        return node.value

    def _say(self, path: Path, problem: str, remedy: str) -> None:
        self.mistakes.append(Mistake(path=spell(path), problem=problem, remedy=remedy))
