"""Every message as people get it, kept as a file; `python -m tests.core.notices.write` writes them anew."""

import re

import pytest

from receiver.core.notices.notice import Cause, Severity
from tests.core.notices.cases import CASES, GOLDEN, every_golden

MOST_LINES, MOST_CHARACTERS = 12, 900  # one screen of a phone


@pytest.mark.parametrize("name", sorted(every_golden()))
def test_a_message_is_what_its_file_shows(name: str) -> None:
    assert every_golden()[name] == (GOLDEN / name).read_text(encoding="utf-8")


def test_no_file_is_left_of_a_message_that_is_gone() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == set(every_golden())


def test_every_kind_of_news_has_a_message_here() -> None:
    assert {case().cause for case in CASES.values()} == set(Cause)


@pytest.mark.parametrize("name", sorted(every_golden()))
def test_a_message_fits_on_one_screen_of_a_phone(name: str) -> None:
    text = (GOLDEN / name).read_text(encoding="utf-8")
    assert len(text) <= MOST_CHARACTERS
    assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("name", sorted(every_golden()))
def test_a_message_ends_with_where_to_read_what_to_do(name: str) -> None:
    text = (GOLDEN / name).read_text(encoding="utf-8")
    assert text.splitlines()[-1].startswith("What to do: ")


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_time_of_day_names_its_zone(name: str) -> None:
    said = CASES[name]()
    times = re.findall(r"\b\d\d:\d\d(?::\d\d)?\b(?!Z)(.{0,4})", f"{said.title}\n{said.body}")
    assert all(zone == " UTC" for zone in times)


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
