"""Which metrics a PromQL expression reads, by name, and which queries the templates of an alert send.

A tokenizer, no parser: enough to tell a metric from a function, a keyword, a label, a string and a duration. A matcher
of ``__name__`` counts as every name that it can match; of one that can match without end, those that are known.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from re import _constants as sre  # type: ignore[attr-defined, unused-ignore]
from re import _parser  # type: ignore[attr-defined, unused-ignore]
from typing import Any, NamedTuple

TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+(?:ms|[smhdwy]))+|\d*\.?\d+(?:[eE][+-]?\d+)?)
    |(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<sign>=~|!~|!=|==|<=|>=|.)""",
    re.VERBOSE | re.DOTALL,
)
LABELS_FOLLOW = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
WORDS = frozenset({"and", "or", "unless", "bool", "offset", "atan2", "inf", "nan", "start", "end"})


class Token(NamedTuple):
    """A piece of an expression; *kind* is a group of TOKEN."""

    kind: str
    text: str


def metrics_in(expr: str, known: Collection[str] = ()) -> set[str]:
    """Return the names of the metrics and recordings that *expr* reads.

    Raises ValueError for a pattern of names that matches without end and matches none of the *known* ones.
    """
    tokens = [Token(str(m.lastgroup), m[0]) for m in TOKEN.finditer(expr) if m.lastgroup != "space"]
    found: set[str] = set()
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        after = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if text == "{":
            closing = _closing(tokens, at, "}")
            found |= _named(tokens[at + 1 : closing], known)
            at = closing
        elif text == "[":
            at = _closing(tokens, at, "]")  # of a subquery the colon and what follows would look like a name
        elif kind == "word" and text.lower() in LABELS_FOLLOW:
            if after == "(":
                at = _closing(tokens, at + 1, ")")
        elif kind == "word" and after != "(" and after.lower() not in LABELS_FOLLOW and text.lower() not in WORDS:
            found.add(text)
        at += 1
    return found


def _closing(tokens: Sequence[Token], at: int, sign: str) -> int:
    for place in range(at + 1, len(tokens)):
        if tokens[place] == Token("sign", sign):
            return place
    raise ValueError(f"nothing closes {tokens[at].text!r}")


def _named(matchers: Sequence[Token], known: Collection[str]) -> set[str]:
    """The names that a matcher of ``__name__`` inside braces can match."""
    found: set[str] = set()
    for name, how, value in zip(matchers, matchers[1:], matchers[2:], strict=False):
        if name.text == "__name__" and how.text in ("=", "=~"):
            text = value.text[1:-1]
            found |= {text} if how.text == "=" else _matched(text, known)
    return found


def _matched(pattern: str, known: Collection[str]) -> set[str]:
    try:
        return set(every_match(pattern))
    except ValueError:
        if found := {name for name in known if re.fullmatch(pattern, name)}:
            return found
        raise


def every_match(pattern: str) -> Iterator[str]:
    """Yield every text that the regular expression *pattern* matches as a whole. ValueError when they have no end."""
    yield from _texts(list(_parser.parse(pattern)))


def _texts(items: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    if not items:
        yield ""
        return
    (what, value), rest = items[0], items[1:]
    if what is sre.LITERAL:
        heads = [chr(value)]
    elif what is sre.BRANCH:
        heads = [text for option in value[1] for text in _texts(list(option))]
    elif what is sre.SUBPATTERN:
        heads = list(_texts(list(value[-1])))
    elif what is sre.IN and all(kind is sre.LITERAL for kind, _ in value):
        heads = [chr(code) for _, code in value]
    elif what is sre.MAX_REPEAT and value[1] is not sre.MAXREPEAT and value[1] <= 1:
        heads = ([""] if value[0] == 0 else []) + list(_texts(list(value[2])))
    else:
        raise ValueError(f"{what} in a pattern of names matches too much to be listed")
    for tail in _texts(rest):
        yield from (head + tail for head in heads)


def queries_of(template: str) -> Iterator[str]:
    """Yield the expressions that a template of Prometheus sends with ``query``; ``%q`` is a string without text."""
    for action in re.findall(r"\{\{(.*?)\}\}", template, re.DOTALL):
        if re.search(r"\bquery\b", action):
            strings = re.findall(r'"((?:\\.|[^"\\])*)"', action)
            if strings:
                yield re.sub(r"%[qsdfv]", '""', strings[0].replace(r"\"", '"'))
