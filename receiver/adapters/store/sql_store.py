"""The store on SQLite or PostgreSQL: one transaction per call (`receiver.ports.Store` says what each one means)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, select

from receiver.adapters.store import (
    charges,
    decisions,
    grounds,
    inbox,
    ledger,
    notices,
    pruning,
    schema,
    sightings,
    totals,
)
from receiver.adapters.store.budget_changes import SqlBudgets
from receiver.adapters.store.database import Database, Fence, put
from receiver.adapters.store.decision_store import SqlDecisions
from receiver.adapters.store.engines import VARIABLE, database_file, is_in_memory, is_sqlite
from receiver.adapters.store.history import SqlHistory
from receiver.adapters.store.intake import Intake
from receiver.adapters.store.migrate import upgrade
from receiver.adapters.store.outbox import SqlOutbox
from receiver.adapters.store.overrides import SqlOverrides
from receiver.adapters.store.prepared import Query
from receiver.adapters.store.questions import SqlQuestions
from receiver.adapters.store.report_store import SqlReports
from receiver.adapters.store.usage_store import SqlUsage
from receiver.core.model.actions import Action, Decision, Outcome
from receiver.core.model.charges import Charged
from receiver.core.model.control import Control
from receiver.core.model.memory import Memory, NodeLife
from receiver.core.model.model import Backoff, Drift, LateCount, Offer
from receiver.core.model.seed import Seed
from receiver.core.model.signals import Alert
from receiver.core.notices.sentences import Notice
from receiver.ports import Delivery, Grounds, TryLater, WontWork

THE_ONE = 1  # the only row of the snapshot, and of the control state
CONTROL = Query(select(schema.control.c.state).where(schema.control.c.id == THE_ONE))
CONTROL_STATE = TypeAdapter(Control)
SNAPSHOT_AT = Query(select(schema.snapshot.c.at).where(schema.snapshot.c.id == THE_ONE))
SNAPSHOT = Query(select(schema.snapshot.c.picture, schema.snapshot.c.at).where(schema.snapshot.c.id == THE_ONE))


class SqlStore(SqlUsage, SqlOverrides, SqlQuestions, SqlBudgets, SqlReports, SqlHistory, SqlDecisions, SqlOutbox):
    """The durable memory; safe to use from many threads. `receiver.adapters.store.opening` makes one."""

    def __init__(self, database: Database) -> None:
        """Use *database*, whose schema is up to date or is brought up to date by `open`."""
        self._database = database
        self._intake = Intake(self._keep)
        self._picture: tuple[Mapping[str, Any], datetime] | None = None  # as last read
        self._last_read: Memory | None = None  # while it is what pools and lives hold
        self._charged: Charged | None = None  # as last read
        self._written: tuple[Grounds, Mapping[str, bytes]] | None = None  # of the last step that decided anew
        self._newest: int | None = None  # the last decision's number, when `memory` was read
        self._said: dict[str, tuple[int, decisions.Said]] = {}  # each pool's last decision, while that is known

    def fenced(self, fence: Fence) -> "SqlStore":
        """Return the same store for a loop: each of its writes begins with *fence*, which may raise WriterLostError."""
        return SqlStore(self._database.fenced(fence))

    def open(self) -> None:
        """Bring the schema up to date; until then every other call raises TryLater. May be repeated after a failure.

        WontWork when a person must act (a newer schema, a file that is no database); TryLater when the database does
        not answer now, or not with these credentials.
        """
        gate = self._database.gate
        try:
            self._upgrade()
        except (TryLater, WontWork) as error:
            gate.close(f"not open since this process started: {str(error).removeprefix('store: ')}")
            raise
        gate.open()

    def _upgrade(self) -> None:
        try:
            upgrade(self._database)
        except TryLater as error:
            if "file is not a database" in str(error):
                raise WontWork(
                    f"the file that {VARIABLE} names is no SQLite database: name another, or move it away", code="store"
                ) from None
            raise
        except OSError as error:  # the lock file beside the database
            raise WontWork(
                f"cannot write beside the file that {VARIABLE} names: {error.strerror}", code="store"
            ) from error

    def close(self) -> None:
        """Let go of every connection."""
        self._database.close()

    @contextmanager
    def _write_memory(self) -> Iterator[Connection]:
        """Open a transaction that may change what `memory` last returned."""
        self._last_read = None
        with self._database.write() as connection:
            yield connection

    # --- deliveries

    def remember(self, delivery: Delivery, at: datetime) -> int:
        """See Store."""
        return self._intake.remember(delivery, at)

    def _keep(self, received: Sequence[tuple[Delivery, datetime]]) -> Sequence[int]:
        """Keep deliveries in one transaction."""
        with self._database.write() as connection:
            return inbox.remember(connection, received)

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]:
        """See Store."""
        with self._database.read() as connection:
            return inbox.remembered_alerts(connection, since)

    # --- what a step needs

    def memory(self, now: datetime, since: datetime) -> Memory:
        """See Store. Removals of the last hour count however their action ended: the nodes are gone."""
        with self._database.read() as connection:
            found = ledger.memory(connection, now, since)
            newest = decisions.newest(connection)
            self._charged = charges.charged(connection, self._charged, now)
            found = replace(found, charged=self._charged, seed=charges.seed(connection, now))
        if newest != self._newest:  # the first step, or another process stored some
            self._newest, self._said = newest, {}
        self._last_read = found
        return found

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
        """See Store. What equals the last read memory is not compared with the rows again."""
        last_read = self._last_read
        if last_read is not None:
            if not drifts and not sightings.is_news(last_read, lives, required, works, offers or {}):
                return
            lives = sightings.unlike(last_read, lives)
        with self._write_memory() as connection:
            new = sightings.new_offers(last_read, offers or {})
            sightings.saw(connection, lives, required, at, works, drifts or {}, new)

    def keep_charged(self, charged: Charged) -> None:
        """See Store."""
        with self._database.write() as connection:
            charges.keep_charged(connection, charged)

    def keep_seed(self, seed: Seed) -> None:
        """See Store."""
        with self._database.write() as connection:
            charges.keep_seed(connection, seed)

    # --- decisions and actions

    def decided(self, decision: Decision, made_from: Grounds | None = None) -> int:
        """See Store. One that says what the pool's last one said when `memory` was read is not compared again."""
        said, known = decisions.said(decision), self._said.get(decision.pool)
        if known is not None and known[1] == said:
            return known[0]
        with self._database.read() as connection:
            number = decisions.in_force(connection, decision)
        if number is None:
            with self._database.write() as connection:
                number = decisions.decided(connection, decision, self._written_once(made_from))
            if self._newest is not None and number == self._newest + 1:
                self._newest = number
        if self._newest is not None:
            self._said[decision.pool] = number, said
        return number

    def _written_once(self, made_from: Grounds | None) -> Mapping[str, bytes] | None:
        """What *made_from* is kept as; the decisions of a step share it."""
        if made_from is None:
            return None
        if self._written is None or self._written[0] is not made_from:
            self._written = (made_from, grounds.written(made_from))
        return self._written[1]

    def opened(self, action: Action, provisioning: Backoff | None = None) -> bool:
        """See Store."""
        with self._write_memory() as connection:
            return decisions.opened(connection, action, provisioning)

    def progressed(self, action: Action) -> None:
        """See Store."""
        with self._database.write() as connection:
            decisions.progressed(connection, action)

    def closed(
        self,
        action: Action,
        outcome: Outcome,
        backoff: Backoff | None,
        notice: Notice | None = None,
        *,
        late: LateCount | None = None,
    ) -> None:
        """See Store. Withdrawn and superseded actions leave back-off and cooldowns as they are."""
        with self._write_memory() as connection:
            decisions.closed(connection, action, outcome, backoff, late)
            if notice is not None:
                notices.say(connection, notice, outcome.at)

    def stop_removals(self, pool: str, backoff: Backoff, notice: Notice, at: datetime) -> None:
        """See Store."""
        with self._write_memory() as connection:
            decisions.stop_removals(connection, pool, backoff)
            notices.say(connection, notice, at)

    def keep_control(self, control: Control, deliveries: Sequence[int] = ()) -> None:
        """See Store."""
        state = CONTROL_STATE.dump_python(control, mode="json")
        with self._database.write() as connection:
            put(connection, schema.control, {"id": THE_ONE, "at": control.at, "state": state})
            if deliveries:
                inbox.considered(connection, deliveries, control.at)

    def control(self) -> Control | None:
        """See Store."""
        with self._database.read() as connection:
            state = CONTROL.scalar(connection)
        return None if state is None else CONTROL_STATE.validate_python(state)

    # --- what is shown

    def keep_snapshot(self, snapshot: Mapping[str, Any], at: datetime) -> None:
        """See Store."""
        self._picture = None
        with self._database.write() as connection:
            put(connection, schema.snapshot, {"id": THE_ONE, "at": at, "picture": dict(snapshot)})

    def snapshot(self) -> tuple[Mapping[str, Any], datetime] | None:
        """See Store. A step reads it several times: what is kept since the same time is not parsed again."""
        with self._database.read() as connection:
            known = self._picture
            if known is not None and SNAPSHOT_AT.scalar(connection) == known[1]:
                return known
            row = SNAPSHOT.first(connection)
        kept = None if row is None else (row["picture"], row["at"])
        self._picture = kept
        return kept

    def counts(self) -> Mapping[str, Any]:
        """Return totals since the store was created; they do not fall when rows are pruned.

        ``deliveries``: n · ``alerts_by_action``: {action: n}, unknown actions as ``other`` ·
        ``decisions``: {(pool, change): n} · ``actions``: {(pool, kind, outcome): n}, closed ones ·
        ``messages``: {(destination, "delivered" | "failed"): n} ·
        ``notices``: {"pending" | "sent" | "failed": n}, failed are those given up · ``oldest_notice_at``:
        datetime or None, of those pending · ``drifts``: {pool: n} ·
        ``provision_buckets``: {(pool, stage, bucket): n}, each node in its smallest bucket alone, and
        ``provision_milliseconds``: {(pool, stage): sum} (`receiver.core.model.stages` names both) · ``open_actions``:
        {pool: opened_at} · ``last_delivery_at``, ``heartbeat_at``, ``last_step_at`` (the last
        that stored its control state): datetime or None.
        """
        with self._database.read() as connection:
            return totals.counts(connection)

    # --- upkeep

    def check(self) -> None:
        """See Store. It writes: only that finds a full disk or a file that was taken away."""
        self._database.gate.go_through()
        url = self._database.url
        if is_sqlite(url) and not is_in_memory(url) and not database_file(url).exists():
            raise TryLater("store: the database file is gone", code="store")
        with self._database.write() as connection:
            totals.count(connection, "checks")

    def prune(self, now: datetime) -> int:
        """Delete what is too old to matter (`receiver.adapters.store.pruning`); return the number of rows."""
        with self._write_memory() as connection:
            return pruning.prune(connection, now)
