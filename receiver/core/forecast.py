"""What a month will have cost at its end, by two plain extrapolations."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

SECONDS_PER_HOUR = Decimal(3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """USD at the month's end. *burn*: what runs now goes on running; *trend*: the days behind go on. None: unknown."""

    burn: Decimal | None = None
    trend: Decimal | None = None


def forecast(spent: Decimal, burn: Decimal, rate: Decimal | None, left: timedelta) -> Forecast:
    """Return what *spent* USD will be after *left*, at *burn* USD per hour of what runs now and at the past *rate*."""
    hours = Decimal(max(0, round(left.total_seconds()))) / SECONDS_PER_HOUR
    return Forecast(burn=spent + burn * hours, trend=None if rate is None else spent + rate * hours)
