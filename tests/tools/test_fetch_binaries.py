"""Which programs the checkout takes, and how it makes an unpacked one find its own files."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.fetch_binaries import BINARIES, VICTORIA_METRICS, Unusable, check_version, with_own_share
from tools.private_apt import AptFailed, fetch

PROMTOOL = next(binary for binary in BINARIES if binary.name == "promtool")


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_program_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    place = _program(tmp_path / "promtool", 'echo "promtool, version 3.1.0 (branch: main, revision: abc)"')

    assert check_version(PROMTOOL, place) == "3.1.0"


def test_the_oldest_version_that_serves_is_taken(tmp_path: Path) -> None:
    place = _program(tmp_path / "promtool", 'echo "promtool, version 2.42.0+ds (branch: debian/sid)" >&2')

    assert check_version(PROMTOOL, place) == "2.42.0+ds"


def test_a_program_that_prints_no_version_has_that_of_its_package(tmp_path: Path) -> None:
    place = _program(tmp_path / "vmalert", "true")
    [vmalert] = [binary for binary in VICTORIA_METRICS.binaries if binary.name == "vmalert"]

    assert check_version(vmalert, place, "1.145.0+ds1-2") == "1.145.0+ds1-2"
    with pytest.raises(Unusable, match=r"is 1\.79\.5\+ds1-2, older than 1\.90"):
        check_version(vmalert, place, "1.79.5+ds1-2")


@pytest.mark.parametrize("version", ["2.41.9", "1.99.0"])
def test_an_older_program_is_refused_with_its_version(tmp_path: Path, version: str) -> None:
    place = _program(tmp_path / "promtool", f'echo "promtool, version {version} (branch: main)"')

    with pytest.raises(Unusable, match=rf"is {version}, older than 2\.42"):
        check_version(PROMTOOL, place)


def test_a_program_that_fails_is_refused_with_what_it_said(tmp_path: Path) -> None:
    place = _program(tmp_path / "promtool", "echo 'cannot find libc' >&2; exit 127")

    with pytest.raises(Unusable, match="cannot find libc"):
        check_version(PROMTOOL, place)


def test_a_program_that_names_the_system_wide_share_reads_the_one_beside_it(tmp_path: Path) -> None:
    share = tmp_path / "with blank"
    share.mkdir()
    (share / "default.tmpl").write_text("a template\n")
    program = _program(tmp_path / "am", 'echo "$@"; cat /usr/share/prometheus/default.tmpl')

    said = subprocess.run([with_own_share(program, share), "--flag", "a b"], capture_output=True, text=True)

    assert said.stdout == "--flag a b\na template\n"


def test_a_program_that_names_no_share_is_started_as_it_is(tmp_path: Path) -> None:
    program = _program(tmp_path / "promtool", "true")

    assert with_own_share(program, tmp_path) == program


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let an apt-get be on PATH that knows the sources given, and writes down those that it is to use instead."""

    def place(sources: str) -> None:
        script = f"""case "$*" in
            *--print-uris*) echo "{sources}" ;;
            *sourcelist*) for o; do case $o in Dir::Etc::sourcelist=*) cp "${{o#*=}}" {tmp_path}/used ;; esac; done ;;
        esac"""
        _program(tmp_path / "apt-get", script)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return place


def test_another_suite_comes_from_the_mirror_that_the_machine_uses(tmp_path: Path, apt: Callable[[str], None]) -> None:
    apt("'http://other/x/dists/a/InRelease' x 0\n'http://mirror/debian/dists/bookworm/InRelease' x 0")

    with pytest.raises(AptFailed, match="brought nothing"):
        fetch(["prometheus"], tmp_path / "state", tmp_path / "into", suite="sid")

    assert (tmp_path / "used").read_text().split()[-3:] == ["http://mirror/debian", "sid", "main"]


def test_a_machine_of_another_distribution_has_no_other_suite(tmp_path: Path, apt: Callable[[str], None]) -> None:
    apt("'http://archive.ubuntu.com/ubuntu/dists/noble/InRelease' x 0")

    with pytest.raises(AptFailed, match="is an archive of Debian"):
        fetch(["prometheus"], tmp_path / "state", tmp_path / "into", suite="sid")
