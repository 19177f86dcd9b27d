"""Alertmanager's matchers as it writes them into its configuration: ``name="value"`` with =, !=, =~ or !~.

https://prometheus.io/docs/alerting/latest/configuration/#matcher. It prints what it has parsed, so values are quoted
as Go quotes them; what a person wrote (no quotes, several in one text, in braces) is read as well.
"""

import re
from collections.abc import Iterator, Mapping

from receiver.adapters.monitoring.patterns import compiles
from receiver.core.model.silences import Matcher

_ONE = re.compile(
    r"""\s*(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*|"(?:\\.|[^"\\])*"|[^\s=!~,{}"]+)
    \s*(?P<how>=~|!~|!=|=)
    \s*(?P<value>"(?:\\.|[^"\\])*"|[^",}]*?)\s*(?:,|$)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)", re.DOTALL)
_MEANT = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"', "'": "'"}
# What Go's regular expressions have and Python's have not, or read as something else.
_GO_ONLY = re.compile(r"\[:|\\[pPQEzC]|\(\?[a-zA-Z]*U|\(\?P?<[^>]*>|\\x\{")


class Unreadable(ValueError):
    """Matchers that this program cannot evaluate as Alertmanager does."""


def parsed(text: str) -> tuple[Matcher, ...]:
    """Return the matchers in *text*; raise Unreadable where it is none, or Go alone can evaluate it."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    return tuple(_matchers(inner, text))


def _matchers(inner: str, text: str) -> Iterator[Matcher]:
    at = 0
    while at < len(inner):
        found = _ONE.match(inner, at)
        if found is None:
            raise Unreadable(f"the matcher {text!r} is not understood")
        how = found["how"]
        yield matcher(_plain(found["name"]), _plain(found["value"]), regex="~" in how, equal="!" not in how)
        at = found.end()


def matcher(name: str, value: str, *, regex: bool = False, equal: bool = True) -> Matcher:
    """Return one matcher; raise Unreadable for a regular expression that only Go can read."""
    if regex and not _readable(value):
        raise Unreadable(f"the regular expression {value!r} can only be evaluated by Alertmanager")
    return Matcher(name=name, value=value, is_regex=regex, is_equal=equal)


def _readable(pattern: str) -> bool:
    """True when *pattern*, which Go has accepted, means the same in Python."""
    return not _GO_ONLY.search(pattern) and compiles(pattern)


def all_match(matchers: tuple[Matcher, ...], labels: Mapping[str, str]) -> bool:
    """True when *labels* satisfy every one of *matchers*; none at all match everything."""
    return all(one.matches(labels) for one in matchers)


def shown(one: Matcher) -> str:
    """Return a matcher as a person writes it."""
    how = ("=~" if one.is_regex else "=") if one.is_equal else ("!~" if one.is_regex else "!=")
    return f'{one.name}{how}"{one.value}"'


def _plain(text: str) -> str:
    if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
        return text
    return _ESCAPED.sub(_meant, text[1:-1])


def _meant(found: re.Match[str]) -> str:
    said = found[1]
    if said[0] in "xuU" and len(said) > 1:
        return chr(int(said[1:], 16))
    if len(said) == 3:
        return chr(int(said, 8))
    return _MEANT.get(said, found[0])
