"""Actions: one open at a time per pool, updated while it is open, and closed once together with its consequences."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Update, bindparam, case, or_, select, update

from receiver.adapters.store import outbox
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, Values, fields_of, insert, put, value_of
from receiver.adapters.store.figures import count
from receiver.adapters.store.schema import POOL_GROUPS, actions, pools
from receiver.core.model.actions import Action, ActionKind, Outcome, OutcomeKind, VictimStage
from receiver.core.model.model import Backoff, LateCount
from receiver.core.money.budget import UNSURE_FOR
from receiver.core.notices.notice import Notice
from receiver.ports import StoredAction

TOOK_EFFECT = (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED)
REMOVED = (VictimStage.DELETED, VictimStage.GONE)
PROGRESS = ("victims", "from_count", "to_count", "attempts", "retry_at", "last_error")  # change while it is open
GROWTH, REMOVAL, PROVISIONING, LATE = POOL_GROUPS
BACKOFF_OF = {ActionKind.GROW: GROWTH, ActionKind.RETIRE: REMOVAL}
IS_OPEN = actions.c.closed_at.is_(None)
OPEN = select(actions).where(IS_OPEN)
NEWEST_FIRST = select(actions).order_by(actions.c.opened_at.desc(), actions.c.id)
CLOSED_BETWEEN = actions.c.closed_at.between(bindparam("since", type_=Moment), bindparam("until", type_=Moment))
CLOSED_SINCE = select(
    actions.c.kind, actions.c.outcome, actions.c.from_count, actions.c.to_count, actions.c.victims, actions.c.closed_at
).where(CLOSED_BETWEEN, actions.c.closed_at > bindparam("since", type_=Moment))
ENDED_GROWTH = (
    select(actions).where(actions.c.kind == ActionKind.GROW, CLOSED_BETWEEN).order_by(actions.c.closed_at, actions.c.id)
)


class SqlActions(StorePart):
    """Actions, and the back-offs and counts of pools that change with them."""

    def opened(self, action: Action, provisioning: Backoff | None = None) -> bool:
        # The primary key and the index `one_open_action_per_pool` refuse a second one.
        with self._write_memory() as connection:
            statement = insert(connection, actions).values(fields_of(action)).on_conflict_do_nothing()
            if connection.execute(statement.returning(actions.c.id)).first() is None:
                return False
            if provisioning is not None:
                _write_pool(connection, action, group_values(PROVISIONING, provisioning))
        return True

    def progressed(self, action: Action) -> None:
        with self._database.write() as connection:
            connection.execute(_progress(action))

    def closed(
        self,
        action: Action,
        outcome: Outcome,
        backoff: Backoff | None,
        notice: Notice | None = None,
        *,
        late: LateCount | None = None,
    ) -> None:
        with self._write_memory() as connection:
            _close(connection, action, outcome, backoff, late)
            if notice is not None:
                outbox.say(connection, notice, outcome.at)

    def stop_removals(self, pool: str, backoff: Backoff, notice: Notice, at: datetime) -> None:
        # The late count that was the reason is no longer believed.
        values = {**group_values(REMOVAL, backoff), **group_values(LATE, None)}
        with self._write_memory() as connection:
            connection.execute(update(pools).where(pools.c.pool == pool).values(values))
            outbox.say(connection, notice, at)

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        query = NEWEST_FIRST if pool is None else NEWEST_FIRST.where(actions.c.pool == pool)
        return tuple(stored_action(row) for row in self._rows(query.limit(limit)))

    def followed(self, number: int) -> Sequence[StoredAction]:
        query = select(actions).where(actions.c.decision == number).order_by(actions.c.opened_at, actions.c.id)
        return tuple(stored_action(row) for row in self._rows(query))


def _progress(action: Action, **ending: object) -> Update:
    """Update the row of *action* while it is open."""
    values = {name: getattr(action, name) for name in PROGRESS}
    return update(actions).where(actions.c.id == action.id, IS_OPEN).values(**values, **ending)


def _close(
    connection: Connection, action: Action, outcome: Outcome, backoff: Backoff | None, late: LateCount | None
) -> None:
    """Close *action* once and update its pool. Closing it again changes nothing."""
    closing = _progress(action, closed_at=outcome.at, outcome=outcome.kind, detail=outcome.detail)
    if connection.execute(closing).rowcount != 1:
        return
    count(connection, "actions", action.pool, action.kind.value, outcome.kind.value)
    effects: Values = {}
    if outcome.kind in TOOK_EFFECT:
        changed = "last_grow_at" if action.kind is ActionKind.GROW else "last_shrink_at"
        effects = {changed: outcome.at, **group_values(BACKOFF_OF[action.kind], backoff)}
    elif outcome.kind is OutcomeKind.FAILED and backoff is not None:
        effects = group_values(BACKOFF_OF[action.kind], backoff)
        if any(v.stage in REMOVED for v in action.victims):  # nodes deleted before the failure are gone all the same
            effects["last_shrink_at"] = outcome.at
    if late is not None:
        effects |= group_values(LATE, late)
    if action.kind is ActionKind.GROW and outcome.kind is OutcomeKind.CONFIRMED:
        if late is not None:  # Civo still shows the old count, but the new nodes have been requested as of now
            effects["required_since"] = outcome.at
        _write_pool(connection, action, effects)
        if late is None:
            _expect(connection, action, outcome.at)
    elif effects:
        _write_pool(connection, action, effects)


def _expect(connection: Connection, action: Action, at: datetime) -> None:
    """Store the count that confirmed growth makes Civo show, so that it is not taken for someone else's change. The
    growth also covers a removal that Civo's count did not show yet, even where the number stays the same: its nodes
    have been requested since *at*."""
    lower = pools.c.required < action.to_count
    values = {
        "required": case((lower, action.to_count), else_=pools.c.required),
        "required_since": case((or_(lower, pools.c.late_since.is_not(None)), at), else_=pools.c.required_since),
        **group_values(LATE, None),
    }
    connection.execute(update(pools).where(pools.c.pool == action.pool).values(values))


def _write_pool(connection: Connection, action: Action, values: Values) -> None:
    """Write *values* of the action's pool; a new row gets the count that the action started from."""
    put(connection, pools, {"pool": action.pool, **values}, required=action.from_count)


