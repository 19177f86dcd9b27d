"""One thing that needs a person's attention: what it is, what is done about it, what is waited for, what to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

NAMED = 3


class Level(StrEnum):
    """How bad it is; also the name of its look."""

    BAD = "bad"  # something does not work, or work waits that nothing will serve
    WARN = "warn"  # it may become bad, or is somebody's mistake
    NOTE = "note"  # as somebody asked for

    @property
    def rank(self) -> int:
        """Its place: the worst first."""
        return list(Level).index(self)

    @property
    def word(self) -> str:
        """What is said in front of it, so that its colour is not its only sign."""
        return {"bad": "Wrong", "warn": "Look at", "note": "Note"}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """*what* is a sentence behind the names of *pools* (id and name), if there are any; *kind* names its cause.

    *doing* says what is done about it, *until* what is waited for, *todo* what a person can do, *guide* where that is
    explained (a path below ``docs/``), *page* which of our pages has more, *decision* the one that says so.
    """

    kind: str
    level: Level
    what: str
    doing: str = ""
    until: str = ""
    todo: str = ""
    guide: str = ""
    page: str = ""
    pools: tuple[tuple[str, str], ...] = ()
    decision: int | None = None
    question: str | None = None


def names_of(given: Sequence[str]) -> str:
    """Return the first few of *given*, and how many more there are."""
    more = f" and {len(given) - NAMED} more" if len(given) > NAMED else ""
    return f"{', '.join(given[:NAMED])}{more}"
