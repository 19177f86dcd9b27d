"""Tests that run in forks of one process: each runs once, and no failure is lost."""

import subprocess
import sys
from pathlib import Path

PASSES = "def test_passes(tmp_path):\n    (tmp_path / 'a').touch()\n"
FAILS = "def test_fails(tmp_path):\n    print('its output')\n    assert tmp_path == 'another'\n"
ERRS_AT_THE_END = """
import pytest

@pytest.fixture(scope="session")
def wrong():
    yield
    assert not "torn down"

def test_passes_too(wrong):
    pass
"""


def ran(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of *folder* in two forks."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "tools.forked_tests", "--forks=2", *more]
    return subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)


def test_each_test_runs_once_and_each_failure_is_shown_with_its_output(tmp_path: Path) -> None:
    for number, source in enumerate((PASSES, FAILS, ERRS_AT_THE_END)):
        (tmp_path / f"test_{number}.py").write_text(source)
    done = ran(tmp_path, "-q")
    assert done.returncode == 1
    assert "1 failed, 2 passed, 1 error" in done.stdout
    assert "its output" in done.stdout
    assert "torn down" in done.stdout


def test_a_worker_that_dies_fails_the_run_and_names_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_dies.py").write_text("import os\n\ndef test_a():\n    pass\n\ndef test_b():\n    os._exit(0)\n")
    done = ran(tmp_path)
    assert done.returncode != 0
    assert "ended with 0 in or after" in done.stdout
    assert "test_dies.py::test_b" in done.stdout
