"""Figures for pages and metrics: totals since the store was created, last times, samples of pools, turns of nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, Upsert, fields_of, insert, insert_in, put, value_of
from receiver.adapters.store.schema import actions, control, marks, outbox, samples, totals, turns
from receiver.core.explain.samples import Doing, HeldHours, NodeTurn, PoolMinutes, PoolSample, minute_of

HEARTBEAT = "heartbeat"
LAST_DELIVERY = "last_delivery"
MESSAGES = "messages"  # by destination and outcome
PROMISES = "promises"  # by pool and how they ended
PROVISION_BUCKETS = "provision_buckets"  # by pool, stage and the one bucket that each node falls into
PROVISION_MILLISECONDS = "provision_milliseconds"  # by pool and stage
HELD_MILLISECONDS = "held_milliseconds"  # GPU-milliseconds that were accounted for in an hour (2026-11-23T08, UTC)
A_MINUTE, AN_HOUR = timedelta(minutes=1), timedelta(hours=1)
MARKED = select(marks)
LAST = select(turns.c.instance, func.max(turns.c.at).label("at")).group_by(turns.c.instance)
OF_ALL = LAST.subquery()
LIVING = (  # the last turn of every node that is not gone
    select(turns)
    .join(OF_ALL, (OF_ALL.c.instance == turns.c.instance) & (OF_ALL.c.at == turns.c.at))
    .where(turns.c.doing != Doing.GONE)
)
MINUTES = (
    select(
        samples.c.pool,
        func.count(samples.c.busy).label("known"),
        func.coalesce(func.sum(samples.c.busy), 0).label("busy"),
        func.coalesce(func.sum(samples.c.idle), 0).label("idle"),
    )
    .where(samples.c.at >= bindparam("since", type_=Moment), samples.c.at < bindparam("until", type_=Moment))
    .group_by(samples.c.pool)
)
SAMPLES = (
    select(samples)
    .where(samples.c.at.between(bindparam("since", type_=Moment), bindparam("until", type_=Moment)))
    .order_by(samples.c.at)
)


def hour_of(at: datetime) -> str:
    """The label of the hour of *at*."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H}"


@cache
def _addition(dialect: str) -> Upsert:
    """An INSERT that adds its total to the existing one."""
    statement = insert_in(dialect, totals)
    added = {"total": totals.c.total + statement.excluded.total}
    return statement.on_conflict_do_update(index_elements=[totals.c.name, totals.c.labels], set_=added)


def count(connection: Connection, name: str, *labels: str, by: int = 1) -> None:
    """Add *by* to the total *name* of *labels*. It does not fall when rows are pruned."""
    count_all(connection, {(name, *labels): by})


def count_all(connection: Connection, by: Mapping[tuple[str, ...], int]) -> None:
    """Add to several totals, each named by its name and its labels. In sorted order: concurrent transactions then lock
    the rows in the same order and cannot deadlock."""
    added = [{"name": name, "labels": labels, "total": total} for (name, *labels), total in sorted(by.items())]
    connection.execute(_addition(connection.dialect.name), added)


def mark_all(connection: Connection, moments: Mapping[str, datetime]) -> None:
    """Record the last times of events by name, in sorted order as in `count_all`. Each replaces a later time, which was
    recorded under a wrong clock."""
    put(connection, marks, *({"name": name, "at": at} for name, at in sorted(moments.items())))


def marked(connection: Connection) -> dict[str, datetime]:
    """Return the last time of each event that has happened, by name."""
    return {row.name: row.at for row in connection.execute(MARKED)}


