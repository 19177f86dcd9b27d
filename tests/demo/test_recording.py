"""The recording of the demo: a picture of its lines that needs no script and names no place of a machine."""

import re
from xml.etree import ElementTree

from demo.recording import PICTURE
from demo.scenario import POOLS
from tests.demo.summaries import a_summary
from tests.lint import none_of


def test_the_picture_of_the_documentation_shows_a_demo_that_worked() -> None:
    picture = PICTURE.read_text(encoding="utf-8")
    shown = "".join(ElementTree.fromstring(picture).itertext())

    assert len(picture.encode()) < 300_000
    assert not re.search(r"<script|127\.0\.0\.1|FAILED|/tmp/|/home/|url\(", picture)
    assert "every placeable job ran" in shown


def test_the_picture_is_not_older_than_the_checks_of_the_demo_and_its_jobs() -> None:
    shown = "".join(ElementTree.fromstring(PICTURE.read_text(encoding="utf-8")).itertext())
    checks = [check.what.partition(" (")[0] for check in a_summary().checks]  # without their counts
    none_of(f"{what}: run `make recording`" for what in checks if what not in shown)
    none_of(f"{pool.name}: run `make recording`" for pool in POOLS if f"GPU pool {pool.name}" not in shown)
