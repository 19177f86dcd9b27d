"""Actions: one open at a time per pool, brought up to date while it is, and closed once with what that means."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, case, or_, select, update

from receiver.adapters.store import outbox, rows
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, insert, put
from receiver.adapters.store.prepared import Query
from receiver.adapters.store.schema import actions, pools
from receiver.adapters.store.totals import count
from receiver.core.model.actions import Action, ActionKind, Outcome, OutcomeKind, VictimStage
from receiver.core.model.model import Backoff, LateCount
from receiver.core.money.budget import UNSURE_FOR
from receiver.core.notices.sentences import Notice
from receiver.ports import StoredAction

TOOK_EFFECT = (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED)
REMOVED = (VictimStage.DELETED, VictimStage.GONE)
IS_OPEN = actions.c.closed_at.is_(None)
OPEN = Query(select(actions).where(IS_OPEN))
NEWEST_FIRST = select(actions).order_by(actions.c.opened_at.desc(), actions.c.id).limit(bindparam("most"))
ACTIONS = Query(NEWEST_FIRST)
OF_POOL = Query(NEWEST_FIRST.where(actions.c.pool == bindparam("of_pool")))
CLOSED_SINCE = Query(
    select(
        actions.c.kind,
        actions.c.outcome,
        actions.c.from_count,
        actions.c.to_count,
        actions.c.victims,
        actions.c.closed_at,
    ).where(
        actions.c.closed_at > bindparam("since", type_=Moment), actions.c.closed_at <= bindparam("until", type_=Moment)
    )
)
ENDED_GROWTH = Query(
    select(actions)
    .where(actions.c.kind == ActionKind.GROW.value)
    .where(actions.c.closed_at.between(bindparam("since", type_=Moment), bindparam("until", type_=Moment)))
    .order_by(actions.c.closed_at, actions.c.id)
)


class SqlActions(StorePart):
    """Actions, and the back-offs and counts of pools that change with them."""

    def opened(self, action: Action, provisioning: Backoff | None = None) -> bool:
        # The primary key and the index `one_open_action_per_pool` refuse a second one.
        with self._write_memory() as connection:
            statement = insert(connection, actions).values(rows.action_values(action)).on_conflict_do_nothing()
            if connection.execute(statement.returning(actions.c.id)).first() is None:
                return False
            if provisioning is not None:
                _write_pool(connection, action, rows.backoff_values(rows.PROVISIONING, provisioning))
        return True

    def progressed(self, action: Action) -> None:
        ours = update(actions).where(actions.c.id == action.id, IS_OPEN)
        with self._database.write() as connection:
            connection.execute(ours.values(rows.progress_values(action)))

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
        # The late count that gave the reason is not believed any longer.
        values = {**rows.backoff_values(rows.REMOVAL, backoff), **rows.late_values(None)}
        with self._write_memory() as connection:
            connection.execute(update(pools).where(pools.c.pool == pool).values(values))
            outbox.say(connection, notice, at)

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        of_pool = {} if pool is None else {"of_pool": pool}
        with self._database.read() as connection:
            found = (ACTIONS if pool is None else OF_POOL).rows(connection, most=limit, **of_pool)
        return tuple(rows.action(row) for row in found)

    def followed(self, number: int) -> Sequence[StoredAction]:
        query = select(actions).where(actions.c.decision == number).order_by(actions.c.opened_at, actions.c.id)
        with self._database.read() as connection:
            return tuple(rows.action(row) for row in connection.execute(query).mappings())


def _close(
    connection: Connection, action: Action, outcome: Outcome, backoff: Backoff | None, late: LateCount | None
) -> None:
    """Close *action* once, with what that means for its pool. Closing it again changes nothing."""
    ending = {"closed_at": outcome.at, "outcome": outcome.kind.value, "detail": outcome.detail}
    found = connection.execute(
        update(actions).where(actions.c.id == action.id, IS_OPEN).values({**rows.progress_values(action), **ending})
    )
    if found.rowcount != 1:
        return
    count(connection, "actions", action.pool, action.kind.value, outcome.kind.value)
    effects: rows.Values = {}
    if outcome.kind in TOOK_EFFECT:
        changed = "last_grow_at" if action.kind is ActionKind.GROW else "last_shrink_at"
        effects = {changed: outcome.at, **rows.backoff_values(rows.BACKOFF_OF[action.kind], backoff)}
    elif outcome.kind is OutcomeKind.FAILED and backoff is not None:
        effects = rows.backoff_values(rows.BACKOFF_OF[action.kind], backoff)
        if any(v.stage in REMOVED for v in action.victims):  # what was deleted before it failed is gone all the same
            effects["last_shrink_at"] = outcome.at
    if late is not None:
        effects |= rows.late_values(late)
    if effects:
        _write_pool(connection, action, effects)
    if action.kind is ActionKind.GROW and outcome.kind is OutcomeKind.CONFIRMED:
        if late is None:
            _expect(connection, action, outcome.at)
        else:  # Civo's own number is what it shows; the new nodes are asked for since now all the same
            _write_pool(connection, action, {"required_since": outcome.at})


def _expect(connection: Connection, action: Action, at: datetime) -> None:
    """Remember the count that confirmed growth makes Civo show: it is no change by somebody else.

    A removal that Civo's count did not show is covered by it, even where the number stays the same: the nodes
    that were asked for are asked for since *at*.
    """
    lower = pools.c.required < action.to_count
    values = {
        "required": case((lower, action.to_count), else_=pools.c.required),
        "required_since": case((or_(lower, pools.c.late_since.is_not(None)), at), else_=pools.c.required_since),
        **rows.late_values(None),
    }
    connection.execute(update(pools).where(pools.c.pool == action.pool).values(values))


def _write_pool(connection: Connection, action: Action, values: rows.Values) -> None:
    """Write *values* of the action's pool; one that was never seen has the count that the action started from."""
    put(connection, pools, {"pool": action.pool, **values}, required=action.from_count)


def open_actions(connection: Connection) -> dict[str, Action]:
    """Return the open action of each pool that has one."""
    return {row["pool"]: rows.action(row).action for row in OPEN.rows(connection)}


def changed_since(connection: Connection, since: datetime, until: datetime) -> tuple[int, int, datetime | None]:
    """Return how many nodes were asked for and how many removed by the actions closed from *since* to *until*, and when
    the first of these was closed.

    Growth counts if it was confirmed; a removal counts however its action ended, because the node is gone.
    """
    grown = removed = 0
    first: datetime | None = None
    for row in CLOSED_SINCE.rows(connection, since=since, until=until):
        before = grown, removed
        if row["kind"] == ActionKind.RETIRE:
            removed += sum(rows.victim(v).stage in REMOVED for v in row["victims"])
        elif row["outcome"] == OutcomeKind.CONFIRMED:
            grown += row["to_count"] - row["from_count"]
        if (grown, removed) != before:
            first = row["closed_at"] if first is None else min(first, row["closed_at"])
    return grown, removed, first


def ended_growth(connection: Connection, now: datetime) -> tuple[tuple[Action, Outcome], ...]:
    """Return growth that ended around *now*, in the order in which it ended.

    What is dated further ahead was closed under a wrong clock, and its money would be kept for as long.
    """
    ended = ENDED_GROWTH.rows(connection, since=now - UNSURE_FOR, until=now + UNSURE_FOR)
    found = (rows.action(row) for row in ended)
    return tuple((s.action, s.outcome) for s in found if s.outcome is not None)
