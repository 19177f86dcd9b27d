"""What of a node's life was paid for within a part of the month, and the month day by day."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from receiver.core.budget import Month
from receiver.core.cost import unit_price, units_since
from receiver.core.memory import NodeLife
from receiver.core.policy import Billing

HOUR = timedelta(hours=1)


def units_within(life: NodeLife, start: datetime, end: datetime, now: datetime, billing: Billing) -> int:
    """Paid units of *life* that began at or after *start* and before *end*, as known at *now*."""
    return units_since(life, start, now, billing) - units_since(life, end, now, billing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One calendar day of the month: USD of the paid units that began on it, by what became of them."""

    day: date
    used_usd: Decimal
    idle_usd: Decimal

    @property
    def usd(self) -> Decimal:
        """Both together."""
        return self.used_usd + self.idle_usd


def days(
    lives: Iterable[NodeLife], used: Mapping[str, Decimal], month: Month, zone: str, now: datetime, billing: Billing
) -> tuple[Day, ...]:
    """Return the days of *month* that have begun at *now*, in the calendar of *zone*.

    *used* is the ratio of each instance's paid time that work used. It is known per instance and month, so that the
    days of a node share it.
    """
    bounds = _bounds(month, zone, now)
    used_usd = [Decimal(0)] * len(bounds)
    idle_usd = [Decimal(0)] * len(bounds)
    for life in lives:
        if life.price_usd_per_hour is None:
            continue
        price, ratio = unit_price(life.price_usd_per_hour, billing), used.get(life.instance, Decimal(0))
        for number, (_, start, end) in enumerate(bounds):
            if end <= life.created_at or (life.gone_at is not None and life.gone_at + billing.granularity < start):
                continue
            usd = units_within(life, start, end, now, billing) * price
            used_usd[number] += usd * ratio
            idle_usd[number] += usd * (1 - ratio)
    return tuple(Day(day=day, used_usd=used_usd[n], idle_usd=idle_usd[n]) for n, (day, _, _) in enumerate(bounds))


def _bounds(month: Month, zone: str, now: datetime) -> list[tuple[date, datetime, datetime]]:
    """Each day with its first moment and that of the next: 23, 24 or 25 hours apart."""
    found = []
    day = month.start.astimezone(ZoneInfo(zone)).date()
    start = month.start
    while start < month.end and start <= now:
        following = day + timedelta(days=1)
        end = datetime(following.year, following.month, following.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
        found.append((day, start, end))
        day, start = following, end
    return found
