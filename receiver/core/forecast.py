"""What a month will have cost at its end: one function for every budget, page, metric and report.

It draws two straight lines and knows no window, no weekend and no work to come.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """USD at the month's end. *burn*: what runs now goes on running; *trend*: the pace since *since* goes on, which is
    when the month or the ledger began, whichever is later. None: unknown."""

    burn: Decimal | None = None
    trend: Decimal | None = None
    since: datetime | None = None


def pace(usd: Decimal, since: datetime, now: datetime) -> Decimal:
    """USD per hour that *usd* comes to over the hours that have started from *since* to *now*."""
    return usd / (max(0, (now - since) // HOUR) + 1)


def forecast(
    spent: Decimal, burn: Decimal, rate: Decimal | None, left: timedelta, since: datetime | None = None
) -> Forecast:
    """Return what *spent* USD will be after *left*, at *burn* USD per hour of what runs now, and at the *rate* USD per
    hour that was spent *since* then (None: not known)."""
    hours = Decimal(max(0, round(left.total_seconds()))) / Decimal(3600)
    if rate is None:
        return Forecast(burn=spent + burn * hours)
    return Forecast(burn=spent + burn * hours, trend=spent + rate * hours, since=since)
