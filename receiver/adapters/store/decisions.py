"""Decisions and the actions that follow from them."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import rows
from receiver.adapters.store.database import insert
from receiver.adapters.store.schema import actions, decisions, pools
from receiver.adapters.store.totals import count
from receiver.core.actions import Action, ActionKind, Decision, Outcome, OutcomeKind, VictimStage
from receiver.core.model import Backoff
from receiver.ports import StoredAction, StoredDecision

TOOK_EFFECT = (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED)
REMOVED = (VictimStage.DELETED, VictimStage.GONE)


def decided(connection: Connection, decision: Decision) -> int:
    """Insert *decision* if it says something else than the pool's last one; return the number of the one in force."""
    same_pool = decisions.c.pool == decision.pool
    last = connection.execute(select(decisions).where(same_pool).order_by(decisions.c.id.desc()).limit(1))
    before = last.mappings().first()
    now = (decision.present, decision.target, rows.verdicts(decision))
    if before is not None and (before["present"], before["target"], before["verdicts"]) == now:
        return int(before["id"])
    count(connection, "decisions", decision.pool, decision.change.value)
    values = rows.decision_values(decision)
    return int(connection.execute(plain_insert(decisions).values(values).returning(decisions.c.id)).scalar_one())


def listed(connection: Connection, pool: str | None, limit: int) -> tuple[StoredDecision, ...]:
    """Return decisions, newest first."""
    query = select(decisions).order_by(decisions.c.id.desc()).limit(limit)
    if pool is not None:
        query = query.where(decisions.c.pool == pool)
    return tuple(rows.decision(row) for row in connection.execute(query).mappings())


def one(connection: Connection, number: int) -> StoredDecision | None:
    """Return one decision, or None."""
    row = connection.execute(select(decisions).where(decisions.c.id == number)).mappings().first()
    return None if row is None else rows.decision(row)


def opened(connection: Connection, action: Action) -> bool:
    """Insert *action*; the primary key and the index `one_open_action_per_pool` say no to a second one."""
    statement = insert(connection, actions).values(rows.action_values(action)).on_conflict_do_nothing()
    return connection.execute(statement.returning(actions.c.id)).first() is not None


def progressed(connection: Connection, action: Action) -> None:
    """Bring an open action up to date; a closed one stays as it ended."""
    is_open = actions.c.closed_at.is_(None)
    connection.execute(update(actions).where(actions.c.id == action.id, is_open).values(rows.progress_values(action)))


def closed(connection: Connection, action: Action, outcome: Outcome, backoff: Backoff | None) -> None:
    """Close *action* once, with what that means for its pool. Closing it again changes nothing."""
    is_open = actions.c.closed_at.is_(None)
    ending = {"closed_at": outcome.at, "outcome": outcome.kind.value, "detail": outcome.detail}
    found = connection.execute(
        update(actions).where(actions.c.id == action.id, is_open).values({**rows.progress_values(action), **ending})
    )
    if found.rowcount != 1:
        return
    count(connection, "actions", action.pool, action.kind.value, outcome.kind.value)
    effects: dict[str, Any] = {}
    if outcome.kind in TOOK_EFFECT:
        changed = "last_grow_at" if action.kind is ActionKind.GROW else "last_shrink_at"
        effects = {changed: outcome.at, **rows.backoff_values(action.kind, None)}
    elif outcome.kind is OutcomeKind.FAILED and backoff is not None:
        effects = rows.backoff_values(action.kind, backoff)
    if effects:
        statement = insert(connection, pools).values(pool=action.pool, required=action.from_count, **effects)
        connection.execute(statement.on_conflict_do_update(index_elements=[pools.c.pool], set_=effects))


def history(connection: Connection, pool: str | None, limit: int) -> tuple[StoredAction, ...]:
    """Return actions, newest first."""
    query = select(actions).order_by(actions.c.opened_at.desc(), actions.c.id).limit(limit)
    if pool is not None:
        query = query.where(actions.c.pool == pool)
    return tuple(rows.action(row) for row in connection.execute(query).mappings())


def open_actions(connection: Connection) -> dict[str, Action]:
    """Return the open action of each pool that has one."""
    found = connection.execute(select(actions).where(actions.c.closed_at.is_(None))).mappings()
    return {row["pool"]: rows.action(row).action for row in found}


def changed_since(connection: Connection, since: datetime) -> tuple[int, int]:
    """Return how many nodes were asked for and how many removed by the actions closed after *since*.

    Growth counts if it was confirmed; a removal counts however its action ended, because the node is gone.
    """
    grown = removed = 0
    for row in connection.execute(select(actions).where(actions.c.closed_at > since)).mappings():
        stored = rows.action(row)
        action, outcome = stored.action, stored.outcome
        assert outcome is not None
        if action.kind is ActionKind.RETIRE:
            removed += sum(v.stage in REMOVED for v in action.victims)
        elif outcome.kind is OutcomeKind.CONFIRMED:
            grown += action.to_count - action.from_count
    return grown, removed


def newest_numbers(connection: Connection) -> list[int]:
    """Return the number of each pool's last decision, which `decided` compares with."""
    return list(connection.execute(select(func.max(decisions.c.id)).group_by(decisions.c.pool)).scalars())
