"""docs/doctor.md has every check of the doctor, as the code has it."""

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
