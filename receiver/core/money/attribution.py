"""Whose a month's money was: the cost of each node shared out by GPU-seconds, to the cent of what the ledger says.

What nobody watched is bought for nobody: since when the ledger knows who held GPUs stands here too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Billing, Policy
from receiver.core.model.usage import Unwatched, Usage
from receiver.core.money.accounting import CONTINUOUS
from receiver.core.money.budget import Month
from receiver.core.money.cost import first_unit_began, first_unit_from, in_cents, to_cents, unit_price, units_between

SETTLED_AFTER = timedelta(hours=1)  # beside the paid unit that began last: by then its use is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Usage was accounted for from *since* on (None: it never was) up to *until*.

    Pauses in between are in the ledger, as `Unwatched`. Months before that of *kept_from* (UTC) were forgotten.
    """

    since: datetime | None = None
    until: datetime | None = None
    kept_from: datetime | None = None

    def observed_from(self, month: Month) -> datetime | None:
        """From when on it is known who held what in *month*, None when it is of nothing in it."""
        forgotten = self.kept_from is not None and month.name < f"{self.kept_from:%Y-%m}"
        if self.since is None or self.since >= month.end or forgotten:
            return None
        return max(self.since, month.start)

    def lags(self, now: datetime) -> bool:
        """True when what is not accounted for yet is no more than an accounting that goes on leaves to the next."""
        return self.until is not None and now - self.until <= CONTINUOUS


def is_settled(month: Month, watch: Watch | None, now: datetime, billing: Billing) -> bool:
    """True when nothing of *month* is still to come: its last paid unit is over and accounted for, and an hour has
    passed in which Civo could say what is gone. Without *watch* only the time counts."""
    last = month.end + billing.granularity
    known = watch is None or (watch.until is not None and watch.until >= last)
    return known and now >= last + SETTLED_AFTER


def unseen_in(
    life: NodeLife, known: float, month: Month, now: datetime, billing: Billing, watch: Watch | None
) -> tuple[float, float]:
    """Seconds of *life* in *month* that nobody has accounted for, and those that the next accounting will.

    The first is all of it where the ledger began later, the node was not seen before the month was over, or the month
    was forgotten, less what is *known* all the same (seconds: pods that stay say since when). Else it is what has
    passed since the last accounting. Without *watch* there is none.
    """
    begin = first_unit_from(life.created_at, month.start, billing)
    end = min(now, life.gone_at or now, first_unit_from(life.created_at, month.end, billing))
    if watch is None or end <= begin:
        return 0.0, 0.0
    since = watch.since
    before = since is None or (life.gone_at is not None and life.gone_at <= since)
    late = life.seen_at is not None and life.seen_at >= month.end
    if before or late or watch.observed_from(month) is None:
        return max((end - begin).total_seconds() - known, 0.0), 0.0
    rest = max((end - max(begin, watch.until or begin)).total_seconds(), 0.0)
    return (0.0, rest) if watch.lags(now) else (rest, 0.0)


FINEST = Decimal("1E-12")  # USD: finer than any bill, and sums of millions of them are exact
A_MOMENT = 1e-6  # seconds: less is what floats leave over
UNLABELLED = "unlabelled"
NO_CLASS = "none"  # a pod without a priority class


class Part(StrEnum):
    """What became of a share of what was paid for."""

    HELD = "held"  # allocated to a workload, used or not
    UNALLOCATED = "unallocated"  # bought, and no pod held it
    AHEAD = "ahead"  # of a paid unit under way: it can still be used, or was not accounted for yet
    UNWATCHED = "unwatched"  # not observed: nobody saw who held it
    SEEDED = "seeded"  # spent before this ledger began, known as a sum only


class By(StrEnum):
    """What cost is told by."""

    TEAM = "team"
    NAMESPACE = "namespace"
    PROJECT = "project"
    WORKLOAD_CLASS = "workload_class"
    ENVIRONMENT = "environment"
    COST_CENTER = "cost_center"
    WORKLOAD = "workload"
    GPU_KIND = "gpu_kind"
    PRIORITY_CLASS = "priority_class"
    POOL = "pool"


