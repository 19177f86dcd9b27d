"""The tables of docs/configuration.md are what the model says now, and what the model says is enough to write them."""

from datetime import timedelta
from typing import Any

import pytest

from receiver.config.model import Configuration, Mode
from receiver.config.pools import WindowSpec
from receiver.config.prices import PriceFile
from receiver.config.values import Duration, LongerThanZero, ObjectName, Section, Units, Whole
from tests.docs.pages import section, table, text_of
from tools.configuration_page import filled, keys, kind, meanings

TEXT = text_of("docs/configuration.md")


class Undocumented(Section):
    """A section whose author forgot something."""

    said: Whole = 1
    """how many"""
    unsaid: Whole = 1


def test_the_page_is_as_the_model_is_now() -> None:
    assert filled(TEXT) == TEXT, "run python -m tools.configuration_page"


def test_what_was_changed_by_hand_in_a_table_is_put_right() -> None:
    said = "| `tick` | duration, 1s to 5m (`10s`) |"
    assert said in TEXT
    assert filled(TEXT.replace(said, "| `tick` | duration (`1h`) |")) == TEXT


def test_of_two_tables_a_key_stands_in_the_one_that_names_it_more_closely() -> None:
    pools = [row[0] for row in table(section(TEXT, "Pools"))]
    windows = [row[0] for row in table(section(TEXT, "Windows"))]
    assert [name for name in pools if "windows" in name] == []
    assert all(name.startswith("`pools[].windows[].") for name in windows)


def test_a_key_that_no_table_takes_is_told() -> None:
    with pytest.raises(ValueError, match=r"no table of docs/configuration\.md has tick"):
        filled(TEXT.replace("<!-- keys: cluster_name mode objective tick ", "<!-- keys: cluster_name mode objective "))


def test_a_field_without_a_meaning_is_told() -> None:
    assert meanings(Undocumented) == {"said": "how many"}
    with pytest.raises(ValueError, match=r"Undocumented\.unsaid has no meaning: write one below the field"):
        list(keys(Undocumented))


@pytest.mark.parametrize("model", [Configuration, PriceFile])
def test_a_meaning_is_one_line_that_a_table_can_hold(model: type[Section]) -> None:
    for key in keys(model):
        assert "|" not in key.meaning, key.path
        assert not key.meaning.endswith("."), key.path


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Duration, "duration, or 0"),
        (Whole | None, "count"),
        (tuple[ObjectName, ...], "list of names"),
        (dict[ObjectName, LongerThanZero], "name to duration"),
        (dict[ObjectName, Units], "name to count"),
        (Mode, "`observe` or `act`"),
        (WindowSpec.__annotations__["weekdays"], "list of days or ranges"),
    ],
)
def test_a_type_is_called_as_people_call_it(hint: Any, words: str) -> None:
    assert kind(hint) == words


def test_a_type_that_nobody_named_is_told() -> None:
    with pytest.raises(ValueError, match="does not know what to call"):
        kind(timedelta)
