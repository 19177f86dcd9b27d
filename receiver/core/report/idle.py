"""What workloads held although they were idle for longer than the policy allows, and what ending others saved."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.usage import IdleSpan
from receiver.core.money.cost import to_cents

SAVED_AT_MOST = timedelta(days=1)  # by one end: without it the workload might have ended, or worked, by then


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleCost:
    """GPU-hours, and their list price in USD, whole cents, of one *workload* in a month: held idle for too long in so
    many *times*, or, if it was *ended*, saved by that. GPUs without a price are in the hours alone."""

    workload: str
    team: str
    ended: bool
    times: int
    gpu_hours: float
    usd: Decimal

    @property
    def namespace(self) -> str:
        return self.workload.partition("/")[0]


def idle_costs(
    spans: Iterable[IdleSpan], start: datetime, until: datetime, team: str | None = None
) -> tuple[IdleCost, ...]:
    """Return what *spans* came to between *start* and *until*, of all teams or one *team*, the most expensive first.
    Amounts add up to their rounded sum, those that were held and those that were saved each."""
    hours: defaultdict[tuple[bool, str, str], list[float]] = defaultdict(list)
    exact: dict[bool, defaultdict[tuple[bool, str, str], Decimal]] = {
        ended: defaultdict(Decimal) for ended in (False, True)
    }
    for span in spans:
        lasted = min(_end(span, until), until) - max(span.since, start)
        if lasted <= timedelta(0) or team not in (None, span.team):
            continue
        key = span.ended, span.workload, span.team
        length = lasted / timedelta(hours=1)
        hours[key].append(span.gpus * length)
        exact[span.ended][key] += (span.usd_per_hour or Decimal(0)) * Decimal(str(length))
    cents = to_cents(exact[False]) | to_cents(exact[True])
    rows = [
        IdleCost(
            workload=workload,
            team=owner,
            ended=ended,
            times=len(each),
            gpu_hours=sum(each),
            usd=cents[ended, workload, owner],
        )
        for (ended, workload, owner), each in hours.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.ended, -row.usd, row.workload, row.team)))


def _end(span: IdleSpan, until: datetime) -> datetime:
    if not span.ended:
        return span.until or span.since
    return min(span.until or until, span.since + SAVED_AT_MOST)
