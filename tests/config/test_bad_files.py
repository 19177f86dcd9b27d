"""One file per mistake under bad/, with what is said about it beside it; nothing else may be said."""

from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

from receiver.config import ConfigError, load_file
from tests.config.builders import one_pool
from tests.lint import none_of

FOLDER = Path(__file__).parent / "bad"


def said(file: Path) -> str:
    """Return what is said about *file*; nothing when it is taken."""
    try:
        load_file(file)
    except ConfigError as error:
        return f"{error}\n"
    return ""


def expected(file: Path) -> str:
    """Return what is written down beside *file*; nothing when nothing is."""
    beside = file.with_suffix(".txt")
    return beside.read_text(encoding="utf-8") if beside.exists() else ""


def differences(folder: Path = FOLDER) -> Iterator[str]:
    """Yield, for each file of *folder* about which something else is said than expected, the difference."""
    for file in sorted(folder.glob("*.yaml")):
        before, after = expected(file), said(file)
        if not after:
            yield f"{file.name}: is taken"
        elif before != after:
            name = file.with_suffix(".txt").name
            yield "\n".join(unified_diff(before.splitlines(), after.splitlines(), name, "said", n=0, lineterm=""))


def test_a_mistake_is_said_with_its_path_and_a_remedy_and_nothing_else_is() -> None:
    """If what is said now is right: python -m tests.config.write, then read the diff."""
    assert len(list(FOLDER.glob("*.yaml"))) > 200
    none_of(differences())


def test_every_file_about_which_something_else_is_said_is_told(tmp_path: Path) -> None:
    for name, text, message in (
        ("right", "- pools\n", expected(FOLDER / "a_list.yaml")),
        ("other", "- pools\n", "the file is not a mapping\n"),
        ("nothing_beside", "- pools\n", ""),
        ("no_mistake", one_pool(), "a mistake; correct it\n"),
    ):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
        (tmp_path / f"{name}.txt").write_text(message, encoding="utf-8")
    assert [told.partition("\n")[0] for told in differences(tmp_path)] == [
        "no_mistake.yaml: is taken",
        "--- nothing_beside.txt",
        "--- other.txt",
    ]


def test_every_message_has_a_remedy() -> None:
    messages = [(file.name, line) for file in sorted(FOLDER.glob("*.txt")) for line in file.read_text().splitlines()]
    none_of(f"{name}: {line}" for name, line in messages if "; " not in line)


def test_no_message_lost_its_file() -> None:
    none_of(file.name for file in sorted(FOLDER.glob("*.txt")) if not file.with_suffix(".yaml").exists())
