"""The month day by day."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from receiver.core.attribution import units_in
from receiver.core.budget import Month
from receiver.core.cost import unit_price, units_since
from receiver.core.memory import NodeLife
from receiver.core.policy import Policy
from receiver.core.report.amounts import DOING_NOTHING
from receiver.core.report.lines import PaidFor, Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One calendar day of the month: USD of the paid units that began on it, by what they came to."""

    day: date
    usd_for: Mapping[PaidFor, Decimal]

    @property
    def usd(self) -> Decimal:
        """All of it."""
        return sum(self.usd_for.values(), Decimal(0))

    @property
    def idle_usd(self) -> Decimal:
        """What did nothing."""
        return sum((self.usd_for.get(each, Decimal(0)) for each in DOING_NOTHING), Decimal(0))


def days(
    lives: Iterable[NodeLife], pieces: Iterable[Piece], month: Month, policy: Policy, now: datetime
) -> tuple[Day, ...]:
    """Return the days of *month* that have begun at *now*, in the calendar of the policy's zone.

    What a node came to is known per month: its days share the ratio. What was spent before the ledger began is in no
    day.
    """
    parts: dict[str, dict[PaidFor, Decimal]] = {}
    for piece in pieces:
        here = parts.setdefault(piece.instance, {})
        here[piece.whose.paid_for] = here.get(piece.whose.paid_for, Decimal(0)) + piece.usd
    bounds = tuple(_bounds(month, policy.timezone, now))
    usd_for: list[dict[PaidFor, Decimal]] = [{} for _ in bounds]
    for life in lives:
        whole = units_in(life, month, now, policy.billing)
        if not whole or life.instance not in parts:
            continue
        for number, (_, start, end) in enumerate(bounds):
            begun = units_within(life, start, end, now, policy)
            for paid_for, usd in parts[life.instance].items() if begun else ():
                here = usd_for[number]
                here[paid_for] = here.get(paid_for, Decimal(0)) + usd * begun / whole
    return tuple(Day(day=day, usd_for=found) for (day, _, _), found in zip(bounds, usd_for, strict=True))


def units_within(life: NodeLife, start: datetime, end: datetime, now: datetime, policy: Policy) -> int:
    """Paid units of *life* that began at or after *start* and before *end*, as known at *now*."""
    if end <= life.created_at or (life.gone_at is not None and life.gone_at + policy.billing.granularity < start):
        return 0  # most nodes live for a few of the month's days only
    return units_since(life, start, now, policy.billing) - units_since(life, end, now, policy.billing)


def cost_in(life: NodeLife, month: Month, now: datetime, policy: Policy) -> Decimal:
    """USD of *life* in *month* until *now*; 0 without a price."""
    if life.price_usd_per_hour is None:
        return Decimal(0)
    return units_in(life, month, now, policy.billing) * unit_price(life.price_usd_per_hour, policy.billing)


def _bounds(month: Month, zone: str, now: datetime) -> Iterator[tuple[date, datetime, datetime]]:
    """Each day with its first moment and that of the next: 23, 24 or 25 hours apart."""
    day, start = month.start.astimezone(ZoneInfo(zone)).date(), month.start
    while start < month.end and start <= now:
        following = day + timedelta(days=1)
        end = datetime(following.year, following.month, following.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
        yield day, start, end
        day, start = following, end
