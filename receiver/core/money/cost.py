"""Costs of node lives: paid units, commitments, the cost of a month, ended lives, and rounding to cents."""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from heapq import heappush, heappushpop
from typing import TypeVar

from receiver.core.model.memory import EndedLives, NodeLife
from receiver.core.model.policy import Anchor, Billing, CommittedNodes, Pool, Rounding

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


def hours(length: timedelta) -> Decimal:
    """*length* in hours, exactly; 0 for a negative one."""
    return Decimal(max(length, timedelta(0)) // timedelta(microseconds=1)) / 3_600_000_000


class Coverage:
    """What of *lives*, which are all that existed in the time asked about, the commitments of *billing* pay for.

    They pay for the oldest nodes of a pool: for a paid unit when, as it begins, fewer older nodes exist than are
    committed.
    """

    def __init__(self, lives: Sequence[NodeLife], billing: Billing) -> None:
        self._billing = billing
        self._oldest_from: dict[CommittedNodes, Mapping[str, datetime]] = {}
        for committed in billing.committed:
            its_lives = sorted((x for x in lives if x.pool == committed.pool), key=lambda x: (x.created_at, x.instance))
            self._oldest_from[committed] = _oldest_from(its_lives, committed.nodes)

    def units(self, life: NodeLife, start: datetime, end: datetime, now: datetime) -> int:
        """Paid units of *life* that began from *start* to before *end* and are covered, as known at *now*."""
        covered = [self._covered(life, committed, start, end) for committed in self._oldest_from]
        return sum(units_between(life, frm, to, now, self._billing) for frm, to in covered if frm < to)

    def usd(self, life: NodeLife, start: datetime, end: datetime, now: datetime) -> Decimal:
        """What *life* cost: its units that began from *start* to before *end* and are not covered, at its price (0 if
        unknown), and its part of the commitments in that time until *now*."""
        units = units_between(life, start, end, now, self._billing) - self.units(life, start, end, now)
        usd = units * unit_price(life.price_usd_per_hour or Decimal(0), self._billing)
        for committed in self._oldest_from:
            usd += self._hours(life, committed, start, min(end, now)) * committed.usd_per_hour
        return usd

    def unused_hours(
        self, committed: CommittedNodes, lives: Iterable[NodeLife], start: datetime, until: datetime
    ) -> Decimal:
        """Node-hours of *committed* from *start* to *until* that none of *lives* used."""
        unused = committed.nodes * hours(min(until, committed.until) - max(start, committed.since))
        return unused - sum((self._hours(life, committed, start, until) for life in lives), Decimal(0))

    def _hours(self, life: NodeLife, committed: CommittedNodes, start: datetime, until: datetime) -> Decimal:
        frm, to = self._covered(life, committed, start, min(until, life.gone_at or until))
        return hours(to - frm)

    def _covered(
        self, life: NodeLife, committed: CommittedNodes, start: datetime, end: datetime
    ) -> tuple[datetime, datetime]:
        """From when to when between *start* and *end* it is *committed* that pays for *life*; the end may be first."""
        oldest_from = self._oldest_from[committed].get(life.instance, THE_END)
        return max(start, committed.since, oldest_from), min(end, committed.until)


def _oldest_from(lives: Iterable[NodeLife], nodes: int) -> Mapping[str, datetime]:
    """From when on each of *lives*, the oldest first, is one of the *nodes* oldest; it may be gone by then."""
    last_ends: list[datetime] = []  # of older nodes, those *nodes* that exist longest
    oldest_from: dict[str, datetime] = {}
    for life in lives:
        end = life.gone_at or THE_END
        if len(last_ends) < nodes:
            oldest_from[life.instance] = life.created_at
            heappush(last_ends, end)
        else:
            oldest_from[life.instance] = max(life.created_at, last_ends[0])
            heappushpop(last_ends, end)
    return oldest_from


def committed_usd(committed: CommittedNodes, start: datetime, end: datetime) -> Decimal:
    """What *committed* costs from *start* to *end*, whether or not its nodes exist."""
    length = min(end, committed.until) - max(start, committed.since)
    return hours(length) * committed.nodes * committed.usd_per_hour


def committed_more(
    lives: Sequence[NodeLife], start: datetime, end: datetime, now: datetime, billing: Billing
) -> Mapping[str, Decimal]:
    """USD by pool id by which its commitments, from *start* to *end* as known at *now*, cost more than the units of
    *lives* that they pay for (negative: less). *lives* are all that existed in that time."""
    usd_by_pool: dict[str, Decimal] = {}
    for committed in billing.committed:
        usd = committed_usd(committed, start, min(end, now))
        usd_by_pool[committed.pool] = usd_by_pool.get(committed.pool, Decimal(0)) + usd
    coverage = Coverage(lives, billing)
    for life in lives:
        if life.pool in usd_by_pool and life.price_usd_per_hour is not None:
            units = coverage.units(life, start, end, now)
            usd_by_pool[life.pool] -= units * unit_price(life.price_usd_per_hour, billing)
    return usd_by_pool


def with_committed(known: Sequence[CommittedNodes], billing: Billing, now: datetime) -> tuple[CommittedNodes, ...]:
    """Return the commitments that the ledger *known* has, with those that *billing* configures at *now*: one that is no
    longer configured ends now, one that is new begins now."""
    configured = {replace(c, since=EPOCH): c for c in billing.committed}
    then: list[CommittedNodes] = []
    for committed in known:
        if committed.until <= now or configured.pop(replace(committed, since=EPOCH), None) is not None:
            then.append(committed)
        elif committed.since < now:
            then.append(replace(committed, until=now))
    return (*then, *(replace(c, since=max(c.since, now)) for c in configured.values() if c.until > now))


def spend_by_pool(
    lives: Iterable[NodeLife], since: datetime, now: datetime, billing: Billing, ended: EndedLives | None = None
) -> tuple[dict[str, Decimal], tuple[str, ...]]:
    """USD by pool id for units begun since *since*, of *lives* and of those that *ended*, and of commitments; and the
    sizes without a price."""
    lives = tuple(lives)
    units, unpriced = paid_units(lives, since, now, billing)
    if ended is not None:
        ended_units, ended_unpriced = ended.paid_units(since, billing)
        units.update(ended_units)
        unpriced |= ended_unpriced
    usd_by_pool: dict[str, Decimal] = {}
    for (pool, price), count in units.items():
        usd_by_pool[pool] = usd_by_pool.get(pool, Decimal(0)) + count * unit_price(price, billing)
    if billing.committed:
        over = () if ended is None else [x for x in ended.lives if x.gone_at is not None and x.gone_at > since]
        for pool, usd in committed_more((*over, *lives), since, THE_END, now, billing).items():
            usd_by_pool[pool] = usd_by_pool.get(pool, Decimal(0)) + usd
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
