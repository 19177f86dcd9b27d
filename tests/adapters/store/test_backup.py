"""A copy of a store that is in use, restored as docs/operations.md says: what was in it is there, and it goes on."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.ports import Delivery, TryLater
from tests.adapters.store.builders import (
    NOW,
    PostgresServer,
    after,
    delivery,
    grow,
    life,
    migrated,
    notice,
    postgres_programs,
)

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"


def command(word: str) -> list[str]:
    """The one command of the page that has *word* in it."""
    lines = [line.strip() for line in OPERATIONS.read_text(encoding="utf-8").splitlines() if word in line]
    (line,) = [line for line in lines if not line.startswith("kubectl")]  # in a pod it is the same command
    return shlex.split(line)


def run(words: list[str], folder: Path, **variables: str) -> None:
    """Run *words* in *folder* as a shell would."""
    programs = postgres_programs()
    path = f"{programs}:{os.environ['PATH']}" if programs else os.environ["PATH"]
    given: Mapping[str, str] = {**os.environ, "PATH": path, **variables}
    subprocess.run([os.path.expandvars(_filled(w, variables)) for w in words], cwd=folder, env=given, check=True)


def _filled(word: str, variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        word = word.replace(f"${name}", value)
    return word


def fill(store: SqlStore) -> None:
    """What must not be lost."""
    store.remember(delivery(), NOW)
    store.saw([life("i-1")], {"5f3c": 3}, NOW)
    assert store.opened(grow())
    store.say(notice(), NOW)


def holds(store: SqlStore, deliveries: int) -> None:
    """Say that *store* has what `fill` put there and is good for more."""
    memory = store.memory(after(seconds=1), NOW)
    assert memory.deliveries == tuple(range(1, deliveries + 1))
    assert [(past.required, past.open_action) for past in memory.pools.values()] == [(3, grow())]
    assert [kept.instance for kept in memory.lives] == ["i-1"]
    assert [told.notice for told in store.notices_due(NOW)] == [notice()]
    assert store.remember(delivery(), NOW) == deliveries + 1  # a number that was not given yet
    assert not store.opened(grow())


def test_a_copy_of_a_sqlite_file_in_use_is_whole(tmp_path: Path) -> None:
    store = open_store(migrated(tmp_path / "ledger.db"))
    fill(store)
    copy = command(".backup(b)")
    run([sys.executable, *copy[1:]], tmp_path)
    store.remember(Delivery(receiver="later", group_key="", alerts=()), after(minutes=1))
    restored = open_store(f"sqlite:///{tmp_path}/backup.db")
    holds(restored, 1)
    holds(store, 2)
    restored.close()
    store.close()


@pytest.fixture
def two_databases(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The URLs of two databases without tables."""
    server: PostgresServer = request.getfixturevalue("postgres")
    names = ("in_use", "restored")
    for name in names:
        server.run(f"CREATE DATABASE {name}")
    yield tuple(server.url.removesuffix("/postgres") + f"/{name}" for name in names)  # type: ignore[misc]  # two of them
    for name in names:
        server.run(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_dump_of_a_postgresql_in_use_is_whole(two_databases: tuple[str, str], tmp_path: Path) -> None:
    in_use, other = two_databases
    store = open_store(in_use)
    fill(store)
    run(command("pg_dump --format"), tmp_path, GPU_AUTOSCALER_DATABASE_URL=in_use)
    store.remember(delivery(), after(minutes=1))
    broken = open_store(other)
    broken.remember(delivery(), NOW)
    broken.close()
    run(command("DROP SCHEMA"), tmp_path, GPU_AUTOSCALER_DATABASE_URL=other)
    run(command("pg_restore --exit"), tmp_path, GPU_AUTOSCALER_DATABASE_URL=other)
    restored = open_store(other)
    holds(restored, 1)
    holds(store, 2)
    restored.close()
    store.close()


@pytest.mark.parametrize("way", ["as the page says, but for the stop", "by renaming"])
def test_a_copy_put_in_place_under_a_running_process_is_an_outage_and_not_a_loss(tmp_path: Path, way: str) -> None:
    store = open_store(migrated(tmp_path / "ledger.db"))
    fill(store)
    run([sys.executable, *command(".backup(b)")[1:]], tmp_path)
    if way == "by renaming":
        (tmp_path / "backup.db").replace(tmp_path / "ledger.db")
    else:
        for log in ("-wal", "-shm"):
            (tmp_path / f"ledger.db{log}").unlink()
        (tmp_path / "ledger.db").write_bytes((tmp_path / "backup.db").read_bytes())
    for write in (store.check, lambda: store.remember(delivery(), NOW)):
        with pytest.raises(TryLater, match="replaced or removed while this process used it; stop the process"):
            write()
    store.close()


def test_connections_that_all_were_given_up_are_no_reason_to_think_that_a_file_was_replaced(tmp_path: Path) -> None:
    """As after errors of the disk: SQLite deletes its log when nobody has the database open."""
    store = open_store(migrated(tmp_path / "ledger.db"))
    store.check()
    store._database.engine.dispose()
    assert (tmp_path / "ledger.db-wal").exists()  # it is asked for itself: a new one may have the old one's inode
    store.check()
    store.close()


def test_a_store_that_was_closed_takes_the_file_that_is_there(tmp_path: Path) -> None:
    store = open_store(migrated(tmp_path / "ledger.db"))
    store.check()
    store.close()
    migrated(tmp_path / "other.db")
    (tmp_path / "other.db").replace(tmp_path / "ledger.db")
    store.check()
    store.close()
