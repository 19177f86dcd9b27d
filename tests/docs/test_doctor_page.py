"""docs/doctor.md has every check of the doctor, as the code has it."""

import re

from receiver.doctor import release, smoke
from receiver.doctor.checks import VERDICTS
from receiver.doctor.rounds import AREAS
from tests.docs.pages import section, table, text_of

PAGE = text_of("docs/doctor.md")


def test_every_check_is_named_after_its_area_and_only_once() -> None:
    names = [(area.name, check) for area in AREAS for check in (*area.checks, area.answers)]
    names += [(task, check) for task, known in (("smoke", smoke), ("release", release)) for check in known.CHECKS]
    assert len({check.name for _, check in names}) == len(names)
    assert [check.name for area, check in names if check.name.partition(".")[0] != area] == []


def test_every_verdict_is_explained() -> None:
    told = {row[0].strip("`").lower() for row in table(section(PAGE, "Reading it"))}
    assert told == set(VERDICTS)


def readiness() -> dict[str, tuple[list[str], str]]:
    """Return the checks that each part of the checklist names, and what is not checked, by the part."""
    rows = table(section(PAGE, "Production readiness"))
    return {part: (re.findall(r"`([a-z]+\.(?:[a-z_]+|\*))`", checked), rest) for part, checked, rest in rows}


def test_every_check_that_the_checklist_names_exists() -> None:
    known = {check.name for area in AREAS for check in area.checks}
    known |= {check.name for check in (*smoke.CHECKS, *release.CHECKS)}
    known |= {f"{name.partition('.')[0]}.*" for name in known}
    assert [name for named, _ in readiness().values() for name in named if name not in known] == []


def test_the_checklist_has_the_parts_of_the_field_and_says_of_each_what_is_not_checked() -> None:
    parts = ["Infrastructure", "Scheduling", "Autoscaling", "Monitoring", "Security", "Cost", "Testing"]
    assert list(readiness()) == parts
    assert [part for part, (named, rest) in readiness().items() if not named or not rest] == []


def test_every_area_of_the_doctor_is_in_the_checklist() -> None:
    named = {name.partition(".")[0] for checks, _ in readiness().values() for name in checks}
    assert {area.name for area in AREAS} | {"smoke", "release"} == named
