"""Cost lines added up: by what became of the paid GPU time, and by whose or what it was."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.policy import UnitOfWork
from receiver.core.money.budget import Month
from receiver.core.report.lines import CostLine, PaidFor, Whose

KNOWN = (PaidFor.USED, PaidFor.IDLE, PaidFor.UNALLOCATED)  # of the rest nobody can say whether it was idle
DOING_NOTHING = (PaidFor.IDLE, PaidFor.UNALLOCATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """GPU-hours and what was paid for them in USD."""

    gpu_hours: float = 0.0
    usd: Decimal = Decimal("0.00")

    def plus(self, gpu_hours: float, usd: Decimal) -> "Amount":
        """This and more."""
        return Amount(gpu_hours=self.gpu_hours + gpu_hours, usd=self.usd + usd)


NOTHING = Amount()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtotal:
    """The lines of one *name*, by what the paid time came to."""

    name: str = ""
    amounts: Mapping[PaidFor, Amount] = field(default_factory=dict)

    def of(self, *paid_for: PaidFor) -> Amount:
        """What of it was paid for these; everything without any."""
        found = NOTHING
        for each in paid_for or tuple(PaidFor):
            amount = self.amounts.get(each, NOTHING)
            found = found.plus(amount.gpu_hours, amount.usd)
        return found

    @property
    def total(self) -> Amount:
        """Everything that was paid for."""
        return self.of()

    @property
    def idle(self) -> Amount:
        """What did nothing: held at rest, or held by nobody."""
        return self.of(*DOING_NOTHING)

    @property
    def efficiency(self) -> float | None:
        """1 less idle over paid GPU-hours (ratio 0-1), None of nothing. Hours of which nobody can say whether they
        were idle count on neither side."""
        known = self.of(*KNOWN).gpu_hours
        return min(max(1 - self.idle.gpu_hours / known, 0.0), 1.0) if known > 0 else None


def add_up(lines: Iterable[CostLine], name: str = "") -> Subtotal:
    """Return *lines* as one subtotal."""
    amounts: dict[PaidFor, Amount] = {}
    for line in lines:
        paid_for = line.whose.paid_for
        amounts[paid_for] = amounts.get(paid_for, NOTHING).plus(line.gpu_hours, line.usd)
    return Subtotal(name=name, amounts=amounts)


def by(key: Callable[[Whose], str], lines: Iterable[CostLine]) -> tuple[Subtotal, ...]:
    """Return *lines* in subtotals by *key*, the most expensive first."""
    sorted_in: dict[str, list[CostLine]] = {}
    for line in lines:
        sorted_in.setdefault(key(line.whose), []).append(line)
    found = [add_up(members, name) for name, members in sorted_in.items()]
    return tuple(sorted(found, key=lambda part: (-part.total.usd, part.name)))


RANGE = "$range"  # in a query: how far the month reaches back
SHORTEST = timedelta(minutes=1)  # PromQL takes no empty range


def query_of(unit: UnitOfWork, month: Month, at: datetime) -> str:
    """The query of *unit* as it is asked as of *at*: its placeholder is the part of *month* that has passed by then,
    a minute at least and the month at most, so that no earlier month is counted."""
    passed = max(min(at, month.end) - month.start, SHORTEST)
    return unit.query.replace(RANGE, f"{passed // timedelta(seconds=1)}s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the query of a unit of work said of *month* (``2026-11``), asked for as of *at*."""

    month: str
    name: str
    count: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """*usd* was spent on *count* units; *usd_per* is the cost of *unit.per* of them, None with the reason *why_not*."""

    unit: UnitOfWork
    usd: Decimal
    count: float | None
    usd_per: Decimal | None
    why_not: str = ""


def unit_cost(unit: UnitOfWork, usd: Decimal, count: float | None) -> UnitCost:
    """Return what *per* of *unit* cost. Nothing is divided by a count that nobody gave, or that is no positive one.

    No cost is not divided either: what was counted was done on something, and nobody knows what that cost.
    """
    why_not = ""
    if count is None:
        why_not = "its query gave no value for this month"
    elif not math.isfinite(count) or count <= 0:
        why_not = f"its query counted {count:g}"
    elif usd == 0:
        why_not = "no cost of this month matches its `only`" if unit.only else "nothing was paid for in this month"
    if count is None or why_not:
        return UnitCost(unit=unit, usd=usd, count=count, usd_per=None, why_not=why_not)
    return UnitCost(unit=unit, usd=usd, count=count, usd_per=usd * unit.per / Decimal(str(count)))
