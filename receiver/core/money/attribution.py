"""Cost attribution: the cost of each node of a month shared out by GPU-seconds, to the exact cent of the ledger."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.civo_sizes import gpus_of_size
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Billing, CommittedNodes, Policy, Unallocated
from receiver.core.model.usage import Unwatched, Usage
from receiver.core.money.accounting import CONTINUOUS
from receiver.core.money.budget import Month
from receiver.core.money.cost import Coverage, counts_from, first_unit_from, in_cents, to_cents, units_between

SETTLED_AFTER = timedelta(hours=1)  # after the last paid unit: by then its use is known


@dataclass(frozen=True, slots=True)
class MonthToDate:
    """A month until *now*, and how its nodes are billed."""

    month: Month
    now: datetime
    billing: Billing

    def units(self, life: NodeLife) -> int:
        """Return the paid units of *life* that began in it."""
        return units_between(life, self.month.start, self.month.end, self.now, self.billing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The period for which usage is accounted for: *since* (None: never) to *until*. Pauses within it are in the ledger
    as `Unwatched`. Months before that of *kept_from* (UTC) were pruned."""

    since: datetime | None = None
    until: datetime | None = None
    kept_from: datetime | None = None

    def observed_from(self, month: Month) -> datetime | None:
        """The time from which usage of *month* is known, None if none of it is."""
        forgotten = self.kept_from is not None and month.name < f"{self.kept_from:%Y-%m}"
        if self.since is None or self.since >= month.end or forgotten:
            return None
        return max(self.since, month.start)


def is_settled(month: Month, watch: Watch | None, now: datetime, billing: Billing) -> bool:
    """True when *month* is final: its last paid unit is over and accounted for, and an hour has passed in which Civo
    could report deleted nodes. Without *watch* only the time counts."""
    last = month.end + billing.granularity
    is_watched = watch is None or (watch.until is not None and watch.until >= last)
    return is_watched and now >= last + SETTLED_AFTER


def _unseen(
    life: NodeLife, attributed_seconds: float, to_date: MonthToDate, watch: Watch | None
) -> tuple[float, float]:
    """Seconds of *life* in the month that were never accounted for, and those that the next accounting will cover.

    The first is all of it where the ledger began later, the node was not seen before the month was over, or the month
    was forgotten, less the *attributed_seconds* (pods that stay say since when). Else it is what has passed
    since the last accounting. Without *watch* there is none.
    """
    month, now, billing = to_date.month, to_date.now, to_date.billing
    begin = first_unit_from(life.created_at, month.start, billing)
    end = min(now, life.gone_at or now, first_unit_from(life.created_at, month.end, billing))
    if watch is None or end <= begin:
        return 0.0, 0.0
    since = watch.since
    before = since is None or (life.gone_at is not None and life.gone_at <= since)
    late = life.seen_at is not None and life.seen_at >= month.end
    if before or late or watch.observed_from(month) is None:
        return max((end - begin).total_seconds() - attributed_seconds, 0.0), 0.0
    unwatched_seconds = max((end - max(begin, watch.until or begin)).total_seconds(), 0.0)
    continues = watch.until is not None and now - watch.until <= CONTINUOUS  # the next accounting covers the rest
    return (0.0, unwatched_seconds) if continues else (unwatched_seconds, 0.0)


FINEST = Decimal("1E-12")  # USD: finer than any bill; sums of millions of them are exact
A_MOMENT = 1e-6  # seconds: less is rounding error
UNLABELLED = "unlabelled"
NO_CLASS = "none"  # a pod without a priority class


class Part(StrEnum):
    """The use of a share of what was paid for."""

    HELD = "held"  # allocated to a workload, whether or not it used it
    UNALLOCATED = "unallocated"  # no pod held it
    AHEAD = "ahead"  # the rest of the current paid unit, or not accounted for yet
    UNWATCHED = "unwatched"  # not observed
    SEEDED = "seeded"  # spent before the ledger began, known only as a sum


