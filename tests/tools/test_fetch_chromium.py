"""Which Chromium the tests of the pages take, and how an unpacked one finds its libraries and fonts."""

import os
import subprocess
from pathlib import Path

import pytest

from tools import fetch_chromium, private_apt
from tools.fetch_chromium import Unusable, check, write_launcher
from tools.private_apt import AptFailed

RENDERS = 'case "$*" in *--version*) echo "Chromium 156.0.1 built on Debian";; *) echo "<title>it renders";; esac'


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder of its own, a PATH with nothing on it, and no Playwright's cache."""
    monkeypatch.setattr(fetch_chromium, "BUILD", tmp_path / "build")
    monkeypatch.setattr(fetch_chromium, "FOUND", tmp_path / "build" / "chromium.json")
    monkeypatch.setattr(fetch_chromium, "TREE", tmp_path / "build" / "chromium")
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "none"))
    return tmp_path / "build"


def _program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_one_on_the_path_that_renders_is_taken(build: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = _program(build.parent / "path" / "chromium", RENDERS)

    assert fetch_chromium.main() == 0
    assert capsys.readouterr().out.startswith(f"chromium 156.0.1: {place}")


def test_one_that_was_found_before_is_not_asked_again(build: Path) -> None:
    place = _program(build.parent / "path" / "chromium", RENDERS)
    assert fetch_chromium.main() == 0

    _program(place, "exit 1")
    assert fetch_chromium.main() == 0


def test_one_that_playwright_has_fetched_is_taken(
    build: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = _program(build.parent / "pw/chromium_headless_shell-1200/chrome-linux/headless_shell", RENDERS)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(build.parent / "pw"))

    assert fetch_chromium.main() == 0
    assert str(place) in capsys.readouterr().out


def test_an_older_one_is_refused_with_its_version(tmp_path: Path) -> None:
    place = _program(tmp_path / "chromium", 'echo "Chromium 114.0.5735.90"')

    with pytest.raises(Unusable, match=r"is 114\.0\.5735\.90, older than 115"):
        check(place)


def test_one_that_renders_only_without_its_sandbox_is_taken_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    place = _program(tmp_path / "chromium", f'case "$*" in --version|*--no-sandbox*) {RENDERS};; *) exit 1;; esac')

    assert check(place) == ("156.0.1", False)


def test_root_gets_no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert check(_program(tmp_path / "chromium", RENDERS)) == ("156.0.1", False)


def test_where_none_can_be_had_the_remedy_says_why_and_what_to_do(
    build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _program(build.parent / "path" / "chromium", "echo 'no snap here' >&2; exit 7")

    assert fetch_chromium.main() == 1
    said = capsys.readouterr().err
    assert "ended with 7: no snap here" in said
    assert "chromium-headless-shell: apt-get is not on this machine" in said
    assert "playwright install chromium-headless-shell" in said


def test_an_unpacked_one_runs_with_the_libraries_and_fonts_beside_it(tmp_path: Path) -> None:
    tree = tmp_path / "a tree"
    for name in ("usr/lib/x86_64-linux-gnu/libnss3.so", "usr/lib/x86_64-linux-gnu/pulseaudio/libpulse.so.0"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    program = _program(tree / "usr/lib/chromium/shell", 'echo "$LD_LIBRARY_PATH"; cat "$FONTCONFIG_FILE"; echo "$@"')

    said = subprocess.run([write_launcher(program, tree), "--flag", "a b"], capture_output=True, text=True).stdout

    libraries = f"{tree}/usr/lib/x86_64-linux-gnu"
    assert said.splitlines()[0] == f"{libraries}:{libraries}/pulseaudio"
    assert f"<dir>{tree}/usr/share/fonts</dir>" in said
    assert said.endswith("--flag a b\n")


@pytest.mark.parametrize(("whole", "c_library"), [(False, []), (True, ["libc6_2.deb"])])
def test_with_dependencies_the_c_library_is_unpacked_for_a_root_file_system_alone(
    whole: bool, c_library: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt = 'for a in "$@"; do case "$a" in Dir::Cache::archives=*) d=${a#*=};; esac; done\n'
    apt += '[ -z "$d" ] || touch "$d/shell_1.deb" "$d/libnss3_2.deb" "$d/libc6_2.deb"'
    _program(tmp_path / "bin" / "apt-get", apt)
    _program(tmp_path / "bin" / "dpkg", 'echo "$(basename "$2")" >> "$3/unpacked"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    private_apt.fetch(["shell"], tmp_path / "state", tmp_path / "into", with_dependencies=True, whole=whole)

    assert (tmp_path / "into" / "unpacked").read_text().split() == [*c_library, "libnss3_2.deb", "shell_1.deb"]


def test_a_download_that_fails_is_told_with_what_apt_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path / "bin" / "apt-get", "echo 'E: Unable to locate package shell' >&2; exit 100")
    _program(tmp_path / "bin" / "dpkg", "true")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    with pytest.raises(AptFailed, match="Unable to locate package shell"):
        private_apt.fetch(["shell"], tmp_path / "state", tmp_path / "into", with_dependencies=True)
