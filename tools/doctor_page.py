"""The table of checks in docs/doctor.md, from the doctor's own areas.

The rest of the page is written by hand. The doctor prints the remedies, so the page leaves them out.
"""

import re
from pathlib import Path

from receiver.doctor import release, smoke
from receiver.doctor.rounds import AREAS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "doctor.md"
WRITTEN = re.compile(r"(?<=<!-- checks -->\n).*?(?=<!-- end of checks -->)", re.DOTALL)


def filled(page: str) -> str:
    """Return *page* with the table as the checks are now."""
    rows = ["", "| check | whether |", "|---|---|"]
    rows += [
        f"| `{check.name}` | {check.looks.removeprefix('whether ')} |"
        for checks in (*(area.checks for area in AREAS), smoke.CHECKS, release.CHECKS)
        for check in checks
    ]
    return WRITTEN.sub(lambda _: "\n".join([*rows, "", ""]), page)


def generated() -> dict[Path, str]:
    """Return the page as it should be."""
    return {PAGE: filled(PAGE.read_text(encoding="utf-8"))}
