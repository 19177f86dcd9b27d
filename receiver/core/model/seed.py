"""What a month had cost before this ledger began: a lost or new store does not start from nothing.

The seed is made once. It is Civo's charges for nodes of our sizes that the ledger does not have, or what the operator
states; for a new store the larger of the two. Other clusters of the account that use the same sizes are in it too: who
is who cannot be told for nodes that are gone, so it errs to the safe side.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from receiver.core.model.charges import Comparison, RunsElsewhere, node_price
from receiver.core.model.policy import Policy


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
