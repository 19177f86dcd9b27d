"""What the person on call reads in each incident, by the book `incidents.md`: one cause and one next step, in the same
words on the page, by `status` and in a message."""

import re
from collections.abc import Iterator, Mapping

from tests.incidents.play import BOOK, INCIDENTS, Incident
from tests.lint import none_of

PARTS = BOOK.read_text(encoding="utf-8").split("\n## ")[1:]
PLACES = ("Page", "Status", "Messages")
SHOWN: Mapping[str, Mapping[str, str]] = {
    part.partition("\n")[0]: dict(zip(PLACES, re.findall(r"```text\n(.*?)\n```", part, re.DOTALL), strict=True))
    for part in PARTS
}
NEXT_STEP = re.compile(
    r"^(To \w+|Look at|What to do|Next)|^ {2}(To \w+|Look at|it tries|answer)|\[(Raise|Approve|What to do|l40s)",
    re.MULTILINE,
)


def shown(place: str) -> Iterator[tuple[Incident, str]]:
    """Yield every incident with what is read of it in that place."""
    for incident in INCIDENTS.values():
        yield incident, SHOWN[incident.title][place]


def test_the_cause_is_named_in_the_same_words_on_the_page_by_status_and_in_a_message() -> None:
    none_of(
        f"{incident.title}: {place}"
        for place in PLACES
        for incident, text in shown(place)
        if not re.search(incident.cause, text, re.IGNORECASE)
    )


def test_there_is_at_most_one_problem_or_warning() -> None:
    many = ((i.title, text) for place in ("Page", "Status") for i, text in shown(place))
    none_of(title for title, text in many if len(re.findall(r"^(?:Problem|Warning)\b", text, re.MULTILINE)) > 1)


def test_there_is_a_next_step_beside_the_cause_or_the_work_goes_on_by_itself() -> None:
    calm = ("on-its-way", "observe", "full-for-seconds", "gang")
    named = {name: SHOWN[incident.title] for name, incident in INCIDENTS.items()}
    none_of(
        f"{name}: {place}"
        for name, texts in named.items()
        for place in PLACES
        if not NEXT_STEP.search(texts[place]) and not (place == "Status" and name in calm)
    )


def test_a_message_that_names_the_cause_says_what_to_do() -> None:
    none_of(
        incident.title
        for incident, text in shown("Messages")
        if not any(re.search(incident.cause, m, re.IGNORECASE) and "What to do: " in m for m in text.split("\n\n"))
    )


def test_no_error_of_another_system_is_the_cause() -> None:
    none_of(incident.title for incident, text in shown("Status") if "gpu_count_exceeded" in text)
