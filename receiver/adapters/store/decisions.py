"""Decisions and the actions that follow from them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, case, func, or_, select, update
from sqlalchemy import insert as plain_insert

from receiver.adapters.store import grounds, rows
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import AT_ONCE, insert, put
from receiver.adapters.store.prepared import Query, Write
from receiver.adapters.store.schema import actions, decisions, pools
from receiver.adapters.store.totals import count
from receiver.core.model.actions import Action, ActionKind, Decision, Outcome, OutcomeKind, Verdict, VictimStage
from receiver.core.model.model import Backoff, LateCount
from receiver.core.money.unanswered import UNSURE_FOR
from receiver.core.report.standstills import RULES, Spoke
from receiver.ports import StoredAction, StoredDecision

TOOK_EFFECT = (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED)
LEAVES = (Verdict.HOLDS.value, Verdict.LIMITS.value)
REMOVED = (VictimStage.DELETED, VictimStage.GONE)


LAST = Query(
    select(decisions.c.id, decisions.c.present, decisions.c.target, decisions.c.verdicts)
    .where(decisions.c.pool == bindparam("of_pool"))
    .order_by(decisions.c.id.desc())
    .limit(1)
)
INSERT = Write(
    lambda _: plain_insert(decisions).returning(decisions.c.id), [c.name for c in decisions.columns if c.name != "id"]
)
OPEN = Query(select(actions).where(actions.c.closed_at.is_(None)))
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

NEWEST = Query(select(func.max(decisions.c.id)))
Said = tuple[int, int, list[list[str]]]  # present and target size, verdicts as stored

ENDED_GROWTH = Query(
    select(actions)
    .where(actions.c.kind == ActionKind.GROW.value)
    .where(actions.c.closed_at.between(bindparam("since", type_=Moment), bindparam("until", type_=Moment)))
    .order_by(actions.c.closed_at, actions.c.id)
)


def said(decision: Decision) -> Said:
    """What of *decision* is compared with the pool's last one."""
    return decision.present, decision.target, rows.verdicts(decision)


def newest(connection: Connection) -> int:
    """Return the number of the last decision of any pool, 0 before the first."""
    return int(NEWEST.scalar(connection) or 0)


def in_force(connection: Connection, decision: Decision) -> int | None:
    """Return the number of the pool's last decision if *decision* says nothing else, or None."""
    before = LAST.first(connection, of_pool=decision.pool)
    if before is None or (before["present"], before["target"], before["verdicts"]) != said(decision):
        return None
    return int(before["id"])


def decided(connection: Connection, decision: Decision, made_from: Mapping[str, bytes] | None = None) -> int:
    """Insert *decision* if it says something else than the pool's last one, with what it was *made_from* as `grounds`
    writes it; return the number of the one in force."""
    before = in_force(connection, decision)
    if before is not None:
        return before
    count(connection, "decisions", decision.pool, decision.change.value)
    kept = grounds.keep(connection, made_from) if made_from is not None else {"facts": None, "policy": None}
    return INSERT.numbered(connection, [{**rows.decision_values(decision), **kept}])[0]


def listed(connection: Connection, pool: str | None, limit: int) -> tuple[StoredDecision, ...]:
    """Return decisions, newest first."""
    query = select(decisions).order_by(decisions.c.id.desc()).limit(limit)
    if pool is not None:
        query = query.where(decisions.c.pool == pool)
    return tuple(rows.decision(row) for row in connection.execute(query).mappings())


def spoken(connection: Connection, since: datetime, until: datetime) -> tuple[Spoke, ...]:
    """Return what the decisions from *since* to *until*, and each pool's last one before, held for money's sake."""
    last = select(func.max(decisions.c.id)).where(decisions.c.at < since).group_by(decisions.c.pool)
    query = (
        select(decisions.c.pool, decisions.c.at, decisions.c.verdicts, decisions.c.id)
        .where(or_(decisions.c.at.between(since, until), decisions.c.id.in_(last)))
        .order_by(decisions.c.at, decisions.c.id)
    )
    found = connection.execute(query).all()
    held = [row.id for row in found if any(rule in RULES and said in LEAVES for rule, said, *_ in row.verdicts)]
    details = _details(connection, held)
    return tuple(Spoke(pool=row.pool, at=row.at, detail=details.get(row.id, "")) for row in found)


