"""The month day by day."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy
from receiver.core.money.budget import Month
from receiver.core.money.cost import to_cents, units_between
from receiver.core.report.amounts import DOING_NOTHING
from receiver.core.report.lines import CostLine, CostPiece, PaidFor


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One calendar day of the month: USD of the paid units that began on it, in cents, by what they came to."""

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
    lives: Iterable[NodeLife],
    pieces: Iterable[CostPiece],
    lines: Iterable[CostLine],
    month: Month,
    policy: Policy,
    now: datetime,
) -> tuple[Day, ...]:
    """Return the days of *month* that have begun at *now*, in the calendar of the policy's zone.

    What a node came to is known per month: its days share the ratio. What was spent before the ledger began is in no
    day. *lines* are what *pieces* came to in cents: the days of each `PaidFor` add up to them.
    """
    parts: dict[str, dict[PaidFor, Decimal]] = {}
    for piece in pieces:
        here = parts.setdefault(piece.instance, {})
        here[piece.whose.paid_for] = here.get(piece.whose.paid_for, Decimal(0)) + piece.usd
    bounds = tuple(_bounds(month, policy.timezone, now))
    usd_for: list[dict[PaidFor, Decimal]] = [{} for _ in bounds]
    for life in lives:
        whole = units_between(life, month.start, month.end, now, policy.billing)
        if not whole or life.instance not in parts:
            continue
        for number, (_, start, end) in enumerate(bounds):
            begun = units_between(life, start, end, now, policy.billing)
            for paid_for, usd in parts[life.instance].items() if begun else ():
                here = usd_for[number]
                here[paid_for] = here.get(paid_for, Decimal(0)) + usd * begun / whole
    in_whole_cents = _as_the_month(usd_for, lines)
    return tuple(Day(day=day, usd_for=found) for (day, _, _), found in zip(bounds, in_whole_cents, strict=True))


def _as_the_month(
    exact: Sequence[Mapping[PaidFor, Decimal]], lines: Iterable[CostLine]
) -> list[dict[PaidFor, Decimal]]:
    """The days' *exact* amounts in cents: those of each kind add up to what *lines* say of the month."""
    of_month: dict[PaidFor, Decimal] = {}
    for line in lines:
        of_month[line.whose.paid_for] = of_month.get(line.whose.paid_for, Decimal(0)) + line.usd
    found: list[dict[PaidFor, Decimal]] = [{} for _ in exact]
    for paid_for in PaidFor:
        by_day = {number: day[paid_for] for number, day in enumerate(exact) if paid_for in day}
        for number, usd in to_cents(by_day, of_month.get(paid_for, Decimal(0))).items() if by_day else ():
            found[number][paid_for] = usd
    return found


def _bounds(month: Month, zone: str, now: datetime) -> Iterator[tuple[date, datetime, datetime]]:
    """Each day with its first moment and that of the next: 23, 24 or 25 hours apart."""
    day, start = month.start.astimezone(ZoneInfo(zone)).date(), month.start
    while start < month.end and start <= now:
        following = day + timedelta(days=1)
        end = datetime(following.year, following.month, following.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
        yield day, start, end
        day, start = following, end
