"""What people said of pools for a while, kept apart from the product: what it may do meanwhile, and what it must."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from campaigns.faults.scenario import PoolPlan


@dataclass(slots=True)
class Word:
    """One override: *pool* None is every pool. It ends at *until*, by the product's clock, or when a person ends it."""

    id: str
    kind: str
    pool: str | None
    nodes: int | None
    at: datetime
    until: datetime


@dataclass(slots=True)
class Words:
    """All of them. Clocks are wrong by *skew* at most: what begins or ends so near may be in force or not."""

    skew: timedelta
    said: list[Word] = field(default_factory=list)

    def most(self, plan: PoolPlan, now: datetime) -> int:
        """The largest size that the pool may have at *now*."""
        return max(most for _, most in self._bounds(plan, now))

    def tightest(self, plan: PoolPlan, now: datetime) -> int:
        """The smallest maximum that it may have at *now*."""
        return min(most for _, most in self._bounds(plan, now))

    def least(self, plan: PoolPlan, now: datetime) -> int:
        """The size that it must surely keep."""
        return min(least for least, _ in self._bounds(plan, now))

    def wanted(self, plan: PoolPlan, now: datetime) -> int:
        """The most nodes that somebody may want of it, whatever waits."""
        return max(least for least, _ in self._bounds(plan, now))

    def surely(self, kind: str, plan: PoolPlan, now: datetime) -> bool:
        """True when one of *kind* is in force at *now*, whatever the clocks say."""
        return all(self._newest(kind, plan, at) is not None for at in self._moments(now))

    def perhaps(self, kind: str, plan: PoolPlan, now: datetime) -> bool:
        """True when one of *kind* may be in force at *now*."""
        return any(self._newest(kind, plan, at) is not None for at in self._moments(now))

    def _moments(self, now: datetime) -> Iterator[datetime]:
        """*now*, and all between which something may have begun or ended within the skew."""
        yield now
        if self.skew:
            yield from (now - self.skew, now + self.skew)
            near = (at for word in self.said for at in (word.at, word.until) if abs(at - now) <= self.skew)
            yield from (moment for at in near for moment in (at, at - timedelta(microseconds=1)))

    def _bounds(self, plan: PoolPlan, now: datetime) -> Iterator[tuple[int, int]]:
        return (self._bounds_at(plan, at, now) for at in self._moments(now))

    def _bounds_at(self, plan: PoolPlan, at: datetime, now: datetime) -> tuple[int, int]:
        """Least and most: the pool's own maximum, then pin, ceiling, floor, window (docs/configuration.md)."""
        pin, ceiling, floor = (self._newest(kind, plan, at) for kind in ("pin", "ceiling", "floor"))
        top, bottom = (ceiling, floor) if pin is None else (pin, pin)
        most = windowed(plan, now) if top is None else min(top, plan.max_nodes)
        least = min(plan.min_nodes, most)
        if bottom is not None:
            least = max(least, min(bottom, plan.max_nodes if top is None else most))
        return least, max(most, least)

    def _newest(self, kind: str, plan: PoolPlan, at: datetime) -> int | None:
        """The number of the newest one of *kind* in force, 0 for one without a number, None for none."""
        words = [w for w in self.said if w.kind == kind and w.pool in (None, plan.id) and w.at <= at < w.until]
        newest = max(words, key=lambda w: (w.at, w.id), default=None)
        return None if newest is None else newest.nodes or 0


def windowed(plan: PoolPlan, now: datetime) -> int:
    """The pool's maximum as its window leaves it."""
    if plan.window is None:
        return plan.max_nodes
    frm, to, maximum = plan.window
    local = now.astimezone(UTC)
    return min(plan.max_nodes, maximum) if frm <= local.hour * 60 + local.minute < to else plan.max_nodes
