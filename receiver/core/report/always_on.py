"""Savings against always-on capacity, baselines by size, and advice on committed capacity."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Commitment, Policy
from receiver.core.money.attribution import Attributed
from receiver.core.money.budget import Month
from receiver.core.money.cost import committed_more, committed_usd, hours, unit_begin, unit_price, units_between

NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Node counts within *length*: ``at_least[n - 1]`` is for how long at least n nodes existed."""

    length: timedelta
    at_least: tuple[timedelta, ...] = ()

    @property
    def peak(self) -> int:
        """The highest number of nodes at a time."""
        return len(self.at_least)

    @property
    def always(self) -> int:
        """The number of nodes that existed all the time."""
        return sum(1 for lasted in self.at_least if lasted >= self.length)


def occupancy(lives: Iterable[NodeLife], start: datetime, until: datetime) -> Occupancy:
    """Count the nodes of *lives* that existed between *start* and *until*.

    Existence is counted and not paid time: a node that replaces one whose hour is still paid needs no second slot.
    """
    changes: list[tuple[datetime, int]] = []
    for life in lives:
        begin, end = max(life.created_at, start), min(life.gone_at or until, until)
        if begin < end:
            changes += [(begin, 1), (end, -1)]
    exactly: defaultdict[int, timedelta] = defaultdict(timedelta)
    level, since = 0, start
    for at, change in sorted(changes):  # an end sorts before a beginning of the same moment
        exactly[level] += max(at - since, NOTHING)
        level, since = level + change, at
    longest_first = [exactly[n] for n in range(max((n for n, lasted in exactly.items() if lasted), default=0), 0, -1)]
    return Occupancy(length=max(until - start, NOTHING), at_least=tuple(reversed(list(accumulate(longest_first)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysOn:
    """The comparison with each pool at its peak over the time *since* (by pool name) the ledger knew it in the month.

    *usd* is the cost at each pool's last price, *spent_usd* the actual cost of the same pools in the same time;
    *left_out* are pools without a price. It shows what scaling saves, not how other autoscalers would compare.
    """

    usd: Decimal
    spent_usd: Decimal
    peaks: Mapping[str, int]
    since: Mapping[str, datetime] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def saved_usd(self) -> Decimal:
        """USD that scaling saved; negative if replacing nodes cost more than keeping them."""
        return self.usd - self.spent_usd

    @property
    def saved_ratio(self) -> Decimal | None:
        """The savings as a ratio of the always-on cost, None where that is 0."""
        return self.saved_usd / self.usd if self.usd else None


def always_on(
    lives: Iterable[NodeLife], policy: Policy, month: Month, now: datetime, watched: Mapping[str, datetime]
) -> AlwaysOn:
    """Compare the nodes of *lives* in *month*, until *now*, with as many as each pool had at its peak since the ledger
    first knew it (*watched*, by id)."""
    until = min(now, month.end)
    by_pool: defaultdict[str, list[NodeLife]] = defaultdict(list)
    for life in lives:
        by_pool[life.pool].append(life)
    usd = spent = Decimal(0)
    peaks: dict[str, int] = {}
    since: dict[str, datetime] = {}
    left_out: list[str] = []
    for pool_id, members in sorted(by_pool.items()):
        start = max(month.start, watched.get(pool_id, month.start))
        presence = occupancy(members, start, until)
        if not presence.peak:
            continue
        pool = policy.pool(pool_id)
        name = pool.name if pool else pool_id
        price = max(members, key=lambda life: (life.created_at, life.instance)).price_usd_per_hour
        if price is None or any(life.price_usd_per_hour is None for life in members):
            left_out.append(name)
            continue
        peaks[name], since[name] = presence.peak, start
        usd += presence.peak * -(-presence.length // policy.billing.granularity) * unit_price(price, policy.billing)
        for life in members:
            each = unit_price(life.price_usd_per_hour or Decimal(0), policy.billing)
            spent += _units(life, start, month, now, policy) * each
        for committed in (c for c in policy.billing.committed if c.pool == pool_id):
            length = min(until, committed.until) - max(start, committed.since)
            extra = committed_usd(committed, start, until)
            usd += extra - min(presence.peak, committed.nodes) * hours(length) * price
        spent += committed_more(members, start, month.end, now, policy.billing).get(pool_id, Decimal(0))
    return AlwaysOn(usd=usd, spent_usd=spent, peaks=peaks, since=since, left_out=tuple(left_out))


def _units(life: NodeLife, start: datetime, month: Month, now: datetime, policy: Policy) -> int:
    """Paid units of *life* in *month* from *start* on. A unit under way at *start* counts, unless that is the month's
    start: then it belongs to the month before."""
    if start > month.start and life.created_at < start:
        start = max(month.start, unit_begin(life.created_at, start, policy.billing))
    return units_between(life, start, month.end, now, policy.billing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The nodes of one size: *always* existed all the time, at least one for *any_hours*, at most *peak*."""

    size: str
    always: int
    any_hours: Decimal
    peak: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentAdvice:
    """The effect of one commitment in the period.

    *break_even* is the ratio of all hours for which a node must exist so that a commitment costs no more than
    on-demand hours (1 or more: never). *recommended* nodes existed longer; committing to them would have saved
    *saves_usd*. Prices and *break_even* are None without a known on-demand price.
    """

    commitment: Commitment
    on_demand_usd_per_hour: Decimal | None
    break_even: Decimal | None
    recommended: int
    saves_usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedAdvice:
    """What one committed node more or fewer of *pool* (a name) would have saved in the month, in USD (negative: cost).
    More than *nodes* existed for *beyond_hours*, and work held the GPUs of whole nodes for *held_hours*. What is left
    of the month speaks for no change."""

    pool: str
    nodes: int
    usd_per_hour: Decimal
    until: datetime
    beyond_hours: Decimal
    held_hours: Decimal
    more_saves_usd: Decimal
    fewer_saves_usd: Decimal


def committed_advice(
    lives: Sequence[NodeLife], attributed: Attributed, policy: Policy, month: Month, until: datetime
) -> Iterator[CommittedAdvice]:
    """Yield the advice on each pool with a commitment in force at *until*, which is in *month* or its end.

    A node beyond the commitment exists only while it is needed. Committed nodes stay: that many were needed at once for
    no longer than the share that their number has of the time for which work held GPUs.
    """
    for pool in policy.pools:
        committed = policy.billing.committed_to(pool.id, until - timedelta(microseconds=1))
        if committed is None or pool.price_usd_per_hour is None:
            continue
        members = [life for life in lives if life.pool == pool.id]
        at_least = occupancy(members, month.start, until).at_least
        last, beyond = (
            hours(at_least[n]) if n < len(at_least) else Decimal(0) for n in (committed.nodes - 1, committed.nodes)
        )
        gpus = max((life.gpus for life in members), default=0.0) or 1.0
        held = Decimal(attributed.held_seconds(pool.id) / gpus / 3600)
        needed = min(last, held / committed.nodes) + hours(month.end - until)
        whole = hours(month.end - month.start) * committed.usd_per_hour
        yield CommittedAdvice(
            pool=pool.name,
            nodes=committed.nodes,
            usd_per_hour=committed.usd_per_hour,
            until=committed.until,
            beyond_hours=beyond,
            held_hours=held,
            more_saves_usd=beyond * pool.price_usd_per_hour - whole,
            fewer_saves_usd=whole - needed * pool.price_usd_per_hour,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedCapacity:
    """Advice on committed capacity: on the *offers* that are configured, and on what *pools* have."""

    offers: tuple[CommitmentAdvice, ...] = ()
    pools: tuple[CommittedAdvice, ...] = ()


def baselines(lives: Iterable[NodeLife], start: datetime, until: datetime) -> tuple[Baseline, ...]:
    """Return the baselines by size."""
    by_size = _by_size(lives, start, until)
    return tuple(
        Baseline(size=size, always=presence.always, any_hours=hours(presence.at_least[0]), peak=presence.peak)
        for size, (presence, _) in sorted(by_size.items())
    )


def advice(
    offers: Iterable[Commitment], lives: Iterable[NodeLife], start: datetime, until: datetime
) -> tuple[CommitmentAdvice, ...]:
    """Evaluate each of *offers* alone against the nodes that existed between *start* and *until*.

    The n-th node of a size pays if ``hours in which n existed x on-demand price > all hours x committed price``.
    On-demand prices are per started hour, which is more than the time of existence, so the savings are a lower bound.
    """
    by_size = _by_size(lives, start, until)
    evaluations = []
    for offer in offers:
        presence, price = by_size.get(offer.size, (Occupancy(length=NOTHING), None))
        committed = hours(presence.length) * offer.usd_per_hour
        gains = [hours(lasted) * price - committed for lasted in presence.at_least] if price is not None else []
        paying = [gain for gain in gains if gain > 0]
        evaluations.append(
            CommitmentAdvice(
                commitment=offer,
                on_demand_usd_per_hour=price,
                break_even=offer.usd_per_hour / price if price else None,
                recommended=len(paying),
                saves_usd=sum(paying, Decimal(0)),
            )
        )
    return tuple(evaluations)


def _by_size(
    lives: Iterable[NodeLife], start: datetime, until: datetime
) -> dict[str, tuple[Occupancy, Decimal | None]]:
    by_size: defaultdict[str, list[NodeLife]] = defaultdict(list)
    for life in sorted(lives, key=lambda x: (x.created_at, x.instance)):
        by_size[life.size].append(life)
    presences = {}
    for size, members in by_size.items():
        presence = occupancy(members, start, until)
        if presence.peak:
            prices = [x.price_usd_per_hour for x in members if x.price_usd_per_hour is not None]
            presences[size] = presence, prices[-1] if prices else None
    return presences