def _details(connection: Connection, numbers: Sequence[int]) -> dict[int, str]:
    """What held growth back for money's sake in the decisions *numbers*."""
    found: dict[int, str] = {}
    for start in range(0, len(numbers), AT_ONCE):
        chosen = decisions.c.id.in_(numbers[start : start + AT_ONCE])
        for row in connection.execute(select(decisions).where(chosen)).mappings():
            said = [r for r in rows.decision(row).decision.reasons if r.rule in RULES and r.verdict.value in LEAVES]
            found[row["id"]] = "; ".join(f"{r.rule}: {r.detail}" for r in said)
    return found


def one(connection: Connection, number: int) -> StoredDecision | None:
    """Return one decision, or None."""
    row = connection.execute(select(decisions).where(decisions.c.id == number)).mappings().first()
    return None if row is None else rows.decision(row)


def beside(connection: Connection, stored: StoredDecision) -> tuple[int | None, int | None]:
    """Return the numbers of the decisions of the same pool right before and right after *stored*."""
    of_pool = select(func.max(decisions.c.id)).where(decisions.c.pool == stored.decision.pool)
    before = connection.execute(of_pool.where(decisions.c.id < stored.id)).scalar()
    after = select(func.min(decisions.c.id)).where(decisions.c.pool == stored.decision.pool)
    return before, connection.execute(after.where(decisions.c.id > stored.id)).scalar()


def followed(connection: Connection, number: int) -> tuple[StoredAction, ...]:
    """Return the actions that decision *number* led to, oldest first."""
    query = select(actions).where(actions.c.decision == number).order_by(actions.c.opened_at, actions.c.id)
    return tuple(rows.action(row) for row in connection.execute(query).mappings())


def opened(connection: Connection, action: Action, provisioning: Backoff | None) -> bool:
    """Insert *action*; the primary key and the index `one_open_action_per_pool` say no to a second one."""
    statement = insert(connection, actions).values(rows.action_values(action)).on_conflict_do_nothing()
    if connection.execute(statement.returning(actions.c.id)).first() is None:
        return False
    if provisioning is not None:
        _write_pool(connection, action, rows.backoff_values(rows.PROVISIONING, provisioning))
    return True


def progressed(connection: Connection, action: Action) -> None:
    """Bring an open action up to date; a closed one stays as it ended."""
    is_open = actions.c.closed_at.is_(None)
    connection.execute(update(actions).where(actions.c.id == action.id, is_open).values(rows.progress_values(action)))


def closed(
    connection: Connection, action: Action, outcome: Outcome, backoff: Backoff | None, late: LateCount | None
) -> None:
    """Close *action* once, with what that means for its pool. Closing it again changes nothing."""
    is_open = actions.c.closed_at.is_(None)
    ending = {"closed_at": outcome.at, "outcome": outcome.kind.value, "detail": outcome.detail}
    found = connection.execute(
        update(actions).where(actions.c.id == action.id, is_open).values({**rows.progress_values(action), **ending})
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


def stop_removals(connection: Connection, pool: str, backoff: Backoff) -> None:
    """Set *backoff* from removal; the late count that gave the reason is not believed any longer."""
    values = {**rows.backoff_values(rows.REMOVAL, backoff), **rows.late_values(None)}
    connection.execute(update(pools).where(pools.c.pool == pool).values(values))


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


def history(connection: Connection, pool: str | None, limit: int) -> tuple[StoredAction, ...]:
    """Return actions, newest first."""
    found = ACTIONS.rows(connection, most=limit) if pool is None else OF_POOL.rows(connection, most=limit, of_pool=pool)
    return tuple(rows.action(row) for row in found)


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


def newest_numbers(connection: Connection) -> list[int]:
    """Return the number of each pool's last decision, which `decided` compares with."""
    return list(connection.execute(select(func.max(decisions.c.id)).group_by(decisions.c.pool)).scalars())
