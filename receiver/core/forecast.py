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


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a forecast is drawn from: USD per hour of what runs now (*burn*), USD per hour spent *since* then (*rate*,
    None: not known), and the time *left* in the month."""

    burn: Decimal
    rate: Decimal | None
    left: timedelta
    since: datetime | None = None


def pace(usd: Decimal, since: datetime, now: datetime) -> Decimal:
    """USD per hour that *usd* comes to over the hours that have started from *since* to *now*."""
    return usd / (max(0, (now - since) // HOUR) + 1)


def forecast(spent: Decimal, course: Course | None) -> Forecast:
    """Return what *spent* USD will be at the month's end; nothing is known without a *course*."""
    if course is None:
        return Forecast()
    hours = Decimal(max(0, round(course.left.total_seconds()))) / Decimal(3600)
    burn = spent + course.burn * hours
    if course.rate is None:
        return Forecast(burn=burn)
    return Forecast(burn=burn, trend=spent + course.rate * hours, since=course.since)
