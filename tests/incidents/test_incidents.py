"""What the person on call reads in each incident, by the book `incidents.md`."""

from collections.abc import Mapping

from tests.incidents.play import BOOK, INCIDENTS
from tests.lint import none_of

PARTS = BOOK.read_text(encoding="utf-8").split("\n## ")[1:]
SHOWN: Mapping[str, list[str]] = {part.partition("\n")[0]: part.split("\nMessages:\n") for part in PARTS}


def test_the_cause_is_on_the_first_screen() -> None:
    none_of(incident.title for incident in INCIDENTS.values() if incident.cause not in SHOWN[incident.title][0])


def test_the_cause_is_in_a_message_that_says_what_to_do() -> None:
    none_of(
        incident.title
        for incident in INCIDENTS.values()
        if not any(incident.cause in m and "What to do: " in m for m in SHOWN[incident.title][1].split("\n\n"))
    )
