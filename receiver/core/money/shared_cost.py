"""What no workload held, shared out among those that held GPUs, so that the bills of teams add up to the invoice."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from receiver.core.model.policy import Unallocated
from receiver.core.model.usage import Usage
from receiver.core.money.attribution import FINEST, Attributed, Part, Share

Weights = Mapping[Usage, Decimal]  # USD of what each held, by whose it is


def shared_out(attributed: Attributed) -> Attributed:
    """Return *attributed* with what was unallocated in a pool shared in proportion to the cost of what each workload
    held there in the month, a pool that nobody held in proportion to what was held in all pools. The shares keep their
    part, and have the *usage* of whose they are with nothing held. Where nothing was held at all nothing changes."""
    unallocated: defaultdict[str, list[Share]] = defaultdict(list)
    others: list[Share] = []
    by_pool: defaultdict[str, defaultdict[Usage, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    everywhere: defaultdict[Usage, Decimal] = defaultdict(Decimal)
    for share in attributed.shares:
        if share.part is Part.UNALLOCATED and share.usd > 0:
            unallocated[share.pool].append(share)
            continue
        others.append(share)
        if share.usage is not None and share.usd > 0:
            holder = Usage(
                month=share.usage.month,
                instance="",
                workload=share.usage.workload,
                namespace=share.usage.namespace,
                owner=share.usage.owner,
            )
            by_pool[share.pool][holder] += share.usd
            everywhere[holder] += share.usd
    for pool, shares in unallocated.items():
        others += _spread(shares, by_pool.get(pool) or everywhere)
    return replace(attributed, shares=tuple(others), unallocated=Unallocated.SHARE)


def taken_apart(attributed: Attributed) -> Attributed:
    """Undo `shared_out`, as for the budgets of teams: they count what was held."""
    shares = (share if share.part is Part.HELD else replace(share, usage=None) for share in attributed.shares)
    return replace(attributed, shares=tuple(shares), unallocated=Unallocated.SEPARATE)


def _spread(shares: Sequence[Share], weights: Weights) -> Iterator[Share]:
    """Yield *shares* in parts that belong to the holders in *weights*: one after the other, so that there are at most
    as many parts as shares and holders together, and their sums are exact."""
    if not weights:
        yield from shares
        return
    remaining = sum((share.usd for share in shares), Decimal(0))
    weight = sum(weights.values(), Decimal(0))
    whole = iter(sorted(shares, key=lambda share: share.instance))
    share = next(whole)
    rest = share.usd
    holders = sorted(weights, key=lambda usage: (usage.workload, repr(usage.owner)))
    total = remaining
    for holder in holders:
        is_last = holder is holders[-1]
        due = remaining if is_last else (total * weights[holder] / weight).quantize(FINEST)
        remaining -= due
        while due > 0 or is_last:
            taken = rest if is_last else min(due, rest)
            if taken > 0:
                seconds = share.seconds * float(taken / share.usd)
                usage = replace(holder, instance=share.instance)
                yield replace(share, usd=taken, seconds=seconds, usage=usage)
            due, rest = due - taken, rest - taken
            if rest > 0:
                break
            following = next(whole, None)
            if following is None:
                return
            share, rest = following, following.usd
