"""What a step needs from before it: pools, node lives, and what is under way."""

from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, or_, select

from receiver.adapters.store import rows
from receiver.adapters.store.budget_changes import in_force
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.decisions import changed_since, ended_growth, open_actions
from receiver.adapters.store.inbox import not_considered
from receiver.adapters.store.overrides import not_ended, ran_out_early
from receiver.adapters.store.prepared import Query, Row
from receiver.adapters.store.schema import drifts, node_lives, pools
from receiver.adapters.store.totals import HEARTBEAT, marked
from receiver.core.model.actions import Action
from receiver.core.model.memory import Memory, PoolMemory
from receiver.core.model.model import Drift
from receiver.core.money.unanswered import may_have_landed
from receiver.core.scaling.shortage import refused_counts

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


def memory(connection: Connection, now: datetime, since: datetime) -> Memory:
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
        budget_changes=in_force(connection),
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
