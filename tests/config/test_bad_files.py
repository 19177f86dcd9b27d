"""One file per mistake under bad/, with what is said about it beside it; nothing else may be said."""

from pathlib import Path

import pytest

from receiver.config import ConfigError, load_file

BAD = Path(__file__).parent / "bad"
FILES = sorted(BAD.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_mistake_is_said_with_its_path_and_a_remedy_and_nothing_else_is(file: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_file(file)
    assert str(refused.value) == file.with_suffix(".txt").read_text().rstrip("\n")


def test_every_message_has_a_remedy() -> None:
    lines = [line for file in BAD.glob("*.txt") for line in file.read_text().splitlines()]
    assert len(lines) >= len(FILES)
    assert all("; " in line for line in lines)


def test_no_message_lost_its_file() -> None:
    assert {file.stem for file in BAD.glob("*.txt")} == {file.stem for file in FILES}
