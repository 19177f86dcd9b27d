"""The memory of steps: actions (one open at a time per pool, closed once together with its consequences), pools, node
lives and drifts, written where they differ from what is stored."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from sqlalchemy import Connection, Executable, RowMapping, Update, bindparam, case, or_, select, update

from receiver.adapters.store import outbox
from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, Values, fields_of, insert, put, value_of
from receiver.adapters.store.decisions import SqlDecisions
from receiver.adapters.store.figures import HEARTBEAT, PROVISION_BUCKETS, PROVISION_MILLISECONDS, count, marked
from receiver.adapters.store.inbox import NOT_CONSIDERED
from receiver.adapters.store.overrides import NOT_OVER, changes_in_force
from receiver.adapters.store.schema import POOL_BACKOFFS, actions, node_lives, pools
from receiver.adapters.store.schema import drifts as drift_rows
from receiver.adapters.store.usage import charged, seed
from receiver.core.model import memory
from receiver.core.model.actions import Action, ActionKind, Outcome, OutcomeKind, VictimStage
from receiver.core.model.charges import Charged
from receiver.core.model.flights import UNSURE_FOR, Flight, may_have_landed
from receiver.core.model.memory import Memory, NodeLife, PoolMemory
from receiver.core.model.model import Backoff, Drift, Offer
from receiver.core.model.overrides import Override
from receiver.core.model.policy import Taint
from receiver.core.notices.notice import Notice
from receiver.core.scaling.waits import refused_counts
from receiver.ports import StoredAction

TOOK_EFFECT = (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED)
REMOVED = (VictimStage.DELETED, VictimStage.GONE)
# What changes while it is open.
PROGRESS = ("victims", "from_count", "to_count", "attempts", "retry_at", "last_error", "unanswered_at")
GROWTH, REMOVAL, PROVISIONING = POOL_BACKOFFS
LATE = {"late_expected": "target", "late_shown": "shown", "late_since": "sent_at"}  # fields of a flight by column
BACKOFF_OF = {ActionKind.GROW: GROWTH, ActionKind.RETIRE: REMOVAL}
IS_OPEN = actions.c.closed_at.is_(None)
NEWEST_FIRST = select(actions).order_by(actions.c.opened_at.desc(), actions.c.id)
# Open, or closed within an hour of now: later ones were closed under a wrong clock.
RECENT = (
    select(actions)
    .where(
        or_(IS_OPEN, actions.c.closed_at.between(bindparam("since", type_=Moment), bindparam("until", type_=Moment)))
    )
    .order_by(actions.c.closed_at, actions.c.id)
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
        late: Flight | None = None,
    ) -> None:
        with self._write_memory() as connection:
            _close(connection, action, outcome, backoff, late)
            if notice is not None:
                outbox.say(connection, notice, outcome.at)

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
    connection: Connection, action: Action, outcome: Outcome, backoff: Backoff | None, late: Flight | None
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
        effects |= _late_values(late)
    grown = action.kind is ActionKind.GROW and outcome.kind is OutcomeKind.CONFIRMED
    if grown and late is not None:  # Civo still shows the old count, but the new nodes have been requested as of now
        effects["required_since"] = outcome.at
    if effects:
        _write_pool(connection, action, effects)
    if grown and late is None:
        _expect(connection, action, outcome.at)


def _expect(connection: Connection, action: Action, at: datetime) -> None:
    """Store the count that confirmed growth makes Civo show, so that it is not taken for someone else's change. The
    growth also covers a removal that Civo's count did not show yet, even where the number stays the same: its nodes
    have been requested since *at*."""
    lower = pools.c.required < action.to_count
    row = connection.execute(POOLS.where(pools.c.pool == action.pool)).mappings().first()
    late = _late_of(row) if row is not None else None
    values = {
        "required": case((lower, action.to_count), else_=pools.c.required),
        "required_since": case((or_(lower, pools.c.late_since.is_not(None)), at), else_=pools.c.required_since),
        **_late_values(late and late.beside(action)),
    }
    connection.execute(update(pools).where(pools.c.pool == action.pool).values(values))


def _write_pool(connection: Connection, action: Action, values: Values) -> None:
    """Write *values* of the action's pool; a new row gets the count that the action started from."""
    put(connection, pools, {"pool": action.pool, **values}, required=action.from_count)


