"""Values to store, with defaults, and stores on every engine that is there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import QueuePool, create_engine, make_url, text

from demo.postgres import SERVER
from demo.postgres import PostgresProcess as PostgresProcess
from demo.postgres import postgres_process as postgres_process
from demo.postgres import postgres_programs as postgres_programs
from demo.postgres import postgres_server as postgres_server
from receiver.adapters.store import open_store
from receiver.adapters.store.schema import metadata
from receiver.core.model.actions import Action, ActionKind, Decision, Outcome, OutcomeKind, Reason, Verdict, Victim
from receiver.core.model.memory import NodeLife
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert
from receiver.core.notices.notice import Notice
from receiver.ports import Delivery

NOW = datetime(2026, 11, 21, 12, 0, 0, 123457, tzinfo=UTC)
POOL = "5f3c"


def after(**duration: float) -> datetime:
    """NOW and some time."""
    return NOW + timedelta(**duration)


def alert(fingerprint: str = "f1", **changes: Any) -> Alert:
    values: dict[str, Any] = {
        "labels": {"alertname": "GpuPodsPending", "action": "scale_up", "pool": POOL},
        "starts_at": NOW - timedelta(minutes=3),
        "annotations": {"summary": "2 pods wait"},
    }
    return Alert(fingerprint=fingerprint, **{**values, **changes})


def heartbeat(**changes: Any) -> Alert:
    return alert("hb", labels={"alertname": HEARTBEAT_ALERT, "action": "heartbeat"}, **changes)


def delivery(*alerts: Alert, **changes: Any) -> Delivery:
    values: dict[str, Any] = {"receiver": "gpu-autoscaler", "group_key": "{}:{}", "body": '{"version": "4"}'}
    return Delivery(alerts=alerts, **{**values, **changes})


def reason(rule: str = "demand", verdict: Verdict = Verdict.WANTS, target: int = 3, detail: str = "2 pods") -> Reason:
    return Reason(rule=rule, verdict=verdict, target=target, detail=detail)


def decision(**changes: Any) -> Decision:
    values: dict[str, Any] = {"pool": POOL, "at": NOW, "present": 1, "target": 3, "reasons": (reason(),)}
    return Decision(**{**values, **changes})


def grow(number: int = 1, **changes: Any) -> Action:
    values: dict[str, Any] = {
        "id": f"grow-{number}",
        "pool": POOL,
        "kind": ActionKind.GROW,
        "opened_at": NOW,
        "from_count": 1,
        "to_count": 3,
        "reserved_usd": Decimal("2.580"),
    }
    return Action(**{**values, **changes})


def retire(number: int = 1, *victims: Victim, **changes: Any) -> Action:
    return grow(number, **{"id": f"retire-{number}", "kind": ActionKind.RETIRE, "from_count": 3, "to_count": 1,
                           "victims": victims, "reserved_usd": Decimal(0), **changes})  # fmt: skip


def outcome(kind: OutcomeKind = OutcomeKind.CONFIRMED, at: datetime = NOW, detail: str = "done") -> Outcome:
    return Outcome(kind=kind, at=at, detail=detail)


def life(instance: str = "i-1", **changes: Any) -> NodeLife:
    values: dict[str, Any] = {
        "pool": POOL,
        "name": f"node-{instance}",
        "size": "an.g1.l40s.kube.x1",
        "created_at": NOW,
        "seen_at": NOW,
    }
    return NodeLife(instance=instance, **{**values, **changes})


def notice(topic: str = "action:5f3c", key: str = "grow-1", **changes: Any) -> Notice:
    values: dict[str, Any] = {"title": "l40s: 1 -> 3 nodes", "body": "2 pods wait for 2 GPUs.", "cause": "grew"}
    return Notice(topic=topic, key=key, **{**values, **changes})


# --- an SQLite file that was migrated once for all tests


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"
        open_store(f"sqlite:///{file}").close()
        return file.read_bytes()


def migrated(file: Path) -> str:
    """Write an SQLite database without rows to *file* and return its URL: to migrate an empty one takes four times as
    long as most tests that need one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(_migrated())
    return f"sqlite:///{file}"


# --- a PostgreSQL of our own, see `demo.postgres`


@contextmanager
def migrated_server() -> Iterator[str]:
    """Yield the URL of a PostgreSQL database without rows, on a server that may be changed; skip without programs."""
    lent, programs = os.environ.get(SERVER), postgres_programs()
    if lent == "" or programs is None:
        pytest.skip("no PostgreSQL for the tests" if lent == "" else "PostgreSQL's initdb is not installed")
    with postgres_server(programs) if lent is None else nullcontext(_emptied(lent)) as url:
        open_store(url).close()
        yield url


def _emptied(url: str) -> str:
    """*url*, on whose server nothing is left of those who had it before."""
    server = create_engine(
        make_url(url).set(drivername="postgresql+psycopg", database="template1"), isolation_level="AUTOCOMMIT"
    )
    with server.connect() as connection:
        names = "SELECT datname FROM pg_database WHERE NOT datistemplate"
        for name in connection.execute(text(names)).scalars().all():
            connection.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
        roles = "SELECT rolname FROM pg_roles WHERE rolname <> current_user AND rolname NOT LIKE 'pg\\_%'"
        for name in connection.execute(text(roles)).scalars().all():
            connection.execute(text(f'DROP ROLE "{name}"'))
        connection.execute(text("CREATE DATABASE postgres"))
    server.dispose()
    return url


class PostgresServer:
    """A running server; *url* names its own database."""

    def __init__(self, url: str) -> None:
        self.url = url
        # One connection is kept: for each, the server starts a process.
        self._engine = create_engine(
            url.replace("postgresql:", "postgresql+psycopg:"),
            isolation_level="AUTOCOMMIT",
            poolclass=QueuePool,
            pool_size=1,
            pool_pre_ping=True,
        )
        self._emptying = ""

    def run(self, *statements: str) -> None:
        """Run *statements* outside of any transaction."""
        with self._engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))

    def empty(self) -> None:
        """Leave no rows, and number them from 1 again: a DELETE of few rows is quicker than to TRUNCATE all files."""
        if not self._emptying:
            with self._engine.connect() as connection:
                sequences = connection.execute(text("SELECT sequencename FROM pg_sequences")).scalars()
                restarts = [f"ALTER SEQUENCE {name} RESTART" for name in sequences]
            deletions = [f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables)]
            self._emptying = "; ".join([*deletions, *restarts])
        self.run(self._emptying)

    def close(self) -> None:
        self._engine.dispose()
