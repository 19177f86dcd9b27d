"""How many nodes existed at once, and for how long: what always-on capacity and commitments are compared with."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate

from receiver.core.model.memory import NodeLife

NOTHING = timedelta(0)
HOUR_IN_MICROSECONDS = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Node counts within *length*: ``at_least[n - 1]`` is for how long at least n nodes existed."""

    length: timedelta
    at_least: tuple[timedelta, ...] = ()

    @property
    def peak(self) -> int:
        """The most nodes that existed at once."""
        return len(self.at_least)

    @property
    def always(self) -> int:
        """The nodes that existed all the time."""
        return sum(1 for lasted in self.at_least if lasted >= self.length)


def occupancy(lives: Iterable[NodeLife], start: datetime, until: datetime) -> Occupancy:
    """Count the nodes of *lives* that existed between *start* and *until*.

    Existence is counted and not paid time: a node that replaces one whose hour is still paid needs no second slot.
    """
    changes: list[tuple[datetime, int]] = []
    for life in lives:
        begin, end = max(life.created_at, start), min(life.gone_at or until, until)
        if begin < end:
            changes += [(begin, 1), (end, -1)]
    exactly: dict[int, timedelta] = {}
    level, since = 0, start
    for at, change in sorted(changes):  # an end sorts before a beginning of the same moment
        if at > since:
            exactly[level] = exactly.get(level, NOTHING) + (at - since)
        level, since = level + change, at
    longest_first = [exactly.get(n, NOTHING) for n in range(max(exactly, default=0), 0, -1)]
    return Occupancy(length=max(until - start, NOTHING), at_least=tuple(reversed(list(accumulate(longest_first)))))


def hours(length: timedelta) -> Decimal:
    """*length* in hours, exactly."""
    return Decimal(length // timedelta(microseconds=1)) / HOUR_IN_MICROSECONDS
