"""What the month would have cost if the capacity of its peak had been kept all the time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from receiver.core.budget import Month
from receiver.core.cost import unit_price
from receiver.core.memory import NodeLife
from receiver.core.policy import Policy
from receiver.core.report.days import cost_in
from receiver.core.report.occupancy import occupancy


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysOn:
    """The comparison: each pool at the most nodes that it had at once, from the month's start until now or its end.

    *usd* is what that costs at each pool's last price, *spent_usd* what the same pools did cost, *peaks* the node
    counts by the pool's name. *left_out* are pools whose nodes have no price. It says what scaling saves, and
    nothing about other autoscalers: each of them scales too.
    """

    usd: Decimal
    spent_usd: Decimal
    peaks: Mapping[str, int]
    left_out: tuple[str, ...] = ()

    @property
    def saved_usd(self) -> Decimal:
        """What scaling saved; below 0 where nodes that came and went cost more than keeping them."""
        return self.usd - self.spent_usd

    @property
    def saved_ratio(self) -> Decimal | None:
        """The same as a ratio of the always-on cost, None where that is nothing."""
        return self.saved_usd / self.usd if self.usd else None


def always_on(lives: Iterable[NodeLife], policy: Policy, month: Month, now: datetime) -> AlwaysOn:
    """Compare the nodes of *lives* in *month*, until *now*, with as many as each pool had at its peak."""
    until = min(now, month.end)
    by_pool: dict[str, list[NodeLife]] = {}
    for life in lives:
        by_pool.setdefault(life.pool, []).append(life)
    usd = spent = Decimal(0)
    peaks: dict[str, int] = {}
    left_out: list[str] = []
    for pool_id, members in sorted(by_pool.items()):
        found = occupancy(members, month.start, until)
        if not found.peak:
            continue
        pool = policy.pool(pool_id)
        name = pool.name if pool else pool_id
        paid = [(cost_in(life, month, now, policy), life.price_usd_per_hour) for life in members]
        price = max(members, key=lambda life: (life.created_at, life.instance)).price_usd_per_hour
        if price is None or any(each is None for _, each in paid):
            left_out.append(name)
            continue
        peaks[name] = found.peak
        usd += found.peak * -(-found.length // policy.billing.granularity) * unit_price(price, policy.billing)
        spent += sum((cost for cost, _ in paid), Decimal(0))
    return AlwaysOn(usd=usd, spent_usd=spent, peaks=peaks, left_out=tuple(left_out))
