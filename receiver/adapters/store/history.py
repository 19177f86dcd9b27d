"""History for the pages: samples, turns of nodes, alerts received and messages sent."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, bindparam, func, select

from receiver.adapters.store.columns import Moment
from receiver.adapters.store.database import StorePart, fields_of, insert
from receiver.adapters.store.inbox import alert_of
from receiver.adapters.store.outbox import notice_of
from receiver.adapters.store.schema import alerts, outbox, samples, turns
from receiver.core.explain.samples import Doing, NodeTurn, PoolSample, minute_of
from receiver.ports import Arrival, Told

A_MINUTE = timedelta(minutes=1)
SINCE, UNTIL = bindparam("since", type_=Moment), bindparam("until", type_=Moment)
SAMPLES = (
    select(*(samples.c[name] for name in PoolSample.__slots__))
    .where(samples.c.pool == bindparam("of_pool"), samples.c.at >= SINCE, samples.c.at <= UNTIL)
    .order_by(samples.c.at)
)
COLUMNS = tuple(turns.c[name] for name in NodeTurn.__slots__)
LAST = select(turns.c.instance, func.max(turns.c.at).label("at")).group_by(turns.c.instance)
OF_ALL = LAST.subquery()
LIVING = (  # the last turn of every node that is not gone
    select(*COLUMNS)
    .join(OF_ALL, (OF_ALL.c.instance == turns.c.instance) & (OF_ALL.c.at == turns.c.at))
    .where(turns.c.doing != Doing.GONE.value)
)


class SqlHistory(StorePart):
    """History for the pages. The last turns are cached, so that a minute without changes is one statement."""

    _kept: tuple[datetime, Mapping[str, NodeTurn]] | None = None  # the last minute, and every living node's last turn

    def keep_samples(self, found: Sequence[PoolSample], doing: Sequence[NodeTurn] | None, at: datetime) -> None:
        minute, kept = minute_of(at), self._kept
        if kept is not None and kept[0] == minute:
            return
        with self._database.write() as connection:
            # After a pause another process may have written.
            known = kept[1] if kept is not None and minute - kept[0] == A_MINUTE else _last_turns(connection)
            living = _living(known, doing, minute)
            gone = [_over(turn, minute, Doing.GONE) for instance, turn in known.items() if instance not in living]
            news = [turn for instance, turn in living.items() if known.get(instance) != turn]
            for table, kept_rows in ((samples, found), (turns, (*news, *gone))):
                if kept_rows:  # another process may have stored the same minute
                    statement = insert(connection, table).on_conflict_do_nothing()
                    connection.execute(statement, [fields_of(row) for row in kept_rows])
        self._kept = minute, living

    def samples(self, since: datetime, until: datetime, *, pool: str) -> Sequence[PoolSample]:
        with self._database.read() as connection:
            found = connection.execute(SAMPLES, {"since": since, "until": until, "of_pool": pool})
            return tuple(PoolSample(**row) for row in found.mappings())

    def turns(self, pool: str, since: datetime, until: datetime) -> Sequence[NodeTurn]:
        of_pool = turns.c.pool == pool
        before = LAST.where(of_pool, turns.c.at < since).subquery()
        of_before = (before.c.instance == turns.c.instance) & (before.c.at == turns.c.at)
        with self._database.read() as connection:
            earlier = connection.execute(select(*COLUMNS).join(before, of_before).order_by(turns.c.at)).mappings().all()
            later = select(*COLUMNS).where(of_pool, turns.c.at >= since, turns.c.at <= until).order_by(turns.c.at)
            return tuple(_turn(row) for row in (*earlier, *connection.execute(later).mappings()))

    def arrivals(self, since: datetime, until: datetime, *, limit: int = 500) -> Sequence[Arrival]:
        came = alerts.c.received_at.between(since, until)
        same = alerts.c.fingerprint, alerts.c.starts_at, alerts.c.firing
        first = select(func.min(alerts.c.id)).where(came).group_by(*same)
        query = select(alerts).where(alerts.c.id.in_(first)).order_by(alerts.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            found = connection.execute(query).mappings()
            return tuple(Arrival(alert=alert_of(row), at=row["received_at"]) for row in found)

    def messages(
        self, since: datetime, until: datetime, *, pool: str | None = None, limit: int = 200
    ) -> Sequence[Told]:
        query = select(outbox).where(outbox.c.created_at.between(since, until)).order_by(outbox.c.id.desc())
        if pool is not None:
            query = query.where(outbox.c.pool == pool)
        with self._database.read() as connection:
            return tuple(_message(row) for row in connection.execute(query.limit(limit)).mappings())

    def undelivered(self, *, limit: int = 20) -> Sequence[Told]:
        waits = outbox.c.sent_at.is_(None), outbox.c.given_up_at.is_(None)
        with self._database.read() as connection:
            found = connection.execute(select(outbox).where(*waits).order_by(outbox.c.id).limit(limit))
            return tuple(_message(row) for row in found.mappings())


def _living(known: Mapping[str, NodeTurn], found: Sequence[NodeTurn] | None, minute: datetime) -> dict[str, NodeTurn]:
    """Each living node's turn: the known one continues unless the node does something else now."""
    if found is None:
        found = [_over(turn, minute, Doing.UNKNOWN) for turn in known.values()]
    living: dict[str, NodeTurn] = {}
    for turn in found:
        before = known.get(turn.instance)
        goes_on = before is not None and (before.doing, before.pool) == (turn.doing, turn.pool)
        living[turn.instance] = before if before is not None and goes_on else turn
    return living


def _over(turn: NodeTurn, at: datetime, doing: Doing) -> NodeTurn:
    return NodeTurn(instance=turn.instance, pool=turn.pool, at=at, doing=doing)


def _last_turns(connection: Connection) -> dict[str, NodeTurn]:
    """The last turn of every node that is not gone."""
    return {row["instance"]: _turn(row) for row in connection.execute(LIVING).mappings()}


def _turn(row: RowMapping) -> NodeTurn:
    return NodeTurn(**{**row, "doing": Doing(row["doing"])})


def _message(row: RowMapping) -> Told:
    return Told(
        id=row["id"],
        notice=notice_of(row),
        at=row["created_at"],
        attempts=row["attempts"],
        sent_at=row["sent_at"],
        given_up_at=row["given_up_at"],
        last_error=row["last_error"],
    )
