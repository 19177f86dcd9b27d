"""What the month would have cost if the capacity of its peak had been kept all the time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from receiver.core.cost import unit_price
from receiver.core.memory import NodeLife
from receiver.core.policy import Policy
from receiver.core.report.occupancy import occupancy
from receiver.core.report.paid import units_within


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


def always_on(lives: Iterable[NodeLife], policy: Policy, start: datetime, until: datetime) -> AlwaysOn:
    """Compare the nodes of *lives* between *start* and *until* with as many as each pool had at its peak."""
    by_pool: dict[str, list[NodeLife]] = {}
    for life in lives:
        by_pool.setdefault(life.pool, []).append(life)
    usd = spent = Decimal(0)
    peaks: dict[str, int] = {}
    left_out: list[str] = []
    for pool_id in sorted(by_pool):
        found = occupancy(by_pool[pool_id], start, until)
        if not found.peak:
            continue
        pool = policy.pool(pool_id)
        name = pool.name if pool else pool_id
        here = [x for x in by_pool[pool_id] if x.price_usd_per_hour is not None]
        if len(here) < len(by_pool[pool_id]):
            left_out.append(name)
            continue
        last = max(here, key=lambda x: x.created_at).price_usd_per_hour
        assert last is not None
        whole_units = -(-(until - start) // policy.billing.granularity)
        peaks[name] = found.peak
        usd += found.peak * whole_units * unit_price(last, policy.billing)
        spent += sum((_cost(x, policy, start, until) for x in here), Decimal(0))
    return AlwaysOn(usd=usd, spent_usd=spent, peaks=peaks, left_out=tuple(left_out))


def _cost(life: NodeLife, policy: Policy, start: datetime, until: datetime) -> Decimal:
    assert life.price_usd_per_hour is not None
    count = units_within(life, start, until, until, policy.billing)
    return count * unit_price(life.price_usd_per_hour, policy.billing)
