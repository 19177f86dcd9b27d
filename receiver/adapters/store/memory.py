"""The memory of steps: pools, node lives and drifts, written where they differ from what is stored."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, or_, select, update

from receiver.adapters.store.actions import (
    GROWTH,
    LATE,
    OPEN,
    PROVISIONING,
    REMOVAL,
    changed_since,
    ended_growth,
    group_of,
    group_values,
)
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import Values, fields_of, insert, put, value_of
from receiver.adapters.store.decisions import SqlDecisions
from receiver.adapters.store.figures import HEARTBEAT, PROVISION_BUCKETS, PROVISION_MILLISECONDS, count, marked
from receiver.adapters.store.inbox import NOT_CONSIDERED
from receiver.adapters.store.overrides import NOT_ENDED, RAN_OUT_EARLY, changes_in_force
from receiver.adapters.store.schema import drifts as drift_rows
from receiver.adapters.store.schema import node_lives, pools
from receiver.adapters.store.usage import charged, seed
from receiver.core.model import memory
from receiver.core.model.actions import Action
from receiver.core.model.charges import Charged
from receiver.core.model.memory import Memory, NodeLife, PoolMemory
from receiver.core.model.model import Drift, Offer
from receiver.core.model.overrides import Override
from receiver.core.model.policy import Taint
from receiver.core.money.budget import may_have_landed
from receiver.core.scaling.waits import is_late, refused_counts

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

POOLS = select(pools)
LIFE = tuple(NodeLife.__slots__)
LIVES = (
    select(*(node_lives.c[name] for name in LIFE))
    .where(or_(node_lives.c.gone_at.is_(None), node_lives.c.gone_at > bindparam("since", type_=Moment)))
    .order_by(node_lives.c.created_at, node_lives.c.instance)
)
DRIFTS = (
    select(drift_rows)
    .where(drift_rows.c.at > bindparam("since", type_=Moment), drift_rows.c.at <= bindparam("now", type_=Moment))
    .order_by(drift_rows.c.at)
)
NODES_OF_A_MEDIAN = 20
STORED_LIVES = select(*(node_lives.c[name] for name in LIFE)).where(
    node_lives.c.instance.in_(bindparam("instances", expanding=True))
)
LAST_USABLE = (
    select(node_lives.c.created_at, node_lives.c.usable_at)
    .where(node_lives.c.pool == bindparam("of_pool"), node_lives.c.usable_at > node_lives.c.seen_at)
    .order_by(node_lives.c.usable_at.desc())
    .limit(NODES_OF_A_MEDIAN)
)


class SqlMemory(SqlDecisions):
    """The memory of steps. What was last read is cached, so that a step that sees the same again writes nothing."""

    _charged: Charged | None = None  # as last read

    def memory(self, now: datetime, since: datetime) -> Memory:
        with self._database.read() as connection:
            self._charged = charged(connection, self._charged, now)
            found = _memory(connection, now, since, self._charged)
            self._forget_what_others_follow(connection)
        self._last_read = found
        return found

    def node_lives(self, since: datetime) -> Sequence[NodeLife]:
        with self._database.read() as connection:
            return _lives(connection, LIVES, {"since": since})

    def saw(
        self,
        lives: Sequence[NodeLife],
        required: Mapping[str, int],
        at: datetime,
        *,
        works: Collection[str] = (),
        drifts: Mapping[str, Drift] | None = None,
        offers: Mapping[str, Offer] | None = None,
    ) -> None:
        last, offers = self._last_read, offers or {}
        if last is not None:  # what equals it need not be compared with the rows
            held = {life.instance: life for life in last.lives}
            lives = [life for life in lives if held.get(life.instance) != life]
            stored = {pool: past.offer for pool, past in last.pools.items()}
            offers = {pool: offer for pool, offer in offers.items() if _differ(stored.get(pool), offer)}
            if not (drifts or lives or offers or _are_news(last, required, works)):
                return
        with self._write_memory() as connection:
            _write_counts(connection, required, at)
            for pool, offer in offers.items():
                connection.execute(update(pools).where(pools.c.pool == pool).values(offer=_offer_values(offer)))
            _write_lives(connection, lives, at)
            if works:
                ended = pools.c.pool.in_(list(works)), pools.c.provisioning_until.is_not(None)
                connection.execute(update(pools).where(*ended).values(group_values(PROVISIONING, None)))
            for pool, drift in (drifts or {}).items():
                new = insert(connection, drift_rows).values({"pool": pool, **fields_of(drift)})
                if connection.execute(new.on_conflict_do_nothing().returning(drift_rows.c.id)).first() is not None:
                    count(connection, "drifts", pool)


def _memory(connection: Connection, now: datetime, since: datetime, account: Charged | None) -> Memory:
    under_way = {row["pool"]: value_of(Action, row) for row in connection.execute(OPEN).mappings()}
    known = {row["pool"]: row for row in connection.execute(POOLS).mappings()}
    growth = ended_growth(connection, now)
    drifted: dict[str, tuple[Drift, ...]] = {}  # of the last two days: three within a day stop scaling for another day
    for row in connection.execute(DRIFTS, {"since": now - 2 * DAY, "now": now}).mappings():
        drifted[row["pool"]] = (*drifted.get(row["pool"], ()), value_of(Drift, row))
    grown, removed, first = changed_since(connection, now - HOUR, now + HOUR)  # later ones: under a wrong clock
    return Memory(
        pools={
            pool: _pool(known.get(pool), under_way.get(pool), drifted.get(pool, ()))
            for pool in sorted({*known, *under_way})
        },
        lives=_lives(connection, LIVES, {"since": since}),
        grown_last_hour=grown,
        removed_last_hour=removed,
        first_changed_at=first,
        watched_since=min((row["watched_since"] for row in known.values() if row["watched_since"]), default=None),
        heartbeat_at=marked(connection).get(HEARTBEAT),
        deliveries=tuple(connection.execute(NOT_CONSIDERED).scalars()),
        overrides=tuple(value_of(Override, row) for row in connection.execute(NOT_ENDED).mappings()),
        ran_out_early=tuple(
            value_of(Override, row) for row in connection.execute(RAN_OUT_EARLY, {"now": now}).mappings()
        ),
        charged=account,
        seed=seed(connection, now),
        budget_changes=changes_in_force(connection),
        unanswered=tuple(a for a, outcome in growth if may_have_landed(a, outcome)),
        refused=refused_counts(growth, now),
    )


def _lives(connection: Connection, query: Any, values: Values) -> tuple[NodeLife, ...]:
    """The lives of *query*, by position: a step reads hundreds."""
    return tuple(NodeLife(**dict(zip(LIFE, row, strict=True))) for row in connection.execute(query, values))


def _pool(row: RowMapping | None, open_action: Action | None, drifted: tuple[Drift, ...]) -> PoolMemory:
    """One pool; without a *row* only its open action is known."""
    if row is None:
        assert open_action is not None
        return PoolMemory(required=open_action.from_count, open_action=open_action)
    return PoolMemory(
        **{name: row[name] for name in ("required", "required_since", "last_grow_at", "last_shrink_at", "ready_in")},
        backoff=group_of(row, GROWTH),
        removal_backoff=group_of(row, REMOVAL),
        provisioning=group_of(row, PROVISIONING),
        late=group_of(row, LATE),
        drifts=drifted,
        offer=_offer(row["offer"]),
        open_action=open_action,
    )


def _are_news(memory: Memory, required: Mapping[str, int], works: Collection[str]) -> bool:
    """True when counts or working pools differ from *memory*, which equals what the store holds."""
    if any(p.provisioning is not None and pool in works for pool, p in memory.pools.items()):
        return True
    for pool, shown in required.items():
        past = memory.pools.get(pool)
        if past is None or past.required_since is None or past.required != shown:  # without a time: never seen
            return True
        if past.late is not None and not is_late(past.late, shown):
            return True
    return False


def _differ(held: Offer | None, offer: Offer) -> bool:
    """True when *offer* differs from the stored one, or is an hour newer."""
    return held is None or offer.at - held.at >= HOUR or replace(held, at=offer.at) != offer


def _write_lives(connection: Connection, lives: Sequence[NodeLife], at: datetime) -> None:
    chosen = _lives(connection, STORED_LIVES, {"instances": [life.instance for life in lives]})
    stored = {before.instance: before for before in chosen}
    became_usable: set[str] = set()
    for life in lives:
        before = stored.get(life.instance)
        if before == life:
            continue
        put(connection, node_lives, {**fields_of(life), "changed_at": at})
        for stage, milliseconds in memory.passed(before, life, life.seen_at or at):
            count(connection, PROVISION_BUCKETS, life.pool, stage, memory.bucket(milliseconds))
            count(connection, PROVISION_MILLISECONDS, life.pool, stage, by=milliseconds)
        if life.usable_at is not None and (before is None or before.usable_at is None):
            became_usable.add(life.pool)
    for pool in became_usable:
        # The median time to usable of the pool's last nodes is stored with the pool: every step reads it.
        found = connection.execute(LAST_USABLE, {"of_pool": pool})
        took = [max(usable_at - created_at, timedelta(0)) for created_at, usable_at in found]
        if took:
            connection.execute(update(pools).where(pools.c.pool == pool).values(ready_in=median(took)))


def _write_counts(connection: Connection, required: Mapping[str, int], at: datetime) -> None:
    """Write the counts that changed. One that reaches a late count, or exceeds it, ends that."""
    stored = {row["pool"]: row for row in connection.execute(POOLS).mappings()}
    for pool, shown in required.items():
        row = stored.get(pool)
        values: Values = {}
        if row is None or row["required_since"] is None or row["required"] != shown:
            values = {"required": shown, "required_since": at}
        if row is None or row["watched_since"] is None:
            values["watched_since"] = at
        late = group_of(row, LATE) if row is not None else None
        if late is not None and not is_late(late, shown):
            values |= group_values(LATE, None)
        if values:
            put(connection, pools, {"pool": pool, **values}, required=shown)


def _offer_values(offer: Offer) -> Values:
    stored = {name: value for name, value in fields_of(offer).items() if name != "others"}
    return {**stored, "taints": [[t.key, t.value, t.effect] for t in offer.taints]}


def _offer(stored: Mapping[str, Any] | None) -> Offer | None:
    if stored is None:
        return None
    taints = tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in stored["taints"])
    return Offer(**{**stored, "taints": taints})
