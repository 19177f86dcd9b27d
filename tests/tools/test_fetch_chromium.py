"""Which Chromium the tests of the pages do not take, and what they say."""

from pathlib import Path

import pytest

from tools import fetch_chromium
from tools.fetch_chromium import Unusable, check


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


def test_an_older_one_is_refused_with_its_version(tmp_path: Path) -> None:
    place = _program(tmp_path / "chromium", 'echo "Chromium 114.0.5735.90"')

    with pytest.raises(Unusable, match=r"is 114\.0\.5735\.90, older than 115"):
        check(place)


def test_where_none_can_be_had_the_remedy_says_why_and_what_to_do(
    build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _program(build.parent / "path" / "chromium", "echo 'no snap here' >&2; exit 7")

    assert fetch_chromium.main() == 1
    said = capsys.readouterr().err
    assert "ended with 7: no snap here" in said
    assert "chromium-headless-shell: apt-get is not on this machine" in said
    assert "playwright install chromium-headless-shell" in said
