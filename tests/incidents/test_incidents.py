"""What the person on call reads in each incident; `python -m tests.incidents.write` writes the files anew."""

import pytest

from tests.incidents.play import GOLDEN, INCIDENTS, text_of


@pytest.mark.parametrize("name", sorted(INCIDENTS))
def test_screen_and_messages_are_what_the_file_shows(name: str) -> None:
    assert text_of(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(INCIDENTS))
def test_the_cause_is_on_the_first_screen_and_in_a_message_that_says_what_to_do(name: str) -> None:
    text = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    screen, messages = text.partition("## Screen")[2].split("## Messages")
    cause = INCIDENTS[name].cause
    assert cause in screen
    assert any(cause in message and "What to do: " in message for message in messages.split("\n\n"))
