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
class Outlook:
    """What a forecast is made from, at *at* of a month from *start* to *end*. No step decides by it.

    *burn* is USD per hour of what runs now, *seen* the USD that the ledger has watched *since* then (None: nobody asks
    for a forecast), *beside* the USD that the account has spent this month on other things than nodes.
    """

    at: datetime
    start: datetime
    end: datetime
    burn: Decimal
    seen: Decimal
    since: datetime | None
    beside: Decimal = Decimal(0)

    def forecast(self, spent: Decimal) -> Forecast:
        """Return what the month will have cost, of which *spent* USD were spent so far."""
        hours = Decimal(max(0, round((self.end - self.at).total_seconds()))) / Decimal(3600)
        beside = _pace(self.beside, self.start, self.at)
        burn = spent + (self.burn + beside) * hours
        if self.since is None:
            return Forecast(burn=burn)
        trend = spent + (_pace(self.seen, self.since, self.at) + beside) * hours
        return Forecast(burn=burn, trend=trend, since=self.since)


def _pace(usd: Decimal, since: datetime, now: datetime) -> Decimal:
    """USD per hour that *usd* comes to over the hours that have started from *since* to *now*."""
    return usd / (max(0, (now - since) // HOUR) + 1)
