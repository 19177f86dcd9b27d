"""Node lives that are over for good, and what they cost: each is counted once, however often a month is asked about."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from receiver.core.cost import spend_by_pool, unit_price, units_since
from receiver.core.memory import NodeLife
from receiver.core.policy import Billing

Cost = tuple[dict[str, Decimal], frozenset[str]]


class Ended:
    """A log of ended lives that only grows. Two are equal when they hold the same lives."""

    def __init__(self, lives: Iterable[NodeLife] = ()) -> None:
        self._lives = list(lives)
        self._sums: dict[tuple[datetime, Billing], _Sum] = {}

    def add(self, life: NodeLife) -> None:
        """Take in one more. Raises ValueError for a life that has not ended."""
        if life.gone_at is None:
            raise ValueError(f"instance {life.instance} is not gone")
        self._lives.append(life)

    @property
    def lives(self) -> Sequence[NodeLife]:
        """Those taken in so far, in that order."""
        return tuple(self._lives)

    def spend(self, since: datetime, billing: Billing) -> Cost:
        """USD by pool id for units begun since *since*, and the sizes without a price: those are not counted as 0."""
        known = self._sums.get((since, billing))
        if known is None:
            self._sums.clear()  # of another month: it is not asked for again
            known = self._sums[since, billing] = _Sum(since, billing)
        return known.up_to(self._lives)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ended) and self._lives == other._lives

    __hash__ = None  # type: ignore[assignment]  # it grows


class _Sum:
    """What the first so many of the lives cost since a moment."""

    def __init__(self, since: datetime, billing: Billing) -> None:
        self._since, self._billing = since, billing
        self._counted = 0
        self._pools: dict[str, Decimal] = {}
        self._unpriced: frozenset[str] = frozenset()

    def up_to(self, lives: Sequence[NodeLife]) -> Cost:
        for life in lives[self._counted :]:
            self._count(life)
        self._counted = len(lives)
        return dict(self._pools), self._unpriced

    def _count(self, life: NodeLife) -> None:
        assert life.gone_at is not None
        units = units_since(life, self._since, life.gone_at, self._billing)
        if life.price_usd_per_hour is None:
            self._unpriced |= {life.size} if units else set()
        elif units:
            usd = units * unit_price(life.price_usd_per_hour, self._billing)
            self._pools[life.pool] = self._pools.get(life.pool, Decimal(0)) + usd


def spent(
    ended: Ended | None, lives: Iterable[NodeLife], since: datetime, now: datetime, billing: Billing
) -> tuple[dict[str, Decimal], tuple[str, ...]]:
    """USD by pool id for units begun since *since*, of *lives* and of those that *ended* before, and the sizes without
    a price."""
    pools, unpriced = spend_by_pool(lives, since, now, billing)
    if ended is None:
        return pools, unpriced
    before, unpriced_before = ended.spend(since, billing)
    found = {pool: before.get(pool, Decimal(0)) + pools.get(pool, Decimal(0)) for pool in {**before, **pools}}
    return found, tuple(sorted({*unpriced, *unpriced_before}))
