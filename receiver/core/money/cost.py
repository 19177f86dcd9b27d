"""Node lives as money: paid units, what a month has cost, when the next unit begins."""

from collections.abc import Container, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Anchor, Billing, Rounding

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
A_WEEK = timedelta(days=7)
Units = dict[tuple[str, Decimal], int]  # paid units by pool id and USD per hour: prices are few, lives many


def unit_price(price_usd_per_hour: Decimal, billing: Billing) -> Decimal:
    """USD for one paid unit: the hourly price times the granularity in hours."""
    seconds = Decimal(billing.granularity // timedelta(microseconds=1)) / Decimal(1_000_000)
    return price_usd_per_hour * seconds / Decimal(3600)


def _clock_floor(at: datetime, billing: Billing) -> datetime:
    return EPOCH + ((at - EPOCH) // billing.granularity) * billing.granularity


def _begun_before(created: datetime, at: datetime, billing: Billing) -> int:
    """How many paid units of a node created at *created* have begun strictly before *at*."""
    if at <= created:
        return 0
    start = created if billing.anchor is Anchor.INSTANCE else _clock_floor(created, billing)
    return -((start - at) // billing.granularity)  # ceiling division


def next_unit_at(created: datetime, now: datetime, billing: Billing) -> datetime:
    """The first moment after *now* at which a node created at *created* starts another paid unit."""
    if now < created:
        return created
    start = created if billing.anchor is Anchor.INSTANCE else _clock_floor(created, billing)
    return start + ((now - start) // billing.granularity + 1) * billing.granularity


def unit_begin(created: datetime, at: datetime, billing: Billing) -> datetime:
    """When the paid unit began into which *at* falls, for a node created at *created* (not before it was)."""
    start = created if billing.anchor is Anchor.INSTANCE else _clock_floor(created, billing)
    return max(created, start + ((at - start) // billing.granularity) * billing.granularity)


def first_unit_began(created: datetime, billing: Billing) -> datetime:
    """When the first paid unit of a node created at *created* began: on the clock that is before it was there."""
    return created if billing.anchor is Anchor.INSTANCE else _clock_floor(created, billing)


def first_unit_from(created: datetime, at: datetime, billing: Billing) -> datetime:
    """When the first paid unit begins that does so at *at* or later."""
    if at <= created:
        return created
    start = created if billing.anchor is Anchor.INSTANCE else _clock_floor(created, billing)
    return start - ((start - at) // billing.granularity) * billing.granularity  # ceiling division


def units(life: NodeLife, now: datetime, billing: Billing) -> int:
    """Paid units of *life* until *now*.

    A living node's started unit counts whole. Civo's billing page says hours are rounded up; one sample
    of its charges API looks like max(1, floor), which FLOOR_MIN_ONE applies to nodes that are gone.
    """
    end = min(life.gone_at, now) if life.gone_at is not None else now
    if life.gone_at is None:
        return max(1, _begun_before(life.created_at, end + timedelta(microseconds=1), billing))
    if billing.rounding is Rounding.FLOOR_MIN_ONE:
        return max(1, (end - life.created_at) // billing.granularity)
    return max(1, _begun_before(life.created_at, end, billing))


def units_since(life: NodeLife, since: datetime, now: datetime, billing: Billing) -> int:
    """Paid units of *life* that began at or after *since*: a unit belongs to the month it begins in."""
    total = units(life, now, billing)
    return total - min(total, _begun_before(life.created_at, since, billing))


def units_between(life: NodeLife, start: datetime, end: datetime, now: datetime, billing: Billing) -> int:
    """Paid units of *life* that began at or after *start* and before *end*, as known at *now*."""
    if end <= life.created_at or (life.gone_at is not None and life.gone_at + billing.granularity < start):
        return 0  # most nodes live for a small part of a month only
    return units_since(life, start, now, billing) - units_since(life, end, now, billing)


def paid_units(
    lives: Iterable[NodeLife], since: datetime, now: datetime, billing: Billing
) -> tuple[Units, frozenset[str]]:
    """Paid units of *lives* begun since *since*, and the sizes without a price: those are not counted as free."""
    found: Units = {}
    unpriced: set[str] = set()
    for life in lives:
        count = units_since(life, since, now, billing)
        if life.price_usd_per_hour is not None:
            key = life.pool, life.price_usd_per_hour
            found[key] = found.get(key, 0) + count
        elif count:
            unpriced.add(life.size)
    return found, frozenset(unpriced)


def usd_by_pool(units: Units, billing: Billing) -> dict[str, Decimal]:
    """USD of *units* by pool id."""
    found: dict[str, Decimal] = {}
    for (pool, price), count in units.items():
        found[pool] = found.get(pool, Decimal(0)) + count * unit_price(price, billing)
    return found


def spend_by_pool(
    lives: Iterable[NodeLife], since: datetime, now: datetime, billing: Billing
) -> tuple[dict[str, Decimal], tuple[str, ...]]:
    """USD of the priced ones of *lives* for units begun since *since*, by pool id, and the sizes without a price."""
    units, unpriced = paid_units(lives, since, now, billing)
    return usd_by_pool(units, billing), tuple(sorted(unpriced))


def elsewhere_per_hour(lives: Iterable[NodeLife], pools: Container[str]) -> Decimal:
    """USD per hour of the living ones of *lives* that are in none of *pools* (ids): they go on costing."""
    living = (life for life in lives if life.gone_at is None and life.pool not in pools)
    return sum((life.price_usd_per_hour or Decimal(0) for life in living), Decimal(0))
