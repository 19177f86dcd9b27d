"""Usage by month, instance, workload and owner (names are reused), and the other inputs of reports.

A charge or a seed dated later than now was stored under a wrong clock: it is ignored until then."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, Table, bindparam, case, delete, or_, select

from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, Upsert, fields_of, insert, insert_in, put, value_of
from receiver.adapters.store.figures import HELD_MILLISECONDS, count, hour_of, mark_all, marked
from receiver.adapters.store.schema import (
    charges,
    closed_reports,
    holdings,
    idle_spans,
    in_use,
    pools,
    seeds,
    unit_counts,
    unwatched,
    usage,
    workload_lives,
)
from receiver.core.model.charges import Charge, Charged, RunsElsewhere, Seed
from receiver.core.model.usage import Accounted, Accounting, GpuHolding, IdleSpan, Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import Watch
from receiver.core.report.lines import Counted
from receiver.core.report.rightsizing import InUse

ACCOUNTED = "accounted"  # the mark up to which usage is in the ledger
ACCOUNTED_SINCE = "accounted_since"  # and from when on
KEPT_FROM = "usage_kept_from"  # usage of the months before this moment's was pruned
ADDED = ("held", "node_seconds", "measured", "idle", "busy", "memory", "seconds")
HIGHEST = ("usage.peak_engine", "usage.peak_memory", "in_use.gpus", "in_use.used")
HELD = select(holdings).order_by(holdings.c.uid)
RUNNING = select(workload_lives).where(workload_lives.c.ended_at.is_(None)).order_by(workload_lives.c.workload)
LASTED = (
    select(workload_lives.c.bound_at, workload_lives.c.ended_at)
    .where(workload_lives.c.ended_at.is_not(None), workload_lives.c.bound_at.is_not(None))
    .order_by(workload_lives.c.ended_at.desc())
)
RELEASE = delete(holdings).where(holdings.c.uid == bindparam("of_uid"))
NOW = bindparam("now", type_=Moment)
NEWEST = select(charges).where(charges.c.asked_at <= NOW).order_by(charges.c.month.desc()).limit(1)
NEWEST_ASKED = NEWEST.with_only_columns(charges.c.month, charges.c.asked_at)
SEED = select(seeds).where(or_(seeds.c.at <= NOW, seeds.c.stated.is_not(None))).order_by(seeds.c.month.desc()).limit(1)


class SqlUsage(StorePart):
    """Usage, cached until the account moves (a step asks for it every few seconds), and the other inputs of reports."""

    _accounted: Accounted | None = None
    _month: tuple[str, datetime | None, tuple[Usage, ...]] | None = None  # as last read, with the time of the account

    def accounted(self) -> Accounted:
        with self._database.read() as connection:
            last, at = self._accounted, marked(connection).get(ACCOUNTED)
            if last is None or at != last.at:
                holdings = tuple(value_of(GpuHolding, row) for row in connection.execute(HELD).mappings())
                running = tuple(value_of(WorkloadLife, row) for row in connection.execute(RUNNING).mappings())
                last = Accounted(at=at, holdings=holdings, running=running)
        self._accounted = last
        return last

    def account(self, accounting: Accounting, since: datetime | None, at: datetime) -> bool:
        cache = self._accounted
        self._accounted = self._month = None
        with self._database.write() as connection:
            last = marked(connection)
            if last.get(ACCOUNTED) != since:
                return False
            _add(connection, usage, accounting.usage)
            held = round(1000 * sum(row.held for row in accounting.usage))
            count(connection, HELD_MILLISECONDS, hour_of(at), by=held)
            _add(connection, unwatched, accounting.unwatched)
            _add(connection, workload_lives, accounting.lives)
            _hold(connection, cache.holdings if cache is not None and cache.at == since else None, accounting.holdings)
            moments = {ACCOUNTED: at}
            began = last.get(ACCOUNTED_SINCE) if since is not None and at < since else since
            if began is None or at < began:  # the first, or the first was under a clock that was ahead
                moments[ACCOUNTED_SINCE] = at
            mark_all(connection, moments)
        return True

    def usage(self, month: str) -> Sequence[Usage]:
        with self._database.read() as connection:
            last, standing = self._month, marked(connection).get(ACCOUNTED)
            if last is None or last[:2] != (month, standing):
                statement = select(usage).where(usage.c.month == month).order_by(*usage.primary_key)
                rows = connection.execute(statement).mappings()
                last = (month, standing, tuple(value_of(Usage, row) for row in rows))
        self._month = last
        return last[2]

    def unwatched(self, month: str) -> Sequence[Unwatched]:
        statement = select(unwatched).where(unwatched.c.month == month).order_by(unwatched.c.instance)
        return tuple(Unwatched(**row) for row in self._rows(statement))

    def watch(self) -> Watch:
        with self._database.read() as connection:
            at = marked(connection)
        return Watch(since=at.get(ACCOUNTED_SINCE), until=at.get(ACCOUNTED), kept_from=at.get(KEPT_FROM))

    def workload_lives(self, since: datetime, until: datetime) -> Sequence[WorkloadLife]:
        table = workload_lives.c
        existed = table.created_at <= until, or_(table.ended_at.is_(None), table.ended_at >= since)
        statement = select(workload_lives).where(*existed).order_by(table.created_at, table.workload)
        return tuple(value_of(WorkloadLife, row) for row in self._rows(statement))

    def lasted(self, limit: int) -> Sequence[timedelta]:
        return tuple(row["ended_at"] - row["bound_at"] for row in self._rows(LASTED.limit(limit)))

    def keep_idle(self, spans: Sequence[IdleSpan]) -> None:
        if spans:
            with self._database.write() as connection:
                _add(connection, idle_spans, spans)

    def idle_spans(self, since: datetime) -> Sequence[IdleSpan]:
        table = idle_spans.c
        statement = select(idle_spans).where(or_(table.until.is_(None), table.until >= since))
        return tuple(IdleSpan(**row) for row in self._rows(statement.order_by(table.since, table.workload)))

    def keep_unit_count(self, counted: Counted) -> None:
        with self._database.write() as connection:
            put(connection, unit_counts, fields_of(counted))

    def unit_counts(self, month: str) -> Mapping[str, Counted]:
        statement = select(unit_counts).where(unit_counts.c.month == month).order_by(unit_counts.c.name)
        return {row["name"]: Counted(**row) for row in self._rows(statement)}

    def keep_in_use(self, measured: Sequence[InUse]) -> None:
        if measured:
            with self._database.write() as connection:
                _add(connection, in_use, measured)

    def in_use(self, month: str) -> Sequence[InUse]:
        query = select(in_use).where(in_use.c.month == month).order_by(in_use.c.workload, in_use.c.life)
        return tuple(InUse(**row) for row in self._rows(query))

    def keep_charged(self, charged: Charged) -> None:
        rows = [[getattr(record, name) for name in Charge.__slots__] for record in charged.records]
        records = {"fields": list(Charge.__slots__), "rows": rows}
        with self._database.write() as connection:
            put(connection, charges, {**fields_of(charged), "records": records})

    def charged_of(self, month: str) -> Charged | None:
        return next((_charged(row) for row in self._rows(select(charges).where(charges.c.month == month))), None)

    def keep_seed(self, seed: Seed) -> None:
        elsewhere = [[getattr(node, name) for name in RunsElsewhere.__slots__] for node in seed.elsewhere]
        with self._database.write() as connection:
            put(connection, seeds, {**fields_of(seed), "elsewhere": elsewhere})

    def seed_of(self, month: str) -> Seed | None:
        return next((_seed(row) for row in self._rows(select(seeds).where(seeds.c.month == month))), None)

    def close_report(self, month: str, scope: str, document: Mapping[str, Any], at: datetime) -> None:
        values = {"month": month, "scope": scope, "at": at, "document": document}
        table = closed_reports.c
        with self._database.write() as connection:
            new = insert(connection, closed_reports).values(values)
            connection.execute(
                new.on_conflict_do_update(
                    index_elements=[table.month, table.scope],
                    set_={"at": new.excluded.at, "document": new.excluded.document},
                    where=table.at > at,
                )
            )

    def closed_report(self, month: str, scope: str, now: datetime) -> Mapping[str, Any] | None:
        of_scope = _closed(month, now).where(closed_reports.c.scope == scope)
        return next((row["document"] for row in self._rows(of_scope)), None)

    def closed_scopes(self, month: str, now: datetime) -> frozenset[str]:
        scopes = _closed(month, now).with_only_columns(closed_reports.c.scope)
        return frozenset(row["scope"] for row in self._rows(scopes))

    def watched(self) -> Mapping[str, datetime]:
        statement = select(pools.c.pool, pools.c.watched_since).where(pools.c.watched_since.is_not(None))
        return {row["pool"]: row["watched_since"] for row in self._rows(statement)}


def _hold(connection: Connection, held: tuple[GpuHolding, ...] | None, wanted: tuple[GpuHolding, ...]) -> None:
    """Make the table of holdings, read here unless it is *held*, equal *wanted*. Pods rarely change, so only
    differences are written."""
    if held is None:
        held = tuple(value_of(GpuHolding, row) for row in connection.execute(HELD).mappings())
    held_by_uid = {holding.uid: holding for holding in held}
    new = {holding.uid: holding for holding in wanted}
    releases = [{"of_uid": uid} for uid in held_by_uid if uid not in new]
    if releases:
        connection.execute(RELEASE, releases)
    _add(connection, holdings, [holding for uid, holding in new.items() if held_by_uid.get(uid) != holding])


def _add(connection: Connection, table: Table, rows: Sequence[Any]) -> None:
    if rows:
        connection.execute(_addition(connection.dialect.name, table), [fields_of(row) for row in rows])


@cache
def _addition(dialect: str, table: Table) -> Upsert:
    """An INSERT that adds seconds, keeps the higher peak, and replaces everything else."""
    keys = [column.name for column in table.primary_key]
    statement = insert_in(dialect, table)
    changes = {c.name: _merged(c, statement.excluded[c.name]) for c in table.columns if c.name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changes)


def _merged(old: Any, new: Any) -> object:
    if old.name in ADDED:
        return old + new
    if str(old) in HIGHEST:
        return case((or_(old.is_(None), new > old), new), else_=old)
    return new


def _closed(month: str, now: datetime) -> Select[Any]:
    return select(closed_reports).where(closed_reports.c.month == month, closed_reports.c.at <= now)


def charged(connection: Connection, held: Charged | None, now: datetime) -> Charged | None:
    """Return the newest month's answer; *held* where it still is that one."""
    newest = connection.execute(NEWEST_ASKED, {"now": now}).first()
    if newest is None:
        return None
    if held is not None and (held.month, held.asked_at) == (newest.month, newest.asked_at):
        return held
    return _charged(connection.execute(NEWEST, {"now": now}).mappings().one())


def _charged(row: RowMapping) -> Charged:
    names, rows = row["records"]["fields"], row["records"]["rows"]
    records = tuple(Charge(**dict(zip(names, values, strict=True))) for values in rows)
    return Charged(**{**row, "records": records})


def seed(connection: Connection, now: datetime) -> Seed | None:
    """Return the newest month's seed. A stated amount names its month, so it counts whatever its date."""
    row = connection.execute(SEED, {"now": now}).mappings().first()
    return None if row is None else _seed(row)


def _seed(row: RowMapping) -> Seed:
    nodes = (RunsElsewhere(**dict(zip(RunsElsewhere.__slots__, values, strict=True))) for values in row["elsewhere"])
    return Seed(**{**row, "elsewhere": tuple(nodes), "prices": row["prices"] or {}})
