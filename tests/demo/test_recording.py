"""The recording of the demo: a picture of its lines that needs no script and names no place of a machine."""

import re
from pathlib import Path
from xml.etree import ElementTree

from demo.recording import AT_THE_END, HIGH, LONGEST, PICTURE, ROWS, SPEED, Recorder, drawn
from demo.scenario import POOLS
from tests.demo.test_summary import judge
from tests.lint import none_of

LINES = [(0.0, "$ make demo"), (SPEED, "\x1b[1;31malert\x1b[0m a < b"), (SPEED, ""), (1000.0, "the end")]


def frames(picture: str) -> list[tuple[str, str]]:
    """Return percents of the time, and how far down the first line is from then on."""
    return re.findall(r"([\d.]+)%\{transform:translateY\((-?\d+)px\)\}", picture)


def test_each_line_rolls_in_when_it_was_printed_and_long_waits_are_cut() -> None:
    length = 1 + LONGEST + AT_THE_END
    moments = ((0.0, 1), (1.0, 3), (1 + LONGEST, 4))

    assert frames(drawn(LINES)) == [(f"{100 * at / length:.2f}", str((ROWS - n) * HIGH)) for at, n in moments]


def test_without_animation_the_last_lines_are_shown() -> None:
    assert f".roll{{transform:translateY({(ROWS - 4) * HIGH}px);animation" in drawn(LINES)


def test_the_text_is_kept_with_its_colours() -> None:
    texts = [e for e in ElementTree.fromstring(drawn(LINES)).iter() if e.tag.endswith("}text")]

    assert ["".join(e.itertext()) for e in texts] == ["$ make demo", "alert a < b", "the end"]
    assert [span.get("class") for text in texts for span in text] == ["b c31"]


def test_a_line_with_the_folder_of_the_run_is_left_out() -> None:
    recorder = Recorder(Path("/tmp/folder-1"), clock=lambda: 1.0)
    recorder.line("Logs are in /tmp/folder-1")
    recorder.line("pending")

    assert [text for _, text in recorder.lines][1:] == ["pending"]


def test_the_picture_of_the_documentation_shows_a_demo_that_worked() -> None:
    picture = PICTURE.read_text(encoding="utf-8")
    shown = "".join(ElementTree.fromstring(picture).itertext())

    assert len(picture.encode()) < 300_000
    assert not re.search(r"<script|127\.0\.0\.1|FAILED|/tmp/|/home/|url\(", picture)
    assert "every placeable job ran" in shown


def test_the_picture_is_not_older_than_the_checks_of_the_demo_and_its_jobs() -> None:
    shown = "".join(ElementTree.fromstring(PICTURE.read_text(encoding="utf-8")).itertext())
    checks = [check.what.partition(" (")[0] for check in judge().checks]  # without their counts
    none_of(f"{what}: run `make recording`" for what in checks if what not in shown)
    none_of(f"{pool.name}: run `make recording`" for pool in POOLS if f"GPU pool {pool.name}" not in shown)
