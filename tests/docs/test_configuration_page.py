"""The tables of docs/configuration.md are what the model says now, and what the model says is enough to write them."""

import pytest

from receiver.config.model import Configuration
from receiver.config.prices import PriceFile
from receiver.config.values import Section, Whole
from tests.docs.pages import text_of
from tools.configuration_page import keys

TEXT = text_of("docs/configuration.md")


class Undocumented(Section):
    """A section whose author forgot something."""

    said: Whole = 1
    """how many"""
    unsaid: Whole = 1


@pytest.mark.parametrize("model", [Configuration, PriceFile])
def test_a_meaning_is_one_line_that_a_table_can_hold(model: type[Section]) -> None:
    for key in keys(model):
        assert "|" not in key.meaning, key.path
        assert not key.meaning.endswith("."), key.path
