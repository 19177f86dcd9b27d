"""What survives a kill, who wins a race, and what a broken disk looks like."""

import os
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import create_engine, func, select, text

from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.database import Database, parse
from receiver.ports import TryLater
from tests.adapters.store.builders import NOW, PostgresServer, alert, decision, delivery, grow
from tests.adapters.store.processes import forked, remember_and_die, remember_for_ever, write_on_a_full_disk


def test_a_delivery_survives_kill_9_right_after_it_was_remembered(url: str) -> None:
    with forked(remember_and_die, url) as (process, answers):
        number = answers.recv()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    store = open_store(url)
    assert store.memory(NOW, NOW).deliveries == (number,)
    assert [a.fingerprint for a in store.remembered_alerts(NOW.replace(year=2000))] == ["survivor"]
    store.close()


def test_deliveries_of_a_storm_that_were_acknowledged_survive_kill_9(url: str) -> None:
    with forked(remember_for_ever, url) as (process, answers), os.fdopen(os.dup(answers.fileno()), "rb") as lines:
        acknowledged = [lines.readline() for _ in range(100)]
        process.kill()
        acknowledged += lines.readlines()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    store = open_store(url)
    kept = set(store.memory(NOW, NOW).deliveries)
    store.close()
    assert {int(number) for number in acknowledged} <= kept


def test_a_commit_is_on_disk_before_it_returns(tmp_path: Path) -> None:
    database = Database(parse(f"sqlite:///{tmp_path}/store.db"))
    with database.write() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA cache_size").scalar() == -512  # kB for each connection
    database.close()


def test_of_many_threads_that_open_an_action_exactly_one_wins(store: SqlStore) -> None:
    together = Barrier(16)

    def open_one(number: int) -> bool:
        together.wait()
        return store.opened(grow(number))

    with ThreadPoolExecutor(16) as threads:
        won = list(threads.map(open_one, range(16)))
    assert won.count(True) == 1
    assert [a.action.id for a in store.actions()] == [f"grow-{won.index(True)}"]


def test_threads_that_remember_and_read_at_once_lose_nothing(store: SqlStore) -> None:
    def work(number: int) -> int:
        store.decided(decision(pool=f"p{number % 4}", target=number))
        store.memory(NOW, NOW)
        return store.remember(delivery(alert(f"f{number}")), NOW)

    with ThreadPoolExecutor(8) as threads:
        numbers = sorted(threads.map(work, range(48)))
    assert store.memory(NOW, NOW).deliveries == tuple(numbers)
    assert store.counts()["deliveries"] == 48


def test_a_lock_held_by_another_process_means_try_later(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db", lock_wait=0.05)
    other = create_engine(f"sqlite:///{tmp_path}/store.db", isolation_level="AUTOCOMMIT")
    with other.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(TryLater, match="store: database is locked") as failed:
            store.remember(delivery(), NOW)
        assert failed.value.code == "store"
        assert store.memory(NOW, NOW).deliveries == ()  # readers do not wait
        connection.exec_driver_sql("ROLLBACK")
    store.remember(delivery(), NOW)
    other.dispose()
    store.close()


def test_a_database_file_that_was_overwritten_means_try_later(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    store.close()
    (tmp_path / "store.db").write_bytes(b"\x00garbage" * 2048)
    with pytest.raises(TryLater, match="store: "):
        store.remember(delivery(), NOW)
    store.close()


def test_a_database_file_that_was_taken_away_fails_the_check(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    store.check()
    (tmp_path / "store.db").unlink()
    with pytest.raises(TryLater, match="the database file is gone"):
        store.check()
    store.close()


def test_a_disk_that_takes_no_more_means_try_later_and_loses_nothing(tmp_path: Path) -> None:
    with forked(write_on_a_full_disk, f"sqlite:///{tmp_path}/store.db") as (_, answers):
        (large, _), intact = answers.recv()
    assert large.startswith("store store: ")
    assert intact


def test_a_server_that_ends_a_session_is_quoted(postgres: PostgresServer) -> None:
    store = open_store(postgres.url)
    with pytest.raises(TryLater, match="terminating connection due to administrator command"):
        end_our_own_session(store)
    store.close()


def end_our_own_session(store: SqlStore) -> None:
    with store._database.read() as connection:
        connection.execute(select(func.pg_terminate_backend(func.pg_backend_pid())))


def test_a_server_that_stops_means_try_later(request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("postgres")
    server.run("CREATE DATABASE stops")
    store = open_store(server.url.removesuffix("/postgres") + "/stops")
    store.check()
    server.run("ALTER DATABASE stops ALLOW_CONNECTIONS false")
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'stops'")
    with pytest.raises(TryLater, match="store: "):
        store.check()
    server.run("ALTER DATABASE stops ALLOW_CONNECTIONS true")
    store.check()  # and it works again without being opened anew
    store.close()
    server.run("DROP DATABASE stops WITH (FORCE)")


def test_a_write_takes_the_lock_of_the_file_at_its_start_and_a_read_never(tmp_path: Path) -> None:
    """A transaction that read first and locked later would fail at once where another process has written."""
    file = tmp_path / "ledger.db"
    with closing(open_store(f"sqlite:///{file}")) as store, closing(sqlite3.connect(file, timeout=0)) as other:
        other.isolation_level = None
        with store._database.write(), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        with store._database.read() as connection:
            connection.execute(text("SELECT count(*) FROM marks"))
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
