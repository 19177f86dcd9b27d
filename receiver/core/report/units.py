"""Cost per unit of work, where the operator said how to count one."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.policy import UnitOfWork
from receiver.core.money.budget import Month

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
