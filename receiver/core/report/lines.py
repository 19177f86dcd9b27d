"""Cost lines of a month, in whole cents: by line, in subtotals, per unit of work and by day."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from zoneinfo import ZoneInfo

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy, UnitOfWork
from receiver.core.model.usage import Owner
from receiver.core.money.attribution import FINEST, Attributed, By, Part, Share, key_of
from receiver.core.money.attribution import Line as Told
from receiver.core.money.attribution import lines as attributed_lines
from receiver.core.money.budget import Month
from receiver.core.money.cost import hours, level_by_level, to_cents, units_between


class PaidFor(StrEnum):
    """The use of paid GPU time."""

    USED = "used"  # held by a workload and not observed idle
    IDLE = "idle"  # held by a workload, engine and memory at rest
    UNALLOCATED = "unallocated"  # held by no workload
    UNWATCHED = "unwatched"  # not observed
    AHEAD = "ahead"  # the rest of the current paid unit
    SEEDED = "seeded"  # spent before the ledger began, known only as a sum


@dataclass(frozen=True, slots=True)
class Whose:
    """The key of a line. *workload*, *namespace* and *owner* are empty for parts that no workload held, unless they are
    shared out."""

    paid_for: PaidFor
    pool: str = ""
    size: str = ""
    kind: str = ""
    namespace: str = ""
    workload: str = ""
    owner: Owner = Owner()  # noqa: RUF009 (frozen, and empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """GPU-hours, and USD in whole cents, of *whose*."""

    whose: Whose
    gpu_hours: float
    usd: Decimal


@dataclass(frozen=True, slots=True)
class CostPiece:
    """Part of the cost of one *instance*, in exact USD."""

    whose: Whose
    instance: str
    seconds: float
    usd: Decimal


def pieces(attributed: Attributed, policy: Policy) -> Iterator[CostPiece]:
    """Yield the shares of *attributed*, with held ones split into used and idle."""
    for share in attributed.shares:
        yield from _pieces_of(share, policy)


def cost_lines(cost_pieces: Iterable[CostPiece]) -> tuple[CostLine, ...]:
    """Sum *cost_pieces* by key, the most expensive first.

    The month's sum is rounded to cents by team (and unheld part), then by workload and line, so that every level adds
    up to the one above.
    """
    exact: defaultdict[Whose, Decimal] = defaultdict(Decimal)
    seconds: defaultdict[Whose, float] = defaultdict(float)
    for piece in cost_pieces:
        exact[piece.whose] += piece.usd
        seconds[piece.whose] += piece.seconds
    cents = level_by_level(exact, {whose: (_team(whose), whose.workload) for whose in exact})
    rows = [CostLine(whose=whose, gpu_hours=seconds[whose] / 3600, usd=cents[whose]) for whose in exact]
    return tuple(sorted(rows, key=lambda line: (-line.usd, line.whose.workload, line.whose.pool, line.whose.paid_for)))


def told_by(attributed: Attributed, by: By, policy: Policy) -> tuple[Told, ...]:
    """Return *attributed* by one dimension, the most expensive first, with the same cents as the report's lines."""
    return teller(attributed, policy)(by)


def teller(attributed: Attributed, policy: Policy) -> Callable[[By], tuple[Told, ...]]:
    """Return `told_by` of *attributed* for any dimension: the lines are made and rounded once."""
    share_pieces = [(share, piece) for share in attributed.shares for piece in _pieces_of(share, policy)]
    rows = cost_lines(piece for _, piece in share_pieces)

    def told(by: By) -> tuple[Told, ...]:
        filed = {piece.whose: (share.part, key_of(share, by, policy)) for share, piece in share_pieces}
        usd: defaultdict[tuple[Part, str], Decimal] = defaultdict(Decimal)
        idle: defaultdict[tuple[Part, str], Decimal] = defaultdict(lambda: Decimal("0.00"))
        for line in rows:
            usd[filed[line.whose]] += line.usd
            if line.whose.paid_for is PaidFor.IDLE:
                idle[filed[line.whose]] += line.usd
        lines = (
            replace(line, usd=usd[line.part, line.key], idle_usd=idle[line.part, line.key])
            for line in attributed_lines(attributed, lambda share: key_of(share, by, policy))
        )
        return tuple(sorted(lines, key=lambda line: (-line.usd, line.part, line.key)))

    return told


