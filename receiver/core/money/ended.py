"""Node lives that are over for good, and what was paid for them: each is counted once, however often it is asked."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from receiver.core.model.memory import EndedLives, NodeLife
from receiver.core.model.policy import Billing
from receiver.core.money.cost import Units, paid_units, spend_by_pool, units_since, usd_by_pool


class Ended:
    """A log of ended lives that only grows. Two are equal when they hold the same lives."""

    def __init__(self, lives: Iterable[NodeLife] = ()) -> None:
        self._lives = list(lives)
        self._counted: _Counted | None = None

    def add(self, life: NodeLife) -> None:
        """Take in one more. Raises ValueError for a life that has not ended."""
        if life.gone_at is None:
            raise ValueError(f"instance {life.instance} is not gone")
        self._lives.append(life)

    @property
    def lives(self) -> Sequence[NodeLife]:
        """Those taken in so far, in that order."""
        return tuple(self._lives)

    def paid_units(self, since: datetime, billing: Billing) -> tuple[Units, frozenset[str]]:
        """Paid units begun since *since*, and the sizes without a price, as `core.money.cost.paid_units` of all."""
        if self._counted is None or (self._counted.since, self._counted.billing) != (since, billing):
            self._counted = _Counted(since, billing)
        return self._counted.up_to(self._lives)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ended) and self._lives == other._lives

    __hash__ = None  # type: ignore[assignment]  # it grows


class _Counted:
    """What was paid since a moment for the first so many of the lives; a month is asked about again and again."""

    def __init__(self, since: datetime, billing: Billing) -> None:
        self.since, self.billing = since, billing
        self._first = 0
        self._units: Units = {}
        self._unpriced: set[str] = set()

    def up_to(self, lives: Sequence[NodeLife]) -> tuple[Units, frozenset[str]]:
        for life in lives[self._first :]:
            self._count(life)
        self._first = len(lives)
        return dict(self._units), frozenset(self._unpriced)

    def _count(self, life: NodeLife) -> None:
        assert life.gone_at is not None
        count = units_since(life, self.since, life.gone_at, self.billing)
        if life.price_usd_per_hour is not None:
            key = life.pool, life.price_usd_per_hour
            self._units[key] = self._units.get(key, 0) + count
        elif count:
            self._unpriced.add(life.size)


def spent(
    ended: EndedLives | None, lives: Iterable[NodeLife], since: datetime, now: datetime, billing: Billing
) -> tuple[dict[str, Decimal], tuple[str, ...]]:
    """USD by pool id for units begun since *since*, of *lives* and of those that *ended* before, and the sizes without
    a price."""
    if ended is None:
        return spend_by_pool(lives, since, now, billing)
    units, unpriced = ended.paid_units(since, billing)
    more, more_unpriced = paid_units(lives, since, now, billing)
    for key, count in more.items():
        units[key] = units.get(key, 0) + count
    return usd_by_pool(units, billing), tuple(sorted(unpriced | more_unpriced))
