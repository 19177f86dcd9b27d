"""Pages of which a part is written by a program."""

from pathlib import Path

import pytest

from tools.written_page import keep


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page that says what it should not any more."""
    path = tmp_path / "faq.md"
    path.write_text("stale\n", encoding="utf-8")
    return path


def called(monkeypatch: pytest.MonkeyPatch, page: Path, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["page", *arguments])
    return keep(page, lambda text: text.replace("stale", "fresh"), "the code")


def test_the_check_says_that_a_page_would_change_and_leaves_it(
    monkeypatch: pytest.MonkeyPatch, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(monkeypatch, page, "--check") == 1
    assert capsys.readouterr().out == "docs/faq.md differs from the code\n"
    assert page.read_text(encoding="utf-8") == "stale\n"


def test_a_page_is_written_once_and_then_is_as_it_should_be(monkeypatch: pytest.MonkeyPatch, page: Path) -> None:
    assert called(monkeypatch, page) == 0
    assert page.read_text(encoding="utf-8") == "fresh\n"
    assert called(monkeypatch, page, "--check") == 0
