"""One loop writes to a file: the lock is exclusive, ends with its process, and does not outlive our parent."""

import errno
import os
import subprocess
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from receiver.adapters.leader import WriterLock
from tests.adapters.store.processes import forked, hold_the_lock, hold_the_lock_as_an_orphan


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a store in a file, which need not be there."""
    return f"sqlite:///{tmp_path}/state/store.db"


def acquired_before(lock: WriterLock, seconds: float) -> bool:
    """Poll: the kernel drops a lock a moment after its process."""
    deadline = time.monotonic() + seconds
    while not (taken := lock.try_acquire()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return taken


def test_nobody_holds_a_lock_that_was_not_taken(url: str) -> None:
    assert not WriterLock(url).held()


def test_the_first_takes_it_and_the_second_does_not(url: str) -> None:
    first, second = WriterLock(url), WriterLock(url)
    assert (first.try_acquire(), second.try_acquire()) == (True, False)
    assert (first.held(), second.held()) == (True, False)
    first.release()


def test_taking_it_twice_is_taking_it_once(url: str) -> None:
    first, second = WriterLock(url), WriterLock(url)
    assert first.try_acquire()
    assert first.try_acquire()
    first.release()
    assert second.try_acquire()
    second.release()


def test_a_released_lock_is_free_and_no_longer_held(url: str) -> None:
    first, second = WriterLock(url), WriterLock(url)
    first.try_acquire()
    first.release()
    assert not first.held()
    assert second.try_acquire()
    second.release()


def test_another_name_of_the_same_file_is_the_same_lock(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "state" / "store.db")
    first = WriterLock(f"sqlite:///{tmp_path}/state/store.db")
    assert first.try_acquire()
    assert not WriterLock(f"sqlite:///{tmp_path}/link.db").try_acquire()
    assert not WriterLock(f"sqlite:///{tmp_path}/state/../state/store.db").try_acquire()
    first.release()


def test_kill_9_of_its_process_frees_it(url: str) -> None:
    with forked(hold_the_lock, url) as (process, answers):
        assert answers.recv() == (True, True)
        lock = WriterLock(url)
        assert not lock.try_acquire()
        process.kill()
        process.join(30)
    assert acquired_before(lock, 20)
    lock.release()


def test_a_process_started_by_the_holder_does_not_keep_it(url: str) -> None:
    first, second = WriterLock(url), WriterLock(url)
    assert first.try_acquire()
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        first.release()
        assert second.try_acquire()
        child.kill()
    second.release()


def test_an_orphan_no_longer_holds_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = WriterLock(url)
    assert lock.try_acquire()
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert not lock.held()
    assert not lock.try_acquire()
    monkeypatch.undo()
    lock.release()


def test_a_fork_of_the_holder_does_not_hold_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = WriterLock(url)
    assert lock.try_acquire()
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert not lock.held()
    monkeypatch.undo()
    lock.release()


def test_a_worker_whose_parent_died_no_longer_holds_it(url: str) -> None:
    with forked(hold_the_lock_as_an_orphan, url) as (_, answers):
        assert answers.recv() == ((True, True), False)


def test_a_lock_file_that_was_taken_away_no_longer_counts(tmp_path: Path) -> None:
    lock = WriterLock(f"sqlite:///{tmp_path}/store.db")
    assert lock.try_acquire()
    (tmp_path / "store.db.loop.lock").unlink()
    assert not lock.held()  # another process would lock a new file of that name
    assert lock.try_acquire()
    assert lock.held()
    lock.release()


def test_a_lock_file_that_was_replaced_no_longer_counts(tmp_path: Path) -> None:
    old, new = WriterLock(f"sqlite:///{tmp_path}/store.db"), WriterLock(f"sqlite:///{tmp_path}/store.db")
    assert old.try_acquire()
    (tmp_path / "store.db.loop.lock").unlink()
    assert new.try_acquire()
    assert (old.held(), new.held()) == (False, True)
    assert not old.try_acquire()
    new.release()


def test_a_lock_file_that_cannot_be_made_gives_no_lock_and_is_logged(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with capture_logs() as logged:
        assert not WriterLock(f"sqlite:///{tmp_path}/file/store.db").try_acquire()
    assert "cannot open" in logged[0]["error"]


def test_a_disk_that_is_full_keeps_nobody_from_the_lock(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int, _text: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    lock = WriterLock(url)
    monkeypatch.setattr(os, "write", full)
    assert lock.try_acquire()
    assert lock.leader is not None
    assert (lock.leader.name, lock.leader.mine) == (f"process {os.getpid()}", True)
    monkeypatch.undo()
    lock.release()
    another = WriterLock(url)
    assert another.try_acquire()
    another.release()


def test_who_waits_knows_the_process_that_has_the_lock(url: str) -> None:
    first, second = WriterLock(url), WriterLock(url)
    assert second.leader is None
    first.try_acquire()
    for lock, mine in ((first, True), (second, False)):
        assert lock.leader is not None
        assert (lock.leader.name, lock.leader.mine) == (f"process {os.getpid()}", mine)
    first.release()