def changed_since(
    closed: Iterable[StoredAction], lives: Sequence[NodeLife], since: datetime
) -> tuple[int, int, datetime | None]:
    """Return the numbers of nodes added and removed by the *closed* actions that were closed after *since*, and when
    the first of these was closed. Growth counts if it was confirmed, and growth without an answer as far as *lives*
    shows new nodes; a removal counts however its action ended, because the node is gone."""
    grown, removed, moments = Counter[str](), 0, []
    unsure: dict[str, list[StoredAction]] = {}
    for stored in closed:
        action, outcome = stored.action, stored.outcome
        if outcome is None or outcome.at <= since:
            continue
        changed = 0
        if action.kind is ActionKind.RETIRE:
            changed = sum(victim.stage in REMOVED for victim in action.victims)
            removed += changed
        elif outcome.kind is OutcomeKind.CONFIRMED:
            changed = action.to_count - action.from_count
            grown[action.pool] += changed
        elif may_have_landed(action, outcome):
            unsure.setdefault(action.pool, []).append(stored)
        if changed:
            moments.append(outcome.at)
    for pool, requests in unsure.items():
        most = sum(s.action.to_count - s.action.from_count for s in requests)
        new = sum(life.pool == pool and life.created_at > since for life in lives) - grown[pool]
        if new > 0:
            grown[pool] += min(most, new)
            moments += [s.outcome.at for s in requests if s.outcome is not None]
    return grown.total(), removed, min(moments, default=None)


def stored_action(row: RowMapping) -> StoredAction:
    """The action in *row*, with its outcome if it is closed."""
    closed_at = row["closed_at"]
    outcome = None if closed_at is None else Outcome(kind=row["outcome"], at=closed_at, detail=row["detail"])
    return StoredAction(action=value_of(Action, row), outcome=outcome)


def group_values(prefix: str, value: Backoff | None) -> Values:
    """Columns of one of a pool's back-offs; all empty for none."""
    return {f"{prefix}_{name}": getattr(value, name, None) for name in Backoff.__slots__}


def group_of(row: RowMapping, prefix: str) -> Backoff | None:
    """The back-off in these columns, or None."""
    fields = {name: row[f"{prefix}_{name}"] for name in Backoff.__slots__}
    return None if fields["failures"] is None else Backoff(**fields)


def _late_values(late: Flight | None) -> Values:
    return {column: getattr(late, name, None) for column, name in LATE.items()}


def _late_of(row: RowMapping) -> Flight | None:
    if (target := row["late_expected"]) is None:
        return None
    kind = ActionKind.RETIRE if target < row["late_shown"] else ActionKind.GROW
    return Flight(pool=row["pool"], kind=kind, **{name: row[column] for column, name in LATE.items()})


HOUR = timedelta(hours=1)

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
STORED_LIVES = select(*(node_lives.c[name] for name in LIFE)).where(
    node_lives.c.instance.in_(bindparam("instances", expanding=True))
)
LAST_USABLE = (
    select(node_lives.c.created_at, node_lives.c.usable_at)
    .where(node_lives.c.pool == bindparam("of_pool"), node_lives.c.usable_at > node_lives.c.seen_at)
    .order_by(node_lives.c.usable_at.desc())
    .limit(20)
)


