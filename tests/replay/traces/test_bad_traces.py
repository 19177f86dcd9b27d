"""One file per mistake under bad/, with what is said about it beside it; nothing else may be said."""

from pathlib import Path

import pytest

from receiver.cli.replay_run import trace_from_file
from receiver.replay.traces.trace import BadTrace, TraceReading

BAD = Path(__file__).parent / "bad"
FILES = sorted(file for file in BAD.iterdir() if file.suffix != ".txt")


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_mistake_is_said_with_its_place_and_a_remedy_and_nothing_else_is(file: Path) -> None:
    with pytest.raises(BadTrace) as refused:
        trace_from_file(file, TraceReading())
    assert str(refused.value) == file.with_suffix(".txt").read_text().rstrip("\n")


def test_every_message_has_a_place_and_a_remedy() -> None:
    told = [line for file in BAD.glob("*.txt") for line in file.read_text().splitlines()]
    assert len(told) >= len(FILES)
    assert all(": " in line.partition("; ")[0] and line.partition("; ")[2] for line in told)


def test_no_message_lost_its_file() -> None:
    assert {file.stem for file in BAD.glob("*.txt")} == {file.stem for file in FILES}
