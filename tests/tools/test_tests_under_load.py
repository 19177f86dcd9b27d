"""The command that runs the suite several times: it names each test that failed, and keeps what that run printed."""

from pathlib import Path

import pytest

from tools.tests_under_load import failed_in, main

OUTPUT = """
FAILED tests/a.py::test_a[first - second] - assert 1 == 2
FAILED tests/a.py::test_b
ERROR tests/b.py::test_c - OSError: gone
ERROR tests/b.py::test_c - OSError: gone
2 failed, 1 error in 0.10s
"""


def test_each_test_that_failed_or_erred_is_named_once() -> None:
    assert failed_in(OUTPUT) == ("tests/a.py::test_a[first - second]", "tests/a.py::test_b", "tests/b.py::test_c")
    assert failed_in("9 passed in 0.10s") == ()


def test_a_failure_in_a_run_fails_the_command_and_its_output_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_wrong.py").write_text("def test_wrong() -> None:\n    assert 1 == 2\n")
    code = main(["--runs", "1", "--at-once", "1", "--out", str(tmp_path / "out"), str(tmp_path)])
    assert code == 1
    assert "failed in 1 of 1: " in capsys.readouterr().out
    assert "assert 1 == 2" in (tmp_path / "out" / "run-1.txt").read_text()
