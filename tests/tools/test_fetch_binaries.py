"""Which programs the checkout does not take, and what it says."""

from pathlib import Path

import pytest

from tools.fetch_binaries import BINARIES, Unusable, check_version

PROMTOOL = next(binary for binary in BINARIES if binary.name == "promtool")


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("version", ["2.41.9", "1.99.0"])
def test_an_older_program_is_refused_with_its_version(tmp_path: Path, version: str) -> None:
    place = _program(tmp_path / "promtool", f'echo "promtool, version {version} (branch: main)"')

    with pytest.raises(Unusable, match=rf"is {version}, older than 2\.42"):
        check_version(PROMTOOL, place)


def test_a_program_that_fails_is_refused_with_what_it_said(tmp_path: Path) -> None:
    place = _program(tmp_path / "promtool", "echo 'cannot find libc' >&2; exit 127")

    with pytest.raises(Unusable, match="cannot find libc"):
        check_version(PROMTOOL, place)
