"""What survives a kill, who wins a race, and what a broken disk looks like."""

import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import create_engine, func, select, text

from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.database import Database, parse
from receiver.ports import TryLater
from tests.adapters.store.builders import NOW, ROOT, PostgresServer, alert, decision, delivery, grow, start_python

REMEMBER_AND_DIE = """
import os, signal, sys
from receiver.adapters.store import open_store
from tests.adapters.store.builders import NOW, alert, delivery
store = open_store(sys.argv[1])
print(store.remember(delivery(alert("survivor")), NOW), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_delivery_survives_kill_9_right_after_it_was_remembered(url: str) -> None:
    with start_python(REMEMBER_AND_DIE, url) as process:
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    store = open_store(url)
    assert store.memory(NOW, NOW).deliveries == (int(printed),)
    assert [a.fingerprint for a in store.remembered_alerts(NOW.replace(year=2000))] == ["survivor"]
    store.close()


ACKNOWLEDGE_AND_DIE = """
import os, signal, sys, threading
from receiver.adapters.store import open_store
from tests.adapters.store.builders import NOW, alert, delivery
store = open_store(sys.argv[1])
def send():
    while True:
        os.write(1, b"%d\\n" % store.remember(delivery(alert()), NOW))
for _ in range(8):
    threading.Thread(target=send, daemon=True).start()
sys.stdin.read(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_deliveries_of_a_storm_that_were_acknowledged_survive_kill_9(url: str) -> None:
    command = [sys.executable, "-c", ACKNOWLEDGE_AND_DIE, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(100)]
        process.stdin.write("x")
        process.stdin.flush()
        acknowledged += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
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


FULL_DISK = """
import resource, signal, sys
from receiver.adapters.store import open_store
from receiver.ports import TryLater
from tests.adapters.store.builders import NOW, delivery
store = open_store(sys.argv[1])
number = store.remember(delivery(), NOW)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, resource.RLIM_INFINITY))
for attempt in (lambda: store.remember(delivery(body="x" * (1 << 20)), NOW), store.check):
    try:
        attempt()
        print("written")
    except TryLater as error:
        print(f"{error.code} {error}")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.check()
print(store.memory(NOW, NOW).deliveries == (number,))
"""


def test_a_disk_that_takes_no_more_means_try_later_and_loses_nothing(tmp_path: Path) -> None:
    with start_python(FULL_DISK, f"sqlite:///{tmp_path}/store.db") as process:
        printed, _ = process.communicate(timeout=60)
    large, *_, intact = printed.splitlines()
    assert process.returncode == 0
    assert large.startswith("store store: ")
    assert intact == "True"


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
