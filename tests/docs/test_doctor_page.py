"""docs/doctor.md has every check of the doctor, as the code has it."""

import re

from receiver.doctor import release, smoke
from receiver.doctor.checks import VERDICTS
from receiver.doctor.rounds import AREAS
from tests.docs.pages import section, table, text_of
from tools.doctor_page import filled

PAGE = text_of("docs/doctor.md")


def test_the_table_is_that_of_the_doctor() -> None:
    assert filled(PAGE) == PAGE, "run python -m tools.doctor_page"


def test_every_check_is_named_after_its_area_and_only_once() -> None:
    names = [(area.name, check) for area in AREAS for check in (*area.checks, area.answers)]
    names += [(task, check) for task, known in (("smoke", smoke), ("release", release)) for check in known.CHECKS]
    assert len({check.name for _, check in names}) == len(names)
    assert [check.name for area, check in names if check.name.partition(".")[0] != area] == []


def test_every_verdict_is_explained() -> None:
    told = {row[0].strip("`").lower() for row in table(section(PAGE, "Reading it"))}
    assert told == set(VERDICTS)


def readiness() -> list[tuple[str, list[str]]]:
    """Return each line of the checklist with the checks that its row names."""
    text = PAGE.partition("## Production readiness\n")[2]
    rows = re.findall(r"^\| (?!line |-)(.+?) \| (.+) \|$", text, re.MULTILINE)
    return [(f"{line} | {answer}", re.findall(r"`([a-z]+\.[a-z_]+)`", answer)) for line, answer in rows]


def test_every_line_of_the_checklist_has_a_check_that_exists_or_a_reason_why_not() -> None:
    known = {check.name for area in AREAS for check in area.checks}
    known |= {check.name for check in (*smoke.CHECKS, *release.CHECKS)}
    rows = readiness()
    assert [name for _, named in rows for name in named if name not in known] == []
    assert [row for row, named in rows if not named and " | none: " not in row] == []


def test_the_checklist_has_the_parts_of_the_field() -> None:
    text = PAGE.partition("## Production readiness\n")[2]
    parts = ["Infrastructure", "Scheduling", "Autoscaling", "Monitoring", "Security", "Cost", "Testing"]
    assert re.findall(r"^### (.+)$", text, re.MULTILINE) == parts
    assert len(readiness()) > 50
