"""What happened in worlds, counted."""

from collections import Counter
from dataclasses import dataclass, field


class ViolationError(AssertionError):
    """An invariant does not hold in this world."""


@dataclass(slots=True)
class Tally:
    """What happened in one world, or in many. *lines* are those at which the process died."""

    worlds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    lines: set[str] = field(default_factory=set)

    def add(self, other: "Tally") -> None:
        """Take in what happened elsewhere."""
        self.worlds += other.worlds
        self.counts.update(other.counts)
        self.lines |= other.lines
