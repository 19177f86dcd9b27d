"""What a step needs from before it, and what it saw: pools, node lives and drifts, written where they differ."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median

from sqlalchemy import Connection, bindparam, or_, select, update

from receiver.adapters.store import rows
from receiver.adapters.store.actions import changed_since, ended_growth, open_actions
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import AT_ONCE, insert, put
from receiver.adapters.store.decisions import SqlDecisions
from receiver.adapters.store.inbox import not_considered
from receiver.adapters.store.overrides import changes_in_force, not_ended, ran_out_early
from receiver.adapters.store.prepared import Query, Row
from receiver.adapters.store.schema import drifts, node_lives, pools
from receiver.adapters.store.totals import HEARTBEAT, PROVISION_BUCKETS, PROVISION_MILLISECONDS, count, marked
from receiver.adapters.store.usage import charged, seed
from receiver.core.model import memory
from receiver.core.model.actions import Action
from receiver.core.model.charges import Charged
from receiver.core.model.memory import Memory, NodeLife, PoolMemory
from receiver.core.model.model import Drift, Offer
from receiver.core.money.budget import may_have_landed
from receiver.core.scaling.capacity import refused_counts
from receiver.core.scaling.provisioning import is_late

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

POOLS = Query(select(pools))
LIVES = Query(
    select(*(node_lives.c[name] for name in rows.LIFE))
    .where(or_(node_lives.c.gone_at.is_(None), node_lives.c.gone_at > bindparam("since", type_=Moment)))
    .order_by(node_lives.c.created_at, node_lives.c.instance)
)
DRIFTS = Query(
    select(drifts)
    .where(drifts.c.at > bindparam("since", type_=Moment), drifts.c.at <= bindparam("now", type_=Moment))
    .order_by(drifts.c.at)
)
NODES_OF_A_MEDIAN = 20
NO_LATE_COUNT = rows.late_values(None)
NO_PROVISIONING = rows.backoff_values(rows.PROVISIONING, None)

STORED_LIVES = select(*(node_lives.c[name] for name in rows.LIFE)).where(
    node_lives.c.instance.in_(bindparam("instances", expanding=True))
)
STORED_POOLS = Query(
    select(
        *(
            pools.c[name]
            for name in (
                "pool",
                "required",
                "required_since",
                "watched_since",
                "late_expected",
                "late_shown",
                "late_since",
            )
        )
    )
)
LAST_USABLE = Query(
    select(node_lives.c.created_at, node_lives.c.usable_at)
    .where(node_lives.c.pool == bindparam("of_pool"), node_lives.c.usable_at > node_lives.c.seen_at)
    .order_by(node_lives.c.usable_at.desc())
    .limit(NODES_OF_A_MEDIAN)
)


class SqlMemory(SqlDecisions):
    """The memory of the steps. What was read last is kept, so that a step that sees the same again writes nothing."""

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
            return tuple(rows.life_of(row) for row in LIVES.tuples(connection, since=since))

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
        last_read = self._last_read
        if last_read is not None:  # what equals it is not compared with the rows again
            if not drifts and not _is_news(last_read, lives, required, works, offers or {}):
                return
            lives = _unlike(last_read, lives)
        with self._write_memory() as connection:
            new = _new_offers(last_read, offers or {})
            _write(connection, lives, required, at, works, drifts or {}, new)


def _memory(connection: Connection, now: datetime, since: datetime, account: Charged | None) -> Memory:
    """Return everything a step at *now* needs."""
    under_way = open_actions(connection)
    known = {row["pool"]: row for row in POOLS.rows(connection)}
    drifted, growth = _drifts(connection, now), ended_growth(connection, now)
    grown, removed, first = changed_since(connection, now - HOUR, now + HOUR)  # further ahead: under a wrong clock
    return Memory(
        pools={
            pool: _pool(known.get(pool), under_way.get(pool), drifted.get(pool, ()))
            for pool in sorted({*known, *under_way})
        },
        lives=tuple(rows.life_of(row) for row in LIVES.tuples(connection, since=since)),
        grown_last_hour=grown,
        removed_last_hour=removed,
        first_changed_at=first,
        watched_since=min((row["watched_since"] for row in known.values() if row["watched_since"]), default=None),
        heartbeat_at=marked(connection, HEARTBEAT),
        deliveries=not_considered(connection),
        overrides=not_ended(connection),
        ran_out_early=ran_out_early(connection, now),
        charged=account,
        seed=seed(connection, now),
        budget_changes=changes_in_force(connection),
        unanswered=tuple(a for a, outcome in growth if may_have_landed(a, outcome)),
        refused=refused_counts(growth, now),
    )


def _pool(row: Row | None, open_action: Action | None, drifted: tuple[Drift, ...]) -> PoolMemory:
    """One pool; without a *row* it is known by its open action alone."""
    if row is None:
        assert open_action is not None
        return PoolMemory(required=open_action.from_count, open_action=open_action)
    return PoolMemory(
        required=row["required"],
        required_since=row["required_since"],
        last_grow_at=row["last_grow_at"],
        last_shrink_at=row["last_shrink_at"],
        backoff=rows.backoff(row, rows.GROWTH),
        removal_backoff=rows.backoff(row, rows.REMOVAL),
        provisioning=rows.backoff(row, rows.PROVISIONING),
        late=rows.late(row),
        ready_in=row["ready_in"],
        drifts=drifted,
        offer=rows.offer(row),
        open_action=open_action,
    )


def _drifts(connection: Connection, now: datetime) -> dict[str, tuple[Drift, ...]]:
    """The drifts of the last two days by pool, oldest first: three of one day stop us for another."""
    found: dict[str, tuple[Drift, ...]] = {}
    for row in DRIFTS.rows(connection, since=now - 2 * DAY, now=now):
        drift = Drift(at=row["at"], from_count=row["from_count"], to_count=row["to_count"], undoes=row["undoes"])
        found[row["pool"]] = (*found.get(row["pool"], ()), drift)
    return found


def _is_news(
    memory: Memory,
    lives: Sequence[NodeLife],
    required: Mapping[str, int],
    works: Collection[str],
    offers: Mapping[str, Offer],
) -> bool:
    """True when any of it differs from *memory*, which is what the store holds."""
    if _new_offers(memory, offers):
        return True
    if any(p.provisioning is not None and pool in works for pool, p in memory.pools.items()):
        return True
    for pool, shown in required.items():
        past = memory.pools.get(pool)
        if past is None or past.required_since is None or past.required != shown:  # without a time it was not seen yet
            return True
        if past.late is not None and not is_late(past.late, shown):
            return True
    return bool(_unlike(memory, lives))


def _new_offers(memory: Memory | None, offers: Mapping[str, Offer]) -> Mapping[str, Offer]:
    """Those of *offers* that say something else than what is held, or say it an hour later."""
    held = {pool: past.offer for pool, past in memory.pools.items()} if memory else {}
    return {pool: offer for pool, offer in offers.items() if _differ(held.get(pool), offer)}


def _differ(held: Offer | None, offer: Offer) -> bool:
    return held is None or offer.at - held.at >= HOUR or replace(held, at=offer.at) != offer


def _unlike(memory: Memory | None, lives: Sequence[NodeLife]) -> Sequence[NodeLife]:
    """Return those of *lives* that differ from what *memory* holds; all of them without one."""
    if memory is None:
        return lives
    held = {life.instance: life for life in memory.lives}
    return [life for life in lives if held.get(life.instance) != life]


def _write(
    connection: Connection,
    lives: Sequence[NodeLife],
    required: Mapping[str, int],
    at: datetime,
    works: Collection[str],
    changed: Mapping[str, Drift],
    offers: Mapping[str, Offer],
) -> None:
    """Write the *lives* and counts that differ from what is stored, and what follows from them."""
    _write_counts(connection, required, at)
    for pool, offer in offers.items():
        connection.execute(update(pools).where(pools.c.pool == pool).values(rows.offer_values(offer)))
    _write_lives(connection, lives, at)
    if works:
        working = pools.c.pool.in_(list(works))
        connection.execute(
            update(pools).where(working, pools.c.provisioning_until.is_not(None)).values(NO_PROVISIONING)
        )
    for pool, drift in changed.items():
        values = {"pool": pool, **{name: getattr(drift, name) for name in ("at", "from_count", "to_count", "undoes")}}
        statement = insert(connection, drifts).values(values).on_conflict_do_nothing().returning(drifts.c.id)
        if connection.execute(statement).first() is not None:
            count(connection, "drifts", pool)


def _write_lives(connection: Connection, lives: Sequence[NodeLife], at: datetime) -> None:
    stored: dict[str, NodeLife] = {}
    for start in range(0, len(lives), AT_ONCE):
        chosen = {"instances": [x.instance for x in lives[start : start + AT_ONCE]]}
        found = (rows.life_of(row) for row in connection.execute(STORED_LIVES, chosen).all())
        stored |= {before.instance: before for before in found}
    became_usable: set[str] = set()
    for life in lives:
        before = stored.get(life.instance)
        if before == life:
            continue
        put(connection, node_lives, {**rows.life_values(life), "changed_at": at})
        for stage, milliseconds in memory.passed(before, life, life.seen_at or at):
            count(connection, PROVISION_BUCKETS, life.pool, stage, memory.bucket(milliseconds))
            count(connection, PROVISION_MILLISECONDS, life.pool, stage, by=milliseconds)
        if life.usable_at is not None and (before is None or before.usable_at is None):
            became_usable.add(life.pool)
    for pool in became_usable:
        _write_ready_in(connection, pool)


def _write_ready_in(connection: Connection, pool: str) -> None:
    """Keep the median time to usable of the pool's last nodes beside the pool: each step reads it."""
    found = LAST_USABLE.tuples(connection, of_pool=pool)
    took = [max(usable_at - created_at, timedelta(0)) for created_at, usable_at in found]
    if took:
        connection.execute(update(pools).where(pools.c.pool == pool).values(ready_in=median(took)))


def _write_counts(connection: Connection, required: Mapping[str, int], at: datetime) -> None:
    """A count that has caught up with a late count, or rose above it, ends it."""
    stored = {row["pool"]: row for row in STORED_POOLS.rows(connection)}
    for pool, shown in required.items():
        row = stored.get(pool)
        values: rows.Values = {}
        if row is None or row["required_since"] is None or row["required"] != shown:
            values = {"required": shown, "required_since": at}
        if row is None or row["watched_since"] is None:
            values["watched_since"] = at
        late = rows.late(row) if row is not None else None
        if late is not None and not is_late(late, shown):
            values |= NO_LATE_COUNT
        if values:
            put(connection, pools, {"pool": pool, **values}, required=shown)