def changed_since(connection: Connection, since: datetime, until: datetime) -> tuple[int, int, datetime | None]:
    """Return the numbers of nodes added and removed by the actions closed after *since* and by *until*, and when the
    first of these was closed. Growth counts if it was confirmed; a removal counts however its action ended, because the
    node is gone."""
    grown = removed = 0
    first: datetime | None = None
    for row in connection.execute(CLOSED_SINCE, {"since": since, "until": until}):
        before = grown, removed
        if row.kind is ActionKind.RETIRE:
            removed += sum(victim.stage in REMOVED for victim in row.victims)
        elif row.outcome is OutcomeKind.CONFIRMED:
            grown += row.to_count - row.from_count
        if (grown, removed) != before:
            first = row.closed_at if first is None else min(first, row.closed_at)
    return grown, removed, first


def ended_growth(connection: Connection, now: datetime) -> tuple[tuple[Action, Outcome], ...]:
    """Return growth that ended around *now*, in the order in which it ended. Growth dated further ahead was closed
    under a wrong clock: its reservation would last as long."""
    ended = connection.execute(ENDED_GROWTH, {"since": now - UNSURE_FOR, "until": now + UNSURE_FOR}).mappings()
    found = (stored_action(row) for row in ended)
    return tuple((s.action, s.outcome) for s in found if s.outcome is not None)


def stored_action(row: RowMapping) -> StoredAction:
    """The action in *row*, with its outcome if it is closed."""
    closed_at = row["closed_at"]
    outcome = None if closed_at is None else Outcome(kind=row["outcome"], at=closed_at, detail=row["detail"])
    return StoredAction(action=value_of(Action, row), outcome=outcome)


def group_values(prefix: str, value: Backoff | LateCount | None) -> Values:
    """Columns of one of a pool's back-offs, or of its late count; all empty for none."""
    return {f"{prefix}_{name}": getattr(value, name, None) for name in POOL_GROUPS[prefix].__slots__}


def group_of(row: RowMapping, prefix: str) -> Any:
    """The back-off or late count in these columns, or None."""
    kind = POOL_GROUPS[prefix]
    found = {name: row[f"{prefix}_{name}"] for name in kind.__slots__}
    return None if found[kind.__slots__[0]] is None else kind(**found)
