"""What is printed can be read everywhere: on a terminal, in a file, without UTF-8."""

import io

import pytest

from demo.configs import ROOT
from demo.screen import Screen
from demo.timeline import Event
from tests.demo.seen import BEGAN, at


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def a_colour_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def _shown(out: io.StringIO, *events: Event) -> str:
    screen = Screen(out)
    screen.began = BEGAN
    screen.events(events)
    return out.getvalue()


def test_an_event_is_one_line_with_its_seconds() -> None:
    assert _shown(io.StringIO(), Event(at=at(12.34), kind="civo", text="PUT")) == "  12.3 s  civo     PUT\n"


def test_colours_are_for_terminals_only() -> None:
    event = Event(at=at(1), kind="civo", text="PUT")

    assert "\x1b[" in _shown(Terminal(), event)
    assert "\x1b[" not in _shown(io.StringIO(), event)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    assert "\x1b[" not in _shown(Terminal(), Event(at=at(1), kind="civo", text="PUT"))


def test_long_texts_are_wrapped_under_themselves() -> None:
    lines = _shown(io.StringIO(), Event(at=at(1), kind="notice", text="word " * 40, more=("a body",))).splitlines()

    assert all(len(line) <= 120 for line in lines)
    assert [line[:19].strip() for line in lines[1:]] == [""] * (len(lines) - 1)
    assert lines[-1].strip() == "a body"


def test_a_long_line_of_a_body_keeps_its_indentation() -> None:
    _, *body = _shown(io.StringIO(), Event(at=at(1), kind="notice", text="word", more=("a body " * 40,))).splitlines()

    assert {len(line) - len(line.lstrip()) for line in body} == {len("   1.0 s  notice   ") + 2}
    assert len(body) > 1


def test_a_terminal_without_utf_8_shows_the_rest() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")

    Screen(out).line("pool \N{RIGHTWARDS ARROW} nodes")

    assert raw.getvalue() == b"pool ? nodes\n"


def test_the_place_of_the_checkout_is_not_shown() -> None:
    out = io.StringIO()

    Screen(out).line(f'File "{ROOT}/receiver/cli/main.py"')

    assert out.getvalue() == 'File "./receiver/cli/main.py"\n'
