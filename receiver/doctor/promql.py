"""Whether two PromQL expressions are the same but for how they are written.

Prometheus prints an expression anew from what it parsed, others return the text of the file. A tokenizer, no parser:
white space, comments, quotes, numbers and durations are made alike, matchers are put in order, and a comma before a
closing bracket is dropped. An aggregation with its `by` behind the brackets is another expression here; the rules that
we ship have it before.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    |(?P<duration>(?:\d+(?:ms|[smhdwy]))+)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<sign>=~|!~|!=|==|<=|>=|.)""",
    re.VERBOSE | re.DOTALL,
)
_PART = re.compile(r"(\d+)(ms|[smhdwy])")
_MILLISECONDS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    "y": 31_536_000_000,
}
_ESCAPED = re.compile(r'\\([abfnrtv\\"\'])')
_MEANT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def normalized(expression: str) -> tuple[str, ...]:
    """Return the tokens of *expression* in one spelling; equal for expressions that mean the same to the letter."""
    found: list[str] = []
    braces = 0  # where the matchers began
    for piece in _tokens(expression):
        if piece in (")", "}") and found[-1:] == [","]:
            found.pop()
        if piece == "{":
            braces = len(found) + 1
        elif piece == "}":
            found[braces:] = _in_order(found[braces:])
        found.append(piece)
    return tuple(found)


def _in_order(matchers: list[str]) -> list[str]:
    """Matchers sorted; each is a name, an operator and a string, with a comma between."""
    said = sorted(tuple(matchers[at : at + 3]) for at in range(0, len(matchers), 4))
    return [piece for place, matcher in enumerate(said) for piece in ((",", *matcher) if place else matcher)]


def milliseconds(duration: str) -> int:
    """Return what *duration* (``1h30m``, ``15d``, ``0s``) is; 0 for what is none."""
    return sum(int(count) * _MILLISECONDS[unit] for count, unit in _PART.findall(duration))


def _tokens(expression: str) -> Iterator[str]:
    for match in _TOKEN.finditer(expression):
        kind, text = str(match.lastgroup), match[0]
        if kind == "string":
            yield "'" + _meant(text)
        elif kind == "duration":
            yield f"{milliseconds(text)}ms"
        elif kind == "number":
            yield repr(float(int(text, 16))) if text[:2].lower() == "0x" else repr(float(text))
        elif kind != "space":
            yield text


def _meant(quoted: str) -> str:
    inner = quoted[1:-1]
    if quoted[0] == "`":
        return inner
    return _ESCAPED.sub(lambda m: _MEANT.get(m[1], m[1]), inner)


def longest_range(expressions: Iterable[str]) -> timedelta:
    """Return the longest duration in square brackets of any of *expressions*."""
    ranges = (found for expression in expressions for found in re.findall(r"\[([^\]:]+)", expression))
    return timedelta(milliseconds=max(map(milliseconds, ranges), default=0))
