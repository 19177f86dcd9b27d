"""How soon a controller notices that something changed: ticks, and the chain of scrape, evaluation and grouping."""

from dataclasses import dataclass
from datetime import datetime, timedelta

ZERO = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """When a change is acted upon: at the next *tick*, when an alert on it arrives or when a *watch* of the pods tells
    of it, whichever is first. Alert and watch are of pods that find no room; all else waits for the tick.

    A controller that wakes *by_itself* keeps the moments that it named; another one keeps them at its next tick.
    The alert takes until the next *scrape*, the next *evaluation* after that, and *group_wait*; without a *scrape*
    there is no alert, and without a *watch* (how long after the change it wakes the loop) nobody watches. Ticks,
    scrapes and evaluations are multiples of their lengths from *start* on.
    """

    start: datetime
    tick: timedelta
    scrape: timedelta | None = None
    evaluation: timedelta = timedelta(seconds=15)
    group_wait: timedelta = ZERO
    watch: timedelta | None = None
    by_itself: bool = False

    def noticed(self, at: datetime, *, waits: bool = True) -> datetime:
        """When a change of *at* is acted upon; *waits* says that a pod found no room."""
        told = [at + self.watch] if waits and self.watch is not None else []
        if waits and self.scrape:
            told.append(self._alert_at(at))
        return min((self.tick_at(at), *told))

    def tick_at(self, at: datetime) -> datetime:
        """The first tick at or after *at*."""
        return self._on(at, self.tick)

    def wakes_at(self, moment: datetime) -> datetime:
        """When a moment that the controller named is kept."""
        return moment if self.by_itself else self.tick_at(moment)

    def _alert_at(self, at: datetime) -> datetime:
        assert self.scrape is not None
        return self._on(self._on(at, self.scrape), self.evaluation) + self.group_wait

    def _on(self, at: datetime, every: timedelta) -> datetime:
        return self.start - ((self.start - at) // every) * every  # ceiling division
