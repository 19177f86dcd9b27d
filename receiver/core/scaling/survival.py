"""How likely it is that work which runs now still runs later: learnt from how long workloads ran, and from its age.

Lengths of jobs are heavy-tailed, so that the longer one has run, the longer it will: without anything else known, a job
of age ``a`` lives to see ``t`` with a chance of about ``a / t`` (Harchol-Balter and Downey, Exploiting Process Lifetime
Distributions for Dynamic Load Balancing, ACM TOCS 15(3), 1997). What is known of the workloads that ended last corrects
that: of those that got as old as this one, the part that ran on.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import prod

from receiver.core.model.pods import Pod

LAST_WORKLOADS = 300  # what people run changes; as many give as good a picture as two thousand
WEIGHT_OF_THE_RULE = 5  # the heavy tail counts as much as so many workloads
A_YOUNG_AGE = timedelta(minutes=5)  # added to every age: most that has just begun does not end at once
LATER = tuple(timedelta(minutes=m) for m in (10, 20, 40, 80, 160))
LATER_SECONDS = tuple(moment.total_seconds() for moment in LATER)


@dataclass(frozen=True, slots=True)
class Survival:
    """*lengths* are how many seconds each of the last workloads ran, the shortest first."""

    lengths: Sequence[float] = ()

    @classmethod
    def of(cls, lasted: Iterable[timedelta]) -> "Survival":
        """Learn from how long workloads *lasted*, in any order."""
        return cls(tuple(sorted(length.total_seconds() for length in lasted)))

    def chance(self, age: timedelta, more: timedelta) -> float:
        """The chance (0-1) that what has run for *age* runs for *more*, which is positive."""
        return self._chances(age.total_seconds(), (more.total_seconds(),))[0]

    def goes_on(self, pods: Iterable[Pod], now: datetime) -> float:
        """The chance (0-1) that at least one of *pods* still runs later, the mean over the moments `LATER`."""
        ages = [max(0.0, (now - (p.bound_at or p.running_since or p.created_at)).total_seconds()) for p in pods]
        of_each = [self._chances(age, LATER_SECONDS) for age in ages]
        all_end = [prod(1 - chances[n] for chances in of_each) for n in range(len(LATER))]
        return sum(1 - chance for chance in all_end) / len(LATER)

    def _chances(self, age: float, later: Sequence[float]) -> list[float]:
        """The chance to run on for each of so many seconds *later*."""
        lengths, count, old = self.lengths, len(self.lengths), age + A_YOUNG_AGE.total_seconds()
        seen = count - bisect_right(lengths, age) + WEIGHT_OF_THE_RULE  # those that got as old, and the rule
        return [
            (count - bisect_right(lengths, age + more) + WEIGHT_OF_THE_RULE * old / (old + more)) / seen
            for more in later
        ]