class By(StrEnum):
    """A dimension of cost."""

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
    """Part of one node's cost in a month: *usd* exactly, and its GPU-*seconds*. *usage* is what was held (None unless
    the part is HELD), or whose a shared part is (`shared_cost`); *instance*, *size* and *pool* are the node's, empty
    for SEEDED."""

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
    *idle_usd* is the part of *usd* for GPUs that were held and idle, as far as that was measured."""

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
    """The shares of a month's cost; *unpriced* are sizes without a price, whose nodes are missing. Usage is known from
    *observed_from* on (None: not at all). *complete* is True when that is the month's beginning and the month is
    final. *unallocated* says whose the parts are that no workload held."""

    month: str
    shares: tuple[Share, ...]
    unpriced: tuple[str, ...] = ()
    observed_from: datetime | None = None
    complete: bool = False
    unallocated: Unallocated = Unallocated.SEPARATE

    @property
    def usd(self) -> Decimal:
        """The sum in cents, equal to the ledger's."""
        return in_cents(sum((s.usd for s in self.shares), Decimal(0)))

    def held_seconds(self, pool: str) -> float:
        """GPU-seconds of *pool* (an id) that work held, or may have held."""
        parts = (Part.HELD, Part.UNWATCHED, Part.AHEAD)
        return sum(share.seconds for share in self.shares if share.pool == pool and share.part in parts)


def attribute(
    lives: Iterable[NodeLife],
    usage: Iterable[Usage],
    unwatched: Iterable[Unwatched],
    to_date: MonthToDate,
    seeded: Decimal = Decimal(0),
    watch: Watch | None = None,
) -> Attributed:
    """Share out the cost of *lives* in a month *to_date*; *seeded* is USD spent before the ledger began. *watch* is the
    observed period, None: all of it."""
    month = to_date.month
    lives, billing = tuple(lives), to_date.billing
    coverage = Coverage(lives, billing)
    held: dict[str, list[Usage]] = {}
    for row in usage:
        if row.month == month.name:
            held.setdefault(row.instance, []).append(row)
    blind = {row.instance: row for row in unwatched if row.month == month.name}
    shares: list[Share] = []
    users: list[NodeLife] = []
    unpriced: set[str] = set()
    for life in lives:
        rows = held.get(life.instance, ())
        units = to_date.units(life)
        if life.price_usd_per_hour is None and units:
            unpriced.add(life.size)
        if units or rows:
            users.append(life)
            usd = coverage.usd(life, month.start, month.end, to_date.now)
            shares += _shared_out(life, usd, rows, blind.get(life.instance), to_date, watch)
    for committed in billing.committed:
        unused_hours = coverage.unused_hours(committed, users, month.start, min(month.end, to_date.now))
        shares += _without_node(committed, unused_hours)
    if seeded:
        shares.append(Share(part=Part.SEEDED, usd=seeded, seconds=0.0))
    observed_from = month.start if watch is None else watch.observed_from(month)
    return Attributed(
        month=month.name,
        shares=tuple(shares),
        unpriced=tuple(sorted(unpriced)),
        observed_from=observed_from,
        complete=observed_from == month.start and is_settled(month, watch, to_date.now, to_date.billing),
    )


