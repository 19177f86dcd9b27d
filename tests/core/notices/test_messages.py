"""What holds of every message of the book."""

import re

from receiver.core.notices.notice import Cause, Severity
from tests.core.notices.book import every_message
from tests.core.notices.cases import CASES
from tests.lint import none_of

MOST_LINES, MOST_CHARACTERS = 12, 900  # one screen of a phone


def test_every_kind_of_news_has_a_message_here() -> None:
    assert {case().cause for case in CASES.values()} == set(Cause)


def test_a_message_fits_on_one_screen_of_a_phone() -> None:
    sizes = {name: (len(text), len(text.splitlines())) for name, text in every_message().items()}
    none_of(
        f"{name}: {characters} characters in {lines} lines"
        for name, (characters, lines) in sizes.items()
        if characters > MOST_CHARACTERS or lines > MOST_LINES
    )


def test_a_message_ends_with_where_to_read_what_to_do() -> None:
    last = {name: text.splitlines()[-1] for name, text in every_message().items()}
    none_of(f"{name}: {line}" for name, line in last.items() if not line.startswith("What to do: "))


def test_a_time_of_day_names_its_zone() -> None:
    time = re.compile(r"\b\d\d:\d\d(?::\d\d)?+(?!Z| UTC).{0,4}")
    notices = {name: case() for name, case in CASES.items()}
    none_of(
        f"{name}: {found}"
        for name, notice in notices.items()
        for found in time.findall(f"{notice.title}\n{notice.body}")
    )


def test_only_what_keeps_work_waiting_or_may_end_it_wakes_a_person() -> None:
    assert {name for name, case in CASES.items() if case().severity is Severity.FAILURE} == {
        "held_by_an_alert",
        "held_by_the_budget",
        "held_by_the_price",
        "installation_with_the_same_pool",
        "installation_with_the_same_pools",
        "not_admitted",
        "out_of_stock_everywhere",
        "prometheus_silent",
        "rights_missing",
        "unanswered",
    }