class SqlMemory(SqlDecisions):
    """The memory of steps. What was last read is cached, so that a step that sees the same again writes nothing."""

    _charged: Charged | None = None  # as last read

    def memory(self, now: datetime, since: datetime) -> Memory:
        with self._database.read() as connection:
            self._charged = charged(connection, self._charged, now)
            hour = {"since": now - HOUR, "until": now + HOUR}  # later ones were closed under a wrong clock
            recent = [stored_action(row) for row in connection.execute(RECENT, hour).mappings()]
            under_way = {s.action.pool: s.action for s in recent if s.outcome is None}
            pool_rows = {row["pool"]: row for row in connection.execute(POOLS).mappings()}
            # Growth dated further ahead was closed under a wrong clock: its reservation would last as long.
            growth = [
                (s.action, s.outcome)
                for s in recent
                if s.action.kind is ActionKind.GROW and s.outcome is not None and abs(s.outcome.at - now) <= UNSURE_FOR
            ]
            # Drifts of the last two days: three within a day stop scaling for another day.
            drifted: dict[str, tuple[Drift, ...]] = {}
            for row in connection.execute(DRIFTS, {"since": now - timedelta(days=2), "now": now}).mappings():
                drifted[row["pool"]] = (*drifted.get(row["pool"], ()), value_of(Drift, row))
            lives = _lives(connection, LIVES, {"since": since})
            grown, removed, first = changed_since(recent, lives, now - HOUR)
            set_by_people = connection.execute(NOT_OVER, {"now": now}).mappings().all()
            new_memory = Memory(
                pools={
                    pool: _pool(pool_rows.get(pool), under_way.get(pool), drifted.get(pool, ()))
                    for pool in sorted({*pool_rows, *under_way})
                },
                lives=lives,
                grown_last_hour=grown,
                removed_last_hour=removed,
                first_changed_at=first,
                watched_since=min(filter(None, (row["watched_since"] for row in pool_rows.values())), default=None),
                heartbeat_at=marked(connection).get(HEARTBEAT),
                deliveries=tuple(connection.execute(NOT_CONSIDERED).scalars()),
                overrides=tuple(value_of(Override, row) for row in set_by_people if row["ended_at"] is None),
                ran_out_early=tuple(value_of(Override, row) for row in set_by_people if row["ended_at"] is not None),
                charged=self._charged,
                seed=seed(connection, now),
                budget_changes=changes_in_force(connection),
                unanswered=tuple(a for a, outcome in growth if may_have_landed(a, outcome)),
                refused=refused_counts(growth, now),
            )
            self._forget_what_others_follow(connection)
        self._last_read = new_memory
        return new_memory

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
            past_offers = {pool: past.offer for pool, past in last.pools.items()}
            offers = {pool: offer for pool, offer in offers.items() if _differ(past_offers.get(pool), offer)}
            if not (drifts or lives or offers or _are_news(last, required, works)):
                return
        with self._write_memory() as connection:
            _write_counts(connection, required, at)
            for pool, offer in offers.items():
                connection.execute(update(pools).where(pools.c.pool == pool).values(offer=_stored(offer)))
            _write_lives(connection, lives, at)
            if works:
                ended = pools.c.pool.in_(list(works)), pools.c.provisioning_until.is_not(None)
                connection.execute(update(pools).where(*ended).values(group_values(PROVISIONING, None)))
            for pool, drift in (drifts or {}).items():
                new = insert(connection, drift_rows).values({"pool": pool, **fields_of(drift)})
                if connection.execute(new.on_conflict_do_nothing().returning(drift_rows.c.id)).first() is not None:
                    count(connection, "drifts", pool)


def _lives(connection: Connection, query: Executable, values: Values) -> tuple[NodeLife, ...]:
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
        late=_late_of(row),
        drifts=drifted,
        offer=_offer(row["offer"]),
        open_action=open_action,
    )


def _are_news(memory: Memory, required: Mapping[str, int], works: Collection[str]) -> bool:
    """True when counts or working pools differ from *memory*, which equals what the store holds."""
    if any(p.provisioning is not None and pool in works for pool, p in memory.pools.items()):
        return True
    for pool, civo_count in required.items():
        past = memory.pools.get(pool)
        if past is None or past.required_since is None or past.required != civo_count:  # without a time: never seen
            return True
        if past.late is not None and not past.late.explains(civo_count):
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
        usable_rows = connection.execute(LAST_USABLE, {"of_pool": pool})
        took = [max(usable_at - created_at, timedelta(0)) for created_at, usable_at in usable_rows]
        if took:
            connection.execute(update(pools).where(pools.c.pool == pool).values(ready_in=median(took)))


def _write_counts(connection: Connection, required: Mapping[str, int], at: datetime) -> None:
    """Write the counts that changed. One that reaches a late count, or exceeds it, ends that."""
    stored = {row["pool"]: row for row in connection.execute(POOLS).mappings()}
    for pool, civo_count in required.items():
        row = stored.get(pool)
        values: Values = {}
        if row is None or row["required_since"] is None or row["required"] != civo_count:
            values = {"required": civo_count, "required_since": at}
        if row is None or row["watched_since"] is None:
            values["watched_since"] = at
        late = _late_of(row) if row is not None else None
        if late is not None and not late.explains(civo_count):
            values |= _late_values(None)
        if values:
            put(connection, pools, {"pool": pool, **values}, required=civo_count)


def _stored(offer: Offer) -> Values:
    """The row of an *offer*. What older versions do not know stands in a list with its configuration: they take it for
    that of another configuration, and learn anew."""
    row = {name: value for name, value in fields_of(offer).items() if name not in ("since", "others")}
    row["taints"] = [[t.key, t.value, t.effect] for t in offer.taints]
    row["configured"] = [offer.configured, offer.since, [_stored(other) for other in offer.others]]
    return row


def _offer(stored: Mapping[str, Any] | None) -> Offer | None:
    if stored is None:
        return None
    taints = tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in stored["taints"])
    if isinstance(stored["configured"], str):
        return Offer(**{**stored, "taints": taints})
    configured, since, rows = stored["configured"]
    others = tuple(other for row in rows if (other := _offer(row)) is not None)
    return Offer(**{**stored, "taints": taints, "configured": configured, "since": since, "others": others})
