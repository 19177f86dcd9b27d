"""Tests in forks of one collection: each runs once, and whatever ends a fork is seen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WRITES = """
def test_{name}(tmp_path):
    (tmp_path / "file").touch()
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"{name} {{tmp_path}}\\n")
"""
SESSION = """
import os, pytest
@pytest.fixture(scope="session", autouse=True)
def of_the_session():
    yield
    with open(os.environ["SEEN"], "a") as seen:
        seen.write("over\\n")
"""


def ran(folder: Path, *options: str) -> tuple[int, str, list[str]]:
    """The exit code, the output, and what the tests of *folder* wrote down, with two workers."""
    seen = folder / "seen"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.forked_workers", "--workers", "2", "-c", "/dev/null"]
    command += ["-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={folder}", *options, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SEEN": str(seen)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, seen.read_text().splitlines() if seen.exists() else []


def test_every_test_runs_once_in_a_folder_of_its_own(tmp_path: Path) -> None:
    for number in range(5):
        tests = "".join(WRITES.format(name=f"n{number}_{n}") for n in range(3))
        (tmp_path / f"test_{number}.py").write_text("import os\n" + tests)
    (tmp_path / "conftest.py").write_text(SESSION)

    code, output, seen = ran(tmp_path)

    names, folders = zip(*(line.split() for line in seen if line != "over"), strict=True)
    assert (code, sorted(names)) == (0, [f"n{number}_{n}" for number in range(5) for n in range(3)]), output
    assert len(set(folders)) == len(folders)
    assert seen.count("over") == 2, "a fixture of the session ends once in each worker"
    assert "15 passed" in output


def test_a_failure_is_reported_with_what_its_own_test_printed(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"test_{number}.py").write_text(
            f"import os\ndef test_it():\n    os.write(1, b'printed by {number}')\n    assert {number} == 0\n"
        )

    code, output, _ = ran(tmp_path)

    assert code == 1
    assert "1 failed, 1 passed" in output
    assert "printed by 1" in output
    assert "printed by 0" not in output


@pytest.mark.parametrize("file", ["test_0.py", "test_1.py"])
def test_a_worker_that_dies_fails_the_run_and_names_its_test(tmp_path: Path, file: str) -> None:
    for number in range(2):
        (tmp_path / f"test_{number}.py").write_text("def test_it(): pass\n")
    (tmp_path / file).write_text("import os\ndef test_it(): os._exit(0)\n")

    code, output, _ = ran(tmp_path)

    assert code == 1
    assert f"died in or after {file}::test_it" in output
    assert "1 failed" in output


def test_the_first_failure_ends_the_run_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "test_0.py").write_text("def test_it(): assert False\n")
    (tmp_path / "test_1.py").write_text("import time\ndef test_it(): time.sleep(600)\n" + "def test_more(): pass\n" * 9)

    code, output, _ = ran(tmp_path, "-x")

    assert code == 1
    assert "1 failed in" in output