def _shared_out(
    life: NodeLife,
    usd: Decimal,
    rows: Iterable[Usage],
    blind: Unwatched | None,
    to_date: MonthToDate,
    watch: Watch | None,
) -> Iterator[Share]:
    """Share out *usd*, the cost of *life* in the month."""
    units, billing = to_date.units(life), to_date.billing
    gpus = life.gpus or 1.0
    ahead = _left(life, units, to_date) if life.gone_at is None else 0.0
    # Each with its seconds of the node, which determine its cost, and the GPU-seconds that are reported.
    parts: list[tuple[Part, float, float, Usage | None]] = [
        (Part.HELD, row.held / gpus if row.node_seconds is None else row.node_seconds, row.held, row) for row in rows
    ]
    if blind is not None:
        node_seconds = blind.seconds / gpus if blind.node_seconds is None else blind.node_seconds
        parts.append((Part.UNWATCHED, node_seconds, blind.seconds, None))
    unseen, soon = _unseen(life, sum(took for _, took, _, _ in parts), to_date, watch)
    parts.append((Part.UNWATCHED, unseen, unseen * life.gpus, None))
    parts.append((Part.AHEAD, ahead + soon, (ahead + soon) * life.gpus, None))
    offered = units * billing.granularity.total_seconds()
    taken = sum(max(took, 0.0) for _, took, _, _ in parts)
    # Rounding may bill less than the node's life, and a pool may offer fewer GPUs than its nodes have.
    whole = max(offered, taken)
    unallocated = whole - taken if whole - taken > A_MOMENT else 0.0
    parts.append((Part.UNALLOCATED, unallocated, unallocated * life.gpus, None))
    usd_shared, taking = Decimal(0), [taker for taker in parts if taker[1] > 0]
    for number, (part, took, seconds, row) in enumerate(taking, start=1):
        # Shares are rounded and the last one gets the rest, so their sum in any order is exact.
        share = usd - usd_shared if number == len(taking) else (usd * Decimal(took) / Decimal(whole)).quantize(FINEST)
        usd_shared += share
        yield Share(
            part=part, usd=share, seconds=seconds, size=life.size, pool=life.pool, usage=row, instance=life.instance
        )


def _without_node(committed: CommittedNodes, unused_hours: Decimal) -> Iterator[Share]:
    """Yield the cost of the node-hours of *committed* in which its nodes did not exist."""
    if unused_hours > 0:
        seconds = float(unused_hours) * 3600 * (gpus_of_size(committed.size) or 1)
        usd = unused_hours * committed.usd_per_hour
        yield Share(part=Part.UNALLOCATED, usd=usd, seconds=seconds, size=committed.size, pool=committed.pool)


def _left(life: NodeLife, units: int, to_date: MonthToDate) -> float:
    """Seconds of the paid *units* of *life* that are yet to come."""
    begin = counts_from(life.created_at, to_date.month.start, to_date.billing)
    return max(0.0, (begin + units * to_date.billing.granularity - to_date.now).total_seconds())


def key_of(share: Share, by: By, policy: Policy) -> str:
    """The value of dimension *by* for *share*; empty for unheld parts, unless *by* is a property of nodes."""
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


def _word(name: str, missing: str, thing: str) -> str:
    """*name*, or *missing* if it is empty; a real name equal to *missing* gets a suffix that no Kubernetes name has."""
    if not name:
        return missing
    return f"{name} ({thing})" if name == missing else name


def lines(attributed: Attributed, key: Callable[[Share], str]) -> tuple[Line, ...]:
    """Sum the shares by part and *key*, the most expensive first; their cents add up to `Attributed.usd`."""
    groups: dict[tuple[Part, str], list[Share]] = {}
    for share in attributed.shares:
        groups.setdefault((share.part, key(share)), []).append(share)
    cents = to_cents({filed: sum((s.usd for s in shares), Decimal(0)) for filed, shares in groups.items()})
    rows = (_line(*filed, shares, cents[filed]) for filed, shares in groups.items())
    return tuple(sorted(rows, key=lambda line: (-line.usd, line.part, line.key)))


def by_team(attributed: Attributed) -> Mapping[str, Decimal]:
    """USD of what the workloads of each team held; without a team label under an empty name."""
    usd_by_team: dict[str, Decimal] = {}
    for share in attributed.shares:
        if share.usage is not None and share.part is Part.HELD:
            team = share.usage.owner.team
            usd_by_team[team] = usd_by_team.get(team, Decimal(0)) + share.usd
    return usd_by_team


def _line(part: Part, key: str, shares: Sequence[Share], usd: Decimal) -> Line:
    held = [(share, row) for share in shares if (row := share.usage) is not None and row.held > 0]
    idle_usd = sum((share.usd * Decimal(min(1.0, row.idle / row.held)) for share, row in held), Decimal(0))
    return Line(
        part=part,
        key=key,
        usd=usd,
        seconds=sum(share.seconds for share in shares),
        measured=sum(row.measured for _, row in held),
        idle=sum(row.idle for _, row in held),
        busy=sum(row.busy for _, row in held),
        memory=sum(row.memory for _, row in held),
        idle_usd=min(usd, in_cents(idle_usd)),
    )
