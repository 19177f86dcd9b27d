"""Costs of node lives: paid units, the cost of a month, ended lives, and rounding to cents."""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import TypeVar

from receiver.core.model.memory import EndedLives, NodeLife
from receiver.core.model.policy import Anchor, Billing, Pool, Rounding

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
THE_END = datetime.max.replace(tzinfo=UTC)
HOUR = timedelta(hours=1)
A_WEEK = timedelta(days=7)
Units = Counter[tuple[str, Decimal]]  # paid units by pool id and USD per hour: prices are few, lives many


def unit_price(price_usd_per_hour: Decimal, billing: Billing) -> Decimal:
    """USD for one paid unit: the hourly price times the granularity in hours."""
    seconds = Decimal(billing.granularity // timedelta(microseconds=1)) / Decimal(1_000_000)
    return price_usd_per_hour * seconds / Decimal(3600)


def first_unit_began(created: datetime, billing: Billing) -> datetime:
    """When the first paid unit of a node created at *created* began: billed by the clock, that may be earlier."""
    if billing.anchor is Anchor.INSTANCE:
        return created
    return EPOCH + ((created - EPOCH) // billing.granularity) * billing.granularity


def _begun_before(created: datetime, at: datetime, billing: Billing) -> int:
    """How many paid units of a node created at *created* have begun strictly before *at*."""
    if at <= created:
        return 0
    start = first_unit_began(created, billing)
    return -((start - at) // billing.granularity)  # ceiling division


def unit_begin(created: datetime, at: datetime, billing: Billing) -> datetime:
    """When the paid unit that contains *at* began, for a node created at *created*, and not before that."""
    start = first_unit_began(created, billing)
    return max(created, start + ((at - start) // billing.granularity) * billing.granularity)


def next_unit_at(created: datetime, now: datetime, billing: Billing) -> datetime:
    """The first moment after *now* at which a node created at *created* starts another paid unit."""
    if now < created:
        return created
    start = first_unit_began(created, billing)
    return start + ((now - start) // billing.granularity + 1) * billing.granularity


def first_unit_from(created: datetime, at: datetime, billing: Billing) -> datetime:
    """When the first paid unit that begins at *at* or later does."""
    if at <= created:
        return created
    start = first_unit_began(created, billing)
    return start - ((start - at) // billing.granularity) * billing.granularity  # ceiling division


def counts_from(created: datetime, since: datetime, billing: Billing) -> datetime:
    """When the first paid unit that counts at or after *since* began. Billed by the clock, a node's first unit begins
    before its creation."""
    begin = first_unit_from(created, since, billing)
    return first_unit_began(created, billing) if begin == created else begin


def units(life: NodeLife, now: datetime, billing: Billing) -> int:
    """Paid units of *life* until *now*. A living node's started unit counts whole. Civo's billing page says hours are
    rounded up; one sample of its charges API looks like max(1, floor), which FLOOR_MIN_ONE applies to nodes that are
    gone."""
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
    """Paid units of *lives* begun since *since*, and the sizes without a price, which must not count as free."""
    units = Units()
    unpriced: set[str] = set()
    for life in lives:
        count = units_since(life, since, now, billing)
        if life.price_usd_per_hour is not None:
            units[life.pool, life.price_usd_per_hour] += count
        elif count:
            unpriced.add(life.size)
    return units, frozenset(unpriced)


def spend_by_pool(
    lives: Iterable[NodeLife], since: datetime, now: datetime, billing: Billing, ended: EndedLives | None = None
) -> tuple[dict[str, Decimal], tuple[str, ...]]:
    """USD by pool id for units begun since *since*, of *lives* and of those that *ended*, and the sizes without a
    price."""
    units, unpriced = paid_units(lives, since, now, billing)
    if ended is not None:
        ended_units, ended_unpriced = ended.paid_units(since, billing)
        units.update(ended_units)
        unpriced |= ended_unpriced
    usd_by_pool: dict[str, Decimal] = {}
    for (pool, price), count in units.items():
        usd_by_pool[pool] = usd_by_pool.get(pool, Decimal(0)) + count * unit_price(price, billing)
    return usd_by_pool, tuple(sorted(unpriced))


def elsewhere_per_hour(lives: Iterable[NodeLife], pools: Container[str]) -> Decimal:
    """USD per hour of the living nodes of *lives* that are in none of *pools* (ids)."""
    living = (life for life in lives if life.gone_at is None and life.pool not in pools)
    return sum((life.price_usd_per_hour or Decimal(0) for life in living), Decimal(0))


def dearer_per_hour(lives: Iterable[NodeLife], pools: Iterable[Pool]) -> Mapping[str, Decimal]:
    """USD per hour by which the living nodes of each of *pools* (by id) cost more than its present price: a node is
    charged at the price at which it was bought."""
    price = {pool.id: pool.price_usd_per_hour for pool in pools if pool.price_usd_per_hour is not None}
    extra_by_pool: dict[str, Decimal] = {}
    for life in lives:
        if life.gone_at is None and life.pool in price and life.price_usd_per_hour is not None:
            extra = life.price_usd_per_hour - price[life.pool]
            if extra > 0:
                extra_by_pool[life.pool] = extra_by_pool.get(life.pool, Decimal(0)) + extra
    return extra_by_pool


class EndedLog:
    """A log of ended lives that only grows. Two are equal when they hold the same lives."""

    def __init__(self, lives: Iterable[NodeLife] = ()) -> None:
        self._lives = list(lives)
        self._counted_for: tuple[datetime, Billing] | None = None
        self._counted = 0  # how many lives are in the two below
        self._units, self._unpriced = Units(), frozenset[str]()

    def add(self, life: NodeLife) -> None:
        """Add *life*. Raises ValueError if it has not ended."""
        if life.gone_at is None:
            raise ValueError(f"instance {life.instance} is not gone")
        self._lives.append(life)

    @property
    def lives(self) -> Sequence[NodeLife]:
        """The lives in the order in which they were added."""
        return tuple(self._lives)

    def paid_units(self, since: datetime, billing: Billing) -> tuple[Units, frozenset[str]]:
        """`paid_units` of all lives. Each is counted once."""
        if self._counted_for != (since, billing):
            self._counted_for, self._counted = (since, billing), 0
            self._units, self._unpriced = Units(), frozenset()
        units, unpriced = paid_units(self._lives[self._counted :], since, THE_END, billing)
        self._units.update(units)
        self._unpriced |= unpriced
        self._counted = len(self._lives)
        return self._units, self._unpriced

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EndedLog) and self._lives == other._lives

    __hash__ = None  # type: ignore[assignment]  # it grows


K = TypeVar("K", bound=Hashable)
CENT = Decimal("0.01")
PLACES = 4  # decimals of what is computed, in APIs
NOISE = Decimal("1e-12")  # far above rounding errors of divisions, far below any price
Path = Sequence[Hashable]  # from the widest level to the narrowest


def amount(usd: Decimal) -> str:
    """*usd* as APIs print it: without an exponent, and without zeros after the cents."""
    whole, point, part = f"{usd:f}".partition(".")
    return whole + point + (part if len(part) <= 2 else part.rstrip("0").ljust(2, "0"))


def stated(usd: Decimal) -> str:
    """*usd* as APIs print what was computed: with four places at most."""
    places = usd.as_tuple().exponent
    fine = not isinstance(places, int) or places >= -PLACES
    return amount(usd if fine else usd.quantize(Decimal(1).scaleb(-PLACES), ROUND_HALF_UP))


def in_cents(usd: Decimal) -> Decimal:
    """*usd* rounded to the cent, half a cent up. Rounding errors of divisions are removed first, so that the order of a
    sum does not matter."""
    return usd.quantize(NOISE, ROUND_HALF_UP).quantize(CENT, ROUND_HALF_UP)


def to_cents(exact: Mapping[K, Decimal], total: Decimal | None = None) -> dict[K, Decimal]:
    """Round *exact* amounts so that they sum to *total*, by default to their rounded sum (largest remainder method). A
    *total* that was rounded elsewhere may differ from the exact sum by some cents: then amounts above 0 change by more
    than one cent."""
    # A rounding error may make 0 slightly negative, which must not become -1 cent.
    down = {name: max(usd, Decimal(0)).quantize(CENT, ROUND_FLOOR) for name, usd in exact.items()}
    whole = in_cents(sum(exact.values(), Decimal(0))) if total is None else total
    missing = int((whole - sum(down.values(), Decimal(0))) / CENT)
    by_remainder = sorted(exact, key=lambda name: (down[name] - exact[name], str(name)))
    if missing > 0:
        recipients = [name for name in by_remainder if exact[name] > 0] or by_remainder
        for number in range(missing if recipients else 0):
            down[recipients[number % len(recipients)]] += CENT
    while missing < 0:  # the smallest remainders give first
        rich = [name for name in reversed(by_remainder) if down[name] >= CENT][:-missing]
        for name in rich:
            down[name] -= CENT
        missing = missing + len(rich) if rich else 0
    return down


def level_by_level(
    exact: Mapping[K, Decimal], paths: Mapping[K, Path], total: Decimal | None = None, depth: int = 0
) -> dict[K, Decimal]:
    """Round *exact* so that the cents of every group of *paths* add up to the group's: widest level first, from
    *depth* on. All paths have the same length; names that share a whole path are rounded last."""
    if all(len(paths[name]) <= depth for name in exact):
        return to_cents(exact, total)
    groups: dict[Hashable, dict[K, Decimal]] = {}
    for name, usd in exact.items():
        groups.setdefault(paths[name][depth], {})[name] = usd
    cents = to_cents({group: sum(members.values(), Decimal(0)) for group, members in groups.items()}, total)
    rounded: dict[K, Decimal] = {}
    for group, members in groups.items():
        rounded |= level_by_level(members, paths, cents[group], depth + 1)
    return rounded
