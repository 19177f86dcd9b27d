"""Mistakes in a configuration: where, what is wrong, and the edit that fixes it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

Path = tuple[str | int, ...]


class Wrong(ValueError):
    """A value that cannot be used: the *problem*, and the *remedy* as one clause.

    *at* is the path from the section that raises it to the key, empty for a field's own validator.
    """

    def __init__(self, problem: str, remedy: str = "", at: Path = ()) -> None:
        super().__init__(problem)
        self.problem, self.remedy, self.at = problem, remedy, at


class Contradictory(ValueError):
    """Fields of one section that are each valid and contradict each other."""

    def __init__(self, found: Sequence[Wrong]) -> None:
        super().__init__("; ".join(wrong.problem for wrong in found))
        self.found = found


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake; *path* is a key such as ``pools[0].max_nodes``, or the name of an environment variable."""

    path: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        said = f"{self.path}: {self.problem}" if self.path else self.problem
        return f"{said}; {self.remedy}" if self.remedy else said


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


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the most similar word of *known*, or None if none is similar."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(by_lower), n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown *word*: the most similar known one, or all of them."""
    names = list(known)
    close = nearest(word, names)
    return f"did you mean {close}?" if close else f"use one of: {', '.join(names)}"
