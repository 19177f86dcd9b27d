"""The generated files are as their generators write them."""

from difflib import unified_diff
from itertools import islice
from pathlib import Path

import pytest

from tests.lint import none_of
from tools.generate import GENERATORS, ROOT, files_of, main, stale, write

LONGEST = 40  # lines of a difference


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # of a plugin of Apprise
@pytest.mark.parametrize("name", GENERATORS)
def test_make_generate_changes_nothing(name: str) -> None:
    none_of(
        f"{path.relative_to(ROOT)}: run `make generate`, or `.venv/bin/python -m tools.generate {name}`\n"
        + "\n".join(islice(unified_diff(before.split("\n"), (after or "").split("\n"), n=0, lineterm=""), 2, LONGEST))
        for path, before, after in stale(files_of(name))
    )


def test_a_stale_and_a_missing_file_are_written_and_one_too_many_is_removed(tmp_path: Path) -> None:
    kept, changed, missing, surplus = (tmp_path / name for name in ("kept", "changed", "new/missing", "surplus"))
    for path in (kept, changed, surplus):
        path.write_text("as it was\n", encoding="utf-8")
    files = {kept: "as it was\n", changed: "new\n", missing: "new\n", surplus: None, tmp_path / "gone": None}

    assert list(write(files)) == [f"{changed}: written", f"{missing}: written", f"{surplus}: removed"]
    assert list(stale(files)) == []
    assert changed.read_text(encoding="utf-8") == missing.read_text(encoding="utf-8") == "new\n"


def test_an_unknown_generator_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mesages"]) == 2
    assert "unknown: mesages; choose from: dashboards, " in capsys.readouterr().err
