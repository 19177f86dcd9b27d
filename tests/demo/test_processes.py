"""Processes are waited for, and nothing of them stays."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo import processes
from demo.processes import NotStarted, Process, free_port, wait_until
from demo.stack import signals_end_the_block, until_signalled

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(600)
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[str], Process]]:
    made: list[Process] = []

    def start(code: str) -> Process:
        note = tmp_path / "note"
        command = [sys.executable, "-c", code, str(note)]
        made.append(Process("part", command, note.exists, tmp_path / "log", os.environ, tmp_path))
        return made[-1]

    yield start
    for process in made:
        process.kill()


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_stopping_ends_the_children_too(started: Callable[[str], Process], tmp_path: Path) -> None:
    process = started(PARENT)
    process.start(30)
    wait_until(lambda: (tmp_path / "note").read_text() != "", 10, "the child's number")
    child = int((tmp_path / "note").read_text())

    process.stop()

    wait_until(lambda: not _lives(child), 10, "the child ended")
    assert not process.alive


def test_a_part_that_ends_at_once_is_reported_with_its_last_words(started: Callable[[str], Process]) -> None:
    process = started("print('no such file'); raise SystemExit(3)")

    with pytest.raises(NotStarted, match=r"part ended with status 3\nno such file"):
        process.start(30)
    assert process.ended_by_itself


def test_a_part_that_is_never_ready_is_given_up(started: Callable[[str], Process]) -> None:
    process = started("import time; time.sleep(600)")

    with pytest.raises(NotStarted, match=r"not within 0\.3 s"):
        process.start(0.3)


def test_a_part_can_be_started_again(started: Callable[[str], Process]) -> None:
    process = started(PARENT)
    process.start(30)
    first = process.pid
    process.kill()

    process.start(30)

    assert process.alive
    assert process.pid != first


def _be_told_twice() -> None:
    with signals_end_the_block():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # a second one must not cut the clearing up short


def test_a_signal_ends_the_block_once() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt, match="SIGTERM") as told:
        _be_told_twice()

    assert told.value.__context__ is None
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_command_that_is_told_to_stop_clears_up_and_says_by_which_signal() -> None:
    cleared: list[str] = []

    def main() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            cleared.append("up")
        return 0

    assert until_signalled(main) == 128 + signal.SIGTERM
    assert cleared == ["up"]


def test_a_port_is_chosen_once_while_whoever_chose_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    monkeypatch.setattr(processes, "PORTS", range(31000, 31200))
    monkeypatch.setattr(processes, "_chosen", held)
    try:
        assert len({free_port() for _ in range(100)}) == 100
    finally:
        for lock in held:
            os.close(lock)
