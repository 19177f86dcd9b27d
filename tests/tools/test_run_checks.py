"""What `make test` shows of a test that fails."""

from pathlib import Path

import pytest

from tools import run_checks
from tools.run_checks import Stage, run_tests


def test_a_failure_is_shown_with_the_values_that_it_compared(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fails = "def test_fails():\n    numbers = [1, 2]\n    assert numbers == [1, 3]\n"
    (tmp_path / "test_both.py").write_text(f"{fails}\ndef test_passes():\n    pass\n")
    stages = run_tests("2", ["-o", f"cache_dir={tmp_path}/cache", str(tmp_path)])
    assert [stage.ok for stage in stages] == [False, False]
    output = capfd.readouterr().out
    assert "1 failed, 1 passed in" in output
    assert "1 failed in" in output
    assert "At index 1 diff: 2 != 3" in output


def test_tests_that_pass_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_checks, "run", lambda name, command, *, shown: Stage(name, ok=True, seconds=1.0))
    assert [stage.name for stage in run_tests("1", [])] == ["pytest"]