OF_OWNERS = frozenset({By.TEAM, By.PROJECT, By.WORKLOAD_CLASS, By.ENVIRONMENT, By.COST_CENTER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Part of what one node cost in a month: *usd* exactly, and the GPU-*seconds* that it stands for.

    *usage* is what was held (None for parts that nobody held), *instance*, *size* and *pool* are the node's (empty:
    of no node).
    """

    part: Part
    usd: Decimal
    seconds: float
    size: str = ""
    pool: str = ""
    usage: Usage | None = None
    instance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Shares of one *part* and one *key*: *usd* in cents, *seconds* and the others in GPU-seconds as in `Usage`.

    *idle_usd* is what of *usd* was paid for GPUs that were held and did nothing, as far as that was measured.
    """

    part: Part
    key: str
    usd: Decimal
    seconds: float
    measured: float = 0.0
    idle: float = 0.0
    busy: float = 0.0
    memory: float = 0.0
    idle_usd: Decimal = Decimal("0.00")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributed:
    """A month's money shared out; *unpriced* names sizes whose nodes have no price and are not among it.

    *observed_from* is from when on it is known who held what (None: nobody saw it). *complete* is True when that is the
    month's beginning, and nothing of the month is still to come.
    """

    month: str
    shares: tuple[Share, ...]
    unpriced: tuple[str, ...] = ()
    observed_from: datetime | None = None
    complete: bool = False

    @property
    def usd(self) -> Decimal:
        """All of it in cents, as the ledger says."""
        return in_cents(sum((s.usd for s in self.shares), Decimal(0)))


def attribute(
    lives: Iterable[NodeLife],
    usage: Iterable[Usage],
    unwatched: Iterable[Unwatched],
    month: Month,
    now: datetime,
    billing: Billing,
    seeded: Decimal = Decimal(0),
    watch: Watch | None = None,
) -> Attributed:
    """Share out what *lives* cost in *month* until *now*; *seeded* is USD spent before the ledger began.

    *watch* says what of the time the ledger knows, None that it knows all of it.
    """
    held: dict[str, list[Usage]] = {}
    for row in usage:
        if row.month == month.name:
            held.setdefault(row.instance, []).append(row)
    blind = {row.instance: row for row in unwatched if row.month == month.name}
    shares: list[Share] = []
    unpriced: set[str] = set()
    for life in lives:
        rows = held.get(life.instance, ())
        units = units_between(life, month.start, month.end, now, billing)
        if life.price_usd_per_hour is None and units:
            unpriced.add(life.size)
        if units or rows:
            shares += _shared_out(life, rows, blind.get(life.instance), units, month, now, billing, watch)
    if seeded:
        shares.append(Share(part=Part.SEEDED, usd=seeded, seconds=0.0))
    observed_from = month.start if watch is None else watch.observed_from(month)
    return Attributed(
        month=month.name,
        shares=tuple(shares),
        unpriced=tuple(sorted(unpriced)),
        observed_from=observed_from,
        complete=observed_from == month.start and is_settled(month, watch, now, billing),
    )


def _shared_out(
    life: NodeLife,
    rows: Iterable[Usage],
    blind: Unwatched | None,
    units: int,
    month: Month,
    now: datetime,
    billing: Billing,
    watch: Watch | None,
) -> Iterator[Share]:
    usd = units * unit_price(life.price_usd_per_hour or Decimal(0), billing)
    gpus = life.gpus or 1.0
    ahead = _left(life, units, month, now, billing) if life.gone_at is None else 0.0
    # Of each its part of the node in seconds, which decides about the money, and the GPU-seconds that it is told as.
    known: list[tuple[Part, float, float, Usage | None]] = [
        (Part.HELD, row.held / gpus if row.node_seconds is None else row.node_seconds, row.held, row) for row in rows
    ]
    if blind is not None:
        told = blind.seconds / gpus if blind.node_seconds is None else blind.node_seconds
        known.append((Part.UNWATCHED, told, blind.seconds, None))
    unseen, soon = unseen_in(life, sum(took for _, took, _, _ in known), month, now, billing, watch)
    known.append((Part.UNWATCHED, unseen, unseen * life.gpus, None))
    known.append((Part.AHEAD, ahead + soon, (ahead + soon) * life.gpus, None))
    offered = units * billing.granularity.total_seconds()
    taken = sum(max(took, 0.0) for _, took, _, _ in known)
    # More than is offered is taken where rounding bills less than the node lived, or its pool offered less than it has.
    whole = max(offered, taken)
    rest = whole - taken if whole - taken > A_MOMENT else 0.0
    known.append((Part.UNALLOCATED, rest, rest * life.gpus, None))
    given, taking = Decimal(0), [taker for taker in known if taker[1] > 0]
    for number, (part, took, seconds, row) in enumerate(taking, start=1):
        # Each has a finite share and the last one the rest: added up in whatever order, they are the cost itself.
        share = usd - given if number == len(taking) else (usd * Decimal(took) / Decimal(whole)).quantize(FINEST)
        given += share
        yield Share(
            part=part,
            usd=share,
            seconds=seconds,
            size=life.size,
            pool=life.pool,
            usage=row,
            instance=life.instance,
        )


def _left(life: NodeLife, units: int, month: Month, now: datetime, billing: Billing) -> float:
    """Seconds of the *units* that *life* has paid for in *month* which are still to come."""
    begin = first_unit_from(life.created_at, month.start, billing)
    if begin == life.created_at:
        begin = first_unit_began(life.created_at, billing)
    return max(0.0, (begin + units * billing.granularity - now).total_seconds())


def key_of(share: Share, by: By, policy: Policy) -> str:
    """What *share* is filed under; empty for what nobody held, unless *by* is a matter of nodes."""
    if by is By.GPU_KIND:
        return policy.gpu_kinds.get(share.size, share.size)
    if by is By.POOL:
        pool = policy.pool(share.pool)
        return pool.name if pool else share.pool
    if share.usage is None:
        return ""
    if by in OF_OWNERS:
        return _word(getattr(share.usage.owner, by.value), UNLABELLED, "label")
    if by is By.PRIORITY_CLASS:
        return _word(share.usage.owner.priority_class, NO_CLASS, "class")
    return str(getattr(share.usage, by.value))


def _word(said: str, missing: str, thing: str) -> str:
    """*said*, or *missing* without it; who is called like that is told apart by what no name in Kubernetes has."""
    if not said:
        return missing
    return f"{said} ({thing})" if said == missing else said


def lines(attributed: Attributed, key: Callable[[Share], str]) -> tuple[Line, ...]:
    """Add the shares up by part and *key*, the dearest first; their cents add up to `Attributed.usd`."""
    found: dict[tuple[Part, str], list[Share]] = {}
    for share in attributed.shares:
        found.setdefault((share.part, key(share)), []).append(share)
    exact = {filed: sum((s.usd for s in shares), Decimal(0)) for filed, shares in found.items()}
    cents = to_cents(exact)
    made = (_line(*filed, shares, cents[filed]) for filed, shares in found.items())
    return tuple(sorted(made, key=lambda line: (-line.usd, line.part, line.key)))


def by_team(attributed: Attributed) -> Mapping[str, Decimal]:
    """What the workloads of each team held, in USD; those without a team under an empty name."""
    found: dict[str, Decimal] = {}
    for share in attributed.shares:
        if share.usage is not None:
            team = share.usage.owner.team
            found[team] = found.get(team, Decimal(0)) + share.usd
    return found


def _line(part: Part, key: str, shares: Iterable[Share], usd: Decimal) -> Line:
    seconds = measured = idle = busy = memory = 0.0
    idle_usd = Decimal(0)
    for share in shares:
        seconds += share.seconds
        row = share.usage
        if row is not None and row.held > 0:
            measured, idle = measured + row.measured, idle + row.idle
            busy, memory = busy + row.busy, memory + row.memory
            idle_usd += share.usd * Decimal(min(1.0, row.idle / row.held))
    return Line(
        part=part,
        key=key,
        usd=usd,
        seconds=seconds,
        measured=measured,
        idle=idle,
        busy=busy,
        memory=memory,
        idle_usd=min(usd, in_cents(idle_usd)),
    )
