"""Usage in memory by month, instance, workload and owner, and the other inputs of reports."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from receiver.adapters.store.figures import HELD_MILLISECONDS, hour_of
from receiver.adapters.store.usage import ACCOUNTED, ACCOUNTED_SINCE, ADDED, KEPT_FROM
from receiver.core.model.charges import Charged, Seed
from receiver.core.model.usage import Accounted, Accounting, GpuHolding, Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import Watch
from receiver.core.report.lines import Counted
from receiver.core.report.rightsizing import InUse
from simulator.store.forms import fresh, kept, moment
from simulator.store.part import StorePart

T = TypeVar("T", Usage, Unwatched, InUse)
Key = tuple[Any, ...]


class UsageStore(StorePart):
    """Usage, and the other inputs of reports."""

    def __init__(self) -> None:
        super().__init__()
        self._usage: dict[Key, Usage] = {}
        self._month: tuple[str, tuple[Usage, ...]] | None = None  # as last read, until the account moves
        self._unwatched: dict[Key, Unwatched] = {}
        self._workloads: dict[Key, WorkloadLife] = {}
        self._holdings: dict[str, GpuHolding] = {}
        self._accounted: Accounted | None = None
        self._in_use: dict[Key, InUse] = {}
        self._unit_counts: dict[tuple[str, str], Counted] = {}
        self._charges: dict[str, Charged] = {}
        self._seeds: dict[str, Seed] = {}
        self._reports: dict[tuple[str, str], tuple[datetime, Mapping[str, Any]]] = {}

    # --- the account

    def accounted(self) -> Accounted:
        self._reads()
        if self._accounted is None:
            holdings = tuple(self._holdings[uid] for uid in sorted(self._holdings))
            running = [life for life in self._workloads.values() if life.ended_at is None]
            running.sort(key=lambda life: life.workload)
            self._accounted = Accounted(at=self._marks.get(ACCOUNTED), holdings=holdings, running=tuple(running))
        return self._accounted

    def account(self, accounting: Accounting, since: datetime | None, at: datetime) -> bool:
        self._writes()
        usage, unwatched = tuple(map(kept, accounting.usage)), tuple(map(kept, accounting.unwatched))
        lives, holdings = tuple(map(kept, accounting.lives)), tuple(map(kept, accounting.holdings))
        at = moment(at)
        if self._marks.get(ACCOUNTED) != since:
            return False
        self._accounted = self._month = None
        for used in usage:
            _merge(self._usage, _usage_key(used), used, highest=("peak_engine", "peak_memory"))
        self._add(HELD_MILLISECONDS, hour_of(at), by=round(1000 * sum(used.held for used in usage)))
        for unseen in unwatched:
            _merge(self._unwatched, (unseen.month, unseen.instance), unseen)
        for life in lives:
            self._workloads[life.workload, life.created_at, life.life] = life
        self._holdings = {holding.uid: holding for holding in holdings}
        began = self._marks.get(ACCOUNTED_SINCE) if since is not None and at < since else since
        if began is None or at < began:  # the first, or the first was under a clock that was ahead
            self._marks[ACCOUNTED_SINCE] = at
        self._marks[ACCOUNTED] = at
        return True

    def usage(self, month: str) -> Sequence[Usage]:
        self._reads()
        if self._month is None or self._month[0] != month:
            found = sorted(key for key in self._usage if key[0] == month)
            self._month = month, tuple(self._usage[key] for key in found)
        return self._month[1]

    def unwatched(self, month: str) -> Sequence[Unwatched]:
        self._reads()
        return _sorted((u for u in self._unwatched.values() if u.month == month), "instance")

    def watch(self) -> Watch:
        self._reads()
        at = self._marks
        return Watch(since=at.get(ACCOUNTED_SINCE), until=at.get(ACCOUNTED), kept_from=at.get(KEPT_FROM))

    def workload_lives(self, since: datetime, until: datetime) -> Sequence[WorkloadLife]:
        self._reads()
        lives = self._workloads.values()
        existed = (x for x in lives if x.created_at <= until and (x.ended_at is None or x.ended_at >= since))
        return _sorted(existed, "created_at", "workload")

    def lasted(self, limit: int) -> Sequence[timedelta]:
        self._reads()
        ended = [
            (life.ended_at, life.ended_at - life.bound_at)
            for life in self._workloads.values()
            if life.ended_at is not None and life.bound_at is not None
        ]
        ended.sort(key=lambda one: one[0], reverse=True)
        return tuple(span for _, span in ended[:limit])

    # --- other inputs of reports

    def keep_unit_count(self, counted: Counted) -> None:
        self._writes()
        self._unit_counts[counted.month, counted.name] = kept(counted)

    def unit_counts(self, month: str) -> Mapping[str, Counted]:
        self._reads()
        found = sorted(key for key in self._unit_counts if key[0] == month)
        return {key[1]: self._unit_counts[key] for key in found}

    def keep_in_use(self, measured: Sequence[InUse]) -> None:
        if not measured:
            return
        self._writes()
        for one in map(kept, measured):
            _merge(self._in_use, (one.month, one.workload, one.life), one, highest=("gpus", "used"))

    def in_use(self, month: str) -> Sequence[InUse]:
        self._reads()
        return _sorted((u for u in self._in_use.values() if u.month == month), "workload", "life")

    def keep_charged(self, charged: Charged) -> None:
        self._writes()
        self._charges[charged.month] = kept(charged)

    def charged_of(self, month: str) -> Charged | None:
        self._reads()
        return self._charges.get(month)

    def _newest_charged(self, now: datetime) -> Charged | None:
        """The newest month's answer; one dated later than *now* was stored under a wrong clock."""
        months = [month for month, charged in self._charges.items() if charged.asked_at <= now]
        return self._charges[max(months)] if months else None

    def keep_seed(self, seed: Seed) -> None:
        self._writes()
        self._seeds[seed.month] = kept(seed)

    def seed_of(self, month: str) -> Seed | None:
        self._reads()
        return _copied(self._seeds.get(month))

    def _newest_seed(self, now: datetime) -> Seed | None:
        """The newest month's seed. A stated amount names its month, so it counts whatever its date."""
        months = [month for month, seed in self._seeds.items() if seed.at <= now or seed.stated is not None]
        return _copied(self._seeds[max(months)]) if months else None

    def close_report(self, month: str, scope: str, document: Mapping[str, Any], at: datetime) -> None:
        self._writes()
        known = self._reports.get((month, scope))
        if known is None or known[0] > at:
            self._reports[month, scope] = (moment(at), fresh(document))

    def closed_report(self, month: str, scope: str, now: datetime) -> Mapping[str, Any] | None:
        self._reads()
        known = self._reports.get((month, scope))
        document: Mapping[str, Any] | None = fresh(known[1]) if known is not None and known[0] <= now else None
        return document

    def closed_scopes(self, month: str, now: datetime) -> frozenset[str]:
        self._reads()
        return frozenset(scope for (of, scope), (at, _) in self._reports.items() if of == month and at <= now)


def _copied(seed: Seed | None) -> Seed | None:
    """The same, which its reader may change."""
    return None if seed is None else replace(seed, prices=dict(seed.prices))


def _usage_key(used: Usage) -> Key:
    owner = tuple(getattr(used.owner, name) for name in type(used.owner).__slots__)
    return used.month, used.instance, used.workload, used.life, *owner


def _merge(rows: dict[Key, T], key: Key, new: T, highest: tuple[str, ...] = ()) -> None:
    """Add the seconds of *new* to those of the row of *key*, keep the higher of *highest*, and replace the rest."""
    old = rows.get(key)
    if old is None:
        rows[key] = new
        return
    changes: dict[str, Any] = {}
    for name in type(new).__slots__:
        before, after = getattr(old, name), getattr(new, name)
        if name in ADDED:
            changes[name] = None if before is None or after is None else before + after
        elif name in highest and before is not None and (after is None or after <= before):
            changes[name] = before
    rows[key] = replace(new, **changes)


def _sorted(found: Iterable[Any], *names: str) -> tuple[Any, ...]:
    return tuple(sorted(found, key=lambda one: tuple(getattr(one, name) for name in names)))
