"""The store as the doctor sees it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from receiver.adapters.leader import WriterLock
from receiver.adapters.store import open_store
from receiver.adapters.store.migrate import newest
from receiver.adapters.survey import Schema
from receiver.doctor import store as store_area
from receiver.doctor.checks import Finding, Installation
from receiver.doctor.rounds import go_round
from receiver.doctor.store import AREA, judged
from tests.adapters.store.builders import migrated, migrated_server
from tests.doctor.builders import installation

GIB = 2**30


def found(told: Installation) -> dict[str, Finding]:
    """Return what is no pass, by check."""
    ((_, findings),) = go_round([AREA], told)
    return {f.check: f for f in findings if f.verdict != "pass"}


def at(tmp_path: Path, url: str) -> Installation:
    return installation(tmp_path, GPU_AUTOSCALER_DATABASE_URL=url)


def test_a_store_beside_a_server_that_writes_raises_no_alarm_and_nobody_waits(tmp_path: Path) -> None:
    url = migrated(tmp_path / "state" / "ledger.db")
    store, lock = open_store(url), WriterLock(url)
    try:
        assert lock.try_acquire()
        files = {path.name for path in (tmp_path / "state").iterdir()}
        with closing(sqlite3.connect(tmp_path / "state" / "ledger.db")) as writing:
            writing.execute("BEGIN IMMEDIATE")
            assert found(at(tmp_path, url)) == {}
        assert lock.held()
        assert {path.name for path in (tmp_path / "state").iterdir()} == files
    finally:
        lock.release()
        store.close()


@pytest.fixture(autouse=True)
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is mounted where, as a test writes it: this machine's own may be anything."""
    file = tmp_path / "mounts"
    file.write_text("/dev/a / ext4 rw 0 0\n")
    monkeypatch.setattr(store_area, "MOUNTS", file)
    return file


def test_a_folder_that_is_not_there_fails(tmp_path: Path) -> None:
    finding = found(at(tmp_path, f"sqlite:///{tmp_path}/nowhere/ledger.db"))["store.opens"]
    assert finding.verdict == "fail"
    assert "mount the volume" in finding.remedy


def test_before_the_first_start_there_is_no_file_and_that_is_no_alarm(tmp_path: Path) -> None:
    findings = found(at(tmp_path, f"sqlite:///{tmp_path}/ledger.db"))
    assert {(f.check, f.verdict) for f in findings.values()} == {
        ("store.opens", "skip"),
        ("store.schema", "skip"),
    }
    assert not (tmp_path / "ledger.db").exists()


def test_a_file_that_is_no_database_fails(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"not a database at all" * 100)
    finding = found(at(tmp_path, f"sqlite:///{tmp_path}/ledger.db"))["store.opens"]
    assert finding.verdict == "fail"
    assert "Restore" in finding.remedy


@pytest.mark.parametrize(
    "revision, oldest, verdict",
    [("0000", None, "warn"), ("9999", "0001", "warn"), ("9999", "9998", "fail"), ("9999", None, "fail")],
)
def test_a_schema_of_another_version_is_told(revision: str, oldest: str | None, verdict: str) -> None:
    finding = judged(Schema(revision=revision, newest=newest(), oldest=oldest))
    assert (finding.check, finding.verdict) == ("store.schema", verdict)
    assert finding.remedy


def test_a_column_that_is_missing_fails_and_is_named(tmp_path: Path) -> None:
    url = migrated(tmp_path / "ledger.db")
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.execute("ALTER TABLE pools DROP COLUMN offer")
        connection.execute("DROP INDEX one_open_action_per_pool")
    finding = found(at(tmp_path, url))["store.schema"]
    assert finding.verdict == "fail"
    assert "lacks index one_open_action_per_pool, column pools.offer: the server does not start" in finding.said
    assert "Restore" in finding.remedy


def test_the_schema_of_the_file_is_read(tmp_path: Path) -> None:
    url = migrated(tmp_path / "ledger.db")
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("UPDATE compatibility SET oldest = '9999'")
        connection.commit()
    assert found(at(tmp_path, url))["store.schema"].verdict == "fail"


@pytest.mark.parametrize(
    "writable, free, kind, wanted",
    [
        (True, 9 * GIB, "ext4", None),
        (False, 9 * GIB, "ext4", ("store.writable", "fail")),
        (True, GIB // 2, "ext4", ("store.space", "warn")),
        (True, GIB // 100, "ext4", ("store.space", "fail")),
        (True, 9 * GIB, "nfs4", ("store.file_system", "warn")),
        (True, 9 * GIB, "overlay", ("store.file_system", "warn")),
        (True, 9 * GIB, "", ("store.file_system", "skip")),
    ],
)
def test_a_bad_place_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mounts: Path,
    writable: bool,
    free: int,
    kind: str,
    wanted: tuple[str, str] | None,
) -> None:
    url = migrated(tmp_path / "ledger.db")
    monkeypatch.setattr("os.access", lambda *_: writable)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    mounts.write_text(f"/dev/a / {kind} rw 0 0\n" if kind else "")
    told = [(f.check, f.verdict) for f in found(at(tmp_path, url)).values()]
    assert told == ([wanted] if wanted else [])


def test_the_kind_of_file_system_is_that_of_the_nearest_mount(mounts: Path) -> None:
    mounts.write_text("/dev/a / ext4 rw 0 0\nserver:/x /var/lib nfs4 rw 0 0\n/dev/b /var/lib/my\\040data xfs rw 0 0\n")
    assert store_area.file_system(Path("/var/lib/ledger")) == "nfs4"
    assert store_area.file_system(Path("/var/lib/my data")) == "xfs"
    assert store_area.file_system(Path("/var/library")) == "ext4"


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    """The URL of a migrated PostgreSQL database."""
    with migrated_server() as url:
        yield url


def test_postgres_raises_no_alarm(tmp_path: Path, postgres_url: str) -> None:
    told = at(tmp_path, postgres_url)
    assert {f.verdict for f in found(told).values()} == {"skip"}
    assert set(found(told)) == {"store.space", "store.file_system"}


def test_a_postgres_that_takes_no_writes_fails(tmp_path: Path, postgres_url: str) -> None:
    sign = "&" if "?" in postgres_url else "?"
    read_only = f"{postgres_url}{sign}options=-c%20default_transaction_read_only%3Don"
    assert found(at(tmp_path, read_only))["store.writable"].verdict == "fail"


def test_a_postgres_that_is_away_fails_without_its_password(tmp_path: Path) -> None:
    finding = found(at(tmp_path, "postgresql://us:very-secret-1@127.0.0.1:1/x"))["store.opens"]
    assert finding.verdict == "fail"
    assert "very-secret-1" not in finding.said