def _team(whose: Whose) -> tuple[Part, str]:
    """The widest level below the month: the workloads of a team, or an unheld part."""
    return Part.HELD if whose.workload else Part(whose.paid_for), whose.owner.team


def _pieces_of(share: Share, policy: Policy) -> Iterator[CostPiece]:
    row = share.usage
    whose = Whose(
        paid_for=PaidFor.USED if share.part is Part.HELD else PaidFor(share.part),
        pool=key_of(share, By.POOL, policy),
        size=share.size,
        kind=key_of(share, By.GPU_KIND, policy),
        namespace=row.namespace if row else "",
        workload=row.workload if row else "",
        owner=row.owner if row else Owner(),
    )
    idle = min(max(row.idle / row.held, 0.0), 1.0) if row and row.held > 0 else 0.0
    idle_usd = (share.usd * Decimal(idle)).quantize(FINEST)  # the two halves add up to the share
    if idle < 1:
        yield CostPiece(whose, share.instance, share.seconds * (1 - idle), share.usd - idle_usd)
    if idle > 0:
        yield CostPiece(replace(whose, paid_for=PaidFor.IDLE), share.instance, share.seconds * idle, idle_usd)


KNOWN = (PaidFor.USED, PaidFor.IDLE, PaidFor.UNALLOCATED)  # for the rest it is unknown whether it was idle
DOING_NOTHING = (PaidFor.IDLE, PaidFor.UNALLOCATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """GPU-hours and what was paid for them in USD."""

    gpu_hours: float = 0.0
    usd: Decimal = Decimal("0.00")

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(gpu_hours=self.gpu_hours + other.gpu_hours, usd=self.usd + other.usd)


NOTHING = Amount()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtotal:
    """The lines of one *name*, by use of the paid time."""

    name: str = ""
    amounts: Mapping[PaidFor, Amount] = field(default_factory=dict)

    def of(self, *paid_for: PaidFor) -> Amount:
        """The amount for these uses, by default for all."""
        return sum((self.amounts.get(each, NOTHING) for each in paid_for or PaidFor), NOTHING)

    @property
    def total(self) -> Amount:
        """The whole amount."""
        return self.of()

    @property
    def idle(self) -> Amount:
        """The idle amount: held but idle, or unallocated."""
        return self.of(*DOING_NOTHING)

    @property
    def efficiency(self) -> float | None:
        """1 - idle / paid GPU-hours (ratio 0-1), None of nothing; hours whose use is unknown do not count."""
        gpu_hours = self.of(*KNOWN).gpu_hours
        return min(max(1 - self.idle.gpu_hours / gpu_hours, 0.0), 1.0) if gpu_hours > 0 else None


def add_up(lines: Iterable[CostLine], name: str = "") -> Subtotal:
    """Return *lines* as one subtotal."""
    amounts: defaultdict[PaidFor, Amount] = defaultdict(Amount)
    for line in lines:
        amounts[line.whose.paid_for] += Amount(gpu_hours=line.gpu_hours, usd=line.usd)
    return Subtotal(name=name, amounts=dict(amounts))


def by(key: Callable[[Whose], str], lines: Iterable[CostLine]) -> tuple[Subtotal, ...]:
    """Return *lines* in subtotals by *key*, the most expensive first."""
    sorted_in: defaultdict[str, list[CostLine]] = defaultdict(list)
    for line in lines:
        sorted_in[key(line.whose)].append(line)
    subtotals = [add_up(members, name) for name, members in sorted_in.items()]
    return tuple(sorted(subtotals, key=lambda part: (-part.total.usd, part.name)))


RANGE = "$range"  # in a query: the placeholder of the range
SHORTEST = timedelta(minutes=1)  # PromQL takes no empty range


def query_of(unit: UnitOfWork, month: Month, at: datetime) -> str:
    """The query of *unit* at *at*: its range is the part of *month* passed by then, at least a minute, so that no
    earlier month is counted."""
    passed = max(min(at, month.end) - month.start, SHORTEST)
    return unit.query.replace(RANGE, f"{passed // timedelta(seconds=1)}s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The result of a unit's query for *month* (``2026-11``) at *at*."""

    month: str
    name: str
    count: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """*usd* spent on *count* units; *usd_per* is the cost of *unit.per* of them, or None for the reason *why_not*."""

    unit: UnitOfWork
    usd: Decimal
    count: float | None
    usd_per: Decimal | None
    why_not: str = ""


def unit_cost(unit: UnitOfWork, usd: Decimal, count: float | None) -> UnitCost:
    """Return the cost of *per* of *unit*: unknown without a positive count, and without cost, because what was counted
    ran on something whose cost is unknown."""
    why_not = ""
    if count is None:
        why_not = "its query gave no value for this month"
    elif not math.isfinite(count) or count <= 0:
        why_not = f"its query counted {count:g}"
    elif usd == 0:
        why_not = "no cost of this month matches its `only`" if unit.only else "nothing was paid for in this month"
    if count is None or why_not:
        return UnitCost(unit=unit, usd=usd, count=count, usd_per=None, why_not=why_not)
    return UnitCost(unit=unit, usd=usd, count=count, usd_per=usd * unit.per / Decimal(str(count)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One calendar day: USD of the paid units that began on it, in cents, by use."""

    day: date
    usd_for: Mapping[PaidFor, Decimal]

    @property
    def usd(self) -> Decimal:
        """The whole amount."""
        return sum(self.usd_for.values(), Decimal(0))

    @property
    def idle_usd(self) -> Decimal:
        """The idle amount."""
        return sum((self.usd_for.get(each, Decimal(0)) for each in DOING_NOTHING), Decimal(0))


def days(
    lives: Iterable[NodeLife],
    pieces: Iterable[CostPiece],
    lines: Iterable[CostLine],
    month: Month,
    policy: Policy,
    now: datetime,
) -> tuple[Day, ...]:
    """Return the days of *month* that have begun at *now*, in the calendar of the policy's zone.

    A node's uses are known per month, so all its days have the same ratio, and all days the same of what committed
    nodes cost that do not exist. Spend from before the ledger began is in no
    day. The days of each `PaidFor` add up to *lines*.
    """
    parts: defaultdict[str, defaultdict[PaidFor, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for piece in pieces:
        parts[piece.instance][piece.whose.paid_for] += piece.usd
    bounds = tuple(_bounds(month, policy.timezone, now))
    exact: defaultdict[PaidFor, defaultdict[int, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for life in lives:
        whole = units_between(life, month.start, month.end, now, policy.billing)
        if not whole or life.instance not in parts:
            continue
        for number, (_, start, end) in enumerate(bounds):
            units = units_between(life, start, end, now, policy.billing)
            for paid_for, usd in parts[life.instance].items() if units else ():
                exact[paid_for][number] += usd * units / whole
    for paid_for, usd in parts[""].items():
        if paid_for is not PaidFor.SEEDED:  # commitments without a node
            for number, (_, start, end) in enumerate(bounds):
                length = hours(min(end, now) - start) / hours(min(month.end, now) - month.start)
                exact[paid_for][number] += usd * length
    of_month: defaultdict[PaidFor, Decimal] = defaultdict(Decimal)
    for line in lines:
        of_month[line.whose.paid_for] += line.usd
    cents = {paid_for: to_cents(by_day, of_month[paid_for]) for paid_for, by_day in exact.items()}
    return tuple(
        Day(day=day, usd_for={each: cents[each][number] for each in PaidFor if number in cents.get(each, ())})
        for number, (day, _, _) in enumerate(bounds)
    )


def _bounds(month: Month, zone: str, now: datetime) -> Iterator[tuple[date, datetime, datetime]]:
    """Each day with its start and end: 23, 24 or 25 hours apart."""
    day, start = month.start.astimezone(ZoneInfo(zone)).date(), month.start
    while start < month.end and start <= now:
        following = day + timedelta(days=1)
        end = datetime(following.year, following.month, following.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
        yield day, start, end
        day, start = following, end
