"""Since when and up to when the ledger knows who held GPUs, and what of a node's time it therefore cannot tell."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Billing
from receiver.core.money.budget import Month
from receiver.core.money.cost import first_unit_from
from receiver.core.money.workload_lives import CONTINUOUS

SETTLED_AFTER = timedelta(hours=1)  # beside the paid unit that began last: by then its use is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Usage was accounted for from *since* on (None: it never was) up to *until*.

    Pauses in between are in the ledger, as `Unwatched`. Months before that of *kept_from* (UTC) were forgotten.
    """

    since: datetime | None = None
    until: datetime | None = None
    kept_from: datetime | None = None

    def observed_from(self, month: Month) -> datetime | None:
        """From when on it is known who held what in *month*, None when it is of nothing in it."""
        forgotten = self.kept_from is not None and month.name < f"{self.kept_from:%Y-%m}"
        if self.since is None or self.since >= month.end or forgotten:
            return None
        return max(self.since, month.start)

    def lags(self, now: datetime) -> bool:
        """True when what is not accounted for yet is no more than an accounting that goes on leaves to the next."""
        return self.until is not None and now - self.until <= CONTINUOUS


def is_settled(month: Month, watch: Watch | None, now: datetime, billing: Billing) -> bool:
    """True when nothing of *month* is still to come: its last paid unit is over and accounted for, and an hour has
    passed in which Civo could say what is gone. Without *watch* only the time counts."""
    last = month.end + billing.granularity
    known = watch is None or (watch.until is not None and watch.until >= last)
    return known and now >= last + SETTLED_AFTER


def unseen_in(
    life: NodeLife, known: float, month: Month, now: datetime, billing: Billing, watch: Watch | None
) -> tuple[float, float]:
    """Seconds of *life* in *month* that nobody has accounted for, and those that the next accounting will.

    The first is all of it where the ledger began later, the node was not seen before the month was over, or the month
    was forgotten, less what is *known* all the same (seconds: pods that stay say since when). Else it is what has
    passed since the last accounting. Without *watch* there is none.
    """
    begin = first_unit_from(life.created_at, month.start, billing)
    end = min(now, life.gone_at or now, first_unit_from(life.created_at, month.end, billing))
    if watch is None or end <= begin:
        return 0.0, 0.0
    since = watch.since
    before = since is None or (life.gone_at is not None and life.gone_at <= since)
    late = life.seen_at is not None and life.seen_at >= month.end
    if before or late or watch.observed_from(month) is None:
        return max((end - begin).total_seconds() - known, 0.0), 0.0
    rest = max((end - max(begin, watch.until or begin)).total_seconds(), 0.0)
    return (0.0, rest) if watch.lags(now) else (rest, 0.0)
