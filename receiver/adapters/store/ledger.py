"""Node lives and pools: what a step needs from before it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, or_, select

from receiver.adapters.store import rows
from receiver.adapters.store.database import insert
from receiver.adapters.store.decisions import changed_since, open_actions
from receiver.adapters.store.inbox import AT_ONCE, not_considered
from receiver.adapters.store.schema import node_lives, pools
from receiver.adapters.store.totals import HEARTBEAT, marked
from receiver.core.actions import ActionKind
from receiver.core.memory import Memory, NodeLife, PoolMemory

HOUR = timedelta(hours=1)


def memory(connection: Connection, now: datetime, month_start: datetime) -> Memory:
    """Return everything a step at *now* needs."""
    under_way = open_actions(connection)
    known = {row["pool"]: row for row in connection.execute(select(pools)).mappings()}
    grown, removed = changed_since(connection, now - HOUR)
    alive = or_(node_lives.c.gone_at.is_(None), node_lives.c.gone_at > month_start)
    lives = connection.execute(
        select(node_lives).where(alive).order_by(node_lives.c.created_at, node_lives.c.instance)
    ).mappings()
    return Memory(
        pools={
            pool: PoolMemory(
                required=known[pool]["required"] if pool in known else under_way[pool].from_count,
                last_grow_at=known[pool]["last_grow_at"] if pool in known else None,
                last_shrink_at=known[pool]["last_shrink_at"] if pool in known else None,
                required_since=known[pool]["required_since"] if pool in known else None,
                backoff=rows.backoff(known[pool], ActionKind.GROW) if pool in known else None,
                removal_backoff=rows.backoff(known[pool], ActionKind.RETIRE) if pool in known else None,
                open_action=under_way.get(pool),
            )
            for pool in sorted({*known, *under_way})
        },
        lives=tuple(rows.life(row) for row in lives),
        grown_last_hour=grown,
        removed_last_hour=removed,
        heartbeat_at=marked(connection, HEARTBEAT),
        deliveries=not_considered(connection),
    )


def saw(connection: Connection, lives: Sequence[NodeLife], required: Mapping[str, int], at: datetime) -> None:
    """Write the lives and counts that differ from what is stored; a step that saw nothing new writes nothing."""
    stored: dict[str, NodeLife] = {}
    for start in range(0, len(lives), AT_ONCE):
        chosen = node_lives.c.instance.in_([x.instance for x in lives[start : start + AT_ONCE]])
        found = connection.execute(select(node_lives).where(chosen)).mappings()
        stored |= {row["instance"]: rows.life(row) for row in found}
    for life in lives:
        if stored.get(life.instance) != life:
            values = {**rows.life_values(life), "changed_at": at}
            statement = insert(connection, node_lives).values(values)
            connection.execute(statement.on_conflict_do_update(index_elements=[node_lives.c.instance], set_=values))
    counts = {row.pool: row.required for row in connection.execute(select(pools.c.pool, pools.c.required))}
    for pool, count in required.items():
        if counts.get(pool) != count:
            values = {"required": count, "required_since": at}
            statement = insert(connection, pools).values(pool=pool, **values)
            connection.execute(statement.on_conflict_do_update(index_elements=[pools.c.pool], set_=values))
