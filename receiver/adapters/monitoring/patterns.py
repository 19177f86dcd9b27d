"""Regular expressions that other people write: only those are evaluated that Python is done with in a moment.

Alertmanager's engine (RE2) takes as long as the text is. Python's tries one way after another, and of
``(a|a|a|a)*!`` there are more than it can try in a year, in which no other thread runs. Many Alertmanagers let
everybody in the cluster write a silence.
"""

import re
from collections.abc import Iterator

LONGEST = 1000  # characters of a pattern; people write a few dozen
MOST_WAYS = 300_000  # some milliseconds
REPEATED = 65  # ways of one repetition, such as .*, in a pool's id or name
MANY = MOST_WAYS + 1
_PARTS = re.compile(
    r"""(?P<class>\[\^?\]?(?:[^\]\\]|\\.)*\])      # any of some characters, which may be a bracket at their head
    |(?P<flags>\(\?[ims]+\))
    |(?P<open>\((?:\?(?:[ims]*:|P<\w+>)|(?!\?)))   # a group; no other (?...) is evaluated
    |(?P<close>\))|(?P<or>\|)
    |(?P<maybe>\?)|(?P<repeat>[*+]|\{[^}]*\})
    |(?P<one>\\[^0-9]|[^()\\\[\]{}])               # no back reference""",
    re.VERBOSE | re.DOTALL,
)


def evaluable(pattern: str) -> bool:
    """True when Python understands *pattern* and is done with it in a moment, whatever a pool is called."""
    return len(pattern) <= LONGEST and _ways(pattern) <= MOST_WAYS and _compiles(pattern)


def _compiles(pattern: str) -> bool:
    """True when Python takes *pattern*."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _ways(pattern: str) -> int:
    """In how many ways *pattern* may be tried on a text, at most; MANY where a repetition repeats what varies.

    A sequence multiplies those of its parts, alternatives add them up.
    """
    before: list[tuple[int, int]] = []  # of the groups around: ways of earlier alternatives, and of this one so far
    earlier, so_far, last = 0, 1, 1  # the same here; *last* are those of the last part, which are in *so_far*
    for kind in _kinds(pattern):
        match kind:
            case "open":
                before.append((earlier, so_far))
                earlier, so_far, last = 0, 1, 1
            case "close" if before:
                last = earlier + so_far
                earlier, around = before.pop()
                so_far = around * last
            case "or":
                earlier, so_far, last = earlier + so_far, 1, 1
            case "maybe":
                so_far, last = so_far // last * (last + 1), last + 1
            case "repeat" if last == 1:
                so_far, last = so_far * REPEATED, REPEATED
            case "one" | "class" | "flags":
                last = 1
            case _:  # a repetition of what varies, a bracket too many, something that is none of these
                return MANY
        if so_far > MOST_WAYS:
            return MANY
    return MANY if before else earlier + so_far


def _kinds(pattern: str) -> Iterator[str]:
    """What *pattern* is made of, part by part; an empty word for what is none."""
    at = 0
    while at < len(pattern):
        found = _PARTS.match(pattern, at)
        if found is None:
            yield ""
            return
        yield str(found.lastgroup)
        at = found.end()
