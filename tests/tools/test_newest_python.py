"""Which Python `make newest` runs its checks with."""

from pathlib import Path

import pytest

from tools import newest_python
from tools.newest_python import newest_of, supported


def program(folder: Path, name: str, says: str) -> Path:
    """A program that answers as a Python of that version would."""
    file = folder / name
    file.write_text(f"#!/bin/sh\necho {says}\n")
    file.chmod(0o755)
    return file


def test_the_newest_that_is_supported_and_released_is_taken(tmp_path: Path) -> None:
    old, new, newer, candidate = (
        program(tmp_path, name, says)
        for name, says in {"a": "3 12 final", "b": "3 13 final", "c": "3 14 final", "d": "3 13 candidate"}.items()
    )
    assert newest_of([old, candidate, new, newer], 13) == (13, new)


def test_what_does_not_run_is_no_python(tmp_path: Path) -> None:
    silent = program(tmp_path, "python3.13", "pyenv: no such version")
    assert newest_of([silent, tmp_path / "missing", tmp_path], 13) is None


def test_without_a_newer_one_it_says_so_and_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(newest_python, "candidates", list)
    assert newest_python.main() == 0
    assert "no Python newer than" in capsys.readouterr().out


def test_the_image_has_the_newest_supported_python_by_default() -> None:
    base = f"ARG BASE=docker.io/library/python:3.{supported()[-1]}-slim-bookworm"
    assert base in (newest_python.ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()


def test_every_version_from_the_oldest_that_is_required_is_named() -> None:
    assert supported() == list(range(11, supported()[-1] + 1))