class SqlFigures(StorePart):
    """Figures. The last turns are cached, so that a minute without changes is one statement."""

    _kept: tuple[datetime, Mapping[str, NodeTurn]] | None = None  # the last minute, and every living node's last turn

    def keep_samples(self, measured: Sequence[PoolSample], doing: Sequence[NodeTurn] | None, at: datetime) -> None:
        minute, last_turns = minute_of(at), self._kept
        if last_turns is not None and last_turns[0] == minute:
            return
        with self._database.write() as connection:
            if last_turns is not None and minute - last_turns[0] == A_MINUTE:
                prior = last_turns[1]
            else:  # after a pause another process may have written
                prior = {row["instance"]: value_of(NodeTurn, row) for row in connection.execute(LIVING).mappings()}
            living = living_turns(prior, doing, minute)
            ended_turns = [
                replace(turn, at=minute, doing=Doing.GONE) for instance, turn in prior.items() if instance not in living
            ]
            news = [turn for instance, turn in living.items() if prior.get(instance) != turn]
            for table, rows in ((samples, measured), (turns, (*news, *ended_turns))):
                if rows:  # another process may have stored the same minute
                    statement = insert(connection, table).on_conflict_do_nothing()
                    connection.execute(statement, [fields_of(row) for row in rows])
        self._kept = minute, living

    def count_promises(self, ended: Mapping[tuple[str, str], int]) -> None:
        with self._database.write() as connection:
            count_all(connection, {(PROMISES, *labels): number for labels, number in ended.items()})

    def samples(self, since: datetime, until: datetime, *, pool: str) -> Sequence[PoolSample]:
        rows = self._rows(SAMPLES.where(samples.c.pool == pool), {"since": since, "until": until})
        return tuple(PoolSample(**row) for row in rows)

    def pool_minutes(self, since: datetime, until: datetime) -> Mapping[str, PoolMinutes]:
        rows = self._rows(MINUTES, {"since": since, "until": until})
        return {row["pool"]: PoolMinutes(known=row["known"], busy=row["busy"], idle=row["idle"]) for row in rows}

    def held(self, since: datetime, until: datetime) -> HeldHours:
        hours = {hour_of(since + n * AN_HOUR) for n in range(round((until - since) / AN_HOUR))}
        query = select(totals.c.labels, totals.c.total).where(totals.c.name == HELD_MILLISECONDS)
        held_ms = [row["total"] for row in self._rows(query) if row["labels"][0] in hours]
        return HeldHours(gpu_hours=sum(held_ms) / 3_600_000, known=len(held_ms) / len(hours) if hours else 0.0)

    def turns(self, pool: str, since: datetime, until: datetime) -> Sequence[NodeTurn]:
        before = LAST.where(turns.c.pool == pool, turns.c.at < since).subquery()
        of_before = (before.c.instance == turns.c.instance) & (before.c.at == turns.c.at)
        earlier = select(turns).join(before, of_before)
        later = select(turns).where(turns.c.pool == pool, turns.c.at.between(since, until))
        query = earlier.union_all(later).order_by("at")
        return tuple(value_of(NodeTurn, row) for row in self._rows(query))

    def counts(self) -> Mapping[str, Any]:
        totals_by_name: dict[str, dict[tuple[str, ...], int]] = {}
        pending = outbox.c.sent_at.is_(None), outbox.c.given_up_at.is_(None)
        oldest_pending = select(func.count(), func.min(outbox.c.created_at)).where(*pending)
        under_way = select(actions.c.pool, actions.c.opened_at).where(actions.c.closed_at.is_(None))
        with self._database.read() as connection:
            for row in connection.execute(select(totals).where(totals.c.name != HELD_MILLISECONDS)):
                totals_by_name.setdefault(row.name, {})[tuple(row.labels)] = row.total
            waiting, oldest = connection.execute(oldest_pending).one()
            last = marked(connection)
            return {
                "deliveries": totals_by_name.get("deliveries", {}).get((), 0),
                "alerts_by_action": _by_label(totals_by_name.get("alerts", {})),
                "notices": {"sent": 0, "failed": 0, **_by_label(totals_by_name.get("notices", {})), "pending": waiting},
                "oldest_notice_at": oldest,
                "drifts": _by_label(totals_by_name.get("drifts", {})),
                "open_actions": {row.pool: row.opened_at for row in connection.execute(under_way)},
                "last_delivery_at": last.get(LAST_DELIVERY),
                "heartbeat_at": last.get(HEARTBEAT),
                "last_step_at": connection.scalar(select(control.c.at)),
                **{name: totals_by_name.get(name, {}) for name in BY_LABELS},
            }


BY_LABELS = ("decisions", "actions", MESSAGES, PROMISES, PROVISION_BUCKETS, PROVISION_MILLISECONDS)


def _by_label(counts: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    return {labels[0]: total for labels, total in counts.items()}


def living_turns(
    old_turns: Mapping[str, NodeTurn], new_turns: Sequence[NodeTurn] | None, minute: datetime
) -> dict[str, NodeTurn]:
    """Each living node's turn: the known one continues unless the node does something else now."""
    if new_turns is None:
        new_turns = [replace(turn, at=minute, doing=Doing.UNKNOWN) for turn in old_turns.values()]
    living: dict[str, NodeTurn] = {}
    for turn in new_turns:
        before = old_turns.get(turn.instance)
        goes_on = before is not None and (before.doing, before.pool) == (turn.doing, turn.pool)
        living[turn.instance] = before if before is not None and goes_on else turn
    return living
