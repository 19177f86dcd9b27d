"""What Civo charged: records of hours without money (``GET /v2/charges``), how they compare with the ledger, and what a
month had cost before this ledger began.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.policy import Policy

NODE = "kube-node-"  # what the code of a Kubernetes node begins with; its size follows
LONGEST_WINDOW = timedelta(days=31)  # Civo refuses a longer one: parameter_date_range_too_long
ASK_EVERY = timedelta(minutes=15)
ASK_AGAIN = timedelta(minutes=1)  # while growth waits for the answer
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One record: *code* says what was used, *label* whose it is (of a node: assumed to be its host name).

    *hours* is what Civo counts, None when the record does not say; then *frm* to *to* tells. *to* is None while it
    runs on. *nodes* multiplies the hours. *size_gb* is there for volumes. *product* may be the instance's id.
    """

    code: str
    label: str = ""
    id: str | None = None
    frm: datetime | None = None
    to: datetime | None = None
    hours: Decimal | None = None
    nodes: int = 1
    size_gb: Decimal | None = None
    product: str | None = None

    @property
    def size(self) -> str | None:
        """The size of the Kubernetes nodes that it is for, or None."""
        return self.code.removeprefix(NODE) if self.code.startswith(NODE) else None

    def hours_in(self, start: datetime, end: datetime) -> Decimal:
        """Hours of it that fall between *start* and *end*, times its nodes.

        Inside of them Civo's own count holds. What reaches beyond them counts for as many started hours as lie
        between them, and never for more than Civo counts: nobody says whether Civo clips its count to the window.
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
    """Civo's last answer for *month*. *unreadable* says of each record that could not be read what is wrong with it.

    *asked_at* is when it was last asked, *answered_at* when the records were read (None: never), *failure* why the
    last question had no answer, *failing_since* since when.
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
    DifferenceCause.NOT_CHARGED_YET: "not in the charges yet, or not whole: they lag",
    DifferenceCause.NOT_CHARGED: "the charges do not have it",
    DifferenceCause.SEEN_LATE: "its end was seen late: nobody looked when it went",
    DifferenceCause.STILL_CHARGED: "Civo charges it beyond the end that was seen: look whether it is really gone",
    DifferenceCause.HOURS_DIFFER: "the same node with other hours, by no cause that its times show",
    DifferenceCause.BEFORE_LEDGER: "its life was over before this ledger began; the seed holds it",
    DifferenceCause.ELSEWHERE: "it lives and is in no configured pool: of another cluster or another pool",
    DifferenceCause.CAME_AND_WENT: (
        "its life is not in the ledger: it came and went unseen, or is of another cluster or pool"
    ),
    DifferenceCause.NOT_TOLD_APART: "no label of a charge is a node's name, so only the sums of this size are compared",
}
# What a person should look into. The others end by themselves, are in the spend already, or are none of ours.
WORTH_TELLING = frozenset(
    {
        DifferenceCause.NOT_CHARGED,
        DifferenceCause.SEEN_LATE,
        DifferenceCause.STILL_CHARGED,
        DifferenceCause.HOURS_DIFFER,
        DifferenceCause.CAME_AND_WENT,
        DifferenceCause.NOT_TOLD_APART,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One node (or one size in sum) of which ledger and charges differ. *usd* is charged less ledger, if priced."""

    size: str
    name: str
    ledger_hours: Decimal
    charged_hours: Decimal
    cause: DifferenceCause
    usd: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsElsewhere:
    """A node that is charged on and that the ledger does not have, with its *hours* of the month so far.

    *label* and *product* are those of its record: by one of them the ledger may know it later.
    """

    size: str
    label: str
    product: str
    hours: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeCompared:
    """One size: the month's hours in ledger and charges, the records compared, and how many are *equal*.

    Equal is within one hour per record. *spare_hours* are charged for nodes that the ledger does not have, *elsewhere*
    are those of them that still run.
    """

    size: str
    ledger_hours: Decimal
    charged_hours: Decimal
    lives: int
    records: int
    equal: int
    spare_hours: Decimal
    elsewhere: tuple[RunsElsewhere, ...] = ()

    @property
    def difference_hours(self) -> Decimal:
        """Charged less ledger."""
        return self.charged_hours - self.ledger_hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Civo's last answer beside the ledger as it was at *charged.answered_at*. *unpriced* are hours by code."""

    charged: Charged
    sizes: tuple[SizeCompared, ...] = ()
    differences: tuple[Difference, ...] = ()
    unpriced: tuple[tuple[str, Decimal], ...] = ()
    account_usd: Decimal | None = None


def windows(frm: datetime, to: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Split *frm* to *to* into windows that Civo answers: a calendar month is one, unless a clock change made it longer
    than 31 days."""
    while frm < to:
        end = min(frm + LONGEST_WINDOW, to)
        yield frm, end
        frm = end


def distinct(answers: Iterable[Iterable[Charge]]) -> tuple[Charge, ...]:
    """Each record of *answers*, one for each window, once: of one that two windows show, that with the most hours.

    What begins at the same time under the same id, or without ids says the same of itself, is one record; two such
    without an id in one answer are two. Where a later window shows only its own part, that begins later and is kept
    beside the first. Records that tell neither id nor beginning are all kept: nobody can tell them apart.
    """
    kept: dict[tuple[object, ...], Charge] = {}
    for number, answer in enumerate(answers):
        seen: Counter[tuple[object, ...]] = Counter()
        for record in answer:
            same: tuple[object, ...] = (record.id, record.frm)
            if record.id is None:
                same = (record.code, record.label, record.product, record.frm, record.nodes, record.size_gb)
                same = (*same, seen[same], None if record.frm is not None else number)
                seen[same[:-2]] += 1
            if same not in kept or (record.hours or 0) > (kept[same].hours or 0):
                kept[same] = record
    return tuple(kept.values())


def is_due(charged: Charged | None, month: str, now: datetime, *, urgent: bool) -> bool:
    """True when Civo should be asked again. *urgent*: growth waits, so the question is repeated soon after it failed
    or had an answer that cannot be read.

    A time from the future was noted under a wrong clock and is not believed.
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
    """USD of *hours* of *charge*, None when nobody knows the price of its code, or the size of what is paid by GB."""
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
    """What *month* had cost when the ledger began to watch, at *at*: *hours* by size, or *usd* beside what it knew.

    *stated* is the month's spend as the operator stated it then, None when nothing was stated. There may be *hours*
    beside it, where the charges told more. *elsewhere* are the nodes whose hours are in *hours* and that still ran: the
    ledger may come to know them, when their pool is configured later.
    """

    month: str
    at: datetime
    hours: Mapping[str, Decimal] = field(default_factory=dict)
    usd: Decimal = Decimal(0)
    stated: Decimal | None = None
    elsewhere: tuple[RunsElsewhere, ...] = ()


def stated_for(policy: Policy, month: str) -> Decimal | None:
    """What the operator says that *month* had cost, if anything."""
    stated = policy.budget.stated if policy.budget else None
    return stated.usd if stated is not None and stated.month == month else None


def new_seed(
    held: Seed | None, compared: Comparison | None, ledger_usd: Decimal, policy: Policy, month: str, now: datetime
) -> Seed | None:
    """Return the seed to keep from now on, or None when *held* stands or nothing can be said yet.

    The living nodes must be in the ledger: *ledger_usd* is what it knows of the month. A stated amount is the whole
    month's up to now; one that is stated anew takes the place of what was held. Where nothing was held it may be a
    left-over from long before the store was lost, so the charges count when they tell more.
    """
    stated = stated_for(policy, month)
    charged = _charged_seed(compared, month, now) if held is None else None
    if stated is not None and (held is None or (held.month, held.stated) != (month, stated)):
        usd = max(Decimal(0), stated - ledger_usd)
        if charged is not None and seeded_usd(charged, policy, month)[0] > usd:
            return replace(charged, stated=stated)
        return Seed(month=month, at=now, usd=usd, stated=stated)
    return charged


def _charged_seed(compared: Comparison | None, month: str, now: datetime) -> Seed | None:
    """What the charges alone tell of *month*; None without a whole answer for it."""
    if compared is None or compared.charged.answered_at is None or compared.charged.unreadable:
        return None
    if compared.charged.month != month:
        return None
    hours = {found.size: found.spare_hours for found in compared.sizes if found.spare_hours}
    elsewhere = tuple(node for found in compared.sizes for node in found.elsewhere)
    return Seed(month=month, at=now, hours=hours, elsewhere=elsewhere)


def beside(seed: Seed | None, known: Iterable[tuple[str, str]]) -> Seed | None:
    """*seed* without the hours of nodes that the ledger has come to know by now: it counts their whole lives.

    *known* are instance id and name of every node in the ledger.
    """
    if seed is None or not seed.elsewhere:
        return seed
    words = {word for both in known for word in both if word}
    hours = dict(seed.hours)
    for node in seed.elsewhere:
        if node.label in words or node.product in words:
            hours[node.size] = max(Decimal(0), hours.get(node.size, Decimal(0)) - node.hours)
    return replace(seed, hours={size: left for size, left in hours.items() if left})


def seeded_usd(seed: Seed | None, policy: Policy, month: str) -> tuple[Decimal, tuple[str, ...]]:
    """USD that *seed* adds to *month*, at the prices of now, and the sizes of it that have none."""
    if seed is None or seed.month != month:
        return Decimal(0), ()
    prices = {size: node_price(size, policy) for size in seed.hours}
    usd = sum((seed.hours[size] * price for size, price in prices.items() if price is not None), seed.usd)
    return usd, tuple(sorted(size for size, price in prices.items() if price is None))


def seeded_by_pool(seed: Seed | None, policy: Policy, month: str) -> tuple[tuple[str, Decimal], ...]:
    """USD that *seed* adds to each pool: what was charged for its size, or else all that was stated.

    Where nobody can tell which pool it was (several have the size, or an amount was stated) it counts for each.
    """
    if seed is None or seed.month != month:
        return ()
    shares = [
        (p.id, seed.usd + seed.hours.get(p.size, Decimal(0)) * (node_price(p.size, policy) or 0)) for p in policy.pools
    ]
    return tuple((pool, usd) for pool, usd in shares if usd)
