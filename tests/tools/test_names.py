"""One name, one thing: public classes of the product."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_two_public_classes_share_a_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file in (ROOT / "receiver").rglob("*.py"):
        for name in re.findall(r"^class ([A-Za-z]\w*)", file.read_text(encoding="utf-8"), re.MULTILINE):
            found[name].append(file.relative_to(ROOT).as_posix())
    assert len(found) > 500
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
