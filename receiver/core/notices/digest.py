"""The message of a week: costs, use, waits and the outlook for the month. In observe mode, the message of a day."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from receiver.core.explain.samples import HeldHours, PoolMinutes
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy
from receiver.core.model.text import dollars, percent, some, span
from receiver.core.model.usage import WorkloadLife
from receiver.core.money.cost import committed_more, unit_price, units_between
from receiver.core.notices.notice import Cause, Notice
from receiver.core.report.report import of_month, queue_waits
from receiver.core.report.would_have import WouldHave, against, conclusion, day, waits

DIGEST_TOPIC, DAY_TOPIC = "digest:week", "digest:day"
SENT_AT = 8  # o'clock
SEEN_ENOUGH = 0.95  # of the week's hours; with fewer, held hours are no share of the paid ones
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """From one Monday morning to the next, as UTC moments; *name* is the day of its end."""

    name: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The cluster's budget at the end of a week, in USD; *spent* and *forecast* are None if unknown."""

    month: str
    monthly: Decimal
    spent: Decimal | None
    forecast: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekFound:
    """What the store has of the *week* at *now*: *minutes* are sums of its samples by pool id, *held* is what workloads
    held, as reports count it."""

    week: Week
    now: datetime
    lives: Sequence[NodeLife]
    workloads: Sequence[WorkloadLife]
    minutes: Mapping[str, PoolMinutes]
    held: HeldHours = field(default_factory=HeldHours)
    outlook: Outlook | None = None


def last_week(now: datetime, timezone: str) -> Week:
    """Return the last week that is over at *now*, by the clocks of *timezone*."""
    local = now.astimezone(ZoneInfo(timezone))
    end = (local - timedelta(days=local.weekday())).replace(hour=SENT_AT, minute=0, second=0, microsecond=0, fold=0)
    if end > local:
        end -= timedelta(days=7)
    start = end - timedelta(days=7)
    return Week(name=f"{end:%Y-%m-%d}", start=start.astimezone(UTC), end=end.astimezone(UTC))


def last_morning(now: datetime, timezone: str) -> datetime:
    """Return when the message of a day was last due at *now*, by the clocks of *timezone*."""
    local = now.astimezone(ZoneInfo(timezone))
    due = local.replace(hour=SENT_AT, minute=0, second=0, microsecond=0, fold=0)
    return (due if due <= local else due - timedelta(days=1)).astimezone(UTC)


def observed_digest(replay: WouldHave, due: datetime) -> Notice:
    """Return the message of the day on which it was *due*, on what was observed."""
    nodes = f"{some(replay.bought, 'node')} would have been added, {replay.removed} removed."
    act = "To apply the decisions: set mode: act."
    would, ran = replay.would_usd, replay.as_run_usd
    cost = dollars(would)
    if would is not None and ran is not None:
        cost = against(would, ran, "was paid")
    return Notice(
        cause=Cause.DIGEST,
        topic=DAY_TOPIC,
        key=f"{due:%Y-%m-%d}",
        title=f"Observed since {day(replay.since)}: act mode would have cost {cost}",
        body="\n".join(line for line in (conclusion(replay), nodes, waits(replay), *replay.notes, act) if line),
        guide="operations.md#observe-first",
    )


def digest(ledger: WeekFound, policy: Policy) -> Notice:
    """Return the message of a week; its key is the week, so that it is sent once, whatever restarts."""
    week, billing = ledger.week, policy.billing
    paid = [(life, units_between(life, week.start, week.end, ledger.now, billing)) for life in ledger.lives]
    priced = [
        count * unit_price(life.price_usd_per_hour, billing)
        for life, count in paid
        if life.price_usd_per_hour is not None
    ]
    committed = committed_more(ledger.lives, week.start, week.end, ledger.now, billing).values()
    unpriced = sorted({life.size for life, count in paid if count and life.price_usd_per_hour is None})
    hours = sum(count * life.gpus for life, count in paid) * (billing.granularity / _HOUR)
    lines = [f"This total is too low: nodes of size {', '.join(unpriced)} have no price."] if unpriced else []
    lines += [_hours(hours, ledger.held), _waits(ledger), _nodes(ledger), *_idlest(ledger, policy)]
    lines += _budget(ledger.outlook)
    return Notice(
        cause=Cause.DIGEST,
        topic=DIGEST_TOPIC,
        key=week.name,
        title=f"GPU costs for the week ending {week.name}: {dollars(sum([*priced, *committed], Decimal(0)))}",
        body="\n".join(lines),
    )


def _hours(paid: float, held: HeldHours) -> str:
    if not paid:
        return "No GPU-hours were paid for."
    if not held.known:
        return f"{paid:,.0f} GPU-hours paid; how many workloads held is unknown."
    share = f" ({percent(held.gpu_hours / paid)})"
    partly = f" in the {percent(held.known)} of the time that is known" if held.known < SEEN_ENOUGH else share
    return f"{paid:,.0f} GPU-hours paid, {held.gpu_hours:,.0f} held by workloads{partly}."


def _waits(ledger: WeekFound) -> str:
    start, end = ledger.week.start, ledger.week.end
    waits = queue_waits(of_month(ledger.workloads, start, end), start, end)
    still = f"; {some(waits.still, 'workload')} still waited" if waits.still else ""
    if waits.p50 is None or waits.p95 is None or waits.longest is None:
        return f"No workload started{still}."
    half, most, longest = (span(wait.total_seconds()) for wait in (waits.p50, waits.p95, waits.longest))
    started = f"{some(waits.started, 'workload')} started: median wait {half}, p95 {most}"
    return f"{started}, longest {longest}{still}."


def _nodes(ledger: WeekFound) -> str:
    week = ledger.week
    added = sum(week.start <= life.created_at < week.end for life in ledger.lives)
    removed = sum(life.gone_at is not None and week.start <= life.gone_at < week.end for life in ledger.lives)
    return f"{some(added, 'node')} added, {removed} removed."


def _idlest(ledger: WeekFound, policy: Policy) -> Iterator[str]:
    paid = {life.pool: life.price_usd_per_hour for life in ledger.lives if life.price_usd_per_hour is not None}
    prices = {pool.id: paid.get(pool.id, pool.price_usd_per_hour) for pool in policy.pools}  # of then, if known
    costs = [
        (ledger.minutes[pool.id].idle * price / 60, pool.name)
        for pool in policy.pools
        if (price := prices[pool.id]) is not None and pool.id in ledger.minutes
    ]
    usd, name = max(costs, default=(Decimal(0), ""))
    if usd:
        yield f"Most idle: pool {name}, {dollars(usd)} for nodes without GPU work."


def _budget(outlook: Outlook | None) -> Iterator[str]:
    if outlook is None:
        return
    spent = dollars(outlook.spent) if outlook.spent is not None else "An unknown amount"
    ahead = "" if outlook.forecast is None else f"; forecast {dollars(outlook.forecast)} by the month's end"
    yield f"Budget {outlook.month}: {spent} of {dollars(outlook.monthly)} spent{ahead}."
