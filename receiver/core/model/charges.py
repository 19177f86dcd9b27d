"""Civo's charges (``GET /v2/charges``: hours without amounts), their comparison with the ledger, and the seed: the cost
of a month before the ledger began.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.policy import Policy

NODE = "kube-node-"  # prefix of the code of a Kubernetes node, before its size
LONGEST_WINDOW = timedelta(days=31)  # Civo refuses a longer one: parameter_date_range_too_long
ASK_EVERY = timedelta(minutes=15)
ASK_AGAIN = timedelta(minutes=1)  # while growth depends on the answer
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One record of Civo's charges."""

    code: str  # the product used
    label: str = ""  # its name (of a node: assumed to be its host name)
    id: str | None = None
    frm: datetime | None = None
    to: datetime | None = None  # None while it still runs
    hours: Decimal | None = None  # Civo's count, None if missing: then *frm* to *to* counts
    nodes: int = 1  # multiplies the hours
    size_gb: Decimal | None = None  # of volumes
    product: str | None = None  # may be the instance's id

    @property
    def size(self) -> str | None:
        """The size of the Kubernetes nodes, None for other products."""
        return self.code.removeprefix(NODE) if self.code.startswith(NODE) else None

    def hours_in(self, start: datetime, end: datetime) -> Decimal:
        """Its hours between *start* and *end*, times its nodes.

        Within them Civo's count is used. A record that reaches beyond them counts for its started hours between them,
        at most Civo's count: it is undocumented whether Civo clips its count to the window.
        """
        if (self.to is not None and self.to <= start) or (self.frm is not None and self.frm >= end):
            return Decimal(0)
        if self.frm is None:
            return (self.hours or Decimal(0)) * self.nodes
        until = end if self.to is None else min(self.to, end)
        lasted = max(1, -((max(self.frm, start) - until) // HOUR))  # started hours
        if self.hours is None:
            return Decimal(lasted) * self.nodes
        inside = self.frm >= start and (self.to is None or self.to <= end)
        return (self.hours if inside else min(self.hours, Decimal(lasted))) * self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """Civo's last answer for *month*. *unreadable* describes each record that could not be read.

    *failure* is the error of the last request, *failing_since* the time of the first of consecutive failures.
    """

    month: str
    asked_at: datetime
    answered_at: datetime | None = None
    records: tuple[Charge, ...] = ()
    unreadable: tuple[str, ...] = ()
    failure: str = ""
    failing_since: datetime | None = None


class DifferenceCause(StrEnum):
    """Why the ledger and Civo's charges differ by more than an hour for one node."""

    NOT_CHARGED_YET = "not_charged_yet"
    NOT_CHARGED = "not_charged"
    SEEN_LATE = "seen_late"
    STILL_CHARGED = "still_charged"
    HOURS_DIFFER = "hours_differ"
    BEFORE_LEDGER = "before_ledger"
    ELSEWHERE = "elsewhere"
    CAME_AND_WENT = "came_and_went"
    NOT_TOLD_APART = "not_told_apart"


EXPLAINED: dict[DifferenceCause, str] = {
    DifferenceCause.NOT_CHARGED_YET: "not in the charges yet, or only in part: they lag",
    DifferenceCause.NOT_CHARGED: "it is not in the charges",
    DifferenceCause.SEEN_LATE: "its end was observed late: this process did not run when it was deleted",
    DifferenceCause.STILL_CHARGED: "Civo still bills it after its deletion was seen: check that the instance is gone",
    DifferenceCause.HOURS_DIFFER: "the hours of the same node differ, and its times do not show why",
    DifferenceCause.BEFORE_LEDGER: "it was gone before this ledger began; the seed includes it",
    DifferenceCause.ELSEWHERE: "it runs and is in no configured pool: of another cluster or another pool",
    DifferenceCause.CAME_AND_WENT: (
        "it is not in the ledger: it came and went unobserved, or is of another cluster or pool"
    ),
    DifferenceCause.NOT_TOLD_APART: "no label of a charge is a node's name, so only the sums of this size are compared",
}
# What an operator should look into. The others resolve themselves, are in the spend already, or are not ours.
WORTH_TELLING = frozenset(DifferenceCause) - {
    DifferenceCause.NOT_CHARGED_YET,
    DifferenceCause.BEFORE_LEDGER,
    DifferenceCause.ELSEWHERE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One node (or the sum of a size) for which ledger and charges differ. *usd* is charged less ledger, if priced."""

    size: str
    name: str
    ledger_hours: Decimal
    charged_hours: Decimal
    cause: DifferenceCause
    usd: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsElsewhere:
    """A running node that is charged and not in the ledger, which may later know it by *label* or *product*."""

    size: str
    label: str
    product: str
    hours: Decimal  # of the month so far


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeCompared:
    """One size: the month's hours in ledger and charges."""

    size: str
    ledger_hours: Decimal
    charged_hours: Decimal
    lives: int
    records: int
    equal: int  # records that agree within an hour
    spare_hours: Decimal  # charged for nodes that are not in the ledger
    elsewhere: tuple[RunsElsewhere, ...] = ()  # those of them that still run

    @property
    def difference_hours(self) -> Decimal:
        return self.charged_hours - self.ledger_hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Civo's last answer compared with the ledger at *charged.answered_at*. *unpriced* are hours by code."""

    charged: Charged
    sizes: tuple[SizeCompared, ...] = ()
    differences: tuple[Difference, ...] = ()
    unpriced: tuple[tuple[str, Decimal], ...] = ()
    account_usd: Decimal | None = None


def windows(frm: datetime, to: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Split *frm* to *to* into windows that Civo accepts."""
    while frm < to:
        end = min(frm + LONGEST_WINDOW, to)
        yield frm, end
        frm = end


def distinct(answers: Iterable[Iterable[Charge]]) -> tuple[Charge, ...]:
    """Return the records of *answers* (one per window) without duplicates; of a record in two, the one with more hours.

    Records are the same if id and beginning are equal, or without ids all their fields; two such in one answer are two
    records. Records with neither id nor beginning cannot be distinguished and are all kept.
    """
    records: dict[tuple[object, ...], Charge] = {}
    for number, answer in enumerate(answers):
        occurrences: Counter[tuple[object, ...]] = Counter()
        for record in answer:
            identity: tuple[object, ...] = (record.id, record.frm)
            if record.id is None:
                identity = (record.code, record.label, record.product, record.frm, record.nodes, record.size_gb)
                identity = (*identity, occurrences[identity], None if record.frm is not None else number)
                occurrences[identity[:-2]] += 1
            if identity not in records or (record.hours or 0) > (records[identity].hours or 0):
                records[identity] = record
    return tuple(records.values())


def is_due(charged: Charged | None, month: str, now: datetime, *, urgent: bool) -> bool:
    """True when Civo should be asked again: soon after a failed or unreadable answer if it is *urgent* (growth waits).

    A time in the future was recorded under a wrong clock and is ignored.
    """
    if charged is None or charged.month != month or charged.asked_at > now:
        return True
    return now - charged.asked_at >= (ASK_AGAIN if urgent and (charged.failure or charged.unreadable) else ASK_EVERY)


def node_price(size: str, policy: Policy) -> Decimal | None:
    """USD per node-hour of *size*: the highest of the pools that have it, else the price file's, else None."""
    own = [p.price_usd_per_hour for p in policy.pools if p.size == size and p.price_usd_per_hour is not None]
    if own:
        return max(own)
    listed = policy.charge_prices.get(NODE + size)
    return listed.usd_per_hour if listed else None


def cost(charge: Charge, hours: Decimal, policy: Policy) -> Decimal | None:
    """USD of *hours* of *charge*, None if the price of its code, or the size of something paid by GB, is unknown."""
    if charge.size is not None:
        price = node_price(charge.size, policy)
        return None if price is None else hours * price
    listed = policy.charge_prices.get(charge.code)
    if listed is None:
        return None
    if listed.usd_per_hour is not None:
        return hours * listed.usd_per_hour
    if listed.usd_per_gb_hour is None or charge.size_gb is None:
        return None
    return hours * charge.size_gb * listed.usd_per_gb_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """The cost of *month* before the ledger began, at *at*: *hours* by size, or *usd* of what the operator *stated*.

    *elsewhere* are the nodes in *hours* that still ran: the ledger may know them later, when their pool is configured.
    *prices* are those of *hours* in USD when it was made; a size without one is counted at its first price.
    """

    month: str
    at: datetime
    hours: Mapping[str, Decimal] = field(default_factory=dict)
    usd: Decimal = Decimal(0)
    stated: Decimal | None = None
    elsewhere: tuple[RunsElsewhere, ...] = ()
    prices: Mapping[str, Decimal] = field(default_factory=dict)


def new_seed(
    held: Seed | None, compared: Comparison | None, ledger_usd: Decimal, policy: Policy, month: str, now: datetime
) -> Seed | None:
    """Return the new seed to keep, or None if *held* stays valid or nothing is known yet.

    Living nodes must be in the ledger, whose spend of the month is *ledger_usd*. A stated amount is the whole month's
    up to now; a newly stated one replaces *held*. Without *held*, the stated amount may date from long before the store
    was lost, so higher charges win.
    """
    charged = None
    bill = compared.charged if compared is not None and held is None else None
    if compared is not None and bill is not None and bill.answered_at and not bill.unreadable and bill.month == month:
        hours = {size.size: size.spare_hours for size in compared.sizes if size.spare_hours}
        elsewhere = tuple(node for size in compared.sizes for node in size.elsewhere)
        charged = _priced(Seed(month=month, at=now, hours=hours, elsewhere=elsewhere), policy)
    stated = policy.budget.stated if policy.budget else None
    priced = _priced(held, policy) if held is not None and held.month == month else None
    seed = charged or (priced if priced != held else None)
    if stated is None or stated.month != month:
        return seed
    if held is not None and (held.month, held.stated) == (month, stated.usd):
        return seed
    usd = max(Decimal(0), stated.usd - ledger_usd)
    if charged is not None and seeded_usd(charged, policy, month)[0] > usd:
        return replace(charged, stated=stated.usd)
    return Seed(month=month, at=now, usd=usd, stated=stated.usd)


def _priced(seed: Seed, policy: Policy) -> Seed:
    """Return *seed* with the present price of each of its sizes that had none before."""
    present = {size: node_price(size, policy) for size in seed.hours if size not in seed.prices}
    return replace(seed, prices={**seed.prices, **{size: usd for size, usd in present.items() if usd is not None}})


def price_then(size: str, seed: Seed | None, policy: Policy) -> Decimal | None:
    """USD per node-hour of *size* from before the ledger: when *seed* was made, else now; None if it has no price."""
    then = seed.prices.get(size) if seed is not None else None
    return node_price(size, policy) if then is None else then


def beside(seed: Seed | None, ledger_nodes: Iterable[tuple[str, str]]) -> Seed | None:
    """Return *seed* without the hours of the nodes in the ledger, *ledger_nodes* (instance id and name)."""
    if seed is None or not seed.elsewhere:
        return seed
    words = {word for names in ledger_nodes for word in names if word}
    hours = dict(seed.hours)
    for node in seed.elsewhere:
        if node.label in words or node.product in words:
            hours[node.size] = max(Decimal(0), hours.get(node.size, Decimal(0)) - node.hours)
    return replace(seed, hours={size: hours_left for size, hours_left in hours.items() if hours_left})


def seeded_usd(seed: Seed | None, policy: Policy, month: str) -> tuple[Decimal, tuple[str, ...]]:
    """USD that *seed* adds to *month*, and its sizes without a price."""
    if seed is None or seed.month != month:
        return Decimal(0), ()
    prices = {size: price_then(size, seed, policy) for size in seed.hours}
    usd = sum((seed.hours[size] * price for size, price in prices.items() if price is not None), seed.usd)
    return usd, tuple(sorted(size for size, price in prices.items() if price is None))


def seeded_by_pool(seed: Seed | None, policy: Policy, month: str) -> tuple[tuple[str, Decimal], ...]:
    """USD that *seed* adds to each pool, in full for each that it may belong to: the charges of its size, and *usd*."""
    if seed is None or seed.month != month:
        return ()
    shares = [
        (p.id, seed.usd + seed.hours.get(p.size, Decimal(0)) * (price_then(p.size, seed, policy) or 0))
        for p in policy.pools
    ]
    return tuple((pool, usd) for pool, usd in shares if usd)
