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

from receiver.core.pods import Pod

LAST_WORKLOADS = 300  # what people run changes; as many give as good a picture as two thousand
WEIGHT_OF_THE_RULE = 5  # the heavy tail counts as much as so many workloads
A_YOUNG_AGE = timedelta(minutes=5)  # added to every age: most that has just begun does not end at once
LATER = tuple(timedelta(minutes=m) for m in (10, 20, 40, 80, 160))


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
        old, later, young = age.total_seconds(), more.total_seconds(), A_YOUNG_AGE.total_seconds()
        rule = (old + young) / (old + young + later)
        got_as_old = len(self.lengths) - bisect_right(self.lengths, old)
        ran_on = len(self.lengths) - bisect_right(self.lengths, old + later)
        return (ran_on + WEIGHT_OF_THE_RULE * rule) / (got_as_old + WEIGHT_OF_THE_RULE)

    def goes_on(self, pods: Iterable[Pod], now: datetime) -> float:
        """The chance (0-1) that at least one of *pods* still runs later, the mean over the moments `LATER`."""
        ages = [max(timedelta(0), now - (p.bound_at or p.running_since or p.created_at)) for p in pods]
        return sum(1 - prod(1 - self.chance(age, more) for age in ages) for more in LATER) / len(LATER)
